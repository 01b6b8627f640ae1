//! Classifies packets into flows, at a cost that hardly grows with the number of flows.
//!
//! The bounds of all filters divide each field that some filter matches on into intervals. Each interval
//! has a bit set of the flows whose filters accept it. The sets of a packet's intervals are intersected and
//! the first bit is the flow: a binary search per field and a few words for each 64 flows. As traffic
//! repeats itself, a bounded cache of results, keyed by the fields that matter, is looked up first.

#[cfg(test)]
use std::net::IpAddr;

use crate::error::ImpairError;
use crate::key::{FragmentPlace, Key, NO_VLAN};
use crate::role::Role;
use weir_model::impairment::{Filter, Prefixes, Ranges};

/// No flow's filter matches.
pub(crate) const OTHER: u32 = u32::MAX;

/// Maximum memory for the tables of one direction: enough for about 30 000 flows that differ in one port
/// each.
const MAX_TABLE_BYTES: u64 = 256 << 20;

/// A field's intervals: their starts, ascending from 0, and the flows of each.
#[derive(Debug)]
struct Field {
    property: Property,
    starts: Vec<u128>,
    /// Bit sets of `words` for each interval, then one for packets without the field.
    sets: Vec<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Property {
    Source,
    Destination,
    Protocol,
    SourcePort,
    DestinationPort,
    Dscp,
    Vlan,
    EtherType,
    Length,
}

const FIELDS: [Property; 9] = [
    Property::DestinationPort,
    Property::SourcePort,
    Property::Destination,
    Property::Source,
    Property::Protocol,
    Property::Dscp,
    Property::Vlan,
    Property::EtherType,
    Property::Length,
];

impl Property {
    /// The ranges of this field that a filter accepts; `None` if it does not match on it.
    fn accepted(self, filter: &Filter) -> Option<Vec<(u128, u128)>> {
        let one = |value: u128| vec![(value, value)];
        let prefixes = |p: &Prefixes| p.0.iter().flat_map(|p| p.mapped_ranges()).collect();
        let ranges = |r: &Ranges| r.0.iter().map(|r| (r.0.into(), r.1.into())).collect();
        match self {
            Property::Source => filter.source.as_ref().map(prefixes),
            Property::Destination => filter.destination.as_ref().map(prefixes),
            Property::Protocol => filter.protocol.map(|p| one(p.0.into())),
            Property::SourcePort => filter.source_port.as_ref().map(ranges),
            Property::DestinationPort => filter.destination_port.as_ref().map(ranges),
            Property::Dscp => filter.dscp.map(|d| one(d.0.into())),
            Property::Vlan => filter.vlan.as_ref().map(ranges),
            Property::EtherType => filter.ethertype.map(|e| one(e.0.into())),
            Property::Length => filter.length.as_ref().map(ranges),
        }
    }

    /// The packet's value of this field.
    #[inline]
    fn value(self, key: &Key, length: u32) -> Option<u128> {
        match self {
            Property::Source => key.is_ip().then_some(key.source),
            Property::Destination => key.is_ip().then_some(key.destination),
            Property::Protocol => key.is_ip().then_some(key.protocol.into()),
            Property::SourcePort => key.source_port().map(u128::from),
            Property::DestinationPort => key.destination_port().map(u128::from),
            Property::Dscp => key.is_ip().then_some(key.dscp.into()),
            Property::Vlan => (key.vlan != NO_VLAN).then_some(key.vlan.into()),
            Property::EtherType => Some(key.ethertype.into()),
            Property::Length => Some(length.into()),
        }
    }
}

/// A field's interval bounds, computed before the total size of the tables is checked.
struct Plan {
    property: Property,
    accepted: Vec<Option<Vec<(u128, u128)>>>,
    starts: Vec<u128>,
}

impl Plan {
    fn new(property: Property, filters: &[Filter]) -> Option<Self> {
        let accepted: Vec<_> = filters.iter().map(|filter| property.accepted(filter)).collect();
        if accepted.iter().all(Option::is_none) {
            return None;
        }
        let mut starts = vec![0];
        for (low, high) in accepted.iter().flatten().flatten() {
            starts.push(*low);
            starts.extend(high.checked_add(1));
        }
        starts.sort_unstable();
        starts.dedup();
        Some(Self { property, accepted, starts })
    }

    /// Size of the field's tables, bytes.
    fn bytes(&self, words: usize) -> u64 {
        let sets = (self.starts.len() as u64 + 1) * words as u64;
        sets * 8 + self.starts.len() as u64 * 16
    }
}

impl Field {
    fn new(plan: Plan, words: usize) -> Self {
        let Plan { property, accepted, starts } = plan;
        let mut sets = vec![0u64; (starts.len() + 1) * words];
        for (flow, accepted) in accepted.iter().enumerate() {
            let mut set = |interval: usize| {
                sets[interval * words + flow / 64] |= 1 << (flow % 64);
            };
            match accepted {
                None => (0..=starts.len()).for_each(&mut set),
                Some(ranges) => {
                    for (low, high) in ranges {
                        let from = starts.partition_point(|start| start < low);
                        let to = starts.partition_point(|start| start <= high);
                        (from..to).for_each(&mut set);
                    }
                }
            }
        }
        Self { property, starts, sets }
    }

    /// Number of the interval that a packet lies in.
    #[inline]
    fn interval(&self, key: &Key, length: u32) -> usize {
        match self.property.value(key, length) {
            Some(value) => self.starts.partition_point(|start| *start <= value) - 1,
            None => self.starts.len(),
        }
    }
}

/// Classifier by the filters of one direction.
#[derive(Debug)]
pub(crate) struct Classifier {
    fields: Vec<Field>,
    words: usize,
    flows: usize,
    /// Position of the length among `fields`; its interval is part of the cache's key.
    length: Option<usize>,
    cache: Vec<Cached>,
    fragments: Fragments,
    /// Bit sets of `words` for each exempt role: the flows whose filters name its frames.
    naming: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    key: Key,
    length: u32,
    flow: u32,
}

/// Sets of the cache, of two entries each.
const CACHE_SETS: usize = 4096;
const EMPTY: u32 = u32::MAX - 1;

impl Classifier {
    /// A classifier without filters.
    pub(crate) fn none() -> Self {
        Self {
            fields: vec![],
            words: 0,
            flows: 0,
            length: None,
            cache: vec![],
            fragments: Fragments::new(false),
            naming: vec![],
        }
    }

    /// A classifier by these filters; the first match wins.
    pub(crate) fn new(filters: &[Filter]) -> Result<Self, ImpairError> {
        let words = filters.len().div_ceil(64);
        let plans: Vec<Plan> =
            FIELDS.iter().filter_map(|property| Plan::new(*property, filters)).collect();
        let bytes = plans.iter().map(|plan| plan.bytes(words)).sum();
        if bytes > MAX_TABLE_BYTES {
            let (flows, most) = (filters.len(), MAX_TABLE_BYTES);
            return Err(ImpairError::TablesTooLarge { flows, bytes, most });
        }
        let fields: Vec<Field> = plans.into_iter().map(|plan| Field::new(plan, words)).collect();
        let length = fields.iter().position(|field| field.property == Property::Length);
        let entry = Cached { key: Key::default(), length: 0, flow: EMPTY };
        let cache = if fields.is_empty() { vec![] } else { vec![entry; CACHE_SETS * 2] };
        let fragments = Fragments::new(!fields.is_empty());
        let mut naming = vec![0u64; words * Role::EXEMPT.len()];
        for (place, role) in Role::EXEMPT.into_iter().enumerate() {
            for (flow, _) in filters.iter().enumerate().filter(|(_, f)| role.is_named_by(f)) {
                naming[place * words + flow / 64] |= 1 << (flow % 64);
            }
        }
        Ok(Self { fields, words, flows: filters.len(), length, cache, fragments, naming })
    }

    /// Whether packets must be parsed at all.
    pub(crate) fn needs_keys(&self) -> bool {
        !self.fields.is_empty()
    }

    /// The flow of a packet at `now_ns`, or [`OTHER`].
    #[inline]
    pub(crate) fn flow(&mut self, key: &Key, length: u32, now_ns: u64) -> u32 {
        if self.fields.is_empty() {
            return if self.flows == 0 { OTHER } else { 0 };
        }
        if key.fragment != FragmentPlace::Whole {
            return self.fragment(key, length, now_ns);
        }
        let class = match self.length {
            Some(field) => self.fields[field].interval(key, length) as u32,
            None => 0,
        };
        let set = (hash(key, class) >> 52) as usize & (CACHE_SETS - 1);
        let pair = &mut self.cache[set * 2..set * 2 + 2];
        if pair[0].flow != EMPTY && pair[0].length == class && pair[0].key == *key {
            return pair[0].flow;
        }
        if pair[1].flow != EMPTY && pair[1].length == class && pair[1].key == *key {
            pair.swap(0, 1);
            return pair[0].flow;
        }
        let flow = self.search(key, length);
        let pair = &mut self.cache[set * 2..set * 2 + 2];
        pair[1] = pair[0];
        pair[0] = Cached { key: *key, length: class, flow };
        flow
    }

    /// The first flow that matches a frame and names its exempt role, or [`OTHER`].
    #[cold]
    pub(crate) fn naming(&self, role: usize, key: &Key, length: u32) -> u32 {
        self.search_in(|word| self.naming[role * self.words + word], key, length)
    }

    /// The first flow in every field's set.
    fn search(&self, key: &Key, length: u32) -> u32 {
        self.search_in(|_| u64::MAX, key, length)
    }

    /// The first flow in every field's set, among those in the bit set `among`.
    #[inline]
    fn search_in(&self, among: impl Fn(usize) -> u64, key: &Key, length: u32) -> u32 {
        let mut at = [0usize; FIELDS.len()];
        for (at, field) in at.iter_mut().zip(&self.fields) {
            *at = field.interval(key, length) * self.words;
        }
        for word in 0..self.words {
            let mut bits = among(word);
            for (at, field) in at.iter().zip(&self.fields) {
                bits &= field.sets[at + word];
                if bits == 0 {
                    break;
                }
            }
            if bits != 0 {
                return (word * 64) as u32 + bits.trailing_zeros();
            }
        }
        OTHER
    }

    #[cold]
    fn fragment(&mut self, key: &Key, length: u32, now_ns: u64) -> u32 {
        if key.fragment == FragmentPlace::Later
            && let Some(flow) = self.fragments.find(key, now_ns)
        {
            return flow;
        }
        let flow = self.search(key, length);
        if key.fragment == FragmentPlace::First {
            self.fragments.enter(key, flow, now_ns);
        }
        flow
    }
}

/// Hash of a key's fields; its upper bits are the best mixed.
#[inline]
fn hash(key: &Key, class: u32) -> u64 {
    const K: u64 = 0x9e37_79b9_7f4a_7c15;
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let source = key.source as u64 ^ ((key.source >> 64) as u64).rotate_left(32);
    let destination = key.destination as u64 ^ ((key.destination >> 64) as u64).rotate_left(32);
    let rest = u64::from(key.ports) << 32
        | u64::from(key.protocol & 0xff) << 24
        | u64::from(key.vlan & 0xfff) << 12
        | u64::from(key.dscp) << 6 & 0xfff;
    let ends = fold(source ^ K, destination.wrapping_add(0x2545_f491_4f6c_dd1d));
    fold(ends ^ rest, K ^ u64::from(class)).wrapping_mul(K)
}

/// The flows of fragmented datagrams, by their first fragments.
#[derive(Debug)]
struct Fragments {
    entries: Vec<FragmentEntry>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FragmentEntry {
    source: u128,
    destination: u128,
    id: u32,
    vlan: u16,
    protocol: u16,
    flow: u32,
    /// Arrival of the first fragment; 0 for an empty entry.
    since_ns: u64,
}

const FRAGMENT_SETS: usize = 1024;
const FRAGMENT_WAYS: usize = 4;
/// Maximum age of an entry: the reassembly time of RFC 8200 §4.5.
const FRAGMENT_AGE_NS: u64 = 60_000_000_000;

impl Fragments {
    fn new(used: bool) -> Self {
        let count = if used { FRAGMENT_SETS * FRAGMENT_WAYS } else { 0 };
        Self { entries: vec![FragmentEntry::default(); count] }
    }

    fn ways(&mut self, key: &Key) -> &mut [FragmentEntry] {
        let id = Key {
            source: key.source,
            destination: key.destination,
            ports: key.fragment_id,
            protocol: key.protocol,
            vlan: key.vlan,
            ..Key::default()
        };
        let set = (hash(&id, 0) >> 52) as usize & (FRAGMENT_SETS - 1);
        &mut self.entries[set * FRAGMENT_WAYS..(set + 1) * FRAGMENT_WAYS]
    }

    fn is(entry: &FragmentEntry, key: &Key) -> bool {
        entry.since_ns != 0
            && entry.id == key.fragment_id
            && entry.source == key.source
            && entry.destination == key.destination
            && entry.protocol == key.protocol
            && entry.vlan == key.vlan
    }

    fn find(&mut self, key: &Key, now_ns: u64) -> Option<u32> {
        let entry = self.ways(key).iter().find(|entry| Self::is(entry, key))?;
        (now_ns.saturating_sub(entry.since_ns) <= FRAGMENT_AGE_NS).then_some(entry.flow)
    }

    /// Adds a datagram: in its existing slot, else in the oldest one of its set.
    fn enter(&mut self, key: &Key, flow: u32, now_ns: u64) {
        let ways = self.ways(key);
        let own = ways.iter().position(|entry| Self::is(entry, key));
        let oldest = || (0..FRAGMENT_WAYS).min_by_key(|i| ways[*i].since_ns);
        let Some(at) = own.or_else(oldest) else { return };
        ways[at] = FragmentEntry {
            source: key.source,
            destination: key.destination,
            id: key.fragment_id,
            vlan: key.vlan,
            protocol: key.protocol,
            flow,
            since_ns: now_ns.max(1),
        };
    }
}

/// Whether a filter matches a packet, field by field: the reference for the tables above.
#[cfg(test)]
fn matches(filter: &Filter, key: &Key, length: u32) -> bool {
    FIELDS.iter().all(|property| match property.accepted(filter) {
        None => true,
        Some(ranges) => property
            .value(key, length)
            .is_some_and(|value| ranges.iter().any(|(low, high)| (*low..=*high).contains(&value))),
    })
}

/// An address in the form of the key.
#[cfg(test)]
fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().into(),
        IpAddr::V6(v6) => v6.into(),
    }
}

#[cfg(test)]
mod tests;
