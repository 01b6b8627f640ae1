//! Loss laws. A new one needs a file here and a line in the list below.

mod interval;
mod process;
mod selection;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::law::{Deciding, Law, PacketFacts, Stated, forms, refuse, slot_of_laws};

pub use interval::{CountInterval, OUTSIDE};
pub use process::{LossChain, LossMoments, LossProcess};
pub(super) use selection::{SELECTIONS, Selection, selection_form};

/// Properties of a loss law.
trait LossRule {
    /// The random process, from which the exact distribution of counts follows; `None` if losses depend on more than the
    /// packets before, or the process has no simple form.
    fn process(&self) -> Option<LossProcess> {
        None
    }
    /// Its moments; `None` if they depend on time or on the packets.
    fn moments(&self) -> Option<LossMoments> {
        self.process().map(|process| process.moments())
    }
    /// Fraction of packets lost in the long run.
    fn mean(&self) -> Option<f64> {
        self.moments().map(|moments| moments.mean)
    }
    /// Whether each packet is lost or not whatever the packets before it.
    fn is_stateless(&self) -> bool {
        false
    }
    /// The number of tables that it draws from.
    fn tables(&self) -> usize {
        0
    }
}

slot_of_laws! {
    /// The slot of loss. Exactly one law is set.
    Loss("loss"): LossRule;
    /// A running loss law: its state depends only on the packets before.
    LossLaw;
    /// Whether the next packet is lost; `draws` are those of its position.
    lost -> bool;
    {
        percentage: Percentage,
        every_nth: EveryNth,
        gilbert_elliott: GilbertElliott,
        four_state: FourState,
        correlated: Correlated,
        conditional: Conditional,
        burst: Burst,
        random_burst: RandomBurst,
        gap: Gap,
        list: List,
        pattern: Pattern,
        outage: Outage,
        schedule: Schedule,
        bit_error: BitError,
    }
    {
        /// `true`: ECN-capable packets that the law selects are marked Congestion Experienced instead of dropped (RFC 3168).
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        #[schemars(title = "Mark instead of drop (ECN)", example = true)]
        pub ecn: bool,
    }
}

static FORM: LazyLock<String> = LazyLock::new(|| {
    let laws = forms("loss", &Loss::SHORT_FORMS, &Loss::NAMES);
    format!("{laws}; then [{ECN}]")
});
/// The word after a law that marks instead of dropping, as in netem.
const ECN: &str = "ecn";

impl Loss {
    /// The law as a random process; `None` without a law, or if it has no such form.
    #[must_use]
    pub fn process(&self) -> Option<LossProcess> {
        self.rule()?.process()
    }

    /// The law's moments; `None` without a law, or if they depend on time or on the packets.
    #[must_use]
    pub fn moments(&self) -> Option<LossMoments> {
        self.rule()?.moments()
    }

    /// Fraction of packets that the law selects in the long run, of packets at equal intervals; `None` without a law, or if
    /// there is no long run or it depends on the packets.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        self.rule()?.mean()
    }

    /// The number of tables that its law draws from.
    pub(crate) fn tables(&self) -> usize {
        self.rule().map_or(0, LossRule::tables)
    }
}

impl Slot for Loss {
    const TERM: &'static str = "loss";
    const OTHER_NAMES: &'static [&'static str] = &["drop"];

    fn is_stateless(&self) -> bool {
        self.rule().is_none_or(LossRule::is_stateless)
    }

    fn form() -> &'static str {
        &FORM
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        words.may_follow(&[ECN]);
        let law = Self::read_law(words)?;
        Ok(Loss { ecn: words.took(ECN), ..law })
    }

    fn text(&self) -> String {
        let law = self.stated().first().map(|(name, law)| format!(" {}", law.text(name)));
        let ecn = if self.ecn { format!(" {ECN}") } else { String::new() };
        format!("loss{}{ecn}", law.unwrap_or_default())
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let stated = self.stated();
        let [(name, law)] = stated[..] else {
            let given = format!("{} loss laws", stated.len());
            return refuse(at, "", given, &format!("one of {}", Self::NAMES.join(", ")));
        };
        law.check(&format!("{at}.{name}"))
    }
}

#[cfg(test)]
mod tests;
