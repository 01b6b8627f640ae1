//! The part of an emulator on the path: its laws and counters in the record, its drops in the loss ledger.
//!
//! The counters of an emulator's flow include every packet that its filter matches: the control connection, probes and
//! the traffic of other programs. What it reports by the addresses of our own flows is ours alone, and exact.

use weir_model::plan::{Direction, Transport};
use weir_model::record::{Flow, ImpairedFlow, ImpairmentUse, LedgerRow, Record};
use weir_model::warning::{Severity, Warning};

use crate::stage::{EMULATOR_LINKS, EMULATOR_PLANNED, EMULATOR_QUEUE, EMULATOR_UNPLANNED};

/// What an emulator reported of the time of a run.
#[derive(Debug, Clone, Default)]
pub struct Emulated {
    /// Configuration and counters; `client_side` where the caller knows it.
    pub used: ImpairmentUse,
    /// Datagrams that it dropped, by their addresses.
    pub drops: Vec<DroppedDatagrams>,
    /// Dropped later fragments, which carry no ports, by stage as in `drops`.
    pub later_fragments: [u64; 3],
    /// Drops that are in `drops` by no address, since there were too many.
    pub uncounted: u64,
    /// Frames that its links lost, A to B first.
    pub link_dropped: [u64; 2],
}

/// Datagrams that an emulator dropped between two addresses.
#[derive(Debug, Clone, Default)]
pub struct DroppedDatagrams {
    /// The emulator's direction; `forward` is A to B.
    pub direction: Direction,
    /// Its flow.
    pub flow: String,
    /// Source address and port.
    pub source: String,
    /// Destination address and port.
    pub destination: String,
    /// By stage: loss law, queue, unplanned.
    pub packets: [u64; 3],
}

/// Stores an emulator's part in a record and attributes its drops in the loss ledger. `false` where the counters rule out
/// that the run's packets crossed it: then the record stays as it was.
pub fn attribute(record: &mut Record, mut emulated: Emulated) -> bool {
    if emulated.used.client_side.is_none() {
        emulated.used.client_side = client_side(record, &emulated);
    }
    if !may_have_crossed(record, &emulated.used) {
        return false;
    }
    let rows = rows(record, &emulated);
    if let Some(ledger) = &mut record.loss_ledger {
        ledger.rows.extend(rows);
        ledger.settle();
    }
    if let Some(changes) = emulated.used.changes {
        let text = format!(
            "the emulator's configuration changed during the run ({changes} came into force): the record has the last one"
        );
        record.warnings.push(Warning::new("laws-changed", Severity::Warning, text));
    }
    record.impairment = Some(emulated.used);
    true
}

fn counter(flow: &ImpairedFlow, name: &str) -> u64 {
    flow.counters.get(name).copied().unwrap_or(0)
}

/// The sum of counts that a peer may have reported: they may be any number.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

fn sum(used: &ImpairmentUse, direction: Direction, name: &str) -> u64 {
    total(used.flows.iter().filter(|f| f.direction == direction).map(|f| counter(f, name)))
}

/// Payload that arrived in a direction of the run.
fn arrived_bytes(record: &Record, direction: Direction) -> u64 {
    let flows = record.flows.iter().filter(|f| f.direction == direction);
    total(flows.filter_map(|f| f.receiver.as_ref()).map(|r| r.bytes))
}

/// Whether the emulator sent on at least the payload that arrived, with the client on this side of it.
fn carried(record: &Record, used: &ImpairmentUse, side: &str) -> bool {
    [Direction::Forward, Direction::Reverse].into_iter().all(|of_emulator| {
        let of_run = if side == "a" { of_emulator } else { of_emulator.opposite() };
        sum(used, of_emulator, "sent_bytes") >= arrived_bytes(record, of_run)
    })
}

fn may_have_crossed(record: &Record, used: &ImpairmentUse) -> bool {
    let received = total(used.flows.iter().map(|f| counter(f, "received_packets")));
    let is_carried = match used.client_side.as_deref() {
        Some(side) => carried(record, used, side),
        None => carried(record, used, "a") || carried(record, used, "b"),
    };
    received > 0 && is_carried
}

/// The client's side of an emulator: by the direction in which our datagrams were dropped, else the only side with which
/// its counters cover what arrived.
fn client_side(record: &Record, emulated: &Emulated) -> Option<String> {
    let by_drops = emulated.drops.iter().find_map(|drops| {
        let flow = record.flows.iter().find(|f| is_of(drops, f))?;
        Some(if flow.direction == drops.direction { "a" } else { "b" })
    });
    let by_counters = || match ["a", "b"].map(|side| carried(record, &emulated.used, side)) {
        [true, false] => Some("a"),
        [false, true] => Some("b"),
        _ => None,
    };
    by_drops.or_else(by_counters).map(Into::into)
}

fn is_of(drops: &DroppedDatagrams, flow: &Flow) -> bool {
    flow.transport == Transport::Udp
        && (&drops.source, &drops.destination) == (&flow.source, &flow.destination)
}

/// Rows of the ledger: of our own addresses where they were counted apart, else bounds by the counters of whole flows.
fn rows(record: &Record, emulated: &Emulated) -> Vec<LedgerRow> {
    let mut out = vec![];
    let mut row = |stage: &str, packets: u64, source: String, is_exact: bool| {
        if packets > 0 {
            let kind = if is_exact { "exact" } else { "bound" }.into();
            out.push(LedgerRow { stage: stage.into(), packets, source, kind, side: None });
        }
    };
    const STAGES: [(&str, &str, &str); 3] = [
        (EMULATOR_PLANNED, "lost_packets", "loss law"),
        (EMULATOR_QUEUE, "queue_dropped_packets", "queue"),
        (EMULATOR_UNPLANNED, "unplanned_dropped_packets", "own drops"),
    ];
    let used = &emulated.used;
    let of_run = |of_emulator| {
        used.direction_of_run(of_emulator).is_none_or(|d| {
            record.flows.iter().any(|f| f.transport == Transport::Udp && f.direction == d)
        })
    };
    let own_drops = || {
        let all = emulated.drops.iter();
        all.filter_map(|drops| Some((drops, record.flows.iter().find(|f| is_of(drops, f))?)))
    };
    for (drops, flow) in own_drops() {
        // A dropped copy loses nothing, and what was sent before the figures began is in none of them.
        let copies = used.flows.iter().filter(|f| f.name == drops.flow);
        let is_exact = record.omitted_seconds.is_none()
            && copies.map(|f| counter(f, "duplicated_packets")).sum::<u64>() == 0;
        for ((stage, _, what), packets) in STAGES.into_iter().zip(drops.packets) {
            let source =
                format!("emulator flow {}: {what}, by address (flow {})", drops.flow, flow.id);
            row(stage, packets, source, is_exact);
        }
    }
    if emulated.uncounted > 0 {
        for f in used.flows.iter().filter(|f| of_run(f.direction)) {
            for (i, (stage, name, what)) in STAGES.into_iter().enumerate() {
                let ours =
                    own_drops().filter(|(d, _)| (&d.flow, d.direction) == (&f.name, f.direction));
                let placed: u64 = ours.map(|(d, _)| d.packets[i]).sum();
                let source = format!("emulator flow {}: {what}, all its packets", f.name);
                row(stage, counter(f, name).saturating_sub(placed), source, false);
            }
        }
    }
    // Of a datagram in fragments one that is lost loses it; which datagram a later one is of, nobody counts.
    for ((stage, _, what), packets) in STAGES.into_iter().zip(emulated.later_fragments) {
        row(stage, packets, format!("emulator: {what}, later fragments of datagrams"), false);
    }
    for (packets, direction) in
        emulated.link_dropped.into_iter().zip([Direction::Forward, Direction::Reverse])
    {
        if of_run(direction) {
            let name = if direction == Direction::Forward { "A to B" } else { "B to A" };
            row(EMULATOR_LINKS, packets, format!("counters of the links, {name}"), false);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{LossLedger, Receiver, Sender};

    /// A UDP run of 1000 datagrams of 100 bytes in one direction, of which `lost` are missing.
    fn record(direction: Direction, lost: u64) -> Record {
        let flow = Flow {
            id: 1,
            transport: Transport::Udp,
            direction,
            source: "198.18.0.1:7".into(),
            destination: "198.18.0.2:9347".into(),
            sender: Some(Sender { packets: 1000, bytes: 100_000, ..Sender::default() }),
            receiver: Some(Receiver {
                packets: 1000 - lost,
                bytes: 100 * (1000 - lost),
                ..Receiver::default()
            }),
            ..Flow::default()
        };
        let mut ledger = LossLedger { missing_packets: lost as i64, ..LossLedger::default() };
        ledger.settle();
        Record { flows: vec![flow], loss_ledger: Some(ledger), ..Record::default() }
    }

    fn flow(direction: Direction, received: u64, lost: u64) -> ImpairedFlow {
        let counters = [
            ("received_packets", received),
            ("sent_bytes", 142 * (received - lost)),
            ("lost_packets", lost),
        ];
        ImpairedFlow {
            name: "other".into(),
            direction,
            counters: counters.map(|(name, n)| (name.to_owned(), n)).into(),
            ..ImpairedFlow::default()
        }
    }

    fn drops(direction: Direction, packets: [u64; 3]) -> DroppedDatagrams {
        DroppedDatagrams {
            direction,
            flow: "other".into(),
            source: "198.18.0.1:7".into(),
            destination: "198.18.0.2:9347".into(),
            packets,
        }
    }

    /// The control connection and probes crossed it as well: 1040 packets, of which 305 were lost.
    fn emulated(direction: Direction, packets: [u64; 3]) -> Emulated {
        let flows = vec![flow(direction, 1040, 305), flow(direction.opposite(), 50, 10)];
        Emulated {
            used: ImpairmentUse { flows, ..ImpairmentUse::default() },
            drops: vec![drops(direction, packets)],
            ..Emulated::default()
        }
    }

    fn table(record: &Record) -> Vec<(&str, u64, &str)> {
        let rows = &record.loss_ledger.as_ref().unwrap().rows;
        rows.iter().map(|r| (r.stage.as_str(), r.packets, r.kind.as_str())).collect()
    }

    #[test]
    fn drops_of_our_own_addresses_are_exact() {
        let mut r = record(Direction::Forward, 303);
        assert!(attribute(&mut r, emulated(Direction::Forward, [300, 2, 1])));
        let wanted = [
            (EMULATOR_PLANNED, 300, "exact"),
            (EMULATOR_QUEUE, 2, "exact"),
            (EMULATOR_UNPLANNED, 1, "exact"),
        ];
        assert_eq!(table(&r), wanted);
        assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 0);
        let used = r.impairment.unwrap();
        assert_eq!((used.client_side.as_deref(), used.changes), (Some("a"), None));
        assert!(r.warnings.is_empty());
    }

    #[test]
    fn datagrams_of_others_are_not_ours() {
        let mut r = record(Direction::Forward, 3);
        let mut all = emulated(Direction::Forward, [3, 0, 0]);
        let other = DroppedDatagrams { source: "198.18.0.1:8".into(), ..all.drops[0].clone() };
        all.drops.push(DroppedDatagrams { packets: [200, 0, 0], ..other });
        assert!(attribute(&mut r, all));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "exact")]);
    }

    #[test]
    fn copies_and_an_omitted_start_make_a_bound() {
        let mut r = record(Direction::Forward, 2);
        let mut copies = emulated(Direction::Forward, [3, 0, 0]);
        copies.used.flows[0].counters.insert("duplicated_packets".into(), 5);
        assert!(attribute(&mut r, copies));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "bound")]);
        assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 0);
        let mut r = Record { omitted_seconds: Some(1.0), ..record(Direction::Forward, 2) };
        assert!(attribute(&mut r, emulated(Direction::Forward, [3, 0, 0])));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "bound")]);
    }

    #[test]
    fn what_no_address_was_counted_for_is_a_bound() {
        let mut r = record(Direction::Forward, 303);
        let all = Emulated { uncounted: 300, ..emulated(Direction::Forward, [3, 0, 0]) };
        assert!(attribute(&mut r, all));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "exact"), (EMULATOR_PLANNED, 302, "bound")]);
        let mut r = record(Direction::Forward, 20);
        let links = Emulated {
            link_dropped: [20, 7],
            later_fragments: [4, 0, 0],
            ..emulated(Direction::Forward, [0; 3])
        };
        assert!(attribute(&mut r, links));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 4, "bound"), (EMULATOR_LINKS, 20, "bound")]);
    }

    #[test]
    fn the_side_of_the_client_is_found_by_drops_or_counters() {
        // The client's datagrams leave by B.
        let mut r = record(Direction::Forward, 300);
        assert!(attribute(&mut r, emulated(Direction::Reverse, [300, 0, 0])));
        assert_eq!(r.impairment.as_ref().unwrap().client_side.as_deref(), Some("b"));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 300, "exact")]);
        let mut r = record(Direction::Reverse, 0);
        assert!(attribute(&mut r, emulated(Direction::Reverse, [0; 3])));
        assert_eq!(r.impairment.unwrap().client_side.as_deref(), Some("a"));
    }

    #[test]
    fn an_emulator_that_sent_less_than_arrived_was_not_on_the_path() {
        let mut r = record(Direction::Forward, 0);
        let before = r.clone();
        let flows = vec![flow(Direction::Forward, 20, 0), flow(Direction::Reverse, 20, 0)];
        let mut idle = Emulated::default();
        assert!(!attribute(&mut r, idle.clone()));
        idle.used.flows = flows;
        assert!(!attribute(&mut r, idle));
        assert_eq!(r, before);
    }

    #[test]
    fn laws_that_changed_meanwhile_are_a_warning() {
        let mut r = record(Direction::Forward, 0);
        let mut all = emulated(Direction::Forward, [0; 3]);
        all.used.changes = Some(2);
        assert!(attribute(&mut r, all));
        assert_eq!(r.warnings[0].code, "laws-changed");
        assert_eq!(r.impairment.unwrap().changes, Some(2));
    }

    #[test]
    fn huge_counts_do_not_overflow() {
        let flow = || Flow {
            receiver: Some(weir_model::record::Receiver { bytes: u64::MAX, ..Default::default() }),
            ..Flow::default()
        };
        let record = Record { flows: vec![flow(), flow()], ..Record::default() };
        assert_eq!(arrived_bytes(&record, Direction::Forward), u64::MAX);
    }
}
