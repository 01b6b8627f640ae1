//! `--live` on a real terminal: a pseudo-terminal that the test holds.

use crate::faults_common;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use faults_common::*;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// The longest that anything here may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    controller: File,
    /// The program's side, kept open so that its settings can be read at the end.
    terminal: File,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl OnTerminal {
    fn start(words: &[&str]) -> OnTerminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap().into_string().unwrap();
        let terminal = File::options().read(true).write(true).open(name).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let stdio = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = weir();
        command.args(words).env("TERM", "xterm").stdin(stdio()).stdout(stdio()).stderr(stdio());
        let child = command.spawn().unwrap();
        let controller = File::from(controller);
        let (mut reader, (sender, output)) = (controller.try_clone().unwrap(), channel());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut buffer) {
                if sender.send(buffer[..n].to_vec()).is_err() {
                    return;
                }
            }
        });
        OnTerminal { child, controller, terminal, output, seen: String::new() }
    }

    /// Waits until `text` was printed.
    fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.seen.contains(text) {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.seen += &String::from_utf8_lossy(&bytes),
                Err(RecvTimeoutError::Timeout) => panic!("no {text:?} in {:?}", self.seen),
                Err(RecvTimeoutError::Disconnected) => panic!("ended: {:?}", self.seen),
            }
        }
    }

    fn press(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether keys are passed on one by one, unechoed.
    fn is_raw(&self) -> bool {
        !tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    fn exit_code(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            // The terminal's buffer must not fill up, else the program can't end.
            if let Ok(bytes) = self.output.recv_timeout(Duration::from_millis(20)) {
                self.seen += &String::from_utf8_lossy(&bytes);
            }
            match self.child.try_wait().unwrap() {
                Some(status) => return status.code(),
                None => assert!(Instant::now() < end, "still running: {:?}", self.seen),
            }
        }
    }
}

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

#[test]
fn keys_change_the_rate_and_stop_the_test_and_the_terminal_is_given_back() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let words =
        ["test", &host, "--live", "-u", "-b", "1M", "-i", "100ms", "-t", "60", "--no-store"];
    let mut shown = OnTerminal::start(&words);
    shown.wait_for(ENTER);
    shown.wait_for("Mbit/s");
    assert!(shown.is_raw());
    shown.press("r3M\r");
    shown.wait_for("rate 3M");
    shown.press("q");
    assert_eq!(shown.exit_code(), Some(130));
    shown.wait_for(LEAVE);
    shown.wait_for("not stored");
    let after = shown.seen.split(LEAVE).nth(1).unwrap();
    assert!(after.contains("receiver") && !shown.is_raw(), "{after}");
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let mut shown = OnTerminal::start(&["test", &host, "--live", "-t", "60", "--no-store"]);
    shown.wait_for(ENTER);
    let pid = rustix::process::Pid::from_raw(shown.child.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(shown.exit_code(), Some(143));
    shown.wait_for(LEAVE);
    assert!(!shown.is_raw());
}

#[test]
fn a_waiting_connection_is_shown_in_the_view_alone() {
    let server = Serve::start(&[]);
    let host = format!("127.0.0.1:{}", server.port);
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("waiting.toml");
    let text = "schema = \"weir.plan/1\"\n[[connection]]\nname = \"late\"\nautostart = false\n";
    std::fs::write(&plan, text).unwrap();
    let words = ["test", &host, "--live", "--plan", plan.to_str().unwrap(), "--no-store"];
    let mut shown = OnTerminal::start(&words);
    shown.wait_for(ENTER);
    shown.wait_for("late");
    shown.press("q");
    shown.exit_code();
    shown.wait_for(LEAVE);
    assert!(!shown.seen.contains("weir ctl"), "{}", shown.seen);
}

#[test]
fn without_a_terminal_it_is_refused_before_anything_is_sent_or_saved() {
    let directory = tempfile::tempdir().unwrap();
    let plan = directory.path().join("saved.toml");
    let words = ["test", "127.0.0.1:9", "--live", "--save-plan", plan.to_str().unwrap()];
    let output = weir().args(words).output().unwrap();
    let error: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((output.status.code(), &error["error"]["field"]), (Some(4), &"--live".into()));
    assert!(!plan.exists());
}
