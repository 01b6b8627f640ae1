//! Weir's HTTP API and page: what the command line can do, for programs and people who are not at it.
//!
//! The server measures nothing itself. It starts programs of this binary through a launcher that keeps the capabilities
//! which the server gives up, watches them by their streams of JSON, and tells all readers of one live stream. The store of
//! runs, reports, and previews of laws are called directly.
//!
//! The types you meet:
//! - [`Config`]: where it listens, who may ask, its directories and limits.
//! - [`Server`]: [`Server::bind`], [`Server::run`].
//! - [`launch`]: the launcher's side; [`drop_capabilities`] is the server's.
//! - [`openapi`]: the document made of the routes and of the bodies of requests and answers.
//!
//! ```
//! let document = weir_api::openapi();
//! assert_eq!(document["openapi"], "3.1.0");
//! assert!(document["paths"]["/api/v1/runs"]["get"].is_object());
//! ```

#![allow(
    clippy::result_large_err,
    reason = "a problem is the answer to a request: made once, moved a few times"
)]

mod app;
mod audit;
mod bodies;
#[cfg(target_os = "linux")]
mod capabilities;
mod clock;
mod compress;
mod config;
mod document;
mod events;
mod exporter;
mod extract;
mod file_body;
mod guard;
mod handlers;
mod mesh;
mod otlp;
mod preview;
mod problem;
mod routes;
mod scenarios;
mod serve;
mod server;
pub mod speed;
mod supervise;
mod sweeps;
mod timeout_stream;
mod types;

#[cfg(target_os = "linux")]
pub use capabilities::drop_capabilities;
pub use config::{ApiError, Config, ParseTestFlags};
pub use exporter::Exporter;
pub use guard::make_token_file;
pub use mesh::MeshMetrics;
pub use otlp::{OtlpExporter, OtlpReport, OtlpSeries, OtlpService, OtlpUrl};
pub use server::Server;
#[cfg(target_os = "linux")]
pub use supervise::{LaunchError, launch};
pub use types::ServerLimits;

/// Whether the page was embedded at build time.
#[must_use]
pub fn has_page() -> bool {
    handlers::page::state().built
}

/// The OpenAPI document as the routes and types say; a server has the published file (docs/openapi.json), which a test makes of this.
#[must_use]
pub fn openapi() -> serde_json::Value {
    routes::routes::<true>().into_document()
}

/// The same in OpenAPI 3.0.3, for generators that read no later version (docs/openapi-3.0.json).
#[must_use]
pub fn openapi_three_zero() -> serde_json::Value {
    document::three_zero(openapi())
}
