//! Seeded randomness: a counter-based generator, its draws, and the functions that laws build on them.
//!
//! Nothing here holds global state or reads a clock: the same seed and the same position give the same value,
//! on any machine, in any order. The main types:
//!
//! * [`Philox`]: Philox4x32-10 under a run's seed, a function from a 128-bit counter to 128 random bits;
//! * [`DrawPosition`] and [`Draws`]: which counter belongs to which flow, direction, law, packet and draw (the
//!   layout is fixed in `docs/randomness.md`, with vectors);
//! * [`Chance`], [`WeightedChoice`], [`choose`], [`normal_quantile`], [`QuantileTable`], [`Copula`], [`Geometric`]: decisions, choices and quantiles that
//!   round alike on every machine;
//! * [`clamped_moments`]: mean and standard deviation of what such draws give.
//!
//! ```
//! use weir_laws::{Chance, Direction, DrawPosition, Philox, flow_hash};
//!
//! let philox = Philox::new(7);
//! let position = DrawPosition { flow: flow_hash("voice"), direction: Direction::Forward, slot: 0, packet: 1_000 };
//! let mut draws = position.draws(&philox);
//! let chance = Chance::percent(1.0);
//! let lost = chance.happens(draws.bits());
//! assert_eq!(lost, chance.happens(position.draws(&philox).bits()));
//! ```

mod chance;
mod copula;
mod draws;
mod geometric;
mod moments;
#[doc(hidden)]
pub mod mutation;
mod philox;
mod quantile;
#[cfg(test)]
#[allow(clippy::approx_constant, reason = "quantiles may be near one")]
mod scipy;
pub mod slot;
mod table;
mod tails;
mod weighted;

pub use chance::{Chance, choose};
pub use copula::Copula;
pub use draws::{Direction, DrawPosition, Draws, flow_hash};
pub use geometric::Geometric;
pub use moments::clamped_moments;
pub use philox::Philox;
pub use quantile::{normal_quantile, open_unit_interval};
pub use table::QuantileTable;
pub use weighted::WeightedChoice;
