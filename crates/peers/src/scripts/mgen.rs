//! MGEN's scripts (version 5): events of flows at their times, and global commands. Keywords have any case, and may be shortened.

mod clone;
mod pattern;

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::plan::TransportName;

use super::line::{Words, lines, meant};
use super::plan::{Options, script};
use super::timeline::{Period, Timelines, Traffic};
use super::{Destination, Note, Script, refused};
pub use clone::{Captured, Captures};
use pattern::{MessageBytes, Sent, sent};

/// Latest time of an event, s: 7 days.
const MAX_SECONDS: f64 = 7.0 * 86_400.0;

const EVENTS: &[&str] = &["ON", "MOD", "OFF", "LISTEN", "IGNORE", "JOIN", "LEAVE"];
/// Global commands.
const COMMANDS: &[&str] = &[
    "EVENT",
    "START",
    "INPUT",
    "OUTPUT",
    "LOG",
    "SAVE",
    "DEBUG",
    "OFFSET",
    "TXLOG",
    "LOCALTIME",
    "NOLOG",
    "DLOG",
    "BINARY",
    "FLUSH",
    "LABEL",
    "RXBUFFER",
    "TXBUFFER",
    "BROADCAST",
    "TOS",
    "TTL",
    "UNICAST_TTL",
    "INTERFACE",
    "CHECKSUM",
    "TXCHECKSUM",
    "RXCHECKSUM",
    "QUEUE",
    "REUSE",
    "IPV4",
    "IPV6",
    "DF",
    "SEED",
    "LOGDATA",
];
const PROTOCOLS: &[&str] = &["UDP", "TCP", "SINK"];
const PATTERNS: &[&str] = &["PERIODIC", "POISSON", "BURST", "JITTER", "CLONE"];
const OPTIONS: &[&str] = &[
    "PROTOCOL",
    "DST",
    "SRC",
    "PATTERN",
    "BROADCAST",
    "TOS",
    "RSVP",
    "INTERFACE",
    "TTL",
    "SEQUENCE",
    "LABEL",
    "TXBUFFER",
    "DATA",
    "COUNT",
    "QUEUE",
    "CONNECT",
    "DF",
    "LOGDATA",
    "REPORT",
    "SUSPEND",
    "RESUME",
    "RESET",
    "RETRY",
];

/// Reads a script. `captures`: the captures that its flows clone.
///
/// # Errors
/// What is not valid, or what a plan can't express, by its line.
pub fn read(text: &str, to: Destination, captures: &mut Captures) -> Result<Script, ModelError> {
    let mut reader = Reader {
        to,
        captures,
        is_checked: false,
        offset_ns: 0,
        tos: None,
        buffer: None,
        notes: vec![],
        events: vec![],
    };
    for (line, text) in lines(text)? {
        reader.line(line, &text)?;
    }
    reader.finish()
}

/// An event of a flow.
struct Event {
    at_ns: u64,
    line: usize,
    flow: u32,
    kind: EventKind,
}

enum EventKind {
    On(Changes),
    Mod(Changes),
    Off,
}

/// What an event says of a flow. Absent: nothing.
#[derive(Default)]
struct Changes {
    transport: Option<TransportName>,
    to: Option<(String, u16)>,
    source_port: Option<u16>,
    sent: Option<Sent>,
    tos: Option<u8>,
    ttl: Option<u8>,
    buffer: Option<u64>,
    content: Option<Content>,
    /// `Some(None)`: no limit.
    count: Option<Option<u64>>,
}

struct Reader<'a, 'b> {
    to: Destination,
    captures: &'a mut Captures<'b>,
    is_checked: bool,
    offset_ns: u64,
    tos: Option<u8>,
    buffer: Option<u64>,
    notes: Vec<Note>,
    events: Vec<Event>,
}

impl Reader<'_, '_> {
    fn note(&mut self, line: usize, word: &str, why: &str) {
        self.notes.push(Note { line, text: format!("{word} {why}") });
    }

    /// Reads a line: a global command, or an event with or without its time.
    fn line(&mut self, line: usize, text: &str) -> Result<(), ModelError> {
        let mut words = Words::new(line, text);
        let Some(mut word) = words.next() else { return Ok(()) };
        if let Some("EVENT") = meant(word, COMMANDS) {
            word = words.value(word, "an event")?;
        }
        let at_ns = match word.parse::<f64>() {
            Ok(seconds) => {
                if seconds.is_nan() || seconds > MAX_SECONDS {
                    return Err(words.refused("time", word, "up to 604800 seconds"));
                }
                word = words.value(word, "an event")?;
                // A negative time is the beginning.
                (seconds.max(0.0) * 1e9).round() as u64
            }
            Err(_) => 0,
        };
        // "OFF" begins OFFSET, too, but is an event.
        match meant(word, EVENTS) {
            Some(event @ ("ON" | "MOD" | "OFF")) => self.event(at_ns, event, words),
            Some(event) => {
                let why = "has no effect: weir serve --peer mgen=PORT, or mgen, receives";
                self.note(line, event, why);
                Ok(())
            }
            None => match meant(word, COMMANDS) {
                Some(command) => self.command(command, words),
                None => Err(words.refused("event", word, &EVENTS.join(", "))),
            },
        }
    }

    fn command(&mut self, command: &str, mut words: Words) -> Result<(), ModelError> {
        let line = words.line;
        match command {
            "OFFSET" => {
                let seconds = words.number(command, 0.0, MAX_SECONDS, "0 to 604800 seconds")?;
                self.offset_ns = (seconds * 1e9).round() as u64;
            }
            "TOS" => self.tos = Some(words.whole(command, 255, "0 to 255")? as u8),
            "TXBUFFER" => self.buffer = Some(buffer(command, &mut words)?),
            "CHECKSUM" | "TXCHECKSUM" => self.is_checked = true,
            "INPUT" => {
                let file = words.value(command, "a file")?;
                return Err(words.refused(command, file, "one script in one file"));
            }
            "LABEL" => {
                let label = words.value(command, "a number")?;
                return Err(words.refused(command, label, "no flow label; --flow-label sets one"));
            }
            "DF" => {
                let value = words.value(command, "ON or OFF")?;
                if meant(value, &["ON", "OFF"]) == Some("ON") {
                    return Err(words.refused(command, value, "OFF"));
                }
            }
            "START" => {
                self.note(line, command, "has no effect: --start-at says when a test starts")
            }
            "TTL" => self.note(line, command, "has no effect: it is that of multicast"),
            "UNICAST_TTL" => {
                let value = words.value(command, "1 to 255")?;
                return Err(words.refused(command, value, "TTL of each flow"));
            }
            other => self.note(line, other, "has no effect on what is sent"),
        }
        Ok(())
    }

    fn event(&mut self, at_ns: u64, event: &str, mut words: Words) -> Result<(), ModelError> {
        let line = words.line;
        let flow = words.whole(event, u32::MAX.into(), "a flow, 0 to 4294967295")? as u32;
        let changes = self.changes(&mut words)?;
        let kind = match event {
            "ON" => EventKind::On(changes),
            "MOD" => EventKind::Mod(changes),
            _ => EventKind::Off,
        };
        self.events.push(Event { at_ns, line, flow, kind });
        Ok(())
    }

    /// The options of an event.
    fn changes(&mut self, words: &mut Words) -> Result<Changes, ModelError> {
        let (line, mut changes) = (words.line, Changes::default());
        let mut pattern = None;
        while let Some(word) = words.next() {
            let protocol = meant(word, PROTOCOLS);
            let named = meant(word, PATTERNS);
            if let Some(protocol) = protocol {
                changes.transport = Some(self.transport(protocol, words)?);
                continue;
            }
            if let Some(name) = named {
                pattern = Some((name, words.parameters(name)?.to_owned()));
                continue;
            }
            let Some(option) = meant(word, OPTIONS) else {
                let accepted = "UDP, PERIODIC, POISSON, BURST, JITTER, DST, SRC, COUNT, TOS, TTL, TXBUFFER, DATA";
                return Err(words.refused("option", word, accepted));
            };
            match option {
                "DST" => changes.to = Some(destination(words)?),
                "SRC" => {
                    let port = words.whole(option, 65_535, "0 to 65535")? as u16;
                    changes.source_port = (port > 0).then_some(port);
                }
                "COUNT" => {
                    let text = words.value(option, "a number of messages, or -1")?;
                    changes.count = Some(match text.parse::<i64>() {
                        Ok(-1) => None,
                        Ok(count @ 1..) => Some(count as u64),
                        _ => return Err(words.refused(option, text, "1 or more, or -1: no limit")),
                    });
                }
                "TOS" => changes.tos = Some(words.whole(option, 255, "0 to 255")? as u8),
                "TTL" => {
                    let ttl = words.whole(option, 255, "1 to 255")? as u8;
                    if ttl == 0 {
                        return Err(words.refused(option, "0", "1 to 255"));
                    }
                    changes.ttl = Some(ttl);
                }
                "TXBUFFER" => changes.buffer = Some(buffer(option, words)?),
                "DATA" => {
                    let data = words.parameters(option)?;
                    let content = format!("pattern:{data}").parse();
                    let content = content.map_err(|_| {
                        words.refused(option, data, "1 to 16 bytes as hexadecimal digits")
                    })?;
                    changes.content = Some(content);
                }
                "CONNECT" => {}
                "BROADCAST" | "QUEUE" | "INTERFACE" | "SEQUENCE" | "LOGDATA" => {
                    words.value(option, "a value")?;
                    let why = match option {
                        "SEQUENCE" => "has no effect: each connection is numbered from 0",
                        "INTERFACE" => "has no effect: it is that of multicast",
                        _ => "has no effect on what is sent",
                    };
                    self.note(line, option, why);
                }
                other => {
                    let given = words.next().unwrap_or("given");
                    return Err(words.refused(other, given, "a script without it"));
                }
            }
        }
        if let Some((name, parameters)) = pattern {
            let is_stream = changes.transport == Some(TransportName::Tcp);
            let of = match (is_stream, self.to) {
                (false, _) => MessageBytes::Datagram,
                (true, Destination::Script) => MessageBytes::Message,
                (true, Destination::Server) => MessageBytes::Write,
            };
            let words = Words::new(line, &parameters);
            changes.sent = Some(match name {
                "CLONE" => clone::cloned(words, of, self.captures)?,
                name => sent(name, words, of)?,
            });
        }
        Ok(changes)
    }

    fn transport(&self, protocol: &str, words: &Words) -> Result<TransportName, ModelError> {
        match protocol {
            "UDP" => Ok(TransportName::Udp),
            "TCP" => Ok(TransportName::Tcp),
            _ => Err(words.refused("protocol", protocol, "UDP or TCP")),
        }
    }

    /// Applies the events in the order of their times.
    fn finish(mut self) -> Result<Script, ModelError> {
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.at_ns);
        let mut timelines = Timelines::default();
        for Event { at_ns, line, flow, kind } in events {
            match kind {
                EventKind::On(changes) => {
                    let period = self.started(at_ns, line, changes)?;
                    timelines.on(flow, period)?;
                }
                EventKind::Mod(changes) => {
                    if let Some((word, given)) = changes.unchangeable() {
                        return Err(refused(line, word, given, "the value of the flow's ON"));
                    }
                    timelines
                        .change((flow, at_ns), (line, "MOD"), |period| changes.apply(period))?;
                }
                EventKind::Off => timelines.off((flow, at_ns), (line, "OFF"))?,
            }
        }
        let Reader { to, is_checked, offset_ns, notes, .. } = self;
        script(timelines.into_flows(), Options { to, is_checked, offset_ns }, notes)
    }

    /// The first period of a flow.
    fn started(&self, from_ns: u64, line: usize, changes: Changes) -> Result<Period, ModelError> {
        let missing = |word: &str, accepted: &str| refused(line, word, "missing", accepted);
        let transport = changes.transport.ok_or_else(|| missing("ON", "UDP or TCP"))?;
        let (host, port) = changes.to.clone().ok_or_else(|| missing("DST", "DST ADDRESS/PORT"))?;
        let Sent { pattern, size, bytes } = changes
            .sent
            .clone()
            .ok_or_else(|| missing("ON", "a pattern such as PERIODIC [10 1024]"))?;
        let traffic = Traffic {
            transport,
            host,
            port,
            source_port: None,
            size,
            bytes,
            pattern,
            tos: self.tos,
            ttl: None,
            buffer: self.buffer,
            content: Content::default(),
        };
        let mut period = Period { from_ns, until_ns: None, limit: None, traffic, line };
        period.traffic.source_port = changes.source_port;
        changes.apply(&mut period);
        Ok(period)
    }
}

impl Changes {
    /// What a MOD states and can't change: word and given value.
    fn unchangeable(&self) -> Option<(&'static str, String)> {
        let port = self.source_port.map(|port| ("SRC", port.to_string()));
        port.or_else(|| self.transport.map(|transport| ("protocol", transport.to_string())))
    }

    fn apply(self, period: &mut Period) {
        let traffic = &mut period.traffic;
        if let Some((host, port)) = self.to {
            (traffic.host, traffic.port) = (host, port);
        }
        if let Some(sent) = self.sent {
            (traffic.pattern, traffic.size, traffic.bytes) = (sent.pattern, sent.size, sent.bytes);
        }
        traffic.tos = self.tos.or(traffic.tos);
        traffic.ttl = self.ttl.or(traffic.ttl);
        traffic.buffer = self.buffer.or(traffic.buffer);
        traffic.content = self.content.unwrap_or(traffic.content);
        if let Some(count) = self.count {
            period.limit = count;
        }
    }
}

fn buffer(word: &str, words: &mut Words) -> Result<u64, ModelError> {
    let accepted = "1024 to 1073741824 bytes";
    let bytes = words.whole(word, 1 << 30, accepted)?;
    match bytes {
        1024.. => Ok(bytes),
        _ => Err(words.refused(word, &bytes.to_string(), accepted)),
    }
}

/// The value of DST: a unicast address or a name, and a port.
fn destination(words: &mut Words) -> Result<(String, u16), ModelError> {
    let accepted = "a unicast address or a name, and a port: 192.0.2.1/5000";
    let text = words.value("DST", accepted)?;
    let error = || words.refused("DST", text, accepted);
    let (host, port) = text.split_once('/').ok_or_else(error)?;
    let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(error)?;
    let address = host.parse::<std::net::IpAddr>();
    if host.is_empty() || address.is_ok_and(|address| address.is_multicast()) {
        return Err(error());
    }
    match weir_model::names::Host::parse(host) {
        Ok(named) if named.port.is_none() => Ok((named.name, port)),
        _ => Err(error()),
    }
}

#[cfg(test)]
mod tests;
