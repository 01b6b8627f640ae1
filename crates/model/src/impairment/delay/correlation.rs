//! Correlated delays: a Gaussian copula, which keeps the distribution of the law (Nelsen, "An introduction to copulas", 2006).
//!
//! netem adds parts of uniform draws instead, which narrows the distribution.

use weir_laws::{Copula, Draws};

use super::{Delay, DelayLaw};
use crate::law::PacketFacts;

/// A running delay law, with its correlation.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningDelay {
    law: DelayLaw,
    correlation: Option<Correlation>,
}

/// The correlation of a delay with the one before.
#[derive(Clone, Debug, PartialEq)]
struct Correlation {
    memory: Memory,
    copula: Copula,
    /// When the packet before reached the stage.
    last_ns: u64,
}

/// How fast earlier delays are forgotten.
#[derive(Clone, Debug, PartialEq)]
enum Memory {
    /// By the same correlation with each packet.
    Packets(f64),
    /// By half in this time, ns.
    Time(f64),
}

impl RunningDelay {
    /// The running law of a checked configuration, before its first packet; `None` without a law.
    #[must_use]
    pub fn of(config: &Delay) -> Option<Self> {
        let law = DelayLaw::of(config)?;
        let memory = match (config.correlation_percentage, config.half_life) {
            (Some(percentage), _) => Some(Memory::Packets(percentage / 100.0)),
            (None, Some(half_life)) => Some(Memory::Time(half_life.0 as f64)),
            (None, None) => None,
        };
        let correlation =
            memory.map(|memory| Correlation { memory, copula: Copula::new(), last_ns: 0 });
        Some(Self { law, correlation })
    }

    /// The delay of the next packet in ns; `draws` are those of its position.
    #[inline]
    pub fn draw_ns(&mut self, packet: &PacketFacts, draws: &mut Draws<'_>) -> u64 {
        if let Some(correlation) = &mut self.correlation {
            let rho = match correlation.memory {
                Memory::Packets(rho) => rho,
                Memory::Time(half_life) => {
                    let gap = packet.elapsed_ns.saturating_sub(correlation.last_ns);
                    libm::exp2(-(gap as f64) / half_life)
                }
            };
            correlation.last_ns = packet.elapsed_ns;
            let bits = correlation.copula.next(rho, draws.bits());
            draws.replace_next(bits);
        }
        self.law.draw_ns(packet, draws)
    }
}
