//! A server from start to end.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::app::{App, Shared};
use crate::audit::Audit;
use crate::bodies::Bodies;
use crate::compress::compress;
use crate::config::{ApiError, Config};
use crate::guard::{self, Rates, Tokens};
use crate::handlers::page;
use weir_jobs::{Event, ServeJob};
use weir_net::file::make_private;

use crate::supervise::{Clients, Launcher, stored};
use crate::types::{ObjectKind, State, StateEvent};
use crate::{clock, routes, serve};

/// A listening server.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    router: Router,
    app: Shared,
}

impl Server {
    /// Listens; `directory` is private to this server and its launcher, which is at the other end of `launcher`. Call
    /// it within a tokio runtime.
    ///
    /// # Errors
    /// [`ApiError`]: an open address without tokens, an invalid token file, an unavailable address.
    pub async fn bind(
        config: Config,
        directory: tempfile::TempDir,
        launcher: Option<TcpStream>,
    ) -> Result<Server, ApiError> {
        if !config.address.ip().is_loopback() && config.token_file.is_none() {
            return Err(ApiError::Open(config.address));
        }
        let address = config.address;
        let (router, app) = assemble(config, directory, launcher)?;
        stored::take_up_within(&app, stored::TIMEOUT).await;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| ApiError::Listen { address, source })?;
        Ok(Server { listener, router, app })
    }

    /// The local address.
    ///
    /// # Errors
    /// Of the system.
    pub fn address(&self) -> Result<SocketAddr, ApiError> {
        self.listener
            .local_addr()
            .map_err(|source| ApiError::System { operation: "query the listening address", source })
    }

    /// Starts the test server; `take` gets each of its events.
    ///
    /// # Errors
    /// The launcher refused.
    pub async fn serve_tests(
        &self,
        job: ServeJob,
        mut take: impl FnMut(&Event) + Send + 'static,
    ) -> Result<tokio::task::JoinHandle<Option<i32>>, ApiError> {
        let app = self.app.clone();
        let both = move |event: &Event| {
            if let Some((session, ended)) = app.clients.take(event) {
                app.hub.state(&StateEvent {
                    kind: ObjectKind::Clients,
                    id: session.to_string(),
                    state: if ended { State::Ended } else { State::Running },
                    error: None,
                    run_id: None,
                    step: None,
                });
            }
            take(event);
        };
        crate::supervise::serve_tests(&self.app, job, both).await.map_err(|problem| {
            let source = std::io::Error::other(problem.detail);
            ApiError::System { operation: "start the test server", source }
        })
    }

    /// Serves until `end`.
    pub async fn run(self, end: impl Future<Output = ()>) {
        let sampling = tokio::spawn(crate::supervise::emulators::sample(self.app.clone()));
        serve::serve(self.listener, self.router, self.app, end).await;
        sampling.abort();
    }
}

/// Memory of all request bodies in use.
const MAX_BODIES_BYTES: usize = 128 << 20;

/// The router with its middleware, and the shared state.
pub(crate) fn assemble(
    config: Config,
    directory: tempfile::TempDir,
    launcher: Option<TcpStream>,
) -> Result<(Router, Shared), ApiError> {
    let tokens = config.token_file.as_deref().map(Tokens::read).transpose()?;
    let routes = routes::routes::<false>().into_router();
    let launcher = Launcher::new(launcher, directory.path())?;
    let audit = Audit::new(audit_path(&config));
    // It contains plans and records of all users.
    let path = directory.path();
    make_private(path).map_err(|source| ApiError::File {
        operation: "set the mode of",
        path: path.into(),
        source,
    })?;
    let app: Shared = Arc::new(App {
        instance: clock::new_id(),
        started_at: clock::now(),
        directory,
        hub: Default::default(),
        launcher,
        tests: Default::default(),
        experiments: Default::default(),
        stored: Default::default(),
        emulators: Default::default(),
        clients: Clients::new(),
        calibrating: Default::default(),
        demo: Default::default(),
        lab_servers: Default::default(),
        audit,
        rates: Rates::new(config.limits.requests_per_second),
        failures: Rates::new(1),
        tokens,
        documents: tokio::sync::Mutex::new(()),
        edits: Mutex::default(),
        heavy: Arc::new(Semaphore::new(4)),
        doctor: Default::default(),
        labs: Default::default(),
        bodies: Bodies::new(MAX_BODIES_BYTES),
        known: Default::default(),
        readers: Arc::new(Semaphore::new(config.limits.stream_readers)),
        config,
    });
    let router = routes
        .fallback(page::page)
        .method_not_allowed_fallback(crate::handlers::wrong_method)
        .layer(from_fn_with_state(app.clone(), guard::guard))
        .layer(from_fn(compress))
        .with_state(app.clone());
    Ok((router, app))
}

/// The parts of a server without a launcher, in a temporary directory.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) fn for_tests() -> (Router, Shared) {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let config = Config {
        address: ([127, 0, 0, 1], 0).into(),
        host_names: vec![],
        token_file: None,
        version: "0.0.0".into(),
        build: Default::default(),
        data: weir_runs::DataDirectory::in_directory(at("data")),
        plans: at("plans"),
        scenarios: vec![],
        keys: at("keys"),
        scripts: None,
        parse_flags: |_| Err(Default::default()),
        may_emulate: false,
        may_make_labs: false,
        limits: Default::default(),
    };
    assemble(config, directory, None).unwrap()
}

/// Beside the runs.
fn audit_path(config: &Config) -> Option<PathBuf> {
    config.data.prepare().ok()?;
    Some(config.data.directory().join("audit.jsonl"))
}
