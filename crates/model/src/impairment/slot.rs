//! What a slot of a direction's laws states in its own file; `laws.rs` registers them, each with its stage.

use crate::ModelError;
use crate::law::Words;

/// A slot: what one stage does, as a table in files and as a term of a line.
pub(super) trait Slot: Sized {
    /// The first word of its term.
    const TERM: &'static str;
    /// What else people and other tools call it: a refusal shows this slot's form then.
    const OTHER_NAMES: &'static [&'static str] = &[];
    /// Whether flows of an aggregate can have it in common.
    const IS_SHARED: bool = false;

    /// What is accepted in one line.
    fn form() -> &'static str;

    /// Reads the words behind the term's name.
    ///
    /// # Errors
    /// [`ModelError`] when they are not acceptable.
    fn read(words: &mut Words) -> Result<Self, ModelError>;

    /// Its canonical one-line form, with the term's name.
    fn text(&self) -> String;

    /// Checks it; `at` is its path in the document.
    ///
    /// # Errors
    /// [`ModelError::Field`] naming the first field that can't be run.
    fn check(&self, at: &str) -> Result<(), ModelError>;
}
