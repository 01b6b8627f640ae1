//! Several workers for one direction: which of them judges the packets of a flow, and how packets reach it.
//!
//! The link divides what arrives among the workers. Laws that judge each packet on its own are applied where the packet
//! arrived. All packets of any other flow are judged by one worker, its owner: the others pass them on, in batches. Packets that
//! were passed on are never passed on again, so that no two workers wait for each other.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use weir_impair::{Meta, Names, Share};
use weir_model::impairment::{Impairment, Laws, OTHER};
use weir_model::plan::Direction;
use weir_net::thread::lock;

use crate::error::EmulatorError;

/// Maximum number of workers of a direction.
pub(crate) const MAX_WORKERS: u8 = 16;
/// Packets and bytes that may wait for a worker. Beyond that, the one that passes them receives no more until there is room.
const MAX_PACKETS: usize = 1 << 14;
const MAX_BYTES: usize = 8 << 20;

/// The worker that judges all packets of a flow, by the flow's number; `None`: the one where the packet arrived.
pub(crate) type Owners = Arc<[Option<u8>]>;

/// Checks whether several workers can apply a configuration.
///
/// # Errors
/// [`EmulatorError::Refusal`] if packets pass several hops.
pub(crate) fn check(config: &Impairment, workers: u8) -> Result<(), EmulatorError> {
    if workers > 1 && config.hops() > 1 {
        return Err(EmulatorError::Refusal {
            what: "hops".into(),
            given: config.hops().to_string(),
            accepted: "1 with several threads".into(),
        });
    }
    Ok(())
}

/// The owners of all flows. Flows that share a rate or a delay have the same one.
pub(crate) fn owners(
    config: &Impairment,
    direction: Direction,
    names: &Names,
    workers: u8,
) -> Owners {
    let numbered = names.numbered();
    // By the number, so that a flow with a state stays where it is when another one changes.
    let by_number = |number: u32| Some((number % u32::from(workers.max(1))) as u8);
    let numbers: HashMap<&str, u32> =
        numbered.iter().map(|(number, name)| (*name, *number)).collect();
    let of = |name: &str| numbers.get(name).copied().and_then(by_number);
    let mut by_name: HashMap<&str, Option<u8>> = HashMap::new();
    for aggregate in &config.aggregates {
        let owner = aggregate.flows.first().and_then(|first| of(first));
        by_name.extend(aggregate.flows.iter().map(|name| (name.as_str(), owner)));
    }
    // The laws of a later moment may be any.
    let changes = config.timeline.is_some();
    let mut add = |name, laws: Laws| {
        let is_spread = !changes && laws.is_stateless();
        by_name.entry(name).or_insert_with(|| if is_spread { None } else { of(name) });
    };
    config.flows.iter().for_each(|flow| add(&flow.name, flow.effective_laws(direction)));
    add(OTHER, config.other.laws(direction));
    numbered.iter().map(|(_, name)| by_name.get(name).copied().flatten()).collect()
}

/// What is known of a packet that passes from one worker to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    pub(crate) arrived_ns: u64,
    length: u32,
    /// The filter that it matches, in the configuration of this number.
    pub(crate) class: u32,
    pub(crate) configuration: u64,
}

/// Packets on their way from one worker to another.
#[derive(Debug, Default)]
pub(crate) struct Handed {
    heads: Vec<Head>,
    bytes: Vec<u8>,
}

impl Handed {
    fn add(&mut self, meta: &Meta, configuration: u64, frame: &[u8]) {
        self.heads.push(Head {
            arrived_ns: meta.arrived_ns,
            length: frame.len() as u32,
            class: meta.class,
            configuration,
        });
        self.bytes.extend_from_slice(frame);
    }

    /// Whether those of another batch have room.
    fn has_room(&self, more: &Handed) -> bool {
        self.heads.is_empty()
            || self.heads.len() + more.heads.len() <= MAX_PACKETS
                && self.bytes.len() + more.bytes.len() <= MAX_BYTES
    }

    /// Takes the packets of another batch.
    fn append(&mut self, more: &mut Handed) {
        self.heads.append(&mut more.heads);
        self.bytes.append(&mut more.bytes);
    }

    /// Calls `take` with each packet, in order, and removes them.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(&Head, &[u8])) {
        let mut rest = &self.bytes[..];
        for head in &self.heads {
            let (frame, after) = rest.split_at(head.length as usize);
            take(head, frame);
            rest = after;
        }
        self.heads.clear();
        self.bytes.clear();
    }

    fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }
}

/// What became of packets for another worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// It has them; `wakes`: it had none before, and may be asleep.
    Taken { wakes: bool },
    /// They stay until it has room.
    Full,
    /// It has ended: this many are lost.
    Ended(u64),
}

/// Packets that other workers have passed to this one.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// `None` once the worker has ended.
    handed: Mutex<Option<Handed>>,
    has_some: AtomicBool,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox { handed: Mutex::new(Some(Handed::default())), has_some: AtomicBool::new(false) }
    }

    /// Takes packets, which then are in the batch no more, if there is room.
    pub(crate) fn put(&self, packets: &mut Handed) -> Passed {
        match &mut *lock(&self.handed) {
            Some(handed) if handed.has_room(packets) => handed.append(packets),
            Some(_) => return Passed::Full,
            None => return Passed::Ended(std::mem::take(packets).heads.len() as u64),
        }
        Passed::Taken { wakes: !self.has_some.swap(true, Ordering::AcqRel) }
    }

    /// Whether there are packets.
    #[inline]
    pub(crate) fn has_some(&self) -> bool {
        self.has_some.load(Ordering::Acquire)
    }

    /// Exchanges the packets for an empty batch.
    pub(crate) fn take(&self, into: &mut Handed) {
        self.has_some.store(false, Ordering::Release);
        if let Some(handed) = &mut *lock(&self.handed) {
            std::mem::swap(handed, into);
        }
    }

    /// Number of packets.
    pub(crate) fn packets(&self) -> u64 {
        lock(&self.handed).as_ref().map_or(0, |handed| handed.heads.len() as u64)
    }

    /// Takes no more; returns the number of packets that were not exchanged.
    pub(crate) fn close(&self) -> u64 {
        lock(&self.handed).take().map_or(0, |handed| handed.heads.len() as u64)
    }
}

/// The workers of a direction that still receive, and may pass packets to others.
#[derive(Debug)]
pub(crate) struct Receiving {
    workers: Arc<AtomicUsize>,
    is_over: bool,
}

impl Receiving {
    pub(crate) fn of(workers: u8) -> Vec<Receiving> {
        let all = Arc::new(AtomicUsize::new(workers.into()));
        (0..workers).map(|_| Receiving { workers: all.clone(), is_over: false }).collect()
    }

    /// This one receives no more.
    pub(crate) fn end(&mut self) {
        if !std::mem::replace(&mut self.is_over, true) {
            self.workers.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether no worker receives any more.
    pub(crate) fn is_over(&self) -> bool {
        self.workers.load(Ordering::Acquire) == 0
    }
}

impl Drop for Receiving {
    fn drop(&mut self) {
        self.end();
    }
}

/// A worker's view of the others.
#[derive(Debug)]
pub(crate) struct Sharing {
    worker: u8,
    owners: Owners,
    configuration: u64,
    /// Packets for each of the others.
    outgoing: Vec<Handed>,
}

impl Sharing {
    pub(crate) fn new(share: Share, owners: Owners) -> Self {
        let outgoing = (0..share.workers).map(|_| Handed::default()).collect();
        Sharing { worker: share.worker, owners, configuration: 0, outgoing }
    }

    pub(crate) fn configure(&mut self, owners: Owners, configuration: u64) {
        (self.owners, self.configuration) = (owners, configuration);
    }

    /// The number of the configuration in force.
    pub(crate) fn configuration(&self) -> u64 {
        self.configuration
    }

    /// The other worker that judges the packets of a flow, if one does.
    #[inline]
    pub(crate) fn other(&self, flow: u32) -> Option<u8> {
        let owner = self.owners.get(flow as usize).copied().flatten();
        owner.filter(|owner| *owner != self.worker)
    }

    /// Adds a packet to those for another worker.
    pub(crate) fn pass(&mut self, worker: u8, meta: &Meta, frame: &[u8]) {
        self.outgoing[usize::from(worker)].add(meta, self.configuration, frame);
    }

    /// The packets for each worker that has some.
    pub(crate) fn outgoing(&mut self) -> impl Iterator<Item = (usize, &mut Handed)> {
        let all = self.outgoing.iter_mut().enumerate();
        all.filter(|(_, packets)| !packets.is_empty())
    }

    /// Number of packets that other workers have not taken yet.
    pub(crate) fn untaken(&self) -> usize {
        self.outgoing.iter().map(|packets| packets.heads.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_impair::Prepared;

    use super::*;

    #[test]
    fn one_worker_owns_a_flow_whose_laws_have_a_state() {
        let text = r#"
            schema = "weir.impair/1"
            [[flow]]
            name = "alone"
            a_to_b = { delay = { constant = "5ms" } }
            b_to_a = { rate = { bits = "1M" } }
            [[flow]]
            name = "one"
            [[flow]]
            name = "two"
            [[flow]]
            name = "limited"
            a_to_b = { rate = { bits = "1M" } }
            [other]
            a_to_b = { loss = { every_nth = 3 } }
            [[aggregate]]
            flows = ["one", "two"]
            a_to_b = { delay = { constant = "5ms" } }
        "#;
        let config = Arc::new(Impairment::parse(text).unwrap());
        let mut names = Names::default();
        names.add(&Prepared::new(&config, weir_laws::Direction::Forward, 1).unwrap());
        let of = |direction, workers| owners(&config, direction, &names, workers).to_vec();
        let there = of(Direction::Forward, 2);
        // By number: Other, alone, one, two, limited.
        assert_eq!(there, [Some(0), None, Some(0), Some(0), Some(0)]);
        assert_eq!(of(Direction::Forward, 3), [Some(0), None, Some(2), Some(2), Some(1)]);
        assert_eq!(of(Direction::Reverse, 2), [None, Some(1), Some(0), Some(0), None]);
        let timed = format!("{text}\n[timeline]\nchange = [{{ at = \"1s\", both = \"rate 1M\" }}]");
        let timed = Impairment::parse(&timed).unwrap();
        assert!(owners(&timed, Direction::Forward, &names, 3).iter().all(Option::is_some));
    }

    #[test]
    fn packets_pass_in_order_and_wait_for_room() {
        let inbox = Inbox::new();
        let mut sharing = Sharing::new(Share { worker: 0, workers: 2 }, vec![Some(1)].into());
        assert_eq!(sharing.other(0), Some(1));
        let pass = |sharing: &mut Sharing, length: u32| {
            let meta = Meta::opaque(0, length.into(), length);
            sharing.pass(1, &meta, &vec![7; length as usize]);
        };
        let put = |sharing: &mut Sharing| {
            let (worker, packets) = sharing.outgoing().next().unwrap();
            assert_eq!(worker, 1);
            inbox.put(packets)
        };
        pass(&mut sharing, 60);
        pass(&mut sharing, 61);
        assert_eq!(put(&mut sharing), Passed::Taken { wakes: true });
        pass(&mut sharing, 62);
        assert_eq!(put(&mut sharing), Passed::Taken { wakes: false });
        let mut taken = Handed::default();
        let mut seen = vec![];
        let mut take = || {
            inbox.take(&mut taken);
            taken.drain(|head, frame| seen.push((head.arrived_ns, frame.len())));
            std::mem::take(&mut seen)
        };
        assert_eq!(take(), [(60, 60), (61, 61), (62, 62)]);
        assert!(!inbox.has_some());
        for _ in 0..MAX_PACKETS {
            pass(&mut sharing, 60);
        }
        assert_eq!(put(&mut sharing), Passed::Taken { wakes: true });
        pass(&mut sharing, 61);
        assert_eq!((put(&mut sharing), sharing.untaken()), (Passed::Full, 1));
        assert_eq!(take().len(), MAX_PACKETS);
        assert_eq!((put(&mut sharing), sharing.untaken()), (Passed::Taken { wakes: true }, 0));
        assert_eq!(inbox.close(), 1);
        pass(&mut sharing, 60);
        assert_eq!((put(&mut sharing), sharing.untaken()), (Passed::Ended(1), 0));
    }

    #[test]
    fn receiving_is_over_when_every_worker_has_ended() {
        let mut all = Receiving::of(2);
        all[0].end();
        all[0].end();
        assert!(!all[0].is_over());
        drop(all.pop());
        assert!(all[0].is_over());
    }
}
