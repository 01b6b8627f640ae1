//! Runs the page and the API as a process.
//!
//! This process becomes the web server and drops its capabilities. Before that it starts the launcher, which keeps them and
//! starts all other processes, including the test server.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_api::{ApiError, Config, Server};
use weir_jobs::Event;
use weir_net::capability::{UserNamespaces, capabilities, user_namespaces};
use weir_net::namespace::ChildSetup;
use weir_runs::DataDirectory;

use super::super::args::{ServeArgs, job as test_server};
use super::super::daemon;
use super::super::figures::SessionSums;
use super::super::output::EventFormat;
use super::LauncherArgs;
use crate::app::note;
use crate::commands::experiment::plan_from_flags;
use crate::commands::exporter;
use crate::commands::runs::RunsError;
use crate::engine::Stop;
use crate::error::CliError;
use crate::job::{report, warn};
use crate::output::Sink;
use crate::signals;
use crate::stamp;
use crate::user_data;

/// Time for the launcher to end the processes that it started.
const END: Duration = Duration::from_secs(5);
/// Interval at which it checks whether to end.
const LOOK: Duration = Duration::from_millis(50);

/// Runs the launcher, which reads its requests from standard input.
pub(crate) fn launcher(args: &LauncherArgs) -> Result<i32, CliError> {
    use std::os::fd::AsFd;
    let failed = |e: std::io::Error| CliError::Internal(format!("launcher: {e}"));
    let orders = std::io::stdin().as_fd().try_clone_to_owned().map_err(failed)?;
    let program = crate::job::program();
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    weir_api::launch(UnixStream::from(orders), program, args.directory.clone(), data)
        .map_err(|e| CliError::Unavailable(e.to_string()))?;
    Ok(0)
}

impl From<ApiError> for CliError {
    fn from(error: ApiError) -> Self {
        let words = error.to_string();
        match error {
            ApiError::Open(address) => {
                let given = format!("nothing, while {address} is not a loopback address");
                CliError::flag("--ui-token-file", given, "a file, or --ui with a loopback address")
            }
            ApiError::Tokens { .. } | ApiError::Exposed { .. } => CliError::flag(
                "--ui-token-file",
                words,
                "a file of tokens that only its owner can write",
            ),
            ApiError::File { operation, path, source } => CliError::Io { operation, path, source },
            _ => CliError::Unavailable(words),
        }
    }
}

/// Runs until it is stopped, or until the test server ends.
pub(crate) fn run(args: &ServeArgs, ui: SocketAddr, mut sink: Sink) -> Result<i32, CliError> {
    let failed = |operation: &'static str| {
        move |e: std::io::Error| CliError::Unavailable(format!("{operation}: {e}"))
    };
    let config = config(args, ui)?;
    if !ui.ip().is_loopback() && config.token_file.is_none() {
        return Err(ApiError::Open(ui).into());
    }
    let mut token_once = String::new();
    let mut head = String::new();
    if let Some(path) = config.token_file.as_deref().filter(|p| !p.exists()) {
        let token = weir_api::make_token_file(path, "first")?;
        token_once = token_line(&token, path, args.output.json_stream);
        if !args.general.in_background {
            // Only to the terminal: the token is written to no log or file.
            note(&token_once);
        }
    }
    // The page recognizes this name: a run's plan file in it no longer exists.
    let directory = tempfile::Builder::new()
        .prefix("weir-ui-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .tempdir()
        .map_err(failed("make a directory"))?;
    let (ours, theirs) = UnixStream::pair().map_err(failed("make a pair of sockets"))?;
    let mut launcher = start_launcher(directory.path(), theirs)?;
    weir_api::drop_capabilities(is_for_another(&config.data))?;
    let stop = Stop::new();
    signals::listen(&stop)?;
    let otlp = args.output.otlp.as_deref().map(exporter::start_otlp_service).transpose()?;
    let otlp = otlp.map(Arc::new);
    let format = EventFormat { json: args.output.json_stream, verbose: args.output.verbose };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed("start"))?;
    let (lines, printed) = std::sync::mpsc::channel::<String>();
    let in_background = args.general.in_background;
    let pidfile = args.general.pidfile.clone();
    let printing = std::thread::spawn(move || {
        let mut pid_file = None;
        for text in printed {
            if format.json {
                sink.raw(&text)
            } else {
                sink.text(&text)
            }
            if pid_file.is_none()
                && let Some(path) = pidfile.as_deref()
            {
                match daemon::PidFile::write(path) {
                    Ok(written) => pid_file = Some(written),
                    Err(e) => warn("pidfile", &e.chain()),
                }
            }
        }
        drop(pid_file);
        sink.failure()
    });
    let ended: Result<Option<i32>, CliError> = runtime.block_on(async {
        let server = Server::bind(config, directory, Some(OwnedFd::from(ours).into())).await?;
        let at = server.address()?;
        head += &head_line(at, weir_api::has_page(), format.json);
        let mut opening = Some(head);
        let (otlp, mut sums) = (otlp.clone(), SessionSums::default());
        let answering = server
            .serve_tests(test_server(args), move |event| {
                if let Some(otlp) = otlp.as_ref().filter(|_| sums.add(event)) {
                    otlp.set(sums.series());
                }
                let mut text = format.lines(event);
                if matches!(event, Event::Listening(_))
                    && let Some(head) = opening.take()
                {
                    text += &head;
                    if in_background {
                        let token = if token_once.is_empty() { "" } else { "\n" };
                        daemon::hand_over(&format!("{token_once}{token}{text}"));
                    }
                }
                match event {
                    Event::SpeedTest { .. } => note(text.trim_end()),
                    Event::Error(refusal) => report(event, &format!("error: {refusal}")),
                    _ => drop(lines.send(text)),
                }
            })
            .await?;
        let asked = async {
            while stop.reason().is_none() {
                tokio::time::sleep(LOOK).await;
            }
        };
        let mut code = None;
        server
            .run(async {
                tokio::select! {
                    () = asked => {}
                    ended = answering => code = Some(ended.ok().flatten().unwrap_or(70)),
                }
            })
            .await;
        Ok(code)
    });
    // Event streams and unfinished requests end with the runtime; the launcher then sees its socket closed.
    runtime.shutdown_timeout(Duration::from_millis(200));
    let until = Instant::now() + END;
    while matches!(launcher.try_wait(), Ok(None)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = launcher.kill();
    let _ = launcher.wait();
    // The runtime's clone is gone, unless a task did not end in time.
    if let Some(otlp) = otlp.and_then(Arc::into_inner) {
        exporter::finish_otlp_service(otlp, &stop);
    }
    let failure = printing.join().unwrap_or_default();
    let code = ended?;
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(match (stop.reason(), code) {
        (Some(reason), _) => reason.service_exit_code(),
        (None, code) => code.unwrap_or(0),
    })
}

/// The line with the address, and whether it serves the page or only the API.
fn head_line(at: SocketAddr, has_page: bool, json: bool) -> String {
    match (json, has_page) {
        (true, _) => {
            let data = serde_json::json!({ "address": at, "page": has_page });
            format!("{}\n", serde_json::json!({ "event": "ui", "data": data }))
        }
        (false, true) => format!("page and API on http://{at}/\n"),
        (false, false) => format!(
            "API on http://{at}/api/v1; this program was built without the page: run make web, then build again\n"
        ),
    }
}

/// The line that shows a new token, the only one that contains it.
fn token_line(token: &str, path: &Path, json: bool) -> String {
    let file = path.display();
    if json {
        let data = serde_json::json!({ "token": token, "file": file.to_string() });
        return serde_json::json!({ "event": "token", "data": data }).to_string();
    }
    format!("token, shown only once (its hash is in {file}): {token}")
}

/// Starts the launcher. It ignores the terminal's signals, so that it can end its processes in order.
fn start_launcher(directory: &Path, orders: UnixStream) -> Result<Child, CliError> {
    let failed = |e: std::io::Error| CliError::Unavailable(format!("start the launcher: {e}"));
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    command.arg("launcher").arg("--directory").arg(directory);
    command.stdin(OwnedFd::from(orders)).stdout(Stdio::null());
    ChildSetup::new()
        .new_session()
        .apply(&mut command)
        .map_err(|e| CliError::Unavailable(format!("start the launcher: {e}")))?;
    command.spawn().map_err(failed)
}

/// Whether the stored runs belong to another user than this process, such as the caller of sudo.
pub(crate) fn is_for_another(data: &DataDirectory) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = data.prepare().ok().and_then(|_| data.directory().metadata().ok()).map(|m| m.uid());
    owner.is_some_and(|owner| owner != weir_net::namespace::effective_user_id())
}

fn config(args: &ServeArgs, address: SocketAddr) -> Result<Config, CliError> {
    let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
    let directory = user_data::config_directory(&data);
    let scripts = args.ui.allow_commands.as_ref().map(|dir| {
        std::fs::canonicalize(dir).ok().filter(|d| d.is_dir()).ok_or_else(|| {
            CliError::flag("--allow-commands", dir.display().to_string(), "a directory")
        })
    });
    let mut scenarios = args.ui.scenarios.clone();
    for dir in &scenarios {
        if !dir.is_dir() {
            let given = dir.display().to_string();
            return Err(CliError::flag("--scenarios", given, "a directory"));
        }
    }
    if scenarios.is_empty() {
        scenarios = user_data::scenario_directories(&data);
    }
    let may = capabilities().unwrap_or_default();
    Ok(Config {
        address,
        host_names: args.ui.ui_host.clone(),
        token_file: args.ui.ui_token_file.clone(),
        version: stamp::VERSION.into(),
        build: stamp::build(),
        plans: directory.join("plans"),
        scenarios,
        keys: directory.join("keys"),
        scripts: scripts.transpose()?,
        parse_flags: plan_from_flags,
        may_emulate: may.net_admin && may.net_raw,
        may_make_labs: may.sys_admin || user_namespaces() == UserNamespaces::Allowed,
        limits: Default::default(),
        data,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn without_a_page_only_the_api_is_named() {
        let at = "127.0.0.1:9348".parse().unwrap();
        assert_eq!(head_line(at, true, false), "page and API on http://127.0.0.1:9348/\n");
        let without = head_line(at, false, false);
        assert!(without.starts_with("API on http://127.0.0.1:9348/api/v1; "), "{without}");
        assert!(without.contains("make web"), "{without}");
        let json: Value = serde_json::from_str(&head_line(at, false, true)).unwrap();
        let data = serde_json::json!({ "address": "127.0.0.1:9348", "page": false });
        assert_eq!((&json["event"], &json["data"]), (&"ui".into(), &data));
    }
}
