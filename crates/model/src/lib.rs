//! The shared nouns of Weir: units, the plan of a test, an impairment, the record of a run, and their JSON Schemas.
//!
//! Every room above speaks in these types; none of them does I/O.
//!
//! - [`units`]: rates, sizes, durations and seeds as newtypes that parse what people write (`10M`, `64K`, `40ms`)
//!   and print back what they understood.
//! - [`plan`]: `weir.plan/1`, what is to be run; a [`plan::Plan`] expands to [`plan::FlowSpec`]s.
//! - [`impairment`]: `weir.impair/1`, what the emulator does to which packets, with the loss and delay laws.
//! - [`content`]: what the bytes of a payload are.
//! - [`metric`]: the metrics of a record, each declared once.
//! - [`experiment`]: `weir.scenario/1` and `weir.experiment/1`: metrics, expectations, steps, and what came of them.
//! - [`record`]: `weir.run/1`, everything that was measured. A part not measured is absent, never zero.
//! - [`report`]: what one end of a test hands to the other afterwards; two of them make a record.
//! - [`progress`]: how far the flows of a running test are.
//! - [`names`]: what may be a host, an interface, a variable.
//! - [`hex`]: hexadecimal digits.
//! - [`document`]: reading TOML and JSON, with refusals as data.
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

mod error;
mod nearest;
mod phrases;
pub use error::ModelError;
pub use nearest::nearest;
pub use phrases::{counted, one_of};
pub use refusal::Refusal;
