//! A server in this process, on a port of its own, with directories of its own and without a launcher.
#![allow(dead_code, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use weir_api::{Config, Server};
use weir_model::record::{RUN_SCHEMA, Record};
use weir_runs::{DataDirectory, Store};

/// Ends a broken test; no good one comes near it.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    /// The directory that it shares with its launcher.
    pub(crate) private: std::path::PathBuf,
    pub(crate) directory: tempfile::TempDir,
    end: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.end.take());
        let Some(thread) = self.thread.take() else { return };
        // A server whose programs do not end would hold its test up forever.
        let end = Instant::now() + TIMEOUT;
        while !thread.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        if thread.is_finished() {
            let _ = thread.join();
        } else if !std::thread::panicking() {
            panic!("the server did not end within {TIMEOUT:?}");
        }
    }
}

pub(crate) fn data(directory: &std::path::Path) -> DataDirectory {
    DataDirectory::in_directory(directory.join("data"))
}

/// A server; `change` may change how it runs.
pub(crate) fn serve(change: impl FnOnce(&mut Config)) -> Served {
    let directory = tempfile::tempdir().unwrap();
    serve_in(directory, "127.0.0.1:0".parse().unwrap(), change)
}

pub(crate) fn serve_in(
    directory: tempfile::TempDir,
    address: SocketAddr,
    change: impl FnOnce(&mut Config),
) -> Served {
    serve_with(directory, address, None, change)
}

/// A server whose launcher starts this program instead of Weir.
pub(crate) fn serve_launched(
    directory: tempfile::TempDir,
    program: std::path::PathBuf,
    change: impl FnOnce(&mut Config),
) -> Served {
    serve_with(directory, "127.0.0.1:0".parse().unwrap(), Some(program), change)
}

fn serve_with(
    directory: tempfile::TempDir,
    address: SocketAddr,
    program: Option<std::path::PathBuf>,
    change: impl FnOnce(&mut Config),
) -> Served {
    let mut config = Config {
        address,
        host_names: vec!["lab.example".into()],
        token_file: None,
        version: "0.0.0".into(),
        build: Default::default(),
        data: data(directory.path()),
        plans: directory.path().join("plans"),
        scenarios: vec![directory.path().join("scenarios")],
        keys: directory.path().join("keys"),
        scripts: None,
        parse_flags: |_| Err(Default::default()),
        may_emulate: false,
        may_make_labs: false,
        limits: Default::default(),
    };
    // Tests ask from one address.
    config.limits.requests_per_second = 100_000;
    change(&mut config);
    let private = tempfile::tempdir().unwrap();
    let at = private.path().to_owned();
    let launcher = program.map(|program| {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let shared = at.clone();
        let data = data(directory.path());
        std::thread::spawn(move || weir_api::launch(theirs, program, shared, data).unwrap());
        std::os::fd::OwnedFd::from(ours).into()
    });
    let (told, heard) = std::sync::mpsc::channel();
    let (end, ended) = oneshot::channel::<()>();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let server = Server::bind(config, private, launcher).await.unwrap();
            told.send(server.address().unwrap()).unwrap();
            server.run(async { drop(ended.await) }).await;
        });
    });
    let address = heard.recv().unwrap();
    Served { address, private: at, directory, end: Some(end), thread: Some(thread) }
}

/// A run that is kept.
pub(crate) fn keep(served: &Served, id: &str, title: &str) {
    let mut record = Record { schema: RUN_SCHEMA.into(), id: id.into(), ..Default::default() };
    record.started_at = "2026-11-22T10:00:00Z".into();
    record.plan.title = Some(title.into());
    record.labels.insert("site".into(), "lab".into());
    Store::open_at(&data(served.directory.path())).unwrap().insert(&record).unwrap();
}
