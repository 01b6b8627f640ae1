//! The interface of a slot, implemented in its own file; `laws.rs` registers the slots with their stages.

use crate::ModelError;
use crate::law::Words;

/// A slot: the laws of one stage, as a table in files and as a term of a line.
pub(super) trait Slot: Sized {
    /// The first word of its term.
    const TERM: &'static str;
    /// Names that people and other tools use for it; an error for one of them shows this slot's form.
    const OTHER_NAMES: &'static [&'static str] = &[];
    /// Whether flows of an aggregate can share it.
    const IS_SHARED: bool = false;

    /// Whether each packet is judged on its own: what happens to it depends neither on the packets before it nor on when the
    /// first one arrived. Then several threads can share the packets of a flow.
    fn is_stateless(&self) -> bool {
        false
    }

    /// The accepted one-line form.
    fn form() -> &'static str;

    /// Reads the words after the term's name.
    ///
    /// # Errors
    /// [`ModelError`] if they are invalid.
    fn read(words: &mut Words) -> Result<Self, ModelError>;

    /// Its canonical one-line form, with the term's name.
    fn text(&self) -> String;

    /// Checks it; `at` is its path in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    fn check(&self, at: &str) -> Result<(), ModelError>;
}
