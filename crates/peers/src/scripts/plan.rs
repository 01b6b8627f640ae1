//! Timelines as a plan.

use std::collections::BTreeMap;

use weir_model::ModelError;
use weir_model::plan::{
    ConnectionFields, HeaderFormat, PeerName, Plan, RateSchedule, Size, Spacing,
};
use weir_model::units::{ByteSize, SendRate, Span};

use super::timeline::{Pattern, Period, Traffic};
use super::{Destination, Note, Script, refused};

/// Minimum length of a message with a checksum, bytes.
const MIN_CHECKED_BYTES: u64 = 52;
/// Maximum number of changes of the rate of one connection.
const MAX_CHANGES: usize = 1000;

/// How a script is translated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) to: Destination,
    /// Messages have a checksum.
    pub(super) is_checked: bool,
    /// What is left out at the beginning, ns.
    pub(super) offset_ns: u64,
}

/// The script with these flows.
///
/// # Errors
/// What a plan can't express, by its line.
pub(super) fn script(
    flows: BTreeMap<u32, Vec<Period>>,
    options: Options,
    mut notes: Vec<Note>,
) -> Result<Script, ModelError> {
    let mut connections = vec![];
    for (flow, periods) in flows {
        let parts = merged(&clipped(periods, options.offset_ns));
        for (number, part) in (1_u32..).zip(&parts) {
            let name = match number {
                1 => flow.to_string(),
                number => format!("{flow}.{number}"),
            };
            if part.first.until_ns.is_none() && part.first.most().is_none() {
                let text = format!("flow {flow} has no end: it sends until the test is stopped");
                notes.push(Note { line: part.first.line, text });
            }
            connections.push(fields(part, name, options)?.into());
        }
    }
    if connections.is_empty() {
        return Err(refused(1, "script", "no flow that sends", "at least one"));
    }
    let peer = match options.to {
        Destination::Script => PeerName::Mgen,
        Destination::Server => PeerName::default(),
    };
    notes.sort_by_key(|note| note.line);
    Ok(Script { plan: Plan { peer, connections, ..Plan::default() }, notes })
}

/// The periods from `offset_ns` on, with times since then.
fn clipped(periods: Vec<Period>, offset_ns: u64) -> Vec<Period> {
    let clip = |period: Period| {
        let until_ns = period.until_ns.map(|until| until.saturating_sub(offset_ns));
        let from_ns = period.from_ns.saturating_sub(offset_ns);
        let is_empty = until_ns.is_some_and(|until| until <= from_ns);
        (!is_empty && period.traffic.pattern != Pattern::Silent).then_some(Period {
            from_ns,
            until_ns,
            ..period
        })
    };
    periods.into_iter().filter_map(clip).collect()
}

/// A connection: a period, whose end is that of the last one, and the rates of those after the first.
struct Part {
    first: Period,
    rates: Vec<(u64, f64)>,
}

/// Joins periods that follow each other and differ in an even rate only.
fn merged(periods: &[Period]) -> Vec<Part> {
    let mut parts: Vec<Part> = vec![];
    for period in periods {
        if let Some(last) = parts.last_mut()
            && let Some(rate) = joined(last, period)
        {
            last.rates.push((period.from_ns - last.first.from_ns, rate));
            last.first.until_ns = period.until_ns;
            continue;
        }
        parts.push(Part { first: period.clone(), rates: vec![] });
    }
    parts
}

/// The rate of a period that continues a part; `None`: it does not.
fn joined(part: &Part, next: &Period) -> Option<f64> {
    let Pattern::Even(rate) = next.traffic.pattern else { return None };
    let traffic = Traffic { pattern: part.first.traffic.pattern.clone(), ..next.traffic.clone() };
    let is_alike = traffic == part.first.traffic
        && matches!(part.first.traffic.pattern, Pattern::Even(_))
        && part.first.until_ns == Some(next.from_ns)
        && part.first.limit.is_none()
        && next.limit.is_none()
        && part.rates.len() < MAX_CHANGES;
    is_alike.then_some(rate)
}

/// The fields of a connection.
fn fields(part: &Part, name: String, options: Options) -> Result<ConnectionFields, ModelError> {
    let (period, traffic) = (&part.first, &part.first.traffic);
    let of_line =
        |what: &str, error: &ModelError| refused(period.line, what, "", error.to_string());
    let packets_per_second = |rate: f64| {
        let text = format!("{rate}pps");
        text.parse::<SendRate>().map_err(|_| {
            let accepted = "up to 1000000000 messages per second, or -1 for no limit";
            refused(period.line, "rate", rate.to_string(), accepted)
        })
    };
    let recorded;
    let (rate, spacing) = match &traffic.pattern {
        Pattern::Recorded(gaps, _) => {
            let gaps: Vec<String> = gaps.iter().map(|gap| format!("{gap}ns")).collect();
            recorded = format!("values({})", gaps.join(", "));
            (None, Some(&recorded))
        }
        Pattern::Silent => (Some(packets_per_second(0.0)?), None),
        Pattern::Unlimited => (Some(SendRate::UNLIMITED), None),
        Pattern::Even(rate) => (Some(packets_per_second(*rate)?), None),
        Pattern::Law(law, rate) => (rate.map(packets_per_second).transpose()?, Some(law)),
    };
    let spacing = match spacing {
        None => Spacing::default(),
        Some(law) => law.parse().map_err(|error| of_line("pattern", &error))?,
    };
    let rate_schedule = match &part.rates[..] {
        [] => None,
        rates => {
            let change = |(at, rate): &(u64, f64)| {
                Ok(format!("{}:{}", Span(*at), packets_per_second(*rate)?))
            };
            let text = rates.iter().map(change).collect::<Result<Vec<_>, ModelError>>()?.join(",");
            let schedule = text.parse::<RateSchedule>();
            Some(schedule.map_err(|error| of_line("rate", &error))?)
        }
    };
    let size: Size = traffic.size.parse().map_err(|error| of_line("size", &error))?;
    let (duration, packets) = end(period)?;
    let is_script = options.to == Destination::Script;
    let is_checked = options.is_checked && traffic.bytes.0 >= MIN_CHECKED_BYTES;
    Ok(ConnectionFields {
        name,
        transport: traffic.transport,
        host: is_script.then(|| traffic.host.clone()),
        port: is_script.then_some(traffic.port),
        client_port: traffic.source_port.filter(|_| is_script),
        payload: Some(size),
        header: match is_script && traffic.transport.datagrams() {
            true if is_checked => HeaderFormat::MgenChecked,
            true => HeaderFormat::Mgen,
            false => HeaderFormat::default(),
        },
        rate,
        rate_schedule,
        spacing,
        duration,
        packets,
        start_after: Span(period.from_ns),
        tos: traffic.tos,
        ttl: traffic.ttl,
        window: traffic.buffer.map(ByteSize),
        content: traffic.content,
        ..ConnectionFields::default()
    })
}

/// When a period ends: after a time, or a number of messages.
fn end(period: &Period) -> Result<(Option<Span>, Option<u64>), ModelError> {
    let length_ns = period.until_ns.map(|until| until.saturating_sub(period.from_ns));
    let by_time = (Some(Span(length_ns.unwrap_or(0))), None);
    let Some(limit) = period.most() else { return Ok(by_time) };
    let Some(length_ns) = length_ns else { return Ok((None, Some(limit))) };
    match period.traffic.pattern {
        // The last one is sent before the end.
        Pattern::Even(rate) if (limit - 1) as f64 / rate < length_ns as f64 / 1e9 => {
            Ok((None, Some(limit)))
        }
        Pattern::Recorded(..) => {
            let until_ns = period.from_ns.saturating_add(length_ns);
            let is_ended = period.messages(until_ns).is_some_and(|sent| sent >= limit);
            Ok(if is_ended { (None, Some(limit)) } else { by_time })
        }
        Pattern::Even(_) | Pattern::Silent => Ok(by_time),
        Pattern::Unlimited | Pattern::Law(..) => {
            let accepted = "a COUNT without OFF, or PERIODIC: otherwise it is unknown which of them ends the flow";
            Err(refused(period.line, "COUNT", limit.to_string(), accepted))
        }
    }
}
