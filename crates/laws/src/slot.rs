//! The numbers of the law slots, as fixed in `docs/randomness.md`.

/// Loss.
pub const LOSS: u8 = 0;
/// Duplication.
pub const DUPLICATE: u8 = 1;
/// Rate and queue.
pub const RATE: u8 = 2;
/// Delay and jitter.
pub const DELAY: u8 = 3;
/// Content.
pub const CONTENT: u8 = 4;
/// Clearing of the ECN field.
pub const BLEACH: u8 = 5;
/// Reordering.
pub const REORDER: u8 = 6;
/// Time slots.
pub const BATCH: u8 = 7;
/// Background load of a link.
pub const BACKGROUND: u8 = 8;
/// Payload sizes of a generated flow.
pub const SIZE: u8 = 16;
/// Intervals between packets of a generated flow.
pub const SPACING: u8 = 17;
/// Pauses between the transfers of a generated flow.
pub const PAUSE: u8 = 18;
/// Numbers of objects of the pages of a generated flow.
pub const OBJECTS: u8 = 19;
/// Added to a slot's number for control traffic of a Weir test, whose packets have indices of their own.
pub const CONTROL: u8 = 64;
