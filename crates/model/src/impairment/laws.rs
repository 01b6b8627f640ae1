//! The laws of one direction of a flow: the list of stages, each with its slot.
//!
//! A new stage needs a line in the list below, its slot's file, its counters (`counters.rs`), and its
//! implementation in `impair` (`stages.rs`, `engine.rs`). A slot with a choice of laws is a table in which one
//! of them is set (`loss/`, `delay/`): a file has `loss = { percentage = 1 }`, and an unknown field is refused
//! by name.
//!
//! Forms are made only from the schemas of these types. In addition to JSON Schema's own keywords, `x-one-of`
//! lists properties that exclude each other (the laws of a slot, in display order), `x-stage` is the stage of a
//! slot, `x-follows` the stage that another one follows, and `examples` are values that are accepted together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::batch::Batch;
use super::content::Content;
use super::delay::Delay;
use super::duplicate::Duplicate;
use super::loss::Loss;
use super::mtu::Mtu;
use super::police::Police;
use super::rate::Rate;
use super::reorder::Reorder;
use super::slot::Slot;
use super::text::TermName;
use super::trigger::Trigger;
use crate::ModelError;
use crate::law::distribution::MAX_TABLES;
use crate::law::{Words, refuse};

/// The stages in their default order: `Stage = slot: Type`, with `behind Other` for a stage that immediately
/// follows another one unless an order names it.
macro_rules! stages {
    ($($(#[$doc:meta])* $stage:ident = $slot:ident: $type:ty $(, behind $leader:ident)?;)*) => {
        /// The stages of the path through the emulator.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum Stage {
            $($(#[$doc])* $(#[schemars(extend("x-follows" = Stage::$leader))])? $stage,)*
        }

        impl Stage {
            /// How many there are.
            pub const COUNT: usize = Self::DEFAULT_ORDER.len();
            /// The order unless a flow has another one. Duplicates use capacity, lost packets don't.
            pub(crate) const DEFAULT_ORDER: [Stage; [$(stringify!($stage)),*].len()] = [$(Stage::$stage),*];

            /// Its name in documents and laws.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Stage::$stage => stringify!($slot),)* }
            }

            /// The stage that this one immediately follows unless an order names it.
            #[must_use]
            pub(crate) const fn follows(self) -> Option<Stage> {
                match self {
                    $($(Stage::$stage => Some(Stage::$leader),)?)*
                    #[allow(unreachable_patterns, reason = "not if each follows another")]
                    _ => None,
                }
            }
        }

        /// The laws of one direction of a flow; an absent slot has no effect.
        #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default, remote = "Self")]
        pub struct Laws {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "Option::is_none")]
                #[schemars(extend("x-stage" = Stage::$stage))]
                pub $slot: Option<$type>,
            )*
            /// Order of the stages, each at most once; those not named follow in their default order.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub order: Option<Vec<Stage>>,
            /// When the laws are applied. Absent: always.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub trigger: Option<Trigger>,
        }

        /// The term of each slot.
        pub(super) const SLOT_TERMS: [TermName; Stage::COUNT] = [$(TermName {
            name: <$type as Slot>::TERM,
            others: <$type as Slot>::OTHER_NAMES,
            form: <$type as Slot>::form,
        }),*];

        impl Laws {
            /// Whether no slot has a law.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                $(self.$slot.is_none())&&*
            }

            /// Whether a stage has a law.
            #[must_use]
            pub fn has(&self, stage: Stage) -> bool {
                match stage { $(Stage::$stage => self.$slot.is_some(),)* }
            }

            /// Whether each packet is judged on its own, whatever the packets before it.
            #[must_use]
            pub fn is_stateless(&self) -> bool {
                self.trigger.is_none() && $(self.$slot.as_ref().is_none_or(Slot::is_stateless))&&*
            }

            /// These laws, with empty slots filled from `base`.
            #[must_use]
            pub fn over(&self, base: &Laws) -> Laws {
                Laws {
                    $($slot: self.$slot.clone().or_else(|| base.$slot.clone()),)*
                    order: self.order.clone().or_else(|| base.order.clone()),
                    trigger: self.trigger.clone().or_else(|| base.trigger.clone()),
                }
            }

            /// The slots that `own` leaves empty.
            #[must_use]
            pub fn beyond(&self, own: &Laws) -> Laws {
                Laws {
                    $($slot: self.$slot.clone().filter(|_| own.$slot.is_none()),)*
                    order: self.order.clone().filter(|_| own.order.is_none()),
                    trigger: self.trigger.clone().filter(|_| own.trigger.is_none()),
                }
            }

            fn check_slots(&self, at: &str) -> Result<(), ModelError> {
                $(if let Some(slot) = &self.$slot {
                    slot.check(&format!("{at}.{}", stringify!($slot)))?;
                })*
                Ok(())
            }

            /// The first slot in use that flows of an aggregate can (`true`) or can't (`false`) share.
            pub(super) fn slot_in_use(&self, is_shared: bool) -> Option<&'static str> {
                $(if <$type as Slot>::IS_SHARED == is_shared && self.$slot.is_some() {
                    return Some(stringify!($slot));
                })*
                None
            }

            /// Reads a slot's term and returns whether the slot was already in use; `None` if no slot has a
            /// term of that name.
            pub(super) fn read_slot(&mut self, name: &str, words: &mut Words) -> Option<Result<bool, ModelError>> {
                $(if name == <$type as Slot>::TERM {
                    let slot = <$type as Slot>::read(words);
                    return Some(slot.map(|slot| self.$slot.replace(slot).is_some()));
                })*
                None
            }

            /// The terms of the slots in use.
            pub(super) fn slot_texts(&self) -> Vec<String> {
                let mut out = vec![];
                $(out.extend(self.$slot.as_ref().map(Slot::text));)*
                out
            }
        }
    };
}

stages! {
    /// Loss.
    Loss = loss: Loss;
    /// Duplication.
    Duplicate = duplicate: Duplicate, behind Loss;
    /// Policing.
    Police = police: Police;
    /// MTU limit.
    Mtu = mtu: Mtu;
    /// Rate and queue.
    Rate = rate: Rate;
    /// Delay and jitter.
    Delay = delay: Delay;
    /// Reordering.
    Reorder = reorder: Reorder, behind Delay;
    /// Accumulation and time slots.
    Batch = batch: Batch;
    /// Change of content.
    Content = content: Content;
}

impl Laws {
    /// All stages in the effective order.
    #[must_use]
    pub fn stages(&self) -> [Stage; Stage::COUNT] {
        let named = || self.order.iter().flatten().copied();
        let mut out = Vec::with_capacity(Stage::COUNT);
        for stage in named().chain(Stage::DEFAULT_ORDER) {
            let stays_behind = stage.follows().is_some() && !named().any(|other| other == stage);
            if out.contains(&stage) || stays_behind {
                continue;
            }
            out.push(stage);
            let is_follower = |other: &Stage| {
                other.follows() == Some(stage) && !named().any(|named| named == *other)
            };
            out.extend(Stage::DEFAULT_ORDER.into_iter().filter(is_follower));
        }
        let mut stages = Stage::DEFAULT_ORDER;
        stages.iter_mut().zip(out).for_each(|(place, stage)| *place = stage);
        stages
    }

    /// The number of tables that the laws draw from.
    pub(super) fn tables(&self) -> usize {
        self.loss.as_ref().map_or(0, Loss::tables)
            + self.duplicate.as_ref().map_or(0, Duplicate::tables)
            + self.delay.as_ref().map_or(0, Delay::tables)
            + self.batch.as_ref().map_or(0, Batch::tables)
    }

    /// Checks every slot; `at` is the path of these laws in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    pub(crate) fn check(&self, at: &str) -> Result<(), ModelError> {
        // Before the laws are checked, for which tables are made.
        check_tables(at, self.tables())?;
        self.check_slots(at)?;
        let order = self.order.as_deref().unwrap_or_default();
        for (i, stage) in order.iter().enumerate() {
            if order[..i].contains(stage) {
                let given = format!("{} twice", stage.name());
                return refuse(at, "order", given, "each stage at most once");
            }
        }
        if let Some(trigger) = &self.trigger {
            trigger.check(&format!("{at}.trigger"))?;
        }
        Ok(())
    }
}

/// Checks the number of tables that laws draw from.
pub(super) fn check_tables(at: &str, tables: usize) -> Result<(), ModelError> {
    if tables <= MAX_TABLES {
        return Ok(());
    }
    let accepted = format!("at most {MAX_TABLES} laws gamma, student and poisson in all");
    refuse(at, "", format!("{tables} of them"), &accepted)
}
