//! Filters on fields that few filters need: their packets are parsed further, and their results are not cached.

use std::sync::atomic::{AtomicU32, Ordering};

use weir_model::impairment::{BytesAt, Condition, Filter, MacAddresses, MacPrefix, Region};
use weir_wire::bpf::Program;
use weir_wire::packet::{Ethernet, ethertype, protocol};

use super::property::{COMMON_FIELDS, FIELDS, Property};
use super::tables::{Plan, Tables};
use super::{OTHER, hash};
use crate::key::{FragmentPlace, Key, Layers};

/// EtherTypes of MPLS (RFC 3032, RFC 5332).
const MPLS: [u16; 2] = [0x8847, 0x8848];
const MPLS_ENTRY_LEN: u32 = 4;
const ICMP_HEADER_LEN: u32 = 8;

/// The fields of a packet that are parsed only for such filters; `None` if the packet does not have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RareFields {
    pub(super) source_mac: Option<u64>,
    pub(super) destination_mac: Option<u64>,
    pub(super) vlan_priority: Option<u8>,
    pub(super) inner_vlan: Option<u16>,
    pub(super) inner_vlan_priority: Option<u8>,
    pub(super) mpls_label: Option<u32>,
    pub(super) tcp_flags: Option<u16>,
    /// Type × 256 + code.
    pub(super) icmp: Option<u16>,
    pub(super) icmpv6: Option<u16>,
    /// Position of the connection among all, of 2^32.
    pub(super) connection: Option<u32>,
    /// Position of the packet among all, of 2^32.
    pub(super) packet: Option<u32>,
}

impl RareFields {
    /// A packet of which these fields are not needed.
    pub(super) const NONE: Self = Self {
        source_mac: None,
        destination_mac: None,
        vlan_priority: None,
        inner_vlan: None,
        inner_vlan_priority: None,
        mpls_label: None,
        tcp_flags: None,
        icmp: None,
        icmpv6: None,
        connection: None,
        packet: None,
    };

    fn of_frame(frame: &[u8], key: &Key, layers: &Layers, number: u32) -> Self {
        let mut fields = Self::NONE;
        fields.connection = key.is_ip().then(|| connection_position(key));
        fields.packet = Some(packet_position(number));
        let Ok(ethernet) = Ethernet::new(frame) else { return fields };
        let mac = |bytes: [u8; 6]| bytes.iter().fold(0, |mac, byte| mac << 8 | u64::from(*byte));
        fields.source_mac = Some(mac(ethernet.source()));
        fields.destination_mac = Some(mac(ethernet.destination()));
        let mut tags = ethernet.vlan_tags();
        fields.vlan_priority = tags.next().map(|tag| tag.priority);
        if let Some(tag) = tags.next() {
            fields.inner_vlan = Some(tag.id);
            fields.inner_vlan_priority = Some(tag.priority);
        }
        let be16 = |at: u32| {
            let bytes = frame.get(at as usize..)?.first_chunk()?;
            Some(u16::from_be_bytes(*bytes))
        };
        if MPLS.contains(&key.ethertype) && layers.l3 + MPLS_ENTRY_LEN <= layers.end {
            let (high, low) = (be16(layers.l3), be16(layers.l3 + 2));
            fields.mpls_label =
                high.zip(low).map(|(high, low)| u32::from(high) << 4 | u32::from(low >> 12));
        }
        if key.fragment == FragmentPlace::Later {
            return fields;
        }
        let has_icmp_header = layers.l4 + ICMP_HEADER_LEN <= layers.end;
        match (u8::try_from(key.protocol), key.ethertype) {
            // A complete header.
            (Ok(protocol::TCP), _) if key.has_ports => {
                fields.tcp_flags = be16(layers.l4 + 12).map(|word| word & 0x1ff);
            }
            (Ok(protocol::ICMP), ethertype::IPV4) if has_icmp_header => {
                fields.icmp = be16(layers.l4);
            }
            (Ok(protocol::ICMPV6), ethertype::IPV6) if has_icmp_header => {
                fields.icmpv6 = be16(layers.l4);
            }
            _ => {}
        }
        fields
    }
}

/// Position of a connection among all, of 2^32: a hash that is the same in both directions.
fn connection_position(key: &Key) -> u32 {
    let (from, to) = ((key.source, key.ports >> 16), (key.destination, key.ports & 0xffff));
    let (low, high) = if from <= to { (from, to) } else { (to, from) };
    let ports = low.1 << 16 | high.1;
    let ends = Key { source: low.0, destination: high.0, ports, ..Key::default() };
    let hashed = Key { protocol: key.protocol, ..ends };
    (hash(&hashed, 0) >> 32) as u32
}

/// Position of a packet among all, of 2^32: multiples of the golden ratio are spread so evenly that each share gets its
/// packets in turns (Weyl, 1916).
fn packet_position(number: u32) -> u32 {
    number.wrapping_mul(0x9e37_79b9)
}

/// A condition that is not a set of intervals.
#[derive(Debug)]
enum Rest {
    Mac(Property, Condition<MacAddresses>),
    Bytes(Condition<BytesAt>),
    /// `None` of an expression without a valid program, which [`crate::prepared`] has refused: it matches nothing.
    Pcap(Option<Program>),
}

impl Rest {
    fn of(filter: &Filter) -> Vec<Self> {
        let macs = [Property::SourceMac, Property::DestinationMac].into_iter().filter_map(|of| {
            let condition = of.mac(filter).filter(|condition| condition.value.ranges().is_none());
            Some(Rest::Mac(of, condition?.clone()))
        });
        let pcap = filter.pcap.as_ref().map(|expression| {
            Rest::Pcap(expression.program().and_then(|program| Program::new(program).ok()))
        });
        macs.chain(filter.bytes.clone().map(Rest::Bytes)).chain(pcap).collect()
    }

    fn matches(&self, packet: &Packet) -> bool {
        match self {
            Rest::Mac(of, condition) => {
                let mac = match of {
                    Property::SourceMac => packet.rare.source_mac,
                    _ => packet.rare.destination_mac,
                };
                let is = |one: &MacPrefix| mac.is_some_and(|mac| mac & one.mask == one.address);
                condition.value.0.iter().any(is) != condition.negated
            }
            Rest::Bytes(condition) => packet.has(&condition.value) != condition.negated,
            Rest::Pcap(program) => program.as_ref().is_some_and(|p| p.run(packet.frame) != 0),
        }
    }
}

/// A packet with its rare fields.
struct Packet<'a> {
    frame: &'a [u8],
    key: &'a Key,
    layers: &'a Layers,
    rare: RareFields,
}

impl Packet<'_> {
    /// Whether the packet has these bytes; not if it ends before them or has no such layer.
    fn has(&self, bytes: &BytesAt) -> bool {
        let has_transport = self.key.fragment != FragmentPlace::Later;
        let start = match bytes.region {
            Region::L2 => 0,
            Region::L3 => self.layers.l3,
            Region::L4 | Region::Payload if !has_transport => return false,
            Region::L4 => self.layers.l4,
            Region::Payload => self.layers.payload,
        };
        let from = start as usize + bytes.offset as usize;
        let Some(there) = self.frame.get(from..self.layers.end as usize) else { return false };
        let mut rest = there.iter();
        bytes
            .pattern
            .bytes()
            .all(|(value, mask)| rest.next().is_some_and(|byte| (byte ^ value) & mask == 0))
    }
}

/// The first filters on rare fields that match a packet, by number, or [`OTHER`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RareMatch {
    /// Of those without a condition on fragments: later fragments follow the first one.
    flow: u32,
    /// Of those with one: each fragment has its own.
    by_fragment: u32,
}

impl RareMatch {
    /// No such filter matches.
    pub(crate) const NONE: Self = Self { flow: OTHER, by_fragment: OTHER };

    /// The flow of a datagram, given the one by all other filters.
    #[inline]
    pub(super) fn of_datagram(self, common: u32) -> u32 {
        common.min(self.flow)
    }

    /// The flow of a packet, given the one of its datagram.
    #[inline]
    pub(super) fn of_packet(self, datagram: u32) -> u32 {
        datagram.min(self.by_fragment)
    }
}

/// Tables of some filters, and what their conditions have beyond intervals.
#[derive(Debug)]
struct Group {
    tables: Tables,
    rest: Vec<Vec<Rest>>,
}

impl Group {
    fn search(&self, role: Option<usize>, packet: &Packet) -> u32 {
        let passes = |position: usize| self.rest[position].iter().all(|one| one.matches(packet));
        let length = packet.frame.len() as u32;
        self.tables.search(role, packet.key, length, &packet.rare, passes)
    }
}

/// Filters with conditions on rare fields, before the total size of the tables is checked.
pub(super) struct RarePlan {
    plans: [(Plan, Vec<Vec<Rest>>); 2],
}

impl RarePlan {
    /// `None` without such filters.
    pub(super) fn new(filters: &[(u32, &Filter)]) -> Option<Self> {
        let group = |by_fragment: bool| {
            let of = |filter: &Filter| is_rare(filter) && filter.fragment.is_some() == by_fragment;
            let filters: Vec<_> = filters.iter().filter(|(_, f)| of(f)).copied().collect();
            (Plan::new(&filters), filters.iter().map(|(_, filter)| Rest::of(filter)).collect())
        };
        filters.iter().any(|(_, f)| is_rare(f)).then(|| Self { plans: [group(false), group(true)] })
    }

    /// Size of the tables, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.plans.iter().map(|(plan, _)| plan.bytes()).sum()
    }

    pub(super) fn filters(self) -> RareFilters {
        let group = |(plan, rest): (Plan, _)| Group { tables: plan.tables(), rest };
        let [flow, by_fragment] = self.plans.map(group);
        RareFilters { flow, by_fragment, packets: AtomicU32::new(0) }
    }
}

/// The filters with conditions on rare fields.
#[derive(Debug)]
pub(crate) struct RareFilters {
    flow: Group,
    by_fragment: Group,
    /// Number of packets so far, for shares of them.
    packets: AtomicU32,
}

impl RareFilters {
    /// Those of some filters; `None` if there are none.
    pub(crate) fn of(filters: &[Filter]) -> Option<Self> {
        let numbered: Vec<_> = (0..).zip(filters).collect();
        RarePlan::new(&numbered).map(RarePlan::filters)
    }

    /// The match of a single filter, given whether it matches.
    pub(crate) fn single(&self, is_match: bool) -> RareMatch {
        match (is_match, self.flow.rest.is_empty()) {
            (false, _) => RareMatch::NONE,
            (true, false) => RareMatch { flow: 0, ..RareMatch::NONE },
            (true, true) => RareMatch { by_fragment: 0, ..RareMatch::NONE },
        }
    }

    /// The first that match a frame; of a frame in an exempt role, only filters that name the role match.
    // Apart from the path of packets without such filters.
    #[inline(never)]
    pub(crate) fn matching(
        &self,
        role: Option<usize>,
        frame: &[u8],
        key: &Key,
        layers: &Layers,
    ) -> RareMatch {
        let number = self.packets.fetch_add(1, Ordering::Relaxed);
        let rare = RareFields::of_frame(frame, key, layers, number);
        let packet = Packet { frame, key, layers, rare };
        RareMatch {
            flow: self.flow.search(role, &packet),
            by_fragment: self.by_fragment.search(role, &packet),
        }
    }
}

/// Whether a filter has a condition on a field that is not in the key, or on fragments.
pub(super) fn is_rare(filter: &Filter) -> bool {
    FIELDS[COMMON_FIELDS..].iter().any(|field| field.accepted(filter).is_some())
        || !Rest::of(filter).is_empty()
}
