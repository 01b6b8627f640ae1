//! What happened between the ends: the loss ledger, the emulator in the middle, the join of the two.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::impairment::Impairment;
use crate::plan::Direction;

record! {
    /// Every missing packet placed; sums are conserved.
    LossLedger {
        /// The places.
        rows: Vec<LedgerRow>,
        /// What could not be placed.
        remainder_packets: i64,
        /// Sent less received: what the rows and the remainder add up to.
        missing_packets: i64,
    }
}

impl LossLedger {
    /// Computes the remainder again from what is missing and the rows: all that is counted exactly is placed; a bound may
    /// count other traffic, or fewer buffers than datagrams, and explains at most what is left.
    pub fn settle(&mut self) {
        let sum = |kind: &str| {
            let rows = self.rows.iter().filter(|r| r.kind == kind);
            // The peer reports some of these counts: they may be any number.
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
        /// `qdisc`, `card tx`, `emulator planned`, `emulator damaged`, `damaged on the path`, `card rx`, `softnet`,
        /// `socket overflow`, `late`, `damaged header`, …
        stage: String,
        /// Packets.
        packets: u64,
        /// The counter that tells it.
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
        /// The configuration with its seed: the one in force when the run ended.
        config: Impairment,
        /// Configurations that came into force during the run and differ from the one before; absent for none.
        #[serde(skip_serializing_if = "Option::is_none")]
        changes: Option<u64>,
        /// The side of the emulator that the client is on: `a`, so that the run's forward direction is A to B, or `b`; absent
        /// where that is unknown.
        #[serde(skip_serializing_if = "Option::is_none")]
        client_side: Option<String>,
        /// What each of its flows counted during the run, in each direction.
        flows: Vec<ImpairedFlow>,
    }
}

impl ImpairmentUse {
    /// The run's direction of packets in a direction of the emulator; absent where the client's side is unknown.
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
        /// Name; `other` for what no filter matched.
        name: String,
        /// `forward` is A to B.
        direction: Direction,
        /// `received_packets`, `lost_packets`, `queue_dropped_packets`, `unplanned_dropped_packets` and the like.
        counters: BTreeMap<String, u64>,
        /// Its laws in one line.
        asked: String,
        /// Shares and delays as they came out, by names that end in their unit.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        realised: BTreeMap<String, f64>,
        /// Departure less deadline.
        #[serde(skip_serializing_if = "Option::is_none")]
        lateness: Option<Lateness>,
    }
}

record! {
    /// How late an emulator's packets left.
    Lateness {
        /// Packets.
        count: u64,
        /// Median; absent with few packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        p50_seconds: Option<f64>,
        /// 99th percentile; absent with few packets.
        #[serde(skip_serializing_if = "Option::is_none")]
        p99_seconds: Option<f64>,
        /// Largest.
        max_seconds: f64,
    }
}

record! {
    /// Three opinions on each packet: what was asked, what an emulator did, what the receiver saw.
    Triangulation {
        /// Packets on whose disposition emulator and receiver agree.
        matched_packets: u64,
        /// Packets on whose disposition they do not.
        disagreeing_packets: u64,
        /// Dispositions, copies included, that are as predicted from laws, seed and times of entry.
        predicted_dispositions: u64,
        /// Dispositions that are not.
        unpredicted_dispositions: u64,
        /// Measured delay less the emulator's: the error of tool and hosts. An emulator's time of departure is read after
        /// the kernel took the frame, so that it may be negative.
        #[serde(skip_serializing_if = "Option::is_none")]
        residual: Option<Residual>,
    }
}

record! {
    /// Distribution of a difference of delays.
    Residual {
        /// Packets.
        count: u64,
        /// Least.
        min_seconds: f64,
        /// Median.
        p50_seconds: f64,
        /// 99th percentile, nearest rank.
        p99_seconds: f64,
        /// Greatest.
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
