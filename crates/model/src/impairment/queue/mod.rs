//! Active queue management (AQM): which packets of a rate's queue are dropped or marked, and in which order its packets leave. A new law
//! needs a file here, a line in the list below, and its place in the engine's managed queues.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use crate::ModelError;
use crate::law::{Stated, Words, refuse};
use crate::units::Span;

/// What happens to a packet at a managed queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Managed {
    /// It goes on.
    Pass,
    /// It goes on, marked Congestion Experienced.
    Mark,
    /// It is dropped.
    Drop,
}

impl Managed {
    /// A congestion signal to a packet: a mark if it can be marked, else a drop.
    #[inline]
    fn signal(can_mark: bool) -> Self {
        if can_mark { Managed::Mark } else { Managed::Drop }
    }
}

/// A draw, uniform in [0, 1).
#[inline]
fn unit(draws: &mut Draws<'_>) -> f64 {
    (draws.bits() >> 11) as f64 / (1_u64 << 53) as f64
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Checks a controller of a waiting time: its target, the time between its updates, which all happen however late the next packet
/// is, and its gains.
fn check_controller(
    at: &str,
    target: Span,
    update: Span,
    alpha: f64,
    beta: f64,
) -> Result<(), ModelError> {
    check_time(at, "target", target)?;
    if !(1_000_000..=super::delay::MAX_DELAY.0).contains(&update.0) {
        return refuse(at, "update", update, "1ms to 1h");
    }
    for (name, gain) in [("alpha", alpha), ("beta", beta)] {
        if !(0.0..=100.0).contains(&gain) {
            return refuse(at, name, gain, "0 to 100");
        }
    }
    Ok(())
}

/// The times of a controller's updates: the first is one interval after its first packet.
#[derive(Clone, Debug, PartialEq)]
struct Updates {
    every_ns: u64,
    next_ns: Option<u64>,
}

impl Updates {
    fn new(every: Span) -> Self {
        Self { every_ns: every.0, next_ns: None }
    }

    /// The next update that is due at `now_ns`.
    fn due(&mut self, now_ns: u64) -> Option<u64> {
        let next = self.next_ns.get_or_insert(now_ns.saturating_add(self.every_ns));
        let at = *next;
        if at > now_ns {
            return None;
        }
        *next = at.saturating_add(self.every_ns);
        Some(at)
    }

    /// Leaves out the updates that are due at `now_ns`, which would change nothing.
    fn skip(&mut self, now_ns: u64) {
        if let Some(next) = self.next_ns.as_mut().filter(|next| **next <= now_ns) {
            let left_out = (now_ns - *next) / self.every_ns + 1;
            *next = next.saturating_add(left_out.saturating_mul(self.every_ns));
        }
    }
}

/// Checks a time of a law: 1 µs to 1 h.
fn check_time(at: &str, name: &'static str, time: Span) -> Result<(), ModelError> {
    if !(1_000..=super::delay::MAX_DELAY.0).contains(&time.0) {
        return refuse(at, name, time, "1us to 1h");
    }
    Ok(())
}

macro_rules! managers {
    ($($module:ident: $law:ident,)*) => {
        $(mod $module; pub use $module::*;)*

        /// Active queue management (RFC 7567) of a rate. Exactly one law is set. Without it, packets that find the queue full are dropped.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[schemars(extend("x-one-of" = Self::NAMES))]
        #[allow(missing_docs, reason = "each law describes itself")]
        pub struct Aqm {
            $(
                #[serde(skip_serializing_if = "Option::is_none")]
                #[schemars(description = crate::law::description::<$law>())]
                pub $module: Option<$law>,
            )*
        }

        impl Aqm {
            /// The names of its laws, in display order.
            pub(crate) const NAMES: [&'static str; [$(stringify!($module)),*].len()] = [$(stringify!($module)),*];

            fn stated(&self) -> Vec<(&'static str, &dyn Stated)> {
                let mut out: Vec<(&'static str, &dyn Stated)> = vec![];
                $(if let Some(law) = &self.$module { out.push((stringify!($module), law)); })*
                out
            }

            /// Reads a law's name and its parameters; `None` if the next word is not a law's name.
            ///
            /// # Errors
            /// [`ModelError`] naming the parameter that is invalid.
            pub(super) fn read(words: &mut Words) -> Result<Option<Self>, ModelError> {
                $(if words.took(stringify!($module)) {
                    words.set_form(form_with(stringify!($module)));
                    let law = words.parameters::<$law>(stringify!($module), "impairment.rate.aqm")?;
                    return Ok(Some(Self { $module: Some(law), ..Self::default() }));
                })*
                Ok(None)
            }

            /// Its one-line form: the law's name, then names and values of its parameters.
            pub(super) fn text(&self) -> String {
                let mut out = String::new();
                $(if let Some(law) = &self.$module {
                    out += stringify!($module);
                    out += &crate::law::written_words(law);
                })*
                out
            }

            /// The schema of each law.
            #[cfg(test)]
            pub(crate) fn laws() -> Vec<(&'static str, schemars::Schema)> {
                let mut generator = schemars::SchemaGenerator::default();
                vec![$((stringify!($module), <$law as JsonSchema>::json_schema(&mut generator)),)*]
            }

            /// The form of each law.
            pub(crate) fn forms() -> Vec<String> {
                vec![$(format!(concat!(stringify!($module), "{}"), crate::law::form_of_words::<$law>()),)*]
            }
        }
    };
}

managers! {
    head_drop: HeadDrop,
    red: Red,
    pie: Pie,
    codel: Codel,
    fq_codel: FqCodel,
    dualpi2: DualPi2,
}

static FORMS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let forms = Aqm::forms().into_iter();
    forms
        .map(|form| {
            format!(
                "rate R [burst B [peak R]] [queue T|B|Npackets] {form} [overhead N] [cells N+N]"
            )
        })
        .collect()
});

/// The form of a rate with the law `name`.
fn form_with(name: &str) -> &'static str {
    let place = Aqm::NAMES.iter().position(|other| *other == name);
    place.and_then(|place| FORMS.get(place)).map_or("", String::as_str)
}

impl Aqm {
    /// Checks it; `at` is its path in the document.
    pub(super) fn check(&self, at: &str) -> Result<(), ModelError> {
        match self.stated().as_slice() {
            [(name, law)] => law.check(&format!("{at}.{name}")),
            [] => refuse(at, "", "nothing", "a law"),
            _ => refuse(at, "", "several laws", "one law"),
        }
    }

    /// Whether it marks packets or tells flows apart, for which packets must be parsed.
    #[must_use]
    pub fn reads_packets(&self) -> bool {
        self.fq_codel.is_some()
            || self.dualpi2.is_some()
            || self.red.as_ref().is_some_and(|law| law.ecn)
            || self.pie.as_ref().is_some_and(|law| law.ecn)
            || self.codel.as_ref().is_some_and(|law| law.ecn)
    }
}

#[cfg(test)]
mod tests;
