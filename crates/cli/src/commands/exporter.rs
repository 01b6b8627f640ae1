//! `--prometheus` and `--otlp`: live figures for a Prometheus server and for an OpenTelemetry collector.

use std::net::SocketAddr;

pub(crate) use weir_api::{Exporter, MeshMetrics, OtlpExporter, OtlpSeries, OtlpService};
use weir_api::{OtlpReport, OtlpUrl};

use crate::engine::Stop;
use crate::error::CliError;

/// Opens the listener.
///
/// # Errors
/// [`CliError::NotAvailable`] if the address is unavailable.
pub(crate) fn start(address: SocketAddr) -> Result<Exporter, CliError> {
    let names = weir_net::host::host().map(|host| host.hostname);
    Exporter::start(address, names.into_iter().collect()).map_err(|error| CliError::NotAvailable {
        flag: "--prometheus".into(),
        given: address.to_string(),
        reason: error.to_string(),
    })
}

/// Serves the metrics of a watch, and sends them to a collector, where that is asked for.
///
/// # Errors
/// [`CliError::NotAvailable`] if the address is unavailable; an invalid URL, or no thread.
pub(crate) fn start_mesh(
    mesh: &str,
    address: Option<SocketAddr>,
    url: Option<&str>,
) -> Result<Option<MeshMetrics>, CliError> {
    if address.is_none() && url.is_none() {
        return Ok(None);
    }
    let mut metrics = MeshMetrics::new(mesh);
    if let Some(address) = address {
        let names = weir_net::host::host().map(|host| host.hostname);
        let bound = metrics.serve(address, names.into_iter().collect());
        let bound = bound.map_err(|error| CliError::NotAvailable {
            flag: "--prometheus".into(),
            given: address.to_string(),
            reason: error.to_string(),
        })?;
        crate::job::notice("metrics", &format!("metrics at http://{bound}/metrics"));
    }
    if let Some(url) = url {
        let (parsed, attributes) = collector(url, &format!("{:016x}", crate::random::u64()))?;
        metrics.push(parsed, attributes).map_err(unavailable(url))?;
    }
    Ok(Some(metrics))
}

/// Sends the last figures of a watch, and warns of exports that are missing.
pub(crate) fn finish_mesh(metrics: MeshMetrics, stop: &Stop) {
    let before = stop.requests();
    metrics.finish(&|| stop.requests() > before).into_iter().for_each(warn_of);
}

/// A collector, and the attributes of what exports to it.
type Collector = (OtlpUrl, Vec<(String, String)>);

fn collector(url: &str, id: &str) -> Result<Collector, CliError> {
    let parsed = url.parse().map_err(|why: String| CliError::flag("--otlp", url, &why))?;
    let host = weir_net::host::host().map(|host| ("host.name".to_owned(), host.hostname));
    let mut attributes = vec![("service.instance.id".to_owned(), id.to_owned())];
    attributes.extend(host);
    Ok((parsed, attributes))
}

/// Refuses an invalid URL.
///
/// # Errors
/// The URL is invalid.
pub(crate) fn check_otlp(url: &str) -> Result<(), CliError> {
    collector(url, "").map(drop)
}

fn unavailable(url: &str) -> impl Fn(std::io::Error) -> CliError {
    move |error| CliError::NotAvailable {
        flag: "--otlp".into(),
        given: url.into(),
        reason: error.to_string(),
    }
}

/// Starts to export a test to the collector at `url`; `id` is the run's.
///
/// # Errors
/// An invalid URL, or no thread.
pub(crate) fn start_otlp(url: &str, id: &str) -> Result<OtlpExporter, CliError> {
    let (parsed, attributes) = collector(url, id)?;
    OtlpExporter::start(parsed, attributes).map_err(unavailable(url))
}

/// The same of a server or an emulator.
///
/// # Errors
/// An invalid URL, or no thread.
pub(crate) fn start_otlp_service(url: &str) -> Result<OtlpService, CliError> {
    let (parsed, attributes) = collector(url, &format!("{:016x}", crate::random::u64()))?;
    OtlpService::start(parsed, attributes).map_err(unavailable(url))
}

/// Sends the last figures, and warns of exports that are missing. A further request to stop ends the wait.
pub(crate) fn finish_otlp(exporter: OtlpExporter, stop: &Stop) {
    let before = stop.requests();
    warn_of(exporter.finish(&|| stop.requests() > before));
}

/// The same of a server or an emulator.
pub(crate) fn finish_otlp_service(service: OtlpService, stop: &Stop) {
    let before = stop.requests();
    warn_of(service.finish(&|| stop.requests() > before));
}

fn warn_of(report: OtlpReport) {
    if report.failed == 0 && report.skipped == 0 {
        return;
    }
    let reason = report.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    let text = format!(
        "--otlp: {} exports accepted, {} failed{reason}, {} skipped while one was running",
        report.accepted, report.failed, report.skipped
    );
    crate::job::warn("otlp-incomplete", &text);
}
