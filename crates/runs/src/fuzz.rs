//! Fuzz body: whatever is imported, nothing panics and what is taken can be given back.

/// Reads records from hostile bytes; each that reads is printed and reads again.
pub fn fuzz_import(data: &[u8]) {
    let mut input = data;
    // A refusal is as good as a record.
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
