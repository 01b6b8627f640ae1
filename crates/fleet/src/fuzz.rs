//! Fuzz body of what passes through the bus. A fuzzer calls it, and so does the replay of seeded mutations below.

use weir_model::document;

use crate::document::{AgentFacts, Request, Submission};
use crate::parts;

/// Messages: those that are read are written and read again as the same.
pub fn fuzz_messages(data: &[u8]) {
    if let Ok(submission) = document::parse_json::<Submission>(data) {
        let text = serde_json::to_vec(&submission).unwrap_or_default();
        assert_eq!(document::parse_json::<Submission>(&text).ok(), Some(submission));
    }
    let _ = document::parse_json::<AgentFacts>(data);
    let _ = document::parse_json::<Request>(data);
    if let Ok(outcome) = parts::join(&[data]) {
        let parts = parts::cut(&outcome).unwrap_or_default();
        assert!(!parts.is_empty() && parts.len() <= parts::MOST_PARTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::tests::outcome;
    use weir_laws::mutation::replay;

    #[test]
    fn messages() {
        let corpus: Vec<Vec<u8>> = [
            r#"{"id":"1","resource":"host","longest_seconds":60,"start_at_unix_ns":5,"job":{"job":"test","host":"a"}}"#,
            r#"{"version":"1","labels":{"a":"b"},"interfaces":[{"name":"eth0","addresses":["::1/64"]}],"cpus":2}"#,
            r#"{"request":"stop","job":"1"}"#,
        ]
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .chain(parts::cut(&outcome("1")).unwrap())
        .collect();
        replay(&corpus, 3_000, fuzz_messages);
    }
}
