//! A metric over several flows.

use super::{Better, Definition, End, Fold, Read, Statistic};
use crate::plan::Direction;
use crate::record::{Flow, Record, Sums};

/// The sum over flows; absent if there are none or one has no value.
fn sum(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().reduce(|a, b| Some(a? + b?)).flatten()
}

/// The maximum over flows; absent if there are none or one has no value.
pub fn largest(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The minimum over flows; absent if there are none or one has no value.
fn smallest(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    values.into_iter().reduce(|a, b| Some(a?.min(b?))).flatten()
}

impl Definition {
    /// The value over the flows of one direction or both, in its SI unit; absent if the record does not have
    /// it. `statistic` selects a statistic of a distribution, by default the mean.
    #[must_use]
    pub fn of(
        &self,
        record: &Record,
        direction: Option<Direction>,
        statistic: Option<Statistic>,
    ) -> Option<f64> {
        let statistic = statistic.unwrap_or(Statistic::Mean);
        match self.read {
            Read::Run(get) => get(record),
            Read::RunDelay(get) => statistic.of(get(record)?),
            Read::Flow(_, Fold::Total(get)) => self.of_totals(record, direction, get),
            Read::Flow(..) | Read::Flows(..) => {
                self.of_flows(self.ends(record, direction), Some(statistic))
            }
        }
    }

    /// The flows of one direction or both whose ends have values of their own: one sender may have several receivers, which
    /// are flows of their own.
    fn ends<'a>(
        &self,
        record: &'a Record,
        direction: Option<Direction>,
    ) -> impl Iterator<Item = &'a Flow> + use<'a> {
        let copies = match self.end {
            End::Sender => record.sender_copies(),
            _ => vec![],
        };
        let flows = record.flows.iter().filter(move |f| copies.binary_search(&f.id).is_err());
        flows.filter(move |f| direction.is_none_or(|d| f.direction == d))
    }

    /// The value over concurrent tests, of their values: the sum of an additive one, else the worst.
    #[must_use]
    pub(crate) fn over_tests(
        &self,
        statistic: Option<Statistic>,
        values: impl Iterator<Item = Option<f64>>,
    ) -> Option<f64> {
        let is_smallest_worst = self.better == Better::Higher;
        match statistic {
            _ if self.adds_up() => sum(values),
            Some(Statistic::Min) => smallest(values),
            _ if is_smallest_worst => smallest(values),
            _ => largest(values),
        }
    }

    /// Whether its values of concurrent tests add up.
    #[must_use]
    pub(crate) fn adds_up(&self) -> bool {
        self.is_additive || matches!(self.read, Read::Flow(_, Fold::Sum | Fold::Total(_)))
    }

    /// The value over these flows.
    #[must_use]
    pub fn of_flows<'a>(
        &self,
        flows: impl Iterator<Item = &'a Flow>,
        statistic: Option<Statistic>,
    ) -> Option<f64> {
        let statistic = statistic.unwrap_or(Statistic::Mean);
        let flows: Vec<&Flow> = flows.filter(|f| self.is_of(f)).collect();
        // It is unknown whether packets that only a missing report would show were lost.
        if self.needs_both_ends && flows.iter().any(|f| f.peer_report_missing()) {
            return None;
        }
        match self.read {
            Read::Flow(get, fold) => {
                let each = flows.iter().map(|f| get(f));
                match fold {
                    Fold::Sum | Fold::Total(_) => sum(each),
                    Fold::Largest => largest(each),
                    Fold::Smallest => smallest(each),
                    Fold::Quotient(parts) => {
                        let parts: Option<Vec<(f64, f64)>> =
                            flows.iter().map(|f| parts(f)).collect();
                        let (part, whole) = parts?
                            .into_iter()
                            .fold((0.0, 0.0), |(a, b), (part, whole)| (a + part, b + whole));
                        (whole > 0.0).then(|| part / whole)
                    }
                }
            }
            Read::Flows(get, mean) => {
                let values = flows.iter().map(|f| match get(f) {
                    Some(delay) => statistic.of(delay),
                    None => mean(f).filter(|_| statistic == Statistic::Mean),
                });
                match statistic {
                    Statistic::Min => smallest(values),
                    _ => largest(values),
                }
            }
            Read::Run(_) | Read::RunDelay(_) => None,
        }
    }

    /// From the record's own sums; absent if an end of a flow did not report.
    fn of_totals(
        &self,
        record: &Record,
        only: Option<Direction>,
        get: fn(&Sums) -> Option<f64>,
    ) -> Option<f64> {
        let directions = [Direction::Forward, Direction::Reverse]
            .into_iter()
            .filter(|d| only.is_none_or(|only| only == *d));
        let is_sender = self.end == End::Sender;
        let is_whole = self.ends(record, only).all(|f| match is_sender {
            true => f.sender.is_some(),
            false => f.receiver.is_some(),
        });
        if !is_whole {
            return None;
        }
        sum(directions.filter_map(|d| record.direction(d)).map(|total| {
            let sums = if is_sender { &total.sender } else { &total.receiver };
            sums.as_ref().and_then(get)
        }))
    }

    /// The reason for a missing percentile if the record has too few samples for it, else `None`.
    #[must_use]
    pub(crate) fn shortage<'a>(
        &self,
        record: &Record,
        flows: impl Iterator<Item = &'a Flow>,
        statistic: Option<Statistic>,
    ) -> Option<String> {
        let statistic = if self.is_p99 { Statistic::P99 } else { statistic? };
        let needed = statistic.min_samples()?;
        let (count, samples) = match self.read {
            Read::RunDelay(get) => (get(record)?.count, "answered probes"),
            Read::Flows(get, _) => (flows.filter_map(|f| Some(get(f)?.count)).min()?, "packets"),
            Read::Flow(..) => {
                let delays = flows.filter_map(|f| f.receiver.as_ref()?.one_way_delay.as_ref());
                (delays.map(|d| d.count).min()?, "packets")
            }
            Read::Run(_) => return None,
        };
        let name = statistic.name();
        (count < needed).then(|| format!("{name} needs {needed} {samples}; there were {count}"))
    }
}
