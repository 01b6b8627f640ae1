//! The output of a test while it runs and at its end.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;
use std::time::Duration;

use weir_jobs::Event;
use weir_model::names::HostKind;
use weir_model::plan::{Family, FlowSpec, Plan};
use weir_model::progress::{EchoInterval, FlowProgress, PeerStatus};
use weir_model::record::{Interval, Record};
use weir_report::{
    CsvWriter, FlowMeta, IntervalTable, JsonStream, Start, Style, TextOptions, Units, header,
    json_pretty, summary,
};

use super::args::OutputArgs;
use super::live::{self, Controls, Live};
use crate::app::{ErrorForm, note, tell};
use crate::commands::exporter::{self, Exporter, OtlpExporter};
use crate::commands::tool::{Tool, ToolOutput};
use crate::engine::{Address, FlowAddresses, Stop};
use crate::error::{CliError, chain, error_object};
use crate::job::{report_error, warn};
use crate::output::Sink;
use crate::stamp::{Identity, VERSION};
use crate::terminal::text_options;

/// Holds the header and the first rows, so that a full disk is met while the test runs, and not before.
const CSV_BUFFER: usize = 64 << 10;

/// The form of the output on stdout or in the logfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text for people.
    Text,
    /// One record at the end.
    Json,
    /// One event a line.
    Stream,
    /// As another tool prints it.
    Tool,
}

/// Options of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Its form.
    pub(crate) form: Form,
    /// Details of text.
    pub(crate) text: TextOptions,
}

impl Options {
    /// The options that the flags request; colour only on a terminal.
    pub(crate) fn of(args: &OutputArgs) -> Options {
        let form = match (args.json, args.json_stream) {
            _ if args.tool.is_some() => Form::Tool,
            (true, _) => Form::Json,
            (_, true) => Form::Stream,
            _ => Form::Text,
        };
        let of_stdout = text_options();
        let is_plain = args.logfile.is_some();
        Options {
            form,
            text: TextOptions {
                units: args.format.unwrap_or(Units::ADAPTIVE),
                style: if is_plain { Style::PLAIN } else { of_stdout.style },
                verbose: args.verbose,
                ..of_stdout
            },
        }
    }
}

/// The open outputs of one test.
pub(crate) struct Outputs {
    options: Options,
    sink: Sink,
    csv: Option<Csv>,
    identity: Identity,
    plan: Plan,
    table: Option<IntervalTable>,
    tool: Option<Box<dyn ToolOutput>>,
    problems: Vec<CliError>,
    exporter: Option<Exporter>,
    otlp: Option<OtlpExporter>,
    /// What a live view controls; absent before the test runs.
    controls: Option<Controls>,
    is_live: bool,
    live: Option<Live>,
}

/// The file of `--csv`.
struct Csv {
    writer: CsvWriter<Box<dyn Write + Send>>,
    path: PathBuf,
    /// Whether the rows are replaced by the record's at the end: true for a regular file, false for a pipe.
    is_replaced: bool,
}

fn csv_is_stdout(args: &OutputArgs) -> bool {
    args.csv.as_deref().is_some_and(|path| path.as_os_str() == "-")
}

/// Refuses outputs of this plan that exclude each other, and a live view that can't be shown. Opens nothing.
pub(super) fn check(args: &OutputArgs, plan: &Plan) -> Result<(), CliError> {
    let to_stdout = csv_is_stdout(args);
    if to_stdout && (args.json || args.json_stream) && args.logfile.is_none() {
        let first = if args.json { "--json" } else { "--json-stream" };
        let why = format!("standard output, which {first} uses");
        return Err(CliError::flag("--csv", why, "a file, or one of them alone"));
    }
    if args.live && to_stdout {
        let accepted = "a file, or no --live";
        return Err(CliError::flag("--csv", "standard output, which --live uses", accepted));
    }
    if args.live {
        live::check()?;
        if plan.interval.0 == 0 {
            let accepted = "10ms to 1h with --live, which shows intervals";
            return Err(CliError::flag("--interval", "0", accepted));
        }
    }
    Ok(())
}

impl Outputs {
    /// Opens every output, so that a wrong path is refused before the test runs.
    ///
    /// # Errors
    /// [`CliError::Io`] naming the file.
    pub(crate) fn open(
        args: &OutputArgs,
        options: Options,
        identity: Identity,
        plan: Plan,
    ) -> Result<Outputs, CliError> {
        let to_stdout = csv_is_stdout(args);
        let sink = match (to_stdout, &args.logfile) {
            // Only rows go to stdout.
            (true, None) => Sink::to(Box::new(std::io::stderr())),
            (_, logfile) => Sink::open(logfile.as_deref(), args.timestamps.clone())?,
        };
        let csv = match &args.csv {
            None => None,
            Some(path) => {
                let (file, is_replaced): (Box<dyn Write + Send>, _) = match to_stdout {
                    true => (Box::new(std::io::stdout()), false),
                    false => {
                        let io = CliError::io("--csv: create", path);
                        let file = weir_net::output::begin(path).map_err(io)?;
                        let is_replaced = weir_net::output::is_own_file(path, &file);
                        (Box::new(BufWriter::with_capacity(CSV_BUFFER, file)), is_replaced)
                    }
                };
                let writer = CsvWriter::new(file).map_err(CliError::io("--csv: write", path))?;
                Some(Csv { writer, path: path.clone(), is_replaced })
            }
        };
        let exporter = args.prometheus.map(exporter::start).transpose()?;
        let otlp = args.otlp.as_deref().map(|url| exporter::start_otlp(url, &identity.id));
        let otlp = otlp.transpose()?;
        Ok(Outputs {
            options,
            sink,
            csv,
            identity,
            plan,
            table: None,
            tool: args.tool.as_ref().map(Tool::output),
            problems: vec![],
            exporter,
            otlp,
            controls: None,
            is_live: args.live,
            live: None,
        })
    }

    /// Replaces the sink of the outputs.
    #[cfg(test)]
    pub(crate) fn with_sink(self, sink: Sink) -> Outputs {
        Outputs { sink, ..self }
    }

    /// Replaces the identity of the test, before it starts.
    pub(crate) fn identify(&mut self, identity: Identity) {
        self.identity = identity;
    }

    /// What a live view controls.
    pub(crate) fn control(&mut self, controls: Controls) {
        self.controls = Some(controls);
    }

    /// Whether the output is text.
    pub(crate) fn is_text(&self) -> bool {
        self.options.form == Form::Text
    }

    /// Whether stdout was closed by its reader and there is no other output.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.sink.is_gone() && self.csv.is_none()
    }

    /// The control connection is established.
    pub(crate) fn connected(&mut self, local: Address, remote: Address) {
        if self.is_text() && self.options.text.verbose {
            note(&format!("connected: {local} -> {remote}"));
        }
        if let Some(tool) = &mut self.tool {
            let host = self.plan.host.as_deref().unwrap_or_default();
            self.sink.text(&tool.connected(host, self.plan.server_port(), remote));
        }
    }

    /// The server's own output.
    pub(crate) fn server_output(&mut self, text: String) {
        self.tool.iter_mut().for_each(|tool| tool.server_output(&text));
    }

    /// The addresses of the flows are known.
    pub(crate) fn addresses(&mut self, addresses: &[FlowAddresses]) {
        if let Some(tool) = &mut self.tool {
            self.sink.text(&tool.addresses(addresses));
        }
    }

    /// Traffic starts.
    pub(crate) fn started(&mut self, specs: &[FlowSpec], family: Family) {
        self.exporter.iter().for_each(|exporter| exporter.flows(specs));
        self.otlp.iter().for_each(|exporter| exporter.flows(specs));
        // A Unix socket and an interface have no address family.
        if specs.iter().any(|spec| spec.connection.transport.host_kind() == HostKind::Network) {
            self.plan.family = Some(family);
        }
        let start = Start {
            id: self.identity.id.clone(),
            version: VERSION.into(),
            started_at: self.identity.started_at.clone(),
            host: weir_net::host::host().map(|host| host.hostname).unwrap_or_default(),
            plan: self.plan.clone(),
            flows: specs.iter().map(FlowMeta::from).collect(),
            imported_from: None,
        };
        match self.options.form {
            Form::Text => self.sink.text(&header(&start, &self.options.text)),
            // The sink stores a failure.
            Form::Stream => drop(JsonStream::new(&mut self.sink).start(&start)),
            Form::Tool => {
                let text = self.tool.as_mut().map(|tool| tool.started(&start, specs));
                self.sink.text(&text.unwrap_or_default());
            }
            Form::Json => {}
        }
        self.table = Some(IntervalTable::new(&start.flows, &self.options.text));
        if let Some(controls) = self.controls.take().filter(|_| self.is_live) {
            let end = |spec: &FlowSpec| {
                Some(spec.connection.start_after.0.saturating_add(spec.duration_ns?))
            };
            let planned: Option<Vec<u64>> = specs.iter().map(end).collect();
            let planned = planned.and_then(|all| all.into_iter().max()).map(Duration::from_nanos);
            match Live::open(&start, planned, self.options.text, controls) {
                Ok(live) => self.live = Some(live),
                Err(error) => warn("live-not-shown", &chain(&error)),
            }
        }
        // A live view shows what waits, and starts it.
        if self.live.is_none() && self.is_text() {
            let waiting = specs.iter().filter(|spec| !spec.connection.autostart);
            let mut names: Vec<&str> = waiting
                .map(|spec| match spec.connection.name.as_str() {
                    "" => spec.name.as_str(),
                    name => name,
                })
                .collect();
            names.dedup();
            for name in names {
                note(&format!("connection {name} waits until weir ctl start {name}"));
            }
        }
        if self.live.is_none() && self.is_text() && self.plan.interval.0 > 0 {
            let heading = self.table.as_ref().map(IntervalTable::heading).unwrap_or_default();
            self.sink.text(&heading);
        }
        self.csv_rows(|csv| {
            csv.start(&start);
            Ok(())
        });
    }

    /// States of flows have changed.
    pub(crate) fn flows(&mut self, changed: &[FlowProgress]) {
        self.live.iter().for_each(|live| live.flows(changed));
        if self.options.form == Form::Stream {
            drop(JsonStream::new(&mut self.sink).flows(changed));
        }
    }

    /// The peer has become unreachable, or reachable again.
    pub(crate) fn peer(&mut self, status: &PeerStatus) {
        self.live.iter().for_each(|live| live.peer(status));
        if self.options.form == Form::Stream {
            drop(JsonStream::new(&mut self.sink).peer(status));
        }
    }

    /// An interval is over.
    pub(crate) fn interval(&mut self, interval: &Interval) {
        self.exporter.iter().for_each(|exporter| exporter.interval(interval));
        self.otlp.iter().for_each(|exporter| exporter.interval(interval));
        self.live.iter().for_each(|live| live.interval(interval));
        match self.options.form {
            Form::Text if self.live.as_ref().is_some_and(Live::is_shown) => {}
            Form::Text => {
                let rows = self.table.as_ref().map(|t| t.rows(interval)).unwrap_or_default();
                self.sink.text(&rows);
            }
            Form::Stream => drop(JsonStream::new(&mut self.sink).interval(interval)),
            Form::Tool => {
                let text = self.tool.as_mut().map(|tool| tool.interval(interval));
                self.sink.text(&text.unwrap_or_default());
            }
            Form::Json => {}
        }
        self.csv_rows(|csv| csv.interval(interval));
    }

    /// The missing part of an interval has arrived: printed lines are not corrected, but the CSV file gets the complete interval.
    pub(crate) fn late(&mut self, interval: &Interval) {
        self.exporter.iter().for_each(|exporter| exporter.late(interval));
        self.otlp.iter().for_each(|exporter| exporter.late(interval));
        self.csv_rows(|csv| csv.late(interval));
    }

    /// Intervals of echoed flows are complete.
    pub(crate) fn echoes(&mut self, intervals: &[EchoInterval]) {
        if self.options.form == Form::Stream {
            drop(JsonStream::new(&mut self.sink).echoes(intervals));
        }
    }

    /// The test is over: the terminal shows lines again.
    pub(crate) fn over(&mut self) {
        self.live = None;
    }

    /// The result is stored and shown. A collector that does not answer delays only what follows, until a further stop.
    pub(crate) fn end_exports(&mut self, stop: &Stop) {
        self.otlp.take().into_iter().for_each(|otlp| exporter::finish_otlp(otlp, stop));
    }

    /// The record is available, complete or partial.
    pub(crate) fn finish(&mut self, record: &Record, stored: bool) {
        match self.options.form {
            Form::Text => {
                let options = TextOptions { stored, ..self.options.text };
                self.sink.text(&summary(record, &options));
            }
            Form::Stream => drop(JsonStream::new(&mut self.sink).end(record)),
            Form::Json => self.sink.raw(&json_pretty(record)),
            Form::Tool => {
                let text = self.tool.as_mut().map(|tool| tool.finish(record));
                self.sink.text(&text.unwrap_or_default());
            }
        }
        self.csv_end(record);
    }

    /// The test failed. `--json` prints a single object: if there is a record, that, and the error goes to stderr.
    pub(crate) fn failed(&mut self, error: &CliError, with_record: bool) {
        match self.options.form {
            Form::Stream => {
                self.sink.raw(&Event::Error(error.refusal()).to_line().unwrap_or_default());
            }
            Form::Json if !with_record => self.sink.raw(&(error_object(&error.refusal()) + "\n")),
            Form::Json => report_error(error),
            Form::Tool => {
                let text = error.chain();
                self.tool.iter_mut().for_each(|tool| tool.failed(&text, with_record));
            }
            Form::Text => tell(error, ErrorForm::of_environment()),
        }
    }

    /// The outputs that could not be written, as errors.
    pub(crate) fn problems(&mut self) -> Vec<CliError> {
        self.problems.extend(self.sink.failure());
        std::mem::take(&mut self.problems)
    }

    /// The last rows of the CSV file. Rows written as the test ran lack what became known later, so a file gets the
    /// record's rows instead.
    fn csv_end(&mut self, record: &Record) {
        let is_known = !record.intervals.is_empty();
        let Some(csv) = self.csv.as_mut().filter(|csv| csv.is_replaced && is_known) else {
            return self.csv_rows(|csv| csv.end(record));
        };
        let whole: std::io::Result<CsvWriter<Box<dyn Write + Send>>> =
            weir_net::output::begin(&csv.path).and_then(|file| {
                CsvWriter::new(Box::new(BufWriter::with_capacity(CSV_BUFFER, file)) as _)
            });
        match whole {
            Ok(writer) => csv.writer = writer,
            // The file was moved or removed in the meantime: complete the open one.
            Err(_) => return self.csv_rows(|csv| csv.end(record)),
        }
        self.csv_rows(|csv| csv.record(record));
    }

    /// Writes to the CSV file; after a failure nothing more is written.
    fn csv_rows(
        &mut self,
        write: impl FnOnce(&mut CsvWriter<Box<dyn Write + Send>>) -> std::io::Result<()>,
    ) {
        if let Some(csv) = &mut self.csv
            && let Err(e) = write(&mut csv.writer)
        {
            // A reader that closes the pipe early is no failure.
            if e.kind() != ErrorKind::BrokenPipe {
                self.problems.push(CliError::io("--csv: write", &csv.path)(e));
            }
            self.csv = None;
        }
    }
}
