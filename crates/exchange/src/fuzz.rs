//! Fuzz body: no file makes reading or writing panic, and what is read survives being stored.

use crate::{FORMATS, Format, read};

/// Reads any bytes in each format and in the one that they look like; each record is written in all formats, and as JSON.
pub fn fuzz_results(data: &[u8]) {
    let readers = Format::read_ones().map(Some);
    for format in readers.chain([None]) {
        // A refusal is a valid result.
        let Ok(records) = read(data, format, 1_795_293_009_125) else { continue };
        let again = read(data, format, 0).unwrap_or_default();
        assert!(records.iter().map(|r| &r.id).eq(again.iter().map(|r| &r.id)));
        for record in &records {
            let text = weir_model::json::to_line(record).unwrap_or_default();
            let stored =
                weir_model::document::parse_json::<weir_model::record::Record>(text.as_bytes());
            assert_eq!(stored.as_ref().ok(), Some(record), "{text}");
            for format in FORMATS {
                let _ = format.write(std::slice::from_ref(record));
            }
        }
    }
}
