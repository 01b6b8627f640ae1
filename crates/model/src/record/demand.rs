//! Service demand: CPU time for a unit of work, as in netperf.

use super::{DirectionTotal, Record};

/// An end, from the point of view of the record's host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// This host.
    Local,
    /// The other one.
    Remote,
}

/// CPU time for a unit of work, seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ServiceDemand {
    /// For 1024 bytes of payload that arrived, both directions together.
    Kib(f64),
    /// For a completed transaction.
    Transaction(f64),
}

impl Record {
    /// Time that all processors of a host were busy (user, kernel, interrupts) for each KiB that arrived, or for each transaction.
    ///
    /// `None` if both ends run under one kernel, whose processors work for both, and for a test of streams and transactions.
    #[must_use]
    pub fn service_demand(&self, side: Side) -> Option<ServiceDemand> {
        let cpu = self.cpu.as_ref()?;
        let (cpu, host) = match side {
            Side::Local => (cpu.local.as_ref()?, self.local.as_ref()?),
            Side::Remote => (cpu.remote.as_ref()?, self.remote.as_ref()?),
        };
        if self.is_one_host() {
            return None;
        }
        let busy = cpu.user_ratio + cpu.system_ratio + cpu.irq_ratio;
        let busy_processors = busy * f64::from(host.cpu.cores);
        if self.flows.iter().all(|flow| flow.transactions.is_none()) {
            let rate = |total: &DirectionTotal| total.receiver.as_ref()?.bits_per_second;
            let totals = [&self.total.forward, &self.total.reverse].into_iter().flatten();
            let per_second = sum(totals.map(rate))? / 8.0 / 1024.0;
            return Some(ServiceDemand::Kib(busy_processors / per_second));
        }
        let rate = |flow: &super::Flow| flow.transactions.as_ref()?.transactions_per_second;
        let per_second = sum(self.flows.iter().map(rate))?;
        Some(ServiceDemand::Transaction(busy_processors / per_second))
    }
}

/// The sum of rates that are all known; `None` if there is none, or nothing happened.
fn sum(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let rates: Option<Vec<f64>> = rates.collect();
    Some(rates?.into_iter().fold(0.0, |sum, rate| sum + rate)).filter(|sum| *sum > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{
        ClockRelation, CpuEnd, CpuFacts, CpuUse, Flow, Host, Sums, Totals, Transactions,
    };

    fn record() -> Record {
        let end =
            CpuEnd { user_ratio: 0.125, system_ratio: 0.25, irq_ratio: 0.125, ..CpuEnd::default() };
        let host = Host { cpu: CpuFacts { cores: 4, ..CpuFacts::default() }, ..Host::default() };
        let receiver = Sums { bits_per_second: Some(8.0 * 1024.0 * 1000.0), ..Sums::default() };
        let total = DirectionTotal { receiver: Some(receiver), sender: None };
        Record {
            cpu: Some(CpuUse { local: Some(end), remote: None }),
            local: Some(host),
            total: Totals { forward: Some(total), reverse: None },
            flows: vec![Flow::default()],
            ..Record::default()
        }
    }

    fn transactions(per_second: f64) -> Flow {
        let transactions =
            Transactions { transactions_per_second: Some(per_second), ..Transactions::default() };
        Flow { transactions: Some(transactions), ..Flow::default() }
    }

    #[test]
    fn busy_processors_are_divided_by_the_work_of_a_second() {
        let mut record = record();
        // Two of four processors are busy, 1000 KiB/s arrive.
        assert_eq!(record.service_demand(Side::Local), Some(ServiceDemand::Kib(0.002)));
        record.total.reverse.clone_from(&record.total.forward);
        assert_eq!(record.service_demand(Side::Local), Some(ServiceDemand::Kib(0.001)));
        record.flows = vec![transactions(100.0), transactions(300.0)];
        assert_eq!(record.service_demand(Side::Local), Some(ServiceDemand::Transaction(0.005)));
    }

    #[test]
    fn what_is_not_one_ends_work_alone_has_none() {
        let record = record();
        assert_eq!(record.service_demand(Side::Remote), None);
        let clock = ClockRelation { method: "shared".into(), ..ClockRelation::default() };
        let one_host = Record { clock: Some(clock), ..record.clone() };
        assert_eq!(one_host.service_demand(Side::Local), None);
        let both = Record { flows: vec![Flow::default(), transactions(1.0)], ..record.clone() };
        assert_eq!(both.service_demand(Side::Local), None);
        let idle = Record { total: Totals::default(), ..record };
        assert_eq!(idle.service_demand(Side::Local), None);
    }
}
