//! The loss ledger: every missing packet is placed, or shown as remainder.

use crate::error::StatsError;

/// How much a row of the ledger can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LedgerKind {
    /// Packets of this flow, one by one.
    Exact,
    /// A counter that may miss packets of ours (one drop per merged buffer) or count others' (one for the machine).
    Bound,
}

/// Packets lost at one stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerRow {
    /// Where: application, qdisc, card, emulator, path, softnet, socket, late.
    pub stage: String,
    /// Packets, as the source counts them.
    pub packets: u64,
    /// The counter it was read from.
    pub source: String,
    /// Exact or a bound.
    pub kind: LedgerKind,
}

/// All rows of a flow and direction, in the order of the path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LossLedger {
    rows: Vec<LedgerRow>,
}

/// The ledger's sums: `exact + bound + remainder` is what is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LedgerBalance {
    /// Packets missing: sent − received.
    pub missing: u64,
    /// Placed by exact rows.
    pub exact: u64,
    /// Placed by bounds: their sum, but not more than the exact rows left over.
    pub bound: u64,
    /// Placed nowhere.
    pub remainder: u64,
}

impl LossLedger {
    /// An empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row.
    pub fn add(&mut self, row: LedgerRow) {
        self.rows.push(row);
    }

    /// The rows.
    pub fn rows(&self) -> &[LedgerRow] {
        &self.rows
    }

    /// Balances the rows against the packets that are missing.
    ///
    /// # Errors
    /// [`StatsError::Overplaced`] when the exact rows exceed what is missing: one of the sources is wrong, or copies
    /// hid a loss.
    pub fn balance(&self, missing: u64) -> Result<LedgerBalance, StatsError> {
        let sum = |kind: LedgerKind| {
            let rows = self.rows.iter().filter(|row| row.kind == kind);
            rows.fold(0u64, |sum, row| sum.saturating_add(row.packets))
        };
        let exact = sum(LedgerKind::Exact);
        let left =
            missing.checked_sub(exact).ok_or(StatsError::Overplaced { placed: exact, missing })?;
        let bound = sum(LedgerKind::Bound).min(left);
        Ok(LedgerBalance { missing, exact, bound, remainder: left - bound })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(packets: u64, kind: LedgerKind) -> LedgerRow {
        LedgerRow { stage: "socket".into(), packets, source: "SO_RXQ_OVFL".into(), kind }
    }

    #[test]
    fn sums_are_conserved() {
        let mut ledger = LossLedger::new();
        ledger.add(row(30, LedgerKind::Exact));
        ledger.add(row(20, LedgerKind::Bound));
        let balance = ledger.balance(100).unwrap();
        assert_eq!((balance.exact, balance.bound, balance.remainder), (30, 20, 50));
        // A bound of the whole machine can't place more than is missing.
        let balance = ledger.balance(35).unwrap();
        assert_eq!((balance.exact, balance.bound, balance.remainder), (30, 5, 0));
        assert_eq!(ledger.balance(29), Err(StatsError::Overplaced { placed: 30, missing: 29 }));
        ledger.add(row(u64::MAX, LedgerKind::Bound));
        assert_eq!(ledger.balance(u64::MAX).unwrap().remainder, 0);
    }
}
