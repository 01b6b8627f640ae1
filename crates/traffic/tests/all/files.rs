//! Streams that the server stores in files: whole, cut by limits, fetched back by their session alone.

use std::path::Path;
use std::sync::Arc;

use weir_flow::Supply;
use weir_model::content::Content;
use weir_model::plan::{Connection, StreamOptions, TcpOptions};
use weir_model::record::{ReceivedFile, Record, Status};
use weir_model::units::ByteSize;
use weir_traffic::{ClientConfig, FileConfig, ServerConfig, Stop, run};
use weir_wire::control::{ClientMessage, ServerMessage};

use crate::faults_common::*;

fn storing(directory: &Path, keeps: bool, session_bytes: u64) -> Server {
    let files = FileConfig { directory: directory.into(), keeps, session_bytes, bytes: 100 << 20 };
    Server::start(ServerConfig { files: Some(files), ..ServerConfig::default() })
}

fn stored(bytes: u64) -> Connection {
    let stream = StreamOptions { to_file: true, ..StreamOptions::default() };
    Connection {
        transport: TcpOptions { stream, ..TcpOptions::default() }.into(),
        bytes: Some(ByteSize(bytes)),
        ..Connection::default()
    }
}

fn ran(config: ClientConfig) -> Record {
    run(config, Stop::new(), &mut |_| {}).map_err(|f| f.to_string()).unwrap()
}

fn file(record: &Record) -> &ReceivedFile {
    record.flows[0].received_file.as_ref().unwrap()
}

fn count(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_file_is_sent_stored_and_fetched_back() {
    let (directory, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = storing(directory.path(), false, 10 << 20);
    let content: Vec<u8> = (0..1_000_003_u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    let back = own.path().join("back");
    let connection = Connection { content: Content::File, ..stored(1_000_003) };
    let mut config = server.client(plan(vec![connection]));
    config.supply = Supply::of_bytes(content.clone()).map(Arc::new);
    config.fetch = Some(back.clone());
    let record = ran(config);
    assert_eq!(record.status, Status::Complete);
    let stored = file(&record);
    assert_eq!((stored.bytes, stored.is_whole), (1_000_003, Some(true)));
    assert_eq!((stored.error.as_deref(), stored.fetched_bytes), (None, Some(1_000_003)));
    assert!(!stored.is_kept && stored.sha256.len() == 64);
    assert_eq!(std::fs::read(&back).unwrap(), content);
    server.idle();
    until("the file is removed", || count(directory.path()) == 0);
}

#[test]
fn generated_content_is_compared_as_well_and_kept_if_the_server_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let server = storing(directory.path(), true, 10 << 20);
    let record = ran(server.client(plan(vec![stored(300_000)])));
    let stored = file(&record);
    assert_eq!((stored.is_whole, stored.is_kept, stored.fetched_bytes), (Some(true), true, None));
    server.idle();
    let path = directory.path().join(&stored.name);
    assert_eq!(std::fs::metadata(path).unwrap().len(), 300_000);
}

/// The measurement is that of all bytes, the file has the first ones.
#[test]
fn a_file_above_the_limit_is_incomplete_and_says_so() {
    let (directory, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = storing(directory.path(), false, 100_000);
    let back = own.path().join("back");
    let mut config = server.client(plan(vec![stored(300_000)]));
    config.fetch = Some(back.clone());
    let record = ran(config);
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, 300_000);
    let stored = file(&record);
    assert_eq!((stored.bytes, stored.is_whole), (100_000, Some(false)));
    assert!(stored.error.is_some());
    assert!(record.warnings.iter().any(|w| w.code == "file-incomplete"));
    assert_eq!(std::fs::metadata(back).unwrap().len(), 100_000);
}

/// A full disk ends storing and not the test.
#[test]
fn a_full_disk_does_not_end_the_test() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
        .arg(directory)
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED a_full_disk_does_not_end_the_test: no permission to mount");
        return;
    }
    let server = storing(directory, false, 10 << 20);
    let record = ran(server.client(plan(vec![stored(300_000)])));
    let _ = std::process::Command::new("umount").arg("-l").arg(directory).status();
    assert_eq!(record.flows[0].receiver.as_ref().unwrap().bytes, 300_000);
    let stored = file(&record);
    assert!(stored.bytes < 300_000 && stored.is_whole == Some(false), "{stored:?}");
    assert!(stored.error.is_some());
}

#[test]
fn a_server_without_a_directory_refuses_to_store() {
    let server = Server::start(ServerConfig::default());
    let failure = server.test(plan(vec![stored(1000)])).unwrap_err();
    assert_eq!((failure.error.code().as_str(), failure.partial), ("peer-unavailable", None));
    let directory = tempfile::tempdir().unwrap();
    let server = storing(directory.path(), false, 1000);
    let many = Connection { count: 65, ..stored(10) };
    assert_eq!(server.test(plan(vec![many])).unwrap_err().error.code(), "peer-unavailable");
    assert_eq!(count(directory.path()), 0);
    // What is not stored can't be fetched, which is known before the start.
    let mut config = server.client(plan(vec![Connection::default()]));
    config.fetch = Some(directory.path().join("never"));
    assert_eq!(run(config, Stop::new(), &mut |_| {}).unwrap_err().error.exit_code(), 2);
    assert_eq!(count(directory.path()), 0);
}

/// A part is served to the session of the file, after its report.
#[test]
fn parts_are_served_after_the_report_and_of_own_files_only() {
    let directory = tempfile::tempdir().unwrap();
    let server = storing(directory.path(), false, 1000);
    let closes = |messages: &[ClientMessage]| {
        let (mut raw, _) = Raw::session(server.address, plan(vec![stored(10)]));
        messages.iter().for_each(|message| raw.send(message));
        let mut parts = 0;
        while let Some(message) = raw.read() {
            parts += usize::from(matches!(message, ServerMessage::Part { .. }));
        }
        parts
    };
    let fetch = |flow, offset| ClientMessage::Fetch { flow, offset };
    assert_eq!(closes(&[fetch(1, 0)]), 0, "before the report");
    assert_eq!(closes(&[ClientMessage::Report, fetch(2, 0)]), 0, "no such flow");
    let parts = [ClientMessage::Report, fetch(1, 0), fetch(1, u64::MAX), ClientMessage::Close];
    assert_eq!(closes(&parts), 2);
    server.idle();
    until("the files are removed", || count(directory.path()) == 0);
}
