//! `weir lab` from outside: the program, its files and its processes.
// A helper that fails is a failed test.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_model::Refusal;

use crate::common::refusal;
use weir_net::namespace::ChildSetup;

const NOBODY: u32 = 65_534;

/// A user with its own runtime directory.
struct User {
    directory: tempfile::TempDir,
    program: PathBuf,
    id: Option<u32>,
}

impl User {
    /// The caller, which must be root, or `None` after printing why the test is skipped.
    fn root(test: &str) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("wlab-").tempdir().unwrap();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_weir"));
        Self { directory, program, id: None }.if_able(test)
    }

    /// An ordinary user, with a copy of the program, since it may not have access to the build directory.
    fn nobody(test: &str) -> Option<Self> {
        let directory = tempfile::Builder::new().prefix("wlab-").tempdir().unwrap();
        let program = directory.path().join("weir");
        // Not fs::copy: a concurrent fork by another test would keep the file open for writing, and running it would fail with
        // ETXTBSY.
        let copy = [Path::new(env!("CARGO_BIN_EXE_weir")), &program];
        assert!(Command::new("cp").args(copy).status().unwrap().success());
        // Only root can do this; otherwise `if_able` skips the test.
        let _ = chown(directory.path(), Some(NOBODY), Some(NOBODY));
        Self { directory, program, id: Some(NOBODY) }.if_able(test)
    }

    /// This user, if it can create a lab; else the test is skipped, or fails for root in CI.
    fn if_able(self, test: &str) -> Option<Self> {
        if fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m)).unwrap() != 0
        {
            eprintln!("SKIPPED {test}: needs root");
            return None;
        }
        let up = ["up", "--lab", "wlab-probe"];
        let output = self.command(&up).env("WEIR_ERRORS", "json").output().unwrap();
        if output.status.code() == Some(4) && std::env::var_os("CI").is_none() {
            let why = refusal(&output).message;
            assert!(why.contains(" namespace"), "{test}: {why}");
            eprintln!("SKIPPED {test}: {why}");
            return None;
        }
        assert!(output.status.success(), "{test}: {}", text(&output.stderr));
        assert_eq!(self.run(&["down", "--lab", "wlab-probe"]).status.code(), Some(0));
        Some(self)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("lab").args(args).env("WEIR_RUNTIME_DIR", self.runtime());
        command.stdin(Stdio::null());
        ChildSetup::new().default_signals().apply(&mut command).unwrap();
        if let Some(id) = self.id {
            // With directories in PATH that this user can't access, "not found" would become "not permitted".
            command.uid(id).gid(id).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        }
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the program, which must succeed; returns its standard output.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    #[track_caller]
    fn refused(&self, args: &[&str], code: i32) -> Refusal {
        let output = self.command(args).env("WEIR_ERRORS", "json").output().unwrap();
        let refused = refusal(&output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {refused:?}");
        refused
    }

    fn labs(&self) -> Value {
        serde_json::from_str(&self.ok(&["list", "--json"])).unwrap()
    }

    fn names(&self) -> Vec<String> {
        let labs = self.labs();
        let labs = labs["labs"].as_array().unwrap().iter();
        labs.map(|lab| lab["name"].as_str().unwrap().to_owned()).collect()
    }

    fn runtime(&self) -> PathBuf {
        self.directory.path().join("runtime")
    }

    fn entries(&self) -> PathBuf {
        self.runtime().join("labs")
    }

    fn entry(&self, name: &str) -> PathBuf {
        self.entries().join(format!("{name}.json"))
    }

    fn holder(&self, name: &str) -> u32 {
        let entry: Value = serde_json::from_slice(&fs::read(self.entry(name)).unwrap()).unwrap();
        entry["holder"]["pid"].as_u64().unwrap().try_into().unwrap()
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.run(&["down", "--all"]);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a process is running; a zombie is not.
fn lives(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}

fn kill(pid: u32, signal: &str) {
    let status = Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn files(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Sends a datagram from b to a in both families, with programs run by `exec`.
fn exchange(user: &User, lab: &str) {
    for (family, address) in [("AF_INET", "198.18.0.1"), ("AF_INET6", "2001:2::1")] {
        let receive = format!(
            "import socket;s=socket.socket(socket.{family},socket.SOCK_DGRAM);s.settimeout(15);\
             s.bind(('{address}',5555));print('ready',flush=True);print(s.recvfrom(99)[0].decode())"
        );
        let mut receiver = user
            .command(&["exec", "--lab", lab, "a", "--", "python3", "-c", &receive])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = std::io::BufReader::new(receiver.stdout.take().unwrap());
        let mut line = String::new();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        assert_eq!(line, "ready\n");
        let send = format!(
            "import socket;socket.socket(socket.{family},socket.SOCK_DGRAM).sendto(b'hello',('{address}',5555))"
        );
        user.ok(&["exec", "--lab", lab, "b", "--", "python3", "-c", &send]);
        line.clear();
        std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
        assert_eq!(line, "hello\n");
        assert!(receiver.wait().unwrap().success());
    }
}

/// Creates, uses and removes a lab; the same for every user.
fn life(user: &User) -> String {
    let said = user.ok(&["up", "--mtu", "9000", "--no-offload"]);
    let expected = json!({ "labs": [{ "name": "default", "hosts": [
        { "name": "a", "ipv4": "198.18.0.1", "ipv6": "2001:2::1" },
        { "name": "b", "ipv4": "198.18.0.2", "ipv6": "2001:2::2" },
    ], "nodes": ["a", "b"] }] });
    assert_eq!(user.labs(), expected);
    assert!(user.ok(&["list"]).contains("198.18.0.2"));
    exchange(user, "default");
    assert_eq!(user.ok(&["exec", "b", "--", "cat", "/sys/class/net/eth0/mtu"]), "9000\n");
    assert_eq!(user.ok(&["exec", "b", "cat", "/sys/class/net/eth0/mtu"]), "9000\n");
    let code = user.run(&["exec", "a", "--", "sh", "-c", "exit 37"]).status.code();
    assert_eq!(code, Some(37), "the command's own exit code");
    let signal = user.run(&["exec", "a", "--", "sh", "-c", "kill -USR1 $$"]).status.signal();
    assert_eq!(signal, Some(libc::SIGUSR1), "the signal that ended the command");
    let given = |words: &[&str]| user.refused(words, 2).given.unwrap_or_default();
    assert_eq!(given(&["exec", "c", "--", "true"]), "c");
    assert_eq!(given(&["exec", "a", "--", "wlab-no-such"]), "wlab-no-such");
    user.refused(&["up"], 2); // The name is in use.

    // A process in the lab that left its parent and its session is ended with the lab.
    let said_pid =
        user.ok(&["exec", "a", "--", "sh", "-c", "setsid sleep 60 >/dev/null 2>&1 & echo $!"]);
    let inside: u32 = said_pid.trim().parse().unwrap();
    assert!(lives(inside));
    let holder = user.holder("default");
    user.ok(&["down"]);
    assert!(!lives(holder));
    // It has left its namespaces, else `down` would still wait; the kernel may not have removed the process yet.
    until("the end of the process inside", || !lives(inside));
    assert_eq!(user.labs(), json!({ "labs": [] }));
    assert!(!user.entries().exists(), "an empty directory is left");
    assert_eq!(given(&["down"]), "default");
    assert_eq!(given(&["exec", "a", "--", "true"]), "default");
    said
}

#[test]
fn a_lab_of_root_from_up_to_down() {
    let Some(user) = User::root("a_lab_of_root_from_up_to_down") else { return };
    assert!(!life(&user).contains("namespace"));
}

#[test]
fn a_lab_of_an_ordinary_user_from_up_to_down() {
    let Some(user) = User::nobody("a_lab_of_an_ordinary_user_from_up_to_down") else { return };
    // What a lab in a user namespace lacks.
    assert!(life(&user).contains("BPF"));
}

/// The namespaces of an ordinary user have kernel settings of their own; those of the machine are refused by name, and
/// nothing starts.
#[test]
fn kernel_settings_of_an_ordinary_user() {
    let Some(user) = User::nobody("kernel_settings_of_an_ordinary_user") else { return };
    let own = fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap();
    assert_ne!(own, "0\n", "nothing can be seen here");
    let (up, name) = (["up", "--lab", "wlab-set", "--sysctl"], "net.ipv4.tcp_timestamps");
    user.ok(&[&up[..], &["net.ipv4.tcp_timestamps=0"]].concat());
    for host in ["a", "b"] {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        assert_eq!(user.ok(&["exec", "--lab", "wlab-set", host, "cat", &path]), "0\n");
    }
    user.ok(&["down", "--lab", "wlab-set"]);
    let refused = user.refused(&[&up[..], &["net.core.rmem_max=1"]].concat(), 4);
    assert!(refused.message.contains("net.core.rmem_max"), "{}", refused.message);
    let refused = user.refused(&[&up[..], &["net.ipv4.tcp_timestamps=x"]].concat(), 2);
    assert!(refused.message.contains("net.ipv4.tcp_timestamps=x"), "{}", refused.message);
    assert!(user.names().is_empty());
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_timestamps").unwrap(), own);
}

/// After a SIGKILL the holder can't clean up: the kernel and the watchdog do.
fn killed_holder(user: &User) {
    user.ok(&["up", "--lab", "wlab-k"]);
    let mut inside = user.command(&["exec", "--lab", "wlab-k", "b", "--", "sleep", "60"]);
    let mut inside = inside.spawn().unwrap();
    let cable = || {
        let text = fs::read_to_string(format!("/proc/{}/net/dev", inside.id())).unwrap_or_default();
        text.contains("eth0:") && text.lines().count() == 4
    };
    until("inside", cable);
    kill(user.holder("wlab-k"), "-KILL");
    assert_eq!(inside.wait().unwrap().signal(), Some(libc::SIGKILL), "killed by the watchdog");
    assert!(user.entry("wlab-k").exists(), "no process was left to remove it");
    // The next `up` removes the entry, and so does the next `list`.
    user.ok(&["up", "--lab", "wlab-k"]);
    kill(user.holder("wlab-k"), "-KILL");
    until("healed", || user.names().is_empty());
    assert!(!user.entries().exists(), "an empty directory is left");
}

#[test]
fn a_killed_holder_leaves_nothing() {
    let Some(user) = User::root("a_killed_holder_leaves_nothing") else { return };
    killed_holder(&user);
}

#[test]
fn a_killed_holder_of_an_ordinary_user_leaves_nothing() {
    let Some(user) = User::nobody("a_killed_holder_of_an_ordinary_user_leaves_nothing") else {
        return;
    };
    killed_holder(&user);
}

#[test]
fn two_concurrent_labs_are_separate() {
    let Some(user) = User::root("two_concurrent_labs_are_separate") else { return };
    user.ok(&["up", "--lab", "wlab-two"]);
    user.ok(&["up", "--lab", "wlab-one", "--hosts", "3"]);
    assert_eq!(user.names(), ["wlab-one", "wlab-two"]);
    exchange(&user, "wlab-one");
    exchange(&user, "wlab-two");
    user.ok(&["down", "--lab", "wlab-one"]);
    exchange(&user, "wlab-two");
    assert_eq!(user.names(), ["wlab-two"]);
    let hosts = ["--hosts", "3", "--sysctl", "net.ipv4.tcp_timestamps=0"];
    let said =
        user.ok(&[&["up", "--lab", "wlab-three", "--impair", "delay 1ms"], &hosts[..]].concat());
    assert!(said.contains("net.ipv4.tcp_timestamps"), "{said}");
    let labs = user.labs();
    assert_eq!(labs["labs"][0]["nodes"], json!(["a", "b", "c", "m", "switch"]), "{labs}");
    exchange(&user, "wlab-three");
    let path = "/proc/sys/net/ipv4/tcp_timestamps";
    assert_eq!(user.ok(&["exec", "--lab", "wlab-three", "c", "cat", path]), "0\n");
    let listed = user.ok(&["list"]);
    let middles = listed.lines().filter(|line| line.trim_start().starts_with("m "));
    assert_eq!(middles.count(), 1, "{listed}");
    user.ok(&["down", "--all"]);
    assert!(user.names().is_empty());
}

#[test]
fn only_one_of_several_starters_of_a_name_succeeds() {
    let Some(user) = User::root("only_one_of_several_starters_of_a_name_succeeds") else { return };
    let start = || {
        let mut command = user.command(&["up", "--lab", "wlab-race"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let starters: Vec<_> = (0..4).map(|_| start()).collect();
    let mut codes: Vec<_> =
        starters.into_iter().map(|mut s| s.wait().unwrap().code().unwrap()).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 2, 2, 2]);
    assert_eq!(user.names(), ["wlab-race"]);
}

#[test]
fn an_interrupt_during_up_leaves_nothing() {
    let Some(user) = User::root("an_interrupt_during_up_leaves_nothing") else { return };
    // The test holds the lock, which stops the holder at a known point.
    let entries = user.entries();
    if !entries.exists() {
        let mut builder = fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&entries).unwrap();
    }
    let lock = File::open(&entries).unwrap();
    lock.lock().unwrap();
    let mut starter = user.command(&["up", "--lab", "wlab-int"]);
    let mut starter = starter.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", starter.id());
    let mut holder = 0;
    until("a holder", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        holder = text.split_whitespace().next().map_or(0, |pid| pid.parse().unwrap());
        // From then on the terminal's signals don't reach it; it reads only its socket.
        holder != 0
            && fs::read(format!("/proc/{holder}/cmdline")).is_ok_and(|c| c.ends_with(b"hold\0"))
    });
    kill(starter.id(), "-INT");
    assert_eq!(starter.wait().unwrap().signal(), Some(libc::SIGINT));
    lock.unlock().unwrap(); // dropping it does not unlock while another test forks
    until("the holder's end", || !lives(holder));
    assert!(!user.entries().exists(), "an empty directory is left");
    assert!(user.names().is_empty());
}

#[test]
fn a_starter_that_never_confirms_leaves_nothing() {
    let Some(user) = User::root("a_starter_that_never_confirms_leaves_nothing") else { return };
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut command = user.command(&["hold"]);
    let mut holder = command.stdin(std::os::fd::OwnedFd::from(theirs)).spawn().unwrap();
    drop(command);
    let spec = json!({ "topology": "pair", "mtu_bytes": null, "no_offload": false,
        "transmit_queue_packets": null, "sysctls": {} });
    let order = json!({ "name": "wlab-keep", "spec": spec });
    std::io::Write::write_all(&mut &ours, format!("{order}\n").as_bytes()).unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(&ours), &mut line).unwrap();
    assert!(line.contains("wlab-keep"), "{line}");
    assert_eq!(user.names(), ["wlab-keep"]);
    drop(ours);
    let mut status = None;
    until("the holder's end", || {
        status = holder.try_wait().unwrap();
        status.is_some()
    });
    assert!(status.unwrap().success());
    assert!(!user.entries().exists(), "an empty directory is left");
}

#[test]
fn a_hostile_registry_is_survived() {
    let Some(user) = User::root("a_hostile_registry_is_survived") else { return };
    user.ok(&["up", "--lab", "wlab-good"]);
    let good = fs::read(user.entry("wlab-good")).unwrap();
    let secret = user.directory.path().join("secret");
    fs::write(&secret, "untouched").unwrap();
    // These are not locked, hence stale, whatever they contain.
    fs::write(user.entry("wlab-copy"), &good).unwrap();
    fs::write(user.entry("wlab-junk"), [0xff; 4096]).unwrap();
    fs::write(user.entry("wlab-empty"), "").unwrap();
    fs::write(user.entries().join(".wlab-x.tmp"), "half").unwrap();
    symlink(&secret, user.entry("wlab-link")).unwrap();
    fs::write(user.entries().join("no entry.json"), "").unwrap();
    assert_eq!(user.names(), ["wlab-good"]);
    assert_eq!(files(&user.entries()), ["no entry.json", "wlab-good.json"]);
    assert_eq!(fs::read_to_string(&secret).unwrap(), "untouched");
    // Locked and so considered alive, but invalid: refused, and no process is signalled.
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let mut entry: Value = serde_json::from_slice(&good).unwrap();
    entry["name"] = json!("wlab-lie");
    entry["holder"]["pid"] = json!(bystander.id());
    fs::write(user.entry("wlab-lie"), entry.to_string()).unwrap();
    let held = File::open(user.entry("wlab-lie")).unwrap();
    held.lock().unwrap();
    user.refused(&["exec", "--lab", "wlab-lie", "a", "--", "true"], 2);
    assert_ne!(user.run(&["down", "--lab", "wlab-lie"]).status.code(), Some(0));
    assert!(bystander.try_wait().unwrap().is_none());
    held.unlock().unwrap(); // dropping it does not unlock while another test forks
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(user.names(), ["wlab-good"]);
    // Its user may let others write there.
    fs::set_permissions(user.entries(), PermissionsExt::from_mode(0o777)).unwrap();
    assert_eq!(user.names(), ["wlab-good"]);
}

#[test]
fn bad_flags_are_refused_by_name() {
    let Some(user) = User::root("bad_flags_are_refused_by_name") else { return };
    for (args, field, given) in [
        (&["up", "--hosts", "17"][..], "--hosts", "17"),
        (&["up", "--hosts", "1"], "--hosts", "1"),
        (&["up", "--middle", "--hosts", "17"], "--hosts", "17"),
        (&["up", "--sysctl", "kernel.pid_max=9"], "--sysctl", "kernel.pid_max=9"),
        (&["up", "--mtu", "100"], "--mtu", "100"),
        (&["up", "--txqueuelen", "0"], "--txqueuelen", "0"),
        (&["up", "--lab", "../x"], "--lab", "../x"),
        (&["exec", "a"], "CMD", "nothing"),
        (&["down", "--all", "--lab", "x"], "--all", "given with --lab"),
    ] {
        let refused = user.refused(args, 2);
        let parts = (refused.field.as_deref(), refused.given.as_deref());
        assert_eq!(parts, (Some(field), Some(given)), "{args:?}");
    }
    assert!(!user.entries().exists(), "no part of a lab is left");
}

#[test]
fn the_noise_floor_of_an_ordinary_user_has_the_figures_between_two_hosts() {
    let test = "the_noise_floor_of_an_ordinary_user_has_the_figures_between_two_hosts";
    let Some(user) = User::nobody(test) else { return };
    let mut command = Command::new(&user.program);
    command.args(["calibrate", "--json", "--no-store"]).stdin(Stdio::null());
    command.uid(NOBODY).gid(NOBODY).env("WEIR_RUNTIME_DIR", user.runtime());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    assert!(found["figures"]["lab_one_way_delay_p50_seconds"].is_f64(), "{found:#}");
    assert!(found["figures"]["lab_tcp_bits_per_second"].is_f64(), "{found:#}");
    assert!(found["warnings"].as_array().unwrap().iter().all(|w| w["code"] != "loopback-only"));
}
