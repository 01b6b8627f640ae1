//! `weir runs export --parquet` when it can't complete.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::{WEIR, refusal};

const RECORD: &str = include_str!("../../../report/tests/golden/udp_loss.json");

/// Runs `weir runs` with files limited to 64 KiB, after `trap` in the shell.
fn limited(trap: &str, data: &Path, arguments: &[&str]) -> Output {
    let script = format!("{trap}ulimit -f 128; exec \"$0\" runs \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, WEIR]).args(arguments);
    command.env("WEIR_DATA_DIR", data).env("WEIR_ERRORS", "json").output().unwrap()
}

/// The files below a directory that have their final names.
fn complete(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().map(|e| e.unwrap().path());
    let count = |path: std::path::PathBuf| match path.is_dir() {
        true => complete(&path),
        false => usize::from(path.extension().is_some_and(|e| e == "parquet")),
    };
    entries.map(count).sum()
}

/// A text that is hardly compressed.
fn noise(length: usize) -> String {
    let mut state = 1u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + (state >> 24) as u8 % 90)
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn a_partition_is_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let results = dir.path().join("results");
    let (file, name) = (dir.path().join("in.json"), results.to_str().unwrap());
    let mut record: Value = serde_json::from_str(RECORD).unwrap();
    record["end_reason"] = noise(300_000).into();
    std::fs::write(&file, record.to_string()).unwrap();
    let weir = |arguments: &[&str]| {
        let mut command = Command::new(WEIR);
        command.arg("runs").args(arguments).env("WEIR_DATA_DIR", &data).output().unwrap()
    };
    assert!(weir(&["import", file.to_str().unwrap()]).status.success());
    let export = ["export", "--all", "--parquet", name];

    // The system refuses to write more, as it does when a disk is full.
    let refused = limited("trap '' XFSZ; ", &data, &export);
    assert_eq!(refusal(&refused).code, "file");
    assert_eq!(refusal(&refused).field.as_deref(), Some("--parquet"));
    assert_eq!(std::fs::read_dir(&results).unwrap().count(), 0);

    // A signal kills the program while it writes a file.
    let killed = limited("", &data, &export);
    assert_eq!(killed.status.code(), None);
    assert_eq!(complete(&results), 0);

    // What it left does not affect the next export.
    assert!(weir(&export).status.success());
    assert_eq!(complete(&results), 9);
}
