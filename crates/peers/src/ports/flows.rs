//! Flows that a client has announced on a control connection, and whose data has not arrived.
//!
//! Data is taken only from the host that has announced it, and what is sent back goes to this host alone.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use weir_flow::IntervalClock;
use weir_model::plan::{FlowSpec, Plan};
use weir_net::tcp::TcpStream;
use weir_traffic::session::{self, End, Load, Signals, Workers};

use super::inlet::{Inlet, Read};
use crate::sessions::{self, DATAGRAM_SILENCE};

/// The flow of a session whose end reports this host.
pub(crate) const FIRST: u32 = 1;

/// How a protocol's data begins.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Bytes at the beginning of a stream that must have arrived, and how many more its session wants if they have; 0: data of
    /// the host is the flow's that waits longest.
    pub(crate) identity_bytes: [usize; 2],
    /// The number of the flow in its data.
    pub(crate) number: fn(&[u8]) -> Option<u32>,
    /// Whether a datagram may be the first of a flow.
    pub(crate) begins: fn(&[u8]) -> bool,
    /// When the data of a flow with this first datagram begins, ns.
    pub(crate) start_ns: fn(&Read) -> u64,
    /// Gives a datagram, which arrived on another socket than its flow's, to the flow. The flag: the flow is an echo.
    pub(crate) deliver: fn(&End, u32, bool, &Read),
}

/// A flow whose data has not arrived.
pub(crate) struct Waiting {
    /// The host that announced it.
    pub(crate) client: IpAddr,
    /// Its number, as the client has chosen it; absent: its data carries none.
    pub(crate) number: Option<u32>,
    pub(crate) rules: Rules,
    /// The protocol's messages among its datagrams.
    pub(crate) signals: Option<Box<dyn Signals>>,
    /// Duration of its intervals, ns.
    pub(crate) interval_ns: u64,
    pub(crate) plan: Plan,
    pub(crate) spec: FlowSpec,
    /// When the first data of its session arrived, by the workers' clock, ns; 0 before.
    pub(crate) start_ns: Arc<AtomicU64>,
    pub(crate) arrived: UnboundedSender<Arrived>,
}

/// The first data of a flow.
pub(crate) enum Arrived {
    Datagrams(u32, Arc<End>),
    /// The connection of a stream, and the beginning of its data, which is still to be read.
    Stream(u32, TcpStream, Vec<u8>),
    Failed(u32, String),
}

/// What the flows of a server share.
pub(super) struct Owner {
    pub(super) workers: Workers,
    pub(super) load: Arc<Load>,
    /// Maximum number of data connections that have not said which flow they are.
    pub(super) half_open: u64,
    /// How long these may take to say it.
    pub(super) patience: Duration,
}

/// A flow that a server has announced for a port.
pub(super) struct Announced {
    pub(super) id: u64,
    /// The address that the client uses.
    pub(super) at: SocketAddr,
    pub(super) owner: Arc<Owner>,
    pub(super) flow: Waiting,
}

impl Waiting {
    /// Whether data that begins with these bytes is this flow's. `is_exact`: it says so itself.
    fn is(&self, client: IpAddr, data: &[u8], is_exact: bool) -> bool {
        self.client == client
            && self.number.is_some() == is_exact
            && (!is_exact || (self.rules.number)(data) == self.number)
    }
}

/// The intervals of a session whose first data arrived at `at_ns`, or before.
pub(crate) fn intervals(start_ns: &AtomicU64, at_ns: u64, interval_ns: u64) -> IntervalClock {
    let first = start_ns.compare_exchange(0, at_ns, Ordering::AcqRel, Ordering::Acquire);
    IntervalClock { start_ns: first.err().unwrap_or(at_ns), interval_ns, omit_ns: 0 }
}

/// A source of datagrams whose flow has begun.
struct Known {
    flow: u32,
    echoes: bool,
    deliver: fn(&End, u32, bool, &Read),
    /// A finished one no longer upgrades.
    end: Weak<End>,
    /// When its last datagram arrived here, by the workers' clock, ns.
    last_ns: u64,
}

impl Known {
    fn is_over(&self, now_ns: u64) -> bool {
        let silent = Duration::from_nanos(now_ns.saturating_sub(self.last_ns));
        self.end.strong_count() == 0 && silent >= DATAGRAM_SILENCE
    }
}

/// The flows of a port.
#[derive(Default)]
pub(super) struct Flows {
    waiting: Vec<Announced>,
    known: HashMap<SocketAddr, Known>,
}

impl Flows {
    pub(super) fn add(&mut self, announced: Announced) {
        self.waiting.push(announced);
    }

    pub(super) fn remove(&mut self, id: u64) {
        self.waiting.retain(|announced| announced.id != id);
    }

    /// What identifies the streams of the flows that a host has announced, and by whom; `None`: it has announced none.
    pub(super) fn identity(&self, client: IpAddr) -> Option<([usize; 2], Arc<Owner>)> {
        let own = self.waiting.iter().filter(|announced| announced.flow.client == client);
        let longest = own.max_by_key(|announced| announced.flow.rules.identity_bytes)?;
        Some((longest.flow.rules.identity_bytes, longest.owner.clone()))
    }

    /// Takes the flow of some data out of those that wait.
    pub(super) fn take(&mut self, client: IpAddr, data: &[u8]) -> Option<Announced> {
        let waiting = &mut self.waiting;
        let at = |is_exact| waiting.iter().position(|w| w.flow.is(client, data, is_exact));
        let index = at(true).or_else(|| at(false))?;
        Some(waiting.remove(index))
    }

    /// Whether a datagram may be the first of a flow that its host has announced.
    pub(super) fn awaits(&self, client: IpAddr, datagram: &[u8]) -> bool {
        let begins = |w: &Waiting| w.client == client && (w.rules.begins)(datagram);
        self.waiting.iter().any(|announced| begins(&announced.flow))
    }

    /// Gives a datagram to the flow of its source; returns whether that has begun.
    pub(super) fn deliver(&mut self, from: SocketAddr, read: &Read) -> bool {
        let Some(known) = self.known.get_mut(&from) else { return false };
        let Some(end) = known.end.upgrade() else { return false };
        known.last_ns = read.1.at_ns;
        (known.deliver)(&end, known.flow, known.echoes, read);
        true
    }

    /// Whether a datagram is a late one of a flow that has ended.
    pub(super) fn is_late(&mut self, from: SocketAddr, read: &Read) -> bool {
        let Some(known) = self.known.get_mut(&from) else { return false };
        if known.is_over(read.1.at_ns) {
            return false;
        }
        known.last_ns = read.1.at_ns;
        true
    }

    /// Stores the flow of a source that has begun.
    pub(super) fn begun(&mut self, from: SocketAddr, begun: &Begun) {
        self.known.retain(|_, known| !known.is_over(begun.at_ns));
        let known = Known {
            flow: begun.flow,
            echoes: begun.echoes,
            deliver: begun.deliver,
            end: Arc::downgrade(&begun.end),
            last_ns: begun.at_ns,
        };
        self.known.insert(from, known);
    }
}

/// A flow of datagrams that has begun.
pub(super) struct Begun {
    flow: u32,
    echoes: bool,
    deliver: fn(&End, u32, bool, &Read),
    end: Arc<End>,
    /// When its first datagram arrived, by the workers' clock, ns.
    at_ns: u64,
    arrived: UnboundedSender<Arrived>,
}

impl Begun {
    /// Reports it to its session.
    pub(super) fn report(self) {
        let _ = self.arrived.send(Arrived::Datagrams(self.flow, self.end));
    }
}

impl Announced {
    /// Begins the flow with its first datagram; a failure is reported to its session.
    pub(super) fn begin(
        self,
        inlet: &mut Inlet<'_>,
        from: SocketAddr,
        first: Read,
    ) -> Option<Begun> {
        let Waiting { plan, spec, start_ns, arrived, rules, signals, interval_ns, .. } = self.flow;
        let mut at = self.at;
        // The system may have chosen it.
        at.set_port(inlet.at.port());
        let own = match session::open_datagrams(&plan, &spec, false, Some(at), Some(from)) {
            Ok(own) => own,
            Err(error) => {
                let _ = arrived.send(Arrived::Failed(spec.id, error.to_string()));
                return None;
            }
        };
        let early = inlet.begun(&own, from, vec![first]);
        let echoes = spec.connection.echo.is_some();
        let mut end = End::new(&self.owner.workers, &sessions::counted(&plan), true);
        if spec.id == FIRST {
            end = end.with_host(from.ip().to_canonical(), None);
        }
        end.datagrams(&spec, false, own, signals);
        end.start(intervals(&start_ns, (rules.start_ns)(&early[0]), interval_ns));
        for read in &early {
            (rules.deliver)(&end, spec.id, echoes, read);
        }
        let (end, at_ns) = (Arc::new(end), early[0].1.at_ns);
        Some(Begun { flow: spec.id, echoes, deliver: rules.deliver, end, at_ns, arrived })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules = Rules {
        identity_bytes: [4, 0],
        number: |data| data.first_chunk().map(|number| u32::from_be_bytes(*number)),
        begins: |_| true,
        start_ns: |(_, arrival)| arrival.at_ns,
        deliver: |_, _, _, _| {},
    };

    fn waiting(client: &str, number: Option<u32>) -> Announced {
        let text = "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"udp\"";
        let plan = Plan::parse(text).unwrap();
        let spec = plan.flows(weir_model::plan::Family::Ipv4, 1500).swap_remove(0);
        let (arrived, _) = tokio::sync::mpsc::unbounded_channel();
        let client = client.parse().unwrap();
        let flow = Waiting {
            client,
            number,
            rules: RULES,
            signals: None,
            interval_ns: 1,
            plan,
            spec,
            start_ns: Arc::default(),
            arrived,
        };
        let owner = Owner {
            workers: Workers::start(&Default::default()).unwrap(),
            load: Arc::default(),
            half_open: 1,
            patience: Duration::ZERO,
        };
        let at = "192.0.2.9:1".parse().unwrap();
        Announced { id: 0, at, owner: Arc::new(owner), flow }
    }

    #[test]
    fn data_is_of_the_flow_that_its_host_announced_with_its_number() {
        let mut all = Flows::default();
        for (client, number) in
            [("192.0.2.1", None), ("192.0.2.2", Some(2)), ("192.0.2.1", Some(2))]
        {
            all.add(waiting(client, number));
        }
        let of = |number: u32| [number.to_be_bytes(), [0; 4]].concat();
        let mut took = |client: &str, data: &[u8]| {
            let flow = all.take(client.parse().unwrap(), data)?.flow;
            Some((flow.client.to_string(), flow.number))
        };
        assert_eq!(took("192.0.2.3", &of(1)), None);
        assert_eq!(took("192.0.2.2", &of(1)), None);
        assert_eq!(took("192.0.2.1", &of(2)), Some(("192.0.2.1".into(), Some(2))));
        // What carries no number may be any data.
        assert_eq!(took("192.0.2.1", &of(2)), Some(("192.0.2.1".into(), None)));
        assert_eq!(took("192.0.2.1", &of(2)), None);
        assert_eq!(took("192.0.2.2", &of(2)), Some(("192.0.2.2".into(), Some(2))));
    }

    #[test]
    fn datagrams_of_an_ended_flow_are_late_until_its_source_is_silent() {
        let silence_ns = DATAGRAM_SILENCE.as_nanos() as u64;
        let from: SocketAddr = "192.0.2.1:5".parse().unwrap();
        let mut flows = Flows::default();
        let known = Known {
            flow: 1,
            echoes: false,
            deliver: |_, _, _, _| {},
            end: Weak::new(),
            last_ns: 0,
        };
        flows.known.insert(from, known);
        let mut is_late = |from: SocketAddr, at_ns: u64| {
            let arrival =
                weir_traffic::session::Arrival { at_ns, is_stamped: true, is_first_of_call: true };
            flows.is_late(from, &(vec![], arrival))
        };
        assert!(!is_late("192.0.2.1:6".parse().unwrap(), 1));
        assert!(is_late(from, silence_ns - 1));
        // Each of them counts.
        assert!(is_late(from, 2 * silence_ns - 2));
        assert!(!is_late(from, 3 * silence_ns));
    }

    #[test]
    fn the_intervals_of_a_session_begin_with_its_first_data() {
        let start = AtomicU64::new(0);
        assert_eq!(intervals(&start, 70, 1).start_ns, 70);
        assert_eq!(intervals(&start, 90, 1).start_ns, 70);
    }
}
