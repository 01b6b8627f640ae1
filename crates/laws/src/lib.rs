//! Seeded randomness: a counter-based generator, its draws, laws made of them, and seeded payload content.
//!
//! Nothing here holds global state or reads a clock: the same seed and the same place give the same value,
//! on any machine, in any order. The types you meet:
//!
//! * [`Philox`]: Philox4x32-10 under a run's seed, a function from a 128-bit counter to 128 random bits;
//! * [`Place`] and [`Draws`]: which counter belongs to which flow, direction, law, packet and draw (the
//!   layout is fixed in `docs/randomness.md`, with vectors);
//! * [`LossLaw`], [`DelayLaw`], [`Chance`], [`choose`]: the laws of the emulator;
//! * [`fill`] ([`weir_model::content::Content`]): payload bytes that a receiver can make again and compare.
//!
//! ```
//! use weir_laws::{Direction, Philox, Place, flow_hash};
//!
//! let philox = Philox::new(7);
//! let place = Place { flow: flow_hash("voice"), direction: Direction::Forward, slot: 0, packet: 1_000 };
//! let mut draws = place.draws(&philox);
//! let lost = draws.uniform() < 0.01;
//! assert_eq!(lost, place.draws(&philox).uniform() < 0.01);
//! ```

mod chance;
pub mod content;
pub mod delay;
mod draws;
pub mod loss;
mod philox;
pub mod slot;

pub use chance::{Chance, choose};
pub use content::{MAX_RATIO, RATIO_BLOCK_LEN, fill};
pub use delay::{DelayLaw, DelayMoments};
pub use draws::{Direction, Draws, MAX_SLOT, Place, flow_hash, unit_interval};
pub use loss::{LossLaw, LossMoments};
pub use philox::{Philox, philox4x32_10};
