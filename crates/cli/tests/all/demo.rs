//! `weir demo` with real programs, once with all messages replaced: dispositions and ledger are exact on any host, and the
//! demo leaves nothing behind.

use crate::common;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time limit of a demo. Only a broken test reaches it.
const LIMIT: Duration = Duration::from_secs(180);
/// Environment variable that marks a demo and all processes that it starts.
const MARK: &str = "WEIR_TEST_DEMO";

struct Demo {
    child: Child,
    directory: tempfile::TempDir,
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Demo {
    fn start(program: &Path) -> Demo {
        let directory = tempfile::tempdir().unwrap();
        let child = Command::new(common::WEIR)
            .env("WEIR_PROGRAM", program)
            .args(["demo", "--json", "--no-store"])
            .env("WEIR_RUNTIME_DIR", directory.path().join("runtime"))
            .env(MARK, directory.path())
            .env("TMPDIR", directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Demo { child, directory }
    }

    /// Waits until a process of the demo runs a job of this kind.
    fn await_job(&mut self, kind: &str) {
        let end = Instant::now() + LIMIT;
        let mark = format!("{MARK}={}", self.directory.path().display());
        while !processes_with(&mark).iter().any(|words| words.contains(&format!("job {kind}"))) {
            assert!(Instant::now() < end && self.child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn ended(&mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        (self.child.wait().unwrap().code(), text)
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Asserts that no process of the demo (and hence no namespace) and no file is left.
    fn leaves_nothing(&self) {
        let mark = format!("{MARK}={}", self.directory.path().display());
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let left = (processes_with(&mark), names(self.directory.path()));
            if left.0.is_empty() && left.1.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Command lines of processes with an entry in their environment.
fn processes_with(entry: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|process| {
        let environment = std::fs::read(process.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == entry.as_bytes())
    })
    .map(|process| std::fs::read(process.path().join("cmdline")).unwrap_or_default())
    .map(|words| String::from_utf8_lossy(&words).replace('\0', " "))
    .collect()
}

/// Whether labs can be created here; prints that the test is skipped if not.
fn is_able(test: &str) -> bool {
    common::Bench::up(test, &[]).is_some()
}

fn is_time(figure: &Value) -> bool {
    ["asked_seconds", "asked_bits_per_second"].iter().any(|key| figure.get(key).is_some())
}

#[test]
fn dispositions_and_ledger_are_exact_and_only_times_may_be_undecided() {
    let test = "dispositions_and_ledger_are_exact_and_only_times_may_be_undecided";
    if !is_able(test) {
        return;
    }
    let _turn = common::turn();
    let elsewhere = tempfile::tempdir().unwrap();
    let mut demo = Demo::start(&common::mute(elsewhere.path()));
    let (code, text) = demo.ended();
    let found: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    assert!(code == Some(0) || code == Some(5), "{code:?}: {found:#}");
    assert_eq!((&found["schema"], &found["exit_code"]), (&"weir.demo/1".into(), &code.into()));
    let paths = found["paths"].as_array().unwrap();
    assert_eq!((paths.len(), found["clean"].as_array().unwrap().len()), (12, 11));
    for row in paths {
        let dispositions = &row["dispositions"];
        assert_eq!(dispositions["matched_packets"], dispositions["sent_packets"], "{row:#}");
        for key in ["unpredicted", "remainder_packets", "unplanned_packets"] {
            assert_eq!(dispositions[key], 0, "{key}: {row:#}");
        }
        assert!(dispositions["predicted"].as_u64().unwrap() > 0, "{row:#}");
        let ledger = &row["loss_ledger"];
        assert!(ledger.is_null() || ledger["remainder_packets"] == 0, "{row:#}");
        for figure in row["figures"].as_array().unwrap() {
            let may_be_open = is_time(figure) && figure["verdict"] == "undecided";
            assert!(may_be_open || figure["verdict"] == "passed", "{row:#}");
        }
    }
    demo.leaves_nothing();
}

#[test]
fn an_interrupted_demo_leaves_nothing() {
    if !is_able("an_interrupted_demo_leaves_nothing") {
        return;
    }
    let _turn = common::turn();
    let mut demo = Demo::start(Path::new(common::WEIR));
    // Interrupted on the plain link; the test of a killed demo covers the emulator.
    demo.await_job("serve");
    demo.signal("INT");
    assert_eq!(demo.ended().0, Some(130));
    demo.leaves_nothing();
}

#[test]
fn a_killed_demo_leaves_nothing() {
    if !is_able("a_killed_demo_leaves_nothing") {
        return;
    }
    let _turn = common::turn();
    let mut demo = Demo::start(Path::new(common::WEIR));
    demo.await_job("emulator");
    demo.signal("KILL");
    assert_eq!(demo.ended().0, None);
    demo.leaves_nothing();
}
