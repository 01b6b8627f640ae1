//! The text messages of `weir.speed/1`, from the page and to it. No sockets.

use serde::{Deserialize, Serialize};

use super::figures::{Mark, Throughput};

/// Maximum length of a text message, bytes.
pub(super) const MAX_BYTES: u64 = 64 << 10;
/// Maximum number of round trips of one kind.
pub(super) const MAX_ROUND_TRIPS: usize = 200;
/// Maximum number of marks of a download.
pub(super) const MAX_MARKS: usize = 400;

/// What moves data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    Download,
    Upload,
}

/// A message from the page.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum FromPage {
    Ping { id: u64 },
    Start { phase: Phase },
    Stop,
    Result(ReportedResult),
}

/// A result reported by the page.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ReportedResult {
    pub(super) download: Option<Throughput>,
    /// Not used: the server counts.
    pub(super) upload: Option<Throughput>,
    pub(super) latency: RoundTrips,
    /// Bytes received over the time of the download.
    pub(super) download_marks: Vec<Mark>,
}

/// Round trips in the order of sending, s.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RoundTrips {
    pub(super) idle: Vec<f64>,
    pub(super) download: Vec<f64>,
    pub(super) upload: Vec<f64>,
}

impl RoundTrips {
    pub(super) fn all(&self) -> [&Vec<f64>; 3] {
        [&self.idle, &self.download, &self.upload]
    }
}

/// Limits sent to the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct PageLimits {
    pub(super) bytes: u64,
    pub(super) session_seconds: u64,
}

/// A message to the page.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToPage {
    Hello {
        version: String,
        session: String,
        streams: usize,
        phase_seconds: u64,
        idle_seconds: f64,
        ping_seconds: f64,
        limits: PageLimits,
    },
    Busy {
        retry_after_seconds: u64,
        text: String,
    },
    Pong {
        id: u64,
    },
    Started {
        phase: Phase,
    },
    Received {
        bytes: u64,
        seconds: f64,
    },
    Stopped {
        phase: Phase,
        bytes: u64,
        seconds: f64,
    },
    Kept {
        id: String,
        url: String,
    },
    NotKept {
        /// Stable name of the reason.
        code: &'static str,
        text: String,
    },
}

impl ToPage {
    pub(super) fn to_text(&self) -> String {
        // Strings, numbers and arrays: serialisation cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Parses a message from the page; absent if it is unknown.
pub(super) fn read(text: &str) -> Option<FromPage> {
    serde_json::from_str(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_s_messages_are_read() {
        assert_eq!(read(r#"{"type":"ping","id":7}"#), Some(FromPage::Ping { id: 7 }));
        let start = FromPage::Start { phase: Phase::Upload };
        assert_eq!(read(r#"{"type":"start","phase":"upload"}"#), Some(start));
        assert_eq!(read(r#"{"type":"stop"}"#), Some(FromPage::Stop));
        let result = r#"{"type":"result","download":{"bytes":8,"seconds":2.0,"bits_per_second":32.0},
            "latency":{"idle":[0.012],"download":[],"upload":[0.5]}}"#;
        let Some(FromPage::Result(claims)) = read(result) else { panic!("no result") };
        assert_eq!(claims.download.unwrap().bytes, 8);
        assert_eq!((claims.upload, claims.latency.idle), (None, vec![0.012]));
    }

    #[test]
    fn anything_else_is_none() {
        for text in [
            "",
            "7",
            "[]",
            "{}",
            r#"{"type":"shell"}"#,
            r#"{"type":"ping"}"#,
            r#"{"type":"ping","id":-1}"#,
            r#"{"type":"start","phase":"idle"}"#,
            r#"{"type":"result","latency":{"idle":["a"]}}"#,
            r#"{"type":"result","latency":{"idle":[1e999]}}"#,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn messages_to_the_page_have_their_words() {
        let stopped = ToPage::Stopped { phase: Phase::Download, bytes: 5, seconds: 0.5 };
        assert_eq!(
            stopped.to_text(),
            r#"{"type":"stopped","phase":"download","bytes":5,"seconds":0.5}"#
        );
        assert_eq!(
            ToPage::NotKept { code: "figures", text: "x".into() }.to_text(),
            r#"{"type":"not_kept","code":"figures","text":"x"}"#
        );
        assert_eq!(ToPage::Pong { id: 1 }.to_text(), r#"{"type":"pong","id":1}"#);
    }
}
