//! Traffic profiles and the rating of voice, with real servers on the loopback interface.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use weir_model::plan::{Plan, Size};
use weir_model::units::ByteSize;

use crate::common::refusal;
use crate::faults_common::*;

/// Runs `weir` with a configuration directory of its own.
fn with_profiles(directory: &std::path::Path, words: &[&str]) -> Output {
    let mut command: Command = weir();
    command.args(words).env("WEIR_CONFIG_DIR", directory).env("WEIR_ERRORS", "json");
    command.output().unwrap()
}

fn record(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", err(output));
    serde_json::from_str(&out(output)).unwrap()
}

#[test]
fn a_call_is_rated_in_both_directions() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let directory = tempfile::tempdir().unwrap();
    let words = ["test", "--no-store", &host, "--profile", "voip-g711", "-k", "20", "--json"];
    let record = record(&with_profiles(directory.path(), &words));
    let flows = record["flows"].as_array().unwrap();
    let names: Vec<&str> = flows.iter().filter_map(|flow| flow["name"].as_str()).collect();
    assert_eq!(names, ["caller", "callee"]);
    for flow in flows {
        let voice = &flow["voice"];
        assert_eq!(flow["sender"]["packets"], 20, "{flow}");
        assert_eq!(voice["codec"], "g711-plc", "{flow}");
        // Both ends have the same clock.
        assert_eq!(voice["path_delay_from"], "one-way-delay", "{flow}");
        let number = |field: &str| voice[field].as_f64().unwrap();
        // A packet of 20 ms, 3.75 ms of concealment, and the buffer of 60 ms.
        let own = number("delay_seconds") - number("path_delay_seconds");
        assert!((own - 0.08375).abs() < 1e-9, "{voice}");
        let sent = flow["receiver"]["packets"].as_f64().unwrap()
            + flow["receiver"]["lost_packets"].as_f64().unwrap();
        let lacking = flow["receiver"]["lost_packets"].as_f64().unwrap()
            + flow["receiver"]["discarded_packets"].as_f64().unwrap();
        assert!((number("missing_ratio") - lacking / sent).abs() < 1e-9, "{flow}");
        assert!((1.0..=93.2).contains(&number("r_factor")), "{voice}");
        assert!((1.0..=4.5).contains(&number("mos")), "{voice}");
    }
}

#[test]
fn a_profile_is_shown_edited_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    let run = |words: &[&str]| with_profiles(directory.path(), words);
    let shown = out(&run(&["profiles", "show", "dns"]));
    let edited = shown.replace("payload = \"100..320\"", "payload = 77").replace("dns", "names");
    assert_ne!(edited, shown);
    fs::write(profiles.join("names.toml"), &edited).unwrap();
    let list: Value = serde_json::from_str(&out(&run(&["profiles", "list", "--json"]))).unwrap();
    let traffic = list["traffic"].as_array().unwrap();
    let own: Vec<_> = traffic.iter().filter(|p| p["own"] == true).map(|p| &p["name"]).collect();
    assert_eq!(own, ["names"]);
    assert!(traffic.len() > 10 && list["profiles"].as_array().unwrap().len() >= 20);

    // By the flag and by a plan.
    let text = "schema = \"weir.plan/1\"\n[[connection]]\nprofile = \"names\"\ncount = 3\n";
    let plan = directory.path().join("plan.toml");
    fs::write(&plan, text).unwrap();
    let plan = plan.to_str().unwrap();
    for words in [&["--plan", plan][..], &["--profile", "names", "-P", "3"]] {
        let output = run(&[&["test", "--save-plan", "-"], words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let saved = Plan::parse(&out(&output)).unwrap();
        let found: Vec<_> =
            saved.connections.iter().map(|c| (&*c.name, c.count, c.payload.clone())).collect();
        assert_eq!(found, [("names", 3, Some(Size::from(ByteSize(77))))]);
    }

    // A broken file is refused where it is used, and listed with its error.
    fs::write(profiles.join("names.toml"), edited.replace("77", "-7")).unwrap();
    let refused = refusal(&run(&["test", "h", "--profile", "names"]));
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--profile"), 2));
    let output = run(&["profiles", "--json"]);
    let list: Value = serde_json::from_str(&out(&output)).unwrap();
    let broken = list["traffic"].as_array().unwrap().iter().find(|p| p["name"] == "names").unwrap();
    assert!(broken["plan"].is_null() && broken["error"].is_string(), "{broken}");
    let refused = refusal(&run(&["profiles", "show", "nothing"]));
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("NAME"), 2));
}

#[test]
fn an_unreadable_profile_is_not_replaced_by_the_programs() {
    let directory = tempfile::tempdir().unwrap();
    let profiles = directory.path().join("profiles");
    fs::create_dir(&profiles).unwrap();
    let run = |words: &[&str]| with_profiles(directory.path(), words);
    let path = profiles.join("dns.toml");
    let shown = out(&run(&["profiles", "show", "dns"]));
    let long = format!("{shown}#{}", " ".repeat(1 << 20));
    for case in ["not UTF-8", "too long", "a directory"] {
        match case {
            "not UTF-8" => fs::write(&path, b"# \xff"),
            "too long" => fs::write(&path, &long),
            _ => fs::create_dir(&path),
        }
        .unwrap();
        let refused = refusal(&run(&["test", "h", "--profile", "dns", "--save-plan", "-"]));
        assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--profile"), 2), "{case}");
        let given = refused.given.unwrap();
        assert!(given.contains(path.to_str().unwrap()), "{case}: {given}");
        let refused = refusal(&run(&["profiles", "show", "dns"]));
        assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("NAME"), 2), "{case}");
        if path.is_file() {
            fs::remove_file(&path).unwrap();
        }
    }
}

#[test]
fn a_given_rate_replaces_the_intervals_of_a_profile() {
    let directory = tempfile::tempdir().unwrap();
    for (words, expected) in [
        (["--profile", "quake3", "-b", "500pps"], "500pps"),
        (["--profile", "imix", "--idt", "10ms"], "100pps"),
    ] {
        let output =
            with_profiles(directory.path(), &[&["test", "--save-plan", "-"][..], &words].concat());
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        let saved = Plan::parse(&out(&output)).unwrap();
        assert_eq!(saved.connections[0].send_rate(), expected.parse().unwrap());
    }
}
