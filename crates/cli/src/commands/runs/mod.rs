//! `weir runs`: kept results, listed, shown, exported, imported and removed.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use crate::engine::file_exit_code;
use clap::{Args, Subcommand, ValueEnum};
use weir_model::units::Span;
use weir_report::{
    Align, CsvWriter, IntervalTable, Start, Table, TextOptions, Units, header, json_pretty,
    percent, summary,
};
use weir_runs::{Filter, Place, RunRow, Store, StoreError};

/// `weir runs …`.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    /// What to do; `list` when not given.
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List kept runs, newest first.
    List(ListArgs),
    /// Show a run as it was printed at its end.
    Show(ShowArgs),
    /// Write runs as JSON (one record a line) or CSV.
    Export(ExportArgs),
    /// Read records from a file made by export, or from - (stdin). Runs that are kept already stay as they are.
    Import(ImportArgs),
    /// Remove runs, all of those named or none.
    Rm(RmArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    /// One JSON object instead of a table.
    #[arg(short = 'J', long)]
    json: bool,
    /// Show at most this many; 0 for all.
    #[arg(short, long, value_name = "N", default_value_t = 20)]
    number: u32,
    /// Only runs with this peer, as it was given.
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// Only runs that carry this label.
    #[arg(long, value_name = "KEY[=VALUE]")]
    label: Option<String>,
    /// Only runs that started within this time before now, such as 90m or 24h.
    #[arg(long, value_name = "TIME")]
    since: Option<Span>,
}

impl Default for ListArgs {
    fn default() -> Self {
        ListArgs { json: false, number: 20, host: None, label: None, since: None }
    }
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The run: its id, a beginning of it that no other run has, or "last".
    #[arg(default_value = "last")]
    run: String,
    /// The whole record as JSON.
    #[arg(short = 'J', long)]
    json: bool,
    /// Unit of rates: k, m, g, t (bits, powers of ten) or K, M, G, T (bytes, powers of 1024).
    #[arg(short = 'f', long, value_name = "UNIT")]
    format: Option<Units>,
    /// Every flow and every figure, and the lines of the intervals.
    #[arg(short = 'V', long)]
    verbose: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Json,
    Csv,
}

#[derive(Debug, Args)]
struct ExportArgs {
    /// The runs: ids, beginnings of them, or "last".
    #[arg(required_unless_present = "all", value_name = "RUN")]
    runs: Vec<String>,
    /// All kept runs, oldest first.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    /// What to write.
    #[arg(long, value_enum, default_value_t = Format::Json)]
    format: Format,
    /// Write to this file instead of stdout; a file that is there is replaced once all is written.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ImportArgs {
    /// The file, or - for stdin.
    file: PathBuf,
}

#[derive(Debug, Args)]
struct RmArgs {
    /// The runs: ids, beginnings of them, or "last".
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
}

/// What can go wrong with `weir runs`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunsError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file that was named.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Nothing is kept yet.
    #[error("no run '{selector}': nothing is kept in {} yet", path.display())]
    Nothing {
        /// What was asked for.
        selector: String,
        /// Where.
        path: PathBuf,
    },
    /// Stdout.
    #[error("write to stdout: {0}")]
    Output(#[from] io::Error),
}

impl RunsError {
    /// The exit code of the contract.
    pub(crate) fn exit_code(&self) -> i32 {
        match self {
            // A reader that had enough (`| head`) is no failure of ours.
            RunsError::Output(e) if e.kind() == io::ErrorKind::BrokenPipe => 0,
            RunsError::Output(_) => 70,
            RunsError::Nothing { .. } => 2,
            RunsError::File { source, .. } => file_exit_code(source.kind()),
            RunsError::Store(e) => match e {
                StoreError::NotFound { .. }
                | StoreError::Ambiguous { .. }
                | StoreError::Refused { .. }
                | StoreError::Exists { .. }
                | StoreError::Import { .. } => 2,
                StoreError::Export { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                    0
                }
                _ => 4,
            },
        }
    }
}

/// Runs the command at `place`, writing results to `out` and remarks to `err`; the exit code when it went well.
///
/// # Errors
/// [`RunsError`]; its [`RunsError::exit_code`] is the program's.
pub(crate) fn run(
    args: &RunsArgs,
    place: &Place,
    now_unix_ms: i64,
    options: &TextOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<i32, RunsError> {
    match &args.action {
        None => list(&ListArgs::default(), place, now_unix_ms, options, out, err),
        Some(Action::List(a)) => list(a, place, now_unix_ms, options, out, err),
        Some(Action::Show(a)) => show(a, place, options, out),
        Some(Action::Export(a)) => export(a, place, out),
        Some(Action::Import(a)) => import(a, place, err),
        Some(Action::Rm(a)) => {
            for id in existing(place, a.runs.first())?.remove(&a.runs)? {
                writeln!(err, "removed {id}")?;
            }
            Ok(0)
        }
    }
}

/// The store of a command that needs a run to be there.
fn existing(place: &Place, selector: Option<&String>) -> Result<Store, RunsError> {
    Store::open_existing(place)?.ok_or_else(|| RunsError::Nothing {
        selector: selector.cloned().unwrap_or_default(),
        path: place.file(),
    })
}

fn list(
    args: &ListArgs,
    place: &Place,
    now_unix_ms: i64,
    options: &TextOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<i32, RunsError> {
    let filter = Filter {
        limit: (args.number > 0).then_some(args.number),
        since_unix_ms: args.since.map(|s| now_unix_ms.saturating_sub((s.0 / 1_000_000) as i64)),
        host: args.host.clone(),
        label: args.label.as_ref().map(|l| match l.split_once('=') {
            Some((key, value)) => (key.into(), Some(value.into())),
            None => (l.clone(), None),
        }),
    };
    let (rows, all) = match Store::open_existing(place)? {
        Some(store) => {
            let rows = store.list(&filter)?;
            let cut = filter.limit.is_some_and(|l| rows.len() as u64 >= u64::from(l));
            let all = match cut {
                true => store.list(&Filter { limit: None, ..filter })?.len(),
                false => rows.len(),
            };
            (rows, all)
        }
        None => (vec![], 0),
    };
    if args.json {
        #[derive(serde::Serialize)]
        struct Runs<'a> {
            runs: &'a [RunRow],
        }
        let text = serde_json::to_string_pretty(&Runs { runs: &rows }).map_err(io::Error::from)?;
        writeln!(out, "{text}")?;
    } else if rows.is_empty() {
        writeln!(err, "no such run in {}", place.file().display())?;
    } else {
        out.write_all(table(&rows, options).as_bytes())?;
        if all > rows.len() {
            writeln!(err, "{} of {all} runs; -n 0 lists all", rows.len())?;
        }
    }
    Ok(0)
}

fn table(rows: &[RunRow], options: &TextOptions) -> String {
    let left = |h| (h, Align::Left);
    let right = |h| (h, Align::Right);
    let mut table = Table::new([
        left("run"),
        left("started (UTC)"),
        left("peer"),
        left("flows"),
        right("forward"),
        right("reverse"),
        right("loss"),
        right("warnings"),
        left("status"),
        left("title"),
    ]);
    for r in rows {
        let rate = |v: Option<f64>| v.map_or("-".into(), |v| options.units.rate(v));
        // To the second: the id tells no more, and a list is to be scanned.
        let started = r.started_at.get(..19).unwrap_or(&r.started_at).replace('T', " ");
        table.row([
            r.id.as_str(),
            &started,
            r.host.as_deref().unwrap_or("-"),
            &r.transport,
            &rate(r.forward_bits_per_second),
            &rate(r.reverse_bits_per_second),
            &r.loss_ratio.map_or("-".into(), percent),
            &r.warnings.to_string(),
            &r.status,
            r.title.as_deref().unwrap_or(""),
        ]);
    }
    table.render(&options.style)
}

fn show(
    args: &ShowArgs,
    place: &Place,
    options: &TextOptions,
    out: &mut dyn Write,
) -> Result<i32, RunsError> {
    let record = existing(place, Some(&args.run))?.get(&args.run)?;
    if args.json {
        out.write_all(json_pretty(&record).as_bytes())?;
        return Ok(0);
    }
    let options = TextOptions {
        units: args.format.unwrap_or(options.units),
        verbose: args.verbose || options.verbose,
        stored: true,
        ..*options
    };
    let start = Start::from(&record);
    out.write_all(header(&start, &options).as_bytes())?;
    if options.verbose {
        let table = IntervalTable::new(&start.flows, &options);
        out.write_all(table.heading().as_bytes())?;
        for interval in &record.intervals {
            out.write_all(table.rows(interval).as_bytes())?;
        }
    }
    out.write_all(summary(&record, &options).as_bytes())?;
    Ok(0)
}

fn export(args: &ExportArgs, place: &Place, out: &mut dyn Write) -> Result<i32, RunsError> {
    let store = existing(place, args.runs.first())?;
    let ids: Vec<String> = if args.all {
        store.list(&Filter::default())?.into_iter().rev().map(|r| r.id).collect()
    } else {
        // All words are understood before a file is touched.
        args.runs.iter().map(|r| store.resolve(r)).collect::<Result<_, _>>()?
    };
    match &args.output {
        None => write_runs(&store, &ids, args.format, out)?,
        Some(path) => {
            let fail =
                |operation| move |source| RunsError::File { operation, path: path.clone(), source };
            replace(path, |file| write_runs(&store, &ids, args.format, file)).map_err(
                |e| match e {
                    RunsError::Output(source) => fail("write")(source),
                    RunsError::Store(StoreError::Export { source, .. }) => fail("write")(source),
                    other => other,
                },
            )?;
        }
    }
    Ok(0)
}

fn write_runs(
    store: &Store,
    ids: &[String],
    format: Format,
    out: &mut dyn Write,
) -> Result<(), RunsError> {
    let mut out = BufWriter::new(out);
    match format {
        Format::Json => store.export(ids, &mut out)?,
        Format::Csv => {
            let mut csv = CsvWriter::new(&mut out)?;
            for id in ids {
                csv.record(&store.get(id)?)?;
            }
        }
    }
    out.flush()?;
    Ok(())
}

/// Writes a file beside `path` and moves it there when all went well; what is no plain file (`/dev/stdout`) is written to.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> Result<(), RunsError>,
) -> Result<(), RunsError> {
    if path.metadata().is_ok_and(|m| !m.is_file()) || path.is_symlink() {
        return write(&mut File::options().write(true).truncate(true).open(path)?);
    }
    let mut name = path.file_name().unwrap_or(OsStr::new("")).to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    let mut file = File::options().write(true).create_new(true).open(&part)?;
    let done = write(&mut file)
        .and_then(|()| Ok(file.sync_all()?))
        .and_then(|()| Ok(std::fs::rename(&part, path)?));
    if done.is_err() {
        // The first error is the one to tell.
        let _ = std::fs::remove_file(&part);
    }
    done
}

fn import(args: &ImportArgs, place: &Place, err: &mut dyn Write) -> Result<i32, RunsError> {
    let input: Box<dyn Read> = if args.file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        let open = File::open(&args.file);
        Box::new(open.map_err(|source| RunsError::File {
            operation: "open",
            path: args.file.clone(),
            source,
        })?)
    };
    let done = Store::open_at(place)?.import(&mut BufReader::new(input))?;
    writeln!(err, "{} added, {} already there", done.added, done.already_there)?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    const UDP: &str = include_str!("../../../report/tests/golden/udp_loss.json");
    const PARTIAL: &str = include_str!("../../../report/tests/golden/partial.json");

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        runs: RunsArgs,
    }

    fn weir(dir: &Path, words: &[&str]) -> (Result<i32, RunsError>, String, String) {
        let cli = Cli::try_parse_from([&["runs"], words].concat()).unwrap();
        let (mut out, mut err) = (vec![], vec![]);
        let place = Place::in_directory(dir);
        let now = 1_795_293_109_125;
        let code = run(&cli.runs, &place, now, &TextOptions::default(), &mut out, &mut err);
        (code, String::from_utf8(out).unwrap(), String::from_utf8(err).unwrap())
    }

    fn filled() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("in.json");
        std::fs::write(&file, format!("{UDP}\n{PARTIAL}")).unwrap();
        let (code, _, err) = weir(dir.path(), &["import", file.to_str().unwrap()]);
        assert_eq!((code.unwrap(), err.as_str()), (0, "2 added, 0 already there\n"));
        dir
    }

    #[test]
    fn nothing_kept_yet() {
        let dir = tempfile::tempdir().unwrap();
        let (code, out, err) = weir(dir.path(), &[]);
        assert_eq!((code.unwrap(), out.as_str()), (0, ""));
        assert!(err.contains("runs.db"), "{err}");
        assert_eq!(weir(dir.path(), &["list", "--json"]).1, "{\n  \"runs\": []\n}\n");
        let error = weir(dir.path(), &["show"]).0.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("nothing is kept"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "looking makes nothing");
    }

    #[test]
    fn list_show_and_rm() {
        let dir = filled();
        let (_, out, _) = weir(dir.path(), &["list"]);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 3, "{out}");
        assert!(lines[1].starts_with("20261121-203240-000001") && lines[1].contains("partial"));
        assert!(lines[2].contains("11.8 Mbits/sec") && lines[2].contains("0.12%"), "{out}");
        let (_, one, rest) = weir(dir.path(), &["list", "-n", "1"]);
        assert_eq!((one.lines().count(), rest.as_str()), (2, "1 of 2 runs; -n 0 lists all\n"));
        for all in ["0", "2"] {
            assert_eq!(weir(dir.path(), &["list", "-n", all]).2, "");
        }
        assert_eq!(weir(dir.path(), &["list", "--label", "site=annex"]).1.lines().count(), 2);
        assert_eq!(weir(dir.path(), &["list", "--since", "99s"]).1, "");
        assert_eq!(weir(dir.path(), &["list", "--since", "2m"]).1.lines().count(), 3);
        let (_, out, _) = weir(dir.path(), &["show", "20261121-203009"]);
        assert!(out.contains("12 of 10000 packets lost") && out.contains("warning: "), "{out}");
        assert!(!out.contains("1.00-2.00"), "intervals only when verbose");
        assert!(weir(dir.path(), &["show", "20261121-203009", "-V"]).1.contains("1.00-2.00"));
        assert!(weir(dir.path(), &["show", "20261121-203009", "-f", "k"]).1.contains("Kbits/sec"));
        assert_eq!(weir(dir.path(), &["show", "20261121-203009", "--json"]).1, UDP);
        assert_eq!(weir(dir.path(), &["rm", "20261121"]).0.unwrap_err().exit_code(), 2);
        assert_eq!(weir(dir.path(), &["rm", "last"]).2, "removed 20261121-203240-000001\n");
        assert_eq!(weir(dir.path(), &["list"]).1.lines().count(), 2);
    }

    #[test]
    fn export_to_stdout_and_to_a_file() {
        let dir = filled();
        let (_, json, _) = weir(dir.path(), &["export", "--all"]);
        assert_eq!(json.lines().count(), 2);
        let (_, csv, _) = weir(dir.path(), &["export", "20261121-203009", "--format", "csv"]);
        assert_eq!(csv, include_str!("../../../report/tests/golden/udp_loss.csv"));
        let file = dir.path().join("out.csv");
        let name = file.to_str().unwrap();
        std::fs::write(&file, "old").unwrap();
        let (code, ..) = weir(dir.path(), &["export", "nothing", "-o", name]);
        assert_eq!(code.unwrap_err().exit_code(), 2);
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "old",
            "a refused export leaves the file"
        );
        let (code, out, _) =
            weir(dir.path(), &["export", "20261121-203009", "--format", "csv", "-o", name]);
        assert_eq!((code.unwrap(), out.as_str()), (0, ""));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), csv);
        let parts = |e: io::Result<std::fs::DirEntry>| {
            e.unwrap().path().extension() == Some(OsStr::new("part"))
        };
        assert!(!std::fs::read_dir(dir.path()).unwrap().any(parts));
        let nowhere = dir.path().join("none/out.csv");
        let error =
            weir(dir.path(), &["export", "last", "-o", nowhere.to_str().unwrap()]).0.unwrap_err();
        assert!(error.to_string().contains("none/out.csv"), "{error}");
        #[cfg(target_os = "linux")]
        {
            let error = weir(dir.path(), &["export", "last", "-o", "/dev/full"]).0.unwrap_err();
            assert_eq!(error.exit_code(), 4, "{error}");
            assert!(error.to_string().contains("/dev/full"), "{error}");
        }
    }

    #[test]
    fn bad_imports_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.json");
        let error = weir(dir.path(), &["import", missing.to_str().unwrap()]).0.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("missing.json"), "{error}");
        let bad = dir.path().join("bad.json");
        std::fs::write(&bad, "{\"schema\":").unwrap();
        let error = weir(dir.path(), &["import", bad.to_str().unwrap()]).0.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("record 1"), "{error}");
    }
}
