//! Errors of a scenario that was made from flags name the flags: a user of `--over size=…` does not know the field
//! `step[0].sweep.over`.

use weir_model::ModelError;
use weir_model::experiment::parameter_of;

use crate::commands::test::flags::flag_of_field;

/// Fields of a scenario, of its only step and of that step's action, and the flags that set them.
const FLAGS: &[(&str, &str)] = &[
    ("over", "--over"),
    ("compare_content", "--compare-content"),
    ("expect", "--expect"),
    ("metrics", "--metric"),
    ("runs", "--runs"),
    ("max_runs", "--max-runs"),
    ("precision_percentage", "--precision"),
    ("confidence_percentage", "--confidence"),
    ("repeat_host_limited", "--repeat-host-limited"),
    ("pause", "--pause"),
    ("tools", "--tools"),
    ("both", "--both"),
    ("a_to_b", "--a-to-b"),
    ("b_to_a", "--b-to-a"),
    ("key_file", "--key-file"),
    ("address", "HOST"),
];

/// An error with the flag instead of the field.
pub(super) fn named(error: ModelError, axes: &[String]) -> ModelError {
    match error {
        ModelError::Field { field, given, accepted } => {
            ModelError::Field { field: flag_of(&field, axes), given, accepted }
        }
        // The document was made from flags: its line numbers mean nothing to the user.
        ModelError::Document(error) => ModelError::Field {
            field: flag_of(&error.field, axes),
            given: error.given.clone(),
            accepted: error.accepted_with_hint(),
        },
        other => other,
    }
}

/// The flag of a field: `--over size` for a parameter that is an axis. A field without a flag keeps its name.
pub(super) fn flag_of(field: &str, axes: &[String]) -> String {
    // The text after the path of a field says what is wrong with it.
    let end = field.find([' ', ':']).unwrap_or(field.len());
    let (path, rest) = field.split_at(end);
    let (around, last) = path.rsplit_once('.').unwrap_or(("", path));
    let is_of_scenario = path.starts_with("step[") || path == "confidence_percentage";
    let is_of_step = ["sweep", "compare", "test"].contains(&around);
    if axes.iter().any(|axis| axis == path || is_of_step && axis == last) {
        return format!("--over {last}{rest}");
    }
    let of_step =
        || FLAGS.iter().find(|(name, _)| *name == last).map(|(_, flag)| (*flag).to_owned());
    let flag = match (is_of_scenario || path.starts_with("sweep.impair"), is_of_step) {
        (true, _) => of_step(),
        (_, true) => flag_of_field(parameter_of(last)).or_else(of_step),
        _ => None,
    };
    flag.map_or_else(|| field.to_owned(), |flag| format!("{flag}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_reported_by_the_flag_that_set_it() {
        let axes = ["size".to_owned(), "loss".to_owned()];
        for (field, flag) in [
            ("step[0].sweep.over size", "--over size"),
            ("step[0].sweep.over", "--over"),
            ("step[0].expect: expectation 'loss<1'", "--expect: expectation 'loss<1'"),
            ("step[0].sweep.metrics: metric", "--metric: metric"),
            ("step[0].compare.runs", "--runs"),
            ("confidence_percentage", "--confidence"),
            ("step[0].sweep.impair.both", "--both"),
            ("size", "--over size"),
            ("size: connection[0].payload", "--over size: connection[0].payload"),
            ("compare.size", "--over size"),
            ("compare.rate", "-b/--bitrate"),
            ("compare.seconds", "-t/--time"),
            ("sweep.both", "--both"),
            ("elsewhere.rate", "elsewhere.rate"),
        ] {
            assert_eq!(flag_of(field, &axes), flag, "{field}");
        }
    }
}
