//! Stores the evidence of failed rows, so that a failure that does not recur can still be analysed.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// The directory of evidence, next to the stored runs.
pub(super) const DIRECTORY: &str = "demo-evidence";
/// Maximum number of rows whose evidence is stored: a new one replaces the oldest.
const MAX_ROWS: usize = 8;

/// A file of a row: its name and content.
pub(super) type File = (&'static str, Vec<u8>);

/// Stores the files of a row of the demo `id`; returns the pattern of their paths.
pub(super) fn store(
    data_directory: &Path,
    id: &str,
    row: &str,
    files: &[File],
) -> io::Result<PathBuf> {
    let path = data_directory.join(DIRECTORY);
    std::fs::create_dir_all(&path)?;
    let prefix = format!("{id}-{}", slug(row));
    let names: Vec<String> = std::fs::read_dir(&path)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    for name in surplus(&names, &prefix) {
        match std::fs::remove_file(path.join(name)) {
            // Another demo may have removed it.
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    for (name, bytes) in files {
        std::fs::write(path.join(format!("{prefix}.{name}")), bytes)?;
    }
    Ok(path.join(format!("{prefix}.*")))
}

/// The files to remove before a row with this prefix is added: those of the oldest rows. Prefixes start with the time.
fn surplus<'a>(names: &'a [String], prefix: &str) -> Vec<&'a str> {
    let row_of = |name: &'a str| name.split_once('.').map(|(row, _)| row);
    let rows: BTreeSet<&str> =
        names.iter().filter_map(|name| row_of(name)).filter(|row| *row != prefix).collect();
    let excess = (rows.len() + 1).saturating_sub(MAX_ROWS);
    let old: BTreeSet<&str> = rows.into_iter().take(excess).collect();
    let is_old = |name: &&'a str| row_of(name).is_some_and(|row| old.contains(row));
    names.iter().map(String::as_str).filter(is_old).collect()
}

/// A row's name as a part of a file name.
fn slug(row: &str) -> String {
    let parts = row.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("-").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_rows_are_stored() {
        let data_directory = tempfile::tempdir().unwrap();
        let files = || vec![("row.json", b"{}".to_vec()), ("a.packets", vec![1, 2])];
        for n in 0..MAX_ROWS + 3 {
            let id = format!("20260101-0000{n:02}-abcdef");
            let path = store(data_directory.path(), &id, "TCP IPv6, 4 streams", &files()).unwrap();
            assert!(path.ends_with(format!("{id}-tcp-ipv6-4-streams.*")), "{path:?}");
        }
        let directory = data_directory.path().join(DIRECTORY);
        let mut names: Vec<String> = std::fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names.len(), 2 * MAX_ROWS, "{names:?}");
        assert!(names[0].starts_with("20260101-000003-"), "{names:?}");
        let stored = directory.join("20260101-000010-abcdef-tcp-ipv6-4-streams.a.packets");
        assert_eq!(std::fs::read(stored).unwrap(), [1, 2]);
        // The same row of the same demo replaces its earlier files.
        store(data_directory.path(), "20260101-000010-abcdef", "TCP IPv6, 4 streams", &files())
            .unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 2 * MAX_ROWS);
    }
}
