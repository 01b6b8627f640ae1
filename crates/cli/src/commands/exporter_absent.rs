//! `--prometheus` and `--otlp` where the web server is unavailable.

use std::net::SocketAddr;

use weir_model::plan::FlowSpec;
use weir_model::record::Interval;
use weir_model::watch::{AgentState, BurstLine, PairFigures};

use crate::engine::Stop;
use crate::error::CliError;

/// No exporter exists.
pub(crate) enum Exporter {}

/// No exporter exists.
pub(crate) type OtlpExporter = Exporter;

impl Exporter {
    pub(crate) fn flows(&self, _: &[FlowSpec]) {
        match *self {}
    }

    pub(crate) fn interval(&self, _: &Interval) {
        match *self {}
    }

    pub(crate) fn late(&self, _: &Interval) {
        match *self {}
    }
}

/// Refuses.
///
/// # Errors
/// [`CliError::NotAvailable`].
pub(crate) fn start(address: SocketAddr) -> Result<Exporter, CliError> {
    Err(CliError::NotAvailable {
        flag: "--prometheus".into(),
        given: address.to_string(),
        reason: "not available on this system".into(),
    })
}

/// No exporter exists.
pub(crate) enum MeshMetrics {}

impl MeshMetrics {
    pub(crate) fn agent(&self, _: &str, _: AgentState) {
        match *self {}
    }

    pub(crate) fn second(
        &self,
        _: (&str, &str),
        _: f64,
        _: &PairFigures,
        _: impl Iterator<Item = (u64, u64)>,
    ) {
        match *self {}
    }

    pub(crate) fn burst(&self, _: &BurstLine) {
        match *self {}
    }

    pub(crate) fn export(&self) {
        match *self {}
    }
}

/// Refuses an address or a URL.
///
/// # Errors
/// [`CliError::NotAvailable`].
pub(crate) fn start_mesh(
    _: &str,
    address: Option<SocketAddr>,
    url: Option<&str>,
) -> Result<Option<MeshMetrics>, CliError> {
    match (address, url) {
        (Some(address), _) => start(address).map(|_| None),
        (None, Some(url)) => start_otlp(url, "").map(|_| None),
        (None, None) => Ok(None),
    }
}

pub(crate) fn finish_mesh(metrics: MeshMetrics, _: &Stop) {
    match metrics {}
}

/// Refuses.
///
/// # Errors
/// [`CliError::NotAvailable`].
pub(crate) fn start_otlp(url: &str, _: &str) -> Result<OtlpExporter, CliError> {
    Err(CliError::NotAvailable {
        flag: "--otlp".into(),
        given: url.into(),
        reason: "not available on this system".into(),
    })
}

pub(crate) fn finish_otlp(exporter: OtlpExporter, _: &Stop) {
    match exporter {}
}

/// No exporter exists.
pub(crate) enum OtlpService {}

/// A series that nothing exports.
#[allow(dead_code)]
pub(crate) struct OtlpSeries {
    pub(crate) name: String,
    pub(crate) help: String,
    pub(crate) is_sum: bool,
    pub(crate) values: Vec<(Vec<(String, String)>, u64)>,
}

impl OtlpService {
    pub(crate) fn set(&self, _: Vec<OtlpSeries>) {
        match *self {}
    }
}

/// Refuses.
///
/// # Errors
/// [`CliError::NotAvailable`].
pub(crate) fn start_otlp_service(url: &str) -> Result<OtlpService, CliError> {
    start_otlp(url, "").map(|exporter| match exporter {})
}

pub(crate) fn finish_otlp_service(service: OtlpService, _: &Stop) {
    match service {}
}
