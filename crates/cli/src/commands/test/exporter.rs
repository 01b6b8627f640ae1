//! `--prometheus`: live figures for a Prometheus server.

use std::net::SocketAddr;

pub(super) use weir_api::Exporter;

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
