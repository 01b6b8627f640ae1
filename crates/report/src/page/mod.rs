//! A result as a page: what came out, whether to trust it, how to repeat it; as one HTML file or as Markdown.
//!
//! A [`Document`] is made of blocks that know nothing of their form: [`of_run`] makes one of a record, [`of_runs`] one that
//! compares several, and others may be put together of the same blocks. [`html`] and [`markdown`] write it. Every text in it
//! is taken as hostile; what was not measured is shown as such, never as zero.
//!
//! ```
//! use weir_model::record::Record;
//! use weir_report::page;
//! let document = page::of_run(&Record { id: "20261121-203009-ab12cd".into(), ..Default::default() });
//! assert!(page::html(&document).contains("20261121-203009-ab12cd"));
//! assert!(page::markdown(&document).starts_with("## "));
//! ```

mod compare;
mod definitions;
mod document;
mod experiment;
mod figures;
mod grid;
mod html;
mod markdown;
mod phrases;
mod run;
mod search;
mod tables;

pub use compare::of_runs;
pub use definitions::Definition;
pub use document::{Block, Document, Headline, Notice, Section};
pub use experiment::of_experiment;
pub use figures::{figures_of_run, figures_of_runs};
pub use grid::{Cell, Column, Grid};
pub use html::html;
pub use markdown::markdown;
pub use run::of_run;
