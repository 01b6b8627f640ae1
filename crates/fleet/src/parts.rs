//! An outcome as messages: compressed, and cut into parts that the server takes.

use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use weir_model::{Refusal, document};

use crate::document::Outcome;

/// Longest part, bytes: half of what a server takes unless configured otherwise.
pub(crate) const PART_BYTES: usize = 512 << 10;
/// Most parts of an outcome.
pub(crate) const MOST_PARTS: usize = 64;
/// Longest outcome, bytes, as JSON.
const LONGEST: u64 = 64 << 20;

/// The parts of an outcome; at least one. One that is too long loses its record and its result, and says so.
///
/// # Errors
/// Errors of serde_json, which no outcome causes: all keys of maps are strings.
pub(crate) fn cut(outcome: &Outcome) -> std::io::Result<Vec<Vec<u8>>> {
    let text = serde_json::to_vec(outcome)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&text)?;
    let bytes = encoder.finish()?;
    if text.len() as u64 > LONGEST || bytes.len() > MOST_PARTS * PART_BYTES {
        let words = format!("the outcome has {} bytes; NATS gets at most {LONGEST}", text.len());
        let error = Some(Refusal::new("size", words, 1));
        let (record, result, warnings) = (None, None, vec![]);
        return cut(&Outcome { error, record, result, warnings, ..outcome.clone() });
    }
    Ok(bytes.chunks(PART_BYTES).map(<[u8]>::to_vec).collect())
}

/// The outcome of its parts.
///
/// # Errors
/// What is wrong with them.
pub(crate) fn join(parts: &[impl AsRef<[u8]>]) -> Result<Outcome, String> {
    let bytes: Vec<u8> = parts.iter().flat_map(AsRef::as_ref).copied().collect();
    let mut text = Vec::new();
    let mut decoder = GzDecoder::new(&bytes[..]).take(LONGEST + 1);
    decoder.read_to_end(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > LONGEST {
        return Err(format!("longer than {LONGEST} bytes"));
    }
    document::parse_json(&text).map_err(|error| error.to_string())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    pub(crate) fn outcome(id: &str) -> Outcome {
        let (id, agent) = (id.parse().unwrap(), "paris-1".parse().unwrap());
        let error = weir_model::Refusal::new("x", "y", 2);
        Outcome { record: Some(json!({ "seconds": 1.5 })), ..Outcome::refused(id, agent, 1, error) }
    }

    #[test]
    fn outcomes_of_any_size_pass() {
        let small = outcome("1");
        let parts = cut(&small).unwrap();
        assert_eq!((parts.len(), join(&parts)), (1, Ok(small)));

        // Digits that hardly compress.
        let mut state = 1_u64;
        let noise: Vec<u64> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state
        })
        .take(200_000)
        .collect();
        let large = Outcome { result: Some(json!(noise)), ..outcome("2") };
        let parts = cut(&large).unwrap();
        assert!(parts.len() > 2 && parts.iter().all(|part| part.len() <= PART_BYTES));
        assert_eq!(join(&parts), Ok(large));
        assert!(join(&parts[1..]).is_err());
        assert!(join(&parts[..1]).is_err());

        let zeros = "0".repeat(LONGEST as usize);
        let longer = Outcome { result: Some(json!(zeros)), ..outcome("3") };
        let short = join(&cut(&longer).unwrap()).unwrap();
        assert_eq!((short.error.unwrap().code.as_str(), short.result), ("size", None));
    }

    #[test]
    fn what_unpacks_to_too_much_is_an_error() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..=LONGEST >> 20 {
            encoder.write_all(&[b' '; 1 << 20]).unwrap();
        }
        assert!(join(&[encoder.finish().unwrap()]).unwrap_err().contains("longer"));
    }

    #[test]
    fn what_is_no_outcome_is_an_error() {
        let none: [&[u8]; 0] = [];
        assert!(join(&none).is_err());
        assert!(join(&[b"{}"]).is_err());
    }
}
