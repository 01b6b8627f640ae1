//! Adds an emulator on the path to a record: its laws and counters, and its drops and damage in the loss ledger.
//!
//! The counters of an emulator's flow include every packet that its filter matches: the control connection, probes
//! and the traffic of other programs. Its counts by the addresses of our own flows cover these alone, and are exact.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use weir_model::plan::Direction;
use weir_model::record::{Flow, ImpairedFlow, ImpairmentUse, LedgerRow, LossLedger, Record};
use weir_model::warning::{Severity, Warning};

use crate::ledger::datagrams;
use crate::socket_drops::socket_drops;
use crate::warnings::{CHECKSUM_ERRORS, checksum_errors};
use weir_model::record::stage::{
    DAMAGED, EMULATOR_DAMAGED, EMULATOR_LINKS, EMULATOR_PLANNED, EMULATOR_QUEUE, EMULATOR_UNPLANNED,
};

/// An emulator's report of the time of a run.
#[derive(Debug, Clone, Default)]
pub struct Emulated {
    /// Configuration and counters; `client_side` where the caller knows it.
    pub used: ImpairmentUse,
    /// Datagrams that it dropped or damaged, by their addresses.
    pub drops: Vec<DroppedDatagrams>,
    /// Later fragments, which carry no ports, by stage as in `drops`.
    pub later_fragments: [u64; 4],
    /// Control datagrams of tests that it damaged, A to B first.
    pub damaged_control: [u64; 2],
    /// Drops that are not in `drops`, since there were too many addresses.
    pub uncounted: u64,
    /// Frames that its links lost, A to B first.
    pub link_dropped: [u64; 2],
}

/// Datagrams that an emulator dropped or damaged between two addresses.
#[derive(Debug, Clone)]
pub struct DroppedDatagrams {
    /// The emulator's direction; `forward` is A to B.
    pub direction: Direction,
    /// Its flow.
    pub flow: String,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// By stage: dropped by a loss law, by a queue, unplanned; forwarded with a wrong checksum.
    pub packets: [u64; 4],
}

/// Stores an emulator's part in a record and attributes its drops in the loss ledger. `false` if the counters rule
/// out that the run's packets crossed it: then the record is unchanged.
pub fn attribute(record: &mut Record, mut emulated: Emulated) -> bool {
    if emulated.used.client_side.is_none() {
        emulated.used.client_side = client_side(record, &emulated);
    }
    if !may_have_crossed(record, &emulated.used) {
        return false;
    }
    let damage = damage(record, &emulated);
    let rows = rows(record, &emulated, &damage);
    if let Some(ledger) = &mut record.loss_ledger {
        subtract_damage(ledger, &damage, emulated.later_fragments[3]);
        ledger.rows.extend(rows);
        ledger.settle();
        record.warnings.retain(|warning| warning.code != CHECKSUM_ERRORS);
        record.warnings.extend(checksum_errors(record));
    }
    record.warnings.extend(overloaded(record, &emulated));
    if let Some(changes) = emulated.used.changes {
        let text = format!(
            "the emulator's configuration changed during the run (changes applied: {changes}): the record has the last one"
        );
        record.warnings.push(Warning::new("laws-changed", Severity::Warning, text));
    }
    record.impairment = Some(emulated.used);
    true
}

/// Warns of drops without a law: the emulator's host was the limit of the path.
fn overloaded(record: &Record, emulated: &Emulated) -> Option<Warning> {
    let of_run = |of_emulator| {
        let direction = emulated.used.direction_of_run(of_emulator);
        direction.is_none_or(|d| record.flows.iter().any(|f| f.direction == d))
    };
    let links = emulated.link_dropped.into_iter().zip([Direction::Forward, Direction::Reverse]);
    let links = total(links.filter(|(_, direction)| of_run(*direction)).map(|(frames, _)| frames));
    let own = total(own_drops(record, emulated).map(|(drops, _)| drops.packets[2]));
    let frames = links.saturating_add(own);
    (frames > 0).then(|| {
        let text = format!(
            "the emulator dropped {frames} frames without a law: it could not forward them in time, and its host was the limit of the path"
        );
        Warning::new("emulator-overloaded", Severity::Warning, text).with_value(frames as f64, 0.0)
    })
}

fn counter(flow: &ImpairedFlow, name: &str) -> u64 {
    flow.counters.get(name).copied().unwrap_or(0)
}

/// The sum of counts, which may be any number if a peer reported them.
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

/// Whether the emulator forwarded at least the payload that arrived, with the client on `side` of it.
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

/// The client's side of an emulator: by the direction in which our datagrams were lost, else the only side for which
/// its counters cover what arrived.
fn client_side(record: &Record, emulated: &Emulated) -> Option<String> {
    let by_drops = own_drops(record, emulated)
        .next()
        .map(|(drops, flow)| if flow.direction == drops.direction { "a" } else { "b" });
    let by_counters = || match ["a", "b"].map(|side| carried(record, &emulated.used, side)) {
        [true, false] => Some("a"),
        [false, true] => Some("b"),
        _ => None,
    };
    by_drops.or_else(by_counters).map(Into::into)
}

/// An address and port; the scope of a link-local address is the host's own number and not in the packet.
fn end(address: SocketAddr) -> (IpAddr, u16) {
    (address.ip(), address.port())
}

/// The drops of the run's own flows, each with its flow.
fn own_drops<'a>(
    record: &'a Record,
    emulated: &'a Emulated,
) -> impl Iterator<Item = (&'a DroppedDatagrams, &'a Flow)> {
    let ends = |f: &Flow| Some((end(f.source.parse().ok()?), end(f.destination.parse().ok()?)));
    let udp = record.flows.iter().filter(|f| f.transport.datagrams());
    let flows: HashMap<_, _> = udp.filter_map(|f| Some((ends(f)?, f))).collect();
    // Each transfer has a port of its own at the client; the port at the server is the flow's alone.
    let is_of_transfers = |f: &Flow| f.transactions.as_ref().is_some_and(|t| t.transfers.is_some());
    let of_transfers: HashMap<_, _> = flows
        .iter()
        .filter(|(_, f)| is_of_transfers(f))
        .map(|(((source, _), destination), f)| ((*source, *destination), *f))
        .collect();
    emulated.drops.iter().filter_map(move |drops| {
        let (source, destination) = (end(drops.source), end(drops.destination));
        let own = flows.get(&(source, destination));
        Some((drops, *own.or_else(|| of_transfers.get(&(source.0, destination)))?))
    })
}

/// Whether the drops of an emulator's flow are missing at the receiver: a dropped copy is not, and packets of the
/// omitted start are in no figure.
fn is_missing(record: &Record, used: &ImpairmentUse, flow: &str) -> bool {
    let flows = used.flows.iter().filter(|f| f.name == flow);
    record.omitted_seconds.is_none()
        && flows.map(|f| counter(f, "duplicated_packets")).sum::<u64>() == 0
}

/// Datagrams of one direction of the run that the emulator forwarded with a wrong checksum.
struct Damage {
    direction: Direction,
    /// Datagrams of the run's flows, by address.
    ours: u64,
    /// Control datagrams of tests.
    control: u64,
    /// All datagrams in `ours` are missing, dropped by the receiving kernel for their checksums.
    is_exact: bool,
}

/// The emulator's damage, by the run's direction. It is exact if the receiving namespace counted the same number of
/// wrong checksums: then none was lost in between, and nothing else was damaged.
fn damage(record: &Record, emulated: &Emulated) -> [Damage; 2] {
    let used = &emulated.used;
    let drops = socket_drops(record);
    [Direction::Forward, Direction::Reverse].map(|direction| {
        let own = || own_drops(record, emulated).filter(|(_, flow)| flow.direction == direction);
        let ours = total(own().map(|(drops, _)| drops.packets[3]));
        let of_emulator = [Direction::Forward, Direction::Reverse].into_iter();
        let control = of_emulator.zip(emulated.damaged_control);
        let control = total(
            control.filter(|(d, _)| used.direction_of_run(*d) == Some(direction)).map(|c| c.1),
        );
        let counted = drops(direction).damaged().packets;
        // Some control datagrams may have arrived before the receiver's counters were read.
        let is_agreed = (ours..=ours.saturating_add(control)).contains(&counted);
        let is_exact = is_agreed
            && emulated.later_fragments[3] == 0
            && own().all(|(drops, _)| is_missing(record, used, &drops.flow));
        Damage { direction, ours, control, is_exact }
    })
}

/// Subtracts the emulator's damage from the receivers' counters of wrong checksums. The rest is a bound: it may still
/// be the emulator's, since some of its damage may have been lost before it was counted.
fn subtract_damage(ledger: &mut LossLedger, damage: &[Damage], mut later_fragments: u64) {
    for Damage { direction, ours, control, .. } in damage {
        let side = if *direction == Direction::Forward { "remote" } else { "local" };
        let is_of =
            |row: &&mut LedgerRow| row.stage == DAMAGED && row.side.as_deref() == Some(side);
        for row in ledger.rows.iter_mut().filter(is_of) {
            let known = row.packets.min(ours.saturating_add(*control));
            let fragments = (row.packets - known).min(later_fragments);
            later_fragments -= fragments;
            if known + fragments > 0 {
                row.packets -= known + fragments;
                row.kind = "bound".into();
            }
        }
    }
    ledger.rows.retain(|row| row.packets > 0);
}

/// Rows of the ledger: by our own addresses where these were counted, else bounds by the counters of whole flows.
fn rows(record: &Record, emulated: &Emulated, damage: &[Damage]) -> Vec<LedgerRow> {
    let mut out = vec![];
    let mut row = |stage: &str, packets: u64, source: String, is_exact: bool| {
        if packets > 0 {
            let kind = if is_exact { "exact" } else { "bound" }.into();
            out.push(LedgerRow { stage: stage.into(), packets, source, kind, side: None });
        }
    };
    const STAGES: [(&str, &str, &str); 4] = [
        (EMULATOR_PLANNED, "lost_packets", "loss law"),
        (EMULATOR_QUEUE, "queue_dropped_packets", "queue"),
        (EMULATOR_UNPLANNED, "unplanned_dropped_packets", "own drops"),
        (EMULATOR_DAMAGED, "modified_packets", "content law"),
    ];
    let used = &emulated.used;
    let of_run = |of_emulator| {
        used.direction_of_run(of_emulator).is_none_or(|d| {
            record.flows.iter().any(|f| f.transport.datagrams() && f.direction == d)
        })
    };
    for (drops, flow) in own_drops(record, emulated) {
        let is_missing = is_missing(record, used, &drops.flow);
        let of_damage = damage.iter().any(|d| d.direction == flow.direction && d.is_exact);
        let is_exact = [is_missing, is_missing, is_missing, of_damage];
        for (((stage, _, what), packets), is_exact) in
            STAGES.into_iter().zip(drops.packets).zip(is_exact)
        {
            let source =
                format!("emulator flow {}: {what}, by address (flow {})", drops.flow, flow.id);
            row(stage, packets, source, is_exact);
        }
    }
    if emulated.uncounted > 0 {
        for f in used.flows.iter().filter(|f| of_run(f.direction)) {
            // Only drops: a changed packet may have its checksum repaired.
            for (i, (stage, name, what)) in STAGES.into_iter().take(3).enumerate() {
                let ours = own_drops(record, emulated)
                    .filter(|(d, _)| (&d.flow, d.direction) == (&f.name, f.direction));
                let placed: u64 = ours.map(|(d, _)| d.packets[i]).sum();
                let source = format!("emulator flow {}: {what}, all its packets", f.name);
                row(stage, counter(f, name).saturating_sub(placed), source, false);
            }
        }
    }
    // The loss of one fragment loses the datagram; which datagram a later fragment belongs to is unknown.
    for ((stage, _, what), packets) in STAGES.into_iter().zip(emulated.later_fragments) {
        row(stage, packets, format!("emulator: {what}, later fragments of datagrams"), false);
    }
    for (packets, direction) in
        emulated.link_dropped.into_iter().zip([Direction::Forward, Direction::Reverse])
    {
        if of_run(direction) {
            let name = if direction == Direction::Forward { "A to B" } else { "B to A" };
            let (most, of) = datagrams(record, packets);
            row(EMULATOR_LINKS, most, format!("counters of the links, {name}{of}"), false);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::TransportName;
    use weir_model::record::{Host, Receiver, Sender};

    /// A UDP run of 1000 datagrams of 100 bytes in one direction, of which `lost` are missing.
    fn record(direction: Direction, lost: u64) -> Record {
        let flow = Flow {
            id: 1,
            transport: TransportName::Udp,
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

    fn drops(direction: Direction, packets: [u64; 4]) -> DroppedDatagrams {
        DroppedDatagrams {
            direction,
            flow: "other".into(),
            source: "198.18.0.1:7".parse().unwrap(),
            destination: "198.18.0.2:9347".parse().unwrap(),
            packets,
        }
    }

    /// The control connection and probes crossed it as well: 1040 packets, of which 305 were lost.
    fn emulated(direction: Direction, packets: [u64; 4]) -> Emulated {
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
        assert!(attribute(&mut r, emulated(Direction::Forward, [300, 2, 1, 0])));
        let wanted = [
            (EMULATOR_PLANNED, 300, "exact"),
            (EMULATOR_QUEUE, 2, "exact"),
            (EMULATOR_UNPLANNED, 1, "exact"),
        ];
        assert_eq!(table(&r), wanted);
        assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 0);
        let used = r.impairment.unwrap();
        assert_eq!((used.client_side.as_deref(), used.changes), (Some("a"), None));
        let codes: Vec<_> = r.warnings.iter().map(|w| w.code.as_str()).collect();
        assert_eq!(codes, ["emulator-overloaded"], "its own drops");
    }

    #[test]
    fn datagrams_of_others_are_not_ours() {
        let mut r = record(Direction::Forward, 3);
        let mut all = emulated(Direction::Forward, [3, 0, 0, 0]);
        let other =
            DroppedDatagrams { source: "198.18.0.1:8".parse().unwrap(), ..all.drops[0].clone() };
        all.drops.push(DroppedDatagrams { packets: [200, 0, 0, 0], ..other });
        assert!(attribute(&mut r, all));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "exact")]);
    }

    #[test]
    fn copies_and_an_omitted_start_make_a_bound() {
        let mut r = record(Direction::Forward, 2);
        let mut copies = emulated(Direction::Forward, [3, 0, 0, 0]);
        copies.used.flows[0].counters.insert("duplicated_packets".into(), 5);
        assert!(attribute(&mut r, copies));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "bound")]);
        assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 0);
        let mut r = Record { omitted_seconds: Some(1.0), ..record(Direction::Forward, 2) };
        assert!(attribute(&mut r, emulated(Direction::Forward, [3, 0, 0, 0])));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "bound")]);
    }

    #[test]
    fn drops_without_an_address_are_a_bound() {
        let mut r = record(Direction::Forward, 303);
        let all = Emulated { uncounted: 300, ..emulated(Direction::Forward, [3, 0, 0, 0]) };
        assert!(attribute(&mut r, all));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "exact"), (EMULATOR_PLANNED, 302, "bound")]);
        let mut r = record(Direction::Forward, 20);
        let links = Emulated {
            link_dropped: [20, 7],
            later_fragments: [4, 0, 0, 0],
            ..emulated(Direction::Forward, [0; 4])
        };
        assert!(attribute(&mut r, links));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 4, "bound"), (EMULATOR_LINKS, 20, "bound")]);
        let overloaded: Vec<_> = r.warnings.iter().map(|w| (w.code.as_str(), w.value)).collect();
        assert_eq!(
            overloaded,
            [("emulator-overloaded", Some(20.0))],
            "not those of the other direction"
        );
        // A link counts frames, each of which may be a super-packet.
        let mut r = record(Direction::Forward, 900);
        r.flows[0].sender.as_mut().unwrap().segments_per_message = Some(43.6);
        let links = Emulated { link_dropped: [20, 7], ..emulated(Direction::Forward, [0; 4]) };
        assert!(attribute(&mut r, links));
        assert_eq!(table(&r), [(EMULATOR_LINKS, 880, "bound")]);
    }

    #[test]
    fn the_side_of_the_client_is_found_by_drops_or_counters() {
        // The client's datagrams leave by B.
        let mut r = record(Direction::Forward, 300);
        assert!(attribute(&mut r, emulated(Direction::Reverse, [300, 0, 0, 0])));
        assert_eq!(r.impairment.as_ref().unwrap().client_side.as_deref(), Some("b"));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 300, "exact")]);
        let mut r = record(Direction::Reverse, 0);
        assert!(attribute(&mut r, emulated(Direction::Reverse, [0; 4])));
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

    /// Of `lost` datagrams the emulator damaged `ours`, and `control` control datagrams; the receiver's namespace counted
    /// `counted` wrong checksums.
    fn damaged(lost: u64, ours: u64, control: u64, counted: u64) -> Record {
        let mut r = record(Direction::Forward, lost);
        r.flows[0].receiver.as_mut().unwrap().socket_dropped_packets = Some(counted);
        let counters = [("udp_checksum_errors".to_string(), counted)].into();
        r.remote = Some(Host { counters, ..Host::default() });
        r.loss_ledger = crate::ledger::ledger(&r);
        r.warnings = checksum_errors(&r);
        let all = Emulated {
            damaged_control: [control, 5],
            ..emulated(Direction::Forward, [0, 0, 0, ours])
        };
        assert!(attribute(&mut r, all));
        r
    }

    #[test]
    fn damage_is_exact_where_the_receiver_counts_the_same() {
        for (control, counted) in [(0, 70), (2, 72), (2, 71), (2, 70)] {
            let r = damaged(70, 70, control, counted);
            assert_eq!(table(&r), [(EMULATOR_DAMAGED, 70, "exact")], "{control} {counted}");
            assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 0);
            assert!(r.warnings.is_empty(), "no damage on the path: {:?}", r.warnings);
        }
    }

    #[test]
    fn damage_is_a_bound_where_the_sums_differ_and_is_placed_once() {
        // Five were lost behind the emulator.
        let r = damaged(70, 70, 0, 65);
        assert_eq!(table(&r), [(EMULATOR_DAMAGED, 70, "bound")]);
        assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 0);
        // Ten more were damaged elsewhere, or fewer of ours arrived.
        let r = damaged(90, 70, 1, 81);
        assert_eq!(table(&r), [(DAMAGED, 10, "bound"), (EMULATOR_DAMAGED, 70, "bound")]);
        assert_eq!(r.loss_ledger.as_ref().unwrap().remainder_packets, 10);
        let found: Vec<_> = r.warnings.iter().map(|w| (w.code.as_str(), w.value)).collect();
        assert_eq!(found, [(CHECKSUM_ERRORS, Some(10.0))]);
        // Without damage by the emulator, the receiver's row stays as it was.
        assert_eq!(table(&damaged(70, 0, 0, 70)), [(DAMAGED, 70, "exact")]);
    }

    #[test]
    fn damaged_copies_and_fragments_make_a_bound() {
        let mut r = record(Direction::Forward, 7);
        let mut copies = emulated(Direction::Forward, [0, 0, 0, 7]);
        copies.used.flows[0].counters.insert("duplicated_packets".into(), 5);
        let counters = [("udp_checksum_errors".to_string(), 7)].into();
        r.remote = Some(Host { counters, ..Host::default() });
        let mut fragments = emulated(Direction::Forward, [0, 0, 0, 7]);
        fragments.later_fragments[3] = 3;
        let mut fragmented = r.clone();
        assert!(attribute(&mut r, copies));
        assert_eq!(table(&r), [(EMULATOR_DAMAGED, 7, "bound")]);
        assert!(attribute(&mut fragmented, fragments));
        let rows = [(EMULATOR_DAMAGED, 7, "bound"), (EMULATOR_DAMAGED, 3, "bound")];
        assert_eq!(table(&fragmented), rows);
    }

    #[test]
    fn the_scope_of_a_link_local_address_is_not_in_its_packets() {
        let mut r = record(Direction::Forward, 3);
        r.flows[0].source = "[fe80::1%2]:7".into();
        r.flows[0].destination = "[fe80::2%2]:9347".into();
        let mut all = emulated(Direction::Forward, [3, 0, 0, 0]);
        all.drops[0].source = "[fe80::1]:7".parse().unwrap();
        all.drops[0].destination = "[fe80::2]:9347".parse().unwrap();
        assert!(attribute(&mut r, all));
        assert_eq!(table(&r), [(EMULATOR_PLANNED, 3, "exact")]);
    }

    #[test]
    fn laws_that_changed_meanwhile_are_a_warning() {
        let mut r = record(Direction::Forward, 0);
        let mut all = emulated(Direction::Forward, [0; 4]);
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
