//! What a server prints: where it listens, who comes, how it ends.

use serde_json::json;
use weir_model::report::FlowReport;
use weir_report::{Units, clean, percent, volume};

use crate::engine::ServerEvent;
use crate::stamp::VERSION;

/// How events are printed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling {
    /// One JSON object a line instead of text.
    pub(crate) json: bool,
    /// Each session's result, in text.
    pub(crate) verbose: bool,
}

impl Telling {
    /// The lines for an event.
    pub(crate) fn lines(&self, event: &ServerEvent) -> String {
        if self.json { self.object(event) } else { self.words(event) }
    }

    fn words(&self, event: &ServerEvent) -> String {
        match event {
            ServerEvent::Listening { addresses, open } => {
                let list: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                let mut text =
                    format!("weir {VERSION}: listening on {} (TCP and UDP)\n", list.join(", "));
                if *open {
                    text += "open: no key is set, any client that reaches this port can run tests (see `weir keygen`)\n";
                }
                text
            }
            ServerEvent::SessionOpened { session, peer, flows } => {
                format!("session {session}: {peer}, {flows} {}\n", plural(*flows, "flow"))
            }
            ServerEvent::SessionClosed { session, peer, reason, report } => {
                let mut text = format!("session {session}: {peer} ended: {reason}\n");
                if self.verbose
                    && let Some(report) = report
                {
                    text.extend(report.flows.iter().map(flow_line));
                }
                text
            }
            ServerEvent::Refused { peer, reason } => format!("refused {peer}: {reason}\n"),
        }
    }

    fn object(&self, event: &ServerEvent) -> String {
        let (name, data) = match event {
            ServerEvent::Listening { addresses, open } => {
                ("listening", json!({ "addresses": addresses, "open": open }))
            }
            ServerEvent::SessionOpened { session, peer, flows } => {
                ("session_opened", json!({ "session": session, "peer": peer, "flows": flows }))
            }
            ServerEvent::SessionClosed { session, peer, reason, report } => {
                let mut data = json!({ "session": session, "peer": peer, "reason": reason });
                if let Some(report) = report {
                    data["report"] = measured(json!(report)).unwrap_or_default();
                }
                ("session_closed", data)
            }
            ServerEvent::Refused { peer, reason } => {
                ("refused", json!({ "peer": peer, "reason": reason }))
            }
        };
        format!("{}\n", json!({ "event": name, "data": data }))
    }
}

/// A report without what was not measured: a figure is present or absent, never null or an empty object.
fn measured(value: serde_json::Value) -> Option<serde_json::Value> {
    use serde_json::Value;
    match value {
        Value::Null => None,
        Value::Object(fields) => {
            let fields: serde_json::Map<String, Value> =
                fields.into_iter().filter_map(|(k, v)| Some((k, measured(v)?))).collect();
            (!fields.is_empty()).then_some(Value::Object(fields))
        }
        // A list keeps its places.
        Value::Array(items) => {
            Some(items.into_iter().map(|v| measured(v).unwrap_or_default()).collect())
        }
        other => Some(other),
    }
}

/// What this side sent or received of a flow, on one line.
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

fn plural(n: usize, word: &str) -> String {
    if n == 1 { word.into() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use weir_model::record::Receiver;
    use weir_model::report::EndReport;

    fn telling(json: bool, verbose: bool) -> Telling {
        Telling { json, verbose }
    }

    fn listening(open: bool) -> ServerEvent {
        let addresses = vec!["0.0.0.0:9347".parse().unwrap(), "[::]:9347".parse().unwrap()];
        ServerEvent::Listening { addresses, open }
    }

    #[test]
    fn it_says_where_it_listens_and_when_it_is_open() {
        let text = telling(false, false).lines(&listening(true));
        assert!(text.contains("0.0.0.0:9347, [::]:9347"), "{text}");
        assert!(text.contains("open: no key"), "{text}");
        assert!(!telling(false, false).lines(&listening(false)).contains("open"));
        let line: Value =
            serde_json::from_str(&telling(true, false).lines(&listening(true))).unwrap();
        assert_eq!(line["event"], "listening");
        assert_eq!(line["data"]["open"], true);
        assert_eq!(line["data"]["addresses"][1], "[::]:9347");
    }

    #[test]
    fn a_result_is_shown_when_asked_for() {
        let receiver = Receiver {
            bytes: 1 << 20,
            bits_per_second: Some(1e6),
            lost_packets: Some(3),
            loss_ratio: Some(0.01),
            ..Default::default()
        };
        let flow = FlowReport { id: 1, receiver: Some(receiver), ..Default::default() };
        let event = ServerEvent::SessionClosed {
            session: 3,
            peer: "192.0.2.1:40000".parse().unwrap(),
            reason: "complete".into(),
            report: Some(Box::new(EndReport { flows: vec![flow], ..Default::default() })),
        };
        assert!(!telling(false, false).lines(&event).contains("received"));
        let verbose = telling(false, true).lines(&event);
        assert!(verbose.starts_with("session 3: 192.0.2.1:40000 ended: complete\n"), "{verbose}");
        assert!(verbose.contains("received 1.00 MiB, 1.00 Mbit/s, lost 3"), "{verbose}");
        let line = telling(true, false).lines(&event);
        assert_eq!(line.lines().count(), 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["data"]["report"]["flows"][0]["receiver"]["lost_packets"], 3);
        // What was not measured is absent.
        let report = line["data"]["report"].to_string();
        assert!(!report.contains("null") && !report.contains("{}"), "{report}");
    }
}
