//! Seeds that a request omits are drawn, as the command line does. Parsing alone would give 0 each time.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use weir_model::units::Seed;

use crate::problem::Problem;

/// The text of one field of a request's body, if given.
pub(crate) fn part<'a>(body: &'a [u8], field: &str) -> &'a str {
    let fields: Option<BTreeMap<String, &RawValue>> = serde_json::from_slice(body).ok();
    fields.and_then(|all| all.get(field).copied()).map_or("", RawValue::get)
}

/// Draws a seed if the text of a plan or an impairment has none.
pub(crate) fn draw(seed: &mut Seed, text: &str) -> Result<(), Problem> {
    // Only this one key is parsed, which both have.
    if !Seed::is_named_in(text) {
        let drawn = getrandom::u64().map_err(|e| Problem::internal(format!("draw a seed: {e}")))?;
        *seed = Seed(drawn);
    }
    Ok(())
}
