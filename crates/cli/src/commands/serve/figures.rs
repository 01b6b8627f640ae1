//! `weir serve --otlp`: sums over the sessions of a server, by protocol.

use std::collections::BTreeMap;

use weir_jobs::Event;
use weir_model::report::EndReport;

use crate::commands::exporter::OtlpSeries;

/// Sums of one protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sums {
    opened: u64,
    closed: u64,
    refused: u64,
    sent_bytes: u64,
    sent_packets: u64,
    received_bytes: u64,
    received_packets: u64,
}

/// Name, help, whether it is a sum, and how it is read.
type Series = (&'static str, &'static str, bool, fn(&Sums) -> u64);

const SERIES: &[Series] = &[
    ("weir_server_sessions", "Sessions that were opened", true, |s| s.opened),
    ("weir_server_open_sessions", "Sessions that are open", false, |s| {
        s.opened.saturating_sub(s.closed)
    }),
    ("weir_server_refusals", "Clients that were refused", true, |s| s.refused),
    ("weir_sent_bytes", "Payload sent in ended sessions", true, |s| s.sent_bytes),
    ("weir_received_bytes", "Payload received in ended sessions", true, |s| s.received_bytes),
    ("weir_sent_packets", "Datagrams or writes sent in ended sessions", true, |s| s.sent_packets),
    ("weir_received_packets", "Datagrams or reads received in ended sessions", true, |s| {
        s.received_packets
    }),
];

/// The sums of a server.
#[derive(Debug, Default)]
pub(super) struct SessionSums(BTreeMap<String, Sums>);

impl SessionSums {
    /// Adds an event; `false` if it changes nothing.
    pub(super) fn add(&mut self, event: &Event) -> bool {
        match event {
            Event::SessionOpened { protocol, .. } => self.of(protocol).opened += 1,
            Event::Refused { protocol, .. } => self.of(protocol).refused += 1,
            Event::SessionClosed { protocol, report, .. } => {
                let sums = self.of(protocol);
                sums.closed += 1;
                report.iter().for_each(|report| sums.add(report));
            }
            // From the start, so that a server without a client is seen.
            Event::Listening(_) => {
                self.of(&None);
            }
            _ => return false,
        }
        true
    }

    fn of(&mut self, protocol: &Option<String>) -> &mut Sums {
        self.0.entry(protocol.clone().unwrap_or_else(|| "weir".into())).or_default()
    }

    /// All series.
    pub(super) fn series(&self) -> Vec<OtlpSeries> {
        let series = |(name, help, is_sum, read): &Series| {
            let value = |(protocol, sums): (&String, &Sums)| {
                (vec![("protocol".to_owned(), protocol.clone())], read(sums))
            };
            OtlpSeries {
                name: (*name).into(),
                help: (*help).into(),
                is_sum: *is_sum,
                values: self.0.iter().map(value).collect(),
            }
        };
        SERIES.iter().map(series).collect()
    }
}

impl Sums {
    fn add(&mut self, report: &EndReport) {
        for flow in &report.flows {
            if let Some(s) = &flow.sender {
                self.sent_bytes = self.sent_bytes.saturating_add(s.bytes);
                self.sent_packets = self.sent_packets.saturating_add(s.packets);
            }
            if let Some(r) = &flow.receiver {
                self.received_bytes = self.received_bytes.saturating_add(r.bytes);
                self.received_packets = self.received_packets.saturating_add(r.packets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::Receiver;
    use weir_model::report::FlowReport;

    #[test]
    fn sessions_are_summed_by_protocol() {
        let opened = |protocol: Option<&str>| Event::SessionOpened {
            session: 1,
            peer: "192.0.2.1".into(),
            flows: 1,
            protocol: protocol.map(Into::into),
        };
        let receiver = Receiver { bytes: 700, packets: 7, ..Receiver::default() };
        let flow = FlowReport { receiver: Some(receiver), ..FlowReport::default() };
        let report = EndReport { flows: vec![flow], ..EndReport::default() };
        let closed = Event::SessionClosed {
            session: 1,
            peer: "192.0.2.1".into(),
            reason: "done".into(),
            report: Some(Box::new(report)),
            run: None,
            protocol: None,
        };
        let mut sums = SessionSums::default();
        for event in [opened(None), opened(None), closed, opened(Some("ttcp"))] {
            assert!(sums.add(&event));
        }
        let series = sums.series();
        let of = |name: &str| {
            let found = series.iter().find(|series| series.name == name).unwrap();
            found.values.iter().map(|(labels, n)| (labels[0].1.as_str(), *n)).collect::<Vec<_>>()
        };
        assert_eq!(of("weir_server_sessions"), [("ttcp", 1), ("weir", 2)]);
        assert_eq!(of("weir_server_open_sessions"), [("ttcp", 1), ("weir", 1)]);
        assert_eq!(of("weir_received_bytes"), [("ttcp", 0), ("weir", 700)]);
        assert_eq!(of("weir_sent_packets"), [("ttcp", 0), ("weir", 0)]);
    }
}
