//! What `weir run`, `weir sweep` and `weir compare` print of an experiment, against a committed text.

use std::path::Path;

use weir_experiment::scenario::text;
use weir_model::experiment::Experiment;

/// The same experiment as in the tests of pages. `WEIR_BLESS=1` rewrites the text: read it before committing.
#[test]
fn an_experiment_is_reported_as_it_was() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let input =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/golden/experiment.json");
    let experiment: Experiment =
        serde_json::from_str(&std::fs::read_to_string(input).unwrap()).unwrap();
    let mut told: String = experiment.steps.iter().map(|step| text::whole(step, 0)).collect();
    told += &text::closing(&experiment);
    let path = tests.join("experiment.txt");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::create_dir_all(&tests).unwrap();
        std::fs::write(&path, &told).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(told == committed, "it differs from {}:\n{told}", path.display());
}
