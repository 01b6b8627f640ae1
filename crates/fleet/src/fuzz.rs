//! Fuzz bodies of what passes through the bus and of a mesh's file. A fuzzer calls them, and so does the replay of seeded mutations
//! below.

use weir_model::document;
use weir_model::progress::EchoInterval;
use weir_model::watch::Mesh;

use crate::document::{AgentFacts, Request, Submission};
use crate::mesh::{ChangeDetector, PairSum, Windows};
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

/// A mesh is refused, or is the same after printing and parsing again.
pub fn fuzz_mesh(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(mesh) = Mesh::parse(text) {
        let printed = serde_json::to_string(&mesh).unwrap_or_default();
        assert_eq!(Mesh::parse(&printed).as_ref(), Ok(&mesh));
    }
}

/// Figures of an agent are refused, or add up.
pub fn fuzz_figures(data: &[u8]) {
    let Ok(echo) = document::parse_json::<EchoInterval>(data) else { return };
    let Some(sum) = PairSum::of_interval(&echo, None) else { return };
    let mut windows = Windows::new([10]);
    let mut changes = ChangeDetector::new(Default::default());
    for second in 0..3 {
        windows.add(second, &sum);
        let _ = changes.add(second, &sum);
    }
    let figures = windows.figures(2).remove(0).figures;
    assert_eq!(figures.sent_packets, 3 * echo.sent_packets);
    assert!(figures.lost_packets <= figures.sent_packets);
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

    #[test]
    fn meshes() {
        let text = "schema = \"weir.mesh/1\"\nname = \"m\"\npairs = [[\"a\", \"b\"]]\nwindows = [\"30s\", \"1h\"]\n\
                    probes = { per_second = 20, loss_threshold = \"1s\" }\n[changes]\nloss_percentage = 0.5\n\
                    [bursts]\nevery = \"10m\"\nrate = \"9M\"\n";
        replay(&[text.as_bytes().to_vec()], 3_000, fuzz_mesh);
    }

    #[test]
    fn figures() {
        let text = r#"{"start_seconds":0,"end_seconds":1,"sent_packets":9,"received_packets":3,"lost_packets":6,
            "round_trip":{"count":3,"min_seconds":1e-3,"mean_seconds":2e-3,"max_seconds":3e-3},
            "round_trip_cells":[[1000000,1],[2000000,1],[3000000,1]],"clock_error_seconds":1e-6}"#;
        replay(&[text.as_bytes().to_vec()], 3_000, fuzz_figures);
    }
}
