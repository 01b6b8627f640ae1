//! Seeds that a request leaves out: drawn, as the command line does. Read without one a document has 0, the same each time.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use weir_model::units::Seed;

use crate::problem::Problem;

/// The text of one field of a request's body; none where it has none.
pub(crate) fn part<'a>(body: &'a [u8], field: &str) -> &'a str {
    let fields: Option<BTreeMap<String, &RawValue>> = serde_json::from_slice(body).ok();
    fields.and_then(|all| all.get(field).copied()).map_or("", RawValue::get)
}

/// Draws a seed where the text of its document, a plan or an impairment, names none.
pub(crate) fn draw(seed: &mut Seed, text: &str) -> Result<(), Problem> {
    // It looks for the one key that both have.
    if !Seed::is_named_in(text) {
        let drawn = getrandom::u64().map_err(|e| Problem::internal(format!("draw a seed: {e}")))?;
        *seed = Seed(drawn);
    }
    Ok(())
}
