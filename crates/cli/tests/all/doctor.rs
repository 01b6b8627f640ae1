//! `weir doctor` and `weir calibrate` as a user runs them.
#![cfg(target_os = "linux")]

use std::process::{Command, Output};

use crate::common::refusal;

fn weir(arguments: &[&str], data: &std::path::Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).env("WEIR_DATA_DIR", data).env("WEIR_ERRORS", "json").output().unwrap()
}

#[test]
fn doctor_speaks_json_and_refuses_an_unknown_interface() {
    let data = tempfile::tempdir().unwrap();
    let out = weir(&["doctor", "--json"], data.path());
    let json: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["schema"], "weir.doctor/1");
    let findings = json["findings"].as_array().unwrap();
    assert!(!findings.is_empty());
    assert!(findings.iter().all(|f| f["evidence"].as_str().is_some_and(|e| !e.is_empty())));
    let error = findings.iter().any(|f| f["severity"] == "error");
    assert_eq!(out.status.code(), Some(if error { 4 } else { 0 }));
    let out = weir(&["doctor", "--interface", "wdoc-none"], data.path());
    let refused = refusal(&out);
    let parts = (refused.field.as_deref(), refused.given.as_deref(), refused.exit_code);
    assert_eq!(parts, (Some("--interface"), Some("wdoc-none"), 2));
}

#[test]
fn a_calibration_is_kept_and_shown() {
    let data = tempfile::tempdir().unwrap();
    let none = weir(&["calibrate", "--show"], data.path());
    assert_eq!(refusal(&none).exit_code, 4);
    let out = weir(&["calibrate", "--json", "--no-lab"], data.path());
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    let made: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(made["schema"], "weir.calibration/1");
    let shown = weir(&["calibrate", "--show", "--json"], data.path());
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&shown.stdout).unwrap(), made);
    let text = weir(&["calibrate", "--show"], data.path());
    assert_eq!(text.status.code(), Some(0));
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains(made["id"].as_str().unwrap()), "{text}");
}
