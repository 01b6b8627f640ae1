//! Tests of the command with stores in temporary directories.

use super::*;
use clap::Parser;
use std::ffi::OsStr;
use std::path::Path;

const UDP: &str = include_str!("../../../../report/tests/golden/udp_loss.json");
const PARTIAL: &str = include_str!("../../../../report/tests/golden/partial.json");

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    runs: RunsArgs,
}

fn weir(dir: &Path, words: &[&str]) -> (Result<i32, RunsError>, String, String) {
    let cli = Cli::try_parse_from([&["runs"], words].concat()).unwrap();
    let (mut out, mut err) = (vec![], vec![]);
    let data = DataDirectory::in_directory(dir);
    let now = 1_795_293_109_125;
    let code = run(&cli.runs, &data, now, &TextOptions::default(), &mut out, &mut err);
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
fn commands_on_an_empty_store() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = weir(dir.path(), &[]);
    assert_eq!((code.unwrap(), out.as_str()), (0, ""));
    assert!(err.contains("runs.db"), "{err}");
    assert_eq!(weir(dir.path(), &["list", "--json"]).1, "{\n  \"runs\": []\n}\n");
    let error = weir(dir.path(), &["show"]).0.unwrap_err();
    assert_eq!((error.refusal().code.as_str(), error.exit_code()), ("not-found", 2));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "reading creates no files");
}

#[test]
fn list_show_and_rm() {
    let dir = filled();
    let (_, out, _) = weir(dir.path(), &["list"]);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert!(lines[1].starts_with("20261121-203240-000001") && lines[1].contains("partial"));
    assert!(lines[2].contains("11.8 Mbit/s") && lines[2].contains("0.12%"), "{out}");
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
    assert!(weir(dir.path(), &["show", "20261121-203009", "-f", "k"]).1.contains("kbit/s"));
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
    assert_eq!(csv, include_str!("../../../../report/tests/golden/udp_loss.csv"));
    let file = dir.path().join("out.csv");
    let name = file.to_str().unwrap();
    std::fs::write(&file, "old").unwrap();
    let (code, ..) = weir(dir.path(), &["export", "nothing", "-o", name]);
    assert_eq!(code.unwrap_err().exit_code(), 2);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old", "a refused export leaves the file");
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
    assert_eq!(
        (error.refusal().code.as_str(), error.refusal().given.as_deref()),
        ("file", nowhere.to_str())
    );
    #[cfg(target_os = "linux")]
    {
        let error = weir(dir.path(), &["export", "last", "-o", "/dev/full"]).0.unwrap_err();
        assert_eq!(error.exit_code(), 4, "{error}");
        assert_eq!(error.refusal().given.as_deref(), Some("/dev/full"));
    }
}

#[test]
fn bad_imports_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.json");
    let error = weir(dir.path(), &["import", missing.to_str().unwrap()]).0.unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert_eq!(error.refusal().given.as_deref(), missing.to_str());
    let bad = dir.path().join("bad.json");
    std::fs::write(&bad, "{\"schema\":").unwrap();
    let error = weir(dir.path(), &["import", bad.to_str().unwrap()]).0.unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

const FIRST: &str = "20261121-203009-ab12cd";
const SECOND: &str = "20261121-203240-000001";

/// The number of runs that a list prints.
fn found(dir: &Path, words: &[&str]) -> usize {
    let (code, out, _) = weir(dir, &[&["list"], words].concat());
    assert_eq!(code.unwrap(), 0);
    out.lines().count().saturating_sub(1)
}

#[test]
fn lists_are_searched() {
    let dir = filled();
    let dir = dir.path();
    for (words, count) in [
        (&["--where", "transport=udp"][..], 1),
        (&["--where", "transport=udp", "--where", "rate>=1000pps"], 1),
        (&["--where", "transport=udp", "--where", "rate>1000pps"], 0),
        (&["--where", "loss<1%", "--where", "warnings>0"], 1),
        (&["--where", "status=partial"], 1),
        (&["--title", "ANNEX"], 1),
        (&["--label", "site", "--label", "site=annex"], 1),
        (&["--label", "site=other"], 0),
        (&["--host", "198.18.0.2"], 2),
        (&["--since", "2026-11-21", "--until", "2026-11-21"], 2),
        (&["--since", "2026-11-22"], 0),
        (&["--until", "2026-11-20"], 0),
        (&["--since", "7d"], 2),
    ] {
        assert_eq!(found(dir, words), count, "{words:?}");
    }
    let error = weir(dir, &["list", "--since", "yesterday"]).0.unwrap_err();
    let refused = (error.exit_code(), error.refusal());
    assert_eq!((refused.0, refused.1.field.as_deref()), (2, Some("--since")));
    assert_eq!(refused.1.given.as_deref(), Some("yesterday"));
    let error = Cli::try_parse_from(["runs", "list", "--where", "speed>1"]).err().unwrap();
    assert_eq!(crate::parsed::refusal(&error, &[]).field.as_deref(), Some("--where"));
}

#[test]
fn labels_are_set_and_removed() {
    let dir = filled();
    let dir = dir.path();
    let (code, _, err) = weir(dir, &["tag", "last", "site=annex", "note=a b"]);
    assert_eq!((code.unwrap(), err), (0, format!("{SECOND}: note=a b, site=annex\n")));
    assert_eq!(found(dir, &["--label", "site=annex"]), 2);
    assert!(weir(dir, &["show", "last"]).1.ends_with("labels: note=a b, site=annex\n"));
    let error = weir(dir, &["untag", "last", "site", "other"]).0.unwrap_err();
    assert_eq!((error.refusal().given.as_deref(), error.exit_code()), (Some("other"), 2));
    assert_eq!(weir(dir, &["untag", "last", "note", "site"]).2, format!("{SECOND}: no labels\n"));
    assert!(!weir(dir, &["show", "last"]).1.contains("labels:"));
    assert_eq!(weir(dir, &["tag", "last~1", "a=b"]).2, format!("{FIRST}: a=b, site=annex\n"));
    assert_eq!(weir(dir, &["tag", "nothing", "a=b"]).0.unwrap_err().exit_code(), 2);
    assert!(Cli::try_parse_from(["runs", "tag", "last", "a"]).is_err());
}

#[test]
fn exports_accept_search_flags() {
    let dir = filled();
    let dir = dir.path();
    let (_, one, _) = weir(dir, &["export", "--where", "status=complete"]);
    assert!(one.lines().count() == 1 && one.contains(FIRST));
    assert!(Cli::try_parse_from(["runs", "export"]).is_err());
    assert!(Cli::try_parse_from(["runs", "export", "last", "--label", "a"]).is_err());
    assert!(Cli::try_parse_from(["runs", "export", "last", "--all"]).is_err());

    let tables = dir.join("new/tables");
    let name = tables.to_str().unwrap();
    let (code, out, err) = weir(dir, &["export", "--all", "--tables", name]);
    assert_eq!((code.unwrap(), out, err), (0, String::new(), format!("2 runs in {name}\n")));
    let mut files: Vec<String> = std::fs::read_dir(&tables)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    assert_eq!(files, ["flows.csv", "histograms.csv", "intervals.csv", "runs.csv"]);
    let runs = std::fs::read_to_string(tables.join("runs.csv")).unwrap();
    assert!(runs.lines().next().unwrap().ends_with(",labels_site"));
    // Oldest first; a second export replaces the files.
    assert!(runs.lines().nth(1).unwrap().starts_with(FIRST), "{runs}");
    weir(dir, &["export", "last", "--tables", name]).0.unwrap();
    let runs = std::fs::read_to_string(tables.join("runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 2);
    let error = weir(dir, &["export", "--all", "--tables", "/dev/null/x"]).0.unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_are_written_by_group_and_day() {
    let dir = filled();
    let dir = dir.path();
    let results = dir.join("new/results");
    let name = results.to_str().unwrap();
    let (code, out, err) = weir(dir, &["export", "--all", "--parquet", name]);
    assert_eq!((code.unwrap(), out.as_str()), (0, ""));
    assert_eq!(err, format!("2 runs of 1 day in {name}\n"));
    for group in weir_runs::groups() {
        let file = results.join(format!("group={group}/day=2026-11-21/weir.parquet"));
        assert!(std::fs::read(&file).unwrap().starts_with(b"PAR1"), "{group}");
    }
    let file = results.join("group=runs/day=2026-11-21/weir.parquet");
    let size = || file.metadata().unwrap().len();
    let both = size();
    // Runs are written once, in the order of their starts, however they are named.
    weir(dir, &["export", "last", "last~1", "last", "--parquet", name]).0.unwrap();
    assert_eq!(size(), both);
    // The same selection as of other exports; the day is replaced.
    weir(dir, &["export", "--where", "status=complete", "--parquet", name]).0.unwrap();
    assert!(size() < both);
    let error = weir(dir, &["export", "nothing", "--parquet", name]).0.unwrap_err();
    assert_eq!((error.exit_code(), error.refusal().field.as_deref()), (2, Some("RUN")));
    let blocked = file.to_str().unwrap();
    let error = weir(dir, &["export", "--all", "--parquet", blocked]).0.unwrap_err();
    let refusal = error.refusal();
    assert_eq!((error.exit_code(), refusal.code.as_str()), (2, "file"));
    let where_from = (refusal.field.as_deref(), refusal.given.as_deref());
    assert_eq!(where_from, (Some("--parquet"), Some(blocked)));
    for other in [&["--tables", "x"][..], &["-o", "x"], &["--format", "csv"]] {
        let words = [&["runs", "export", "--all", "--parquet", "x"], other].concat();
        assert!(Cli::try_parse_from(words).is_err(), "{other:?}");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_by_a_build_without_it() {
    let dir = filled();
    let results = dir.path().join("results");
    let name = results.to_str().unwrap();
    let error = weir(dir.path(), &["export", "--all", "--parquet", name]).0.unwrap_err();
    let refusal = error.refusal();
    assert_eq!((error.exit_code(), refusal.code.as_str()), (4, "not-available"));
    assert_eq!(refusal.field.as_deref(), Some("--parquet"));
    assert!(!results.exists());
}

#[test]
fn runs_are_compared() {
    let dir = filled();
    let dir = dir.path();
    let file = dir.join("more.json");
    let more: Vec<String> = (0..4)
        .map(|n| {
            UDP.replace(FIRST, &format!("20261122-00000{n}-000000"))
                .replace("\"annex\"", "\"main\"")
                .replace("1000pps", "2000pps")
                .replace("11763045.10451045", &format!("2352609{n}.0"))
        })
        .collect();
    std::fs::write(&file, more.join("\n")).unwrap();
    weir(dir, &["import", file.to_str().unwrap()]).0.unwrap();

    let (code, out, _) = weir(dir, &["diff", "20261121-203009", "last"]);
    assert_eq!(code.unwrap(), 0);
    assert!(out.contains("plan.connection[0].rate  1000pps  2000pps"), "{out}");
    let line = out.lines().find(|l| l.starts_with("forward throughput")).unwrap();
    assert!(line.contains("11.8 Mbit/s") && line.contains("+100%"), "{line}");
    assert!(line.ends_with("too few"), "three intervals are too few: {line}");
    assert!(out.contains("not tested"), "{out}");

    // Without arguments, the last two runs.
    let (_, json, _) = weir(dir, &["diff", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "weir.runs-diff/1");
    assert_eq!(
        (&json["a"][0], &json["b"][0]),
        (&"20261122-000002-000000".into(), &"20261122-000003-000000".into())
    );

    // If only the last run is given, in whatever form, it is compared with the one before.
    let sides = |words: &[&str]| {
        let (code, json, _) = weir(dir, words);
        assert_eq!(code.unwrap(), 0, "{words:?}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        (json["a"].clone(), json["b"].clone())
    };
    let newest = sides(&["diff", "--json"]);
    assert_eq!(sides(&["diff", "last", "--json"]), newest);
    assert_eq!(sides(&["diff", "20261122-000003", "--json"]), newest);
    assert_eq!(sides(&["diff", "last~2", "--json"]).1, newest.1, "an older one against the last");

    let (_, out, _) = weir(dir, &["diff", "--a", "last", "--a", "last~1", "--b", "site=annex"]);
    assert!(out.contains("A  2 runs: ") && out.contains("With 2 and 1 values"), "{out}");

    for (words, code) in [
        (&["diff", "last", "last"][..], "same-run"),
        (&["diff", "--a", "site=none", "--b", "site=main"], "not-found"),
        (&["diff", "--a", "site=main", "--b", "last"], "same-run"),
        (&["diff", "nothing"], "not-found"),
    ] {
        let error = weir(dir, words).0.unwrap_err();
        assert_eq!((error.refusal().code.as_str(), error.exit_code()), (code, 2), "{words:?}");
    }
    for bad in [
        &["diff", "--a", "x=y"][..],
        &["diff", "last", "--a", "x=y", "--b", "x=z"],
        &["diff", "--confidence", "100%"],
    ] {
        assert!(Cli::try_parse_from([&["runs"], bad].concat()).is_err(), "{bad:?}");
    }
}

/// A result of another tool becomes a run like others, and is written in other formats.
#[test]
fn results_of_other_tools_are_imported() {
    const RESULT: &str = include_str!("../../../../exchange/tests/files/iperf3/tcp_parallel.json");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let file = dir.join("result.json");
    let name = file.to_str().unwrap();
    std::fs::write(&file, RESULT).unwrap();
    assert_eq!(weir(dir, &["import", name]).2, "1 added, 0 already there\n");
    let again = weir(dir, &["import", name, "--format", "iperf3"]);
    assert_eq!(again.2, "0 added, 1 already there\n");
    assert_eq!(found(dir, &["--label", "imported=iperf3", "--where", "throughput>1M"]), 1);
    let (_, json, _) = weir(dir, &["show", "last", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json["plan_sha256"].as_str().map(str::len), Some(64));
    let (code, flent, _) = {
        let out = dir.join("out.flent.gz");
        let words = ["export", "last", "--format", "flent", "-o", out.to_str().unwrap()];
        let (code, _, err) = weir(dir, &words);
        (code, std::fs::read(out).unwrap(), err)
    };
    assert_eq!((code.unwrap(), &flent[..2]), (0, &[0x1f, 0x8b][..]));
    let (_, stream, _) = weir(dir, &["export", "last", "--format", "iperf3-stream"]);
    assert!(stream.starts_with("{\"") && stream.lines().count() == 5, "{stream}");
}

#[test]
fn a_file_of_no_format_is_refused_with_the_list() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let file = dir.join("result.txt");
    let name = file.to_str().unwrap();
    let refusal = |text: &str, words: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let error = weir(dir, &[&["import", name], words].concat()).0.unwrap_err();
        assert_eq!(error.exit_code(), 2);
        error.refusal()
    };
    let unknown = refusal("hello\n", &[]);
    assert_eq!((unknown.code.as_str(), unknown.field.as_deref()), ("result", Some("FILE")));
    assert!(unknown.accepted.unwrap().contains("nuttcp"));
    let line = refusal("x MB / 1.00 sec = 2.00 Mbps 1 %TX\n", &["--format", "nuttcp"]);
    assert_eq!((line.code.as_str(), line.line), ("result", Some(1)));
    assert_eq!(refusal("{\"schema\":\"weir.run/1\"", &[]).code, "runs");
    assert!(Cli::try_parse_from(["runs", "import", name, "--format", "nope"]).is_err());
}
