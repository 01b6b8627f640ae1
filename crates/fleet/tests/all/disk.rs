//! An agent whose disk is full.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::agent::{ids, log, logging, submit, until};
use crate::process::Process;
use crate::server::{Server, outcomes, script};

/// A small file system, until it is dropped.
struct SmallDisk(PathBuf);

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also where a process has a file of it open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

impl SmallDisk {
    /// `None` after printing that the test is skipped.
    fn mount(test: &str, at: &Path) -> Option<SmallDisk> {
        std::fs::create_dir(at).unwrap();
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs"])
            .arg(at)
            .stderr(Stdio::null())
            .status();
        if !mount.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED {test}: a file system can't be mounted here (needs root)");
            return None;
        }
        Some(SmallDisk(at.to_owned()))
    }

    /// Writes until it is full.
    fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("filler")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn free(&self) {
        std::fs::remove_file(self.0.join("filler")).unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_loses_and_doubles_nothing() {
    let test = "a_full_disk_loses_and_doubles_nothing";
    let Some(mut server) = Server::start(test, &["a"]) else { return };
    let outbox = server.directory.path().join("outbox-a");
    let Some(disk) = SmallDisk::mount(test, &outbox) else { return };
    let controller = server.controller().await;
    let directory = server.directory.path().to_owned();
    let program = script(&directory, &logging(&directory, "0.2"));
    disk.fill();
    let agent = Process::agent(&server, "a", &program);
    // Sent from memory.
    submit(&controller, "a", &["1"]).await;
    let first = outcomes(&controller, "a", &["1"]).await;
    assert_eq!((first[0].starts, first[0].error.as_ref()), (1, None));

    // Ends without a server; then the agent is killed, which has the outcome in memory only.
    submit(&controller, "a", &["2"]).await;
    until(|| log(&directory).contains(&"begin 2".to_owned())).await;
    server.kill();
    until(|| log(&directory).contains(&"end 2".to_owned())).await;
    agent.kill();
    assert!(!outbox.join("2.json").exists());

    // With space again, it is stored until the server is there.
    disk.free();
    server.run();
    let _agent = Process::agent_when_reached(&server, "a", &program).await;
    outcomes(&controller, "a", &["2"]).await;
    submit(&controller, "a", &["3"]).await;
    outcomes(&controller, "a", &["3"]).await;
    let all = controller.outcomes().await.unwrap();
    assert_eq!(ids(&all), ["1", "2", "3"]);
    assert!(all.iter().all(|outcome| outcome.error.is_none()));
    until(|| std::fs::read_dir(&outbox).unwrap().next().is_none()).await;
}
