//! Delays that repeat: between two bounds, by the place in a cycle.

/// A law of a repeating delay: its name, its running law, max − min over the standard deviation, and the height of the
/// delay between the bounds, 0 to 1, by the time since the start of a cycle and the length of the cycle.
macro_rules! cyclic_delay {
    (
        $(#[$doc:meta])*
        $law:ident;
        $(#[$running_doc:meta])*
        $running:ident;
        $range_over_deviation:expr;
        $height:expr
    ) => {
        use schemars::JsonSchema;
        use serde::{Deserialize, Serialize};
        use weir_laws::Draws;

        use super::{DelayMoments, DelayRule, Drawing, check_cycle, round_ns};
        use crate::ModelError;
        use crate::law::{Deciding, Law, PacketFacts};
        use crate::units::Span;

        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $law {
            /// Minimum delay.
            #[schemars(example = "20ms")]
            pub min: Span,
            /// Maximum delay.
            #[schemars(example = "80ms")]
            pub max: Span,
            /// Length of a cycle, above 0. The first one starts with the first packet.
            #[schemars(example = "10s")]
            pub cycle: Span,
        }

        impl Law for $law {
            type Running = $running;

            fn check(&self, at: &str) -> Result<(), ModelError> {
                check_cycle(at, (self.min, self.max), self.cycle)
            }

            fn start(&self) -> $running {
                $running {
                    min_ns: self.min.0 as f64,
                    range_ns: self.max.0.saturating_sub(self.min.0) as f64,
                    cycle_ns: self.cycle.0,
                }
            }
        }

        $(#[$running_doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $running {
            min_ns: f64,
            range_ns: f64,
            /// Above 0.
            cycle_ns: u64,
        }

        impl Deciding for $running {
            type Outcome = u64;

            #[inline]
            fn decide(&mut self, packet: &PacketFacts, _: &mut Draws) -> u64 {
                let height = $height;
                let height: f64 = height(packet.elapsed_ns % self.cycle_ns, self.cycle_ns);
                round_ns(self.min_ns + self.range_ns * height)
            }
        }

        impl DelayRule for $law {
            /// Of packets at equal intervals, over whole cycles.
            fn moments(&self) -> DelayMoments {
                let $running { min_ns, range_ns, .. } = self.start();
                DelayMoments::of(min_ns + range_ns / 2.0, range_ns / $range_over_deviation)
            }

            fn draws(&self) -> Drawing {
                Drawing::Nothing
            }

            fn follows_time(&self) -> bool {
                true
            }
        }
    };
}
pub(super) use cyclic_delay;
