//! `--prometheus` and `--otlp` where the web server is unavailable.

use std::net::SocketAddr;

use weir_model::plan::FlowSpec;
use weir_model::record::Interval;

use crate::error::CliError;

/// No exporter exists.
pub(super) enum Exporter {}

/// No exporter exists.
pub(super) type OtlpExporter = Exporter;

impl Exporter {
    pub(super) fn flows(&self, _: &[FlowSpec]) {
        match *self {}
    }

    pub(super) fn interval(&self, _: &Interval) {
        match *self {}
    }

    pub(super) fn late(&self, _: &Interval) {
        match *self {}
    }
}

/// Refuses.
///
/// # Errors
/// [`CliError::NotAvailable`].
pub(super) fn start(address: SocketAddr) -> Result<Exporter, CliError> {
    Err(CliError::NotAvailable {
        flag: "--prometheus".into(),
        given: address.to_string(),
        reason: "not available on this system".into(),
    })
}

/// Refuses.
///
/// # Errors
/// [`CliError::NotAvailable`].
pub(super) fn start_otlp(url: &str, _: &str) -> Result<OtlpExporter, CliError> {
    Err(CliError::NotAvailable {
        flag: "--otlp".into(),
        given: url.into(),
        reason: "not available on this system".into(),
    })
}

pub(super) fn finish_otlp(exporter: OtlpExporter) {
    match exporter {}
}
