//! What the page shows of an emulator is what an emulator counts: the schema of its configuration names every counter.

use serde_json::Value;

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect()
}

#[test]
fn the_schema_names_the_engines_counters() {
    let counted: Vec<&str> =
        weir_impair::Counters::default().named().iter().map(|(name, _)| *name).collect();
    let schema = weir_model::schema::impair_schema();
    assert_eq!(names(&schema["$defs"]["EmulatorCounters"]["required"]), counted);
    let reported = weir_api::openapi();
    let mut reported = names(&reported["components"]["schemas"]["EmulatorCounters"]["required"]);
    let mut counted = counted;
    reported.sort_unstable();
    counted.sort_unstable();
    assert_eq!(reported, counted);
}

#[test]
fn the_document_reports_each_counters_meaning_and_stage_as_the_schema_does() {
    let document = weir_api::openapi();
    let of_document = &document["components"]["schemas"]["EmulatorCounters"]["properties"];
    let schema = weir_model::schema::impair_schema();
    assert_eq!(*of_document, schema["$defs"]["EmulatorCounters"]["properties"]);
    assert_eq!(of_document["lost_packets"]["x-stage"], "loss");
    assert_eq!(of_document["received_bytes"].get("x-stage"), None);
}
