//! The text output: a header, a line for each interval and flow, and a summary, similar to iperf3's.

mod details;
mod lines;
mod summary;
mod wrap;

pub use details::data_source;
pub use lines::IntervalTable;
pub use summary::summary;
pub use wrap::hanging;

use weir_model::counted;
use weir_model::names::HostKind;
use weir_model::plan::{Connection, Direction, Server, TransportName};
use weir_model::units::{BitRate, RateLimit, SendRate};
use weir_model::warning::{Severity, Warning};

use crate::meta::{FlowMeta, Start};
use crate::number::Units;
use crate::style::{Style, clean};

/// Above this number of flows only sums are shown, unless verbose.
pub(crate) const FLOWS_SHOWN: usize = 16;

/// Options of text output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Unit of rates (`-f`).
    pub units: Units,
    /// Whether to use colours.
    pub style: Style,
    /// Show every flow and every figure (`-V`).
    pub verbose: bool,
    /// Columns of the terminal, for wrapped sentences; tables keep their width.
    pub width: usize,
    /// Whether the run is stored: the summary then says how to show it again.
    pub stored: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        TextOptions {
            units: Units::ADAPTIVE,
            style: Style::PLAIN,
            verbose: false,
            width: 100,
            stored: true,
        }
    }
}

/// The first lines of a test: peer, flows, duration.
pub fn header(start: &Start, options: &TextOptions) -> String {
    let plan = &start.plan;
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    let servers = plan.servers().unwrap_or_default();
    let mut connections = plan.connections.iter();
    // An imported result may have round trips alongside streams.
    let is_echo = match start.imported_from {
        None => connections.any(|c| c.transport.echoes() && c.shape.has_transactions()),
        Some(_) => connections.all(|c| c.transport.echoes()),
    };
    let with = match &servers[..] {
        [_, _, ..] => {
            let labels: Vec<String> = servers.iter().map(Server::label).collect();
            format!("{} servers: {}", servers.len(), labels.join(", "))
        }
        // Only a host of a network has a port.
        [one] if HostKind::of(&one.host) != HostKind::Network => one.host.clone(),
        _ if is_echo => {
            format!("{} by ICMP echo", plan.host.as_deref().unwrap_or("the host"))
        }
        [one] if start.imported_from.is_some() && plan.port.is_none() => one.host.clone(),
        [one] => format!("{}, port {}", one.host, one.port),
        [] if start.imported_from.is_some() => "an unnamed host".into(),
        [] => {
            format!("{}, port {}", plan.host.as_deref().unwrap_or("the peer"), plan.server_port())
        }
    };
    let version = clean(&start.version);
    let by = start.imported_from.as_deref();
    let by = by.map(|tool| format!("result of {}, ", clean(tool))).unwrap_or_default();
    line(options.style.bold(&format!("weir {version}: {by}test with {}", clean(&with))));
    if let Some(title) = &plan.title {
        line(format!("Title: {}", clean(title)));
    }
    if start.flows.len() <= FLOWS_SHOWN || options.verbose {
        for flow in &start.flows {
            line(format!("[{:>3}] {}", flow.id, describe(flow, start.imported_from.is_some())));
        }
    } else {
        let mut kinds: Vec<(TransportName, Direction, usize)> = vec![];
        for flow in &start.flows {
            match kinds.iter_mut().find(|(t, d, _)| (*t, *d) == (flow.transport, flow.direction)) {
                Some((_, _, n)) => *n += 1,
                None => kinds.push((flow.transport, flow.direction, 1)),
            }
        }
        for (transport, direction, n) in kinds {
            line(format!("{n} flows {transport} {direction}; sums are shown"));
        }
    }
    let is_limited =
        |c: &Connection| c.duration.is_some() || c.bytes.is_some() || c.packets.is_some();
    let is_stated = start.imported_from.is_none() || plan.connections.iter().all(is_limited);
    if !plan.connections.is_empty() && is_stated {
        line(format!("Starting: {}", length(start)));
    }
    out
}

/// `udp forward 198.18.0.1:40000 -> 198.18.0.2:9347, 1472-byte datagrams, 10M`. A size of 0 of an imported flow is unknown.
fn describe(flow: &FlowMeta, is_imported: bool) -> String {
    let is_stream = !flow.shape.has_transactions();
    let mut text = match is_stream {
        true => format!("{} {}", flow.transport, flow.direction),
        // Only transfers have a direction.
        false if flow.direction == Direction::Reverse => {
            format!("{} {} {}", flow.transport, flow.shape, flow.direction)
        }
        false => format!("{} {}", flow.transport, flow.shape),
    };
    if let Some(host) = &flow.host {
        text += &format!(" with {}", clean(host));
    }
    match (flow.source.is_empty(), flow.destination.is_empty()) {
        (true, true) => {}
        // Frames on an interface: who receives them is unknown.
        (false, true) => text += &format!(" on {}", clean(&flow.source)),
        _ => text += &format!(" {} -> {}", clean(&flow.source), clean(&flow.destination)),
    }
    let units = flow.transport.unit_of_payload();
    text += &match &flow.payload_law {
        Some(law) => format!(", {units} of {law} bytes"),
        None if flow.payload_bytes == 0 && is_imported => String::new(),
        None if is_stream => format!(", {}-byte {units}", flow.payload_bytes),
        None if flow.shape.has_data() => format!(", {}-byte requests", flow.payload_bytes),
        None => String::new(),
    };
    match flow.rate.as_str() {
        "" => {}
        "0" if !is_stream => {}
        "0" => text += ", unlimited",
        rate => {
            text += ", ";
            let words = rate_in_words(rate);
            text += &match flow.shape.has_volumes() {
                true => words.replace("packets/s", "transfers/s"),
                false => words,
            };
        }
    }
    if let Some(schedule) = &flow.rate_schedule {
        text += &format!(" at first ({schedule})");
    }
    if let Some(law) = &flow.spacing_law {
        text += &format!(", {law} intervals");
    }
    if !flow.name.is_empty() {
        text += &format!(" ({})", clean(&flow.name));
    }
    text
}

/// `10M/10` as `10 Mbit/s in bursts of 10`, `500pps` as `500 packets/s`; any other text unchanged.
pub(crate) fn rate_in_words(rate: &str) -> String {
    let Ok(SendRate { limit, burst }) = rate.parse() else {
        return clean(rate).into_owned();
    };
    let mut text = match limit {
        RateLimit::Unlimited => "unlimited".into(),
        RateLimit::Packets(packets) => format!("{}/s", counted(rounded(packets), "packet")),
        RateLimit::Bits(bits) => bits_in_words(bits),
    };
    if burst > 1 {
        text += &format!(" in bursts of {burst}");
    }
    text
}

/// A packet rate without rounding, unless it has more than six digits behind the point, as one that follows from a bit rate has:
/// then with four significant ones.
fn rounded(packets: f64) -> f64 {
    if (packets * 1e6).fract() == 0.0 || packets <= 0.0 {
        return packets;
    }
    let factor = 10f64.powf(3.0 - packets.log10().floor()).max(1.0);
    (packets * factor).round() / factor
}

/// A given rate without rounding: `100M` as `100 Mbit/s`, 1 234 567 bit/s as `1234567 bit/s`.
pub(crate) fn bits_in_words(bits: BitRate) -> String {
    let text = bits.to_string();
    let digits = text.trim_end_matches(char::is_alphabetic);
    format!("{digits} {}bit/s", &text[digits.len()..])
}

/// The limits of the test, and the time left out.
fn length(start: &Start) -> String {
    let plan = &start.plan;
    let mut parts = vec![];
    let one = |value: Option<String>| value.unwrap_or_default();
    let mut limits: Vec<String> = plan
        .connections
        .iter()
        .map(|c| match (c.bytes, c.packets, c.time_limit()) {
            (Some(bytes), ..) => counted(bytes.0, "byte"),
            (_, Some(packets), _) => {
                // -k counts writes of a stream.
                let units = match c.shape.has_transactions() {
                    true if c.shape.has_volumes() => "transfers",
                    true => "transactions",
                    false => c.transport.name().unit_of_payload(),
                };
                counted(packets, units.trim_end_matches('s'))
            }
            (.., limit) => limit.map_or("until stopped".into(), |limit| limit.to_string()),
        })
        .collect();
    limits.dedup();
    parts.push(if limits.len() == 1 {
        one(limits.pop())
    } else {
        "until each connection's end".into()
    });
    if plan.omit.0 > 0 {
        parts.push(format!("the first {} left out", plan.omit));
    }
    if plan.interval.0 > 0 {
        parts.push(format!("interval {}", plan.interval));
    }
    if let Some(nominal) = plan.nominal {
        parts.push(format!("nominal {}", bits_in_words(nominal)));
    }
    parts.join(", ")
}

/// A warning as wrapped text: `warning: …` (or `note:`, `error:`), with its flow and code.
pub fn warning(warning: &Warning, options: &TextOptions) -> String {
    let style = &options.style;
    let (word, coloured) = match warning.severity {
        Severity::Info => ("note:", "note:".to_string()),
        Severity::Warning => ("warning:", style.yellow("warning:")),
        Severity::Error => ("error:", style.red("error:")),
    };
    let flow = warning.flow.map(|f| format!("flow {f}: ")).unwrap_or_default();
    let text = format!("{word} {flow}{} [{}]", clean(&warning.text), clean(&warning.code));
    let wrapped = wrap::wrap(&text, options.width, word.len() + 1);
    // Colouring the first word after wrapping does not change the width of lines.
    wrapped.replacen(word, &coloured, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{Flow, IMPORTED, Record};

    /// What the file of another tool does not state is not printed, though the plan has a default.
    #[test]
    fn an_imported_result_has_no_defaults() {
        let plan = "schema = \"weir.plan/1\"\nhost = \"h\"\n[[connection]]\ntransport = \"udp\"";
        let flow = Flow { id: 1, transport: TransportName::Udp, ..Flow::default() };
        let mut record = Record {
            plan: weir_model::plan::Plan::parse(plan).unwrap(),
            flows: vec![flow],
            ..Record::default()
        };
        let text = |record: &Record| header(&Start::from(record), &TextOptions::default());
        let defaults = ["port 9347", "1 Mbit/s", "Starting: 10s", "0-byte"];
        let own = text(&record);
        assert!(defaults.iter().all(|default| own.contains(default)), "{own}");
        record.labels.insert(IMPORTED.into(), "nuttcp".into());
        let imported = text(&record);
        assert!(!defaults.iter().any(|default| imported.contains(default)), "{imported}");
        assert!(imported.contains("nuttcp"), "{imported}");
        // What it states is printed.
        record.plan.port = Some(5000);
        record.plan.connections[0].rate = "2M".parse().ok();
        record.plan.connections[0].duration = "3s".parse().ok();
        let stated = text(&record);
        assert!(["port 5000", "2 Mbit/s", "3s"].iter().all(|s| stated.contains(s)), "{stated}");
    }

    #[test]
    fn rates_are_reported_in_words() {
        for (given, words) in [
            ("10M/10", "10 Mbit/s in bursts of 10"),
            ("2.5G", "2.5 Gbit/s"),
            ("999", "999 bit/s"),
            ("64k", "64 kbit/s"),
            ("500pps", "500 packets/s"),
            ("333.45049594454053pps", "333.5 packets/s"),
            ("0.012345678901pps", "0.01235 packets/s"),
            ("123456.78901234pps", "123457 packets/s"),
            ("2.5pps", "2.5 packets/s"),
            ("1000pps/4", "1000 packets/s in bursts of 4"),
            ("333.45pps", "333.45 packets/s"),
            ("0/8", "unlimited in bursts of 8"),
            ("no rate", "no rate"),
        ] {
            assert_eq!(rate_in_words(given), words);
        }
    }
}
