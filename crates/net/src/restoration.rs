//! The fallback of the [`watchdog`](crate::watchdog): offloads are listed in a file before they are switched off. The watchdog
//! removes the file after it has switched them on again; where program and watchdog were both killed, the next start does so.
//!
//! A file counts only if it is of this boot, of this network namespace and of a process that has ended. Only features that
//! the caller names are switched on, on an interface that still has the listed index and name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::interface;
use crate::namespace::{NetNamespace, boot_id, process_start_time};

const SCHEMA: &str = "weir.restoration/1";
const PREFIX: &str = "offloads-";
const SUFFIX: &str = ".restoration";
/// Maximum length of a file that is read.
const MAX_BYTES: usize = 64 << 10;
/// Maximum number of files that are read.
const MAX_FILES: usize = 1024;

/// An offload that was on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Index of its interface.
    pub index: u32,
    /// Name of its interface.
    pub interface: String,
    /// Its name as the kernel spells it.
    pub feature: String,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    boot: String,
    process: (u32, u64),
    namespace: (u64, u64),
    noted: Vec<Noted>,
}

impl Content {
    /// The content for this process, in the calling thread's network namespace.
    fn new(noted: Vec<Noted>) -> io::Result<Self> {
        let missing = || io::Error::other("/proc has no entry for this process");
        let pid = std::process::id();
        Ok(Content {
            boot: boot_id().ok_or_else(missing)?,
            process: (pid, process_start_time(pid).ok_or_else(missing)?),
            namespace: here()?,
            noted,
        })
    }

    fn to_text(&self) -> String {
        let Content { boot, process, namespace, noted } = self;
        let mut out = format!("{SCHEMA}\nboot {boot}\nprocess {} {}\n", process.0, process.1);
        out += &format!("namespace {} {}\n", namespace.0, namespace.1);
        for Noted { index, interface, feature } in noted {
            out += &format!("feature {index} {interface} {feature}\n");
        }
        out
    }

    /// `None` for what [`Self::to_text`] does not write.
    fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut lines = text.lines();
        if lines.next()? != SCHEMA {
            return None;
        }
        let boot = lines.next()?.strip_prefix("boot ")?.to_owned();
        let process = pair(lines.next()?.strip_prefix("process ")?)?;
        let namespace = pair(lines.next()?.strip_prefix("namespace ")?)?;
        let noted = lines.map(|line| {
            let mut words = line.strip_prefix("feature ")?.split(' ');
            let noted = Noted {
                index: words.next()?.parse().ok()?,
                interface: words.next().filter(|name| is_interface_name(name))?.to_owned(),
                feature: words.next().filter(|name| is_feature_name(name))?.to_owned(),
            };
            words.next().is_none().then_some(noted)
        });
        let noted = noted.collect::<Option<Vec<_>>>()?;
        let process = (u32::try_from(process.0).ok()?, process.1);
        let content = Content { boot, process, namespace, noted };
        // Exactly what `to_text` writes.
        (content.to_text() == text).then_some(content)
    }

    /// Whether its process is running.
    fn is_alive(&self) -> bool {
        process_start_time(self.process.0) == Some(self.process.1)
    }
}

fn pair(text: &str) -> Option<(u64, u64)> {
    let (one, other) = text.split_once(' ')?;
    Some((one.parse().ok()?, other.parse().ok()?))
}

/// The kernel's rule: less than IFNAMSIZ bytes, no slash, colon or white space.
fn is_interface_name(name: &str) -> bool {
    let is_bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    (1..=15).contains(&name.len()) && !name.contains(is_bad)
}

fn is_feature_name(name: &str) -> bool {
    (1..=31).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

/// Device and inode of the calling thread's network namespace.
fn here() -> io::Result<(u64, u64)> {
    let id = NetNamespace::current().and_then(|n| n.id());
    id.map(|id| (id.device, id.inode)).map_err(|e| io::Error::other(e.to_string()))
}

/// A file of offloads that are being switched off. When dropped, it switches them on again and removes the file.
#[derive(Debug)]
pub struct Restoration {
    path: PathBuf,
    noted: Vec<Noted>,
}

impl Restoration {
    /// Lists which of `features` are on and changeable at `interfaces` of the calling thread's network namespace, in a file in
    /// `directory`. Without any there is no file. A missing interface has none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(directory: &Path, interfaces: &[&str], features: &[&str]) -> io::Result<Self> {
        let mut noted = Vec::new();
        for name in interfaces {
            let Ok(found) = interface::interface(name) else { continue };
            let all = interface::offloads(name).unwrap_or_default();
            let on = all
                .into_iter()
                .filter(|f| f.active && f.changeable && features.contains(&f.name.as_str()));
            noted.extend(on.map(|f| Noted {
                index: found.index,
                interface: found.name.clone(),
                feature: f.name,
            }));
        }
        noted.retain(|n| is_interface_name(&n.interface) && is_feature_name(&n.feature));
        let path = directory.join(format!("{PREFIX}{}{SUFFIX}", std::process::id()));
        if !noted.is_empty() {
            let text = Content::new(noted.clone())?.to_text();
            // Left by an ended process of the same number; stale files were restored before.
            let _ = fs::remove_file(&path);
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            options.open(&path)?.write_all(text.as_bytes())?;
        }
        Ok(Self { path, noted })
    }
}

impl Restoration {
    /// The file, for [`RestoreAction::RemoveFile`](crate::watchdog::RestoreAction::RemoveFile); `None` where nothing is listed.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        (!self.noted.is_empty()).then_some(&self.path)
    }

    /// Removes features that are still on from the file, after the others were switched off: another program switches them off
    /// if they are off later.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn settle(&mut self) -> io::Result<()> {
        let before = self.noted.len();
        self.noted.retain(|noted| {
            let features = interface::offloads(&noted.interface).unwrap_or_default();
            !features.iter().any(|f| f.name == noted.feature && f.active)
        });
        if self.noted.len() == before {
            return Ok(());
        }
        if self.noted.is_empty() {
            return fs::remove_file(&self.path);
        }
        // The same file, which the watchdog knows.
        fs::write(&self.path, Content::new(self.noted.clone())?.to_text())
    }
}

impl Drop for Restoration {
    fn drop(&mut self) {
        // Without the file the watchdog has restored them; what is off now was switched off by another program.
        if self.noted.is_empty() || !self.path.exists() {
            return;
        }
        if self.noted.iter().all(|noted| switch_on(noted).is_ok()) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Switches on those of `features` that killed processes left off, by their files in `directory`. Removes files that are
/// stale or done. Returns what was switched on.
pub fn restore(directory: &Path, features: &[&str]) -> Vec<Noted> {
    let (Some(boot), Ok(here)) = (boot_id(), here()) else { return Vec::new() };
    let mut stale = Vec::new();
    let mut in_use = Vec::new();
    for path in files(directory) {
        match read(&path) {
            // Invalid, or of an earlier boot with other interfaces.
            None => drop(fs::remove_file(&path)),
            Some(content) if content.boot != boot => drop(fs::remove_file(&path)),
            Some(content) if content.namespace != here => {}
            Some(content) if content.is_alive() => {
                in_use.extend(content.noted.iter().map(|noted| noted.index));
            }
            Some(content) => stale.push((path, content)),
        }
    }
    let mut restored = Vec::new();
    for (path, content) in stale {
        // A running emulator needs them off.
        if content.noted.iter().any(|noted| in_use.contains(&noted.index)) {
            continue;
        }
        let mut is_done = true;
        for noted in content.noted {
            if features.contains(&noted.feature.as_str()) {
                match switch_on(&noted) {
                    Ok(true) => restored.push(noted),
                    Ok(false) => {}
                    Err(_) => is_done = false,
                }
            }
        }
        if is_done {
            let _ = fs::remove_file(&path);
        }
    }
    restored
}

/// Switches an offload on; returns whether it was off. Nothing is done for an interface that was removed or has
/// another index now.
fn switch_on(noted: &Noted) -> crate::Result<bool> {
    let all = interface::interfaces()?;
    if !all.iter().any(|i| i.index == noted.index && i.name == noted.interface) {
        return Ok(false);
    }
    let features = interface::offloads(&noted.interface)?;
    if !features.iter().any(|f| f.name == noted.feature && f.changeable && !f.active) {
        return Ok(false);
    }
    interface::set_offload(&noted.interface, &noted.feature, true).map(|()| true)
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    entries.map(|entry| entry.path()).filter(is_ours).take(MAX_FILES).collect()
}

/// The content of a file; `None` for one that can't be read or parsed.
fn read(path: &Path) -> Option<Content> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Content::parse(std::str::from_utf8(&bytes).ok()?)
}

/// Fuzz body: no bytes make the parser panic; what it accepts it also writes, and has only names that the kernel
/// accepts.
pub fn fuzz_restoration(data: &[u8]) {
    let Some(content) = std::str::from_utf8(data).ok().and_then(Content::parse) else { return };
    for noted in &content.noted {
        assert!(is_interface_name(&noted.interface) && is_feature_name(&noted.feature));
    }
    assert_eq!(Content::parse(&content.to_text()), Some(content));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(index: u32, interface: &str, feature: &str) -> Noted {
        Noted { index, interface: interface.into(), feature: feature.into() }
    }

    #[test]
    fn only_what_was_written_is_read() {
        let content = Content::new(vec![noted(2, "eth0", "rx-gro"), noted(3, "ä", "rx-lro")]);
        let content = content.unwrap();
        let text = content.to_text();
        assert_eq!(Content::parse(&text), Some(content.clone()));
        assert!(content.is_alive());
        let gone = Content { process: (content.process.0, content.process.1 + 1), ..content };
        assert!(!gone.is_alive());
        for (from, to) in [
            (SCHEMA, "weir.restoration/2"),
            ("feature 2", "feature x"),
            ("feature 2", "feature -2"),
            ("eth0", "../eth0"),
            ("eth0", "a-name-of-16-byte"),
            ("eth0", "eth0 eth1"),
            ("eth0", ""),
            ("rx-gro", "rx-gro\0"),
            ("rx-gro", "RX"),
            ("process ", "process -"),
            ("namespace ", "namespace"),
            ("boot ", "boat "),
        ] {
            assert_ne!(text.replacen(from, to, 1), text);
            assert_eq!(Content::parse(&text.replacen(from, to, 1)), None, "{from} {to}");
        }
        assert_eq!(Content::parse(&(text + &"feature 2 eth0 rx-gro\n".repeat(4000))), None);
    }

    #[test]
    fn invalid_and_stale_files_are_removed() {
        let directory =
            std::env::temp_dir().join(format!("weir-restoration-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let path = |name: &str| directory.join(format!("{PREFIX}{name}{SUFFIX}"));
        let mut content = Content::new(vec![noted(1, "lo", "rx-gro")]).unwrap();
        let own = content.to_text();
        content.process.1 += 1;
        let stale = content.to_text();
        let write = |name: &str, text: &str| fs::write(path(name), text).unwrap();
        write("long", &"x".repeat(MAX_BYTES + 1));
        write("words", "not one of ours\n");
        write("boot", &stale.replacen("boot ", "boot x", 1));
        write("elsewhere", &stale.replacen("namespace ", "namespace 9", 1));
        write("running", &own);
        // No feature may be touched here: none is known.
        assert_eq!(restore(&directory, &[]), []);
        let mut left: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["offloads-elsewhere.restoration", "offloads-running.restoration"]);
        // Of a dead process, and nothing to be done.
        fs::remove_file(path("running")).unwrap();
        write("dead", &stale);
        assert_eq!(restore(&directory, &[]), []);
        assert!(!path("dead").exists());
        fs::remove_dir_all(&directory).unwrap();
    }
}
