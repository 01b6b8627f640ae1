//! `weir.impair/1`: the emulator's configuration, with the laws for each flow of packets.
//!
//! A file is a list of flows, tried in order, each with a filter and the laws of either direction. Packets that
//! match no flow are *Other*. Flows may be in several [hops](ImpairFlow::hop), which packets pass one after the other. [`laws`] holds the laws and their one-line text form, [`profiles`] the presets.
//!
//! ```
//! use weir_model::impairment::{Impairment, Laws};
//! let laws: Laws = "loss 1%, delay 20ms ±5ms, rate 100M".parse()?;
//! assert_eq!(laws.to_string(), "loss 1%, rate 100M, delay 20ms ±5ms normal fifo-release");
//! let both = Impairment { seed: "0x7".parse()?, ..Impairment::of_both(laws) };
//! both.check()?;
//! # Ok::<(), weir_model::ModelError>(())
//! ```

mod background;
mod batch;
mod content;
mod count;
mod counters;
mod delay;
mod delivery;
mod duplicate;
mod filter;
mod laws;
mod loss;
mod mtu;
mod netem;
mod police;
pub mod profiles;
mod queue;
mod rate;
mod reading;
mod reorder;
mod series;
mod slot;
mod text;
mod time;
mod timeline;
mod trigger;
mod value;

pub(crate) use reading::{TWICE, TWICE_ACCEPTED};

pub use crate::law::{Law, PacketFacts, Running};
pub use background::{Background, BackgroundBurst, RunningBackground};
pub use batch::{Accumulate, Batch, BatchLaw, Release, Slots};
pub use content::*;
pub use count::{Count, CountLaw, Packets};
pub use counters::{COUNTERS, Counter, Counters};
pub use delay::*;
pub use delivery::{DeliveryTrace, LinkRate, MAX_TRACE_BYTES, OPPORTUNITY_BYTES};
pub use duplicate::Duplicate;
pub use filter::*;
pub use laws::{Laws, Stage};
pub use loss::*;
pub use mtu::{Mtu, TooLong};
pub use netem::Netem;
pub use police::{Colour, Police, PoliceAction};
pub use queue::*;
pub use rate::*;
pub use reorder::{Distance, Reorder};
pub use series::MAX_SERIES_BYTES;
pub use time::{Time, Timing, TimingLaw};
pub use timeline::{MAX_TIMELINE_CHANGES, Timeline, TimelineChange};
pub use trigger::{MAX_MATCH_CONDITIONS, Trigger, TriggerCondition, TriggerState};
pub use value::{
    EtherType, PacketNumbers, Percentages, Periods, Prefix, Prefixes, Protocol, QueueLimit, Ranges,
};

use std::collections::{HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::document::{self, DocumentError};
use crate::plan::{DEFAULT_PORT, Direction};
use crate::units::{ByteSize, Seed};
use profiles::Profile;

/// The schema name of an impairment.
pub(crate) const IMPAIR_SCHEMA: &str = "weir.impair/1";
/// Maximum number of flows of an impairment.
pub const MAX_IMPAIR_FLOWS: usize = 65_534;
/// Maximum number of hops of a path.
pub const MAX_HOPS: u8 = 8;
/// The name for packets that match no filter.
pub const OTHER: &str = "other";
/// Default memory for queued packets.
pub(crate) const DEFAULT_MEMORY: ByteSize = ByteSize(256 << 20);

/// A whole impairment, `weir.impair/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = crate::schema::in_order::<Impairment>)]
pub struct Impairment {
    /// `weir.impair/1`.
    #[schemars(extend("const" = "weir.impair/1"))]
    pub schema: String,
    /// A title, printed with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub title: Option<String>,
    /// Seed of every draw.
    #[serde(default)]
    #[schemars(extend("x-group" = "what"))]
    pub seed: Seed,
    /// Maximum memory for queued packets in one direction, at least 64K; packets dropped for lack of it are
    /// counted as unplanned. Absent: 256M.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Queue memory")]
    pub memory: Option<ByteSize>,
    /// `true`: laws apply to ARP, ICMPv6 neighbour discovery and frames to 01:80:C2:00:00:0X as to all other packets. `false`:
    /// they are forwarded unchanged, except where a flow's filter names them by EtherType, protocol, ICMPv6 type or group address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(title = "Impair ARP and control frames")]
    pub impair_arp: bool,
    /// Port of Weir's servers on this path, 1 to 65535, by which control connections and native data are
    /// recognised.
    #[serde(default = "native_port", skip_serializing_if = "is_native_port")]
    #[schemars(title = "Port of Weir's servers", range(min = 1))]
    pub native_port: u16,
    /// Filters under a name, for the flows that state it.
    #[serde(rename = "filter_group", default, skip_serializing_if = "Vec::is_empty")]
    pub filter_groups: Vec<FilterGroup>,
    /// The flows; in each hop, a packet belongs to the first whose filter matches.
    #[serde(rename = "flow", default, skip_serializing_if = "Vec::is_empty")]
    pub flows: Vec<ImpairFlow>,
    /// What no filter of hop 1 matches.
    #[serde(default, skip_serializing_if = "Other::is_default")]
    pub other: Other,
    /// Groups of flows that share one link.
    #[serde(rename = "aggregate", default, skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<Aggregate>,
    /// Changes of laws at given times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
}

fn native_port() -> u16 {
    DEFAULT_PORT
}
fn is_native_port(port: &u16) -> bool {
    *port == DEFAULT_PORT
}

/// The directions in which a flow's filter is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowDirection {
    /// Either.
    #[default]
    Both,
    /// Packets that enter at A.
    AToB,
    /// Packets that enter at B.
    BToA,
}

/// A flow of the emulator.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(transform = reading::and_both, transform = crate::schema::in_order::<ImpairFlow>)]
pub struct ImpairFlow {
    /// Name, used once; not `other`.
    #[schemars(extend("x-group" = "what"))]
    pub name: String,
    /// `false`: its packets are counted and forwarded without laws.
    #[serde(skip_serializing_if = "is_running")]
    pub run: Run,
    /// Hop that the flow is in, 1 to 8, counted from A. A packet passes the hops of the path one after the other, from B in reverse
    /// order, each as the one before left it. In hops other than 1, packets that match no filter pass unchanged. Absent: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 8))]
    pub hop: Option<u8>,
    /// Directions in which the filter is tried.
    #[serde(skip_serializing_if = "is_both")]
    #[schemars(extend("x-group" = "what"))]
    pub direction: FlowDirection,
    /// Filter of the flow's packets from A to B; from B to A source and destination are swapped. Absent: all packets,
    /// unless filter groups are stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-group" = "what"))]
    pub filter: Option<Filter>,
    /// Replaces `filter` for packets that enter at A.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Other filter at A")]
    pub filter_a: Option<Filter>,
    /// Replaces `filter` for packets that enter at B, without swapping.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(title = "Other filter at B")]
    pub filter_b: Option<Filter>,
    /// Names of filter groups: packets that any of their filters matches belong to the flow too. They are written for A to B and
    /// swapped for B to A, as `filter` is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-group" = "what"))]
    pub filter_groups: Vec<String>,
    /// A preset for the slots that the laws below leave empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Laws from A to B.
    #[serde(skip_serializing_if = "Laws::is_nothing")]
    #[schemars(schema_with = "reading::one_way", title = "A to B")]
    pub a_to_b: Laws,
    /// Laws from B to A.
    #[serde(skip_serializing_if = "Laws::is_nothing")]
    #[schemars(schema_with = "reading::one_way", title = "B to A")]
    pub b_to_a: Laws,
}

/// Filters under a name, of which one must match.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilterGroup {
    /// Name, used once.
    pub name: String,
    /// The filters, at least one.
    pub filters: Vec<Filter>,
}

/// Whether a flow's laws are applied; written as a boolean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Run(pub bool);

impl Default for Run {
    fn default() -> Self {
        Run(true)
    }
}

fn is_running(run: &Run) -> bool {
    run.0
}
fn is_both(direction: &FlowDirection) -> bool {
    *direction == FlowDirection::Both
}

/// What no filter matches.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(transform = reading::and_both)]
pub struct Other {
    /// A preset for the slots that the laws below leave empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Laws from A to B.
    #[serde(skip_serializing_if = "Laws::is_nothing")]
    #[schemars(schema_with = "reading::one_way", title = "A to B")]
    pub a_to_b: Laws,
    /// Laws from B to A.
    #[serde(skip_serializing_if = "Laws::is_nothing")]
    #[schemars(schema_with = "reading::one_way", title = "B to A")]
    pub b_to_a: Laws,
}

impl Other {
    fn is_default(&self) -> bool {
        *self == Other::default()
    }
}

impl Laws {
    fn is_nothing(&self) -> bool {
        *self == Laws::default()
    }
}

/// Consecutive flows that share one policer, one rate and queue, and one delay law, in each direction.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, remote = "Self")]
#[schemars(transform = reading::and_both)]
pub struct Aggregate {
    /// Names of the flows, in the order of the file.
    pub flows: Vec<String>,
    /// Policer, rate and delay from A to B.
    #[serde(skip_serializing_if = "Laws::is_nothing")]
    #[schemars(schema_with = "reading::one_way", title = "A to B")]
    pub a_to_b: Laws,
    /// Policer, rate and delay from B to A.
    #[serde(skip_serializing_if = "Laws::is_nothing")]
    #[schemars(schema_with = "reading::one_way", title = "B to A")]
    pub b_to_a: Laws,
}

impl Default for Impairment {
    fn default() -> Self {
        Impairment {
            schema: IMPAIR_SCHEMA.into(),
            title: None,
            seed: Seed(0),
            memory: None,
            impair_arp: false,
            native_port: DEFAULT_PORT,
            filter_groups: vec![],
            flows: vec![],
            other: Other::default(),
            aggregates: vec![],
            timeline: None,
        }
    }
}

fn refuse<T>(field: String, given: &str, accepted: &str) -> Result<T, ModelError> {
    Err(ModelError::Field { field, given: given.into(), accepted: accepted.into() })
}

/// The effective laws: a flow's own, then those of its preset.
fn resolved(own: &Laws, profile: Option<&str>, direction: Direction) -> Laws {
    let Some(profile) = profile.and_then(Profile::named) else { return own.clone() };
    own.over(&match direction {
        Direction::Forward => profile.a_to_b(),
        Direction::Reverse => profile.b_to_a(),
    })
}

impl Impairment {
    /// One set of laws for everything, both ways.
    #[must_use]
    pub fn of_both(laws: Laws) -> Self {
        let other = Other { profile: None, a_to_b: laws.clone(), b_to_a: laws };
        Impairment { other, ..Impairment::default() }
    }

    /// A preset for everything.
    ///
    /// # Errors
    /// [`ModelError::Field`] if there is none of that name.
    pub fn of_profile(name: &str) -> Result<Self, ModelError> {
        let other = Other { profile: Some(name.into()), ..Other::default() };
        let out = Impairment { other, ..Impairment::default() };
        out.check()?;
        Ok(out)
    }

    /// Reads an impairment from TOML, or from JSON if it starts with `{`, and checks it.
    ///
    /// # Errors
    /// [`ModelError::Document`] with the field and its line.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let read: Impairment = document::parse(text).map_err(|e| e.of(IMPAIR_SCHEMA))?;
        read.check().map_err(|e| DocumentError::of_check(e, IMPAIR_SCHEMA, text))?;
        Ok(read)
    }

    /// Reads an impairment from a tree; the caller calls [`Impairment::check`]. Crates compiled for speed call
    /// this instead of [`document::read`], so that they do not instantiate it again.
    ///
    /// # Errors
    /// The first field that is not accepted.
    pub fn of_tree(tree: &serde_json::Value) -> Result<Self, Box<DocumentError>> {
        document::read(tree)
    }

    /// The impairment as TOML.
    ///
    /// # Errors
    /// [`ModelError::Document`] if a number does not fit TOML's 64-bit integers.
    pub fn to_toml(&self) -> Result<String, ModelError> {
        document::to_toml(self).map_err(|e| e.of(IMPAIR_SCHEMA).into())
    }

    /// Maximum memory for queued packets in one direction, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.memory.unwrap_or(DEFAULT_MEMORY).0
    }

    /// The smallest MTU limit of all laws, those of the timeline included; `None` without one.
    #[must_use]
    pub fn smallest_mtu(&self) -> Option<u32> {
        self.all_laws().filter_map(|laws| laws.mtu.as_ref()).map(|mtu| mtu.bytes).min()
    }

    /// Whether any link has a trace of delivery opportunities.
    #[must_use]
    pub fn has_traces(&self) -> bool {
        self.all_laws()
            .filter_map(|laws| laws.rate.as_ref())
            .any(|rate| rate.bits.trace().is_some())
    }

    /// The laws of all flows and directions, those of aggregates and of the timeline included, but not those of presets.
    fn all_laws(&self) -> impl Iterator<Item = &Laws> {
        let flows = self.flows.iter().flat_map(|flow| [&flow.a_to_b, &flow.b_to_a]);
        let shared = self.aggregates.iter().flat_map(|shared| [&shared.a_to_b, &shared.b_to_a]);
        let changes = self.timeline.iter().flat_map(|timeline| &timeline.changes);
        let later = changes.flat_map(|change| change.a_to_b.iter().chain(&change.b_to_a));
        let other = [&self.other.a_to_b, &self.other.b_to_a];
        flows.chain(shared).chain(other).chain(later)
    }

    /// Number of hops of the path.
    #[must_use]
    pub fn hops(&self) -> u8 {
        self.flows.iter().map(ImpairFlow::hop).max().unwrap_or(1)
    }

    /// Checks everything that can be known without an interface.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    pub fn check(&self) -> Result<(), ModelError> {
        if self.schema != IMPAIR_SCHEMA {
            return refuse("schema".into(), &self.schema, IMPAIR_SCHEMA);
        }
        if let Some(memory) = self.memory
            && !(64 << 10..=1 << 40).contains(&memory.0)
        {
            return refuse("memory".into(), &memory.to_string(), "64K to 1T");
        }
        if self.native_port == 0 {
            return refuse("native_port".into(), "0", "1 to 65535");
        }
        if self.flows.len() > MAX_IMPAIR_FLOWS {
            return refuse("flow".into(), &self.flows.len().to_string(), "at most 65534 flows");
        }
        laws::check_tables("flow", self.tables())?;
        let groups = self.check_filter_groups()?;
        self.check_match_conditions()?;
        self.check_pcap_expressions()?;
        let mut names = HashSet::new();
        let mut filters = 0;
        for (i, flow) in self.flows.iter().enumerate() {
            let at = format!("flow[{i}]");
            check_name(&at, &flow.name)?;
            if flow.name == OTHER {
                return refuse(
                    format!("{at}.name"),
                    OTHER,
                    "another name: what no filter matches has it",
                );
            }
            if !names.insert(flow.name.as_str()) {
                return refuse(format!("{at}.name"), &flow.name, "a name used once");
            }
            if !(1..=MAX_HOPS).contains(&flow.hop()) {
                let accepted = format!("1 to {MAX_HOPS}");
                return refuse(format!("{at}.hop"), &flow.hop().to_string(), &accepted);
            }
            for (field, filter) in [
                ("filter", &flow.filter),
                ("filter_a", &flow.filter_a),
                ("filter_b", &flow.filter_b),
            ] {
                if let Some(filter) = filter {
                    filter.check(&format!("{at}.{field}"))?;
                }
            }
            filters += 1;
            for (n, name) in flow.filter_groups.iter().enumerate() {
                let field = format!("{at}.filter_groups");
                if flow.filter_groups[..n].contains(name) {
                    return refuse(field, name, "a group named once");
                }
                match groups.get(name.as_str()) {
                    Some(count) => filters += count,
                    None => return refuse(field, name, "names of filter groups of this file"),
                }
                if filters > MAX_IMPAIR_FLOWS {
                    return refuse(
                        field,
                        name,
                        "at most 65534 filters of all flows, those of their groups included",
                    );
                }
            }
            check_profile(&at, flow.profile.as_deref())?;
            flow.a_to_b.check(&format!("{at}.a_to_b"))?;
            flow.b_to_a.check(&format!("{at}.b_to_a"))?;
        }
        check_profile("other", self.other.profile.as_deref())?;
        self.other.a_to_b.check("other.a_to_b")?;
        self.other.b_to_a.check("other.b_to_a")?;
        let places: HashMap<&str, usize> =
            self.flows.iter().enumerate().map(|(i, flow)| (flow.name.as_str(), i)).collect();
        let mut members = HashSet::new();
        for (i, aggregate) in self.aggregates.iter().enumerate() {
            self.check_aggregate(&format!("aggregate[{i}]"), aggregate, &places, &mut members)?;
        }
        self.check_timeline()
    }

    /// The number of filters in each group.
    fn check_filter_groups(&self) -> Result<HashMap<&str, usize>, ModelError> {
        let mut counts = HashMap::new();
        for (i, group) in self.filter_groups.iter().enumerate() {
            let at = format!("filter_group[{i}]");
            check_name(&at, &group.name)?;
            if group.filters.is_empty() {
                return refuse(format!("{at}.filters"), "none", "at least one filter");
            }
            for (n, filter) in group.filters.iter().enumerate() {
                filter.check(&format!("{at}.filters[{n}]"))?;
            }
            if counts.insert(group.name.as_str(), group.filters.len()).is_some() {
                return refuse(format!("{at}.name"), &group.name, "a name used once");
            }
        }
        Ok(counts)
    }

    /// The filters of a hop in a direction, each with the place of its flow, in the order in which they are tried.
    #[must_use]
    pub fn filters(&self, direction: Direction, hop: u8) -> Vec<(usize, Filter)> {
        let groups: HashMap<&str, &FilterGroup> =
            self.filter_groups.iter().map(|group| (group.name.as_str(), group)).collect();
        let mut out = vec![];
        let here = |flow: &ImpairFlow| flow.is_in(direction) && flow.hop() == hop;
        for (place, flow) in self.flows.iter().enumerate().filter(|(_, flow)| here(flow)) {
            out.extend(flow.filter(direction).map(|filter| (place, filter)));
            let named = flow.filter_groups.iter().filter_map(|name| groups.get(name.as_str()));
            for filter in named.flat_map(|group| &group.filters) {
                out.push((place, filter.seen_in(direction)));
            }
        }
        out
    }

    /// The number of tables that all laws draw from.
    fn tables(&self) -> usize {
        let flows = self.flows.iter().flat_map(|flow| [&flow.a_to_b, &flow.b_to_a]);
        let shared = self.aggregates.iter().flat_map(|shared| [&shared.a_to_b, &shared.b_to_a]);
        let other = [&self.other.a_to_b, &self.other.b_to_a];
        flows.chain(shared).chain(other).map(Laws::tables).sum()
    }

    fn check_aggregate<'a>(
        &'a self,
        at: &str,
        aggregate: &'a Aggregate,
        places: &HashMap<&str, usize>,
        members: &mut HashSet<&'a str>,
    ) -> Result<(), ModelError> {
        let place = |name: &str| places.get(name).copied();
        if aggregate.flows.is_empty() {
            return refuse(format!("{at}.flows"), "none", "at least one flow");
        }
        let mut expected = place(&aggregate.flows[0]);
        for name in &aggregate.flows {
            let here = place(name);
            if here.is_none() {
                return refuse(format!("{at}.flows"), name, "names of flows of this file");
            }
            if here != expected {
                return refuse(format!("{at}.flows"), name, "flows that follow each other");
            }
            let hop = |place: Option<usize>| place.map(|i| self.flows[i].hop());
            if hop(here) != hop(place(&aggregate.flows[0])) {
                return refuse(format!("{at}.flows"), name, "flows of one hop");
            }
            expected = here.map(|i| i + 1);
            if !members.insert(name) {
                return refuse(format!("{at}.flows"), name, "a flow in one aggregate only");
            }
        }
        for (field, shared, direction) in [
            ("a_to_b", &aggregate.a_to_b, Direction::Forward),
            ("b_to_a", &aggregate.b_to_a, Direction::Reverse),
        ] {
            shared.check(&format!("{at}.{field}"))?;
            let unshared = [
                shared.order.as_ref().map(|_| "order"),
                shared.trigger.as_ref().map(|_| "trigger"),
            ];
            let own = shared.slot_in_use(false).or(unshared.into_iter().flatten().next());
            if let Some(own) = own {
                let accepted = "police, rate and delay; the rest stays with each flow";
                return refuse(format!("{at}.{field}"), own, accepted);
            }
            if shared.is_empty() {
                continue;
            }
            // Its flows are consecutive, in this order.
            for i in aggregate.flows.iter().filter_map(|name| place(name)) {
                let flow = &self.flows[i];
                let own = flow.laws(direction);
                if own.slot_in_use(true).is_some() || own.order.is_some() {
                    return refuse(
                        format!("flow[{i}].{field}"),
                        &format!("police, rate, delay or order of {:?}", flow.name),
                        &format!("none: its {at} has them"),
                    );
                }
            }
        }
        Ok(())
    }
}

fn check_name(at: &str, name: &str) -> Result<(), ModelError> {
    let is_short = (1..=64).contains(&name.len());
    if is_short && !name.chars().any(char::is_control) {
        return Ok(());
    }
    refuse(format!("{at}.name"), &format!("{name:?}"), "1 to 64 printable characters")
}

fn check_profile(at: &str, name: Option<&str>) -> Result<(), ModelError> {
    match name {
        Some(name) if Profile::named(name).is_none() => {
            let names: Vec<&str> = profiles::PROFILES.iter().map(|p| p.name).collect();
            refuse(format!("{at}.profile"), name, &names.join(", "))
        }
        _ => Ok(()),
    }
}

impl ImpairFlow {
    /// The laws of a direction (forward is A→B), the preset's in the slots left empty.
    #[must_use]
    pub fn laws(&self, direction: Direction) -> Laws {
        let own = match direction {
            Direction::Forward => &self.a_to_b,
            Direction::Reverse => &self.b_to_a,
        };
        resolved(own, self.profile.as_deref(), direction)
    }

    /// The hop that it is in, 1 if it states none.
    #[must_use]
    pub fn hop(&self) -> u8 {
        self.hop.unwrap_or(1)
    }

    /// As [`ImpairFlow::laws`], without any if it is stopped.
    #[must_use]
    pub fn effective_laws(&self, direction: Direction) -> Laws {
        if self.run.0 { self.laws(direction) } else { Laws::default() }
    }

    /// Whether packets of a direction are tried.
    fn is_in(&self, direction: Direction) -> bool {
        self.direction
            != match direction {
                Direction::Forward => FlowDirection::BToA,
                Direction::Reverse => FlowDirection::AToB,
            }
    }

    /// The flow's own filter in a direction that it is in; `None` if only groups or the other side have filters.
    fn filter(&self, direction: Direction) -> Option<Filter> {
        let own = match direction {
            Direction::Forward => &self.filter_a,
            Direction::Reverse => &self.filter_b,
        };
        if own.is_some() {
            return own.clone();
        }
        if let Some(filter) = &self.filter {
            return Some(filter.seen_in(direction));
        }
        let is_all =
            self.filter_a.is_none() && self.filter_b.is_none() && self.filter_groups.is_empty();
        is_all.then(Filter::default)
    }
}

impl Other {
    /// The laws of a direction (forward is A→B), the preset's in the slots left empty.
    #[must_use]
    pub fn laws(&self, direction: Direction) -> Laws {
        let own = match direction {
            Direction::Forward => &self.a_to_b,
            Direction::Reverse => &self.b_to_a,
        };
        resolved(own, self.profile.as_deref(), direction)
    }
}

#[cfg(test)]
mod tests;
