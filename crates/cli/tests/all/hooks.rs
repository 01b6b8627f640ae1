//! The commands before and after a test: their output is in its record.

use crate::faults_common;

use faults_common::*;
use serde_json::Value;

fn test(words: &[&str], host: &str) -> (i32, String) {
    let mut command = weir();
    command.env("WEIR_ERRORS", "json").args(["test", host, "--no-store", "--json", "-n", "1M"]);
    let output = command.args(words).output().unwrap();
    (output.status.code().unwrap(), out(&output))
}

#[test]
fn commands_around_a_test_are_in_its_record() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let words =
        ["--before", "echo one; echo two >&2", "--after", "head -c 70000 /dev/zero; exit 7"];
    let (code, text) = test(&words, &host);
    assert_eq!(code, 0, "the measurement is complete");
    let record: Value = serde_json::from_str(&text).unwrap();
    let [before, after] = record["commands"].as_array().unwrap().as_slice() else {
        panic!("{}", record["commands"])
    };
    assert_eq!((&before["when"], &before["exit_code"]), (&"before".into(), &0.into()));
    assert_eq!((&before["output"], &before["is_truncated"]), (&"one\ntwo\n".into(), &false.into()));
    assert_eq!((&after["when"], &after["exit_code"]), (&"after".into(), &7.into()));
    let kept = after["output"].as_str().unwrap().len();
    assert_eq!((kept, &after["is_truncated"]), (65_536, &true.into()));
    let codes = record["warnings"].as_array().unwrap().iter().map(|w| w["code"].as_str().unwrap());
    assert!(codes.into_iter().any(|code| code == "after-command-failed"), "{record}");
}

#[test]
fn a_command_that_fails_before_the_test_refuses_it() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("after");
    let after = format!("touch {}", trace.display());
    // No server: a connection would fail with exit code 3.
    let (code, text) =
        test(&["--before", "echo no modem; exit 3", "--after", &after], "127.0.0.1:9");
    let error: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &error["error"]["field"]), (2, &"--before".into()), "{text}");
    assert!(error["error"]["given"].as_str().unwrap().contains("no modem"), "{text}");
    assert!(!trace.exists(), "no test was made, so nothing runs after it");
}

#[test]
fn the_command_after_a_test_that_failed_undoes_what_was_done_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("set-up");
    let (before, after) = (format!("touch {}", trace.display()), format!("rm {}", trace.display()));
    let (code, _) = test(&["--before", &before, "--after", &after], "127.0.0.1:9");
    assert_eq!((code, trace.exists()), (3, false));
}
