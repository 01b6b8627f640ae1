//! Delay laws: nanoseconds drawn for each packet. A new one is a file here and a line in the list below.
//!
//! Transcendental functions are `libm`'s in plain Rust and square roots IEEE 754's, so that a draw is the
//! same number on any machine. A draw below zero becomes zero.

use crate::impairment::Delay as Config;
use weir_laws::Draws;

/// What a delay law will do on average, draws below zero taken as zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayMoments {
    /// Mean in ns.
    pub mean_ns: f64,
    /// Standard deviation in ns.
    pub deviation_ns: f64,
}

/// Each law: its configuration, its draw, its moments.
trait Law: Sized {
    /// The law, when the configuration holds it.
    fn of(config: &Config) -> Option<Self>;
    /// The delay of a packet in ns; `draws` are those of its place.
    fn draw_ns(&self, draws: &mut Draws) -> u64;
    /// Closed forms.
    fn moments(&self) -> DelayMoments;
}

macro_rules! laws {
    ($($module:ident: $law:ident,)*) => {
        $(mod $module; pub use $module::$law;)*

        /// A delay law.
        #[derive(Clone, Debug, PartialEq)]
        pub enum DelayLaw {
            $(#[doc = concat!("See [`", stringify!($law), "`].")] $law($law),)*
        }

        impl DelayLaw {
            /// The law of a configuration that has been checked; `None` when it holds none.
            #[must_use]
            pub fn of(config: &Config) -> Option<Self> {
                $(if let Some(law) = <$law as Law>::of(config) { return Some(Self::$law(law)); })*
                None
            }

            /// The delay of a packet in ns; `draws` are those of its place.
            #[inline]
            #[must_use]
            pub fn draw_ns(&self, draws: &mut Draws) -> u64 {
                match self { $(Self::$law(law) => law.draw_ns(draws),)* }
            }

            /// What it will do on average.
            #[must_use]
            pub fn moments(&self) -> DelayMoments {
                match self { $(Self::$law(law) => law.moments(),)* }
            }
        }
    };
}

laws! {
    constant: Constant,
    uniform: Uniform,
    normal: Normal,
    exponential: Exponential,
}

/// To the nearest nanosecond; below zero (and not a number) is zero.
#[inline]
fn round_ns(value: f64) -> u64 {
    // The cast saturates at both ends and truncates, which is a floor here.
    (value + 0.5) as u64
}

#[cfg(test)]
mod tests;
