//! `--prometheus` and `--otlp`: live figures for a Prometheus server and for an OpenTelemetry collector.

use std::net::SocketAddr;

use weir_api::OtlpUrl;
pub(super) use weir_api::{Exporter, OtlpExporter};

use crate::error::CliError;

/// Opens the listener.
///
/// # Errors
/// [`CliError::NotAvailable`] if the address is unavailable.
pub(super) fn start(address: SocketAddr) -> Result<Exporter, CliError> {
    let names = weir_net::host::host().map(|host| host.hostname);
    Exporter::start(address, names.into_iter().collect()).map_err(|error| CliError::NotAvailable {
        flag: "--prometheus".into(),
        given: address.to_string(),
        reason: error.to_string(),
    })
}

/// Starts to export to the collector at `url`; `id` is the run's.
///
/// # Errors
/// An invalid URL, or no thread.
pub(super) fn start_otlp(url: &str, id: &str) -> Result<OtlpExporter, CliError> {
    let parsed: OtlpUrl = url.parse().map_err(|why: String| CliError::flag("--otlp", url, &why))?;
    let host = weir_net::host::host().map(|host| ("host.name".to_owned(), host.hostname));
    let mut attributes = vec![("service.instance.id".to_owned(), id.to_owned())];
    attributes.extend(host);
    OtlpExporter::start(parsed, attributes).map_err(|error| CliError::NotAvailable {
        flag: "--otlp".into(),
        given: url.into(),
        reason: error.to_string(),
    })
}

/// Sends the last figures, and warns of exports that are missing.
pub(super) fn finish_otlp(exporter: OtlpExporter) {
    let report = exporter.finish();
    if report.failed == 0 && report.skipped == 0 {
        return;
    }
    let reason = report.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let text = format!(
        "--otlp: {} exports accepted, {} failed{reason}, {} intervals skipped while an export was running",
        report.accepted, report.failed, report.skipped
    );
    crate::job::warn("otlp-incomplete", &text);
}
