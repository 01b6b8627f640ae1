//! A lab with an emulator in its middle, for tests of `weir impair`.
// Not every test uses each helper.
#![allow(dead_code)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use weir_lab::{Lab, LabSpec, Topology};
use weir_net::namespace::effective_user_id;

use crate::common::{Ended, WEIR, events, has_tools, run, signal, skip, wait};

/// Host a, the middle m with interfaces to-a and to-b, host b.
pub(crate) struct Path {
    pub(crate) lab: Lab,
    directory: tempfile::TempDir,
}

/// A running emulator in the middle.
pub(crate) struct Emulator {
    pub(crate) child: Child,
    /// The data of its event `ready`.
    pub(crate) ready: Value,
    /// The events before it on standard error.
    said: String,
    /// Standard output and standard error.
    outputs: Option<[Box<dyn Read>; 2]>,
}

/// Reads events until the emulator is ready; returns that event's data and the lines so far.
fn ready(output: &mut impl BufRead) -> (Value, String) {
    let mut said = String::new();
    loop {
        let mut line = String::new();
        assert!(output.read_line(&mut line).unwrap() > 0, "the emulator did not start: {said}");
        said += &line;
        if let Some(event) = events(&line).into_iter().find(|event| event["event"] == "ready") {
            return (event["data"].clone(), said);
        }
    }
}

impl Path {
    pub(crate) fn up(test: &str, tools: &[&str]) -> Option<Path> {
        if effective_user_id() != 0 {
            skip(test, "needs root");
            return None;
        }
        if !has_tools(test, tools) {
            return None;
        }
        let spec = LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() };
        Some(Path { lab: Lab::up(&spec).unwrap(), directory: tempfile::tempdir().unwrap() })
    }

    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.directory.path().join(name)
    }

    /// The command `weir …` in a host, with the test's own runtime directory.
    pub(crate) fn weir(&self, host: &str, words: &[&str]) -> Command {
        let mut command = self.lab.command(host, WEIR).unwrap();
        command.args(words).env("NO_COLOR", "1").env("WEIR_DATA_DIR", self.directory.path());
        command.env("WEIR_RUNTIME_DIR", self.directory.path().join("runtime"));
        command.env_remove("WEIR_KEY").env("WEIR_ERRORS", "json");
        command
    }

    /// Starts an emulator as a job.
    pub(crate) fn emulator_job(&self, job: &serde_json::Value) -> Emulator {
        let mut command = self.weir("m", &["job"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), format!("{job}\n").as_bytes())
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let (ready, _) = ready(&mut stdout);
        let stderr = Box::new(child.stderr.take().unwrap());
        Emulator { child, ready, said: String::new(), outputs: Some([Box::new(stdout), stderr]) }
    }

    /// Starts an emulator, which prints its report as JSON at the end.
    pub(crate) fn emulator(&self, words: &[&str]) -> Emulator {
        self.emulator_between(["to-a", "to-b"], words)
    }

    /// Starts an emulator between these ends.
    pub(crate) fn emulator_between(&self, [a, b]: [&str; 2], words: &[&str]) -> Emulator {
        let mut command = self.weir("m", &[&["impair", a, b, "--json"], words].concat());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (ready, said) = ready(&mut stderr);
        let stdout = Box::new(child.stdout.take().unwrap());
        Emulator { child, ready, said, outputs: Some([stdout, Box::new(stderr)]) }
    }

    /// Runs a verb of `weir impair` for the emulator.
    pub(crate) fn verb(&self, words: &[&str]) -> Ended {
        run(self.weir("m", &[&["impair"], words].concat()))
    }

    pub(crate) fn stats(&self) -> Value {
        let text = self.verb(&["stats", "--json"]).good();
        serde_json::from_str(&text).unwrap()
    }

    /// The enabled offloads of an interface of the middle.
    pub(crate) fn offloads(&self, interface: &str) -> BTreeSet<String> {
        let read = || weir_net::interface::offloads(interface).unwrap();
        let all = self.lab.run_in("m", read).unwrap();
        all.into_iter().filter(|f| f.active).map(|f| f.name).collect()
    }

    /// The promiscuity count of an interface of the middle.
    pub(crate) fn promiscuity(&self, interface: &str) -> u64 {
        let mut command = self.lab.command("m", "ip").unwrap();
        command.args(["-j", "-d", "link", "show", "dev", interface]);
        let json: Value = serde_json::from_str(&run(command).good()).unwrap();
        json[0]["promiscuity"].as_u64().unwrap()
    }

    pub(crate) fn tool(&self, host: &str, words: &[&str]) -> Ended {
        let mut command = self.lab.command(host, words[0]).unwrap();
        command.args(&words[1..]);
        run(command)
    }
}

impl Emulator {
    /// Exit code, standard output and standard error, once it has ended.
    pub(crate) fn ended(mut self) -> (Option<i32>, String, String) {
        let status = wait(&mut self.child, "weir impair");
        let outputs = self.outputs.take().unwrap();
        let [stdout, stderr] = outputs.map(|mut output| {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        });
        (status.code(), stdout, self.said.clone() + &stderr)
    }

    /// Stops it by an interrupt; returns its report and standard error.
    #[track_caller]
    pub(crate) fn report(self) -> (Value, String) {
        let (code, stdout, stderr) = self.interrupt();
        assert_eq!(code, Some(130), "{stderr}");
        (serde_json::from_str(&stdout).unwrap(), stderr)
    }

    pub(crate) fn interrupt(self) -> (Option<i32>, String, String) {
        signal("INT", &self.child);
        self.ended()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Round-trip times of `ping`, ms.
pub(crate) fn round_trips(text: &str) -> Vec<f64> {
    let times = text.lines().filter_map(|line| line.split("time=").nth(1));
    times.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
}
