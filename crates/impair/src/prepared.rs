//! A prepared configuration for the hops of one direction. Preparing makes all checks and does all slow work, so that
//! the engine's thread only has to apply it.

use std::collections::HashMap;
use std::sync::Arc;

use weir_laws::{Direction, flow_hash};
use weir_model::ModelError;
use weir_model::impairment::{Filter, ImpairFlow, Impairment, Laws, MAX_IMPAIR_FLOWS, OTHER};
use weir_model::plan::Direction as Side;
use weir_wire::bpf::Program;

use crate::classify::Classifier;
use crate::engine::side;
use crate::error::ImpairError;
use crate::timeline::RunningTimeline;
use crate::trigger::{Conditions, RunningTrigger};

/// Maximum number of flow names of an engine: each configuration may add some, and counters are never
/// removed.
const MAX_NAMES: usize = 4 * MAX_IMPAIR_FLOWS;

/// A valid configuration with its classification tables, for the engine of one hop in one direction.
#[derive(Debug)]
pub(crate) struct PreparedHop {
    pub(crate) hop: u8,
    pub(crate) config: Arc<Impairment>,
    pub(crate) direction: Direction,
    /// Hash of each flow's name, in the order of the configuration.
    pub(crate) hashes: Vec<u32>,
    pub(crate) classifier: Classifier,
    /// Index in the configuration of each filter's flow.
    pub(crate) filtered: Vec<u32>,
    /// The trigger of each flow that is not stopped, in the order of the configuration, and at the end that of Other.
    pub(crate) triggers: Vec<Option<RunningTrigger>>,
    pub(crate) timeline: Option<Box<RunningTimeline>>,
    pub(crate) conditions: Conditions,
}

/// A valid configuration for all hops of one direction.
#[derive(Debug)]
pub struct Prepared {
    /// By hop, at least one.
    pub(crate) hops: Vec<PreparedHop>,
}

/// What a replaced configuration no longer needs; dropping it may take some time.
#[derive(Debug)]
#[allow(dead_code, reason = "only dropped, outside of the packet path")]
pub struct Retired(pub(crate) Vec<RetiredHop>);

/// What a replaced configuration of one hop no longer needs.
#[derive(Debug)]
#[allow(dead_code, reason = "only dropped, outside of the packet path")]
pub(crate) struct RetiredHop {
    pub(crate) classifier: Classifier,
    pub(crate) triggers: Vec<RunningTrigger>,
    pub(crate) timeline: Option<Box<RunningTimeline>>,
    pub(crate) conditions: Conditions,
}

impl Prepared {
    /// Checks a configuration and builds its tables for its hops, `hops` at least: those that the engine has. Call it
    /// outside of the packet path.
    ///
    /// # Errors
    /// [`ImpairError`]: the configuration is invalid or has a pcap expression that was not compiled, two of its flow names
    /// have the same hash, or its tables would be too large.
    pub fn new(
        config: &Arc<Impairment>,
        direction: Direction,
        hops: u8,
    ) -> Result<Self, ImpairError> {
        check(config)?;
        let hops = 1..=hops.max(config.hops());
        let hops = hops.map(|hop| PreparedHop::new(config.clone(), direction, hop));
        Ok(Self { hops: hops.collect::<Result<_, _>>()? })
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Arc<Impairment> {
        &self.hops[0].config
    }
}

/// The laws that a flow has in a hop.
pub(crate) fn laws_in(hop: u8, flow: &ImpairFlow, side: Side) -> Laws {
    if flow.hop() == hop { flow.effective_laws(side) } else { Laws::default() }
}

/// The laws that Other has in a hop.
pub(crate) fn other_laws_in(hop: u8, config: &Impairment, side: Side) -> Laws {
    if hop == 1 { config.other.laws(side) } else { Laws::default() }
}

impl PreparedHop {
    /// Builds the tables of a checked configuration.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub(crate) fn new(
        config: Arc<Impairment>,
        direction: Direction,
        hop: u8,
    ) -> Result<Self, ImpairError> {
        let hashes: Vec<u32> = config.flows.iter().map(|flow| flow_hash(&flow.name)).collect();
        let mut seen = HashMap::with_capacity(hashes.len() + 1);
        seen.insert(flow_hash(OTHER), OTHER);
        for (flow, hash) in config.flows.iter().zip(&hashes) {
            if let Some(first) = seen.insert(*hash, &flow.name) {
                return Err(collision(first, &flow.name, *hash));
            }
        }
        let filters = config.filters(side(direction), hop).into_iter();
        let (filtered, filters): (Vec<u32>, Vec<Filter>) =
            filters.map(|(place, filter)| (place as u32, filter)).unzip();
        let classifier = Classifier::new(&filters)?;
        let trigger = |laws: Laws| -> Result<_, ImpairError> {
            laws.trigger.as_ref().map(RunningTrigger::new).transpose()
        };
        let side = side(direction);
        let laws = config.flows.iter().map(|flow| laws_in(hop, flow, side));
        let triggers = laws
            .chain([other_laws_in(hop, &config, side)])
            .map(trigger)
            .collect::<Result<_, _>>()?;
        let timeline = RunningTimeline::new(&config).map(Box::new);
        let conditions = Conditions::of(&config);
        Ok(Self {
            hop,
            config,
            direction,
            hashes,
            classifier,
            filtered,
            triggers,
            timeline,
            conditions,
        })
    }
}

/// Checks a configuration, and that its pcap expressions have valid programs.
pub(crate) fn check(config: &Impairment) -> Result<(), ModelError> {
    config.check()?;
    for (field, expression) in config.pcap_expressions() {
        let accepted = match expression.program().map(Program::new) {
            None => "an expression that was compiled before the engine is made".to_owned(),
            Some(Err(error)) => format!("an expression with a program that can be run: {error}"),
            Some(Ok(_)) => continue,
        };
        return Err(ModelError::Field { field, given: expression.text().into(), accepted });
    }
    Ok(())
}

fn collision(first: &str, second: &str, hash: u32) -> ImpairError {
    ImpairError::NameCollision { first: first.into(), second: second.into(), hash }
}

/// All flow names that an engine has had, with their numbers. Names are never removed.
///
/// The owner of several engines with the same configurations has one too, and learns from [`Names::check`]
/// whether all of them will accept a configuration.
#[derive(Clone, Debug)]
pub struct Names {
    by_hash: HashMap<u32, (u32, Box<str>)>,
}

impl Default for Names {
    fn default() -> Self {
        let other = (flow_hash(OTHER), (0, OTHER.into()));
        Self { by_hash: HashMap::from([other]) }
    }
}

impl Names {
    /// Whether the names of a configuration can be added.
    ///
    /// # Errors
    /// [`ImpairError::NameCollision`] with an earlier name; [`ImpairError::TooManyNames`].
    pub fn check(&self, prepared: &Prepared) -> Result<(), ImpairError> {
        self.check_hop(&prepared.hops[0])
    }

    /// As [`check`](Self::check); all hops have the same names.
    pub(crate) fn check_hop(&self, prepared: &PreparedHop) -> Result<(), ImpairError> {
        let mut new = 0;
        for (flow, hash) in prepared.config.flows.iter().zip(&prepared.hashes) {
            match self.by_hash.get(hash) {
                None => new += 1,
                Some((_, name)) if **name == *flow.name => {}
                Some((_, name)) => return Err(collision(name, &flow.name, *hash)),
            }
        }
        if self.by_hash.len() + new > MAX_NAMES {
            return Err(ImpairError::TooManyNames { most: MAX_NAMES });
        }
        Ok(())
    }

    /// Adds the names of a configuration that [`check`](Self::check) accepted.
    pub fn add(&mut self, prepared: &Prepared) {
        let prepared = &prepared.hops[0];
        for (flow, hash) in prepared.config.flows.iter().zip(&prepared.hashes) {
            self.number(*hash, &flow.name);
        }
    }

    /// Every name with its number ([`crate::Disposition::flow`]), sorted by number; 0 is Other.
    #[must_use]
    pub fn numbered(&self) -> Vec<(u32, &str)> {
        let mut all: Vec<_> = self.by_hash.values().map(|(n, name)| (*n, &**name)).collect();
        all.sort_unstable();
        all
    }

    /// The number of a name that the configuration in force has.
    pub(crate) fn known(&self, hash: u32) -> Option<u32> {
        self.by_hash.get(&hash).map(|(number, _)| *number)
    }

    /// The number of a checked name; a new name gets the next one.
    pub(crate) fn number(&mut self, hash: u32, name: &str) -> u32 {
        let next = self.by_hash.len() as u32;
        self.by_hash.entry(hash).or_insert_with(|| (next, name.into())).0
    }
}
