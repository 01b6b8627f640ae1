//! The engine's input ([`Meta`]) and output ([`Disposition`]) for a packet.

use crate::classify::{RareMatch, UNCLASSIFIED};
use crate::key::{Key, Layers};
use crate::role::Role;
use weir_laws::Direction;
use weir_wire::packet::{Ethernet, Ipv4, ethertype};
use weir_wire::{fragment::Part, packets, too_big};

/// What may be done with a packet that is longer than an MTU limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TooLongPacket(u8);

impl TooLongPacket {
    /// An IP packet that can't be fragmented, and that is not answered.
    const DROPPED: Self = Self(1);
    /// Bit: an ICMP message may be sent about it.
    const ANSWERED: u8 = 128;
    /// The first of the values that fragmented packets have: then come the lengths of the IP header by 4 bytes, for each number of tags.
    const FRAGMENTED: u8 = 2;
    const HEADERS: u8 = 11;

    fn of_frame(frame: &[u8], has_trailer: bool) -> Self {
        let answered = if too_big::is_answered(frame) { Self::ANSWERED } else { 0 };
        let headers = Ethernet::new(frame).ok().filter(|view| view.ethertype() == ethertype::IPV4);
        let headers = headers.and_then(|view| {
            let ip =
                Ipv4::new(view.payload()).ok().filter(|ip| !ip.dont_fragment() && !has_trailer)?;
            let tags = (view.header_len() - MIN_L3) / 4;
            Some(tags as u8 * Self::HEADERS + (ip.header_len() / 4 - 5) as u8)
        });
        Self(answered | headers.map_or(Self::DROPPED.0, |headers| Self::FRAGMENTED + headers))
    }

    /// Whether the limit applies to it.
    #[inline]
    pub(crate) fn is_ip(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn is_answered(self) -> bool {
        self.0 & Self::ANSWERED != 0
    }

    /// Bytes of the headers that each fragment has: up to the IP header, and of this; `None` if it can't be fragmented.
    pub(crate) fn headers(self) -> Option<(u32, u32)> {
        let headers = (self.0 & !Self::ANSWERED).checked_sub(Self::FRAGMENTED)?;
        let (tags, words) = (headers / Self::HEADERS, headers % Self::HEADERS + 5);
        Some((MIN_L3 as u32 + 4 * u32::from(tags), 4 * u32::from(words)))
    }
}

/// Bytes of an Ethernet header without tags.
const MIN_L3: usize = 14;
// Each number of tags and length of the header has a value.
const _: () = assert!(2 + 11 * (weir_wire::packet::MAX_VLAN_TAGS + 1) <= 128);

/// The fragment of a packet that a disposition is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fragment(u8);

impl Fragment {
    const LAST: u8 = 128;
    /// Maximum number of fragments of a packet.
    pub(crate) const MAX: u32 = 127;

    /// Fragment `number`, from 0, below [`MAX`](Self::MAX).
    pub(crate) fn new(number: u32, is_last: bool) -> Self {
        Self((number + 1) as u8 | if is_last { Self::LAST } else { 0 })
    }

    /// Whether it is a fragment, and not a whole packet.
    #[inline]
    #[must_use]
    pub fn is_some(self) -> bool {
        self.0 != 0
    }

    /// Whether it is one after the first.
    #[inline]
    #[must_use]
    pub fn is_later(self) -> bool {
        self.0 & !Self::LAST > 1
    }

    /// The part of the packet's data.
    fn part(self, frame_bytes: u32) -> Option<Part> {
        let number = u32::from(self.0 & !Self::LAST).checked_sub(1)?;
        Some(Part { number, frame_bytes, is_last: self.0 & Self::LAST != 0 })
    }
}

/// A packet as the engine sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// The owner's handle; returned with each disposition.
    pub handle: u32,
    /// Bytes of the frame, without check sequence.
    pub length: u32,
    /// Arrival time, ns: the base of every deadline. Stamps should not decrease; an earlier one is used unchanged,
    /// but the packet keeps its place in the order.
    pub arrived_ns: u64,
    /// Where its layers begin.
    pub(crate) layers: Layers,
    /// Fields that filters match on.
    pub(crate) key: Key,
    /// What filters on other fields match.
    pub(crate) rare: RareMatch,
    /// Bytes of the IP packet, and what may be done with it if that is too long; only if the configuration has an MTU limit.
    pub(crate) ip_bytes: u32,
    pub(crate) too_long: TooLongPacket,
    /// Which of the engine's [`Conditions`](crate::trigger::Conditions) it matches, by bit.
    pub(crate) conditions: u32,
    /// The filter that it matches, [`OTHER`](crate::classify::OTHER) or [`UNCLASSIFIED`]. Packets are classified once: a fragment
    /// is classified by those before it.
    pub class: u32,
    /// How it is treated.
    pub role: Role,
}

impl Meta {
    /// A packet with the fields of its key parsed; [`crate::Engine::meta`] parses as far as its configuration
    /// needs.
    #[inline]
    #[must_use]
    pub(crate) fn of_frame(handle: u32, arrived_ns: u64, frame: &[u8], native_port: u16) -> Self {
        let (key, layers) = Key::of_frame(frame);
        let role = Role::of(&key, &layers, frame, native_port);
        Self {
            handle,
            length: frame.len() as u32,
            arrived_ns,
            layers,
            key,
            rare: RareMatch::NONE,
            ip_bytes: 0,
            too_long: TooLongPacket::default(),
            conditions: 0,
            class: UNCLASSIFIED,
            role,
        }
    }

    /// Adds what an MTU limit of `mtu` bytes or more needs.
    pub(crate) fn limited_to(&mut self, mtu: u32, frame: &[u8]) {
        self.ip_bytes = if self.key.is_ip() { self.layers.end - self.layers.l3 } else { 0 };
        if self.ip_bytes > mtu {
            let has_trailer = self.layers.end != self.length;
            self.too_long = TooLongPacket::of_frame(frame, has_trailer);
        }
    }

    /// A packet that differs from this one in its length alone, as the segments of a super-packet do.
    #[inline]
    #[must_use]
    pub(crate) fn of_length(&self, length: u32) -> Self {
        let changed = |at: u32| if at == self.length { length } else { at };
        let Layers { l3, l4, payload, end } = self.layers;
        let ip_bytes = self.ip_bytes.saturating_add(length).saturating_sub(self.length);
        Self {
            length,
            layers: Layers {
                l3: changed(l3),
                l4: changed(l4),
                payload: changed(payload),
                end: changed(end),
            },
            ip_bytes,
            ..*self
        }
    }

    /// An ordinary packet of which only the length is known: sufficient if no filter and no content law needs its
    /// bytes. An MTU limit takes it for an IP packet that can't be fragmented, in an untagged frame.
    #[inline]
    #[must_use]
    pub fn opaque(handle: u32, arrived_ns: u64, length: u32) -> Self {
        let layers = Layers { l3: length, l4: length, payload: length, end: length };
        Self {
            handle,
            length,
            arrived_ns,
            layers,
            key: Key::default(),
            rare: RareMatch::NONE,
            ip_bytes: length.saturating_sub(MIN_L3 as u32),
            too_long: TooLongPacket::DROPPED,
            conditions: 0,
            class: UNCLASSIFIED,
            role: Role::Ordinary,
        }
    }
}

/// The outcome for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Verdict {
    /// Send it now.
    Forwarded,
    /// A loss law, a policer or an MTU limit dropped it.
    Lost,
    /// The planned queue had no room.
    QueueDropped,
    /// There was no memory to queue it, or it was abandoned at the end.
    Unplanned,
    /// A copy or a fragment was made: one more disposition with this handle follows. Not final.
    Copied,
}

impl Verdict {
    /// The kind of record in `weir.packets/1`; a copy has none of its own.
    #[must_use]
    pub const fn kind(self) -> Option<packets::RecordKind> {
        match self {
            Verdict::Forwarded => Some(packets::RecordKind::FORWARDED),
            Verdict::Lost => Some(packets::RecordKind::LOST),
            Verdict::QueueDropped => Some(packets::RecordKind::QUEUE_DROPPED),
            Verdict::Unplanned => Some(packets::RecordKind::UNPLANNED),
            Verdict::Copied => None,
        }
    }
}

/// Flag of a [`Disposition`]: its [`Edit`](crate::Edit) is to be applied.
pub const FLAG_MODIFIED: u8 = packets::FLAG_MODIFIED as u8;
/// Flag of a [`Disposition`]: it leaves after a later packet of its flow.
pub const FLAG_REORDERED: u8 = packets::FLAG_REORDERED as u8;
/// Flag of a [`Disposition`]: a law marked it Congestion Experienced; its [`Edit`](crate::Edit) is to be applied.
pub const FLAG_MARKED: u8 = packets::FLAG_MARKED as u8;
/// Flag of a [`Disposition`]: a delay law delayed it.
pub const FLAG_DELAYED: u8 = packets::FLAG_DELAYED as u8;

/// Flag of a [`Disposition`]: its [role](Role::Control) is control traffic, with draws of its own.
pub const FLAG_CONTROL: u8 = packets::FLAG_CONTROL as u8;
/// Flag of a [`Disposition`]: it is exempt from laws, and counted in [`Exempt`](crate::Exempt) alone. Its
/// flow and index are meaningless.
pub const FLAG_EXEMPT: u8 = 128;

/// The flow of frames that belong to none.
const NO_FLOW: u32 = u32::MAX;

/// What to do with a packet, or what happened to it.
///
/// Each handle is returned once, and once more for each [`Verdict::Copied`]: the owner keeps a count that starts at
/// 1, adds 1 for `Copied`, and subtracts 1 for every other verdict; at 0 the handle is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disposition {
    /// The owner's handle.
    pub handle: u32,
    /// Number of the flow (see [`Engine::flows`](crate::Engine::flows)).
    pub flow: u32,
    /// Index of the packet in its flow and direction, from 0.
    pub index: u64,
    /// Arrival time.
    pub arrived_ns: u64,
    /// Planned departure; for a dropped packet, the time of that decision.
    pub at_ns: u64,
    /// Bytes of the frame.
    pub length: u32,
    /// If it leaves, the number of its edit among those of this step, from 1. With [`Verdict::Lost`] the MTU that an ICMP message reports
    /// to its sender. Otherwise 0.
    pub edit: u32,
    /// The outcome.
    pub verdict: Verdict,
    /// 0 for the packet itself, else the number of the copy.
    pub copy: u8,
    /// Which fragment of the packet leaves, if any. Then `length` is that of the fragment.
    pub fragment: Fragment,
    /// [`FLAG_MODIFIED`], [`FLAG_REORDERED`], [`FLAG_MARKED`], [`FLAG_DELAYED`], [`FLAG_CONTROL`], [`FLAG_EXEMPT`].
    pub flags: u8,
}

impl Disposition {
    /// That of a frame which the owner sends itself, such as an ICMP message: no flow counts it.
    #[must_use]
    pub fn of_message(length: u32, now_ns: u64) -> Self {
        Self {
            handle: 0,
            flow: NO_FLOW,
            index: 0,
            arrived_ns: now_ns,
            at_ns: now_ns,
            length,
            edit: 0,
            verdict: Verdict::Forwarded,
            copy: 0,
            fragment: Fragment::default(),
            flags: FLAG_EXEMPT,
        }
    }

    /// Whether it is that of a frame which the owner sends itself.
    #[inline]
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.flow == NO_FLOW
    }

    /// The MTU that an ICMP message reports to the packet's sender ([`weir_wire::too_big`]).
    #[inline]
    #[must_use]
    pub fn reported_mtu(&self) -> Option<u32> {
        (self.verdict == Verdict::Lost && self.edit != 0).then_some(self.edit)
    }

    /// The part of the packet that leaves, if it is a fragment.
    #[inline]
    #[must_use]
    pub fn part(&self) -> Option<Part> {
        self.fragment.part(self.length)
    }

    /// The record of `weir.packets/1`; `departed_ns` is the actual departure, if known. `None` for
    /// [`Verdict::Copied`] and for exempt frames.
    #[must_use]
    pub fn record(
        &self,
        direction: Direction,
        departed_ns: Option<u64>,
    ) -> Option<packets::Record> {
        if self.flags & FLAG_EXEMPT != 0 {
            return None;
        }
        Some(packets::Record {
            sequence: self.index,
            time1_ns: Some(self.arrived_ns),
            time2_ns: if self.verdict == Verdict::Forwarded { departed_ns } else { None },
            flow: self.flow,
            size_bytes: self.length,
            copy: self.copy.into(),
            kind: self.verdict.kind()?,
            direction: direction as u8,
            flags: self.flags.into(),
        })
    }
}
