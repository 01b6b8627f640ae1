//! Loss laws. A new one is a file here and a line in the list below.

use crate::impairment::Loss as Config;
use weir_laws::Draws;

/// What a loss law will do on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossMoments {
    /// Share of packets lost in the long run, 0 to 1.
    pub mean: f64,
    /// Variance of the number lost among *n* packets, over *n*, for large *n*. Bursts make it more than the
    /// binomial mean·(1 − mean).
    pub variance: f64,
}

/// Each law: its configuration, its decision, its moments.
trait Law: Sized {
    /// The law, when the configuration holds it.
    fn of(config: &Config) -> Option<Self>;
    /// Whether the next packet is lost; `draws` are those of its place.
    fn lost(&mut self, draws: &mut Draws) -> bool;
    /// Closed forms.
    fn moments(&self) -> LossMoments;
}

macro_rules! laws {
    ($($module:ident: $law:ident,)*) => {
        $(mod $module; pub use $module::$law;)*

        /// A loss law with its state: a function of the order in which packets come to it.
        #[derive(Clone, Debug, PartialEq)]
        pub enum LossLaw {
            $(#[doc = concat!("See [`", stringify!($law), "`].")] $law($law),)*
        }

        impl LossLaw {
            /// The law of a configuration (that has been checked), at its start; `None` when there is none.
            #[must_use]
            pub fn of(config: &Config) -> Option<Self> {
                $(if let Some(law) = <$law as Law>::of(config) { return Some(Self::$law(law)); })*
                None
            }

            /// Whether the next packet is lost; `draws` are those of its place.
            #[inline]
            pub fn lost(&mut self, draws: &mut Draws) -> bool {
                match self { $(Self::$law(law) => law.lost(draws),)* }
            }

            /// What it will do on average.
            #[must_use]
            pub fn moments(&self) -> LossMoments {
                match self { $(Self::$law(law) => law.moments(),)* }
            }
        }
    };
}

laws! {
    percentage: Percentage,
    every_nth: EveryNth,
    gilbert_elliott: GilbertElliott,
}

#[cfg(test)]
mod tests;
