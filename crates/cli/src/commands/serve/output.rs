//! The output of a server: its addresses, sessions and refusals.

use weir_jobs::{Event, Listening, Reflected};
use weir_model::names::UNIX;
use weir_model::plan::TransportName;
use weir_model::report::FlowReport;
use weir_report::{Units, clean, percent, volume};

use crate::engine::ServerEvent;
use crate::stamp::VERSION;

/// How events are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EventFormat {
    /// Print one JSON object a line instead of text.
    pub(crate) json: bool,
    /// Print each session's result, if the output is text.
    pub(crate) verbose: bool,
}

impl EventFormat {
    /// The lines for an event; empty for an event that a server does not print.
    pub(crate) fn lines(&self, event: &Event) -> String {
        if self.json { event.to_line().unwrap_or_default() } else { self.words(event) }
    }

    fn words(&self, event: &Event) -> String {
        match event {
            Event::Listening(Listening { addresses, open }) => {
                let is_ip = addresses.iter().any(|address| !address.starts_with(UNIX));
                let with = if is_ip { " (TCP and UDP)" } else { "" };
                let mut text =
                    format!("weir {VERSION}: listening on {}{with}\n", addresses.join(", "));
                if *open {
                    text += "open: no key is set, any client that reaches this port can run tests (see `weir keygen`)\n";
                }
                text
            }
            Event::SpeedTest { address } => format!(
                "speed test on http://{address}/ (no login: any browser that reaches it can use it)\n"
            ),
            Event::PeerListening { protocol, transports, addresses } => {
                let title = |name: &String| name.parse().map_or("", |n: TransportName| n.title());
                let titles: Vec<&str> = transports.iter().map(title).collect();
                format!("{protocol} on {} ({})\n", addresses.join(", "), titles.join(" and "))
            }
            Event::SessionOpened { session, peer, flows, protocol } => {
                let with = of_protocol(protocol.as_deref());
                format!("{with}session {session}: {peer}, {flows} {}\n", plural(*flows, "flow"))
            }
            Event::SessionClosed { session, peer, reason, report, run, protocol } => {
                let with = of_protocol(protocol.as_deref());
                let stored = run.as_ref().map(|id| format!(" (weir runs show {id})"));
                let stored = stored.unwrap_or_default();
                let mut text = format!("{with}session {session}: {peer} ended: {reason}{stored}\n");
                if self.verbose
                    && let Some(report) = report
                {
                    text.extend(report.flows.iter().map(flow_line));
                }
                text
            }
            Event::Refused { peer, reason, protocol } => {
                format!("{}refused {peer}: {reason}\n", of_protocol(protocol.as_deref()))
            }
            Event::Reflected(totals) => {
                let Reflected { protocol, requests, replies, limited, unsent } = totals;
                format!(
                    "{protocol} datagrams: {requests} received, {replies} answered, {limited} above the limit of their address, {unsent} replies not sent\n"
                )
            }
            Event::Error(refusal) => format!("error: {refusal}\n"),
            _ => String::new(),
        }
    }
}

/// The event of a job.
pub(crate) fn event_of(event: ServerEvent) -> Event {
    match event {
        ServerEvent::Listening { addresses, open } => {
            let addresses = addresses.iter().map(ToString::to_string).collect();
            Event::Listening(Listening { addresses, open })
        }
        ServerEvent::SessionOpened { session, peer, flows } => {
            Event::SessionOpened { session, peer: peer.to_string(), flows, protocol: None }
        }
        ServerEvent::SessionClosed { session, peer, reason, report, record: _ } => {
            let peer = peer.to_string();
            Event::SessionClosed { session, peer, reason, report, run: None, protocol: None }
        }
        ServerEvent::Refused { peer, reason } => {
            Event::Refused { peer: peer.to_string(), reason, protocol: None }
        }
        ServerEvent::Reflected { requests, replies, limited, unsent } => {
            let protocol = String::new();
            Event::Reflected(Reflected { protocol, requests, replies, limited, unsent })
        }
    }
}

/// The packets that this side sent or received in a flow, on one line.
fn flow_line(flow: &FlowReport) -> String {
    let rate = |bits: Option<f64>| bits.map_or("-".into(), |b| Units::ADAPTIVE.rate(b));
    let mut text = format!("[{:>3}] {} <-> {}", flow.id, clean(&flow.local), clean(&flow.remote));
    if let Some(s) = &flow.sender {
        text += &format!(": sent {}, {}", volume(s.bytes), rate(s.bits_per_second));
    }
    if let Some(r) = &flow.receiver {
        text += &format!(": received {}, {}", volume(r.bytes), rate(r.bits_per_second));
        if let (Some(lost), Some(ratio)) = (r.lost_packets, r.loss_ratio) {
            text += &format!(", lost {lost} ({})", percent(ratio));
        }
    }
    if let Some(error) = &flow.error {
        text += &format!(", ended early: {}", clean(error));
    }
    text + "\n"
}

/// The prefix of lines about sessions of another protocol.
fn of_protocol(name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| format!("{name} "))
}

fn plural(n: usize, word: &str) -> String {
    if n == 1 { word.into() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use weir_model::record::Receiver;
    use weir_model::report::EndReport;

    fn format_of(json: bool, verbose: bool) -> EventFormat {
        EventFormat { json, verbose }
    }

    fn listening(open: bool) -> Event {
        let addresses = vec!["0.0.0.0:9347".parse().unwrap(), "[::]:9347".parse().unwrap()];
        Event::Listening(Listening { addresses, open })
    }

    #[test]
    fn addresses_and_the_lack_of_a_key_are_printed() {
        let text = format_of(false, false).lines(&listening(true));
        assert!(text.contains("0.0.0.0:9347, [::]:9347"), "{text}");
        assert!(text.contains("open: no key"), "{text}");
        assert!(!format_of(false, false).lines(&listening(false)).contains("open"));
        let line: Value =
            serde_json::from_str(&format_of(true, false).lines(&listening(true))).unwrap();
        assert_eq!(line["event"], "listening");
        assert_eq!(line["data"]["open"], true);
        assert_eq!(line["data"]["addresses"][1], "[::]:9347");
    }

    #[test]
    fn results_are_printed_with_verbose() {
        let receiver = Receiver {
            bytes: 1 << 20,
            bits_per_second: Some(1e6),
            lost_packets: Some(3),
            loss_ratio: Some(0.01),
            ..Default::default()
        };
        let flow = FlowReport { id: 1, receiver: Some(receiver), ..Default::default() };
        let event = Event::SessionClosed {
            session: 3,
            peer: "192.0.2.1:40000".parse().unwrap(),
            reason: "complete".into(),
            report: Some(Box::new(EndReport { flows: vec![flow], ..Default::default() })),
            run: None,
            protocol: None,
        };
        assert!(!format_of(false, false).lines(&event).contains("received"));
        let verbose = format_of(false, true).lines(&event);
        assert!(verbose.starts_with("session 3: 192.0.2.1:40000 ended: complete\n"), "{verbose}");
        assert!(verbose.contains("received 1.00 MiB, 1.00 Mbit/s, lost 3"), "{verbose}");
        let line = format_of(true, false).lines(&event);
        assert_eq!(line.lines().count(), 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["data"]["report"]["flows"][0]["receiver"]["lost_packets"], 3);
        // Values that were not measured are absent.
        let report = line["data"]["report"].to_string();
        assert!(!report.contains("null") && !report.contains("{}"), "{report}");
    }
}
