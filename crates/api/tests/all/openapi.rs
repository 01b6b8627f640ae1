//! The committed OpenAPI document is what the routes say.

#[test]
fn the_published_document_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let text = format!("{:#}\n", weir_api::openapi());
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, &text).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/openapi.json differs from the routes: run the test with WEIR_BLESS=1 and commit"
    );
}
