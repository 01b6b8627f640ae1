//! Checks the files of a command before anything is written: an output must not be the same file as an input or another
//! output, under whatever name.

use std::path::Path;

use weir_net::file::Identity;

use crate::error::CliError;

/// A file that the command line, or a file named there, refers to; `-` is a stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NamedFile<'a> {
    pub(crate) flag: &'static str,
    pub(crate) path: &'a Path,
    /// Whether the command overwrites or removes it.
    pub(crate) is_written: bool,
}

impl NamedFile<'_> {
    fn identity(&self) -> Option<Identity> {
        match self.path.as_os_str() == "-" {
            true => Identity::of_stream(self.is_written.into()),
            false => Identity::of_path(self.path),
        }
    }
}

/// Refuses files if one would be written over another.
///
/// # Errors
/// [`CliError::Flag`] with the later flag and both files.
pub(crate) fn apart(files: &[NamedFile<'_>]) -> Result<(), CliError> {
    let identities: Vec<_> = files.iter().map(NamedFile::identity).collect();
    for (later, named) in files.iter().enumerate() {
        for (earlier, other) in files[..later].iter().enumerate() {
            let is_one = identities[later].is_some() && identities[later] == identities[earlier];
            if is_one && (named.is_written || other.is_written) {
                let given = named.path.display();
                let accepted = format!("a file other than that of {}", other.flag);
                return Err(CliError::flag(named.flag, given.to_string(), &accepted));
            }
        }
    }
    Ok(())
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
    fn one_file_under_two_names_is_refused_and_nothing_is_created() {
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
            let refused = apart(&[read(&path(a)), written(&path(b))]).unwrap_err().refusal();
            assert_eq!(refused.field.as_deref(), Some("--out"), "{a} {b}");
            assert!(refused.accepted.unwrap().ends_with("--in"), "{a} {b}");
            assert!(apart(&[written(&path(a)), written(&path(b))]).is_err(), "{a} {b}");
        }
        assert!(!path("new").exists());
        assert!(apart(&[read(&path("file")), read(&path("hard"))]).is_ok(), "reading twice");
        assert!(apart(&[read(&path("file")), written(&path("new"))]).is_ok());
        let null = Path::new("/dev/null");
        assert!(apart(&[read(null), written(null)]).is_ok(), "a device");
    }
}
