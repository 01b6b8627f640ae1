//! `weir impair exec`: a command behind the emulator reaches this host's services and other hosts by TCP and UDP, and can
//! resolve names.

use crate::common;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::{Running, WEIR, has_tools, run, signal, skip, until};
use weir_lab::{Lab, LabSpec};
use weir_net::namespace::{ChildSetup, effective_user_id};

/// Two hosts: one stands for the machine that runs the command, one for a host beyond it.
fn world(test: &str) -> Option<Lab> {
    if effective_user_id() != 0 {
        skip(test, "needs root");
        return None;
    }
    if !has_tools(test, &["ip", "nft", "bash", "getent", "unshare", "ping"]) {
        return None;
    }
    let lab = Lab::up(&LabSpec::default()).unwrap();
    for (host, address) in [("a", "192.0.2.1/24"), ("b", "192.0.2.7/24")] {
        let mut command = lab.command(host, "ip").unwrap();
        command.args(["addr", "add", address, "dev", "eth0"]);
        run(command).good();
    }
    Some(lab)
}

/// Sends `word` to each client.
fn greets(lab: &Lab, host: &str, address: &str, word: &'static str) -> u16 {
    let listener = lab.run_in(host, || TcpListener::bind(address).unwrap()).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(format!("{word}\n").as_bytes());
        }
    });
    port
}

/// Answers each datagram with the result of `answer`.
fn answers(
    lab: &Lab,
    host: &str,
    address: &str,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + 'static,
) -> u16 {
    let socket = lab.run_in(host, || UdpSocket::bind(address).unwrap()).unwrap();
    let port = socket.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        while let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let _ = socket.send_to(&answer(&bytes[..n]), from);
        }
    });
    port
}

/// The answer to a DNS query: 192.0.2.99 for type A, no records for other types.
fn name(query: &[u8]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|&b| b == 0).unwrap() + 5;
    let is_a = query[end - 4..end - 2] == [0, 1];
    let mut out = [&query[..2], &[0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]].concat();
    out.extend(&query[12..end]);
    if is_a {
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 99]);
    }
    out
}

#[test]
fn local_and_remote_services_are_reached_and_names_resolved() {
    let test = "local_and_remote_services_are_reached_and_names_resolved";
    let Some(lab) = world(test) else { return };
    let here = greets(&lab, "a", "127.0.0.1:0", "here");
    let beyond = greets(&lab, "b", "192.0.2.7:0", "beyond");
    let echo = |bytes: &[u8]| [b"echo ", bytes].concat();
    let udp_here = answers(&lab, "a", "127.0.0.1:0", echo);
    let udp_beyond = answers(&lab, "b", "192.0.2.7:0", echo);
    answers(&lab, "a", "127.0.0.53:53", name);
    let directory = tempfile::tempdir().unwrap();
    let resolver = directory.path().join("resolv.conf");
    std::fs::write(&resolver, "search invalid\nnameserver 127.0.0.53\noptions timeout:2\n")
        .unwrap();
    let script = format!(
        "tcp() {{ exec 3<>/dev/tcp/$1/$2; cat <&3; }}
         udp() {{ exec 4<>/dev/udp/$1/$2; echo $3 >&4; timeout 5 dd bs=100 count=1 status=none <&4; }}
         tcp $WEIR_HOST {here}; tcp 192.0.2.7 {beyond}
         udp $WEIR_HOST {udp_here} one; udp 192.0.2.7 {udp_beyond} two; udp 192.0.2.7 {udp_beyond} three
         getent ahostsv4 www.example.org | head -1 | cut -d' ' -f1
         ping -c 1 -W 1 192.0.2.7 >/dev/null; echo ping $?
         (tcp 192.0.2.7 1) 2>/dev/null; echo closed"
    );
    // Replaces this host's resolv.conf during the test, in a mount namespace.
    let mut command = lab.command("a", "unshare").unwrap();
    let with = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
    command.args(["--mount", "sh", "-c", with]).arg(&resolver).args([WEIR, "impair", "exec"]);
    command.args(["--both", "delay 25ms", "--", "bash", "-c", &script]);
    command.env("WEIR_RUNTIME_DIR", directory.path().join("runtime")).env("WEIR_ERRORS", "json");
    let started = std::time::Instant::now();
    let ended = run(command);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(
        lines,
        ["here", "beyond", "echo one", "echo two", "echo three", "192.0.2.99", "ping 1", "closed"],
        "{}",
        ended.stderr
    );
    assert!(ended.messages("no-outward-access").is_empty(), "{}", ended.stderr);
    assert_eq!(ended.messages("services").len(), 1, "{}", ended.stderr);
    // Six exchanges, each subject to the delay.
    assert!(started.elapsed() > Duration::from_millis(6 * 50));
    assert!(std::fs::read_dir(directory.path().join("runtime")).unwrap().next().is_none());
}

#[test]
fn without_the_tools_only_local_services_are_reached_with_a_message() {
    let test = "without_the_tools_only_local_services_are_reached_with_a_message";
    let Some(lab) = world(test) else { return };
    let here = greets(&lab, "a", "127.0.0.1:0", "here");
    let directory = tempfile::tempdir().unwrap();
    // As on a machine without nft: no program of that name is found.
    let mut command = lab.command("a", "unshare").unwrap();
    let hide = "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /sbin; exec \"$@\"";
    let script = format!("exec 3<>/dev/tcp/$WEIR_HOST/{here}; cat <&3");
    command.args(["--mount", "sh", "-c", hide, "sh", WEIR, "impair", "exec", "--"]);
    command.args(["bash", "-c", &script]);
    command.env("WEIR_RUNTIME_DIR", directory.path().join("runtime")).env("WEIR_ERRORS", "json");
    let ended = run(command);
    assert_eq!(ended.stdout, "here\n", "{}", ended.stderr);
    let told = ended.messages("no-outward-access");
    assert!(told.len() == 1 && told[0].contains("nft"), "{}", ended.stderr);
}

/// The command `weir impair exec`, detached from the terminal that the tests may run in.
fn exec(lab: &Lab, directory: &Path, words: &[&str]) -> Command {
    let mut command = lab.command("a", WEIR).unwrap();
    ChildSetup::new().new_session().apply(&mut command).unwrap();
    command.args(["impair", "exec", "--both", "delay 5ms", "--"]).args(words);
    command.env("WEIR_RUNTIME_DIR", directory.join("runtime")).env("WEIR_ERRORS", "json");
    command.env("DIRECTORY", directory);
    command
}

/// A script that runs until it is signalled, and reports the signal.
const UNTIL_SIGNAL: &str =
    "trap 'echo told; touch $DIRECTORY/told' TERM INT; touch $DIRECTORY/ready
    while [ ! -e $DIRECTORY/told ]; do sleep 0.05; done";

fn is_left(directory: &Path) -> bool {
    std::fs::read_dir(directory.join("runtime")).unwrap().next().is_some()
}

#[test]
fn a_signal_ends_the_command_and_the_report_is_printed() {
    let test = "a_signal_ends_the_command_and_the_report_is_printed";
    let Some(lab) = world(test) else { return };
    for (name, code) in [("TERM", 143), ("HUP", 143), ("INT", 130)] {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let running = Running::start(exec(&lab, directory.path(), &["sh", "-c", UNTIL_SIGNAL]));
        until("the command runs", || file("ready").exists());
        signal(name, running.child());
        let ended = running.finish();
        assert_eq!(ended.status.code(), Some(code), "{name}: {}", ended.stderr);
        assert_eq!(ended.stdout, "told\n", "{name}: {}", ended.stderr);
        assert_eq!(ended.messages("report").len(), 1, "{name}: {}", ended.stderr);
        assert!(!is_left(directory.path()), "{name}");
    }
}

#[test]
fn the_first_packet_does_not_wait_for_address_resolution() {
    let test = "the_first_packet_does_not_wait_for_address_resolution";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut command = lab.command("a", WEIR).unwrap();
    command.args(["impair", "exec", "-q", "--both", "delay 700ms", "--"]);
    command.args(["sh", "-c", "ping -c 1 -W 10 $WEIR_HOST"]);
    command.env("WEIR_RUNTIME_DIR", directory.path().join("runtime")).env("WEIR_ERRORS", "json");
    let said = run(command).good();
    let time = said.split("time=").nth(1).and_then(|rest| rest.split(' ').next());
    let milliseconds: f64 = time.unwrap().parse().unwrap();
    // One round trip; with address resolution through the laws it would be two.
    assert!((1400.0..2800.0).contains(&milliseconds), "{said}");
}

/// With `--quiet` the output is only the command's; errors are still reported.
#[test]
fn quiet_prints_only_errors() {
    let test = "quiet_prints_only_errors";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    // As on a machine without nft.
    let hide = "mount -t tmpfs none /usr/sbin && mount -t tmpfs none /sbin; exec \"$@\"";
    for (quiet, prepare) in [("--quiet", "exec \"$@\""), ("-q", hide)] {
        let mut command = lab.command("a", "unshare").unwrap();
        command.args(["--mount", "sh", "-c", prepare, "sh", WEIR, "impair", "exec", quiet]);
        command.args(["--both", "delay 5ms", "--", "sh", "-c", "echo $WEIR_HOST >&2"]);
        command
            .env("WEIR_RUNTIME_DIR", directory.path().join("runtime"))
            .env("WEIR_ERRORS", "json");
        let ended = Running::start(command).finish();
        assert!(ended.status.success(), "{}", ended.stderr);
        let said: Vec<&str> = ended.stderr.lines().collect();
        let lacks = prepare == hide;
        assert_eq!(said.len(), if lacks { 2 } else { 1 }, "{said:?}");
        assert!(said.last().unwrap().parse::<std::net::Ipv4Addr>().is_ok(), "{said:?}");
        assert_eq!(ended.messages("no-outward-access").len(), usize::from(lacks), "{said:?}");
    }
}

/// How often the thread that receives signals has gone to sleep.
fn sleeps_of_the_listener(process: u32) -> Option<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let read = |name: &str, task: &Path| std::fs::read_to_string(task.join(name)).ok();
    let listener = tasks.map(|task| task.unwrap().path());
    let mut listener =
        listener.filter(|task| read("comm", task).as_deref() == Some("weir-signals\n"));
    let status = read("status", &listener.next()?)?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?
        .trim()
        .parse()
        .ok()
}

/// Runs `weir impair exec`, which blocks while it sets up access to other hosts until the file `go` exists.
fn held(lab: &Lab, directory: &Path) -> Running {
    let file = |name: &str| directory.join(name);
    // Its nft is a script that waits, but at most for a minute, in case the test fails.
    let nft = "#!/bin/sh\ntouch $DIRECTORY/asked\n\
               n=0; while [ ! -e $DIRECTORY/go ] && [ $n -lt 3000 ]; do sleep 0.02; n=$((n+1)); done; exit 1\n";
    std::fs::write(file("nft"), nft).unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(file("nft"), executable).unwrap();
    let mut command = exec(lab, directory, &["sh", "-c", "touch $DIRECTORY/ready"]);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", directory.display()));
    let running = Running::start(command);
    until("it prepares", || file("asked").exists());
    running
}

#[test]
fn a_signal_while_it_starts_starts_nothing_and_leaves_nothing() {
    let test = "a_signal_while_it_starts_starts_nothing_and_leaves_nothing";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let running = held(&lab, directory.path());
    let id = running.child().id();
    let slept = sleeps_of_the_listener(id).unwrap();
    signal("TERM", running.child());
    until("the signal is taken", || sleeps_of_the_listener(id) > Some(slept));
    std::fs::write(file("go"), "").unwrap();
    let ended = running.finish();
    assert_eq!(ended.status.code(), Some(143), "{}", ended.stderr);
    assert_eq!(ended.messages("nothing-run").len(), 1, "{}", ended.stderr);
    assert!(!file("ready").exists() && !is_left(directory.path()));
}

#[test]
fn the_third_signal_during_the_start_ends_it_immediately() {
    let test = "the_third_signal_during_the_start_ends_it_immediately";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let mut running = held(&lab, directory.path());
    let id = running.child().id();
    for _ in 0..2 {
        let slept = sleeps_of_the_listener(id).unwrap();
        signal("TERM", running.child());
        until("the signal is taken", || sleeps_of_the_listener(id) > Some(slept));
    }
    assert!(running.child_mut().try_wait().unwrap().is_none(), "two signals end it in order");
    signal("TERM", running.child());
    until("it ends", || running.child_mut().try_wait().unwrap().is_some());
    std::fs::write(file("go"), "").unwrap();
    assert_eq!(running.finish().status.code(), Some(143));
    // Lab and emulator end by themselves, and the next start finds nothing to restore.
    until("nothing is left", || !is_left(directory.path()));
    assert!(!file("ready").exists());
}

/// Types Ctrl-C as soon as the output appears after which the command is started; prints the exit code.
const TYPED: &str = "
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
seen = b''
while True:
    try:
        part = os.read(terminal, 4096)
    except OSError:
        break
    if not part:
        break
    told = b'\"services\"' in seen
    seen += part
    if not told and b'\"services\"' in seen:
        os.write(terminal, b'\\x03')
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
";

/// An interrupt between the last check and the exec of the command would otherwise reach no process that ends by it.
#[test]
fn an_interrupt_typed_while_the_command_starts_is_not_lost() {
    let test = "an_interrupt_typed_while_the_command_starts_is_not_lost";
    let Some(lab) = world(test).filter(|_| has_tools(test, &["python3"])) else { return };
    for _ in 0..8 {
        let directory = tempfile::tempdir().unwrap();
        let mut command = lab.command("a", "python3").unwrap();
        command.args(["-c", TYPED, WEIR, "impair", "exec", "--both", "delay 1ms"]);
        command.args(["--", "sleep", "20"]);
        command
            .env("WEIR_RUNTIME_DIR", directory.path().join("runtime"))
            .env("WEIR_ERRORS", "json");
        let ended = run(command);
        assert_eq!(ended.stdout, "130\n", "{}", ended.stderr);
    }
}

#[test]
fn a_command_that_does_not_end_is_killed_when_asked_again() {
    let test = "a_command_that_does_not_end_is_killed_when_asked_again";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let script = "trap 'touch $DIRECTORY/told' TERM; touch $DIRECTORY/ready
        while :; do sleep 0.05; done";
    let running = Running::start(exec(&lab, directory.path(), &["sh", "-c", script]));
    until("the command runs", || file("ready").exists());
    signal("TERM", running.child());
    until("the command was signalled", || file("told").exists());
    signal("TERM", running.child());
    let ended = running.finish();
    assert_eq!(ended.status.code(), Some(143), "{}", ended.stderr);
    assert!(!is_left(directory.path()));
}

#[test]
fn an_emulator_that_dies_ends_the_command_and_is_reported() {
    let test = "an_emulator_that_dies_ends_the_command_and_is_reported";
    let Some(lab) = world(test) else { return };
    for (name, code) in [("KILL", 70), ("TERM", 3)] {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| directory.path().join(name);
        let running = Running::start(exec(&lab, directory.path(), &["sh", "-c", UNTIL_SIGNAL]));
        until("the command runs", || file("ready").exists());
        let parent = running.child().id().to_string();
        let emulator = Command::new("sh")
            .args(["-c", "grep -l \"^PPid:.$0$\" /proc/[0-9]*/status 2>/dev/null", &parent])
            .output()
            .unwrap();
        let text = String::from_utf8(emulator.stdout).unwrap();
        let pids = text.lines().map(|line| line.split('/').nth(2).unwrap());
        let is_emulator = |pid: &&str| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&words).starts_with("weir\0job\0emulator\0")
        };
        let emulators: Vec<&str> = pids.filter(is_emulator).collect();
        assert_eq!(emulators.len(), 1, "{text}");
        assert!(Command::new("kill").args(["-s", name, emulators[0]]).status().unwrap().success());
        let ended = running.finish();
        assert_eq!(ended.status.code(), Some(code), "{name}: {}", ended.stderr);
        assert_eq!(ended.stdout.lines().next(), Some("told"), "{name}: {}", ended.stderr);
        assert_eq!(ended.refusal().code, "emulator", "{name}: {}", ended.stderr);
        assert_eq!(ended.messages("path-ended").len(), 1, "{name}: {}", ended.stderr);
    }
}

/// The command, in a mount namespace in which `prepare` has run with `$0` as a file of the test.
fn after(lab: &Lab, prepare: &str, file: &Path, directory: &Path, words: &[&str]) -> Command {
    let mut command = lab.command("a", "unshare").unwrap();
    command.args(["--mount", "sh", "-c", &format!("{prepare} && exec \"$@\"")]).arg(file);
    command.args([WEIR, "impair", "exec", "--"]).args(words);
    command.env("WEIR_RUNTIME_DIR", directory.join("runtime")).env("WEIR_ERRORS", "json");
    command
}

#[test]
fn without_a_resolv_conf_the_command_still_runs() {
    let test = "without_a_resolv_conf_the_command_still_runs";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    for prepare in [
        "mount -t tmpfs none /etc",
        "mount -t tmpfs none /etc && ln -s /nowhere/resolv.conf /etc/resolv.conf",
    ] {
        let words = ["sh", "-c", "echo ran; exit 7"];
        let ended = run(after(&lab, prepare, directory.path(), directory.path(), &words));
        assert_eq!(ended.stdout, "ran\n", "{prepare}: {}", ended.stderr);
        assert_eq!(ended.status.code(), Some(7), "{prepare}: {}", ended.stderr);
        assert_eq!(ended.messages("no-names").len(), 1, "{prepare}: {}", ended.stderr);
    }
}

#[test]
fn a_missing_program_is_reported_with_and_without_our_resolv_conf() {
    let test = "a_missing_program_is_reported_with_and_without_our_resolv_conf";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let resolver = directory.path().join("resolv.conf");
    for server in ["127.0.0.53", "192.0.2.53"] {
        std::fs::write(&resolver, format!("nameserver {server}\n")).unwrap();
        let bind = "mount --bind \"$0\" /etc/resolv.conf";
        let on = |words: &[&str]| run(after(&lab, bind, &resolver, directory.path(), words));
        let ended = on(&["wexec-no-such"]);
        assert_eq!(ended.status.code(), Some(127), "{}", ended.stderr);
        assert!(ended.messages("ready").is_empty(), "built a path: {}", ended.stderr);
        assert_eq!(on(&["./wexec-no-such"]).status.code(), Some(127));
        assert_eq!(on(&["/etc"]).status.code(), Some(126));
        // The command sees the mounted file, which has no name outside its namespace.
        let seen =
            on(&["sh", "-c", "cat /etc/resolv.conf; ls $WEIR_RUNTIME_DIR; ls -d /sys/class"]);
        let own = if server == "127.0.0.53" { "198.18.0.2" } else { server };
        let lines: Vec<&str> = seen.stdout.lines().collect();
        assert_eq!(lines[0], format!("nameserver {own}"), "{}", seen.stderr);
        assert!(lines.len() == 3 && lines[1].ends_with(".socket"), "{lines:?}");
        assert_eq!(lines[2], "/sys/class");
    }
}

/// Sends from many ports, one after the other, each time waiting for the answer.
const MANY: &str = "
import socket, sys
good = 0
for port in range(20000, 20000 + int(sys.argv[3])):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(('', port))
    s.settimeout(5)
    s.sendto(b'x', (sys.argv[1], int(sys.argv[2])))
    try:
        good += s.recv(100) == b'echo x'
    except OSError:
        break
    s.close()
print(good)
";

#[test]
fn too_many_datagram_exchanges_end_the_oldest() {
    let test = "too_many_datagram_exchanges_end_the_oldest";
    let Some(lab) = world(test) else { return };
    if !has_tools(test, &["python3"]) {
        return;
    }
    let port = answers(&lab, "b", "192.0.2.7:0", |bytes| [b"echo ", bytes].concat());
    for (limit, count) in [("soft", 1100), ("hard", 200)] {
        let directory = tempfile::tempdir().unwrap();
        let mut command = lab.command("a", "sh").unwrap();
        // Fewer descriptors than exchanges, with a hard limit.
        let limited = if limit == "hard" { "ulimit -n 100" } else { "ulimit -Sn 256" };
        command.args(["-c", &format!("{limited} && exec \"$@\""), "sh", WEIR, "impair", "exec"]);
        command.args(["--both", "delay 100us", "--", "python3", "-c", MANY, "192.0.2.7"]);
        command.args([port.to_string(), count.to_string()]);
        command
            .env("WEIR_RUNTIME_DIR", directory.path().join("runtime"))
            .env("WEIR_ERRORS", "json");
        let ended = run(command);
        assert_eq!(ended.stdout, format!("{count}\n"), "{limit}: {}", ended.stderr);
        assert_eq!(ended.messages("exchanges-ended").len(), 1, "{limit}: {}", ended.stderr);
        assert!(ended.messages("datagrams-dropped").is_empty(), "{limit}: {}", ended.stderr);
    }
}

/// A test behind the emulator finds it: the loss ledger has the emulator's drops.
#[test]
fn a_test_behind_the_emulator_attributes_its_losses() {
    let test = "a_test_behind_the_emulator_attributes_its_losses";
    if effective_user_id() != 0 {
        return skip(test, "needs root");
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let dir = tempfile::tempdir().unwrap();
    let command = |words: &[&str]| {
        let mut command = Command::new(WEIR);
        command.args(words).env("WEIR_RUNTIME_DIR", dir.path().join("runtime"));
        command
    };
    let mut serve = command(&["serve", "-p", &port, "-B", "127.0.0.1"]);
    serve.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null());
    let mut server = serve.spawn().unwrap();
    let mut line = String::new();
    let mut said = std::io::BufReader::new(server.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut said, &mut line).unwrap();
    let script = format!(
        "exec {WEIR} test $WEIR_HOST -p {port} -u -b 500pps -k 400 -l 200 --json --no-store"
    );
    let exec = ["impair", "exec", "--a-to-b", "loss 20%", "--seed", "4", "--", "sh", "-c", &script];
    let ended = run(command(&exec));
    server.kill().unwrap();
    server.wait().unwrap();
    let record = ended.record();
    let ledger = record.loss_ledger.as_ref().unwrap();
    let rows: Vec<_> = ledger.rows.iter().map(|r| (r.stage.as_str(), r.kind.as_str())).collect();
    assert_eq!(rows, [("emulator planned", "exact")], "{ledger:?}");
    assert!(ledger.missing_packets > 0 && ledger.remainder_packets == 0, "{ledger:?}");
    let used = record.impairment.unwrap();
    assert_eq!((used.config.seed.0, used.client_side.as_deref()), (4, Some("a")));
}

/// With `--json` the result is the only object on standard output; with `--report` standard output is the command's.
#[test]
fn the_result_is_printed_as_json_or_written_to_a_file() {
    let test = "the_result_is_printed_as_json_or_written_to_a_file";
    let Some(lab) = world(test) else { return };
    let directory = tempfile::tempdir().unwrap();
    let report = directory.path().join("report.json");
    let exec = |flags: &[&str]| {
        let mut command = lab.command("a", WEIR).unwrap();
        command.args(["impair", "exec", "--quiet"]).args(flags);
        command.args(["--", "sh", "-c", "ping -c 1 -W 1 $WEIR_HOST >/dev/null; echo out; exit 5"]);
        command.env("WEIR_RUNTIME_DIR", directory.path().join("runtime"));
        command.env("WEIR_ERRORS", "json");
        run(command)
    };
    let check = |text: &str| {
        let result: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!((&result["exit_code"], &result["command"][0]), (&5.into(), &"sh".into()));
        assert!(result["seconds"].as_f64().unwrap() > 0.05, "{result}");
        let flows = result["report"]["impairment"]["flows"].as_array().unwrap();
        let received = |flow: &serde_json::Value| {
            flow["counters"]["received_packets"].as_u64().unwrap_or_default()
        };
        assert!(flows.iter().map(received).sum::<u64>() > 0, "{result}");
    };
    let printed = exec(&["--both", "delay 50ms", "--json"]);
    assert_eq!(printed.status.code(), Some(5), "{}", printed.stderr);
    check(&printed.stdout);
    assert!(printed.stderr.contains("out\n"), "{}", printed.stderr);
    let written = exec(&["--both", "delay 50ms", "--report", report.to_str().unwrap()]);
    assert_eq!((written.status.code(), written.stdout.as_str()), (Some(5), "out\n"));
    check(&std::fs::read_to_string(&report).unwrap());
    // Nothing starts if it can't be written; and missing laws are mentioned.
    let nowhere = exec(&["--both", "delay 50ms", "--report", "/no/such/directory/report"]);
    let refusal = nowhere.refusal();
    assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some("--report"), 2));
    assert_eq!(exec(&[]).messages("no-laws").len(), 1);
    assert_eq!(exec(&["--both", "none"]).messages("no-laws").len(), 0);
}
