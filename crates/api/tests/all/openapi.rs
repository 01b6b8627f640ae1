//! The committed OpenAPI documents are what the routes say.

#[test]
fn the_published_documents_are_current() {
    let documents = [
        ("openapi.json", weir_api::openapi()),
        ("openapi-3.0.json", weir_api::openapi_three_zero()),
    ];
    for (name, document) in documents {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = format!("{document:#}\n");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == text,
            "docs/{name} differs from the routes: run the test with WEIR_BLESS=1 and commit"
        );
    }
}
