//! The sender: flows of test packets, and what their replies say about the directions of losses.

use std::sync::{Arc, Mutex};

use weir_model::plan::{ConnectionFields, FlowSpec, HeaderFormat, Plan, Switch};
use weir_model::record::Record;
use weir_model::units::ByteSize;
use weir_net::thread::lock;
use weir_traffic::session::{DatagramSocket, Signal, Signals};
use weir_traffic::{ClientConfig, Event, Failure, Stop, TrafficError};
use weir_wire::header::stamp::{AUTHENTICATED, Layout, OPEN, Reply};
use weir_wire::hmac::HmacKey;

use crate::carried;
use crate::one_sided::{self, Additions};

/// The options of a connection that a test has, by their fields.
const ACCEPTED: &[&str] = &[
    "bytes",
    "catch_up",
    "client_port",
    "content",
    "count",
    "dont_fragment",
    "duration",
    "echo",
    "flow_label",
    "gro",
    "gso",
    "header",
    "kernel_pacing",
    "mtu",
    "name",
    "packets",
    "payload",
    "priority",
    "rate",
    "rate_schedule",
    "spacing",
    "tos",
    "transport",
    "ttl",
    "window",
];

/// The plan of a test: test packets, each of which comes back.
///
/// # Errors
/// [`TrafficError`] that names the field.
pub(super) fn prepared(config: &ClientConfig) -> Result<Plan, TrafficError> {
    let mut plan = one_sided::prepared(config, ACCEPTED)?;
    let (format, layout) = mode(config);
    let refused = |index, field, given: &str, accepted| {
        Err(carried::of_connection(config.plan.peer, index, field, given, accepted))
    };
    for (index, connection) in plan.connections.iter_mut().enumerate() {
        let header = connection.header;
        if ![HeaderFormat::Native, format].contains(&header) {
            return refused(index, "header", header.label(), format.label());
        }
        let gro = connection.transport.udp_options().map(|udp| udp.gro);
        if gro == Some(Switch::On) {
            return refused(index, "gro", "on", "auto or off");
        }
        *connection = ConnectionFields {
            header: format,
            payload: connection.payload.clone().or(Some(ByteSize(layout.bytes as u64).into())),
            // Each reply is read.
            gro: Some(Switch::Off),
            ..connection.clone().into()
        }
        .into();
    }
    plan.check()?;
    Ok(plan)
}

/// The header and the layout of test packets: with a key, those of authenticated mode.
fn mode(config: &ClientConfig) -> (HeaderFormat, Layout) {
    match config.hmac {
        Some(_) => (HeaderFormat::StampHmac, AUTHENTICATED),
        None => (HeaderFormat::Stamp, OPEN),
    }
}

/// What the replies of a flow say together.
#[derive(Debug, Default, Clone, Copy)]
struct Replies {
    count: u64,
    /// The highest number of the reflector, and of a packet that was answered.
    highest: Option<(u32, u32)>,
    /// Some reply has another number than its packet: the reflector counts the replies of the session.
    is_stateful: bool,
}

impl Replies {
    fn add(&mut self, reply: &Reply) {
        let (number, sequence) = self.highest.unwrap_or_default();
        self.count += 1;
        self.highest = Some((number.max(reply.number), sequence.max(reply.sequence)));
        self.is_stateful |= reply.number != reply.sequence;
    }

    /// Of `lost` round trips of `sent` packets, those lost on the path to the reflector. `None`: unknown.
    ///
    /// A reflector that counts has answered as many packets as its highest number says. Without a reply to the last packet it may
    /// have answered more. If its numbers are those of the packets, it may not count at all.
    fn lost_forward(&self, sent: u64, lost: u64) -> Option<u64> {
        if lost == 0 {
            return Some(0);
        }
        let (number, sequence) = self.highest?;
        if !self.is_stateful || u64::from(sequence) + 1 != sent {
            return None;
        }
        let answered = u64::from(number) + 1;
        let lost_back = answered.checked_sub(self.count)?;
        lost.checked_sub(lost_back)
    }
}

/// Reads the replies of a flow; all of them are data.
#[derive(Debug)]
struct ReplySignals {
    layout: Layout,
    key: Option<HmacKey>,
    replies: Arc<Mutex<Replies>>,
}

impl ReplySignals {
    /// Whether a reply has the HMAC that it should have. One that has not is counted as corrupt where it is accounted for.
    fn is_genuine(&self, bytes: &[u8]) -> bool {
        let Some((key, at)) = self.key.as_ref().zip(self.layout.hmac) else { return true };
        let hmac = bytes.get(at..).and_then(|rest| rest.first_chunk());
        hmac.is_some_and(|hmac| key.verifies(&[&bytes[..at]], hmac))
    }
}

impl Signals for ReplySignals {
    fn classify(&mut self, _: &dyn DatagramSocket, bytes: &[u8], _: u64) -> Signal {
        match Reply::decode(self.layout, bytes) {
            Some(reply) if self.is_genuine(bytes) => lock(&self.replies).add(&reply),
            // A packet that came back unanswered has the right HMAC too.
            None if self.key.is_some() => return Signal::Message,
            _ => {}
        }
        Signal::Data
    }
}

/// Runs a test.
///
/// # Errors
/// [`Failure`] with the reason and what had been measured until then.
pub(super) fn run(
    config: &ClientConfig,
    stop: &Stop,
    observe: &mut dyn FnMut(Event),
) -> Result<Record, Failure> {
    let plan = prepared(config)?;
    let (_, layout) = mode(config);
    let mut flows: Vec<(u32, Arc<Mutex<Replies>>)> = vec![];
    let mut additions = |spec: &FlowSpec, _| {
        let replies = Arc::default();
        flows.push((spec.id, Arc::clone(&replies)));
        let key = config.hmac.clone();
        let signals: Box<dyn Signals> = Box::new(ReplySignals { layout, key, replies });
        Ok(Additions { signals: Some(signals), ..Additions::default() })
    };
    let has_omitted = plan.omit.0 > 0;
    let mut result = one_sided::run(config, plan, &mut additions, stop, observe);
    let record = match &mut result {
        Ok(record) => Some(record),
        Err(failure) => failure.partial.as_deref_mut(),
    };
    if let Some(record) = record.filter(|_| !has_omitted) {
        for (id, replies) in flows {
            directions(record, id, &lock(&replies));
        }
    }
    result
}

/// Adds the directions of a flow's losses to its record, as far as they are known.
fn directions(record: &mut Record, id: u32, replies: &Replies) {
    let Some(flow) = record.flows.iter_mut().find(|flow| flow.id == id) else { return };
    let (Some(sender), Some(echo)) = (&flow.sender, &mut flow.echo) else { return };
    // A copy has a number of the reflector too, or comes back twice with one.
    if echo.duplicate_packets != Some(0) {
        return;
    }
    let Some(lost) = echo.lost_packets else { return };
    if let Some(forward) = replies.lost_forward(sender.packets, lost) {
        echo.lost_forward_packets = Some(forward);
        echo.lost_back_packets = Some(lost - forward);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The replies with these numbers of the reflector to packets with these numbers.
    fn replies(numbers: &[(u32, u32)]) -> Replies {
        let mut replies = Replies::default();
        for (number, sequence) in numbers {
            let (number, sequence) = (*number, *sequence);
            replies.add(&Reply { number, sequence, sent_ns: 0, dwell_ns: 0 });
        }
        replies
    }

    #[test]
    fn a_counting_reflector_separates_the_directions() {
        // Of 6 packets, 1 is lost on the path there, and the reply to 3 on the path back.
        let counting = replies(&[(0, 0), (1, 2), (3, 4), (4, 5)]);
        assert_eq!(counting.lost_forward(6, 2), Some(1));
        // In another order.
        let reordered = replies(&[(1, 2), (0, 0), (4, 5), (3, 4)]);
        assert_eq!(reordered.lost_forward(6, 2), Some(1));
    }

    #[test]
    fn what_the_replies_do_not_say_is_unknown() {
        // The reflector does not count, or has lost nothing yet.
        assert_eq!(replies(&[(0, 0), (2, 2)]).lost_forward(3, 1), None);
        assert_eq!(replies(&[(0, 0), (1, 1)]).lost_forward(2, 0), Some(0));
        // No reply to the last packet.
        assert_eq!(replies(&[(0, 0), (1, 2)]).lost_forward(4, 2), None);
        // Numbers of an earlier session with the same ports.
        assert_eq!(replies(&[(90, 0), (91, 2)]).lost_forward(3, 1), None);
        assert_eq!(replies(&[]).lost_forward(3, 3), None);
    }
}
