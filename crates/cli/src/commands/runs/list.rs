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
use crate::terminal::columns;

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
    let left_out = columns().map(|columns| lines.fit(columns)).unwrap_or_default();
    lines.print(options, out)?;
    if !left_out.is_empty() {
        writeln!(err, "not shown in this width: {}; --json has all", left_out.join(", "))?;
    }
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

/// A column of the list.
struct Column {
    heading: &'static str,
    is_numeric: bool,
    /// The value that a column may have in all rows and is then left out.
    left_out: Option<&'static str>,
    /// The width to which it may be shortened to fit the terminal.
    min_width: Option<usize>,
}

const fn column(
    heading: &'static str,
    is_numeric: bool,
    left_out: Option<&'static str>,
    min_width: Option<usize>,
) -> Column {
    Column { heading, is_numeric, left_out, min_width }
}

/// The columns. A run's id begins with the date and time of its start, in UTC.
const COLUMNS: [Column; 9] = [
    column("run (UTC)", false, None, None),
    column("peer", false, None, Some(15)),
    column("flows", false, None, None),
    column("forward", true, Some("-"), None),
    column("reverse", true, Some("-"), None),
    column("loss", true, Some("-"), None),
    column("warnings", true, Some("0"), None),
    column("status", false, Some("complete"), None),
    column("title", false, Some(""), Some(10)),
];

/// Columns in the order in which they are shortened to fit a terminal: title, peer.
const SHORTENED: [usize; 2] = [8, 1];

/// Columns in the order in which they are left out if that is not enough: warnings, title, reverse.
const DROPPED: [usize; 3] = [6, 8, 4];

/// Spaces between columns.
const GAP: usize = 2;

/// Bytes per write.
const CHUNK: usize = 64 << 10;

/// The text of all cells, row by row, the headings first.
struct Lines {
    text: String,
    /// End and width of each cell.
    cells: Vec<(usize, usize)>,
    widths: [usize; COLUMNS.len()],
    is_shown: [bool; COLUMNS.len()],
    rows: u64,
}

impl Lines {
    fn new() -> Self {
        let mut lines = Lines {
            text: String::new(),
            cells: vec![],
            widths: [0; COLUMNS.len()],
            is_shown: [false; COLUMNS.len()],
            rows: 0,
        };
        for Column { heading, .. } in COLUMNS {
            lines.cell(heading);
        }
        lines.is_shown = COLUMNS.map(|column| column.left_out.is_none());
        lines
    }

    fn cell(&mut self, text: &str) {
        // Nearly all cells are plain ASCII; only the others are processed by character.
        let plain = text.bytes().all(|b| (b' '..0x7f).contains(&b));
        let text = if plain { Cow::Borrowed(text) } else { clean(text) };
        let width = if plain { text.len() } else { text.chars().count() };
        let column = self.cells.len() % COLUMNS.len();
        self.widths[column] = self.widths[column].max(width);
        self.is_shown[column] |= COLUMNS[column].left_out != Some(&*text);
        self.text.push_str(&text);
        self.cells.push((self.text.len(), width));
    }

    fn add(&mut self, row: &RunRow<&str>, options: &TextOptions) {
        let rate = |v: Option<f64>| v.map_or("-".into(), |v| options.units.rate(v));
        self.rows += 1;
        self.cell(row.id);
        self.cell(row.host.unwrap_or("-"));
        self.cell(row.transport);
        self.cell(&rate(row.forward_bits_per_second));
        self.cell(&rate(row.reverse_bits_per_second));
        self.cell(&row.loss_ratio.map_or("-".into(), percent));
        self.cell(&row.warnings.to_string());
        self.cell(row.status);
        self.cell(row.title.unwrap_or(""));
    }

    /// Shortens columns, and leaves some out, to fit a terminal of `columns` columns. Returns the headings left out.
    fn fit(&mut self, columns: usize) -> Vec<&'static str> {
        let mut dropped = DROPPED.into_iter();
        let mut left_out = vec![];
        loop {
            let shown: Vec<usize> = (0..COLUMNS.len()).filter(|i| self.is_shown[*i]).collect();
            let all = shown.iter().map(|i| self.widths[*i] + GAP).sum::<usize>();
            let mut excess = all.saturating_sub(GAP + columns);
            let room = |i: usize, width: usize| {
                width.saturating_sub(COLUMNS[i].min_width.unwrap_or(usize::MAX))
            };
            if excess <= shown.iter().map(|i| room(*i, self.widths[*i])).sum() {
                for i in SHORTENED.into_iter().filter(|i| shown.contains(i)) {
                    let less = excess.min(room(i, self.widths[i]));
                    self.widths[i] -= less;
                    excess -= less;
                }
                return left_out;
            }
            match dropped.next() {
                Some(i) if self.is_shown[i] => {
                    self.is_shown[i] = false;
                    left_out.push(COLUMNS[i].heading);
                }
                Some(_) => {}
                None => return left_out,
            }
        }
    }

    /// Prints all lines in chunks of [`CHUNK`] bytes.
    fn print(&self, options: &TextOptions, to: &mut dyn Write) -> io::Result<()> {
        let mut out = String::with_capacity(2 * CHUNK);
        let mut begin = 0;
        for (number, row) in self.cells.chunks_exact(COLUMNS.len()).enumerate() {
            let start = out.len();
            for (column, &(end, width)) in row.iter().enumerate() {
                let text = &self.text[begin..end];
                begin = end;
                if !self.is_shown[column] {
                    continue;
                }
                let max = self.widths[column];
                let pad = max.saturating_sub(width);
                let is_numeric = COLUMNS[column].is_numeric;
                let (before, behind) = if is_numeric { (pad, 0) } else { (0, pad) };
                let gap = if column > 0 { GAP } else { 0 };
                out.extend(std::iter::repeat_n(' ', gap + before));
                if width > max {
                    out.extend(text.chars().take(max - 1));
                    out.push('…');
                } else {
                    out.push_str(text);
                }
                out.extend(std::iter::repeat_n(' ', behind));
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

#[cfg(test)]
mod tests {
    use super::*;

    const TITLE: &str = "the title of a campaign, described at great length by its author";

    fn lines(with_all: bool, title: Option<&'static str>) -> Lines {
        let mut lines = Lines::new();
        let row = RunRow {
            id: "20261121-203240-000001",
            started_at: "2026-11-21T20:32:40.000Z",
            title,
            host: Some("2001:db8:1234:5678:9abc:def0:1234:5678"),
            transport: "udp",
            forward_bits_per_second: Some(1.18e7),
            reverse_bits_per_second: with_all.then_some(1.18e7),
            loss_ratio: with_all.then_some(0.5),
            warnings: with_all.into(),
            status: if with_all { "interrupted" } else { "complete" },
            version: "",
        };
        lines.add(&row, &TextOptions::default());
        lines
    }

    fn printed(lines: &Lines) -> Vec<String> {
        let mut out = vec![];
        lines.print(&TextOptions::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap().lines().map(ToOwned::to_owned).collect()
    }

    #[test]
    fn columns_without_figures_are_left_out() {
        let heads = |with_all, title| printed(&lines(with_all, title))[0].replace("(UTC)", "");
        let heads = |with_all, title| -> Vec<String> {
            heads(with_all, title).split_whitespace().map(ToOwned::to_owned).collect()
        };
        assert_eq!(heads(false, None), ["run", "peer", "flows", "forward"]);
        assert_eq!(heads(false, Some("x")), ["run", "peer", "flows", "forward", "title"]);
        let all = "run peer flows forward reverse loss warnings status title";
        assert_eq!(heads(true, Some("x")).join(" "), all);
    }

    #[test]
    fn a_terminal_gets_lines_that_fit_it() {
        for (with_all, title, columns, wanted) in [
            (false, Some(TITLE), 80, &[][..]),
            (false, Some(TITLE), 120, &[]),
            (true, Some(TITLE), 80, &["warnings", "title", "reverse"]),
            (true, None, 100, &["warnings"]),
        ] {
            let mut lines = lines(with_all, title);
            assert_eq!(lines.fit(columns), wanted);
            let widths: Vec<usize> = printed(&lines).iter().map(|l| l.chars().count()).collect();
            assert!(widths.iter().all(|width| *width <= columns), "{widths:?}");
            assert!(widths[1] + 15 > columns, "no shorter than needed: {widths:?}");
        }
        assert!(printed(&lines(true, Some(TITLE)))[1].ends_with(TITLE), "a pipe gets all");
    }
}
