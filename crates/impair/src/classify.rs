//! Classifies packets into flows, at a cost that hardly grows with the number of flows.
//!
//! The bounds of all filters divide each field that some filter matches on into intervals. Each interval
//! has a bit set of the flows whose filters accept it. The sets of a packet's intervals are intersected and
//! the first bit is the flow: a binary search per field and a few words for each 64 flows. As traffic
//! repeats itself, a bounded cache of results, keyed by the fields that matter, is looked up first.
//!
//! Filters on rare fields ([`rare`]) have tables of their own without a cache. They are searched when a packet is parsed, and
//! the first match of both wins.

mod property;
mod rare;
mod tables;

#[cfg(test)]
use std::net::IpAddr;

pub(crate) use rare::{RareFilters, RareMatch};

use crate::error::ImpairError;
use crate::key::{FragmentPlace, Key};
use rare::{RareFields, RarePlan, is_rare};
use tables::{Plan, Tables};
use weir_model::impairment::Filter;

/// No flow's filter matches.
pub(crate) const OTHER: u32 = u32::MAX;
/// The packet was not classified yet.
pub(crate) const UNCLASSIFIED: u32 = u32::MAX - 2;

/// Maximum memory for the tables of one direction: enough for about 30 000 flows that differ in one port
/// each.
const MAX_TABLE_BYTES: u64 = 256 << 20;

/// Classifier by the filters of one direction.
#[derive(Debug)]
pub(crate) struct Classifier {
    /// Filters on fields of the key alone.
    common: Tables,
    rare: Option<Box<RareFilters>>,
    needs_keys: bool,
    cache: Vec<Cached>,
    fragments: Fragments,
}

#[derive(Clone, Copy, Debug)]
struct Cached {
    key: Key,
    /// Interval of the length.
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
            common: Tables::default(),
            rare: None,
            needs_keys: false,
            cache: vec![],
            fragments: Fragments::new(false),
        }
    }

    /// A classifier by these filters; the first match wins.
    pub(crate) fn new(filters: &[Filter]) -> Result<Self, ImpairError> {
        let numbered: Vec<(u32, &Filter)> = (0..).zip(filters).collect();
        let common: Vec<_> = numbered.iter().filter(|(_, f)| !is_rare(f)).copied().collect();
        let (common, rare) = (Plan::new(&common), RarePlan::new(&numbered));
        let bytes = common.bytes() + rare.as_ref().map_or(0, RarePlan::bytes);
        if bytes > MAX_TABLE_BYTES {
            let (flows, most) = (filters.len(), MAX_TABLE_BYTES);
            return Err(ImpairError::TablesTooLarge { flows, bytes, most });
        }
        let common = common.tables();
        let rare = rare.map(|plan| Box::new(plan.filters()));
        let entry = Cached { key: Key::default(), length: 0, flow: EMPTY };
        let cache = if common.is_trivial() { vec![] } else { vec![entry; CACHE_SETS * 2] };
        let needs_keys = !common.is_trivial() || rare.is_some();
        Ok(Self { common, rare, needs_keys, cache, fragments: Fragments::new(needs_keys) })
    }

    /// Whether packets must be parsed at all.
    #[inline]
    pub(crate) fn needs_keys(&self) -> bool {
        self.needs_keys
    }

    /// The filters on rare fields.
    #[inline]
    pub(crate) fn rare(&self) -> Option<&RareFilters> {
        self.rare.as_deref()
    }

    /// The flow of a packet at `now_ns`, or [`OTHER`].
    #[inline]
    pub(crate) fn flow(&mut self, key: &Key, length: u32, rare: RareMatch, now_ns: u64) -> u32 {
        if !self.needs_keys {
            return self.common.first();
        }
        if key.fragment != FragmentPlace::Whole {
            return self.fragment(key, length, rare, now_ns);
        }
        rare.of_packet(rare.of_datagram(self.common_flow(key, length)))
    }

    /// The first match among the filters on fields of the key, or [`OTHER`].
    #[inline]
    fn common_flow(&mut self, key: &Key, length: u32) -> u32 {
        if self.common.is_trivial() {
            return self.common.first();
        }
        let class = self.common.length_class(key, length);
        let set = (hash(key, class) >> 52) as usize & (CACHE_SETS - 1);
        let pair = &mut self.cache[set * 2..set * 2 + 2];
        if pair[0].flow != EMPTY && pair[0].length == class && pair[0].key == *key {
            return pair[0].flow;
        }
        if pair[1].flow != EMPTY && pair[1].length == class && pair[1].key == *key {
            pair.swap(0, 1);
            return pair[0].flow;
        }
        let flow = self.search(None, key, length);
        let pair = &mut self.cache[set * 2..set * 2 + 2];
        pair[1] = pair[0];
        pair[0] = Cached { key: *key, length: class, flow };
        flow
    }

    /// The first flow that matches a frame and names its exempt role, or [`OTHER`].
    #[cold]
    pub(crate) fn naming(&self, role: usize, key: &Key, length: u32, rare: RareMatch) -> u32 {
        rare.of_packet(rare.of_datagram(self.search(Some(role), key, length)))
    }

    /// The first match among the filters on fields of the key, from the tables.
    fn search(&self, role: Option<usize>, key: &Key, length: u32) -> u32 {
        self.common.search(role, key, length, &RareFields::NONE, |_| true)
    }

    #[cold]
    fn fragment(&mut self, key: &Key, length: u32, rare: RareMatch, now_ns: u64) -> u32 {
        let known = match key.fragment {
            FragmentPlace::Later => self.fragments.find(key, now_ns),
            _ => None,
        };
        let datagram = known.unwrap_or_else(|| rare.of_datagram(self.search(None, key, length)));
        if key.fragment == FragmentPlace::First {
            self.fragments.enter(key, datagram, now_ns);
        }
        rare.of_packet(datagram)
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

/// Whether a filter matches a packet, field by field: the reference for the tables.
#[cfg(test)]
fn matches(filter: &Filter, key: &Key, length: u32) -> bool {
    property::FIELDS.iter().all(|property| {
        let value = property.value(key, length, &RareFields::NONE);
        property.accepted(filter).is_none_or(|accepted| accepted.contains(value))
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
