//! Scripts of RUDE (0.70 and later): UDP flows of a constant rate, or with the sizes and intervals of a trace. Times are in ms.

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::plan::TransportName;

use super::line::{Words, lines};
use super::plan::{Options, script};
use super::timeline::{Pattern, Period, Timelines, Traffic};
use super::{Destination, MAX_SCRIPT_BYTES, Note, Script, refused};

/// Minimum and maximum of a datagram, bytes: those of RUDE, and at least what MGEN's messages need.
const BYTES: std::ops::RangeInclusive<u64> = 20..=32_768;
/// The same of MGEN's messages.
const MESSAGE_BYTES: std::ops::RangeInclusive<u64> = 28..=8192;
/// Maximum number of lines of a trace: that of a law's values.
const MAX_TRACE: usize = 10_000;
/// Latest time, ms: 7 days.
const MAX_MS: u64 = 7 * 86_400_000;

/// Reads a script. `trace` returns the text of a trace by its name.
///
/// # Errors
/// What is not valid, or what a plan can't express, by its line.
pub fn read(
    text: &str,
    to: Destination,
    trace: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Script, ModelError> {
    let mut reader = Reader {
        bytes: if to == Destination::Script { MESSAGE_BYTES } else { BYTES },
        trace,
        timelines: Timelines::default(),
        tos: vec![],
        notes: vec![],
        has_started: false,
    };
    for (line, text) in lines(text)? {
        reader.line(line, &text)?;
    }
    let Reader { timelines, tos, notes, .. } = reader;
    let mut flows = timelines.into_flows();
    for (line, flow, value) in tos {
        let Some(periods) = flows.get_mut(&flow) else {
            return Err(refused(line, "TOS", flow.to_string(), "a flow of the script"));
        };
        periods.iter_mut().for_each(|period| period.traffic.tos = Some(value));
    }
    if let Some((flow, period)) = flows.iter().find_map(|(flow, periods)| {
        periods.last().filter(|last| last.until_ns.is_none()).map(|last| (flow, last))
    }) {
        return Err(refused(period.line, "OFF", format!("missing for flow {flow}"), "a time"));
    }
    script(flows, Options { to, is_checked: false, offset_ns: 0 }, notes)
}

struct Reader<'a> {
    bytes: std::ops::RangeInclusive<u64>,
    trace: &'a mut dyn FnMut(&str) -> Result<String, String>,
    timelines: Timelines,
    /// Line, flow and value.
    tos: Vec<(usize, u32, u8)>,
    notes: Vec<Note>,
    has_started: bool,
}

impl Reader<'_> {
    fn line(&mut self, line: usize, text: &str) -> Result<(), ModelError> {
        let mut words = Words::new(line, text);
        let Some(word) = words.next() else { return Ok(()) };
        match word {
            "START" => {
                if std::mem::replace(&mut self.has_started, true) {
                    return Err(words.refused(word, "given twice", "one START"));
                }
                let time = words.value(word, "NOW or HH:MM:SS")?;
                if time != "NOW" {
                    let text =
                        format!("START {time} has no effect: --start-at says when a test starts");
                    self.notes.push(Note { line, text });
                }
                return Ok(());
            }
            _ if !self.has_started => {
                return Err(words.refused("START", word, "START as the first command"));
            }
            "TOS" => {
                let flow = flow(&mut words)?;
                let value = words.whole(word, 255, "0 to 255")? as u8;
                self.tos.push((line, flow, value));
                return Ok(());
            }
            _ => {}
        }
        let time = word.parse::<u64>().ok().filter(|ms| *ms <= MAX_MS);
        let time = time.ok_or_else(|| {
            words.refused("time", word, "milliseconds up to 604800000, START or TOS")
        })?;
        let at = (flow(&mut words)?, time * 1_000_000);
        match words.value("flow", "ON, MODIFY or OFF")? {
            "ON" => self.on(at, &mut words),
            "MODIFY" => {
                let (pattern, size, bytes) = self.pattern(&mut words)?;
                self.timelines.change(at, (line, "MODIFY"), |period| {
                    let traffic = &mut period.traffic;
                    (traffic.pattern, traffic.size, traffic.bytes) = (pattern, size, bytes);
                })
            }
            "OFF" => self.timelines.off(at, (line, "OFF")),
            other => Err(words.refused("command", other, "ON, MODIFY or OFF")),
        }
    }

    fn on(&mut self, (flow, from_ns): (u32, u64), words: &mut Words) -> Result<(), ModelError> {
        let line = words.line;
        let accepted = "a port of 1024 to 65535";
        let text = words.value("ON", accepted)?;
        let source_port = text.parse::<u16>().ok().filter(|port| *port >= 1024);
        let source_port = source_port.ok_or_else(|| words.refused("ON", text, accepted))?;
        let accepted = "a unicast address or a name, and a port: 192.0.2.1:10001";
        let text = words.value("ON", accepted)?;
        let error = || words.refused("ON", text, accepted);
        // The port follows the last colon, also behind an address of IPv6.
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(error)?;
        let address = host.parse::<std::net::IpAddr>();
        if address.is_ok_and(|address| address.is_multicast()) {
            return Err(error());
        }
        let named = weir_model::names::Host::parse(host).ok().filter(|named| named.port.is_none());
        let host = named.ok_or_else(error)?.name;
        let (pattern, size, bytes) = self.pattern(words)?;
        let traffic = Traffic {
            transport: TransportName::Udp,
            host,
            port,
            source_port: Some(source_port),
            size,
            bytes,
            pattern,
            tos: None,
            ttl: None,
            buffer: None,
            content: Content::default(),
        };
        self.timelines.on(flow, Period { from_ns, until_ns: None, limit: None, traffic, line })
    }

    /// The type of a flow with its parameters: pattern, size, and bounds of the size.
    fn pattern(&mut self, words: &mut Words) -> Result<(Pattern, String, (u64, u64)), ModelError> {
        let kind = words.value("type", "CONSTANT or TRACE")?;
        let sent = match kind {
            "CONSTANT" => {
                let accepted = "0 to 1000000000 packets per second";
                let rate = words.whole(kind, 1_000_000_000, accepted)?;
                let bytes = words.whole(kind, u64::MAX, "a size in bytes")?;
                if !self.bytes.contains(&bytes) {
                    return Err(words.refused(kind, &bytes.to_string(), &self.accepted()));
                }
                let pattern = if rate == 0 { Pattern::Silent } else { Pattern::Even(rate as f64) };
                (pattern, bytes.to_string(), (bytes, bytes))
            }
            "TRACE" => {
                let name = words.value(kind, "a file")?;
                let text = (self.trace)(name).map_err(|why| words.refused(kind, name, &why))?;
                self.traced(name, &text, words)?
            }
            other => return Err(words.refused("type", other, "CONSTANT or TRACE")),
        };
        match words.next() {
            None => Ok(sent),
            Some(more) => Err(words.refused(kind, more, "no more parameters")),
        }
    }

    fn accepted(&self) -> String {
        format!("{} to {} bytes", self.bytes.start(), self.bytes.end())
    }

    /// The sizes and intervals of a trace, which are used in turn.
    fn traced(
        &self,
        name: &str,
        text: &str,
        words: &Words,
    ) -> Result<(Pattern, String, (u64, u64)), ModelError> {
        let refused = |what: String, accepted: &str| {
            Err(words.refused("TRACE", &format!("{name}: {what}"), accepted))
        };
        if text.len() > MAX_SCRIPT_BYTES {
            return refused(format!("{} bytes", text.len()), "up to 1M");
        }
        let (mut sizes, mut waits) = (vec![], vec![]);
        for (number, line) in (1..).zip(text.lines()) {
            let mut columns = line.split_whitespace();
            let size = columns.next().and_then(|size| size.parse::<u64>().ok());
            let wait = columns.next().and_then(|wait| wait.parse::<f64>().ok());
            let wait = wait.filter(|wait| (0.0..=3600.0).contains(wait));
            match size.filter(|size| self.bytes.contains(size)).zip(wait) {
                Some((size, wait)) if sizes.len() < MAX_TRACE => {
                    sizes.push(size);
                    waits.push((wait * 1e9).round() as u64);
                }
                Some(_) => return refused(format!("line {number}"), "up to 10000 lines"),
                None => {
                    let accepted = format!("{}, and 0 to 3600 seconds", self.accepted());
                    return refused(format!("line {number}"), &accepted);
                }
            }
        }
        let (Some(least), Some(most)) = (sizes.iter().min(), sizes.iter().max()) else {
            return refused("no line".into(), "sizes and times");
        };
        if waits.iter().all(|wait| *wait == 0) {
            return refused("no time".into(), "times above 0");
        }
        let list = |values: Vec<String>| format!("values({})", values.join(", "));
        let law = list(waits.iter().map(|wait| format!("{wait}ns")).collect());
        let size = list(sizes.iter().map(u64::to_string).collect());
        Ok((Pattern::Law(law, None), size, (*least, *most)))
    }
}

/// A flow's number, which RUDE reads as decimal also after a 0.
fn flow(words: &mut Words) -> Result<u32, ModelError> {
    let text = words.value("flow", "a number")?;
    text.parse().map_err(|_| words.refused("flow", text, "0 to 4294967295"))
}

#[cfg(test)]
mod tests {
    use weir_model::units::Span;

    use super::*;

    fn read_with(text: &str, trace: &str) -> Result<Script, ModelError> {
        let mut trace = |name: &str| match name {
            "trace.txt" => Ok(trace.to_owned()),
            _ => Err("a file that can be read".to_owned()),
        };
        read(text, Destination::Script, &mut trace)
    }

    /// Line and word of the error of a script.
    fn error(text: &str) -> (usize, String) {
        match read_with(text, "100 0.1\n20 0.1").unwrap_err() {
            ModelError::Document(error) => (error.line.unwrap(), error.field),
            other => panic!("{text}: {other}"),
        }
    }

    #[test]
    fn flows_are_connections() {
        // The example of RUDE's manual, with its changes.
        let script = "## comment\nSTART NOW\n\n1000 0030 ON 3002 10.1.1.1:10001 CONSTANT 200 250\n\
            2000 0030 MODIFY CONSTANT 400 250\n4000 0030 MODIFY CONSTANT 1000 1000\n5000 0030 OFF\n\
            TOS 0030 0x10\n0 25 ON 3003 2001:db8::1:1026 TRACE trace.txt\n9000 25 OFF";
        let plan = read_with(script, "512 0.040\n255 1.1\n").unwrap().plan;
        let [trace, first, second] = &plan.connections[..] else { panic!("{plan:?}") };
        assert_eq!((trace.host.as_deref(), trace.port), (Some("2001:db8::1"), Some(1026)));
        assert_eq!(trace.payload, Some("values(512, 255)".parse().unwrap()));
        assert_eq!(trace.spacing, "values(40ms, 1.1s)".parse().unwrap());
        assert_eq!(
            (first.name.as_str(), first.client_port(), first.tos()),
            ("30", Some(3002), Some(16))
        );
        assert_eq!(
            (first.start_after, first.duration),
            (Span(1_000_000_000), Some(Span(3_000_000_000)))
        );
        assert_eq!(first.rate_schedule, Some("1s:400pps".parse().unwrap()));
        assert_eq!((second.name.as_str(), second.rate), ("30.2", Some("1000pps".parse().unwrap())));
    }

    #[test]
    fn what_is_invalid_is_refused_by_line_and_word() {
        let on = "START NOW\n0 1 ON 3002 192.0.2.1:9 ";
        for (text, expected) in [
            ("0 1 ON 3002 192.0.2.1:9 CONSTANT 1 100", (1, "START")),
            ("START NOW\nSTART NOW", (2, "START")),
            ("START NOW\nx 1 OFF", (2, "time")),
            ("START NOW\n0 1 ON 80 192.0.2.1:9 CONSTANT 1 100", (2, "ON")),
            ("START NOW\n0 1 ON 3002 224.0.0.1:9 CONSTANT 1 100", (2, "ON")),
            ("START NOW\n0 1 ON 3002 192.0.2.1 CONSTANT 1 100", (2, "ON")),
            (&format!("{on}CONSTANT 1 27\n9 1 OFF"), (2, "CONSTANT")),
            (&format!("{on}CONSTANT 1 100 5\n9 1 OFF"), (2, "CONSTANT")),
            (&format!("{on}POISSON 1 100\n9 1 OFF"), (2, "type")),
            (&format!("{on}TRACE none.txt\n9 1 OFF"), (2, "TRACE")),
            // A size of 20 bytes.
            (&format!("{on}TRACE trace.txt\n9 1 OFF"), (2, "TRACE")),
            (&format!("{on}CONSTANT 1 100"), (2, "OFF")),
            (&format!("{on}CONSTANT 1 100\n9 1 STOP"), (3, "command")),
            (&format!("{on}CONSTANT 1 100\n9 1 OFF\nTOS 2 4"), (4, "TOS")),
            ("START NOW\n9 1 OFF", (2, "OFF")),
            ("START NOW\n9 1 MODIFY CONSTANT 1 100", (2, "MODIFY")),
        ] {
            assert_eq!(error(text), (expected.0, expected.1.to_owned()), "{text}");
        }
    }

    #[test]
    fn mutated_scripts_are_read_or_refused() {
        let script = "START NOW\n0 30 ON 3002 10.1.1.1:10001 CONSTANT 200 250\n2000 30 MODIFY CONSTANT 400 250\n\
            4000 30 MODIFY TRACE t\n5000 30 OFF\nTOS 30 0x10";
        let seeds = [script.as_bytes(), b"100 0.1\n200 0.2"];
        weir_laws::mutation::replay(&seeds, 5_000, crate::scripts::fuzz_rude_script);
    }
}
