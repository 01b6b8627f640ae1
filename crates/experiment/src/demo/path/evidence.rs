//! The evidence of a row: both ends' figures, the emulator's packet trace and the receiver's log, from real hosts or
//! simulated.

use std::collections::{BTreeMap, BTreeSet};

use weir_impair::Disposition;
use weir_laws::Direction as Way;
use weir_model::impairment::{Checksum, Impairment};
use weir_model::plan::Direction;
use weir_model::record::Record;
use weir_sim::{Ingress, SimError, Simulation, predict};
use weir_wire::packets::{self, Judged, RecordKind};

use super::cases::PathCase;
use crate::triangulation::{Subject, Triangulation, triangulate};

/// All evidence of a row's run.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// Both ends' figures.
    pub record: Record,
    /// The emulator's packet trace, both directions, all flows.
    pub packet_trace: Vec<(packets::Record, Judged)>,
    /// Names of the emulator's flows by their number in the packet trace.
    pub emulator_flows: BTreeMap<u32, String>,
    /// The receivers' packet logs.
    pub received: Vec<packets::Record>,
    /// Clock of the side that ran the test minus the other's, ns.
    pub clock_offset_ns: i64,
    /// Packets that the emulator's links lost before any law applied, forward and reverse.
    pub link_dropped: [u64; 2],
}

/// Runs a case on the virtual clock.
///
/// # Errors
/// [`SimError`], for a case that can't be simulated.
pub fn simulate(case: &PathCase) -> Result<Evidence, SimError> {
    let outcome = Simulation {
        plan: case.plan.clone(),
        impairment: case.impairment.clone(),
        before_ns: 0,
        after_ns: 0,
    }
    .run()?;
    Ok(Evidence {
        record: outcome.record,
        packet_trace: outcome.packet_trace,
        emulator_flows: outcome.counters.into_iter().map(|c| (c.number, c.name)).collect(),
        received: outcome.received,
        clock_offset_ns: 0,
        link_dropped: [0; 2],
    }
    .placed(&case.impairment))
}

pub(super) const fn way(direction: Direction) -> Way {
    match direction {
        Direction::Forward => Way::Forward,
        Direction::Reverse => Way::Reverse,
    }
}

impl Evidence {
    /// Packet trace, log and count of one flow of the test, joined packet by packet.
    #[must_use]
    pub(crate) fn triangulation(
        &self,
        flow: u32,
        impairment: &Impairment,
    ) -> Option<Triangulation> {
        let found = self.record.flows.iter().find(|f| f.id == flow)?;
        let subject = Subject {
            flow,
            direction: found.direction,
            sent: found.sender.as_ref()?.packets,
            damaged_are_dropped: damaged_are_dropped(impairment, found.direction),
        };
        let offset = match found.direction {
            Direction::Forward => self.clock_offset_ns,
            Direction::Reverse => -self.clock_offset_ns,
        };
        Some(triangulate(
            &subject,
            self.packet_trace.iter().copied(),
            self.received.iter().copied(),
            offset,
        ))
    }

    /// The prediction: what the laws do with all packets that arrived at a flow of the emulator in one direction.
    /// Delays and drops are those of one `flow` of the test, dispositions those of all.
    ///
    /// # Errors
    /// As text: the packet trace is incomplete, or the impairment can't be predicted.
    pub(crate) fn prediction(
        &self,
        impairment: &Impairment,
        emulator_flow: &str,
        flow: u32,
        direction: Direction,
    ) -> Result<Prediction, String> {
        let ours = |record: &packets::Record| {
            record.direction == u8::from(direction == Direction::Reverse)
                && self.emulator_flows.get(&record.flow).is_some_and(|name| name == emulator_flow)
        };
        let mut ingress = BTreeMap::new();
        let mut happened = BTreeMap::new();
        let mut own = BTreeSet::new();
        for (record, judged) in self.packet_trace.iter().filter(|(record, _)| ours(record)) {
            let at_ns = record.time1_ns.ok_or("a packet trace without arrival times")?;
            let is_control = record.flags & packets::FLAG_CONTROL != 0;
            let packet = Ingress { at_ns, length_bytes: record.size_bytes, is_control };
            ingress.insert(record.sequence, packet);
            happened.insert((record.sequence, record.copy), (record.kind, judged.asked_ns));
            if judged.native_sequence.is_some() && judged.native_flow == flow {
                own.insert(record.sequence);
            }
        }
        // Packet k draws the numbers of index k: if one is missing, all later ones would be shifted.
        if ingress.keys().next_back().is_some_and(|last| *last + 1 != ingress.len() as u64) {
            return Err("the packet trace is incomplete".into());
        }
        let packets = ingress.len() as u64;
        let arrivals: Vec<u64> = ingress.values().map(|i| i.at_ns).collect();
        let dispositions =
            predict(impairment, emulator_flow, way(direction), ingress.into_values())
                .map_err(|e| e.to_string())?;
        Ok(compare(packets, &arrivals, &dispositions, &happened, &own))
    }
}

/// Whether the receiving stack drops packets that content laws change.
pub(super) fn damaged_are_dropped(impairment: &Impairment, direction: Direction) -> bool {
    let laws = impairment.flows.iter().map(|f| f.laws(direction));
    let mut contents =
        laws.chain([impairment.other.laws(direction)]).filter_map(|laws| laws.content);
    contents.any(|content| content.checksum != Checksum::Repair)
}

/// Comparison of the prediction for a flow of the emulator with its packet trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Prediction {
    /// Packets that came.
    pub packets: u64,
    /// Dispositions, copies included, that match: the same kind, planned to leave at the same nanosecond.
    pub matched: u64,
    /// Dispositions that do not.
    pub differing: u64,
    /// Of those, packets that left as predicted, but at another time.
    pub differing_times: u64,
    /// Predicted delays of the flow's own packets, ns, ascending.
    pub delays_ns: Vec<i64>,
    /// Predicted drops of the planned queue among them.
    pub queue_dropped: u64,
}

fn compare(
    packets: u64,
    arrivals: &[u64],
    dispositions: &[Disposition],
    happened: &BTreeMap<(u64, u16), (RecordKind, Option<u64>)>,
    own: &BTreeSet<u64>,
) -> Prediction {
    let mut out = Prediction { packets, ..Prediction::default() };
    for disposition in dispositions {
        let Some(kind) = disposition.verdict.kind() else { continue };
        let leaves = kind == RecordKind::FORWARDED;
        let is_own = own.contains(&disposition.index);
        if leaves
            && is_own
            && let Some(arrived) = arrivals.get(disposition.index as usize)
        {
            out.delays_ns.push(disposition.at_ns.wrapping_sub(*arrived) as i64);
        }
        out.queue_dropped += u64::from(is_own && kind == RecordKind::QUEUE_DROPPED);
        let expected = (kind, leaves.then_some(disposition.at_ns));
        match happened.get(&(disposition.index, disposition.copy.into())) {
            Some(found) if *found == expected => out.matched += 1,
            Some((found, _)) if *found == kind => {
                out.differing += 1;
                out.differing_times += 1;
            }
            _ => out.differing += 1,
        }
    }
    // Dispositions that were not predicted at all.
    out.differing += (happened.len() as u64).saturating_sub(out.matched + out.differing);
    out.delays_ns.sort_unstable();
    out
}
