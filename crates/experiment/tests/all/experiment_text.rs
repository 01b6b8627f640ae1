//! What `weir run`, `weir sweep` and `weir compare` print of an experiment, against a committed text.

use std::path::Path;

use weir_experiment::scenario::text;
use weir_model::experiment::{Experiment, Outcome};
use weir_model::record::Status;

fn golden_experiment() -> Experiment {
    let input =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/golden/experiment.json");
    serde_json::from_str(&std::fs::read_to_string(input).unwrap()).unwrap()
}

/// Compares a text with a committed one. `WEIR_BLESS=1` rewrites that: read it before committing.
fn golden(name: &str, told: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(&path, told).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(told == committed, "it differs from {}:\n{told}", path.display());
}

/// The same experiment as in the tests of pages.
#[test]
fn an_experiment_is_reported_as_it_was() {
    let experiment = golden_experiment();
    let mut told: String =
        experiment.steps.iter().map(|step| text::whole(step, 0, false)).collect();
    told += &text::closing(&experiment);
    golden("experiment.txt", &told);
}

#[test]
fn an_interrupted_experiment_is_reported_as_such() {
    let mut experiment = golden_experiment();
    experiment.status = Status::Interrupted;
    let mut told = text::closing(&experiment);
    experiment.outcome = Outcome::Inconclusive;
    told += &text::closing(&experiment);
    let mut step = experiment.steps.swap_remove(0);
    (step.outcome, step.interrupted) = (Outcome::Inconclusive, true);
    step.reason = Some("interrupted: 3 of 100 runs were made, 1 was cut short".into());
    told += text::whole(&step, 0, false).lines().next().unwrap();
    golden("interrupted.txt", &(told + "\n"));
}
