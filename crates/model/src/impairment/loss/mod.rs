//! Loss laws. A new one needs a file here and a line in the list below.

mod process;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::slot::Slot;
use crate::ModelError;
use crate::law::Words;
use crate::law::{Law, Running, Stated, forms, refuse, slot_of_laws};

pub use process::{LossChain, LossMoments, LossProcess};

/// Properties of a loss law.
trait LossRule {
    /// The random process, from which the exact distribution of counts follows.
    fn process(&self) -> LossProcess;
    /// Its moments.
    fn moments(&self) -> LossMoments {
        self.process().moments()
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
    }
    {}
}

static FORM: LazyLock<String> = LazyLock::new(|| forms("loss", &Loss::SHORT_FORMS, &Loss::NAMES));

impl Loss {
    /// The law as a random process; `None` without a law.
    #[must_use]
    pub fn process(&self) -> Option<LossProcess> {
        self.rule().map(LossRule::process)
    }

    /// The law's moments; `None` without a law.
    #[must_use]
    pub fn moments(&self) -> Option<LossMoments> {
        self.rule().map(LossRule::moments)
    }
}

impl Slot for Loss {
    const TERM: &'static str = "loss";
    const OTHER_NAMES: &'static [&'static str] = &["drop"];

    fn form() -> &'static str {
        &FORM
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        Self::read_law(words)
    }

    fn text(&self) -> String {
        let law = self.stated().first().map(|(name, law)| format!(" {}", law.text(name)));
        format!("loss{}", law.unwrap_or_default())
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
