//! The record of a session.

use std::sync::atomic::Ordering;

use weir_model::plan::{Connection, FlowSpec, Plan};
use weir_model::record::Receiver;
use weir_model::report::{EndReport, FlowReport};
use weir_model::units::ByteSize;
use weir_traffic::ServerEvent;

use super::{Flow, Session};
use crate::ditg::codec::{FRAME_BYTES, Metadata};
use crate::sessions::{self, Ended};

impl Session<'_> {
    /// Reports the session, with its record.
    pub(super) fn report(self, ended: Ended, control_bytes: u64) {
        let start_ns = match self.start_ns.load(Ordering::Acquire) {
            0 => self.shared.workers.now_ns(),
            start_ns => start_ns,
        };
        let mut report = EndReport::default();
        let mut connections = vec![];
        let mut specs = vec![];
        for flow in &self.flows {
            let own = flow.end.as_ref().map(|end| end.finish());
            let mut own = own.unwrap_or_else(|| EndReport {
                // It was announced, and nothing arrived.
                flows: vec![FlowReport {
                    id: flow.spec.id,
                    receiver: Some(Receiver::default()),
                    ..FlowReport::default()
                }],
                ..EndReport::default()
            });
            let received = own.flows.first().and_then(|flow| flow.receiver.as_ref());
            let (connection, spec) = flow.described(received);
            connections.push(connection);
            specs.push(spec);
            report.host = report.host.or(own.host);
            report.cpu = report.cpu.or(own.cpu);
            report.warnings.append(&mut own.warnings);
            report.flows.append(&mut own.flows);
        }
        let plan = Plan { connections, ..self.flows[0].plan.clone() };
        let (name, reason) = (crate::ditg::PROTOCOL.name, ended.reason.clone());
        let intervals = sessions::intervals(start_ns, 0);
        let ends = (report.clone(), None);
        let record = sessions::record(name, plan, specs, self.peer, ends, intervals, ended);
        let record = weir_model::record::Record { control_bytes: Some(control_bytes), ..record };
        self.shared.report(ServerEvent::SessionClosed {
            session: self.number,
            peer: self.peer.into(),
            reason,
            report: Some(Box::new(report)),
            record: Some(Box::new(record)),
        });
    }
}

impl Flow {
    /// Its connection and flow as the record has them: with the size of its packets, of datagrams the mean of those that arrived.
    fn described(&self, received: Option<&Receiver>) -> (Connection, FlowSpec) {
        let connection = &self.plan.connections[0];
        let bytes = match (connection.transport.datagrams(), received) {
            (true, Some(r)) if r.packets > 0 => Some((r.bytes + r.packets / 2) / r.packets),
            (true, _) => None,
            (false, _) => self.message_bytes,
        };
        let payload = bytes.map(|bytes| ByteSize(bytes).into()).or(connection.payload.clone());
        let connection = Connection { payload: payload.clone(), ..connection.clone() };
        let size = payload.unwrap_or_else(|| self.spec.size.clone());
        let spec = FlowSpec { size, connection: connection.clone(), ..self.spec.clone() };
        (connection, spec)
    }
}

/// The bytes of the first message of a stream.
pub(super) fn stated_bytes(metadata: Metadata, begun: &[u8]) -> Option<u64> {
    let at = match metadata {
        Metadata::Whole => FRAME_BYTES,
        Metadata::Short => 12,
        Metadata::Nothing => return None,
    };
    let bytes = begun.get(at - 4..at)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes).into()).filter(|bytes| *bytes > 0)
}
