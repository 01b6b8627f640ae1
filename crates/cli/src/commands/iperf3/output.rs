//! What `weir iperf3` prints.

use weir_model::plan::{Direction, FlowSpec};
use weir_model::record::{Flow, Interval, Record};
use weir_report::{
    Iperf3Options, Iperf3Text, NoIperf3Form, Start, clean, iperf3_end, iperf3_interval,
    iperf3_json, iperf3_start,
};

use crate::commands::tool::{self, ToolOutput};
use crate::engine::{Address, FlowAddresses};

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Iperf3Form {
    /// Text.
    Text,
    /// One object at the end.
    Json,
    /// One object a line.
    Stream,
}

/// How the output is printed.
#[derive(Debug, Clone)]
pub(crate) struct Iperf3Settings {
    pub(super) form: Iperf3Form,
    /// Text that JSON has as `extra_data`.
    pub(super) extra_data: Option<String>,
    pub(super) options: Iperf3Options,
}

/// The output of a client's test.
#[derive(Debug)]
pub(crate) struct Iperf3Output {
    settings: Iperf3Settings,
    /// What is known at the start.
    known: Record,
    text: Option<Iperf3Text>,
    error: Option<String>,
    server_output: Option<String>,
}

impl Iperf3Output {
    pub(crate) fn new(settings: Iperf3Settings) -> Self {
        Iperf3Output {
            settings,
            known: Record::default(),
            text: None,
            error: None,
            server_output: None,
        }
    }
}

impl ToolOutput for Iperf3Output {
    fn connected(&mut self, host: &str, port: u16, _: Address) -> String {
        match self.settings.form {
            Iperf3Form::Text => {
                format!("Connecting to host {}, port {port}\n", clean(host))
            }
            _ => String::new(),
        }
    }

    fn addresses(&mut self, addresses: &[FlowAddresses]) -> String {
        self.known.flows = addresses
            .iter()
            .map(|known| {
                let (local, remote) = (known.local.to_string(), known.remote.to_string());
                let (source, destination) = match known.direction {
                    Direction::Forward => (local, remote),
                    Direction::Reverse => (remote, local),
                };
                let direction = known.direction;
                Flow { id: known.flow, direction, source, destination, ..Flow::default() }
            })
            .collect();
        String::new()
    }

    fn started(&mut self, start: &Start, specs: &[FlowSpec]) -> String {
        let known = &mut self.known;
        known.id.clone_from(&start.id);
        known.version.clone_from(&start.version);
        known.started_at.clone_from(&start.started_at);
        known.plan = start.plan.clone();
        for spec in specs {
            if let Some(flow) = known.flows.iter_mut().find(|flow| flow.id == spec.id) {
                flow.transport = spec.connection.transport.name();
                flow.payload_bytes = spec.payload_bytes();
            }
        }
        match self.settings.form {
            Iperf3Form::Text => {
                self.text = Iperf3Text::new(known.clone(), self.settings.options).ok();
                self.text.as_ref().map(Iperf3Text::start).unwrap_or_default()
            }
            Iperf3Form::Stream => iperf3_start(known).unwrap_or_default(),
            Iperf3Form::Json => String::new(),
        }
    }

    fn server_output(&mut self, text: &str) {
        let lines: Vec<String> = text.lines().map(|line| clean(line).to_string()).collect();
        self.server_output = Some(lines.join("\n"));
    }

    fn interval(&mut self, interval: &Interval) -> String {
        match self.settings.form {
            Iperf3Form::Text => {
                self.text.as_mut().map(|text| text.interval(interval)).unwrap_or_default()
            }
            Iperf3Form::Stream => iperf3_interval(&self.known, interval).unwrap_or_default(),
            Iperf3Form::Json => String::new(),
        }
    }

    fn failed(&mut self, error: &str, with_record: bool) {
        match (self.settings.form, with_record) {
            (Iperf3Form::Json, true) => self.error = Some(error.into()),
            (form, _) => print_error(error, form),
        }
    }

    fn finish(&mut self, record: &Record) -> String {
        let complete = record.status == weir_model::record::Status::Complete;
        let text = match self.settings.form {
            Iperf3Form::Text => {
                let summary = self.text.as_ref().map(|text| text.summary(record));
                let done = if complete { "\niperf Done.\n" } else { "" };
                let output = self.server_output.take();
                let output = output.map(|text| format!("\nServer output:\n{text}\n\n"));
                Ok(summary.unwrap_or_default() + &output.unwrap_or_default() + done)
            }
            form => {
                let added = Added {
                    error: self.error.take(),
                    server_output: self.server_output.take(),
                    extra_data: self.settings.extra_data.clone(),
                };
                json(record, form, added)
            }
        };
        tool::warn(record);
        text.unwrap_or_else(|reason| {
            super::tell(&reason.to_string());
            String::new()
        })
    }
}

/// What JSON has in addition to a result.
#[derive(Debug, Default)]
pub(super) struct Added {
    error: Option<String>,
    server_output: Option<String>,
    extra_data: Option<String>,
}

/// The result of a client or a server as JSON.
pub(super) fn json(
    record: &Record,
    form: Iperf3Form,
    added: Added,
) -> Result<String, NoIperf3Form> {
    if form == Iperf3Form::Stream {
        return iperf3_end(record);
    }
    let mut object = iperf3_json(record)?;
    for (name, text) in [
        ("error", added.error),
        ("server_output_text", added.server_output),
        ("extra_data", added.extra_data),
    ] {
        if let Some(text) = text {
            object[name] = text.into();
        }
    }
    Ok(format!("{object:#}\n"))
}

/// Prints an error in the form of the output.
pub(super) fn print_error(text: &str, form: Iperf3Form) {
    let object = match form {
        Iperf3Form::Text => return super::tell(text),
        Iperf3Form::Json => {
            serde_json::json!({ "start": {}, "intervals": [], "end": {}, "error": text })
        }
        Iperf3Form::Stream => serde_json::json!({ "event": "error", "data": text }),
    };
    // Where standard output is closed, the exit code reports the error.
    let _ = crate::output::print(&format!("{object}\n"));
}
