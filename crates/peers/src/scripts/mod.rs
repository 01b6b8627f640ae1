//! Scripts of other traffic generators, read as plans: MGEN's, and those of RUDE. A script says which flow sends what from when
//! on; here each time in which a flow sends alike becomes a connection.
//!
//! Reading does no I/O. What a plan can't express is refused by its line and its word; what has no effect on the traffic is
//! omitted, and a note says so.

mod line;
mod mgen;
mod plan;
mod rude;
mod timeline;

use weir_model::ModelError;
use weir_model::document::{DocumentCode, DocumentError};
use weir_model::plan::Plan;

pub use fuzz::{fuzz_mgen_script, fuzz_rude_script};
pub use mgen::{Captured, Captures, read as read_mgen};
pub use rude::read as read_rude;

/// Maximum length of a script, bytes.
pub const MAX_SCRIPT_BYTES: usize = 1 << 20;

/// Where the flows of a script are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// To the destinations that the script names, as MGEN's messages.
    Script,
    /// To the test's server.
    Server,
}

/// A script that has been read.
#[derive(Debug, Clone, PartialEq)]
pub struct Script {
    /// The plan that it means.
    pub plan: Plan,
    /// What was omitted, by line.
    pub notes: Vec<Note>,
}

/// A part of a script that has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Its line, from 1.
    pub line: usize,
    /// What it is, and why it has no effect.
    pub text: String,
}

/// The error of a word in a line.
fn refused(
    line: usize,
    word: &str,
    given: impl Into<String>,
    accepted: impl Into<String>,
) -> ModelError {
    ModelError::Document(Box::new(DocumentError {
        document: "",
        code: DocumentCode::Value,
        field: shown(word),
        given: shown(&given.into()),
        accepted: accepted.into(),
        nearest: None,
        line: Some(line),
    }))
}

/// A part of the script as it is shown: without control characters, and not too long.
fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut shown: String = text.chars().take(MOST).map(clean).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

mod fuzz {
    //! Fuzz bodies of the parsers.

    use super::{Captured, Destination, read_mgen, read_rude};

    /// Fuzz body: any text is a checked plan, or an error with its line.
    pub fn fuzz_mgen_script(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        for to in [Destination::Script, Destination::Server] {
            // A capture of the text's own bytes.
            let mut capture = |_: &str| {
                let packet = |(at, byte): (usize, u8)| Captured {
                    at_ns: at as u64 * u64::from(byte) * 1_000_000,
                    frame_bytes: 60 + u64::from(byte),
                };
                Ok(text.bytes().take(100).enumerate().map(packet).collect())
            };
            check(text, read_mgen(text, to, &mut capture));
        }
    }

    /// The same of RUDE's scripts; a trace is the text itself.
    pub fn fuzz_rude_script(data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        for to in [Destination::Script, Destination::Server] {
            check(text, read_rude(text, to, &mut |_| Ok(text.to_owned())));
        }
    }

    fn check(text: &str, read: Result<super::Script, weir_model::ModelError>) {
        let lines = text.lines().count();
        match read {
            Ok(script) => {
                assert!(!script.plan.connections.is_empty());
                assert!(script.notes.iter().all(|note| note.line <= lines.max(1)));
                let again = script.plan.to_toml().map(|text| weir_model::plan::Plan::parse(&text));
                // Without a server a plan is not complete.
                if let Ok(Ok(again)) = again {
                    assert_eq!(again, script.plan);
                }
            }
            Err(weir_model::ModelError::Document(error)) => {
                assert!(error.line.is_none_or(|line| (1..=lines.max(1)).contains(&line)));
            }
            Err(error) => panic!("an error without a line: {error}"),
        }
    }
}
