//! Every rendering of a run record: terminal text, JSON, CSV, small tables, charts, and a page in HTML or Markdown.
//!
//! Rendering is pure: a record goes in, a string or bytes come out. The caller checks whether stdout is a terminal, how wide
//! it is and whether `NO_COLOR` is set, and passes the result in [`TextOptions`].
//!
//! The main types:
//! - [`Start`] and [`FlowMeta`]: the facts known when a test starts; can also be made from a stored record.
//! - [`header`], [`IntervalTable`], [`summary`]: the three parts of the text output, with [`TextOptions`].
//! - [`Units`]: `-f k|m|g|t|K|M|G|T`.
//! - [`CsvWriter`]: `--csv`, one row for each interval and flow, then the summary.
//! - [`experiment_csv`]: an experiment as one table; [`tables_text`], [`table_csv`]: the tables of its scenario;
//!   [`experiments_text`], [`merged_tables`]: those of several experiments.
//! - [`JsonStream`]: `--json-stream`; [`json_pretty`] and [`json_line`] for `--json` and for storage.
//! - [`iperf3_json`], [`Iperf3Text`]: a test as iperf3 prints it.
//! - [`Iperf2Text`]: a test as iperf prints it.
//! - [`NetperfOptions`], [`NetperfSummary`]: a test as netperf prints it.
//! - [`Table`]: aligned columns for lists.
//! - [`plot::Figure`]: a chart as data, drawn as SVG and written as CSV.
//! - [`page::Document`]: a page as data, of a run or of several, written as HTML or Markdown.
//!
//! ```
//! use weir_model::record::Record; use weir_report::{TextOptions, summary}; let record = Record { id:
//! "20261121-203009-ab12cd".into(), ..Default::default() }; assert!(summary(&record,
//! &TextOptions::default()).contains("20261121-203009-ab12cd"));
//! ```

mod csv;
mod experiment;
mod hdr;
mod iperf2;
mod iperf3;
mod json;
mod markup;
mod meta;
mod netperf;
mod number;
mod result_table;
mod style;
mod table;
mod text;

#[doc(hidden)]
pub mod fuzz;
pub mod page;
pub mod plot;

pub use csv::{CsvWriter, csv_columns};
pub use experiment::{experiment_csv, experiments_csv};
pub use iperf2::{
    Iperf2Bounce, Iperf2Options, Iperf2Text, Iperf2Unit, NoIperf2Form, iperf2_banner,
};
pub use iperf3::{
    Iperf3Options, Iperf3Text, Iperf3Unit, NoIperf3Form, iperf3_end, iperf3_interval, iperf3_json,
    iperf3_json_lines, iperf3_start,
};
pub use json::{ErrorEvent, JsonStream, json_line, json_pretty};
pub use markup::escape;
pub use meta::{FlowMeta, Start};
pub use netperf::{
    NetperfConfidence, NetperfEnd, NetperfExchange, NetperfFigures, NetperfForm, NetperfHostCpu,
    NetperfInterim, NetperfKind, NetperfOptions, NetperfSelection, NetperfSummary, NetperfUnit,
    netperf_names,
};
pub use number::{Units, duration, percent, significant, volume};
pub use result_table::{experiments_text, merged_tables, table_csv, table_names, tables_text};
pub use style::{Style, clean};
pub use table::{Align, Table};
pub use text::{IntervalTable, TextOptions, data_source, hanging, header, summary, warning};
