//! Scenarios and sweeps end to end: in a lab of namespaces, simulated, interrupted and resumed.

use crate::common;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn weir(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).env("XDG_DATA_HOME", home).env("HOME", home).env("NO_COLOR", "1");
    command.env_remove("SUDO_UID").env("WEIR_ERRORS", "json").stdin(Stdio::null());
    command
}

fn run(home: &Path, words: &[&str]) -> (Output, String, String) {
    let output = weir(home, words).output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, out, err)
}

/// The right to measure; `None` after printing that the test is skipped if labs can't be created here.
fn turn(test: &str) -> Option<common::Turn> {
    if weir_net::namespace::effective_user_id() != 0 {
        common::skip(test, "needs root");
        return None;
    }
    Some(common::turn())
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn file(dir: &Path, text: &str) -> String {
    let path = dir.join("s.toml");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn every_shipped_scenario_holds_also_when_quick() {
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "toml") {
            for flags in [&["run", "--check"][..], &["run", "--check", "--quick"]] {
                let words = [flags, &[path.to_str().unwrap()]].concat();
                let (output, out, err) = run(dir.path(), &words);
                assert_eq!(output.status.code(), Some(0), "{}: {out}{err}", path.display());
            }
            count += 1;
        }
    }
    assert!(count >= 9, "{count} scenarios");
}

/// Every expectation of a shipped scenario can be judged: on the virtual clock none fails for lack of a figure, and steps that
/// can't be simulated are skipped.
#[test]
fn every_shipped_scenario_completes_on_the_virtual_clock() {
    let dir = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(scenarios()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "toml") {
            continue;
        }
        let mut words = vec!["run", "--simulate", "--quick", "--json", path.to_str().unwrap()];
        // Simulating 1 Gbit/s on one processor takes too long.
        if path.ends_with("link-throughput.toml") || path.ends_with("packet-rate.toml") {
            words.extend(["--set", "nominal=5M"]);
        }
        let (output, out, err) = run(dir.path(), &words);
        let result: Value = serde_json::from_str(&out)
            .unwrap_or_else(|e| panic!("{}: {e}: {out}{err}", path.display()));
        // Steps and expectations without a figure: those that can't be simulated, and others.
        fn absent<'v>(step: &'v Value, out: &mut [Vec<&'v Value>; 3]) {
            let is_virtual = |part: &Value| usize::from(part["code"] == "not-simulated");
            if step["outcome"] == "error" && is_virtual(step) == 0 {
                out[0].push(step);
            }
            for judged in step["expectations"].as_array().into_iter().flatten() {
                if judged["measured"].is_null() {
                    out[1 + is_virtual(judged)].push(judged);
                }
            }
            step["steps"].as_array().into_iter().flatten().for_each(|inner| absent(inner, out));
        }
        let mut without = [vec![], vec![], vec![]];
        result["steps"].as_array().unwrap().iter().for_each(|step| absent(step, &mut without));
        let [errors, missing, left_out] = without;
        assert!(
            errors.is_empty() && missing.is_empty(),
            "{}: {errors:?} {missing:?}",
            path.display()
        );
        // A search ends at a trial that can't be simulated. Expectations of a step that can't be simulated are not judged.
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 3 | 5)), "{}: {out}{err}", path.display());
        let is_left = !left_out.is_empty();
        assert_eq!(code == Some(5), is_left && code != Some(3), "{}: {out}", path.display());
    }
}

/// On the virtual clock the output is the same on any machine.
#[test]
fn a_simulated_scenario_is_exact() {
    let dir = tempfile::tempdir().unwrap();
    let path = scenarios().join("voice-over-bad-path.toml");
    let words = ["run", "--simulate", "--json", path.to_str().unwrap()];
    let (output, out, err) = run(dir.path(), &words);
    // The expectations of its TCP flow are not judged here.
    assert_eq!(output.status.code(), Some(5), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["simulated"], true);
    let step = |name: &str| {
        let steps = result["steps"].as_array().unwrap();
        steps.iter().find(|s| s["name"] == name).unwrap().clone()
    };
    assert_eq!(step("clean")["runs"][0]["metrics"]["loss"], 0.0);
    assert_eq!(step("clean")["runs"][0]["metrics"]["p99 one_way_delay"], 0.001);
    let bad = step("bad");
    let losses: Vec<f64> = bad["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r["metrics"]["loss"].as_f64().unwrap())
        .collect();
    // Drawn from the scenario's seed, hence exactly these.
    assert_eq!(losses.len(), 3);
    assert!(losses.windows(2).any(|w| w[0] != w[1]), "repetitions differ: {losses:?}");
    assert_eq!(bad["runs"][0]["metrics"]["mean one_way_delay"], 0.02);
    assert_eq!(step("tcp")["outcome"], "skipped");
    let left = &step("tcp-end")["expectations"][0];
    assert_eq!((&left["outcome"], &left["measured"]), (&"inconclusive".into(), &Value::Null));
    assert_eq!(left["code"], "not-simulated");
    // The same as text: only time and id differ.
    let (_, out, _) = run(dir.path(), &["run", "--simulate", path.to_str().unwrap()]);
    let (head, rest) = out.rsplit_once("), ").unwrap();
    let (_, rest) = rest.split_once(", ").unwrap();
    let (seed, rest) = rest.split_once(", id ").unwrap();
    let (id, rest) = rest.split_once('\n').unwrap();
    assert!(id.starts_with('2') && id.len() == 24, "{id}");
    common::golden("simulated.txt", &format!("{head}), TIME, {seed}, id ID\n{rest}"));
    let (_, again, _) = run(dir.path(), &words);
    let again: Value = serde_json::from_str(&again).unwrap();
    let bare = |mut v: Value| {
        for key in ["id", "started_at", "seconds"] {
            v[key] = Value::Null;
        }
        fn untimed(v: &mut Value) {
            for step in v["steps"].as_array_mut().into_iter().flatten() {
                step["seconds"] = Value::Null;
                untimed(step);
            }
        }
        untimed(&mut v);
        v
    };
    assert_eq!(bare(result), bare(again));
}

/// On the virtual clock the results of the shipped searches follow from the laws of their emulators: 10 Mbit/s on the wire
/// for the saturation point, half of that for RFC 2544's device.
#[test]
fn shipped_searches_find_what_the_emulated_path_carries() {
    let dir = tempfile::tempdir().unwrap();
    let simulate = |name: &str, code: i32| -> Value {
        let path = scenarios().join(name);
        let words = ["run", "--simulate", "--quick", "--json", path.to_str().unwrap()];
        let (output, out, err) = run(dir.path(), &words);
        assert_eq!(output.status.code(), Some(code), "{name}: {out}{err}");
        serde_json::from_str(&out).unwrap()
    };
    let found = |result: &Value, step: usize, name: &str, size: &str| -> Value {
        let all = result["steps"][step]["found"].as_array().unwrap();
        let here = |f: &&Value| f["name"] == name && f["at"]["size"] == size;
        all.iter().find(here).unwrap_or_else(|| panic!("{name} {size}: {all:?}")).clone()
    };
    let carried = |bits: f64, payload: f64| bits / 8.0 / (payload + 28.0 + 38.0);
    let result = simulate("saturation.toml", 0);
    for (size, payload) in [("500", 500.0), ("2", 2.0)] {
        let point = found(&result, 0, "saturation point", size);
        let value = point["value"].as_f64().unwrap();
        let wanted = carried(1e7, payload) / 0.99;
        assert!((value / wanted - 1.0).abs() < 0.01, "{size} B: {point}, not {wanted}");
        assert_eq!(point["interval"]["confidence_ratio"], 0.95);
        assert!(point["bounds"]["low"].as_f64().unwrap() < value, "{point}");
    }
    // The trials are points, which the tables show; the study's statement of 6 kB/s is beside the measured figure.
    let table = |name: &str, number: usize| -> Value {
        let tables = result["tables"].as_array().unwrap();
        tables.iter().filter(|t| t["name"] == name).nth(number).unwrap().clone()
    };
    let rows = table("udp", 0)["rows"].as_array().unwrap().len();
    assert!(rows > 11, "{rows}");
    assert!(table("udp", 1)["charts"][0]["references"][0]["value"].is_number());
    let statements = table("statements", 0);
    let maximum = &statements["rows"][3]["cells"];
    assert_eq!(maximum[0]["text"], "6");
    let value = maximum[1]["figures"][0].as_f64().unwrap();
    assert!((value / (carried(1e7, 2.0) * 16.0) - 1.0).abs() < 0.02, "{maximum}");
    assert_eq!(statements["rows"][4]["cells"][1]["absent"], "no counterpart");
    let result = simulate("rfc2544.toml", 0);
    for (size, payload) in [("18", 18.0), ("1472", 1472.0)] {
        let rate = carried(5e6, payload);
        let value = found(&result, 0, "throughput", size)["value"].as_f64().unwrap();
        // The queue holds 5 ms of a trial of 1 s.
        assert!((0.98 * rate..=1.01 * rate).contains(&value), "{size} B: {value}, not {rate}");
        let loss = found(&result, 1, "frame loss", size);
        assert!((loss["value"].as_f64().unwrap() - 0.5).abs() < 0.02, "{loss}");
        // Half of a burst at the line rate stays in the queue of 5 ms.
        let burst = found(&result, 2, "back-to-back", size)["value"].as_f64().unwrap();
        assert!((burst - 2.0 * 0.005 * rate).abs() < 4.0, "{size} B: {burst}");
    }
    let result = simulate("mlrsearch.toml", 0);
    let rate = carried(1e7, 160.0);
    let value = result["steps"][0]["found"][0]["value"].as_f64().unwrap();
    assert!((0.97 * rate..=1.01 * rate).contains(&value), "NDR {value}, not {rate}");
}

/// A search without a result neither passes nor fails.
#[test]
fn a_search_without_a_result_is_inconclusive() {
    let dir = tempfile::tempdir().unwrap();
    let text = r#"schema = "weir.scenario/1"
name = "s"
[lab]
middle = true
[emulator.m]
both = "loss 1%"
[[step]]
name = "one"
test = { args = "-u -b 1M -l 160 -t 1" }
[[step]]
name = "rate"
search = { kind = "throughput", low = "1000pps", high = "2000pps", trial = "1s", test = { args = "-u" } }
"#;
    let simulated = |text: &str| {
        let path = file(dir.path(), text);
        let (output, out, err) = run(dir.path(), &["run", "--simulate", "--json", &path]);
        (output.status.code(), out, err)
    };
    let (code, out, err) = simulated(text);
    assert_eq!(code, Some(5), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let rate = &result["steps"][1];
    assert_eq!(rate["outcome"], "inconclusive");
    assert!(rate["found"][0]["value"].is_null(), "{rate}");
    for (from, to, field) in [
        (r#"args = "-u" }"#, r#"args = "-t 1" }"#, "rate.test"),
        (r#"low = "1000pps", "#, "", "rate.low"),
        (r#"low = "1000pps""#, r#"low = "50pps""#, "rate.low"),
    ] {
        let (code, out, err) = simulated(&text.replace(from, to));
        assert_eq!(code, Some(2), "{out}{err}");
        let error: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(error["error"]["field"], field, "{out}{err}");
    }
}

/// All expectations are met, but the requested precision is not reached.
#[test]
fn a_precision_that_is_not_reached_is_exit_code_5() {
    let dir = tempfile::tempdir().unwrap();
    let ended = |most: u32| {
        let path = file(
            dir.path(),
            &format!(
                "schema = \"weir.scenario/1\"\nname = \"s\"\nseed = \"0x7\"\n[lab]\nmiddle = true\n[emulator.m]\n\
                 both = \"loss 10%\"\n[[step]]\nexpect = [\"loss <= 50 %\"]\n\
                 sweep = {{ over = [], runs = 5, max_runs = {most}, precision_percentage = 15, metrics = [\"loss\"], \
                 test = {{ args = \"-u -b 1000pps -l 100 -k 200\" }} }}\n"
            ),
        );
        let (output, out, err) = run(dir.path(), &["run", "--simulate", "--json", &path]);
        let result: Value =
            serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
        (output.status.code(), result["steps"][0]["points"][0]["precision"]["reached"].clone())
    };
    assert_eq!(ended(1000), (Some(0), true.into()));
    assert_eq!(ended(6), (Some(5), false.into()));
}

/// A processor that does not exist is refused by the program that would run on it.
#[test]
fn thread_settings_are_passed_to_the_program_of_the_test() {
    let Some(_turn) = turn("thread_settings_are_passed_to_the_program_of_the_test") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let path = file(
        dir.path(),
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\nname = \"t\"\n\
         test = { from = \"a\", to = \"b\", args = \"-u -k 20 -b 1000pps --no-latency\", threads = { affinity = \"8000\" } }\n",
    );
    let (output, out, err) = run(dir.path(), &["run", &path, "--no-store", "--json"]);
    assert_ne!(output.status.code(), Some(0), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let reason = result["steps"][0]["reason"].as_str().unwrap();
    assert!(reason.contains("--affinity") && reason.contains("8000"), "{reason}");
}

/// The number of runs is printed before the first run, also with JSON; a simulated sweep has no time estimate.
#[test]
fn a_sweep_prints_its_estimate() {
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n\
                [[step]]\nsweep = { over = [\"size=64..256:64\"], runs = 2, test = { args = \"-u -b 100k -t 3\" } }\n";
    let path = file(dir.path(), text);
    let (_, out, _) = run(dir.path(), &["run", "--simulate", &path]);
    let (_, _, err) = run(dir.path(), &["run", "--simulate", "--json", &path]);
    let [estimate] = &common::messages(&err, "estimate")[..] else { panic!("{err}") };
    assert_eq!(out.lines().nth(1), Some(estimate.as_str()), "{out}");
    let mut told = format!("simulated\n{estimate}\n");
    for step in [
        "sweep = { over = [\"size=64..256:64\"], runs = 2, test = { args = \"-u -b 100k -t 3\" } }",
        "wait = { time = 5 }",
        "test = { args = \"-t 3 -O 1\" }",
        "sweep = { over = [\"size=64,128\"], pause = 20, test = { args = \"-u -t 3\" } }",
    ] {
        let text = format!("schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\n{step}\n");
        let path = file(dir.path(), &text);
        let (output, out, err) = run(dir.path(), &["run", "--check", &path]);
        assert_eq!(output.status.code(), Some(0), "{out}{err}");
        told += &format!("\n{step}\n{out}");
    }
    common::golden("estimates.txt", &told);
}

/// A closed pipe (`head -1`) does not affect the experiment: it continues to its verdict, without a panic.
#[test]
fn a_closed_pipe_does_not_end_an_experiment() {
    let dir = tempfile::tempdir().unwrap();
    for (bound, code) in [("1 %", 0), ("0 %", 1)] {
        let text = format!(
            "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\nexpect = [\"loss < {bound}\"]\n\
             sweep = {{ over = [\"size=64..256:64\"], test = {{ args = \"-u -b 100k -t 1\" }} }}\n"
        );
        let path = file(dir.path(), &text);
        for words in [&["run", "--simulate", &path][..], &["run", "--simulate", "--json", &path]] {
            // Standard output is closed, so errors are printed on standard error, as text.
            let mut child = weir(dir.path(), words)
                .env_remove("WEIR_ERRORS")
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            drop(child.stdout.take());
            let output = child.wait_with_output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{words:?}: {err}");
            assert!(!err.contains("panicked") && !err.contains("error:"), "{words:?}: {err}");
        }
    }
}

#[test]
fn an_unreachable_peer_is_an_error_and_later_steps_are_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"127.0.0.1\"\nport = 1\n\
                [[step]]\ntest = { args = \"-t 1\" }\n[[step]]\nwait = { time = 1 }\n";
    let path = file(dir.path(), text);
    let junit = dir.path().join("j.xml");
    let (output, out, err) = run(
        dir.path(),
        &["run", &path, "--json", "--no-store", "--junit", junit.to_str().unwrap()],
    );
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["steps"][0]["outcome"], "error");
    assert_eq!(result["steps"][1]["outcome"], "skipped");
    assert!(result["steps"][0]["reason"].as_str().unwrap().contains("127.0.0.1"), "{out}");
    let xml = std::fs::read_to_string(junit).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"0\" errors=\"1\" skipped=\"1\""), "{xml}");
}

/// A sweep in a lab, killed and resumed: completed runs are not repeated.
#[test]
fn a_killed_sweep_resumes_where_it_was() {
    let Some(_turn) = turn("a_killed_sweep_resumes_where_it_was") else { return };
    let dir = tempfile::tempdir().unwrap();
    let words = [
        "sweep",
        "--lab",
        "--over",
        "size=100,200",
        "--runs",
        "4",
        "-u",
        "-b",
        "500pps",
        "-t",
        "0.3",
        "--order-seed",
        "7",
    ];
    let mut child =
        weir(dir.path(), &words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let done = || common::checkpointed_runs(dir.path());
    let end = Instant::now() + Duration::from_secs(60);
    while done() < 3 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let before = done();
    assert!((3..8).contains(&before), "{before} runs were done");
    let (output, out, err) = run(dir.path(), &["run", "--resume", "last", "--json"]);
    assert!(matches!(output.status.code(), Some(0 | 5)), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(common::messages(&err, "done-before").len(), before, "{err}");
    let [estimate] = &common::messages(&err, "estimate")[..] else { panic!("{err}") };
    assert!(estimate.starts_with("8 ") && estimate.contains(&format!(" {before} ")), "{estimate}");
    // The stored command is the original one, which repeats the experiment.
    let command = result["command"].to_string();
    assert!(command.contains("sweep") && !command.contains("--resume"), "{command}");
    let points = result["steps"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["runs"], 4, "{point}");
        let rate = &point["metrics"]["sent_packet_rate"];
        assert!(rate.is_null(), "not requested");
        assert!(point["metrics"]["throughput"]["interval"]["low"].is_number());
    }
    // Its runs are stored, each with the experiment's label.
    let label = format!("experiment={}", result["id"].as_str().unwrap());
    let (_, out, _) =
        run(dir.path(), &["runs", "list", "--json", "--number", "0", "--label", &label]);
    let kept: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 8, "{kept}");
}

/// Process ids of programs that were started with this home and whose command lines contain `words`.
fn pids_of(home: &Path, words: &str) -> Vec<String> {
    let wanted = format!("XDG_DATA_HOME={}", home.display());
    let read = |path: PathBuf| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).replace('\0', " ")
    };
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|e| e.path());
    processes
        .filter(|process| read(process.join("environ")).contains(&wanted))
        .filter(|process| read(process.join("cmdline")).contains(words))
        .filter_map(|process| Some(process.file_name()?.to_str()?.to_owned()))
        .collect()
}

/// Command lines of running programs that were started with this home.
fn left_of(home: &Path) -> Vec<String> {
    let wanted = format!("XDG_DATA_HOME={}", home.display());
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).map(|e| e.path());
    let read = |path: PathBuf| {
        String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).replace('\0', " ")
    };
    processes
        .filter(|process| read(process.join("environ")).contains(&wanted))
        .map(|process| read(process.join("cmdline")))
        .collect()
}

#[test]
fn an_interrupt_ends_a_scenario_in_order() {
    let Some(_turn) = turn("an_interrupt_ends_a_scenario_in_order") else { return };
    let dir = tempfile::tempdir().unwrap();
    let works = dir.path().join("works");
    // Once 500 packets have arrived at the server's host. The file appears whole, with the shell's process id.
    let watch = format!(
        "until [ $(awk 'NR > 2 {{ n += $3 }} END {{ print n }}' /proc/net/dev) -gt 500 ]; do sleep 0.02; done; echo $$ > '{0}.part'; mv '{0}.part' '{0}'",
        works.display()
    );
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.m]\nboth = \"delay 5ms\"\n\
         [[step]]\nname = \"both\"\nparallel = [\n{{ name = \"long\", test = {{ args = \"-u -b 1000pps -t 60\" }} }},\n\
         {{ name = \"watch\", command = {{ host = \"b\", run = [\"sh\", \"-c\", '''{}'''] }} }},\n]\n\
         [[step]]\nname = \"never\"\nwait = {{ time = 1 }}\n",
        watch.replace("{", "{{").replace("}", "}}")
    );
    let path = file(dir.path(), &text);
    let mut child = weir(dir.path(), &["run", &path, "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    // The command's process is gone once the step has its exit code.
    let has_ended = || {
        let id = std::fs::read_to_string(&works).unwrap_or_default();
        !id.is_empty() && !Path::new("/proc").join(id.trim()).exists()
    };
    while !has_ended() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    let mut out = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{out}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["status"], "interrupted");
    // The interrupted step is neither failed nor an error.
    assert_eq!(result["outcome"], "inconclusive", "{out}");
    let parallel = &result["steps"][0];
    assert_eq!(
        (&parallel["interrupted"], &parallel["outcome"]),
        (&true.into(), &"inconclusive".into()),
        "{out}"
    );
    let short = &parallel["steps"][0];
    assert!(short["interrupted"] == true && short["runs"][0]["interrupted"] == true, "{out}");
    assert_eq!(result["steps"][1]["outcome"], "skipped");
    // The results so far are in the output.
    let inner = &result["steps"][0]["steps"];
    assert_eq!(inner[1]["outcome"], "done", "{out}");
    let run = &inner[0]["runs"][0];
    assert!(run["id"].is_string(), "{out}");
    assert_eq!(
        (&run["interrupted"], &run["error"]),
        (&true.into(), &"interrupted".into()),
        "{out}"
    );
    // None of the processes that it started is left: servers, emulator, the hosts of the lab.
    let end = Instant::now() + Duration::from_secs(20);
    while !left_of(dir.path()).is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(left_of(dir.path()), [""; 0]);
}

/// Tests measure the impairment that the scenario sets, and a failed expectation is reported with its figure.
#[test]
fn expectations_meet_an_impaired_path() {
    let Some(_turn) = turn("expectations_meet_an_impaired_path") else { return };
    let dir = tempfile::tempdir().unwrap();
    // The control connection and the hellos are impaired too, so the fraction of lost data is not exact.
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nmiddle = true\n[emulator.m]\n\
                [[step]]\nname = \"lossy\"\nsweep = { over = [\"every=5,10\"], metrics = [\"loss\"], impair = { both = \"loss every {every}\" }, \
                test = { args = \"-u -k 1000 -b 2000pps --no-latency\" } }\n\
                expect = [\"loss >= 19 % where every=5\", \"loss <= 11 % where every=10\", \"loss < 1 % where every=10\"]\n";
    let path = file(dir.path(), text);
    let (output, out, err) = run(dir.path(), &["run", &path, "--json", "--no-store"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    let judged = result["steps"][0]["expectations"].as_array().unwrap();
    let measured =
        |i: usize| judged[i]["measured"].as_f64().unwrap_or_else(|| panic!("{out}{err}"));
    assert!((0.19..=0.21).contains(&measured(0)), "{out}");
    assert!((0.09..=0.11).contains(&measured(1)), "{out}");
    // A host-limited run does not prove a loss.
    let runs = result["steps"][0]["runs"].as_array().unwrap();
    let is_host_limited =
        |every: &str| runs.iter().any(|r| r["at"]["every"] == every && r["host_limited"] == true);
    for (judged, every, wanted) in
        [(&judged[0], "5", "passed"), (&judged[1], "10", "passed"), (&judged[2], "10", "failed")]
    {
        let wanted = if is_host_limited(every) { "inconclusive" } else { wanted };
        assert_eq!(judged["outcome"], wanted, "{judged}");
    }
    assert!((0.09..=0.11).contains(&measured(2)) && judged[2]["bound"] == 0.01, "{}", judged[2]);
    let code = if is_host_limited("10") { 5 } else { 1 };
    assert_eq!(output.status.code(), Some(code));
}

/// A server that was started for a step on its own thread is still available to later steps.
#[test]
fn a_server_outlives_the_step_that_started_it() {
    let Some(_turn) = turn("a_server_outlives_the_step_that_started_it") else { return };
    let dir = tempfile::tempdir().unwrap();
    let test = "{ args = \"-u -k 100 -b 1000pps --no-latency\" }";
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\nparallel = [{{ name = \"one\", test = {test} }}]\n\
         [[step]]\nname = \"after\"\ntest = {test}\nexpect = [\"packets == 100\"]\n"
    );
    let path = file(dir.path(), &text);
    let (output, out, err) = run(dir.path(), &["run", &path, "--no-store"]);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
}

/// The server of a lab belongs to this program, so a peer that does not answer means that the emulator dropped the packets.
/// The next point is measured normally.
#[test]
fn heavy_loss_in_a_lab_is_not_an_unreachable_peer() {
    let name = "heavy_loss_in_a_lab_is_not_an_unreachable_peer";
    let Some(_turn) = turn(name) else { return };
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["sweep", "--lab", "--both", "loss {p}%", "--over", "p=99.9,0", "--in-order", "--json"];
    let words = [&words[..], &["-u", "-b", "200pps", "-t", "0.5", "--order-seed", "7"]].concat();
    let (output, out, err) = run(dir.path(), &words);
    let result: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    let step = &result["steps"][0];
    let error = step["runs"][0]["error"].as_str().unwrap();
    assert!(error.contains("middle") && error.contains("loss 99.9%"), "{error}");
    assert_eq!(step["points"][1]["runs"], 1, "{out}");
    assert_eq!(output.status.code(), Some(5), "a point without figures has not failed: {out}");
}

/// Laws drop packets but refuse no connection. Hence a lab server that has died ends the sweep, even if its points change the
/// path; the missing runs can be made by resuming.
#[test]
fn a_lab_server_that_dies_ends_a_sweep_of_laws() {
    let Some(_turn) = turn("a_lab_server_that_dies_ends_a_sweep_of_laws") else { return };
    let dir = tempfile::tempdir().unwrap();
    let words = ["sweep", "--lab", "--over", "loss=0,1", "--both", "delay 1ms, loss {loss}%"];
    let more = ["--runs", "8", "-u", "-b", "500pps", "-k", "100", "--no-latency", "--json"];
    let mut command = weir(dir.path(), &[&words[..], &more].concat());
    let piped = std::process::Stdio::piped;
    let sweep = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while common::checkpointed_runs(dir.path()) < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    let servers = pids_of(dir.path(), " job serve");
    assert!(!servers.is_empty());
    for pid in servers {
        Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    }
    let output = sweep.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    let result: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    assert_eq!((&result["status"], &result["outcome"]), (&"partial".into(), &"error".into()));
    let [resume] = &common::messages(&err, "resume")[..] else { panic!("{err}") };
    assert!(resume.ends_with(&format!("weir run --resume {}", result["id"].as_str().unwrap())));
    let runs = result["steps"][0]["runs"].as_array().unwrap();
    let whole = runs.iter().filter(|r| r["error"].is_null()).count();
    // At most one run failed differently: by silence, in the middle of the run.
    assert!(whole >= 2 && runs.len() <= whole + 4, "{out}");
    let (output, out, err) = run(dir.path(), &["run", "--resume", "last"]);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
}

/// A sweep through its own emulator: each run's record has the laws of its point, their seed and the exact dispositions of
/// the packets.
#[test]
fn a_sweep_through_its_own_emulator_attributes_its_losses() {
    let Some(_turn) = turn("a_sweep_through_its_own_emulator_attributes_its_losses") else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let words =
        ["sweep", "--lab", "--both", "loss {p}%", "--over", "p=5,20", "--in-order", "--json"];
    let words = [&words[..], &["-u", "-b", "1000pps", "-k", "500", "--metric", "loss"]].concat();
    let (output, out, err) = run(dir.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["outcome"], "done", "no expectations");
    let step = &result["steps"][0];
    assert_eq!(step["outcome"], "done");
    for (run_of, percentage) in step["runs"].as_array().unwrap().iter().zip([5.0, 20.0]) {
        assert_eq!(run_of["crossing"], "per-packet", "{run_of}");
        let id = run_of["id"].as_str().unwrap();
        let (_, record, err) = run(dir.path(), &["runs", "show", id, "--json"]);
        let record: Value = serde_json::from_str(&record).unwrap_or_else(|e| panic!("{e}: {err}"));
        let used = &record["impairment"];
        assert_eq!(used["config"]["other"]["a_to_b"]["loss"]["percentage"], percentage, "{used}");
        assert!(used["config"]["seed"].is_string() && used["client_side"] == "a", "{used}");
        let ledger = &record["loss_ledger"];
        let rows = ledger["rows"].as_array().unwrap();
        let [row] = &rows[..] else { panic!("{ledger}") };
        assert_eq!((&row["stage"], &row["kind"]), (&"emulator planned".into(), &"exact".into()));
        assert_eq!(
            (&row["packets"], &ledger["remainder_packets"]),
            (&ledger["missing_packets"], &0.into())
        );
        let counters = &used["flows"][0]["counters"];
        assert!(counters["lost_packets"].as_u64() >= row["packets"].as_u64(), "{used}");
    }
    let point = &step["points"][0];
    assert_eq!((&point["crossing"], &point["runs"]), (&"per-packet".into(), &1.into()));
}

/// Each tool's figures are those of its receiver: all of them show the known loss ratio of the path. The short datagrams that
/// some tools send at start and end are forwarded unchanged.
#[test]
fn every_tool_reports_the_figures_of_its_receiver() {
    let name = "every_tool_reports_the_figures_of_its_receiver";
    let Some(_turn) = turn(name) else { return };
    let mut tools = vec!["weir"];
    for (tool, programs, packet) in [
        ("iperf3", &["iperf3"][..], "iperf3"),
        ("iperf", &["iperf"], "iperf"),
        ("nuttcp", &["nuttcp"], "nuttcp"),
        ("d-itg", &["ITGSend", "ITGRecv", "ITGDec"], "d-itg"),
    ] {
        if common::has_tools(&format!("{name}, {packet}"), programs) {
            tools.push(tool);
        }
    }
    let programs = tools.len() - 1;
    // Weir at one end only.
    if tools.contains(&"iperf3") {
        tools.extend(["weir-to-iperf3", "iperf3-to-weir"]);
    }
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        r#"
        schema = "weir.scenario/1"
        name = "s"
        [lab]
        middle = true
        [emulator.middle.config]
        schema = "weir.impair/1"
        seed = "0x5"
        [[emulator.middle.config.flow]]
        name = "data"
        filter = {{ protocol = "udp", length = "300-2000" }}
        a_to_b = {{ loss = {{ percentage = 30.0 }} }}
        [[step]]
        [step.compare]
        tools = {tools:?}
        over = ["size=500"]
        with = {{ transport = "udp", rate = "2M", seconds = 2 }}
        "#
    );
    let path = file(dir.path(), &text);
    let csv = dir.path().join("points.csv");
    let html = dir.path().join("report.html");
    let words = ["run", &path, "--csv", csv.to_str().unwrap(), "--html", html.to_str().unwrap()];
    let (output, out, err) = run(dir.path(), &words);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let kept = std::fs::read_dir(dir.path().join("weir/experiments")).unwrap();
    let kept = kept.map(|entry| entry.unwrap().path());
    let result = kept.into_iter().find(|path| path.extension().is_some_and(|e| e == "json"));
    let result = std::fs::read_to_string(result.unwrap()).unwrap();
    let result: Value = serde_json::from_str(&result).unwrap();
    let points = result["steps"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), tools.len(), "{points:?}");
    for point in points {
        let tool = point["at"]["tool"].as_str().unwrap();
        let mean = |metric: &str| point["metrics"][metric]["mean"].as_f64();
        // 1000 datagrams, at least 550 on a slow host: six standard deviations.
        let loss = mean("loss").unwrap_or_else(|| panic!("{point}"));
        assert!((0.18..0.42).contains(&loss), "{tool}: {loss}");
        // 2 Mbit/s were sent.
        let rate = mean("throughput").unwrap_or_else(|| panic!("{point}"));
        assert!((0.2e6..2e6 * 0.82).contains(&rate), "{tool}: {rate}");
        assert!(mean("packet_rate").is_some() && mean("sent_throughput").is_none(), "{point}");
        assert_eq!(mean("jitter").is_some(), tool != "nuttcp", "{point}");
        // Only Weir measures this metric.
        let crossing = (tool == "weir").then_some("per-packet");
        assert_eq!(point["crossing"].as_str(), crossing, "{tool}");
    }
    // How each was measured: command lines, versions, seeds, hosts.
    let step = &result["steps"][0];
    for run in step["runs"].as_array().unwrap() {
        let is_own = run["tool"].as_str().is_none_or(|tool| tool == "weir-to-iperf3");
        // What another tool's client printed.
        assert_eq!(run["output"].is_string(), !is_own, "{run}");
        for (end, least) in [("command", 3), ("server_command", 2)] {
            let words = run[end].as_array();
            assert!(words.is_some_and(|words| words.len() >= least), "{run}");
        }
        assert_eq!(run["seed"].is_null(), !is_own, "{run}");
    }
    let versions = step["tools"]
        .as_array()
        .map_or(0, |all| all.iter().filter(|tool| tool["version"].is_string()).count());
    assert_eq!(versions, programs, "{step}");
    let hosts = result["hosts"].as_array().unwrap();
    let roles: Vec<&str> = hosts.iter().map(|used| used["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["a", "b"]);
    assert!(hosts.iter().all(|used| used["host"]["cpu"]["cores"].as_u64() > Some(0)), "{hosts:?}");
    // Every output format names it.
    for text in [out, std::fs::read_to_string(csv).unwrap(), std::fs::read_to_string(html).unwrap()]
    {
        assert!(text.contains("per-packet"), "{text}");
    }
    // The losses of Weir's runs are attributed as in any other test.
    let own = result["steps"][0]["runs"].as_array().unwrap().iter();
    let own = own.filter(|run| run["tool"].is_null()).find_map(|r| r["id"].as_str());
    let (_, record, _) = run(dir.path(), &["runs", "show", own.unwrap(), "--json"]);
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["plan"]["connection"][0]["gso"], "off");
    assert_eq!(record["loss_ledger"]["remainder_packets"], 0, "{}", record["loss_ledger"]);
    assert_eq!(record["loss_ledger"]["rows"][0]["stage"], "emulator planned");
}

/// A comparison that measured nothing must not pass.
#[test]
fn a_comparison_without_its_tools_is_an_error() {
    let Some(_turn) = turn("a_comparison_without_its_tools_is_an_error") else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\ncompare = { tools = [\"iperf3\"], \
                over = [\"size=1000\"], with = { seconds = 1 } }\n[[step]]\nwait = { time = 1 }\n";
    let path = file(dir.path(), text);
    // PATH has no programs; the directories of administrators' tools are searched nevertheless.
    let output = weir(dir.path(), &["run", &path, "--json", "--no-store"])
        .env("PATH", dir.path())
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["steps"][0]["outcome"], "error", "{out}");
    let left_out = &result["steps"][0]["left_out"][0];
    assert_eq!(
        (&left_out["at"]["tool"], &left_out["why"]),
        (&"iperf3".into(), &"not installed".into())
    );
    assert_eq!(result["steps"][1]["outcome"], "skipped", "{out}");
    let refused = common::refusal_in(&err).unwrap();
    assert_eq!((refused.code.as_str(), refused.exit_code), ("experiment", 4), "{refused:?}");
    assert!(refused.message.contains("iperf3"), "{refused:?}");
}

/// The refusal of a scenario, which must fail.
fn refused(home: &Path, text: &str) -> weir_model::Refusal {
    let path = file(home, text);
    let mut command = weir(home, &["run", &path, "--no-store"]);
    common::refusal(&command.output().unwrap())
}

#[test]
fn errors_of_a_scenario_and_of_its_programs_have_different_exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let head = "schema = \"weir.scenario/1\"\nname = \"s\"\n";
    let host = "[host.b]\naddress = \"127.0.0.1\"\nport = 1\n";
    // Checks: flags, terms, a comparison's load.
    for (step, field) in [
        ("test = { args = \"--no-such\" }", "step.args"),
        ("test = { args = \"-T 'open\" }", "step.args"),
        (
            "search = { low = \"1000pps\", high = \"0\", trial = 1, test = { args = \"-u -l 100\" } }",
            ".high",
        ),
        (
            "search = { high = \"1M\", low = \"2M\", trial = 1, test = { args = \"-u -l 100\" } }",
            ".low",
        ),
        ("compare = { with = { transport = \"udp\", mss = 536 } }", ".mss"),
    ] {
        let step = step.replacen(
            "test =",
            "name = \"step\"\ntest =",
            usize::from(step.starts_with("test")),
        );
        let refused = refused(dir.path(), &format!("{head}{host}[[step]]\n{step}\n"));
        assert_eq!(refused.exit_code, 2, "{step}: {refused:?}");
        assert!(refused.field.as_ref().unwrap().ends_with(field), "{step}: {refused:?}");
    }
    // Programs: no emulator listens on the socket; an emulator reports its own error.
    let nobody = format!(
        "{head}[emulator.m]\ncontrol_socket = \"/no/such.sock\"\n[[step]]\nwait = {{ time = 0 }}\n"
    );
    let nobody = refused(dir.path(), &nobody);
    assert_eq!((nobody.code.as_str(), nobody.exit_code), ("experiment", 3));
    let Some(_turn) = turn("errors_of_a_scenario_and_of_its_programs_have_different_exit_codes")
    else {
        return;
    };
    let missing = format!(
        "{head}[emulator.m]\ninterfaces = [\"wexp-no0\", \"wexp-no1\"]\n[[step]]\nwait = {{ time = 0 }}\n"
    );
    let path = file(dir.path(), &missing);
    let (output, out, err) = run(dir.path(), &["run", &path, "--no-store"]);
    assert!(matches!(output.status.code(), Some(3 | 4)), "{out}{err}");
    let missing = common::refusal(&output);
    assert_eq!(missing.code, "experiment", "{missing:?}");
    assert!(missing.message.contains("wexp-no0"), "{missing:?}");
    // An invalid scenario leaves nothing to resume.
    let flags = format!("{head}{host}[[step]]\ntest = {{ args = \"--no-such\" }}\n");
    let path = file(dir.path(), &flags);
    assert_eq!(run(dir.path(), &["run", &path]).0.status.code(), Some(2));
    let mut command = weir(dir.path(), &["run", "--resume", "last"]);
    let none = common::refusal(&command.output().unwrap());
    assert_eq!((none.code.as_str(), none.exit_code), ("not-found", 2));
}

/// A process of a test, killed at its end.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The laws of an emulator that was running before are restored, even after a scenario that failed.
#[test]
fn a_borrowed_emulator_gets_its_laws_back() {
    let Some(_turn) = turn("a_borrowed_emulator_gets_its_laws_back") else { return };
    let dir = tempfile::tempdir().unwrap();
    let spec = weir_lab::LabSpec { topology: weir_lab::Topology::MIDDLE, ..Default::default() };
    let lab = weir_lab::Lab::up(&spec).unwrap();
    let socket = dir.path().join("m.sock");
    let mut command = lab.command("m", env!("CARGO_BIN_EXE_weir")).unwrap();
    command.arg("job").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut emulator = Running(command.spawn().unwrap());
    let job = serde_json::json!({
        "job": "emulator", "interfaces": ["to-a", "to-b"], "disposable": true,
        "impairment": { "schema": "weir.impair/1", "other": { "a_to_b": "delay 3ms", "b_to_a": "delay 3ms" } },
        "control_socket": socket,
    });
    writeln!(emulator.0.stdin.as_mut().unwrap(), "{job}").unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let show = || -> Value {
        let answer = weir_emulator::control::ask(&socket, &serde_json::json!({ "verb": "show" }));
        answer.map_or(Value::Null, |mut answer| answer["impairment"].take())
    };
    while show().is_null() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let before = show();
    assert!(before.to_string().contains("3ms"), "{before}");
    let weir = env!("CARGO_BIN_EXE_weir");
    let show_words = |name: &str| {
        format!(
            "[[step]]\nname = \"{name}\"\ncommand = {{ run = [\"{weir}\", \"impair\", \"show\", \"--socket\", \"{}\"] }}\n",
            socket.display()
        )
    };
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[emulator.m]\ncontrol_socket = \"{}\"\nboth = \"delay 9ms\"\n{}\
         [[step]]\nimpair = {{ both = \"loss 1%\" }}\n{}[[step]]\nimpair = {{ clear = true }}\n{}\
         [[step]]\ncommand = {{ run = [\"false\"] }}\n",
        socket.display(),
        show_words("first"),
        show_words("second"),
        show_words("third")
    );
    let path = file(dir.path(), &text);
    let (output, out, err) = run(dir.path(), &["run", &path, "--no-store", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let said = |name: &str| {
        let steps = result["steps"].as_array().unwrap();
        let step = steps.iter().find(|s| s["name"] == name).unwrap();
        step["output"].as_str().unwrap_or_else(|| panic!("{step}")).to_owned()
    };
    assert!(said("first").contains("9ms"), "{}", said("first"));
    assert!(
        said("second").contains("loss") && !said("second").contains("9ms"),
        "{}",
        said("second")
    );
    assert!(!said("third").contains("loss") && !said("third").contains("9ms"), "{}", said("third"));
    assert_eq!(show(), before);
    // A scenario that sets no laws changes nothing.
    let idle = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[emulator.m]\ncontrol_socket = \"{}\"\n{}",
        socket.display(),
        show_words("first")
    );
    let path = file(dir.path(), &idle);
    let (_, out, err) = run(dir.path(), &["run", &path, "--no-store", "--json"]);
    let result: Value = serde_json::from_str(&out).unwrap();
    assert!(result["steps"][0]["output"].as_str().unwrap().contains("3ms"), "{out}{err}");
    assert_eq!(show(), before);
}

/// Two senders and one receiver: the sum of both rates, and how closely together they started. A host-limited run is judged
/// too, so both expectations are decided on any machine.
#[test]
fn senders_that_start_together_are_summed_and_their_skew_is_reported() {
    let Some(_turn) = turn("senders_that_start_together_are_summed_and_their_skew_is_reported")
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let test = |from: &str| {
        format!("{{ from = \"{from}\", to = \"b\", args = \"-u -k 200 -b 500pps --no-latency\" }}")
    };
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\nhosts = 3\n[[step]]\nname = \"both\"\n\
         expect = [\"sum packets == 400\", \"sum packets < 400\"]\n\
         parallel = [\n{{ name = \"one\", test = {} }},\n{{ name = \"two\", test = {}, expect = [\"packets == 200\"] }},\n]\n",
        test("a"),
        test("c")
    );
    let path = file(dir.path(), &text);
    let (output, out, err) = run(dir.path(), &["run", &path, "--json"]);
    assert_eq!(output.status.code(), Some(1), "{out}{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    let step = &result["steps"][0];
    let judged: Vec<&str> = step["expectations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(judged, ["passed", "failed"], "{step}");
    let rate = |of: &Value, name: &str| of["runs"][0]["metrics"][name].as_f64().unwrap();
    let sum = rate(&step["steps"][0], "throughput") + rate(&step["steps"][1], "throughput");
    assert!((rate(step, "sum throughput") - sum).abs() < 1e-6 * sum, "{step}");
    let together = &step["together"];
    assert_eq!(together["tests"], 2);
    let skew = together["first_packet_skew_seconds"].as_f64().unwrap();
    let first =
        |i: usize| step["steps"][i]["runs"][0]["first_packet"]["arrived_seconds"].as_f64().unwrap();
    assert!((skew - (first(0) - first(1)).abs()).abs() < 1e-12, "{step}");
    // Both hosts share this machine's clock.
    assert!(together["error_seconds"].as_f64().unwrap() < 1e-6, "{step}");
}

/// Senders of one test on one side of the lab's emulator, receivers on the other: each run is the sum of the senders, and
/// a search asks them together for its rate. The kernel settings of the lab are in the result.
#[test]
fn several_senders_are_one_run() {
    let Some(_turn) = turn("several_senders_are_one_run") else { return };
    let dir = tempfile::tempdir().unwrap();
    let text = r#"schema = "weir.scenario/1"
name = "s"
[lab]
middle = true
hosts = 4
sysctls = { "net.ipv4.tcp_timestamps" = "0" }
[emulator.m]
[[step]]
name = "lossy"
impair = { config = { schema = "weir.impair/1", flow = [{ name = "data", filter = { source_port = "20000" }, a_to_b = "loss every 4" }] } }
[[step]]
name = "sent"
sweep = { over = ["from=a+c"], metrics = ["packets", "sent_packets", "loss", "ethernet_rate", "emulator_cpu"], test = { from = "{from}", to = "b+d", args = "-u -k 200 -b 500pps -l 100 --cport 20000 --nominal 1G" } }
[[step]]
name = "clean"
impair = { clear = true }
[[step]]
name = "again"
[step.repeat]
over = ["turn=first"]
[[step.repeat.step]]
name = "found"
search = { kind = "throughput", over = ["size=100"], low = "400pps", high = "600pps", trial = "1s", metrics = ["sent_packets"], test = { from = "a+c", to = "d", args = "-u" } }
"#;
    let path = file(dir.path(), text);
    let (_, out, err) = run(dir.path(), &["run", &path, "--json"]);
    let result: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{err}"));
    assert_eq!(result["sysctls"]["net.ipv4.tcp_timestamps"], "0");
    let sent = &result["steps"][1];
    let one = &sent["runs"][0];
    let metric =
        |name: &str| one["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}: {one}"));
    assert_eq!((metric("sent_packets"), &one["at"]["from"]), (400.0, &"a+c".into()));
    assert!((0.2..0.3).contains(&metric("loss")), "{one}");
    assert!((metric("loss") - (1.0 - metric("packets") / 400.0)).abs() < 1e-9, "{one}");
    assert!(metric("ethernet_rate") > 0.0 && metric("emulator_cpu") > 0.0, "{one}");
    assert_eq!(one["also"].as_array().unwrap().len(), 1, "{one}");
    assert_eq!((&one["together"]["tests"], &sent["together"]), (&2.into(), &one["together"]));
    // Each sender's record is stored.
    for label in ["sender=a", "sender=c", "receiver=b", "receiver=d"] {
        let words = ["runs", "list", "--label", "step=sent", "--label", label, "--json"];
        let list: Value = serde_json::from_str(&run(dir.path(), &words).1).unwrap();
        assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{label}: {list}");
    }
    let found = &result["steps"][3]["steps"][0]["found"];
    for figure in found.as_array().unwrap() {
        assert_eq!(figure["at"], serde_json::json!({ "size": "100", "turn": "first" }), "{found}");
    }
    // Both together send the rate that is asked: two connections of one test, for a second.
    let packets = found.as_array().unwrap().iter().find(|f| f["name"] == "sent_packets").unwrap();
    let ratio = packets["value"].as_f64().unwrap() / found[0]["bounds"]["low"].as_f64().unwrap();
    assert!((0.95..1.05).contains(&ratio), "{found}");
}

/// A small file system, unmounted at the end of the test.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount(test: &str) -> Option<Disk> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "wexp"]).arg(dir.path());
        if !mount.stderr(Stdio::null()).status().is_ok_and(|s| s.success()) {
            common::skip(test, "no file system can be mounted");
            return None;
        }
        Some(Disk(dir))
    }

    fn read_only(&self) {
        let done = Command::new("mount").args(["-o", "remount,ro"]).arg(self.0.path()).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// The disk becomes full: results are printed, the checkpoint stays intact, and the experiment can be resumed.
#[test]
fn a_full_disk_ends_an_experiment_with_an_error_and_loses_nothing() {
    const NAME: &str = "a_full_disk_ends_an_experiment_with_an_error_and_loses_nothing";
    let Some(_turn) = turn(NAME) else { return };
    let Some(disk) = Disk::mount(NAME) else { return };
    let home = disk.0.path();
    let elsewhere = tempfile::tempdir().unwrap();
    let filler = home.join("filler");
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n\
         [[step]]\nname = \"before\"\ntest = {{ args = \"-u -k 10 -b 100pps --no-latency\" }}\n\
         [[step]]\nname = \"fill\"\ncommand = {{ run = [\"sh\", \"-c\", \"test -e '{0}/once' || {{{{ touch '{0}/once'; cat /dev/zero > '{1}' 2>/dev/null; }}}}; exit 0\"] }}\n\
         [[step]]\nname = \"after\"\ntest = {{ args = \"-u -k 10 -b 100pps --no-latency\", runs = 12 }}\n\
         [[step]]\nname = \"never\"\nwait = {{ time = 0 }}\n",
        elsewhere.path().display(),
        filler.display()
    );
    let path = file(elsewhere.path(), &text);
    let (output, out, err) = run(home, &["run", &path, "--json"]);
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    // Either the store or the checkpoint runs out of space first.
    let refused = common::refusal_in(&err).unwrap();
    assert_eq!((refused.code.as_str(), refused.exit_code), ("experiment", 4), "{refused:?}");
    assert!(["full", "space"].iter().any(|word| refused.message.contains(word)), "{refused:?}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["status"], "partial", "{out}");
    assert!(result["steps"][0]["runs"][0]["id"].is_string(), "{out}");
    assert_eq!(result["steps"][3]["outcome"], "skipped", "{out}");
    assert!(
        result["steps"][2]["runs"][0]["metrics"]["packet_rate"].is_number(),
        "it is in the result"
    );
    let reason = result["steps"][3]["reason"].as_str().unwrap();
    assert!(refused.message.contains(reason) || reason.contains(&refused.message), "{out}{err}");
    // An experiment that can't be stored is not started.
    let (output, out, err) = run(home, &["run", &path]);
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    let [told] = &common::messages(&err, "nothing-run")[..] else { panic!("{err}") };
    assert!(told.contains("--no-store"), "{told}");
    assert_eq!(common::refusal(&output).exit_code, 4);
    assert_eq!(out.lines().count(), 1, "only the refusal: {out}");
    std::fs::remove_file(&filler).unwrap();
    let (output, out, err) = run(home, &["run", "--resume", "last", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let before = common::messages(&err, "done-before").len();
    assert!((1..13).contains(&before), "{err}");
    let result: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(result["status"], "complete", "{out}");
    // Each of its runs is in the store exactly once.
    let label = format!("experiment={}", result["id"].as_str().unwrap());
    let words = ["runs", "list", "--json", "--number", "0", "--label", &label];
    let kept: Value = serde_json::from_str(&run(home, &words).1).unwrap();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 13, "{kept}");
    // The same with a read-only store.
    disk.read_only();
    let (output, out, err) = run(home, &["run", &path]);
    assert_eq!(output.status.code(), Some(4), "{out}{err}");
    assert!(common::refusal(&output).message.to_lowercase().contains("read-only"), "{out}");
    assert_eq!(common::messages(&err, "nothing-run").len(), 1, "{err}");
    let id = result["id"].as_str().unwrap();
    let (output, out, _) = run(home, &["run", "--resume", id]);
    assert_eq!(output.status.code(), Some(4), "{out}");
    assert!(common::refusal(&output).message.to_lowercase().contains("read-only"), "{out}");
    // A completed experiment is found only by its id.
    let (output, _, _) = run(home, &["run", "--resume", "last"]);
    let refused = common::refusal(&output);
    assert_eq!((refused.code.as_str(), refused.exit_code), ("not-found", 2), "{refused:?}");
    assert_eq!(refused.field.as_deref(), Some("--resume"));
    // Stored results can still be read.
    let (output, page, err) = run(home, &["report", "last-experiment", "--format", "md"]);
    assert!(output.status.success() && page.starts_with("## s"), "{page}{err}");
}

/// If a file changed between two sessions, resuming is refused with its name, so that results are not mixed.
#[test]
fn an_experiment_does_not_resume_with_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    let write = |seconds| {
        let text = format!("schema = \"weir.plan/1\"\n[[connection]]\nduration = \"{seconds}s\"\n");
        std::fs::write(&plan, text).unwrap();
    };
    write(1);
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"127.0.0.1\"\nport = 1\n\
                [[step]]\ntest = { plan_file = \"plan.toml\" }\n";
    let path = file(dir.path(), text);
    assert_eq!(run(dir.path(), &["run", &path]).0.status.code(), Some(3));
    write(2);
    let words = ["run", "--resume", "last"];
    let output = weir(dir.path(), &words).output().unwrap();
    let refused = common::refusal(&output);
    assert_eq!((refused.field.as_deref(), refused.exit_code), (Some("--resume"), 2));
    assert!(refused.given.unwrap().contains("plan.toml"));
    write(1);
    let (output, out, err) = run(dir.path(), &["run", "--resume", "last", "--json"]);
    assert_eq!(output.status.code(), Some(3), "no server: {out}{err}");
    assert!(common::messages(&err, "done-before").is_empty(), "{err}");
}

/// Two concurrent programs: different experiments do not interfere, and one experiment is run by only one program.
#[test]
fn an_experiment_is_run_by_one_program_and_others_do_not_interfere() {
    let dir = tempfile::tempdir().unwrap();
    let (go, works) = (dir.path().join("go"), dir.path().join("works"));
    let text = format!(
        "schema = \"weir.scenario/1\"\nname = \"s\"\n[[step]]\ncommand = {{ run = [\"sh\", \"-c\", \"touch '{}'; until [ -e '{}' ]; do sleep 0.02; done\"] }}\n",
        works.display(),
        go.display()
    );
    let path = file(dir.path(), &text);
    let begin = || {
        let mut command = weir(dir.path(), &["run", &path, "--json"]);
        Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut first = begin();
    let end = Instant::now() + Duration::from_secs(60);
    while !works.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (output, _, _) = run(dir.path(), &["run", "--resume", "last"]);
    let refused = common::refusal(&output);
    assert_eq!((refused.code.as_str(), refused.exit_code), ("not-available", 4), "{refused:?}");
    assert!(refused.message.contains(&first.0.id().to_string()), "{refused:?}");
    let mut second = begin();
    let checkpoints = || {
        let all = std::fs::read_dir(dir.path().join("weir/experiments")).unwrap();
        all.filter(|e| e.as_ref().unwrap().path().extension().is_some_and(|x| x == "checkpoint"))
            .count()
    };
    while checkpoints() < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::write(&go, "").unwrap();
    let ids: Vec<String> = [&mut first, &mut second]
        .into_iter()
        .map(|running| {
            let mut out = String::new();
            std::io::Read::read_to_string(&mut running.0.stdout.take().unwrap(), &mut out).unwrap();
            assert_eq!(running.0.wait().unwrap().code(), Some(0), "{out}");
            let result: Value = serde_json::from_str(&out).unwrap();
            result["id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_ne!(ids[0], ids[1]);
    for id in &ids {
        let kept = dir.path().join(format!("weir/experiments/{id}.json"));
        let text = std::fs::read_to_string(kept).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["id"], id.as_str());
    }
    // It has ended and released its checkpoint.
    let (output, out, err) = run(dir.path(), &["run", "--resume", &ids[0]]);
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
}
