//! The tables that find the first of many filters that a packet matches.

use weir_model::impairment::Filter;

use super::OTHER;
use super::property::{Accepted, FIELDS, Property};
use super::rare::RareFields;
use crate::key::Key;
use crate::role::Role;

/// A field's intervals: their starts, ascending from 0, and the flows of each.
#[derive(Debug)]
struct Field {
    property: Property,
    starts: Vec<u128>,
    /// Bit sets of `words` for each interval, then one for packets without the field.
    sets: Vec<u64>,
}

/// A field's interval bounds, computed before the total size of the tables is checked.
struct Bounds {
    property: Property,
    accepted: Vec<Option<Accepted>>,
    starts: Vec<u128>,
}

impl Bounds {
    fn new(property: Property, filters: &[(u32, &Filter)]) -> Option<Self> {
        let accepted: Vec<_> =
            filters.iter().map(|(_, filter)| property.accepted(filter)).collect();
        if accepted.iter().all(Option::is_none) {
            return None;
        }
        let mut starts = vec![0];
        for (low, high) in accepted.iter().flatten().flat_map(|accepted| &accepted.ranges) {
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
    fn new(bounds: Bounds, words: usize) -> Self {
        let Bounds { property, accepted, starts } = bounds;
        let mut sets = vec![0u64; (starts.len() + 1) * words];
        for (flow, accepted) in accepted.iter().enumerate() {
            let mut set = |interval: usize| {
                sets[interval * words + flow / 64] |= 1 << (flow % 64);
            };
            let Some(accepted) = accepted else {
                (0..=starts.len()).for_each(set);
                continue;
            };
            for (low, high) in &accepted.ranges {
                let from = starts.partition_point(|start| start < low);
                let to = starts.partition_point(|start| start <= high);
                (from..to).for_each(&mut set);
            }
            if accepted.absent {
                set(starts.len());
            }
        }
        Self { property, starts, sets }
    }

    /// Number of the interval that a packet lies in.
    #[inline]
    fn interval(&self, key: &Key, length: u32, rare: &RareFields) -> usize {
        match self.property.value(key, length, rare) {
            Some(value) => self.starts.partition_point(|start| *start <= value) - 1,
            None => self.starts.len(),
        }
    }
}

/// The interval bounds of some filters.
pub(super) struct Plan {
    numbers: Vec<u32>,
    words: usize,
    bounds: Vec<Bounds>,
    naming: Vec<u64>,
}

impl Plan {
    /// Filters with their numbers, in rising order.
    pub(super) fn new(filters: &[(u32, &Filter)]) -> Self {
        let words = filters.len().div_ceil(64);
        let mut naming = vec![0u64; words * Role::EXEMPT.len()];
        for (place, role) in Role::EXEMPT.into_iter().enumerate() {
            for (flow, _) in filters.iter().enumerate().filter(|(_, f)| role.is_named_by(f.1)) {
                naming[place * words + flow / 64] |= 1 << (flow % 64);
            }
        }
        Self {
            numbers: filters.iter().map(|(number, _)| *number).collect(),
            words,
            bounds: FIELDS.iter().filter_map(|field| Bounds::new(*field, filters)).collect(),
            naming,
        }
    }

    /// Size of the tables, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bounds.iter().map(|bounds| bounds.bytes(self.words)).sum()
    }

    pub(super) fn tables(self) -> Tables {
        let Self { numbers, words, bounds, naming } = self;
        let fields: Vec<Field> =
            bounds.into_iter().map(|bounds| Field::new(bounds, words)).collect();
        let length = fields.iter().position(|field| field.property == Property::Length);
        Tables { fields, words, numbers, length, naming }
    }
}

/// Tables of some filters.
#[derive(Debug, Default)]
pub(super) struct Tables {
    fields: Vec<Field>,
    words: usize,
    /// The number of each filter.
    numbers: Vec<u32>,
    /// Position of the length among `fields`.
    length: Option<usize>,
    /// Bit sets of `words` for each exempt role: the flows whose filters name its frames.
    naming: Vec<u64>,
}

impl Tables {
    /// Whether no filter matches on any field.
    #[inline]
    pub(super) fn is_trivial(&self) -> bool {
        self.fields.is_empty()
    }

    /// The first filter's number, or [`OTHER`].
    #[inline]
    pub(super) fn first(&self) -> u32 {
        self.numbers.first().copied().unwrap_or(OTHER)
    }

    /// The interval of the length; 0 if no filter matches on it.
    #[inline]
    pub(super) fn length_class(&self, key: &Key, length: u32) -> u32 {
        match self.length {
            Some(field) => self.fields[field].interval(key, length, &RareFields::NONE) as u32,
            None => 0,
        }
    }

    /// The number of the first filter in every field's set that `passes` (by its position), or [`OTHER`]. Of a frame in an
    /// exempt role, only filters that name the role match.
    #[inline]
    pub(super) fn search(
        &self,
        role: Option<usize>,
        key: &Key,
        length: u32,
        rare: &RareFields,
        passes: impl Fn(usize) -> bool,
    ) -> u32 {
        let mut at = [0usize; FIELDS.len()];
        for (at, field) in at.iter_mut().zip(&self.fields) {
            *at = field.interval(key, length, rare) * self.words;
        }
        for word in 0..self.words {
            let mut bits = match role {
                Some(role) => self.naming[role * self.words + word],
                None => u64::MAX,
            };
            for (at, field) in at.iter().zip(&self.fields) {
                bits &= field.sets[at + word];
                if bits == 0 {
                    break;
                }
            }
            while bits != 0 {
                let position = word * 64 + bits.trailing_zeros() as usize;
                // Without fields, the bits after the last filter are set too.
                let Some(number) = self.numbers.get(position) else { break };
                if passes(position) {
                    return *number;
                }
                bits &= bits - 1;
            }
        }
        OTHER
    }
}
