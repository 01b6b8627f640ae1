//! The program from outside: its output, its streams and its exit codes.

use std::process::{Command, Output, Stdio};

use crate::common::{golden, messages, refusal, refusal_in};

/// Makes every command print errors as JSON.
const JSON: (&str, &str) = ("WEIR_ERRORS", "json");

fn weir(words: &[&str]) -> Output {
    weir_with(words, &[])
}

fn weir_with(words: &[&str], variables: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(words)
        .env_remove("COLUMNS")
        .env_remove("WEIR_KEY")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

#[test]
fn help_matches_the_golden_files() {
    for command in ["test", "serve", "ctl"] {
        let output = weir(&[command, "--help"]);
        assert_eq!(code(&output), 0);
        assert_eq!(err(&output), "");
        golden(&format!("help-{command}.txt"), &out(&output));
    }
}

#[test]
fn version_reports_the_build() {
    let output = weir(&["--version"]);
    assert_eq!(code(&output), 0);
    let text = out(&output);
    assert!(text.starts_with(&format!("weir {} (", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.contains("-"), "{text}");
    let commit = text.trim_end().trim_end_matches(')').rsplit(' ').next().unwrap();
    let short = out(&weir(&["-V"]));
    assert_eq!(short.contains(commit), commit != "unknown", "{short}");
}

#[test]
fn with_json_errors_are_json_on_stdout() {
    for words in [
        vec!["test", "h", "--json", "-b", "10Q"],
        vec!["test", "h", "-uJ", "-i", "5ms"],
        vec!["test", "--json", "--frob"],
        vec!["test", "h", "--json", "--plan", "/no/such/plan"],
    ] {
        let output = weir(&words);
        assert_eq!((code(&output), err(&output).as_str()), (2, ""), "{words:?}");
        assert_eq!(refusal(&output).exit_code, 2);
    }
    // As text, errors are on stderr only.
    let output = weir(&["test", "h", "-b", "10Q"]);
    assert_eq!((code(&output), out(&output).as_str()), (2, ""));
    assert!(err(&output).starts_with("error: "), "{}", err(&output));
    let output = weir(&["test", "h", "--json-stream", "-b", "10Q"]);
    let event: serde_json::Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!((&event["event"], &event["data"]["exit_code"]), (&"error".into(), &2.into()));
}

#[test]
fn a_plan_is_saved_without_a_host_and_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("plan.toml");
    let output = weir(&["test", "-u", "-b", "10M", "--save-plan", path.to_str().unwrap()]);
    assert_eq!((code(&output), out(&output), err(&output)), (0, String::new(), String::new()));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("weir.plan/1") && text.contains("rate = \"10M\""), "{text}");
    let again = dir.path().join("again.toml");
    let words = ["test", "--plan", path.to_str().unwrap(), "--save-plan", again.to_str().unwrap()];
    assert_eq!(code(&weir(&words)), 0);
    assert_eq!(std::fs::read_to_string(&again).unwrap(), text);
}

#[test]
fn a_script_is_a_plan_or_refused_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let script = file(
        "good.mgn",
        "0 LISTEN UDP 5000\n0 ON 7 UDP DST 192.0.2.1/5000 PERIODIC [10 100]\n2 OFF 7\n",
    );
    let plan = folder.path().join("plan.toml");
    let plan = plan.to_str().unwrap();
    // It names its destination, and is not run.
    let output = weir(&["test", "--mgen-script", &script, "--save-plan", plan]);
    assert_eq!(code(&output), 0, "{}", err(&output));
    let saved = weir_model::plan::Plan::parse(&std::fs::read_to_string(plan).unwrap()).unwrap();
    let connection = &saved.connections[0];
    assert_eq!((saved.peer.label(), connection.host.as_deref()), ("mgen", Some("192.0.2.1")));
    assert_eq!(connection.name, "7");
    let refused = |words: &[&str]| {
        let output = weir_with(words, &[JSON]);
        assert_eq!(code(&output), 2, "{words:?}");
        let refusal = refusal(&output);
        (refusal.field.unwrap_or_default(), refusal.line)
    };
    let flag = refused(&["test", "--mgen-script", &script, "-u"]);
    assert_eq!(flag, ("--udp".into(), None));
    let bad = file("bad.mgn", "\n0 ON 7 UDP DST 192.0.2.1/5000 PERIODIC [10 9]\n");
    assert_eq!(refused(&["test", "--mgen-script", &bad]), ("PERIODIC".into(), Some(2)));
    let trace = "START NOW\n0 1 ON 3000 192.0.2.1:9 TRACE /none\n9 1 OFF\n";
    let bad = file("bad.cfg", trace);
    assert_eq!(refused(&["test", "--rude-script", &bad]), ("TRACE".into(), Some(2)));
    let several = refused(&["test", "--mgen-script", &script, "--runs", "3"]);
    assert_eq!(several, ("--mgen-script".into(), None));
}

#[test]
fn keys_are_new_each_time_and_accepted() {
    let (one, two) = (out(&weir(&["keygen"])), out(&weir(&["keygen"])));
    assert_ne!(one, two);
    assert!((44..=65).contains(&one.len()) && one.ends_with('\n'), "{one:?}");
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("plan.toml");
    let save = ["test", "--save-plan", plan.to_str().unwrap()];
    for key in [one.trim(), two.trim()] {
        let output = weir_with(&save, &[("WEIR_KEY", key)]);
        assert_eq!(code(&output), 0, "{}", err(&output));
    }
    let output = weir_with(&save, &[("WEIR_KEY", "nonsense-secret"), JSON]);
    let refused = refusal(&output);
    assert_eq!((code(&output), refused.field.as_deref()), (2, Some("WEIR_KEY")));
    assert!(!out(&output).contains("nonsense-secret"), "{}", out(&output));
}

#[test]
fn a_dash_saves_the_plan_to_stdout() {
    let dir = tempfile::tempdir().unwrap();
    for path in ["-", "/dev/stdout"] {
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .args(["test", "--save-plan", path, "-u"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let plan = out(&output);
        assert!(output.status.success() && plan.contains("schema = \"weir.plan/1\""), "{plan}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn keys_that_others_can_read_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (file, plan) = (dir.path().join("key"), dir.path().join("plan.toml"));
    let key = out(&weir(&["keygen"]));
    std::fs::write(&file, &key).unwrap();
    let refused_host = "no.such.host.invalid";
    let with = |words: &[&str]| {
        let base = ["test", refused_host, "--no-store", "--save-plan", plan.to_str().unwrap()];
        weir_with(&[&base, words].concat(), &[JSON])
    };
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = with(&["--key-file", file.to_str().unwrap()]);
    assert_eq!(refusal(&refused).field.as_deref(), Some("--key-file"));
    assert!(!plan.exists(), "nothing is started");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let readable = with(&["--key-file", file.to_str().unwrap()]);
    assert_ne!(refusal(&readable).field.as_deref(), Some("--key-file"));
    let text = err(&with(&["--key", key.trim()]));
    assert_eq!(messages(&text, "key-exposed").len(), 1, "{text}");
    assert!(!text.contains(key.trim()), "{text}");
}

#[test]
fn printed_schemas_match_the_types() {
    let of =
        |which| serde_json::from_str::<serde_json::Value>(&out(&weir(&["schema", which]))).unwrap();
    assert_eq!(of("run"), weir_model::schema::run_schema());
    assert_eq!(of("plan"), weir_model::schema::plan_schema());
}

#[test]
fn completions_contain_the_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = weir(&["completions", shell]);
        assert_eq!(code(&output), 0);
        assert!(out(&output).contains("catch-up"), "{shell}");
    }
}

#[test]
fn manual_pages_of_all_commands() {
    assert!(out(&weir(&["man"])).contains(".TH weir 1"));
    for (words, title) in
        [(&["ttcp"][..], ".TH weir-ttcp 1"), (&["impair", "exec"], ".TH weir-impair-exec 1")]
    {
        let output = weir(&[&["man"], words].concat());
        assert!(out(&output).contains(title), "{words:?}: {}", out(&output));
    }
    let dir = tempfile::tempdir().unwrap();
    let pages = dir.path().join("man1");
    assert_eq!(code(&weir(&["man", "--out", pages.to_str().unwrap()])), 0);
    for page in [
        "weir.1",
        "weir-test.1",
        "weir-serve.1",
        "weir-runs.1",
        "weir-sweep.1",
        "weir-run.1",
        "weir-compare.1",
    ] {
        let text = std::fs::read_to_string(pages.join(page)).unwrap();
        assert!(text.len() > 500, "{page}");
    }
    let text = std::fs::read_to_string(pages.join("weir-test.1")).unwrap();
    assert!(text.contains("congestion") && text.contains("\\-\\-runs"), "{text}");
    let text = std::fs::read_to_string(pages.join("weir-serve.1")).unwrap();
    assert!(!text.contains("in\\-background"), "hidden flags stay hidden");
}

#[test]
fn a_control_socket_answers() {
    use std::io::{BufRead, BufReader, Write};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let answering = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line).unwrap();
        (&stream).write_all(b"{\"ok\":true}\n").unwrap();
        line
    });
    let output = weir(&["ctl", "--json", "--socket", path.to_str().unwrap(), "start", "voice"]);
    assert_eq!((code(&output), out(&output).as_str()), (0, "{\"ok\":true}\n"));
    assert_eq!(answering.join().unwrap(), "{\"connection\":\"voice\",\"verb\":\"start\"}\n");
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), err(&output).as_str()), (Some(0), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        eprintln!("SKIPPED a_full_disk_is_an_error: no /dev/full");
        return;
    };
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(["schema", "run"])
        .env("WEIR_ERRORS", "json")
        .stdout(full)
        .output()
        .unwrap();
    let refused = refusal_in(&err(&output)).unwrap();
    assert_eq!((code(&output), refused.code.as_str(), refused.exit_code), (4, "file", 4));
    assert_eq!(refused.given.as_deref(), Some("stdout"));
}

#[test]
fn an_unusable_path_has_the_same_code_for_every_flag() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("no/such");
    let missing = missing.to_str().unwrap();
    let directory = dir.path().to_str().unwrap();
    for flag in ["--packet-log", "--csv", "--logfile", "--control-socket"] {
        for path in [missing, directory] {
            // No server listens there, so a refusal before connecting is about the path.
            let words = ["test", "127.0.0.1:9", "--no-store", flag, path];
            let refused = refusal(&weir_with(&words, &[JSON]));
            let parts = (refused.field.as_deref(), refused.exit_code);
            assert_eq!(parts, (Some(flag), 2), "{path}: {refused:?}");
            assert!(refused.given.unwrap().contains(path), "{flag}");
        }
    }
}

#[test]
fn an_unavailable_congestion_control_is_refused_before_connecting() {
    let words = ["test", "127.0.0.1:9", "--no-store", "-C", "nosuch"];
    let refused = refusal(&weir_with(&words, &[JSON]));
    assert_eq!((refused.code.as_str(), refused.exit_code), ("not-available", 4));
    let parts = (refused.field.as_deref(), refused.given.as_deref());
    assert_eq!(parts, (Some("--congestion"), Some("nosuch")));
}

#[test]
fn a_key_file_is_readable_only_by_its_owner() {
    use std::os::unix::fs::MetadataExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let output = weir(&["keygen", "--output", path.to_str().unwrap()]);
    assert_eq!((code(&output), out(&output), err(&output)), (0, String::new(), String::new()));
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    let first = std::fs::read_to_string(&path).unwrap();
    assert_eq!(code(&weir(&["keygen", "--output", path.to_str().unwrap()])), 2, "the file exists");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), first);
    // Into a file that the shell creates.
    for (mode, warned) in [(0o644, true), (0o600, false)] {
        let open = dir.path().join(format!("{mode:o}"));
        let file = std::fs::File::create(&open).unwrap();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        file.set_permissions(permissions).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_weir"))
            .arg("keygen")
            .env("WEIR_ERRORS", "json")
            .stdout(file)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let told = messages(&err(&output), "key-exposed");
        assert_eq!(told.len(), usize::from(warned), "{}", err(&output));
        assert_eq!(std::fs::read_to_string(&open).unwrap().lines().count(), 1);
    }
}

#[test]
fn the_simulated_demo_passes_and_is_reproducible() {
    let run = |more: &[&str]| {
        let output = weir(&[&["demo", "--simulate"], more].concat());
        assert_eq!(code(&output), 0, "{}{}", out(&output), err(&output));
        out(&output)
    };
    let demo: serde_json::Value = serde_json::from_str(&run(&["--json"])).unwrap();
    let rows = demo["paths"].as_array().unwrap();
    assert_eq!(rows.len(), 11, "{demo}");
    for row in rows {
        assert_eq!(row["verdict"], "passed", "{row}");
        assert_eq!(row["dispositions"]["remainder_packets"], 0, "{row}");
    }
    let (first, second) = (run(&[]), run(&[]));
    // The row that can't be simulated is named.
    assert!(first.contains("TCP"), "{first}");
    // All but the last line, which holds the elapsed time.
    let table = |text: &str| text.trim_end().rsplit_once('\n').map(|(head, _)| head.to_string());
    assert_eq!(table(&first), table(&second));
}
