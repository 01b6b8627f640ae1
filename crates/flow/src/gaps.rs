//! The intervals of a paced flow where they differ from packet to packet: by an interval law, or by the size of each packet
//! at a rate in bit/s.

use std::sync::Arc;

use weir_laws::{DrawPosition, Philox, slot};
use weir_model::plan::{FlowSpec, SpacingLaw};
use weir_model::units::RateLimit;

use crate::sizes::{Sizes, place};
use crate::supply::Supply;

/// Nanoseconds × 2^64: the whole part exactly, the fraction to the precision of a double.
pub(crate) fn fixed(nanoseconds: f64) -> u128 {
    let whole = nanoseconds.trunc();
    (whole as u128) << 64 | ((nanoseconds - whole) * 2f64.powi(64)) as u128
}

/// The mean interval after a packet.
#[derive(Debug, Clone)]
enum Mean {
    /// ns.
    Same(f64),
    /// ns for each byte.
    BySize(f64, Sizes),
    /// Each interval is that of a recording.
    Recorded(Arc<Supply>),
}

/// The intervals of a flow, a function of its packets' numbers.
#[derive(Debug, Clone)]
pub(crate) struct Gaps {
    mean: Mean,
    law: SpacingLaw,
    philox: Philox,
    place: DrawPosition,
    burst: u64,
    /// Interval of the current burst, as a multiple of the mean.
    factor: f64,
}

impl Gaps {
    /// The intervals of `spec`, one draw for each group of `burst`; `None` if all are equal.
    #[must_use]
    pub(crate) fn of(spec: &FlowSpec, burst: u32) -> Option<Self> {
        let connection = &spec.connection;
        let mean = match spec.rate.limit {
            RateLimit::Bits(bits) if !spec.size.is_constant() => {
                Mean::BySize(8e9 / bits.0 as f64, Sizes::of(spec))
            }
            _ if connection.intervals().is_constant() => return None,
            _ => Mean::Same(1e9 / spec.packets_per_second()?),
        };
        Some(Gaps {
            mean,
            law: connection.intervals().start(),
            philox: Philox::new(spec.seed.0),
            place: place(&spec.name, connection.direction, slot::SPACING),
            burst: u64::from(burst.max(1)),
            factor: 1.0,
        })
    }

    /// The same with the sizes of a recording, and with its intervals if the plan says that the sender has them.
    #[must_use]
    pub(crate) fn recorded(self, spec: &FlowSpec, supply: &Arc<Supply>) -> Self {
        let mean = match self.mean {
            _ if spec.connection.spacing.is_recorded() => Mean::Recorded(supply.clone()),
            Mean::BySize(ns, sizes) => Mean::BySize(ns, sizes.recorded(supply)),
            other => other,
        };
        Gaps { mean, ..self }
    }

    /// The interval after packet `packet`, ns × 2^64; to be called in the order of the packets.
    pub(crate) fn after(&mut self, packet: u64) -> u128 {
        if packet.is_multiple_of(self.burst) {
            let place = DrawPosition { packet, ..self.place };
            self.factor = self.law.next(&mut place.draws(&self.philox));
        }
        let mean = match &self.mean {
            Mean::Same(ns) => *ns,
            Mean::BySize(ns, sizes) => ns * sizes.at(packet) as f64,
            Mean::Recorded(supply) => {
                return u128::from(supply.gap_ns(packet).unwrap_or(0)) << 64;
            }
        };
        fixed((mean * self.factor).clamp(0.0, 1e18))
    }
}
