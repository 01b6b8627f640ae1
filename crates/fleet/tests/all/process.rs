//! Agents and controllers as processes, which can be killed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use serde_json::{Value, json};
use weir_fleet::{Connection, Controller};

use crate::server::{LIMIT, Server, job, options};

const SPECIFICATION: &str = "WEIR_FLEET_TEST_PROCESS";

/// This program again, as an agent or a controller. Dropping it kills it.
pub(crate) struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    pub(crate) fn agent(server: &Server, name: &str, program: &Path) -> Process {
        let connection = server.agent_connection(name);
        let outbox = server.directory.path().join(format!("outbox-{name}"));
        Process::start(&connection, &json!({ "name": name, "outbox": outbox, "program": program }))
    }

    /// Starts an agent once the server accepts connections.
    pub(crate) async fn agent_when_reached(server: &Server, name: &str, program: &Path) -> Process {
        server.reached().await;
        Process::agent(server, name, program)
    }

    /// A controller; it connects before this returns.
    pub(crate) fn controller(server: &Server) -> Process {
        let process = Process::start(&server.controller_connection(), &json!({}));
        process.prints("connected");
        process
    }

    fn start(connection: &Connection, role: &Value) -> Process {
        let key = connection.nkey_file.as_ref().unwrap();
        let specification = json!({ "url": connection.url, "key": key, "role": role });
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::helper", "--ignored", "--nocapture"])
            .env(SPECIFICATION, specification.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Process { child, lines }
    }

    /// Gives a controller a command: `submit JOB` or `wait JOB`, for agent `a`.
    pub(crate) fn command(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Waits until it prints a line.
    pub(crate) fn prints(&self, line: &str) {
        while !self.lines.recv_timeout(LIMIT).unwrap().ends_with(line) {}
    }

    pub(crate) fn kill(self) {
        drop(self);
    }
}

#[tokio::test]
#[ignore = "a process of other tests"]
async fn helper() {
    let Ok(text) = std::env::var(SPECIFICATION) else { return };
    let specification: Value = serde_json::from_str(&text).unwrap();
    let path = |value: &Value| PathBuf::from(value.as_str().unwrap());
    let connection = Connection {
        url: specification["url"].as_str().unwrap().into(),
        nkey_file: Some(path(&specification["key"])),
        ca_file: None,
    };
    let role = &specification["role"];
    if let Some(name) = role["name"].as_str() {
        let options = options(connection, name, path(&role["outbox"]), path(&role["program"]));
        weir_fleet::run(options, std::future::pending()).await.unwrap();
        return;
    }
    let controller = Controller::connect(&connection, 1).await.unwrap();
    println!("connected");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (verb, id) = line.split_once(' ').unwrap();
        let agent = "a".parse().unwrap();
        if verb == "submit" {
            controller.submit(&agent, &job(id)).await.unwrap();
        } else {
            let jobs = [(agent, id.parse().unwrap())];
            let mut outcomes = controller.outcomes_of(&jobs).await.unwrap();
            println!("waiting {id}");
            outcomes.next().await.unwrap();
        }
        println!("done {id}");
    }
}
