//! The path between the ends: the loss ledger, the emulator, and the comparison of both.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;
use crate::plan::Direction;

record! {
    /// The loss ledger: where each missing packet was lost. Sums are conserved.
    LossLedger {
        /// The places.
        rows: Vec<LedgerRow>,
        /// Missing packets without a known place.
        remainder_packets: i64,
        /// Sent − received, the sum of the rows and the remainder.
        missing_packets: i64,
    }
}

impl LossLedger {
    /// Recomputes the remainder from the missing packets and the rows. Exact rows count in full. A row that
    /// is a bound may include other traffic, or count fewer buffers than datagrams, and accounts for at most
    /// the rest.
    pub fn settle(&mut self) {
        let sum = |kind: &str| {
            let rows = self.rows.iter().filter(|r| r.kind == kind);
            // Some of these counts are from the peer and may be arbitrary.
            let packets = rows.fold(0u64, |sum, r| sum.saturating_add(r.packets));
            i64::try_from(packets).unwrap_or(i64::MAX)
        };
        let left = self.missing_packets.saturating_sub(sum("exact"));
        self.remainder_packets = if left > 0 { left - sum("bound").min(left) } else { left };
    }
}

record! {
    /// One place where packets were lost.
    LedgerRow {
        /// `qdisc`, `card tx`, `interface queue full`, `emulator planned`, `emulator damaged`, `damaged on the path`, `card rx`, `softnet`,
        /// `socket overflow`, `late`, `damaged header`, …
        stage: String,
        /// Packets.
        packets: u64,
        /// The counter that it is from.
        source: String,
        /// `exact` or `bound`.
        kind: String,
        /// Which side: `local` or `remote`.
        #[serde(skip_serializing_if = "Option::is_none")]
        side: Option<String>,
    }
}

record! {
    /// An emulator's part in a run.
    ImpairmentUse {
        /// The configuration at the end of the run, with its seed.
        config: Impairment,
        /// Changes of the configuration during the run; absent if there were none.
        #[serde(skip_serializing_if = "Option::is_none")]
        changes: Option<u64>,
        /// The client's side of the emulator: `a` (the run's forward direction is A to B) or `b`; absent if
        /// unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        client_side: Option<String>,
        /// Processor time of its two threads during the run, set-up and end included.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu_seconds: Option<f64>,
        /// Counters of its flows during the run, by direction.
        flows: Vec<ImpairedFlow>,
    }
}

impl ImpairmentUse {
    /// The run's direction for a direction of the emulator; absent if the client's side is unknown.
    #[must_use]
    pub fn direction_of_run(&self, of_emulator: Direction) -> Option<Direction> {
        match self.client_side.as_deref() {
            Some("a") => Some(of_emulator),
            Some("b") => Some(of_emulator.opposite()),
            _ => None,
        }
    }
}

record! {
    /// One flow of an emulator in one direction.
    ImpairedFlow {
        /// Name; `other` for packets that no filter matched.
        name: String,
        /// `forward` is A to B.
        direction: Direction,
        /// `received_packets`, `lost_packets`, `queue_dropped_packets`, `unplanned_dropped_packets` and the like.
        counters: BTreeMap<String, u64>,
        /// Its laws in one line.
        asked: String,
        /// Actual ratios and delays; the names end in the unit.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        realised: BTreeMap<String, f64>,
        /// Departure − deadline.
        #[serde(skip_serializing_if = "Option::is_none")]
        lateness: Option<Lateness>,
    }
}

record! {
    /// Lateness of an emulator's packets.
    Lateness {
        /// Packets.
        count: u64,
        /// Median; absent with few packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        p50_seconds: Option<f64>,
        /// 99th percentile; absent with few packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_seconds: Option<f64>,
        /// Maximum.
        max_seconds: f64,
    }
}

record! {
    /// Comparison, packet by packet, of the prediction, the emulator's record and the receiver's record.
    Triangulation {
        /// Packets on whose disposition the emulator and the receiver agree.
        matched_packets: u64,
        /// Packets on whose disposition they disagree.
        disagreeing_packets: u64,
        /// Dispositions, including copies, that match the prediction from laws, seed and arrival times at the
        /// emulator.
        predicted_dispositions: u64,
        /// Dispositions that differ from the prediction.
        unpredicted_dispositions: u64,
        /// Measured delay − the emulator's delay: the error of Weir and the hosts. It may be negative, since
        /// the emulator reads the departure time after the kernel took the frame.
        #[serde(skip_serializing_if = "Option::is_none")]
        residual: Option<Residual>,
    }
}

record! {
    /// Distribution of a difference of delays.
    Residual {
        /// Packets.
        count: u64,
        /// Minimum.
        min_seconds: f64,
        /// Median.
        p50_seconds: f64,
        /// 99th percentile, nearest rank.
        p99_seconds: f64,
        /// Maximum.
        max_seconds: f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_counts_do_not_overflow() {
        let row = || LedgerRow { packets: u64::MAX, kind: "exact".into(), ..LedgerRow::default() };
        let mut ledger =
            LossLedger { missing_packets: -5, rows: vec![row(), row()], ..LossLedger::default() };
        ledger.settle();
        assert_eq!(ledger.remainder_packets, (-5i64).saturating_sub(i64::MAX));
    }
}
