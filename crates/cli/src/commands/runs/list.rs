//! `weir runs list`.

use std::io::{self, Write};

use clap::Args;
use weir_report::{Align, Table, TextOptions, percent};
use weir_runs::{Filter, Place, RunRow, Store};

use super::RunsError;
use super::search::SearchArgs;

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// One JSON object instead of a table.
    #[arg(short = 'J', long)]
    json: bool,
    /// Show at most this many; 0 for all.
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
    place: &Place,
    now_unix_ms: i64,
    options: &TextOptions,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> Result<(), RunsError> {
    let limit = (args.number > 0).then_some(args.number);
    let filter = Filter { limit, ..args.search.filter(now_unix_ms)? };
    let (rows, all) = match Store::open_existing(place)? {
        Some(store) => {
            let rows = store.list(&filter)?;
            let cut = filter.limit.is_some_and(|l| rows.len() as u64 >= u64::from(l));
            let all = if cut { store.count(&filter)? } else { rows.len() as u64 };
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
        if all > rows.len() as u64 {
            writeln!(err, "{} of {all} runs; -n 0 lists all", rows.len())?;
        }
    }
    Ok(())
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
