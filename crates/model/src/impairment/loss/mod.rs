//! Loss laws. A new one is a file here and a line in the list below.

mod process;

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::law::{Law, Running, Stated, check_percentage, forms, refuse, slot_of_laws};
use super::slot::Slot;
use super::text::Words;
use crate::ModelError;

pub use process::{LossChain, LossMoments, LossProcess};

/// What a loss law does, seen from outside.
trait LossRule {
    /// As a random process: the exact distribution of counts follows.
    fn process(&self) -> LossProcess;
    /// What it does on average.
    fn moments(&self) -> LossMoments {
        self.process().moments()
    }
}

slot_of_laws! {
    /// The slot of loss and duplication. At most one loss law is set.
    Loss("loss"): LossRule;
    /// A loss law with its state: a function of the order in which packets come to it.
    LossLaw;
    /// Whether the next packet is lost; `draws` are those of its place.
    lost -> bool;
    {
        percentage: Percentage,
        every_nth: EveryNth,
        gilbert_elliott: GilbertElliott,
        four_state: FourState,
    }
    {
        /// Duplication. It is asked of packets that were not lost: a lost packet leaves no copy.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub duplicate: Option<Duplicate>,
    }
}

/// Duplication: one copy, right behind its original, with draws of its own in the later stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Duplicate {
    /// Probability for each packet, in percent.
    #[schemars(example = 1)]
    pub percentage: f64,
}

impl Duplicate {
    fn check(&self, at: &str) -> Result<(), ModelError> {
        check_percentage(at, "percentage", self.percentage)
    }
}

static FORM: LazyLock<String> = LazyLock::new(|| forms("loss", &Loss::SHORT_FORMS, &Loss::NAMES));

impl Loss {
    /// The law as a random process; `None` when there is none.
    #[must_use]
    pub fn process(&self) -> Option<LossProcess> {
        self.rule().map(LossRule::process)
    }

    /// What the law does on average; `None` when there is none.
    #[must_use]
    pub fn moments(&self) -> Option<LossMoments> {
        self.rule().map(LossRule::moments)
    }

    pub(super) fn has_law(&self) -> bool {
        self.rule().is_some()
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
        let law = self.stated().first().map(|(name, law)| format!("loss {}", law.text(name)));
        let copies = self.duplicate.as_ref().map(|d| format!("duplicate {}%", d.percentage));
        law.into_iter().chain(copies).collect::<Vec<_>>().join(", ")
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let stated = self.stated();
        let names = Self::NAMES.join(", ");
        match (&stated[..], &self.duplicate) {
            ([], None) => refuse(at, "", "no law", &format!("{names} or duplicate"))?,
            ([] | [_], _) => {}
            (several, _) => {
                let given = format!("{} loss laws", several.len());
                refuse(at, "", given, &format!("one of {names}"))?;
            }
        }
        for (name, law) in stated {
            law.check(&format!("{at}.{name}"))?;
        }
        self.duplicate
            .as_ref()
            .map_or(Ok(()), |duplicate| duplicate.check(&format!("{at}.duplicate")))
    }
}

#[cfg(test)]
mod tests;
