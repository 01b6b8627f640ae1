//! Errors of reading and writing files of other tools.

/// A file that can't be read, with the place and what is accepted there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}invalid {given}: expected {accepted}", line.map(|n| format!("line {n}: ")).unwrap_or_default(), field.as_deref().map(|f| format!("{f}: ")).unwrap_or_default())]
pub struct ReadError {
    /// The line, from 1, of a text.
    pub line: Option<usize>,
    /// The field of a document, such as `end.streams[0].udp.bytes`, or the column of a table.
    pub field: Option<String>,
    /// What the file has there, shortened.
    pub given: String,
    /// What is accepted.
    pub accepted: String,
}

impl ReadError {
    /// An error without a place.
    pub(crate) fn new(given: impl Into<String>, accepted: impl Into<String>) -> Self {
        let given = crate::text::shortened(&given.into(), 80);
        ReadError { line: None, field: None, given, accepted: accepted.into() }
    }

    /// An error in a line of a text.
    pub(crate) fn at_line(line: usize, given: &str, accepted: impl Into<String>) -> Self {
        ReadError { line: Some(line), ..ReadError::new(format!("{given:?}"), accepted) }
    }

    /// An error of a field.
    pub(crate) fn at_field(
        field: impl Into<String>,
        given: impl Into<String>,
        accepted: impl Into<String>,
    ) -> Self {
        ReadError { field: Some(field.into()), ..ReadError::new(given, accepted) }
    }
}

/// Why a record can't be written in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoForm {
    /// A format of iperf3.
    #[error("{0}")]
    Iperf3(weir_report::NoIperf3Form),
    /// The record has no intervals, and the format nothing else.
    #[error("flent has no form for it: it has no intervals")]
    NoIntervals,
    /// No test of flent has its flows.
    #[error(
        "flent has no test with its flows; accepted: TCP in any direction, or UDP from the client"
    )]
    NoSeries,
    /// A file of this format has one run.
    #[error("a file of this format has one run; export each run by itself")]
    SeveralRuns,
}

impl From<weir_report::NoIperf3Form> for NoForm {
    fn from(reason: weir_report::NoIperf3Form) -> Self {
        NoForm::Iperf3(reason)
    }
}
