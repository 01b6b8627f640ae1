//! The emulator's part of the loss ledger: the packet trace accounts for planned drops, so that unplanned ones stand
//! out.

use weir_model::impairment::Impairment;
use weir_model::plan::Direction;
use weir_model::record::LedgerRow;
use weir_model::record::stage::{
    DAMAGED, EMULATOR_DAMAGED, EMULATOR_LINKS as LINKS, EMULATOR_PLANNED as PLANNED,
    EMULATOR_QUEUE as QUEUE, EMULATOR_UNPLANNED as UNPLANNED,
};

use super::evidence::{Evidence, damaged_are_dropped};

impl Evidence {
    /// Adds the losses that packet trace and packet log account for to the record's ledger.
    #[must_use]
    pub(super) fn placed(mut self, impairment: &Impairment) -> Self {
        let Some(mut ledger) = self.record.loss_ledger.take() else { return self };
        for flow in self.record.flows.iter().filter(|f| f.transport.datagrams()) {
            let (id, direction) = (flow.id, flow.direction);
            let Some(t) = self.triangulation(id, impairment) else { continue };
            let is_dropped = damaged_are_dropped(impairment, direction);
            let side = match direction {
                Direction::Forward => "remote",
                Direction::Reverse => "local",
            };
            if is_dropped {
                // The packet trace knows each packet that the kernel dropped for its checksum.
                let mut left = t.modified;
                for row in ledger
                    .rows
                    .iter_mut()
                    .filter(|row| row.stage == DAMAGED && row.side.as_deref() == Some(side))
                {
                    let by_checksum = row.packets.min(left);
                    row.packets -= by_checksum;
                    left -= by_checksum;
                }
            }
            for (stage, packets, source) in [
                (PLANNED, t.lost, "packet trace: loss law"),
                (QUEUE, t.queue_dropped, "packet trace: queue"),
                (
                    EMULATOR_DAMAGED,
                    if is_dropped { t.modified } else { 0 },
                    "packet trace: content law",
                ),
                (UNPLANNED, t.unplanned, "packet trace"),
            ] {
                if packets > 0 {
                    ledger.rows.push(LedgerRow {
                        stage: stage.into(),
                        packets,
                        source: format!("{source} (flow {id})"),
                        kind: "exact".into(),
                        side: None,
                    });
                }
            }
        }
        // Control messages and probes cross the same links.
        for (packets, direction) in self.link_dropped.into_iter().zip(["A to B", "B to A"]) {
            ledger.rows.push(LedgerRow {
                stage: LINKS.into(),
                packets,
                source: format!("counters of the links, {direction}"),
                kind: "bound".into(),
                side: None,
            });
        }
        ledger.rows.retain(|row| row.packets > 0);
        ledger.settle();
        self.record.loss_ledger = Some(ledger);
        self
    }
}

#[cfg(test)]
mod tests {
    use weir_model::record::stage::DAMAGED_HEADER;
    use weir_wire::packets::RecordKind;

    use super::*;
    use crate::demo::path::{cases, simulate};

    fn evidence(name: &str) -> (Impairment, Evidence) {
        let case = cases(1).unwrap().into_iter().find(|case| case.name == name).unwrap();
        (case.impairment.clone(), simulate(&case).unwrap())
    }

    #[test]
    fn planned_drops_are_placed_and_nothing_remains() {
        for (name, stage, source) in [
            ("loss", PLANNED, "packet trace: loss law (flow 1)"),
            ("rate", QUEUE, "packet trace: queue (flow 1)"),
            ("damage, checksums left", EMULATOR_DAMAGED, "packet trace: content law (flow 1)"),
            // It arrives: the receiver accounts for what it could not read.
            ("damage, checksums repaired", DAMAGED_HEADER, "tag or size (flow 1)"),
        ] {
            let ledger = evidence(name).1.record.loss_ledger.unwrap();
            let [row] = &ledger.rows[..] else { panic!("{name}: {ledger:?}") };
            assert_eq!((row.stage.as_str(), row.source.as_str()), (stage, source));
            assert_eq!(row.packets as i64, ledger.missing_packets, "{name}");
            assert_eq!((row.kind.as_str(), ledger.remainder_packets), ("exact", 0));
        }
        assert!(evidence("clean baseline").1.record.loss_ledger.unwrap().rows.is_empty());
    }

    #[test]
    fn what_is_lost_unplanned_stands_apart() {
        let (impairment, mut evidence) = evidence("loss");
        let lost =
            evidence.packet_trace.iter_mut().find(|(r, _)| r.kind == RecordKind::LOST).unwrap();
        lost.0.kind = RecordKind::UNPLANNED;
        evidence.record.loss_ledger.as_mut().unwrap().rows.clear();
        let ledger = evidence.placed(&impairment).record.loss_ledger.unwrap();
        let rows: Vec<_> = ledger.rows.iter().map(|r| (r.stage.as_str(), r.packets)).collect();
        let planned = ledger.missing_packets as u64 - 1;
        assert_eq!(rows, [(PLANNED, planned), (UNPLANNED, 1)]);
        assert_eq!(ledger.remainder_packets, 0);
    }

    #[test]
    fn a_wrong_checksum_is_placed_once() {
        let (impairment, mut evidence) = evidence("damage, checksums left");
        let ledger = evidence.record.loss_ledger.as_mut().unwrap();
        let damaged = ledger.rows[0].packets;
        let row = |stage: &str, packets, source: &str| LedgerRow {
            stage: stage.into(),
            packets,
            source: source.into(),
            kind: "exact".into(),
            side: Some("remote".into()),
        };
        ledger.rows = vec![
            row("socket overflow", 3, "SK_MEMINFO drops less checksum errors (flow 1)"),
            row(DAMAGED, damaged, "UDP InCsumErrors"),
        ];
        ledger.missing_packets += 3;
        let ledger = evidence.placed(&impairment).record.loss_ledger.unwrap();
        let rows: Vec<_> = ledger.rows.iter().map(|r| (r.stage.as_str(), r.packets)).collect();
        assert_eq!(rows, [("socket overflow", 3), (EMULATOR_DAMAGED, damaged)]);
        assert_eq!(ledger.remainder_packets, 0);
    }

    #[test]
    fn what_the_emulators_links_lost_is_placed() {
        let (impairment, mut evidence) = evidence("clean baseline");
        evidence.link_dropped = [5, 0];
        let ledger = evidence.record.loss_ledger.as_mut().unwrap();
        ledger.missing_packets += 3;
        let ledger = evidence.placed(&impairment).record.loss_ledger.unwrap();
        assert_eq!(ledger.remainder_packets, 0, "{ledger:?}");
        let row = ledger.rows.iter().find(|row| row.stage == LINKS).unwrap();
        assert_eq!((row.packets, row.kind.as_str()), (5, "bound"));
    }
}
