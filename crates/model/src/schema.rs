//! The published JSON Schemas, generated from the types so that they can't drift from the code.

/// The schema of `weir.run/1`.
pub fn run_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(crate::record::Record)).unwrap_or_default()
}

/// The schema of `weir.plan/1`.
pub fn plan_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(crate::plan::Plan)).unwrap_or_default()
}

/// The schema of `weir.impair/1`.
pub fn impair_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(crate::impairment::Impairment)).unwrap_or_default()
}

/// The schema of `weir.scenario/1`.
pub fn scenario_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(crate::experiment::Scenario)).unwrap_or_default()
}

/// The schema of `weir.experiment/1`.
pub fn experiment_schema() -> serde_json::Value {
    serde_json::to_value(schemars::schema_for!(crate::experiment::Experiment)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    /// The committed files are what the types say. `WEIR_BLESS=1` writes them anew.
    #[test]
    fn published_schemas_are_current() {
        for (name, schema) in [
            ("weir.run-1", super::run_schema()),
            ("weir.plan-1", super::plan_schema()),
            ("weir.impair-1", super::impair_schema()),
            ("weir.scenario-1", super::scenario_schema()),
            ("weir.experiment-1", super::experiment_schema()),
        ] {
            let path =
                format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if std::env::var_os("WEIR_BLESS").is_some() {
                std::fs::create_dir_all(std::path::Path::new(&path).parent().unwrap()).unwrap();
                std::fs::write(&path, &text).unwrap();
            }
            let committed = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                committed == text,
                "{name} differs from the types: run the test with WEIR_BLESS=1 and commit"
            );
        }
    }
}
