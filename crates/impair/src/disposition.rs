//! The engine's input ([`Meta`]) and output ([`Disposition`]) for a packet.

use crate::classify::RareMatch;
use crate::key::{Key, Layers};
use crate::role::Role;
use weir_laws::Direction;
use weir_wire::packets;

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
    /// Which of the engine's [`Conditions`](crate::trigger::Conditions) it matches, by bit.
    pub(crate) conditions: u32,
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
            conditions: 0,
            role,
        }
    }

    /// An ordinary packet of which only the length is known: sufficient if no filter and no content law needs its
    /// bytes.
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
            conditions: 0,
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
    /// A loss law dropped it.
    Lost,
    /// The planned queue had no room.
    QueueDropped,
    /// There was no memory to queue it, or it was abandoned at the end.
    Unplanned,
    /// A copy was made: one more disposition with this handle follows. Not final.
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
    /// Index of its edit among those of this step; meaningful with [`FLAG_MODIFIED`] or [`FLAG_MARKED`].
    pub edit: u32,
    /// The outcome.
    pub verdict: Verdict,
    /// 0 for the packet itself, else the number of the copy.
    pub copy: u8,
    /// [`FLAG_MODIFIED`], [`FLAG_REORDERED`], [`FLAG_MARKED`], [`FLAG_DELAYED`], [`FLAG_CONTROL`], [`FLAG_EXEMPT`].
    pub flags: u8,
}

impl Disposition {
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
