//! Checks the files that a command reads and writes before anything is written: an output must not be an input,
//! nor may two outputs be one file, by any name.

use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use weir_net::output::MAX_LINKS;

use super::args::LawArgs;
use crate::error::CliError;

/// What a name, or a stream, leads to. Devices and pipes are nothing that could be lost: they have none.
#[derive(Debug, PartialEq, Eq)]
enum Identity {
    /// A regular file: device and inode.
    File(u64, u64),
    /// A file that is not there yet.
    Place(PathBuf),
}

/// A file that is named on the command line, or by what it names; `-` is a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedFile<'a> {
    pub(crate) flag: &'static str,
    pub(crate) path: &'a Path,
    /// Whether it is overwritten, or removed.
    pub(crate) is_written: bool,
}

impl NamedFile<'_> {
    fn identity(&self) -> Option<Identity> {
        if self.path.as_os_str() != "-" {
            return of_path(self.path);
        }
        let descriptor = match self.is_written {
            true => std::io::stdout().as_fd().try_clone_to_owned(),
            false => std::io::stdin().as_fd().try_clone_to_owned(),
        };
        std::fs::File::from(descriptor.ok()?).metadata().ok().as_ref().and_then(of_metadata)
    }
}

/// The packet trace's own two files: later configurations are next to it, and those of an earlier packet trace are removed.
pub(super) fn packet_trace(path: &Path) -> (NamedFile<'_>, PathBuf) {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".configurations");
    (NamedFile { flag: "--packet-trace", path, is_written: true }, beside.into())
}

/// Refuses a packet trace that is no file with a place for its second one, or a directory.
///
/// # Errors
/// [`CliError::Flag`] with what was given.
pub(super) fn packet_trace_is_file(path: &Path) -> Result<(), CliError> {
    let given = match path.as_os_str() == "-" {
        true => "-".into(),
        false if path.is_dir() => format!("{} is a directory", path.display()),
        false => return Ok(()),
    };
    let accepted = "a file; later configurations are written to FILE.configurations";
    Err(CliError::flag("--packet-trace", given, accepted))
}

/// Refuses a packet trace that is no file, and one that is, itself or by its second file, the file of laws.
///
/// # Errors
/// As [`packet_trace_is_file`] and [`apart`].
pub(super) fn packet_trace_apart(laws: &LawArgs, path: Option<&Path>) -> Result<(), CliError> {
    let Some(path) = path else { return Ok(()) };
    packet_trace_is_file(path)?;
    let Some(config) = &laws.config else { return Ok(()) };
    let (packet_trace, beside) = packet_trace(path);
    let config = NamedFile { flag: "--config", path: config, is_written: false };
    apart(&[
        config,
        packet_trace,
        NamedFile { flag: "--packet-trace", path: &beside, is_written: true },
    ])
}

/// Refuses files of which one would be written over another.
///
/// # Errors
/// [`CliError::Flag`] that names the later flag and both files.
pub(crate) fn apart(files: &[NamedFile<'_>]) -> Result<(), CliError> {
    let identities: Vec<_> = files.iter().map(NamedFile::identity).collect();
    for (later, named) in files.iter().enumerate() {
        for (earlier, other) in files[..later].iter().enumerate() {
            let is_one = identities[later].is_some() && identities[later] == identities[earlier];
            if is_one && (named.is_written || other.is_written) {
                let given = named.path.display();
                let accepted = format!("another file than that of {}", other.flag);
                return Err(CliError::flag(named.flag, given.to_string(), &accepted));
            }
        }
    }
    Ok(())
}

fn of_metadata(metadata: &Metadata) -> Option<Identity> {
    metadata.is_file().then(|| Identity::File(metadata.dev(), metadata.ino()))
}

fn of_path(path: &Path) -> Option<Identity> {
    if let Ok(metadata) = path.metadata() {
        return of_metadata(&metadata);
    }
    // Not there: what it would be made as, at the end of links that lead nowhere yet.
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = path.read_link() else { break };
        path = path.parent().unwrap_or(Path::new("")).join(target);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new(".")).canonicalize().ok()?;
    Some(Identity::Place(directory.join(path.file_name()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> NamedFile<'_> {
        NamedFile { flag: "--in", path, is_written: false }
    }

    fn written(path: &Path) -> NamedFile<'_> {
        NamedFile { flag: "--out", path, is_written: true }
    }

    #[test]
    fn one_file_by_two_names_is_refused_and_nothing_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "x").unwrap();
        std::fs::hard_link(path("file"), path("hard")).unwrap();
        std::os::unix::fs::symlink("file", path("soft")).unwrap();
        std::os::unix::fs::symlink("new", path("dangling")).unwrap();
        std::os::unix::fs::symlink("dangling", path("further")).unwrap();
        for (a, b) in [
            ("file", "file"),
            ("file", "hard"),
            ("soft", "hard"),
            ("new", "new"),
            ("new", "further"),
            ("dangling", "./new"),
        ] {
            let refused = apart(&[read(&path(a)), written(&path(b))]).unwrap_err().chain();
            assert!(refused.contains("--out") && refused.contains("--in"), "{a} {b}: {refused}");
            assert!(apart(&[written(&path(a)), written(&path(b))]).is_err(), "{a} {b}");
        }
        assert!(!path("new").exists());
        assert!(apart(&[read(&path("file")), read(&path("hard"))]).is_ok(), "reading twice");
        assert!(apart(&[read(&path("file")), written(&path("new"))]).is_ok());
        let null = Path::new("/dev/null");
        assert!(apart(&[read(null), written(null)]).is_ok(), "a device");
    }

    #[test]
    fn a_packet_trace_is_a_file_whether_or_not_there_is_one_of_laws() {
        let dir = tempfile::tempdir().unwrap();
        let laws = LawArgs::default();
        for (given, word) in
            [(Path::new("-"), "--packet-trace: -;"), (dir.path(), "is a directory")]
        {
            let error = packet_trace_apart(&laws, Some(given)).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            assert!(error.chain().contains(word), "{}", error.chain());
            assert!(error.chain().contains("accepted: a file"), "{}", error.chain());
        }
        assert!(packet_trace_apart(&laws, Some(&dir.path().join("new"))).is_ok());
        // A name with a directory is one like others.
        assert!(packet_trace_apart(&laws, Some(Path::new("./-"))).is_ok());
    }

    #[test]
    fn a_packet_trace_has_a_second_file() {
        let (named, beside) = packet_trace(Path::new("a/j"));
        assert_eq!((named.flag, named.is_written), ("--packet-trace", true));
        assert_eq!(beside, Path::new("a/j.configurations"));
    }
}
