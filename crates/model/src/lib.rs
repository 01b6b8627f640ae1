//! The shared types of Weir: units, plans, impairments, records of runs, and their JSON Schemas.
//!
//! All other crates use these types; none of them does I/O.
//!
//! - [`units`]: rates, sizes, durations and seeds as newtypes that parse what people write (`10M`, `64K`, `40ms`)
//!   and print in canonical form.
//! - [`plan`]: `weir.plan/1`, the plan of a test; a [`plan::Plan`] expands to [`plan::FlowSpec`]s.
//! - [`impairment`]: `weir.impair/1`, the emulator's configuration, with the loss and delay laws.
//! - [`content`]: the content of payloads.
//! - [`metric`]: the metrics of a record, each declared once.
//! - [`experiment`]: `weir.scenario/1` and `weir.experiment/1`: metrics, expectations, steps and results.
//! - [`record`]: `weir.run/1`, everything that was measured. A part that was not measured is absent, never
//!   zero.
//! - [`report`]: the report of one end of a test; two of them make a record.
//! - [`progress`]: the state of the flows of a running test.
//! - [`watch`]: `weir.mesh/1` and `weir.watch/1`: continuous measurement between agents.
//! - [`names`]: valid names of hosts, interfaces and variables.
//! - [`hex`]: hexadecimal digits.
//! - [`document`]: reading TOML and JSON, with errors as data.
//! - [`json`]: the JSON of all of these, without `null`; [`csv`]: cells of tables.
//! - [`Refusal`]: why something was refused or failed, as data.
//! - [`threads`]: where and how the threads of a test's end run.
//! - [`schema`]: the published JSON Schemas, generated from the types.
//!
//! ```
//! use weir_model::units::SendRate;
//! let rate: SendRate = "50000pps".parse().unwrap();
//! assert_eq!(rate.to_string(), "50000pps");
//! ```

pub mod content;
pub mod csv;
pub mod document;
pub mod experiment;
pub mod fuzz;
pub mod hex;
pub mod impairment;
pub mod json;
mod law;
pub mod metric;
pub mod names;
pub mod plan;
pub mod progress;
pub mod record;
mod refusal;
pub mod report;
pub mod schema;
pub mod threads;
pub mod units;
pub mod warning;
pub mod watch;

mod error;
mod nearest;
mod phrases;
pub use error::ModelError;
pub use nearest::nearest;
pub use phrases::{counted, one_of};
pub use refusal::Refusal;
