//! Requests that try to start a program, or to read or write a file, that the API does not offer.

use crate::http;
use crate::served;
use http::{ask, get};
use serde_json::{Value, json};
use served::{Served, serve};

fn document(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = json!({
        "schema": "weir.scenario/1", "name": "x",
        "host": { "b": { "address": "127.0.0.1" } },
        "step": [{ "wait": { "time": "1s" } }],
    });
    change(&mut document);
    document
}

/// The field that is refused; what gets as far as the launcher, who is not there, fails the test.
#[track_caller]
fn refused(s: &Served, body: &Value) -> String {
    let problem = ask(s.address, "POST", "/experiments", &[], Some(body)).expect(422);
    problem["errors"][0]["field"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn names_of_interfaces_are_no_subcommands_and_no_flags() {
    let s = serve(|_| {});
    for name in ["exec", "--force", "/tmp/evil.sh", "a b", "", "sixteen-letters-", "."] {
        let document = document(|d| {
            d["emulator"] = json!({ "m": { "interfaces": ["lo", name] } });
        });
        let field = refused(&s, &json!({ "document": document }));
        assert_eq!(field, "/document/emulator/m/interfaces/1", "{name:?}");
    }
}

#[test]
fn addresses_of_hosts_are_no_flags() {
    let s = serve(|_| {});
    for address in ["--save-plan=/tmp/x", "--logfile=/tmp/x", "-V", "a b", "a/b", "a\nb"] {
        let document = document(|d| d["host"]["b"]["address"] = address.into());
        let field = refused(&s, &json!({ "document": document }));
        assert_eq!(field, "/document/host/b/address", "{address:?}");
    }
    // By way of a variable too.
    let by_variable = document(|d| {
        d["variables"] = json!({ "h": "127.0.0.1" });
        d["host"]["b"]["address"] = "{h}".into();
    });
    let body = json!({ "document": by_variable, "set": { "h": "--save-plan=/tmp/x" } });
    assert_eq!(refused(&s, &body), "/document/host/b/address");
}

#[test]
fn variables_do_not_lead_to_another_command() {
    let scripts = tempfile::tempdir().unwrap();
    std::fs::write(scripts.path().join("good"), "").unwrap();
    let s = serve(|c| c.scripts = Some(scripts.path().into()));
    let with = |variables: Value, program: &str| {
        document(|d| {
            d["variables"] = variables;
            d["step"] = json!([{ "command": { "run": [program] } }]);
        })
    };
    // Names that the command line would take for one.
    let twice = with(json!({ "x": "good", "x ": "good" }), "{x}");
    let body = json!({ "document": twice, "set": { "x": "good", "x ": "/../../bin/sh" } });
    assert_eq!(refused(&s, &body), "/document/variables/x ");
    // A name that is right, in all three places.
    let plain = with(json!({ "x": "good" }), "{x}");
    for set in ["/bin/sh", "../good", "{y}", "good/../../x"] {
        let body = json!({ "document": plain, "set": { "x": set } });
        let field = refused(&s, &body);
        assert_eq!(field, "/document/step/0/command/run/0", "{set}");
    }
    let fine = json!({ "document": plain, "set": { "x": "good" } });
    ask(s.address, "POST", "/experiments", &[], Some(&fine)).expect(503);
    // Known only at each point of a repetition.
    let later = document(|d| {
        d["step"] = json!([{ "repeat": { "over": ["p=good,/bin/sh"], "step": [
            { "command": { "run": ["{p}"] } }] } }]);
    });
    assert!(refused(&s, &json!({ "document": later })).ends_with("/command/run/0"));
}

#[test]
fn a_look_at_a_scenario_opens_no_file() {
    let s = serve(|_| {});
    let secret = s.directory.path().join("secret");
    std::fs::write(&secret, "root:hash-of-a-password\n").unwrap();
    let fifo = s.directory.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for file in [&secret, &fifo] {
        let file = file.to_str().unwrap();
        for change in [
            |d: &mut Value, file: &str| d["step"] = json!([{ "test": { "plan_file": file } }]),
            |d: &mut Value, file: &str| {
                d["emulator"] = json!({ "m": { "interfaces": ["x", "y"], "config_file": file } });
            },
            |d: &mut Value, file: &str| d["host"]["b"]["key_file"] = file.into(),
        ] {
            let document = document(|d| change(d, file));
            let looked =
                ask(s.address, "POST", "/validate/scenario", &[], Some(&document)).expect(200);
            assert_eq!(looked["valid"], false, "{looked}");
            assert!(!looked.to_string().contains("hash-of"), "{looked}");
            let error = &looked["errors"][0];
            assert!(error["field"].as_str().unwrap().ends_with("_file"), "{looked}");
            assert!(error["accepted"].as_str().unwrap().starts_with("nothing"), "{looked}");
        }
    }
    get(s.address, "/interfaces").expect(200);
}

#[test]
fn long_texts_are_refused_beside_their_field() {
    let s = serve(|_| {});
    let long = "x".repeat(1_100_000);
    let plan = json!({ "schema": "weir.plan/1", "connection": [{}] });
    let sweep = |field: &str, value: Value| {
        let mut body = json!({ "host": "127.0.0.1", "plan": plan, "over": ["length=100,200"] });
        body[field] = value;
        body
    };
    for (path, body, field) in [
        ("/labs", json!({ "name": "gdx", "impair": long }), "/impair"),
        ("/labs", json!({ "name": "bad name" }), "/name"),
        ("/sweeps", sweep("over", json!([long])), "/over/0"),
        ("/sweeps", sweep("metrics", json!([long])), "/metrics/0"),
        ("/sweeps", sweep("expect", json!([long])), "/expect/0"),
        ("/sweeps", sweep("expect", json!(vec!["loss < 1 %"; 65])), "/expect"),
        ("/sweeps", sweep("both", json!(long)), "/both"),
        ("/sweeps", sweep("emulator", json!(long)), "/emulator"),
    ] {
        let problem = ask(s.address, "POST", path, &[], Some(&body)).expect(422);
        assert_eq!(problem["errors"][0]["field"], field, "{problem}");
    }
}
