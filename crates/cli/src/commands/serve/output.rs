//! What a server prints: where it listens, who comes, how it ends.

use serde_json::{Value, json};
use weir_report::{TextOptions, json_line, summary};

use crate::engine::ServerEvent;
use crate::stamp::VERSION;

/// How events are told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Telling {
    /// One JSON object a line instead of text.
    pub(crate) json: bool,
    /// Each session's result, in text.
    pub(crate) verbose: bool,
    /// How results look.
    pub(crate) text: TextOptions,
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
                    text += "open: no key is set, whoever reaches this port can run tests (see `weir keygen`)\n";
                }
                text
            }
            ServerEvent::SessionOpened { session, peer, flows } => {
                format!("session {session}: {peer}, {flows} {}\n", plural(*flows, "flow"))
            }
            ServerEvent::SessionClosed { session, peer, reason, record } => {
                let mut text = format!("session {session}: {peer} ended: {reason}\n");
                if self.verbose
                    && let Some(record) = record
                {
                    text += &summary(record, &TextOptions { stored: false, ..self.text });
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
            ServerEvent::SessionClosed { session, peer, reason, record } => {
                let mut data = json!({ "session": session, "peer": peer, "reason": reason });
                if let Some(record) = record {
                    // The record's own writer decides how its numbers look.
                    data["record"] =
                        serde_json::from_str(&json_line(record)).unwrap_or(Value::Null);
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

fn plural(n: u32, word: &str) -> String {
    if n == 1 { word.into() } else { format!("{word}s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::Record;

    fn telling(json: bool, verbose: bool) -> Telling {
        Telling { json, verbose, text: TextOptions::default() }
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
        let event = ServerEvent::SessionClosed {
            session: 3,
            peer: "192.0.2.1:40000".parse().unwrap(),
            reason: "complete".into(),
            record: Some(Box::new(Record { id: "the-id".into(), ..Default::default() })),
        };
        assert!(!telling(false, false).lines(&event).contains("the-id"));
        let verbose = telling(false, true).lines(&event);
        assert!(verbose.starts_with("session 3: 192.0.2.1:40000 ended: complete\n"), "{verbose}");
        assert!(verbose.len() > 60, "{verbose}");
        let line = telling(true, false).lines(&event);
        assert_eq!(line.lines().count(), 1);
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["data"]["record"]["id"], "the-id");
    }
}
