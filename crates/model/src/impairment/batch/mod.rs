//! Batch laws: packets leave in groups. A new one needs a file here and a line in the list below.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_laws::Draws;

use super::slot::Slot;
use crate::ModelError;
use crate::law::{Deciding, Law, PacketFacts, Stated, Words, forms, refuse, slot_of_laws};

/// When a packet leaves its batch. Times are those of [`PacketFacts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// It completes the batch, whose packets leave immediately.
    Complete,
    /// It waits for the batch to be complete, until this time at the latest.
    Before(u64),
    /// It leaves at this time.
    At(u64),
}

/// Properties of a batch law.
trait BatchRule {
    /// The number of tables that it draws from.
    fn tables(&self) -> usize {
        0
    }
}

slot_of_laws! {
    /// The slot of batches. Exactly one law is set.
    Batch("batch"): BatchRule;
    /// A running batch law.
    BatchLaw;
    /// When the next packet leaves; `draws` are those of its position.
    release -> Release;
    {
        accumulate: Accumulate,
        slots: Slots,
    }
    {}
}

static FORM: LazyLock<String> =
    LazyLock::new(|| forms("batch", &Batch::SHORT_FORMS, &Batch::NAMES));

impl Batch {
    /// The number of tables that its law draws from.
    pub(super) fn tables(&self) -> usize {
        self.rule().map_or(0, BatchRule::tables)
    }
}

impl Slot for Batch {
    const TERM: &'static str = "batch";
    const OTHER_NAMES: &'static [&'static str] = &["slot", "slots", "accumulate", "burst"];

    fn form() -> &'static str {
        &FORM
    }

    fn read(words: &mut Words) -> Result<Self, ModelError> {
        Self::read_law(words)
    }

    fn text(&self) -> String {
        let law = self.stated().first().map(|(name, law)| format!(" {}", law.text(name)));
        format!("batch{}", law.unwrap_or_default())
    }

    fn check(&self, at: &str) -> Result<(), ModelError> {
        let stated = self.stated();
        let [(name, law)] = stated[..] else {
            let given = format!("{} batch laws", stated.len());
            return refuse(at, "", given, &format!("one of {}", Self::NAMES.join(", ")));
        };
        law.check(&format!("{at}.{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::{BatchLaw, Release};
    use crate::ModelError;
    use crate::impairment::{Laws, PacketFacts};
    use weir_laws::{Direction, DrawPosition, Philox, flow_hash, slot};

    /// The releases of packets of 100 bytes at these times, ns.
    pub(super) fn releases(text: &str, times: impl IntoIterator<Item = u64>) -> Vec<Release> {
        let laws: Laws = text.parse().unwrap();
        let (philox, mut law) = (Philox::new(7), BatchLaw::of(&laws.batch.unwrap()).unwrap());
        let one = |(packet, elapsed_ns)| {
            let position = DrawPosition {
                flow: flow_hash("test"),
                direction: Direction::Forward,
                slot: slot::BATCH,
                packet,
            };
            law.release(&PacketFacts { elapsed_ns, bytes: 100 }, &mut position.draws(&philox))
        };
        (0..).zip(times).map(one).collect()
    }

    /// The field of the error of an invalid law.
    pub(super) fn refused(text: &str) -> String {
        match text.parse::<Laws>().unwrap_err() {
            ModelError::Field { field, .. } => field.trim_start_matches("impairment.").to_owned(),
            other => panic!("{text}: {other:?}"),
        }
    }
}
