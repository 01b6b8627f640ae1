//! `weir runs list`. A store may hold a hundred thousand runs, so rows are formatted while they are read, into one text.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io::{self, Write};

use clap::Args;
use serde::ser::{Error as _, Serialize, SerializeSeq as _, Serializer};
use weir_report::{TextOptions, clean, percent};
use weir_runs::{DataDirectory, Filter, RunRow, Store, StoreError};

use super::RunsError;
use super::search::SearchArgs;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Print one JSON object instead of a table.
    #[arg(short = 'J', long)]
    json: bool,
    /// Maximum number of runs; 0 for all.
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    number: u32,
    #[command(flatten)]
    search: SearchArgs,
}

impl Default for ListArgs {
    fn default() -> Self {
        ListArgs { json: false, number: 20, search: SearchArgs::default() }
    }
}

pub(super) fn run(
    args: &ListArgs,
    data: &DataDirectory,
    now_unix_ms: i64,
    options: &TextOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), RunsError> {
    let limit = (args.number > 0).then_some(args.number);
    let filter = Filter { limit, ..args.search.filter(now_unix_ms)? };
    let store = Store::open_existing(data)?;
    if args.json {
        out.write_all(json(store.as_ref(), &filter)?.as_slice())?;
        return Ok(());
    }
    let mut lines = Lines::new();
    if let Some(store) = &store {
        store.each(&filter, |row| {
            lines.add(&row, options);
            Ok::<(), StoreError>(())
        })?;
    }
    if lines.rows == 0 {
        writeln!(err, "no such run in {}", data.file().display())?;
        return Ok(());
    }
    lines.print(options, out)?;
    if let Some(store) = store
        && limit.is_some_and(|limit| lines.rows >= u64::from(limit))
    {
        let all = store.count(&filter)?;
        if all > lines.rows {
            writeln!(err, "{} of {all} runs; -n 0 lists all", lines.rows)?;
        }
    }
    Ok(())
}

/// All rows as one JSON object, complete before the first byte is printed.
fn json(store: Option<&Store>, filter: &Filter) -> Result<Vec<u8>, RunsError> {
    #[derive(serde::Serialize)]
    struct Runs<'a> {
        runs: Rows<'a>,
    }
    let runs = Runs { runs: Rows { store, filter, failure: RefCell::default() } };
    let mut text = vec![];
    let written = serde_json::to_writer_pretty(&mut text, &runs);
    if let Some(error) = runs.runs.failure.take() {
        return Err(error.into());
    }
    written.map_err(io::Error::from)?;
    text.push(b'\n');
    Ok(text)
}

/// Rows that are serialized as they are read.
struct Rows<'a> {
    store: Option<&'a Store>,
    filter: &'a Filter,
    /// The store's error, which a serializer's error can't hold.
    failure: RefCell<Option<StoreError>>,
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        enum Stop<E> {
            Store(StoreError),
            Output(E),
        }
        impl<E> From<StoreError> for Stop<E> {
            fn from(error: StoreError) -> Self {
                Stop::Store(error)
            }
        }
        let mut rows = serializer.serialize_seq(None)?;
        let read = self.store.map_or(Ok(()), |store| {
            store.each(self.filter, |row| rows.serialize_element(&row).map_err(Stop::Output))
        });
        match read {
            Ok(()) => rows.end(),
            Err(Stop::Output(error)) => Err(error),
            Err(Stop::Store(error)) => {
                let text = error.to_string();
                self.failure.replace(Some(error));
                Err(S::Error::custom(text))
            }
        }
    }
}

/// The columns: heading, and whether the column is numeric.
const COLUMNS: [(&str, bool); 10] = [
    ("run", false),
    ("started (UTC)", false),
    ("peer", false),
    ("flows", false),
    ("forward", true),
    ("reverse", true),
    ("loss", true),
    ("warnings", true),
    ("status", false),
    ("title", false),
];

/// Bytes per write.
const CHUNK: usize = 64 << 10;

/// The text of all cells, row by row, the headings first.
struct Lines {
    text: String,
    /// End and width of each cell.
    cells: Vec<(usize, usize)>,
    widths: [usize; COLUMNS.len()],
    rows: u64,
}

impl Lines {
    fn new() -> Self {
        let mut lines =
            Lines { text: String::new(), cells: vec![], widths: [0; COLUMNS.len()], rows: 0 };
        for (heading, _) in COLUMNS {
            lines.cell(heading);
        }
        lines
    }

    fn cell(&mut self, text: &str) {
        // Nearly all cells are plain ASCII; only the others are processed by character.
        let plain = text.bytes().all(|b| (b' '..0x7f).contains(&b));
        let text = if plain { Cow::Borrowed(text) } else { clean(text) };
        let width = if plain { text.len() } else { text.chars().count() };
        let column = self.cells.len() % COLUMNS.len();
        self.widths[column] = self.widths[column].max(width);
        self.text.push_str(&text);
        self.cells.push((self.text.len(), width));
    }

    fn add(&mut self, row: &RunRow<&str>, options: &TextOptions) {
        let rate = |v: Option<f64>| v.map_or("-".into(), |v| options.units.rate(v));
        self.rows += 1;
        self.cell(row.id);
        // To the second, as in the id.
        self.cell(&row.started_at.get(..19).unwrap_or(row.started_at).replacen('T', " ", 1));
        self.cell(row.host.unwrap_or("-"));
        self.cell(row.transport);
        self.cell(&rate(row.forward_bits_per_second));
        self.cell(&rate(row.reverse_bits_per_second));
        self.cell(&row.loss_ratio.map_or("-".into(), percent));
        self.cell(&row.warnings.to_string());
        self.cell(row.status);
        self.cell(row.title.unwrap_or(""));
    }

    /// Prints all lines in chunks of [`CHUNK`] bytes.
    fn print(&self, options: &TextOptions, to: &mut dyn Write) -> io::Result<()> {
        let mut out = String::with_capacity(2 * CHUNK);
        let mut begin = 0;
        for (number, row) in self.cells.chunks_exact(COLUMNS.len()).enumerate() {
            let start = out.len();
            for (column, &(end, width)) in row.iter().enumerate() {
                let pad = self.widths[column] - width;
                let (before, behind) = if COLUMNS[column].1 { (pad, 0) } else { (0, pad) };
                let gap = if column > 0 { 2 } else { 0 };
                out.extend(std::iter::repeat_n(' ', gap + before));
                out.push_str(&self.text[begin..end]);
                out.extend(std::iter::repeat_n(' ', behind));
                begin = end;
            }
            out.truncate(out.trim_end().len());
            if number == 0 {
                let heading = options.style.bold(&out[start..]).to_string();
                out.replace_range(start.., &heading);
            }
            out.push('\n');
            if out.len() >= CHUNK {
                to.write_all(out.as_bytes())?;
                out.clear();
            }
        }
        to.write_all(out.as_bytes())
    }
}
