//! A result as a page, in HTML or Markdown: the figures, warnings about them, and how to repeat the run.
//!
//! A [`Document`] consists of blocks without a format: [`of_run`] makes one from a record, [`of_runs`] one that compares
//! several; [`of_experiment`] and [`of_experiments`] do so for experiments; callers may assemble others. [`html`] and
//! [`markdown`] write it. Every text in it is treated as untrusted. A value that was not measured is shown as such, never as
//! zero.
//!
//! ```
//! use weir_model::record::Record;
//! use weir_report::page;
//! let document = page::of_run(&Record { id: "20261121-203009-ab12cd".into(), ..Default::default() });
//! assert!(page::html(&document).contains("20261121-203009-ab12cd"));
//! assert!(page::markdown(&document).starts_with("## "));
//! ```

mod colours;
mod compare;
mod definitions;
mod difference;
mod document;
mod experiment;
mod experiments;
mod figures;
mod grid;
mod html;
mod markdown;
mod merge;
mod phrases;
mod run;
mod search;
mod tables;

pub use compare::of_runs;
pub use definitions::Definition;
pub(crate) use difference::difference;
pub use document::{Block, Document, Headline, Notice, Section};
pub use experiment::of_experiment;
pub(crate) use experiment::{number_of, quantity, suffix};
pub(crate) use experiments::TABLES;
pub use experiments::{headings, of_experiments};
pub use figures::{figures_of_run, figures_of_runs};
pub use grid::{Cell, Column, Grid};
pub use html::html;
pub use markdown::markdown;
pub(crate) use merge::DIFFERENCE;
pub(crate) use phrases::bottleneck;
pub use phrases::in_one_sentence;
pub use run::of_run;
pub use tables::hosts;
