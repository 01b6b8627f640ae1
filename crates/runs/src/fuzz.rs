//! Fuzz body: no input makes the import panic, and every accepted record survives writing and reading.

/// Reads records from untrusted bytes; each accepted one is printed and read again.
pub fn fuzz_import(data: &[u8]) {
    let mut input = data;
    // A refusal is a valid result.
    let _ = crate::import::each_record(&mut input, &mut |record| {
        let text = weir_model::json::to_line(&record).unwrap_or_default();
        let mut again = 0;
        let outcome = crate::import::each_record(&mut text.as_bytes(), &mut |_| {
            again += 1;
            true
        });
        assert!(outcome.is_ok() && again == 1, "{outcome:?}: {text}");
        true
    });
    let _ = std::str::from_utf8(data).map(crate::unix_ms_of);
}
