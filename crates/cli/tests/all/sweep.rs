//! Sweeps and similar commands from outside, without a lab: servers that die, refusals before the first run, and output files.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_model::Refusal;

use crate::common::{checkpointed_runs, messages, refusal};

fn weir(home: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(words).env("XDG_DATA_HOME", home).env("HOME", home).env("NO_COLOR", "1");
    command.env_remove("SUDO_UID").env_remove("WEIR_KEY").env("WEIR_ERRORS", "json");
    command.stdin(Stdio::null());
    command
}

/// Exit code, standard output and standard error.
fn run(home: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let output = weir(home, words).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// The refusal of a command line, which must have exit code 2.
#[track_caller]
fn refused(home: &Path, words: &[&str]) -> Refusal {
    let refused = refusal(&weir(home, words).output().unwrap());
    assert_eq!(refused.exit_code, 2, "{words:?}: {refused:?}");
    refused
}

/// Asserts the refusal of `flag` because its file is that of `other`.
#[track_caller]
fn assert_apart(refused: &Refusal, flag: &str, other: &str) {
    assert_eq!(refused.field.as_deref(), Some(flag), "{refused:?}");
    let accepted = refused.accepted.as_deref().unwrap_or_default();
    assert!(accepted.ends_with(&format!(" {other}")), "{refused:?}");
}

/// A server on loopback, killed when this is dropped.
struct Server(Child);

impl Server {
    /// Starts a server on a free port; returns the port too.
    fn start() -> (Server, String) {
        // Another program may have bound the port in the meantime, or use it in UDP.
        for _ in 0..20 {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let port = listener.local_addr().unwrap().port().to_string();
            drop(listener);
            if let Some(server) = Server::at(&port, &[]) {
                return (server, port);
            }
        }
        panic!("no server in 20 attempts");
    }

    /// Starts a server on this port; `None` if it can't listen.
    fn at(port: &str, more: &[&str]) -> Option<Server> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.args(["serve", "-B", "127.0.0.1", "-p", port]).args(more).env_remove("WEIR_KEY");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut server = Server(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(server.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.contains("listening").then_some(server)
    }
}

/// Starts a server on the port of one that was killed; retries, since another program may use the port for a moment.
fn again(port: &str) -> Server {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(server) = Server::at(port, &[]) {
            return server;
        }
        assert!(Instant::now() < end, "port {port} is in use");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server dies during a sweep: the exit code is 3, the results are stored, the sweep gives up after some attempts, and the
/// last line says how to resume. Resuming makes the missing runs.
#[test]
fn a_server_that_dies_ends_a_sweep_with_3_and_the_command_to_resume() {
    let dir = tempfile::tempdir().unwrap();
    let (server, port) = Server::start();
    let words = ["sweep", "127.0.0.1", "-p", &port, "--over", "size=100,200", "--runs", "10"];
    let words = [&words[..], &["-u", "-b", "500pps", "-k", "100", "--no-latency"]].concat();
    let mut command = weir(dir.path(), &words);
    let sweep = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while checkpointed_runs(dir.path()) < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    let output = sweep.wait_with_output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let (_, id) = out.lines().last().unwrap().rsplit_once("weir run --resume ").unwrap();
    let kept = dir.path().join(format!("weir/experiments/{id}.json"));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!((&kept["status"], &kept["outcome"]), (&"partial".into(), &"error".into()), "{kept}");
    let runs = kept["steps"][0]["runs"].as_array().unwrap();
    let whole = runs.iter().filter(|r| r["error"].is_null()).count();
    assert!(whole >= 2, "{kept}");
    // Three consecutive failures end the sweep.
    assert_eq!(runs.iter().filter(|r| r["peer_unreachable"] == true).count(), 3, "{kept}");
    assert_eq!(runs.len(), whole + 3, "{kept}");
    let reason = kept["steps"][0]["reason"].as_str().unwrap();
    if whole + 3 < 20 {
        assert!(reason.contains(&format!(" {} runs ", 20 - whole - 3)), "{reason}");
    }
    // One JSON object on stdout, messages on stderr; the first message names the resumed experiment.
    let (code, out, err) = run(dir.path(), &["run", "--resume", "last", "--json"]);
    assert_eq!(code, Some(3), "no server: {out}{err}");
    let [first] = &messages(&err, "resuming")[..] else { panic!("{err}") };
    assert!(first.contains(id) && first.contains(&format!(" {whole} runs ")), "{first}");
    let [again_by] = &messages(&err, "resume")[..] else { panic!("{err}") };
    assert!(again_by.ends_with(&format!("weir run --resume {id}")), "{again_by}");
    assert!(serde_json::from_str::<Value>(&out).is_ok(), "{out}");
    let _server = again(&port);
    let (code, out, err) = run(dir.path(), &["run", "--resume", id]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(messages(&err, "done-before").len(), whole, "{err}");
    assert!(!out.contains("--resume"), "{out}");
}

/// If each point runs once, the failed points never reached the peer. To decide whether the server is gone, one of the earlier
/// points is run again.
#[test]
fn a_server_that_dies_ends_a_sweep_of_single_runs() {
    let dir = tempfile::tempdir().unwrap();
    let (server, port) = Server::start();
    let words = ["sweep", "127.0.0.1", "-p", &port, "--over", "size=100..1200:100", "--in-order"];
    let words = [&words[..], &["-u", "-b", "500pps", "-k", "100", "--no-latency"]].concat();
    let mut command = weir(dir.path(), &words);
    let sweep = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while checkpointed_runs(dir.path()) < 3 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    let output = sweep.wait_with_output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(output.status.code(), Some(3), "{out}{err}");
    let (_, id) = out.lines().last().unwrap().rsplit_once("weir run --resume ").unwrap();
    let kept = dir.path().join(format!("weir/experiments/{id}.json"));
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    let runs = kept["steps"][0]["runs"].as_array().unwrap();
    let whole = runs.iter().filter(|r| r["error"].is_null()).count();
    // That additional run is not in the result.
    assert_eq!((runs.len(), &kept["status"]), (whole + 3, &"partial".into()), "{kept}");
    if whole < 9 {
        let reason = kept["steps"][0]["reason"].as_str().unwrap();
        assert!(reason.contains(&format!("size={}", 100 * whole)), "{reason}");
        let rest = 12 - whole - 3;
        assert!(reason.contains(&format!(" {rest} runs ")) || rest == 1, "{reason}");
    }
    let (code, out, err) = run(dir.path(), &["runs", "list", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    let list: Value = serde_json::from_str(&out).unwrap();
    assert!(list["runs"].as_array().unwrap().len() <= whole + 1, "{list}");
    let _server = again(&port);
    let (code, out, err) = run(dir.path(), &["run", "--resume", id]);
    assert_eq!(code, Some(0), "{out}{err}");
}

/// Nothing is measured if the result could not be written.
#[test]
fn outputs_that_can_not_be_written_are_refused_before_the_first_run() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(of("file"), "old").unwrap();
    std::fs::create_dir(of("sub")).unwrap();
    let scenario = of("s.toml");
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"127.0.0.1\"\nport = 1\n[[step]]\ntest = {}\n";
    std::fs::write(&scenario, text).unwrap();
    let commands: [&[&str]; 4] = [
        &["sweep", "127.0.0.1", "-p", "1", "--over", "size=1"],
        &["run", &scenario],
        &["compare", "127.0.0.1", "--tools", "weir"],
        &["test", "127.0.0.1", "-p", "1", "--runs", "2"],
    ];
    for command in commands {
        for (flag, path) in [
            ("--csv", of("sub")),
            ("--csv", of("none/x.csv")),
            ("--html", of("none/x.html")),
            ("--junit", of("file/x.xml")),
            ("--svg", of("file")),
            ("--svg", of("file/charts")),
        ] {
            if command[0] == "test" && flag != "--csv" {
                continue;
            }
            let refused = refused(dir.path(), &[command, &[flag, &path]].concat());
            let given = refused.given.unwrap();
            assert_eq!(refused.field.as_deref(), Some(flag), "{command:?} {path}");
            assert!(given.contains(&path), "{command:?} {flag}: {given}");
        }
    }
    std::fs::hard_link(of("file"), of("hard")).unwrap();
    std::os::unix::fs::symlink("new", of("soft")).unwrap();
    for (csv, junit) in [
        (of("x"), of("x")),
        (of("x"), of("./x")),
        (of("file"), of("hard")),
        (of("soft"), of("new")),
    ] {
        let both = ["run", &scenario, "--csv", &csv, "--junit", &junit];
        assert_apart(&refused(dir.path(), &both), "--csv", "--junit");
    }
    // Nothing was started, and the check left no files.
    assert!(!dir.path().join("weir").exists());
    assert_eq!(std::fs::read_to_string(of("file")).unwrap(), "old");
    assert_eq!(std::fs::read_dir(of("sub")).unwrap().count(), 0);
}

/// No output may overwrite an input: a plan, a scenario, the command of a step, a checkpoint or a result.
#[test]
fn inputs_of_experiments_are_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| dir.path().join(name).display().to_string();
    let make = |name: &str, text: &str| std::fs::write(of(name), text).unwrap();
    make("p.toml", "schema = \"weir.plan/1\"\nhost = \"127.0.0.1\"\nport = 1\n[[connection]]\n");
    make("script.sh", "#!/bin/sh\n");
    let scenario = "schema = \"weir.scenario/1\"\nname = \"s\"\n[host.b]\naddress = \"127.0.0.1\"\nport = 1\n\
                    [[step]]\ntest = {}\nname = \"t\"\n[[step]]\nname = \"r\"\n[step.repeat]\ntimes = 1\n\
                    [[step.repeat.step]]\ncommand = { run = [\"sh\", \"./script.sh\"] }\n";
    make("s.toml", scenario);
    std::fs::create_dir(of("svg")).unwrap();
    std::fs::hard_link(of("s.toml"), of("svg/a.svg")).unwrap();
    // An incomplete experiment and its id.
    let (code, out, err) = run(dir.path(), &["run", &of("s.toml")]);
    assert_eq!(code, Some(3), "{out}{err}");
    let id = out.lines().last().unwrap().rsplit(' ').next().unwrap();
    let kept = |end: &str| of(&format!("weir/experiments/{id}.{end}"));
    let text = |path: &str| std::fs::read(path).unwrap();
    let plan: &[&str] = &["test", "--plan", &of("p.toml")];
    let sweep: &[&str] = &["sweep", "127.0.0.1", "--plan", &of("p.toml"), "--over", "size=64"];
    let scenario: &[&str] = &["run", &of("s.toml")];
    let resume: &[&str] = &["run", "--resume", id];
    let report: &[&str] = &["report", id];
    make("key", "x");
    let key: &[&str] = &["test", "127.0.0.1", "-p", "1", "--key-file", &of("key")];
    for (command, flag, path, read) in [
        (plan, "--csv", of("p.toml"), "--plan"),
        (plan, "--packet-log", of("./p.toml"), "--plan"),
        (plan, "--save-plan", of("p.toml"), "--plan"),
        (key, "--csv", of("key"), "--key-file"),
        (sweep, "--csv", of("p.toml"), "--plan"),
        (scenario, "--html", of("s.toml"), "FILE"),
        (scenario, "--csv", of("script.sh"), "a step's command"),
        (scenario, "--svg", of("svg"), "FILE"),
        (resume, "--csv", kept("checkpoint"), "--resume"),
        (resume, "--junit", kept("json"), "--resume"),
        (report, "-o", kept("json"), "RUN"),
        (report, "-o", kept("checkpoint"), "RUN"),
        (report, "-o", of("weir/runs.db"), "RUN"),
    ] {
        let is_there = std::path::Path::new(&path).is_file();
        let before = is_there.then(|| text(&path));
        let refused = refused(dir.path(), &[command, &[flag, &path]].concat());
        assert_apart(&refused, if flag == "-o" { "--output" } else { flag }, read);
        assert_eq!(before, is_there.then(|| text(&path)), "{path}");
    }
    assert_eq!(text(&of("svg/a.svg")), text(&of("s.toml")));
}

/// Rows written during a test are appended to the file of a descriptor.
#[test]
fn rows_of_a_test_are_appended_to_a_descriptors_file() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, port) = Server::start();
    let all = dir.path().join("all");
    for (path, redirected) in [("/dev/stdout", ">>all"), ("/dev/fd/3", "3>>all"), ("-", ">>all")] {
        for flag in ["--csv", "--packet-log"] {
            if path == "-" && flag != "--csv" {
                continue;
            }
            std::fs::write(&all, "before\n").unwrap();
            let line = format!(
                "\"$0\" test 127.0.0.1 -p {port} -u -R -b 100k -k 5 --no-store {flag} {path} {redirected}"
            );
            let done = Command::new("sh")
                .args(["-c", &line, env!("CARGO_BIN_EXE_weir")])
                .current_dir(dir.path())
                .output()
                .unwrap();
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            let bytes = std::fs::read(&all).unwrap();
            assert!(bytes.starts_with(b"before\n"), "{flag} {path}");
            let wanted: &[u8] = if flag == "--csv" { b"\nrun_id" } else { b"weir.packets/1" };
            let is_there = bytes.windows(wanted.len()).any(|part| part == wanted);
            assert!(is_there || flag == "--csv" && bytes.len() > 200, "{flag} {path}");
        }
    }
}

/// A named file is replaced completely, and a device is written to.
#[test]
fn named_files_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(of("x.csv"), "old").unwrap();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\n\
                sweep = { over = [\"size=64,128\"], test = { args = \"-u -b 100k -t 1\" } }\n";
    std::fs::write(of("s.toml"), text).unwrap();
    let run =
        |more: &[&str]| run(dir.path(), &[&["run", "--simulate", &of("s.toml")], more].concat());
    let (code, out, err) =
        run(&["--csv", &of("x.csv"), "--html", "/dev/null", "--svg", &of("a/b")]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(std::fs::read_to_string(of("x.csv")).unwrap().starts_with("step,"));
    use std::os::unix::fs::FileTypeExt;
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    assert!(std::fs::read_dir(of("a/b")).unwrap().count() > 0);
    // Through the link /dev/stdout, which is not replaced.
    let (code, out, err) = run(&["--csv", "/dev/stdout", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("\nstep,size,"), "{out}");
    assert!(Path::new("/dev/stdout").is_symlink());
}

/// Writes a scenario without traffic, for the virtual clock; returns its path.
fn simulated(dir: &Path) -> String {
    let path = dir.join("s.toml").display().to_string();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\n\
                sweep = { over = [\"size=64\"], test = { args = \"-u -b 100k -t 1\" } }\n";
    std::fs::write(&path, text).unwrap();
    path
}

/// If standard output is a file, results are appended: the earlier content and the program's other output are preserved.
#[test]
fn descriptors_are_appended_to() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = simulated(dir.path());
    let all = dir.path().join("all");
    let shell = |redirected: &str, path: &str, more: &str| {
        std::fs::write(&all, "before\n").unwrap();
        let line = format!(
            "{{ echo first; \"$0\" run --no-store --simulate \"$1\" --csv {path} {more}; echo last; }} {redirected}"
        );
        let done = Command::new("sh")
            .args(["-c", &line, env!("CARGO_BIN_EXE_weir"), &scenario])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        std::fs::read_to_string(&all).unwrap()
    };
    for path in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        for redirected in [">all", ">>all"] {
            let text = shell(redirected, path, "--json");
            let lines: Vec<&str> = text.lines().collect();
            let begin = if redirected == ">all" { 0 } else { 1 };
            assert_eq!(lines[..begin], ["before"][..begin], "{redirected} {path}: {text}");
            assert_eq!(lines[begin], "first", "{redirected} {path}: {text}");
            assert!(lines[begin + 1].starts_with('{'), "{redirected} {path}: {text}");
            assert!(lines[begin + 2].starts_with("step,size,"), "{redirected} {path}: {text}");
            assert_eq!(*lines.last().unwrap(), "last", "{redirected} {path}: {text}");
            assert!(!text.contains('\0'), "{redirected} {path}: {text}");
        }
    }
    let text = shell("2>>all", "/dev/stderr", "--json");
    assert!(text.starts_with("before\n") && text.contains("\nstep,size,"), "{text}");
    let text = shell("3>>all", "/dev/fd/3", "--json");
    assert!(text.starts_with("before\nstep,size,"), "{text}");
}

/// A file that is a mount point (as in containers) is rewritten in place.
#[test]
fn a_mounted_file_is_written_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let scenario = simulated(dir.path());
    std::fs::write(dir.path().join("source"), "old\n".repeat(10_000)).unwrap();
    std::fs::write(dir.path().join("x.csv"), "under it").unwrap();
    let in_namespaces = |namespaces: &[&str], line: &str| {
        Command::new("unshare")
            .args(namespaces)
            .args(["--mount", "sh", "-c", line])
            .args([env!("CARGO_BIN_EXE_weir"), &scenario])
            .current_dir(dir.path())
            .env("WEIR_ERRORS", "json")
            .output()
            .unwrap()
    };
    let read_only = "mount --bind source x.csv && mount -o remount,bind,ro x.csv";
    // Root needs no user namespace; other users may be refused one.
    let ways: [&[&str]; 2] = [&[], &["--user", "--map-root-user"]];
    let can = |way: &&&[&str]| in_namespaces(way, read_only).status.success();
    let Some(way) = ways.iter().find(can) else {
        println!("SKIPPED a_mounted_file_is_written_in_place: files can't be mounted here");
        return;
    };
    let inside = |line: &str| in_namespaces(way, line);
    let weir = "\"$0\" run --no-store --simulate \"$1\" --csv x.csv";
    let done = inside(&format!("mount --bind source x.csv && {weir} --json >json"));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    // A file that can't be written in place either is refused before anything is measured.
    let refused = inside(&format!("{read_only} && {weir}"));
    let readonly = refusal(&refused);
    assert_eq!(refused.status.code(), Some(readonly.exit_code), "{readonly:?}");
    assert_eq!(readonly.field.as_deref(), Some("--csv"), "{readonly:?}");
    assert_eq!(readonly.given.as_deref(), Some("x.csv"), "{readonly:?}");
    assert_eq!(String::from_utf8_lossy(&refused.stdout).lines().count(), 1, "only the refusal");
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let text = read("source");
    assert!(text.starts_with("step,size,") && !text.contains("old"), "{text}");
    assert_eq!(read("x.csv"), "under it");
    let mut names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["json", "s.toml", "source", "x.csv"]);
}

/// `--host` in a scenario with an emulator in its lab.
#[test]
fn an_outside_host_leaves_out_the_labs_emulator_or_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let scenarios = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let of = |name: &str| scenarios.join(name).display().to_string();
    // The message names the reason.
    for name in ["saturation.toml", "rfc2544.toml"] {
        let words = ["run", "--check", "--quick", &of(name), "--host", "b=192.0.2.1"];
        let (code, out, err) = run(dir.path(), &words);
        assert_eq!(code, Some(0), "{name}: {out}{err}");
        assert_eq!(messages(&err, "emulator-left-out").len(), 1, "{name}: {err}");
    }
    let words = ["run", "--check", &of("emulator-throughput.toml"), "--host", "b=192.0.2.1"];
    assert_eq!(refused(dir.path(), &words).field.as_deref(), Some("--host"));
}

/// No output may overwrite an input, under any name.
#[test]
fn inputs_of_other_commands_are_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| dir.path().join(name).display().to_string();
    let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\ntest = { args = \"-u -k 9 -b 900pps\" }\n";
    std::fs::write(of("s.toml"), text).unwrap();
    std::os::unix::fs::symlink(of("s.toml"), of("link")).unwrap();
    std::fs::create_dir(of("sub")).unwrap();
    for other in ["s.toml", "link", "sub/../s.toml"] {
        let words = ["run", &of("s.toml"), "--simulate", "--csv", &of(other)];
        assert_apart(&refused(dir.path(), &words), "--csv", "FILE");
        assert_eq!(std::fs::read_to_string(of("s.toml")).unwrap(), text);
    }
    let (code, out, err) = run(dir.path(), &["run", &of("s.toml"), "--simulate", "--json"]);
    assert_eq!(code, Some(0), "{err}");
    std::fs::write(of("r.json"), &out).unwrap();
    let words = ["report", &of("r.json"), "-o", &of("sub/../r.json")];
    assert_apart(&refused(dir.path(), &words), "--output", "RUN");
    assert_eq!(std::fs::read_to_string(of("r.json")).unwrap(), out);
}

/// The address of a [`path`].
const PATH: &str = "127.0.0.2";

/// A path of 1 MB/s to the server at these ports, over TCP; with `compresses` a run of equal bytes counts as two, as
/// in run-length coding. Returns whether its own ports were free.
fn path(ports: &[String], compresses: bool) -> bool {
    let listen = |port| TcpListener::bind(format!("{PATH}:{port}"));
    let Ok(listeners) = ports.iter().map(listen).collect::<Result<Vec<_>, _>>() else {
        return false;
    };
    let links = [(); 2].map(|()| Arc::new(Mutex::new(Instant::now())));
    for (listener, port) in listeners.into_iter().zip(ports.to_vec()) {
        let links = links.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
                let ends = [(&client, &server), (&server, &client)];
                for ((from, to), link) in ends.into_iter().zip(&links) {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let link = link.clone();
                    std::thread::spawn(move || carry(from, to, &link, compresses));
                }
            }
        });
    }
    true
}

/// Forwards what arrives as soon as the link has carried what came before.
fn carry(mut from: TcpStream, mut to: TcpStream, link: &Mutex<Instant>, compresses: bool) {
    const BYTES_PER_SECOND: f64 = 1e6;
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let bytes = &buffer[..count];
        let length = match compresses {
            // 4 MB/s at most, so that the rate of the path is the limit.
            true => (2 * bytes.chunk_by(|a, b| a == b).count()).max(count / 4),
            false => bytes.len(),
        };
        let until = {
            let mut free = link.lock().unwrap();
            let time = Duration::from_secs_f64(length as f64 / BYTES_PER_SECOND);
            *free = (*free).max(Instant::now()) + time;
            *free
        };
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Write);
}

/// A server behind a path, and its port.
fn behind_path(compresses: bool) -> (Server, String) {
    for _ in 0..20 {
        // TCP needs one data port per session, and there is one session at a time.
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let port = |listener: &TcpListener| listener.local_addr().unwrap().port().to_string();
        let listeners = [free(), free()];
        let ports = listeners.each_ref().map(port);
        drop(listeners);
        let range = format!("{0}-{0}", ports[1]);
        if let Some(server) = Server::at(&ports[0], &["--data-ports", &range])
            && path(&ports, compresses)
        {
            let [port, _] = ports;
            return (server, port);
        }
    }
    panic!("no server in 20 attempts");
}

/// What `weir test --compare-content` found on a path to a new server.
fn compared(compresses: bool, more: &[&str]) -> (Value, Value) {
    let home = tempfile::tempdir().unwrap();
    let (_server, port) = behind_path(compresses);
    let words = ["test", PATH, "-p", &port, "--compare-content", "--no-latency", "--json"];
    let words = [&words[..], &["--runs", "3", "-t", "300ms", "-w", "16K"], more].concat();
    let (code, out, errors) = run(home.path(), &words);
    assert_eq!(code, Some(0), "{out} {errors}");
    let result: Value = serde_json::from_str(&out).unwrap();
    (result["steps"][0]["found"][0].clone(), result)
}

#[test]
fn a_path_that_compresses_is_found_in_the_direction_asked() {
    for more in [&[][..], &["-R"]] {
        let (found, result) = compared(true, more);
        // On a busy host nothing is concluded.
        if found["host_limited"] == true {
            assert_eq!(found["code"], "undecided", "{more:?} {found}");
        } else {
            assert_eq!(found["code"], "compresses", "{more:?} {found}");
            assert!(found["interval"]["low"].as_f64().unwrap() > 1.5, "{found}");
        }
        let points = result["steps"][0]["points"].as_array().unwrap();
        let rate = |i: usize| &points[i]["metrics"]["throughput"];
        assert_eq!([&points[0]["at"]["content"], &points[1]["at"]["content"]], ["zeros", "random"]);
        assert!(rate(0)["mean"].as_f64() > rate(1)["mean"].as_f64(), "{points:?}");
        assert!(rate(0)["interval"].is_object() && rate(1)["interval"].is_object());
    }
}

#[test]
fn a_path_that_does_not_compress_shows_no_compression() {
    let (found, _) = compared(false, &[]);
    assert_ne!(found["code"], "compresses", "{found}");
    assert!(found["value"].as_f64().unwrap() < 1.5, "{found}");
    // At a planned rate below that of the path, nothing is shown.
    let (found, _) = compared(true, &["-b", "1M"]);
    assert_eq!(found["code"], "undecided", "{found}");
}

#[test]
fn contents_are_compared_of_one_stream_in_one_direction() {
    let home = tempfile::tempdir().unwrap();
    for (words, flag) in [
        ("--bidir", None),
        ("--rr 1/1", None),
        ("--content zeros", None),
        ("--verify", Some("--compare-content")),
        ("--runs 1", Some("--runs")),
    ] {
        let words: Vec<&str> =
            "test 127.0.0.1 --compare-content".split(' ').chain(words.split(' ')).collect();
        let refused = refused(home.path(), &words);
        if let Some(flag) = flag {
            assert_eq!(refused.field.as_deref(), Some(flag), "{refused:?}");
        }
    }
}
