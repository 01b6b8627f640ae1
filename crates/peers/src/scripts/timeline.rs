//! What the flows of a script send over time.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::plan::TransportName;

use super::refused;

/// Maximum number of flows, and of changes of all flows.
const MAX_PERIODS: usize = 10_000;

/// The times at which messages are sent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Pattern {
    /// None is.
    Silent,
    /// As many as possible.
    Unlimited,
    /// Messages per second at equal intervals.
    Even(f64),
    /// The law of the intervals, and its rate where it has none of its own.
    Law(String, Option<f64>),
    /// The intervals in turn, ns, and after how many messages they end.
    Recorded(Arc<[u64]>, Option<u64>),
}

/// What a flow sends.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Traffic {
    pub(super) transport: TransportName,
    pub(super) host: String,
    pub(super) port: u16,
    /// Absent: chosen by the system.
    pub(super) source_port: Option<u16>,
    /// A size, or a law of sizes.
    pub(super) size: String,
    /// Minimum and maximum size, bytes.
    pub(super) bytes: (u64, u64),
    pub(super) pattern: Pattern,
    pub(super) tos: Option<u8>,
    pub(super) ttl: Option<u8>,
    /// Socket buffer, bytes.
    pub(super) buffer: Option<u64>,
    pub(super) content: Content,
}

/// A time in which a flow sends alike.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Period {
    pub(super) from_ns: u64,
    /// Absent: until the end of the test.
    pub(super) until_ns: Option<u64>,
    /// It ends after this many messages.
    pub(super) limit: Option<u64>,
    pub(super) traffic: Traffic,
    pub(super) line: usize,
}

impl Period {
    /// Messages until `at_ns`, if they are known.
    pub(super) fn messages(&self, at_ns: u64) -> Option<u64> {
        let seconds = at_ns.saturating_sub(self.from_ns) as f64 / 1e9;
        match self.traffic.pattern {
            Pattern::Silent => Some(0),
            // The first one is sent at the beginning.
            Pattern::Even(rate) => Some((seconds * rate - 1e-9).ceil().max(0.0) as u64),
            Pattern::Unlimited | Pattern::Law(..) => None,
            Pattern::Recorded(ref gaps, most) => {
                // Times before the end, of which those of a turn start again after all intervals.
                let Some(last) = at_ns.checked_sub(self.from_ns + 1) else { return Some(0) };
                let turn: u64 = gaps.iter().sum::<u64>().max(1);
                let started = |at: &mut u64, gap: &u64| {
                    let time = *at;
                    *at += gap;
                    Some(time)
                };
                let times = gaps.iter().scan(0, started).filter(|at| *at <= last % turn);
                let sent = (last / turn).saturating_mul(gaps.len() as u64) + times.count() as u64;
                Some(most.map_or(sent, |most| sent.min(most)))
            }
        }
    }

    /// After how many messages it ends, if after any.
    pub(super) fn most(&self) -> Option<u64> {
        let own = match self.traffic.pattern {
            Pattern::Recorded(_, most) => most,
            _ => None,
        };
        self.limit.into_iter().chain(own).min()
    }
}

/// The flows of a script, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    flows: BTreeMap<u32, Vec<Period>>,
    count: usize,
}

impl Timelines {
    pub(super) fn into_flows(self) -> BTreeMap<u32, Vec<Period>> {
        self.flows
    }

    /// The period of a flow that has not ended.
    fn open(&mut self, flow: u32) -> Option<&mut Period> {
        self.flows.get_mut(&flow)?.last_mut().filter(|period| period.until_ns.is_none())
    }

    /// Starts a flow.
    ///
    /// # Errors
    /// It has started, or there are too many.
    pub(super) fn on(&mut self, flow: u32, period: Period) -> Result<(), ModelError> {
        if self.open(flow).is_some() {
            return Err(refused(period.line, "ON", flow.to_string(), "a flow that is off"));
        }
        self.push(flow, period)
    }

    fn push(&mut self, flow: u32, period: Period) -> Result<(), ModelError> {
        self.count += 1;
        if self.count > MAX_PERIODS {
            let accepted = "up to 10000 flows and changes";
            return Err(refused(period.line, "flow", flow.to_string(), accepted));
        }
        self.flows.entry(flow).or_default().push(period);
        Ok(())
    }

    /// Changes what a flow sends. `word`: what says so.
    ///
    /// # Errors
    /// The flow is off, or it is unknown how many messages of its limit are left.
    pub(super) fn change(
        &mut self,
        (flow, at_ns): (u32, u64),
        (line, word): (usize, &str),
        change: impl FnOnce(&mut Period),
    ) -> Result<(), ModelError> {
        let Some(period) = self.open(flow) else {
            return Err(refused(line, word, flow.to_string(), "a flow that is on"));
        };
        let mut next = Period { from_ns: at_ns, line, ..period.clone() };
        change(&mut next);
        let is_limited_anew = next.limit != period.limit;
        if let Some(limit) = period.limit {
            let sent = period.messages(at_ns);
            match sent.map(|sent| limit.saturating_sub(sent)) {
                _ if is_limited_anew => {}
                None => {
                    let accepted = "PERIODIC where a COUNT from before it applies";
                    return Err(refused(line, word, flow.to_string(), accepted));
                }
                Some(0) => {
                    let accepted = "a flow whose COUNT messages have not been sent";
                    return Err(refused(line, word, flow.to_string(), accepted));
                }
                left => next.limit = left,
            }
        }
        period.until_ns = Some(at_ns);
        self.push(flow, next)
    }

    /// Ends a flow. `word`: what says so.
    ///
    /// # Errors
    /// It is off.
    pub(super) fn off(
        &mut self,
        (flow, at_ns): (u32, u64),
        (line, word): (usize, &str),
    ) -> Result<(), ModelError> {
        match self.open(flow) {
            Some(period) => period.until_ns = Some(at_ns),
            None => return Err(refused(line, word, flow.to_string(), "a flow that is on")),
        }
        Ok(())
    }
}
