//! The requested configuration of a running emulator, its changes, and when each was applied.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use weir_impair::{ImpairError, Names};
use weir_model::impairment::{Impairment, Laws, OTHER, Other};
use weir_model::units::Seed;

use crate::direction::Applied;
use crate::error::EmulatorError;
use crate::lateness::seconds;
use crate::report::AppliedConfiguration;

/// The requested configuration.
pub(crate) struct Wanted {
    pub(crate) config: Arc<Impairment>,
    /// Flows whose laws are stopped by command.
    pub(crate) stopped: BTreeSet<String>,
    /// All flow names that the directions know.
    pub(crate) names: Names,
    /// The most hops of a configuration so far: the directions have that many.
    pub(crate) hops: u8,
    /// Number of the next configuration; none is used twice.
    pub(crate) next: u64,
    pub(crate) applied: Vec<AppliedConfiguration>,
    /// Configurations not yet confirmed by all workers.
    pub(crate) pending: Vec<PendingConfiguration>,
}

/// A configuration that was passed to the directions.
pub(crate) struct PendingConfiguration {
    pub(crate) number: u64,
    pub(crate) is_change: bool,
    /// Those of all workers that have not come yet, with the number of the direction.
    pub(crate) answers: Vec<(usize, Receiver<Result<Applied, ImpairError>>)>,
    /// When the last worker of each direction applied it.
    pub(crate) at_ns: [u64; 2],
}

/// A configuration without the laws of stopped flows.
pub(crate) fn effective(config: &Impairment, stopped: &BTreeSet<String>) -> Impairment {
    let mut config = config.clone();
    for flow in &mut config.flows {
        flow.run.0 &= !stopped.contains(&flow.name);
    }
    if stopped.contains(OTHER) {
        config.other = Other::default();
        // Other has no switch of its own: the changes of the timeline stay, without their laws.
        let changes = config.timeline.iter_mut().flat_map(|timeline| &mut timeline.changes);
        for change in
            changes.filter(|change| change.flow.as_deref().is_none_or(|name| name == OTHER))
        {
            change.profile = None;
            (change.a_to_b, change.b_to_a) = (Some(Laws::default()), Some(Laws::default()));
        }
    }
    config
}

impl PendingConfiguration {
    /// Waits until a time for the remaining answers; returns whether all are there.
    pub(crate) fn wait(&mut self, until: Instant) -> Result<bool, EmulatorError> {
        for (way, receiver) in std::mem::take(&mut self.answers) {
            let left = until.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left) {
                Ok(Ok(in_force)) => self.at_ns[way] = self.at_ns[way].max(in_force.at_ns),
                Ok(Err(refused)) => return Err(refused.into()),
                Err(RecvTimeoutError::Timeout) => self.answers.push((way, receiver)),
                Err(RecvTimeoutError::Disconnected) => return Err(EmulatorError::Ended),
            }
        }
        Ok(self.answers.is_empty())
    }
}

/// Maximum number of configurations in the report: the first and the latest. Clients may change one ten times a
/// second for days.
const MAX_APPLIED: usize = 1024;

impl Wanted {
    /// Flows of the configuration whose laws are not applied, in its order, Other last.
    pub(crate) fn resting(&self) -> Vec<String> {
        let is_stopped = |name: &str| self.stopped.contains(name);
        let flows = self.config.flows.iter().filter(|flow| !flow.run.0 || is_stopped(&flow.name));
        let other = is_stopped(OTHER).then(|| OTHER.to_owned());
        flows.map(|flow| flow.name.clone()).chain(other).collect()
    }

    /// Records configurations that were applied since.
    pub(crate) fn settle(&mut self, started_ns: u64) {
        let mut pending = std::mem::take(&mut self.pending);
        // A direction that will never answer has not applied it.
        pending.retain_mut(|pending| match pending.wait(Instant::now()) {
            Ok(true) => {
                self.in_force(pending, started_ns);
                false
            }
            Ok(false) => true,
            Err(_) => false,
        });
        self.pending = pending;
    }

    pub(crate) fn in_force(
        &mut self,
        PendingConfiguration { number, is_change, at_ns, .. }: &PendingConfiguration,
        started_ns: u64,
    ) {
        let at_seconds = at_ns.map(|ns| seconds(ns.saturating_sub(started_ns)));
        if self.applied.len() >= MAX_APPLIED {
            // The numbers of the rest show the gap.
            self.applied.remove(1);
        }
        self.applied.push(AppliedConfiguration {
            number: *number,
            is_change: *is_change,
            at_seconds,
        });
    }
}

/// A change of the configuration; absent parts stay.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// The flow that laws and preset are for; absent: Other.
    pub flow: Option<String>,
    /// A preset that replaces the laws.
    pub profile: Option<String>,
    /// Laws from A to B that replace the present ones; in addition to the preset, if given.
    pub a_to_b: Option<Laws>,
    /// Laws from B to A.
    pub b_to_a: Option<Laws>,
    /// The seed.
    pub seed: Option<Seed>,
}

impl Change {
    pub(crate) fn make(self, config: &mut Impairment) -> Result<(), EmulatorError> {
        let refused = |given: &str, accepted: &str| EmulatorError::Refusal {
            what: "set".into(),
            given: given.into(),
            accepted: accepted.into(),
        };
        let has_laws = self.profile.is_some() || self.a_to_b.is_some() || self.b_to_a.is_some();
        if !has_laws && self.flow.is_some() {
            return Err(refused("a flow alone", "both, a_to_b, b_to_a or profile with it"));
        }
        if !has_laws && self.seed.is_none() {
            return Err(refused("nothing", "impairment, both, a_to_b, b_to_a, profile or seed"));
        }
        config.seed = self.seed.unwrap_or(config.seed);
        if !has_laws {
            return Ok(());
        }
        let Change { flow, profile, a_to_b, b_to_a, .. } = self;
        if !config.replace_laws(flow.as_deref(), profile, a_to_b, b_to_a) {
            return Err(no_such(flow.as_deref().unwrap_or(OTHER), config));
        }
        Ok(())
    }
}

pub(crate) fn no_such(name: &str, config: &Impairment) -> EmulatorError {
    let mut names: Vec<&str> = config.flows.iter().map(|flow| flow.name.as_str()).collect();
    names.push(OTHER);
    EmulatorError::Refusal { what: "flow".into(), given: name.into(), accepted: names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_flow_stays_stopped_in_a_timeline() {
        let text = "schema = \"weir.impair/1\"\n[[flow]]\nname = \"x\"\n[timeline]\nchange = [\n\
            { at = \"1s\", profile = \"dsl\" }, { at = \"2s\", flow = \"x\", both = \"loss 1%\" }]\n";
        let config = Impairment::parse(text).unwrap();
        let stopped = [OTHER.to_owned(), "x".to_owned()].into();
        let effective = effective(&config, &stopped);
        effective.check().unwrap();
        for state in effective.states() {
            assert_eq!(state.other, Other::default());
            assert!(!state.flows[0].run.0);
        }
        // The same times: the timeline continues when a flow is stopped or started.
        let times = |config: &Impairment| config.timeline.as_ref().unwrap().times_ns();
        assert_eq!(times(&effective), times(&config));
    }
}
