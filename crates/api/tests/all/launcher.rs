//! The launcher by its wire: whatever comes, it answers and goes on.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde_json::{Value, json};

#[test]
fn an_order_that_is_too_long_or_unknown_is_refused_and_the_next_one_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let shared = directory.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let data = weir_runs::DataDirectory::in_directory(directory.path().join("data"));
    let launcher = std::thread::spawn(move || {
        weir_api::launch(theirs, "/bin/true".into(), shared, data).map_err(|e| e.to_string())
    });
    let mut answers = BufReader::new(ours.try_clone().unwrap());
    let mut writer = ours.try_clone().unwrap();
    let mut ask = |number: u64, order: Value| -> Value {
        let line = json!({ "number": number, "order": order, "output": null });
        writeln!(writer, "{line}").unwrap();
        let mut answer = String::new();
        let n = answers.read_line(&mut answer).unwrap();
        assert!(n > 0, "the launcher ended");
        serde_json::from_str(&answer).unwrap()
    };
    let job = json!({ "job": "lab-down", "name": "x".repeat(33 << 20) });
    let long = json!({ "order": "start", "job": job, "at": null, "log": null });
    let refused = ask(1, long);
    assert_eq!((&refused["number"], refused["error"].is_string()), (&json!(1), true), "{refused}");
    let refused = ask(2, json!({ "order": "shell", "line": "id" }));
    assert_eq!((&refused["number"], refused["error"].is_string()), (&json!(2), true), "{refused}");
    let job = json!({ "job": "lab-down", "name": "x", "more": 1 });
    let refused = ask(3, json!({ "order": "start", "job": job, "at": null, "log": null }));
    assert_eq!((&refused["number"], refused["error"].is_string()), (&json!(3), true), "{refused}");
    let refused = ask(4, json!({ "order": "stop", "pid": 1 }));
    assert_eq!(refused["number"], 4, "{refused}");
    ours.shutdown(std::net::Shutdown::Both).unwrap();
    launcher.join().unwrap().unwrap();
}
