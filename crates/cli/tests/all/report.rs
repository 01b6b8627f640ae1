//! `weir report`: pages and charts of stored runs and files, exit codes, and the page in a real browser.
// Clippy exempts test functions, but not their helpers.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use weir_model::Refusal;

use crate::common::messages;

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// A golden record of the report crate.
fn record(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/golden").join(name)
}

/// The title in a golden file, up to characters that pages escape.
fn title(name: &str) -> String {
    let text = std::fs::read_to_string(record(name)).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let title = value["plan"]["title"].as_str().or(value["title"].as_str());
    title.unwrap().split(',').next().unwrap().to_owned()
}

#[derive(Debug)]
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

/// Runs `weir` in a directory, with its stored runs there.
fn weir(dir: &Path, words: &[&str], input: &str) -> Ended {
    let mut child = Command::new(WEIR)
        .args(words)
        .current_dir(dir)
        .env("WEIR_DATA_DIR", dir.join("data"))
        .env("WEIR_ERRORS", "json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end without reading its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let done = child.wait_with_output().unwrap();
    Ended {
        code: done.status.code().unwrap(),
        stdout: String::from_utf8(done.stdout).unwrap(),
        stderr: String::from_utf8(done.stderr).unwrap(),
    }
}

/// The refusal of the command, which must have exit code 2.
#[track_caller]
fn refused(dir: &Path, words: &[&str], input: &str) -> Refusal {
    let done = weir(dir, words, input);
    let error: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
    let refused: Refusal = serde_json::from_value(error["error"].clone()).unwrap();
    assert_eq!((done.code, refused.exit_code), (2, 2), "{words:?}: {refused:?}");
    refused
}

fn files(dir: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| n != "data").collect();
    names.sort();
    names
}

#[test]
fn a_file_becomes_a_page_that_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let file = record("everything.json");
    let file = file.to_str().unwrap();
    let done = weir(dir.path(), &["report", file], "");
    let name = "weir-report-20261122-081500-e0e0e0.html";
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{}", done.stderr);
    let [told] = &messages(&done.stderr, "wrote")[..] else { panic!("{}", done.stderr) };
    assert!(told.contains(name), "{told}");
    assert_eq!(files(dir.path()), [name]);
    let page = std::fs::read_to_string(dir.path().join(name)).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains(&title("everything.json")));
    std::fs::write(dir.path().join(name), "mine").unwrap();
    let refused = refused(dir.path(), &["report", file], "");
    assert_eq!(refused.field.as_deref(), Some("--output"));
    assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), "mine");
    assert_eq!(weir(dir.path(), &["report", file, "--force"], "").code, 0);
    assert_eq!(std::fs::read_to_string(dir.path().join(name)).unwrap(), page);
    assert_eq!(files(dir.path()), [name], "no other file is left");
    assert_eq!(weir(dir.path(), &["report", file, "-o", "-"], "").stdout, page);
}

#[test]
fn stored_runs_by_id_prefix_or_last() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(refused(dir.path(), &["report"], "").code, "not-found");
    for name in ["everything.json", "udp_loss.json", "partial.json"] {
        assert_eq!(
            weir(dir.path(), &["runs", "import", record(name).to_str().unwrap()], "").code,
            0
        );
    }
    let last = weir(dir.path(), &["report", "--format", "md"], "");
    let heading = format!("## {}\n", title("everything.json"));
    assert!(last.stdout.starts_with(&heading), "{}", last.stdout);
    let both = weir(dir.path(), &["report", "20261121-203009", "last", "--format", "md"], "");
    // In the order of the arguments.
    let place = |id: &str| both.stdout.find(&format!("`{id}`")).unwrap_or_else(|| panic!("{id}"));
    assert!(place("20261121-203009-ab12cd") < place("20261122-081500-e0e0e0"), "{}", both.stdout);
    assert_eq!(weir(dir.path(), &["report", "20261121-203009", "last"], "").code, 0);
    assert_eq!(files(dir.path()), ["weir-report-20261121-203009-ab12cd-and-1-more.html"]);
    assert_eq!(refused(dir.path(), &["report", "20261121"], "").code, "ambiguous");
    let missing = refused(dir.path(), &["report", "last", "nowhere"], "");
    assert_eq!((missing.code.as_str(), missing.given.as_deref()), ("not-found", Some("nowhere")));
}

#[test]
fn records_from_stdin_one_or_many() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] =
        ["udp_loss.json", "tcp_bidir.json"].map(|n| std::fs::read_to_string(record(n)).unwrap());
    let one = weir(dir.path(), &["report", "-", "--format", "md"], &a);
    let heading = format!("## {}", title("udp_loss.json"));
    assert!(one.stdout.starts_with(&heading), "{}{}", one.stdout, one.stderr);
    let id = |record: &str| -> String {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        format!("`{}`", record["id"].as_str().unwrap())
    };
    for input in [format!("{a}\n{b}"), format!("[{a},{b}]")] {
        let two = weir(dir.path(), &["report", "-", "--format", "md"], &input);
        for record in [&a, &b] {
            assert!(two.stdout.contains(&id(record)), "{}{}", two.stdout, two.stderr);
        }
    }
    let second = format!("{a}\n{{\"schema\":7}}");
    for (input, record) in [
        ("", 1),
        ("{\"schema\":", 1),
        ("{\"error\":{\"message\":\"refused\"}}", 1),
        ("{\"schema\":\"weir.plan/1\"}", 1),
        ("\"text\"", 1),
        (&second, 2),
    ] {
        let refused = refused(dir.path(), &["report", "-"], input);
        assert_eq!(refused.field.as_deref(), Some("RUN"), "{input}");
        let given = refused.given.unwrap();
        assert!(given.starts_with(&format!("stdin, record {record}:")), "{input}: {given}");
    }
    let missing = refused(dir.path(), &["report", "missing.json"], "");
    assert_eq!((missing.code.as_str(), missing.given.as_deref()), ("file", Some("missing.json")));
    assert_eq!(files(dir.path()), [""; 0]);
}

#[test]
fn charts_as_svg_and_csv() {
    let dir = tempfile::tempdir().unwrap();
    let file = record("everything.json");
    let file = file.to_str().unwrap();
    for (format, first) in [("svg", "<svg "), ("csv", "series,")] {
        let done =
            weir(dir.path(), &["report", file, "--format", format, "-o", "charts/of this"], "");
        assert_eq!(done.code, 0, "{}", done.stderr);
        let text =
            std::fs::read_to_string(dir.path().join(format!("charts/of this/delay-cdf.{format}")))
                .unwrap();
        assert!(text.starts_with(first), "{text}");
        let one =
            weir(dir.path(), &["report", file, "--format", format, "--figure", "delay-cdf"], "");
        assert_eq!(one.stdout, text);
    }
    assert_eq!(files(&dir.path().join("charts/of this")).len(), 24);
    // A named output is replaced; a default name replaces nothing.
    let throughput = dir.path().join("charts/of this/throughput.svg");
    std::fs::write(&throughput, "old").unwrap();
    let again = weir(dir.path(), &["report", file, "--format", "svg", "-o", "charts/of this"], "");
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert!(std::fs::read_to_string(&throughput).unwrap().starts_with("<svg "));
    let unknown = ["report", file, "--format", "svg", "--figure", "nonsense"];
    let unknown = refused(dir.path(), &unknown, "");
    assert_eq!(unknown.field.as_deref(), Some("--figure"));
    assert!(unknown.accepted.unwrap().contains("tcp-cwnd"));
    assert_eq!(weir(dir.path(), &["report", file, "--figure", "loss"], "").code, 2);
    assert_eq!(weir(dir.path(), &["report", file, "--format", "svg", "-o", "-"], "").code, 2);
    assert_eq!(weir(dir.path(), &["report", file, "--format", "svg"], "").code, 0);
    assert!(dir.path().join("weir-report-20261122-081500-e0e0e0/loss.svg").is_file());
    let again = refused(dir.path(), &["report", file, "--format", "svg"], "");
    assert_eq!(again.field.as_deref(), Some("--output"));
}

#[test]
fn an_output_that_can_not_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = record("udp_loss.json");
    let file = file.to_str().unwrap();
    let nowhere = refused(dir.path(), &["report", file, "-o", "none/page.html"], "");
    assert!(nowhere.given.unwrap().starts_with("none/page.html"));
    #[cfg(target_os = "linux")]
    {
        let full = weir(dir.path(), &["report", file, "-o", "/dev/full"], "");
        assert_eq!(full.code, 4, "{}", full.stderr);
        assert_eq!(weir(dir.path(), &["report", file, "-o", "/dev/null"], "").code, 0);
    }
    // An id from a hostile file can't become a path.
    let text = std::fs::read_to_string(record("udp_loss.json")).unwrap();
    let hostile = text.replace("20261121-203009-ab12cd", "../../x/../y");
    assert_eq!(weir(dir.path(), &["report", "-"], &hostile).code, 0);
    assert_eq!(files(dir.path()), ["weir-report-....x..y.html"]);
}

/// A comparison of a run with itself would show no difference.
#[test]
fn a_run_is_not_compared_with_itself() {
    let dir = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(record("udp_loss.json")).unwrap();
    assert_eq!(weir(dir.path(), &["runs", "import", "-"], &text).code, 0);
    let file = record("udp_loss.json");
    for words in [["last", "last"], ["last", file.to_str().unwrap()]] {
        let refused = refused(dir.path(), &["report", words[0], words[1], "-o", "-"], "");
        assert_eq!(refused.field.as_deref(), Some("RUN"));
        assert!(refused.given.unwrap().contains("20261121-203009-ab12cd"));
    }
}

/// Stores an experiment as `weir run` does, and a checkpoint without a result.
fn keep_experiments(dir: &Path) {
    let kept = dir.join("data/experiments");
    std::fs::create_dir_all(&kept).unwrap();
    let text = std::fs::read_to_string(record("experiment.json")).unwrap();
    for id in ["20261122-090000-aaaaaa", "20261122-100000-bbbbbb"] {
        let text = text.replace("20261122-120000-eeeeee", id);
        std::fs::write(kept.join(format!("{id}.json")), text).unwrap();
    }
    std::fs::write(kept.join("20261122-110000-cccccc.checkpoint"), "{}\n").unwrap();
}

#[test]
fn a_stored_experiment_becomes_a_page_tables_and_charts() {
    let dir = tempfile::tempdir().unwrap();
    keep_experiments(dir.path());
    let md = weir(dir.path(), &["report", "20261122-09", "--format", "md"], "");
    let heading = format!("## {}\n", title("experiment.json"));
    assert!(md.stdout.starts_with(&heading), "{}{}", md.stdout, md.stderr);
    assert!(md.stdout.contains("20261122-090000-aaaaaa"), "{}", md.stdout);
    let done = weir(dir.path(), &["report", "20261122-090000-aaaaaa"], "");
    assert_eq!(done.code, 0, "{}", done.stderr);
    assert_eq!(files(dir.path()), ["weir-report-20261122-090000-aaaaaa.html"]);
    // The same from a file and from stdin.
    let file = record("experiment.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let of_file = weir(dir.path(), &["report", file.to_str().unwrap(), "--format", "md"], "");
    let of_stdin = weir(dir.path(), &["report", "-", "--format", "md"], &text);
    assert_eq!(of_file.stdout, of_stdin.stdout);
    assert_eq!(of_file.stdout.replace("120000-eeeeee", "090000-aaaaaa"), md.stdout);
    for (format, end) in [("svg", "svg"), ("csv", "csv")] {
        let words = ["report", "20261122-09", "--format", format, "-o", "charts"];
        let done = weir(dir.path(), &words, "");
        assert_eq!(done.code, 0, "{}", done.stderr);
        let made = files(&dir.path().join("charts"));
        let made = made.iter().filter(|f| f.ends_with(end)).count();
        assert!(made > 2, "{made} files of {format}");
    }
    let points = std::fs::read_to_string(dir.path().join("charts/points.csv")).unwrap();
    assert!(points.starts_with("step,"), "{points}");
    assert!(!dir.path().join("charts/points.svg").exists());
    let words = ["report", "20261122-09", "--format", "csv", "--figure", "points"];
    assert_eq!(weir(dir.path(), &words, "").stdout, points);
}

#[test]
fn several_experiments_are_reported_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    keep_experiments(dir.path());
    let both = ["report", "20261122-09", "20261122-10"];
    let labels = ["--label", "old box", "--label", "new box"];
    let with = |more: &[&str]| {
        let done = weir(dir.path(), &[&both[..], more].concat(), "");
        assert_eq!(done.code, 0, "{}", done.stderr);
        done.stdout
    };
    // Without hosts in the result, names with times are the headings.
    let text = with(&["--format", "text"]);
    for heading in ["golden, 2026-11-22 12:00:00 UTC (2)", "Difference"] {
        assert!(text.contains(heading), "{text}");
    }
    assert!(!text.contains("20261122-"), "{text}");
    let csv = with(&[&["--format", "csv", "--figure", "table-throughput"], &labels[..]].concat());
    let head = csv.lines().next().unwrap();
    let at = |name: &str| head.find(name).unwrap_or_else(|| panic!("{name}: {head}"));
    assert!(at("IP Traffic") < at("old box Mb/s") && at("old box Mb/s") < at("new box Mb/s"));
    let points = with(&[&["--format", "csv", "--figure", "points"], &labels[..]].concat());
    assert!(points.starts_with("experiment,step,"), "{points}");
    assert!(points.lines().nth(1).is_some_and(|line| line.starts_with("old box,")), "{points}");
    with(&["--format", "svg", "-o", "charts"]);
    assert!(files(&dir.path().join("charts")).len() > 2);
    for labels in [&labels[..2], &["--label", "a", "--label", "a"][..]] {
        let refused = refused(dir.path(), &[&both[..], labels].concat(), "");
        assert_eq!(refused.field.as_deref(), Some("--label"), "{refused:?}");
    }
}

#[test]
fn an_ambiguous_or_unknown_experiment_is_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    keep_experiments(dir.path());
    let refused = |words: &[&str], code: &str| {
        let refused = refused(dir.path(), &[&["report"], words].concat(), "");
        let parts = (refused.field.as_deref(), refused.code.as_str());
        assert_eq!(parts, (Some("RUN"), code), "{words:?}: {refused:?}");
        refused
    };
    let unfinished = refused(&["20261122-11"], "usage").accepted.unwrap();
    assert!(unfinished.contains("weir run --resume 20261122-110000-cccccc"), "{unfinished}");
    refused(&["last-experiment"], "usage");
    refused(&["20261122"], "ambiguous");
    refused(&["nowhere"], "not-found");
    refused(&["20261122-09", "20261122-090000"], "usage");
    let last = weir(dir.path(), &["report", "last-experiment~1", "--format", "md"], "");
    assert!(last.stdout.contains("20261122-100000-bbbbbb"), "{}{}", last.stdout, last.stderr);
    // Experiments together with runs.
    let text = std::fs::read_to_string(record("udp_loss.json")).unwrap();
    let run = text.replace("20261121-203009-ab12cd", "20261122-093000-dddddd");
    assert_eq!(weir(dir.path(), &["runs", "import", "-"], &run).code, 0);
    refused(&["20261122-09"], "usage");
    refused(&["20261122-090000-aaaaaa", "last"], "usage");
    let whole = weir(dir.path(), &["report", "20261122-090000-aaaaaa", "--format", "md"], "");
    let of = |name: &str| format!("## {}", title(name));
    assert!(whole.stdout.starts_with(&of("experiment.json")), "{}", whole.stderr);
    let one = weir(dir.path(), &["report", "20261122-093000", "--format", "md"], "");
    assert!(one.stdout.starts_with(&of("udp_loss.json")), "{}{}", one.stdout, one.stderr);
    // For the last run of an experiment, a note names the experiment.
    assert_eq!(weir(dir.path(), &["runs", "tag", "last", "experiment=x1"], "").code, 0);
    let part = weir(dir.path(), &["report", "--format", "md"], "");
    let [told] = &messages(&part.stderr, "part-of-experiment")[..] else { panic!("{part:?}") };
    assert!(told.ends_with("weir report x1"), "{told}");
}

fn chromium() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    std::env::split_paths(&path).flat_map(|d| names.map(|n| d.join(n))).find(|p| p.is_file())
}

/// Pages of a complete run, of a partial run and of several runs in a browser. Screenshots are written to WEIR_PICTURES, if set.
#[test]
fn pages_in_a_browser() {
    const NAME: &str = "pages_in_a_browser";
    let Some(browser) = chromium() else {
        // CI installs it (scripts/ensure.sh test).
        assert!(std::env::var_os("CI").is_none(), "{NAME}: no chromium, and CI wants it run");
        return eprintln!("SKIPPED {NAME}: no chromium (scripts/ensure.sh test)");
    };
    let dir = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report_browser.py");
    for (name, runs) in [
        ("run", &["everything.json"][..]),
        ("streams", &["tcp_bidir.json"]),
        ("compared", &["everything.json", "udp_loss.json", "tcp_bidir.json"]),
        ("experiment", &["experiment.json"]),
    ] {
        let page = dir.path().join(format!("{name}.html"));
        let records: Vec<PathBuf> = runs.iter().map(|r| record(r)).collect();
        let mut words = vec!["report", "-o", page.to_str().unwrap()];
        words.extend(records.iter().map(|r| r.to_str().unwrap()));
        assert_eq!(weir(dir.path(), &words, "").code, 0);
        let mut look = Command::new("python3");
        look.arg(&script).arg(&browser).arg(&page);
        if let Some(pictures) = std::env::var_os("WEIR_PICTURES") {
            let pictures = PathBuf::from(pictures).join(name);
            std::fs::create_dir_all(&pictures).unwrap();
            look.arg(pictures);
        }
        let seen = look.output().unwrap();
        let words = String::from_utf8_lossy(&seen.stderr);
        if seen.status.code() == Some(3) && std::env::var_os("CI").is_none() {
            return eprintln!("SKIPPED {NAME}: {words}");
        }
        assert!(seen.status.success(), "{name}: {words}");
    }
}
