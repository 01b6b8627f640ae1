//! `weir test`: makes a plan from flags, runs it, prints its events and stores its record.

pub(crate) mod args;
pub(crate) mod flags;
mod hooks;
pub(crate) mod live;
mod output;
pub(crate) mod plan;
#[cfg(test)]
mod plan_tests;
mod script;
pub(crate) mod source;

use std::ffi::OsString;
use std::io::{IsTerminal, stderr};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use weir_jobs::{EmulatorOnPath, KeySource, Notice, Ready, TestJob};
use weir_model::names::{Host, HostKind};
use weir_model::plan::Direction;
use weir_model::record::{Flow, ReceivedFile, Record, Status, SurroundingCommand};
use weir_model::threads::Threads;
use weir_model::units::{Seed, Span};
use weir_runs::StoreError;

pub(crate) use args::{OutputArgs, TestArgs};

use crate::app::{ErrorForm, note, tell};
use crate::commands::values::{self, Cpus};
use crate::emulated::Watched;
use crate::engine::{
    self, ClientConfig, Commands, Event, Failure, Key, StartSignal, Stop, StopReason,
};
use crate::error::{CliError, chain};
use crate::files;
use crate::job::{ConnectionCommand, notice, report_error, warn};
use crate::key;
use crate::named::{NamedFile, apart};
use crate::random;
use crate::signals;
use crate::stamp::Identity;
use crate::time::since_epoch;
use crate::user_data;
use hooks::Hooks;
use live::Controls;
use output::{Options, Outputs};
use plan::Planned;
use source::Source;

/// Maximum length of a plan file, bytes.
const MAX_PLAN_BYTES: u64 = 16 << 20;

/// A test that is ready to run: everything is checked and every file is open.
struct Prepared {
    config: ClientConfig,
    outputs: Outputs,
    identity: Identity,
    store: bool,
    on_path: Option<EmulatorOnPath>,
    emulator: Option<Watched>,
    hooks: Hooks,
    source: Option<Source>,
}

/// Runs the command; prints errors itself, in the form that the flags request.
pub(crate) fn run(args: &TestArgs, words: &[OsString]) -> i32 {
    let ready = job_of(args).and_then(|job| match job {
        None => Ok(None),
        Some((job, key, source)) => prepare(job, key, source, &args.output, words).map(Some),
    });
    run_prepared(ready.map_err(|error| error.named_as_typed(words)), ErrorForm::of(words))
}

/// Runs the test of another command, whose errors the caller prints; those of a started test are printed.
///
/// # Errors
/// What keeps the test from being started.
pub(crate) fn run_for(
    args: &TestArgs,
    words: &[OsString],
    engine: impl FnOnce(ClientConfig, Stop, &mut dyn FnMut(Event)) -> Result<Record, Failure>,
) -> Result<i32, CliError> {
    let Some((job, key, source)) = job_of(args)? else { return Ok(0) };
    let test = prepare(job, key, source, &args.output, words)?;
    let stop = Stop::new();
    signals::listen(&stop)?;
    Ok(execute(test, &stop, engine, &mut user_data::keep))
}

/// Runs a job of `weir job`.
pub(crate) fn run_job(job: TestJob) -> i32 {
    let ready = resolved(job).and_then(|(job, key)| {
        let output = OutputArgs { json_stream: true, ..OutputArgs::default() };
        let words = ["weir", "job"].map(OsString::from);
        prepare(job, key, None, &output, &words).map(Some)
    });
    run_prepared(ready, ErrorForm::Stream)
}

fn run_prepared(ready: Result<Option<Prepared>, CliError>, form: ErrorForm) -> i32 {
    let stop = Stop::new();
    let ready = ready.and_then(|test| match test {
        Some(test) => signals::listen_until(&stop, live::restore).map(|()| Some(test)),
        None => Ok(None),
    });
    match ready {
        Ok(None) => 0,
        Ok(Some(test)) => execute(test, &stop, engine::run, &mut user_data::keep),
        Err(error) => {
            tell(&error, form);
            error.exit_code()
        }
    }
}

/// A job with its key and the data of a file, which only flags name.
type Asked = (TestJob, Option<Key>, Option<Source>);

/// The job that the flags define. `None` if a plan was saved and there is nothing to run.
fn job_of(args: &TestArgs) -> Result<Option<Asked>, CliError> {
    let file = match script::translated(args)? {
        Some(plan) => Some(plan),
        None => args.general.plan.as_deref().map(read_plan).transpose()?,
    };
    let Planned { mut plan, host, nominal_auto, connect_timeout } =
        plan::plan(args, file.as_deref(), Seed(random::u64()))?;
    apart(&named(args))?;
    let source = Source::open(args)?;
    if let Some(source) = &source {
        source.fit(&mut plan, args)?;
    }
    let (key, warnings) = args.key.resolve()?;
    args.general.affinity.as_ref().map_or(Ok(()), Cpus::check)?;
    let is_only_saved = args.general.has_script() && args.general.save_plan.is_some();
    let runs = host.is_some() || (plan.servers().is_ok() && !is_only_saved);
    if runs {
        output::check(&args.output, &plan)?;
    }
    if let Some(path) = &args.general.save_plan {
        let text = plan.to_toml().map_err(CliError::Model)?;
        files::check("--save-plan", path)?;
        files::write("--save-plan: write", path, &text)?;
    }
    if !runs {
        return Ok(None);
    }
    warnings.iter().for_each(|w| warn("key-exposed", w));
    let (general, output) = (&args.general, &args.output);
    let now = since_epoch(SystemTime::now());
    let job = TestJob {
        host,
        port: None,
        plan,
        nominal_of_interface: nominal_auto,
        key: args.key.source(),
        hmac_key_file: args.hmac_key_file.clone(),
        labels: output.label.iter().map(|l| (l.key.clone(), l.value.clone())).collect(),
        store: !output.no_store,
        control_socket: general.control_socket.clone(),
        emulator: output.emulator.as_ref().map(|socket| EmulatorOnPath {
            control_socket: socket.clone(),
            client_side: output.emulator_side.clone(),
        }),
        start_at_ns: general.start_at.map(|at| at.monotonic_ns(now)),
        wait_for_start: false,
        threads: Threads {
            affinity: general.affinity.as_ref().map(ToString::to_string),
            scheduling: general.scheduling.map(|class| class.to_string()),
            spin: general.spin.map(span),
        },
        packet_log: output.packet_log.clone(),
        fetch: output.fetch.clone(),
        connect_timeout: span(connect_timeout),
    };
    Ok(Some((job, key, source)))
}

fn span(time: Duration) -> Span {
    Span(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

/// The job of a test that another host runs: without what only this host has.
pub(crate) fn job_elsewhere(args: &TestArgs) -> Result<TestJob, CliError> {
    let output = &args.output;
    let own = [
        ("-F/--file", args.later.file.is_some()),
        ("--hmac-key-file", args.hmac_key_file.is_some()),
        ("--control-socket", args.general.control_socket.is_some()),
        ("--packet-log", output.packet_log.is_some()),
        ("--fetch", output.fetch.is_some()),
        ("--csv", output.csv.is_some()),
        ("--logfile", output.logfile.is_some()),
        ("--emulator", output.emulator.is_some()),
        ("--before", output.before.is_some()),
        ("--after", output.after.is_some()),
    ];
    if let Some((flag, _)) = own.into_iter().find(|(_, is_given)| *is_given) {
        let accepted = "absent: another host runs the test";
        return Err(CliError::flag(flag, "given", accepted));
    }
    let Some((job, key, _)) = job_of(args)? else {
        return Err(CliError::flag("HOST", "missing", "a name or an address"));
    };
    // The file of a key is on this host.
    let key = KeySource { key: key.map(|key| key.to_string()), ..KeySource::default() };
    Ok(TestJob { key, ..job })
}

/// Completes a job of `weir job`: uses the plan's host if the job names none, and reads the key.
fn resolved(mut job: TestJob) -> Result<(TestJob, Option<Key>), CliError> {
    let host = job.host.take().or_else(|| job.plan.host.clone());
    let host = host.as_deref().map(Host::parse).transpose();
    let host = host.map_err(|e| CliError::of_field(e, "host"))?;
    let port = job.port.or(host.as_ref().and_then(|host| host.port));
    job.plan.port = port.or(job.plan.port);
    job.plan.host = host.map(|host| host.name);
    job.host.clone_from(&job.plan.host);
    if job.host.is_none() && job.plan.connections.iter().any(|c| c.host.is_none()) {
        let accepted = "a name or an address";
        return Err(CliError::flag("host", "missing, and the plan names none", accepted));
    }
    job.plan.check().map_err(CliError::Model)?;
    job.threads.check("threads").map_err(CliError::Model)?;
    let key = key::resolve(&job.key)?;
    Ok((job, key))
}

/// Checks everything that can be checked and opens every file.
fn prepare(
    job: TestJob,
    key: Option<Key>,
    source: Option<Source>,
    output: &OutputArgs,
    words: &[OsString],
) -> Result<Prepared, CliError> {
    let plan = job.plan;
    if job.packet_log.is_some()
        && plan.connections.iter().all(|c| c.direction == Direction::Forward)
    {
        warn(
            "packet-log-empty",
            "--packet-log holds what this side receives, which is nothing in a forward test: it stays empty \
             (weir serve --packet-log, or -R or --bidir here)",
        );
    }
    let now = since_epoch(SystemTime::now());
    let identity = Identity::new(words, job.labels, now, random::u64());
    let options = Options::of(output);
    let threads = values::own_threads(&job.threads)?;
    let config = ClientConfig {
        key,
        hmac: key::hmac(job.hmac_key_file.as_deref())?,
        connect_timeout: Duration::from_nanos(job.connect_timeout.0),
        control_socket: job.control_socket,
        packet_log: job.packet_log,
        fetch: job.fetch,
        cpus: threads.cpus,
        scheduling: threads.scheduling,
        spin: threads.spin,
        nominal_auto: job.nominal_of_interface,
        start_at_ns: job.start_at_ns,
        start_signal: job.wait_for_start.then(start_signal),
        supply: source.as_ref().map(|source| source.supply.clone()),
        ..ClientConfig::new(plan.clone(), job.host.unwrap_or_default())
    };
    engine::check(&config).map_err(|error| plan::of_engine(error, &plan))?;
    take_commands(config.commands.clone());
    let outputs = Outputs::open(output, options, identity.clone(), plan)?;
    let emulator = watched(job.emulator.as_ref())?;
    Ok(Prepared {
        config,
        outputs,
        identity,
        store: job.store,
        on_path: job.emulator,
        emulator,
        hooks: Hooks { before: output.before.clone(), after: output.after.clone() },
        source,
    })
}

/// The signal of the command `start`.
fn start_signal() -> StartSignal {
    let (starter, signal) = StartSignal::new();
    crate::job::on_start(move |at_ns| starter.start(at_ns));
    signal
}

/// For a test to answer a command.
const ANSWER: Duration = Duration::from_secs(3);

/// Carries out commands for connections that a job gets.
fn take_commands(commands: Commands) {
    crate::job::on_connection(move |command, connection| {
        let mut answer = match command {
            ConnectionCommand::Start => commands.start(connection),
            ConnectionCommand::Stop => commands.stop(connection),
        };
        let end = Instant::now() + ANSWER;
        loop {
            match answer.poll() {
                Some(done) => return done,
                None if Instant::now() >= end => return Err("the test does not answer".into()),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    });
}

/// The emulator on the path, with its counters of now.
fn watched(on_path: Option<&EmulatorOnPath>) -> Result<Option<Watched>, CliError> {
    let socket = on_path.map(|on_path| on_path.control_socket.as_path());
    let side = on_path.and_then(|on_path| on_path.client_side.as_deref());
    Watched::find(socket, side)
}

impl Prepared {
    /// Runs the command of `--before`, if there is one. The test starts after it.
    fn run_before(&mut self, stop: &Stop) -> Result<Option<SurroundingCommand>, CliError> {
        let ran = self.hooks.before(stop)?;
        if ran.is_some() {
            self.identity.start_again(since_epoch(SystemTime::now()), random::u64());
            self.outputs.identify(self.identity.clone());
            self.emulator = watched(self.on_path.as_ref())?;
        }
        Ok(ran)
    }
}

/// The files that a test reads and writes, by their flags.
fn named(args: &TestArgs) -> Vec<NamedFile<'_>> {
    let (key, output) = (&args.key, &args.output);
    let read = [
        ("--replay", &args.replay.replay),
        ("-F/--file", &args.later.file),
        ("--plan", &args.general.plan),
        ("--mgen-script", &args.general.mgen_script),
        ("--rude-script", &args.general.rude_script),
        ("--ditg-script", &args.general.ditg_script),
        ("--key-file", &key.key_file),
        ("--hmac-key-file", &args.hmac_key_file),
        ("--passphrase-file", &key.passphrase_file),
    ];
    let written = [
        ("--save-plan", &args.general.save_plan),
        ("--csv", &output.csv),
        ("--fetch", &output.fetch),
        ("--packet-log", &output.packet_log),
        ("--logfile", &output.logfile),
    ];
    let content = args.traffic.content.as_ref().map(|content| ("--content", &content.path));
    let read = read.into_iter().chain(content).map(|(flag, path)| (flag, path, false));
    let all = read.chain(written.into_iter().map(|(flag, path)| (flag, path, true)));
    let named =
        all.filter_map(|(flag, path, is_written)| Some((flag, path.as_deref()?, is_written)));
    named.map(|(flag, path, is_written)| NamedFile { flag, path, is_written }).collect()
}

fn read_plan(path: &Path) -> Result<String, CliError> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|f| f.take(MAX_PLAN_BYTES + 1).read_to_string(&mut text));
    match read.map_err(CliError::io("--plan: read", path))? as u64 {
        0..=MAX_PLAN_BYTES => Ok(text),
        _ => Err(CliError::flag("--plan", format!("{} is longer", path.display()), "up to 16M")),
    }
}

/// Runs the engine, prints its events and returns the exit code.
fn execute(
    mut job: Prepared,
    stop: &Stop,
    engine: impl FnOnce(ClientConfig, Stop, &mut dyn FnMut(Event)) -> Result<Record, Failure>,
    keep: &mut dyn FnMut(&Record) -> Result<(), StoreError>,
) -> i32 {
    let mut commands = match job.run_before(stop) {
        Ok(ran) => Vec::from_iter(ran),
        Err(error) => {
            job.outputs.failed(&error, false);
            return error.exit_code();
        }
    };
    if let Some(source) = job.source.as_ref().filter(|_| job.outputs.is_text()) {
        note(&source.text());
    }
    let shows_progress = job.outputs.is_text() && stderr().is_terminal();
    let kind = HostKind::of(&job.config.host);
    if shows_progress && kind != HostKind::Interface {
        let plan = &job.config.plan;
        let of_test = || match kind {
            HostKind::Network => format!("{}, port {}", job.config.host, plan.server_port()),
            _ => job.config.host.clone(),
        };
        let servers = plan.names_servers().then(|| plan.server_labels().join(", "));
        note(&format!("connecting to {} …", servers.unwrap_or_else(of_test)));
    }
    let outputs = &mut job.outputs;
    outputs.control(Controls { commands: job.config.commands.clone(), stop: stop.clone() });
    let mut is_reader_gone = false;
    let mut observe = |event: Event| {
        // Before the first interval there is nothing to store.
        let is_measured = matches!(event, Event::Interval(_));
        match event {
            Event::Connected { local, remote } => outputs.connected(local, remote),
            Event::Addresses(addresses) => outputs.addresses(&addresses),
            Event::Started { specs, family } => outputs.started(&specs, family),
            Event::Ready => crate::job::report(
                &weir_jobs::Event::Ready(Ready::default()),
                "ready; waiting for the start",
            ),
            Event::Flows(changed) => outputs.flows(&changed),
            Event::Peer(status) => outputs.peer(&status),
            Event::ServerOutput(text) => outputs.server_output(text),
            Event::Interval(interval) => outputs.interval(&interval),
            Event::Late(interval) => outputs.late(&interval),
            Event::Echoes(intervals) => outputs.echoes(&intervals),
        }
        if is_measured && outputs.is_abandoned() && !is_reader_gone {
            // Stdout is closed and there is no other output: stop as SIGPIPE would, but store the results so far.
            is_reader_gone = true;
            stop.request(StopReason::OutputClosed);
        }
    };
    let plan = job.config.plan.clone();
    let outcome = engine(job.config, stop.clone(), &mut observe);
    job.outputs.over();

    let (record, error) = match outcome {
        Ok(record) => (Some(record), None),
        Err(Failure { error, partial }) => {
            (partial.map(|p| *p), Some(plan::of_engine(error, &plan)))
        }
    };
    let record = record.map(|mut record| {
        job.identity.stamp(&mut record);
        user_data::add_calibration(&mut record);
        record.data_source = job.source.take().map(|source| source.described);
        if let Some(Err(reason)) = job.emulator.take().map(|e| e.finish(&mut record)) {
            warn("emulator-not-read", &format!("{reason}: its losses are not attributed"));
        }
        record
    });
    // Also after a test without a record, since it may undo what the command before it did.
    let after = job.hooks.after(stop);
    let record = record.map(|mut record| {
        record.warnings.extend(after.as_ref().and_then(hooks::failed));
        commands.extend(after);
        record.commands = commands;
        record
    });
    let mut stored = false;
    if let Some(record) = record.as_ref().filter(|_| job.store) {
        match keep(record) {
            Ok(()) => stored = true,
            Err(e) => {
                warn(Notice::NOT_STORED, &format!("the result was not stored: {}", chain(&e)))
            }
        }
    }
    // As other programs do when the reader of their output has closed it, the test ends without a message.
    let is_told = |error: &&CliError| error.exit_code() != StopReason::OutputClosed.exit_code();
    if let Some(error) = error.as_ref().filter(is_told) {
        job.outputs.failed(error, record.is_some());
    }
    if let Some(record) = &record {
        job.outputs.finish(record, stored);
    }
    job.outputs.end_exports(stop);
    let code = match (&error, &record) {
        (Some(error), _) => error.exit_code(),
        (None, Some(record)) => exit_code(record, stop),
        (None, None) => 70,
    };
    let problems = job.outputs.problems();
    problems.iter().for_each(report_error);
    if let Some(record) = record.as_ref().filter(|_| stored && !problems.is_empty()) {
        // The file failed, but the result is not lost.
        let id = &record.id;
        notice(
            "stored",
            &format!(
                "the result is stored: weir runs show {id} prints it again, weir runs export {id} --format csv -o FILE writes it"
            ),
        );
    }
    match problems.first() {
        Some(problem) if code == 0 => problem.exit_code(),
        _ => code,
    }
}

/// The exit code of a record.
fn exit_code(record: &Record, stop: &Stop) -> i32 {
    match record.status {
        Status::Interrupted => stop.reason().unwrap_or(StopReason::Interrupted).exit_code(),
        Status::Partial => 3,
        Status::Complete if record.verdict.as_ref().is_some_and(|v| !v.passed) => 1,
        // What was to be stored is not whole.
        Status::Complete if stored_files(record).any(|file| file.is_whole == Some(false)) => 1,
        Status::Complete if is_unreachable(record) => 3,
        Status::Complete => 0,
    }
}

fn stored_files(record: &Record) -> impl Iterator<Item = &ReceivedFile> {
    record.flows.iter().filter_map(|flow| flow.received_file.as_ref())
}

/// Whether nothing answered a test without a control connection, which would have failed.
fn is_unreachable(record: &Record) -> bool {
    let is_silent = |flow: &Flow| {
        !flow.transport.has_server()
            && flow.transactions.as_ref().is_some_and(|t| t.completed == 0 && t.failed > 0)
    };
    !record.flows.is_empty() && record.flows.iter().all(is_silent)
}

#[cfg(test)]
mod tests;
