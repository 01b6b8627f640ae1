//! The launcher's side: a small program that keeps the capabilities which the web server gives up. It takes typed orders
//! from its standard input, checks each by itself, makes the command line, and starts this binary, nothing else.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_experiment::lines::{TestLine, with_value as value};
use weir_model::names::{is_host, is_interface};
use weir_net::namespace::{ChildSetup, Process, process_start_time};

use crate::app::lock;
use crate::types::LinkChoice;

/// Longest order.
pub(super) const MOST_ORDER_BYTES: u64 = 1 << 20;
/// Signals as every Linux numbers them.
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;
/// Time that programs get to end when the server is gone.
const END: Duration = Duration::from_secs(3);

/// A host or the middle of a lab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LabNode {
    pub(crate) lab: String,
    pub(crate) node: String,
}

/// What the web server may have started. Paths are names in the directory that both share.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Order {
    /// The answering side, with the arguments that this program was started with.
    Serve {},
    /// A test.
    Test {
        host: String,
        plan: String,
        socket: String,
        labels: BTreeMap<String, String>,
        key_file: Option<PathBuf>,
        from: Option<LabNode>,
        no_store: bool,
    },
    /// A scenario.
    Run {
        scenario: PathBuf,
        quick: bool,
        simulate: bool,
        hosts: BTreeMap<String, String>,
        key_file: Option<PathBuf>,
        seed: Option<String>,
    },
    /// A sweep.
    Sweep {
        host: Option<String>,
        plan: String,
        over: Vec<String>,
        runs: Option<u32>,
        confidence: Option<f64>,
        metrics: Vec<String>,
        expect: Vec<String>,
        in_order: bool,
        lab: bool,
        both: Option<String>,
        emulator: Option<String>,
        key_file: Option<PathBuf>,
    },
    /// An emulator; it outlives the launcher.
    Emulator {
        id: String,
        interfaces: [String; 2],
        configuration: String,
        link: LinkChoice,
        force: bool,
        dead_man_seconds: Option<u32>,
        duration_seconds: Option<u32>,
        at: Option<LabNode>,
    },
    /// The end of an emulator, whoever started it.
    EndEmulator { id: String },
    /// A lab.
    LabUp {
        name: String,
        hosts: Option<u32>,
        mtu_bytes: Option<u32>,
        cut: bool,
        middle: bool,
        impair: Option<String>,
    },
    /// The end of a lab.
    LabDown { name: String },
    /// A calibration.
    Calibrate { no_lab: bool },
    /// A look at this host.
    Doctor {},
    /// Asks a program that was started here to end.
    Stop { pid: u32 },
}

/// An order with its number and the sockets for what the program prints.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) order: Order,
    /// Names of listening sockets for standard output and standard error; absent: nowhere.
    pub(super) output: Option<[String; 2]>,
}

/// What the launcher says. Tagged: by their fields alone one would be taken for another.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "word", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Word {
    /// An order was carried out; with the process that it started.
    Done { number: u64, pid: Option<u32> },
    /// Or it was not.
    Refused { number: u64, error: String },
    /// A process ended.
    Exited { exited: u32, code: Option<i32>, signal: Option<i32> },
}

/// Why the launcher can't begin.
#[derive(Debug, thiserror::Error)]
#[error("launcher: {0}")]
pub struct LaunchError(String);

/// Where things are.
struct Place {
    program: PathBuf,
    directory: PathBuf,
    runtime: PathBuf,
    serve: Vec<String>,
}

/// Runs the launcher until the other end is gone: then tests, experiments and the answering side are asked to end;
/// emulators and labs stay.
///
/// # Errors
/// No runtime directory, or the connection can't be had twice.
pub fn launch(
    stream: UnixStream,
    program: PathBuf,
    directory: PathBuf,
    serve: Vec<String>,
) -> Result<(), LaunchError> {
    let failed = |e: &dyn std::fmt::Display| LaunchError(e.to_string());
    let runtime = weir_lab::runtime_directory().map_err(|e| failed(&e))?;
    let place = Place { program, directory, runtime, serve };
    let voice = Arc::new(Mutex::new(stream.try_clone().map_err(|e| failed(&e))?));
    let say = |voice: &Mutex<UnixStream>, word: &Word| {
        let line = serde_json::to_string(word).unwrap_or_default();
        // Who does not listen is gone, which the reader below finds out.
        let _ = lock(voice).write_all(format!("{line}\n").as_bytes());
    };
    // Those that end with the server: process and when it began.
    let children: Arc<Mutex<HashMap<u32, Option<u64>>>> = Arc::default();
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        match (&mut reader).take(MOST_ORDER_BYTES).read_until(b'\n', &mut line) {
            Ok(n) if n > 0 && line.last() == Some(&b'\n') => {}
            Ok(n) if n as u64 == MOST_ORDER_BYTES => {
                let error = format!("an order of more than {MOST_ORDER_BYTES} bytes");
                say(&voice, &Word::Refused { number: number_of(&line), error });
                match skip_line(&mut reader) {
                    Ok(()) => continue,
                    Err(_) => break,
                }
            }
            _ => break,
        }
        let Numbered { number, order, output } = match serde_json::from_slice(&line) {
            Ok(numbered) => numbered,
            Err(e) => {
                let error = format!("no order: {e}");
                say(&voice, &Word::Refused { number: number_of(&line), error });
                continue;
            }
        };
        let done = match &order {
            Order::Stop { pid } => stop(&children, *pid).map(|()| None),
            Order::EndEmulator { id } => end_emulator(&place, id).map(|()| None),
            order => start(&place, order, output.as_ref()).map(Some),
        };
        match done {
            Err(error) => say(&voice, &Word::Refused { number, error }),
            Ok(None) => say(&voice, &Word::Done { number, pid: None }),
            Ok(Some(mut child)) => {
                let pid = child.id();
                let outlives = matches!(order, Order::Emulator { .. } | Order::LabUp { .. });
                if !outlives {
                    lock(&children).insert(pid, process_start_time(pid));
                }
                say(&voice, &Word::Done { number, pid: Some(pid) });
                let (voice, children) = (voice.clone(), children.clone());
                std::thread::spawn(move || {
                    let status = child.wait().ok();
                    lock(&children).remove(&pid);
                    let code = status.and_then(|s| s.code());
                    let signal = status.and_then(|s| s.signal());
                    say(&voice, &Word::Exited { exited: pid, code, signal });
                });
            }
        }
    }
    let pids: Vec<u32> = lock(&children).keys().copied().collect();
    for pid in pids {
        let _ = stop(&children, pid);
    }
    // What is left dies with this thread (PR_SET_PDEATHSIG).
    let end = std::time::Instant::now() + END;
    while !lock(&children).is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // A server that was killed did not get to it.
    let _ = std::fs::remove_dir_all(&place.directory);
    Ok(())
}

/// The number at the beginning of an order that can't be read whole; 0, which nobody waits for, where there is none.
fn number_of(line: &[u8]) -> u64 {
    let rest = line.strip_prefix(b"{\"number\":").unwrap_or_default();
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    std::str::from_utf8(&rest[..digits]).ok().and_then(|d| d.parse().ok()).unwrap_or(0)
}

/// Takes the rest of a line without keeping it.
fn skip_line(reader: &mut impl BufRead) -> std::io::Result<()> {
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let (taken, is_end) = match piece.iter().position(|b| *b == b'\n') {
            Some(at) => (at + 1, true),
            None => (piece.len(), false),
        };
        reader.consume(taken);
        if is_end {
            return Ok(());
        }
    }
}

fn stop(children: &Mutex<HashMap<u32, Option<u64>>>, pid: u32) -> Result<(), String> {
    let began = lock(children).get(&pid).copied().ok_or("it has ended")?;
    signal(pid, began, INTERRUPT)
}

fn signal(pid: u32, began: Option<u64>, signal: i32) -> Result<(), String> {
    let began = began.ok_or("it has ended")?;
    let process = Process::open(pid, began).map_err(|e| e.to_string())?.ok_or("it has ended")?;
    process.signal(signal).map_err(|e| e.to_string())
}

/// Ends whoever listens on an emulator's control socket, in this user's runtime directory.
fn end_emulator(place: &Place, id: &str) -> Result<(), String> {
    let path = place.runtime.join(socket_name(&word(id, 64)?));
    let stream = UnixStream::connect(&path).map_err(|e| format!("emulator {id}: {e}"))?;
    let who = rustix::net::sockopt::socket_peercred(&stream).map_err(|e| e.to_string())?;
    let pid = u32::try_from(who.pid.as_raw_nonzero().get()).map_err(|e| e.to_string())?;
    signal(pid, process_start_time(pid), TERMINATE)
}

/// The name of an emulator's control socket in the runtime directory, as `weir impair` looks for it.
pub(crate) fn socket_name(id: &str) -> String {
    format!("impair-{id}.socket")
}

/// The name of an emulator's file of words there.
pub(crate) fn log_name(id: &str) -> String {
    format!("impair-{id}.log")
}

/// Letters, digits, `-`, `_` and `.`; no flag, no path.
pub(crate) fn word(text: &str, most: usize) -> Result<String, String> {
    let right = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty()
        || text.len() > most
        || text.starts_with(['-', '.'])
        || !text.chars().all(right)
    {
        return Err(format!("{text:?}: letters, digits, '-', '_' and '.', at most {most}"));
    }
    Ok(text.into())
}

/// An interface's name as the kernel takes them.
fn interface(text: &str) -> Result<&str, String> {
    if !is_interface(text) {
        return Err(format!("{text:?} is no name of an interface"));
    }
    Ok(text)
}

/// A host: a name or address with a port.
pub(crate) fn host(text: &str) -> Result<&str, String> {
    if !is_host(text) {
        return Err(format!("{text:?} is no name or address"));
    }
    Ok(text)
}

/// A name in the shared directory.
fn inside(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let path = Path::new(name);
    match path.components().collect::<Vec<_>>()[..] {
        [Component::Normal(_)] => Ok(directory.join(path)),
        _ => Err(format!("{name:?} is no name in the shared directory")),
    }
}

fn start(
    place: &Place,
    order: &Order,
    output: Option<&[String; 2]>,
) -> Result<std::process::Child, String> {
    let (at, arguments) = arguments(place, order)?;
    let mut command = Command::new(&place.program);
    if let Some(at) = at {
        // It becomes the program that it starts: one process.
        command.args(["lab", "exec"]).arg(value("--lab", &word(&at.lab, 32)?)?);
        command.args([&word(&at.node, 8)?, "--"]).arg(&place.program);
    }
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    if let Some([out, words]) = output {
        let connect = |name: &str| {
            let path = inside(&place.directory, name)?;
            UnixStream::connect(&path).map_err(|e| format!("{name}: {e}"))
        };
        command.stdout(std::os::fd::OwnedFd::from(connect(out)?));
        command.stderr(std::os::fd::OwnedFd::from(connect(words)?));
    }
    let mut setup = ChildSetup::new().new_session();
    match order {
        Order::Emulator { id, .. } => {
            let path = place.runtime.join(log_name(id));
            let log = std::fs::File::create(&path).map_err(|e| e.to_string())?;
            // With --json its errors are JSON, on standard output.
            let same = log.try_clone().map_err(|e| e.to_string())?;
            command.stdout(same).stderr(log);
        }
        // Its holder outlives it.
        Order::LabUp { .. } => {}
        _ => setup = setup.parent_death_signal(KILL),
    }
    setup.apply(&mut command).map_err(|e| e.to_string())?;
    command.spawn().map_err(|e| e.to_string())
}

type CommandLine = (Option<LabNode>, Vec<String>);

/// The command line of an order, each part of it checked.
fn arguments(place: &Place, order: &Order) -> Result<CommandLine, String> {
    let mut line: Vec<String> = vec![];
    let mut add = |word: String| line.push(word);
    let path = |path: &Path| path.display().to_string();
    let key = |file: &Option<PathBuf>| file.as_ref().map(|p| format!("--key-file={}", path(p)));
    let mut at = None;
    match order {
        Order::Serve {} => line.extend(place.serve.iter().cloned()),
        Order::Test { host: to, plan, socket, labels, key_file, from, no_store } => {
            let labels: Vec<_> = labels.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
            let test = TestLine {
                host: to,
                plan: Some(&inside(&place.directory, plan)?),
                key_file: key_file.as_deref(),
                labels: &labels,
                no_store: *no_store,
                control_socket: Some(&inside(&place.directory, socket)?),
                ..TestLine::default()
            };
            test.words()?.iter().for_each(|w| add(w.to_string_lossy().into_owned()));
            at.clone_from(from);
        }
        Order::Run { scenario, quick, simulate, hosts, key_file, seed } => {
            add("run".into());
            add("--json".into());
            for (flag, wanted) in [("--quick", quick), ("--simulate", simulate)] {
                if *wanted {
                    add(flag.into());
                }
            }
            for (name, address) in hosts {
                add(value("--host", &format!("{name}={}", host(address)?))?);
            }
            key(key_file).into_iter().for_each(&mut add);
            if let Some(seed) = seed {
                add(value("--seed", seed)?);
            }
            add("--".into());
            add(path(scenario));
        }
        Order::Sweep {
            host: to,
            plan,
            over,
            runs,
            confidence,
            metrics,
            expect,
            in_order,
            lab,
            both,
            emulator,
            key_file,
        } => {
            add("sweep".into());
            add("--json".into());
            add(value("--plan", &path(&inside(&place.directory, plan)?))?);
            for (flag, list) in [("--over", over), ("--metric", metrics), ("--expect", expect)] {
                for one in list {
                    add(value(flag, one)?);
                }
            }
            if let Some(n) = runs {
                add(value("--runs", &n.to_string())?);
            }
            if let Some(c) = confidence {
                add(value("--confidence", &format!("{c}%"))?);
            }
            for (flag, wanted) in [("--in-order", in_order), ("--lab", lab)] {
                if *wanted {
                    add(flag.into());
                }
            }
            if let Some(laws) = both {
                add(value("--both", laws)?);
            }
            if let Some(id) = emulator {
                let socket = place.runtime.join(socket_name(&word(id, 64)?));
                add(value("--emulator", &path(&socket))?);
            }
            key(key_file).into_iter().for_each(&mut add);
            if let Some(to) = to {
                add("--".into());
                add(host(to)?.into());
            }
        }
        Order::Emulator {
            id,
            interfaces,
            configuration,
            link,
            force,
            dead_man_seconds,
            duration_seconds,
            at: node,
        } => {
            add("impair".into());
            add("--json".into());
            add("--few-capabilities".into());
            add(value("--config", &path(&inside(&place.directory, configuration)?))?);
            let socket = place.runtime.join(socket_name(&word(id, 64)?));
            add(value("--control-socket", &path(&socket))?);
            let mode = match link {
                LinkChoice::Auto => "auto",
                LinkChoice::Packet => "packet",
                LinkChoice::Xdp => "xdp",
                LinkChoice::XdpGeneric => "xdp-generic",
            };
            add(value("--link", mode)?);
            if *force {
                add("--force".into());
            }
            for (flag, time) in [("--dead-man", dead_man_seconds), ("--duration", duration_seconds)]
            {
                if let Some(seconds) = time {
                    add(value(flag, &format!("{seconds}s"))?);
                }
            }
            add("--".into());
            for name in interfaces {
                add(interface(name)?.into());
            }
            at.clone_from(node);
        }
        Order::LabUp { name, hosts, mtu_bytes, cut, middle, impair } => {
            add("lab".into());
            add("up".into());
            add(value("--lab", &word(name, 32)?)?);
            for (flag, n) in [("--hosts", hosts), ("--mtu", mtu_bytes)] {
                if let Some(n) = n {
                    add(value(flag, &n.to_string())?);
                }
            }
            for (flag, wanted) in [("--cut", cut), ("--middle", middle)] {
                if *wanted {
                    add(flag.into());
                }
            }
            if let Some(laws) = impair {
                add(value("--impair", laws)?);
            }
        }
        Order::LabDown { name } => {
            add("lab".into());
            add("down".into());
            add(value("--lab", &word(name, 32)?)?);
        }
        Order::Calibrate { no_lab } => {
            add("calibrate".into());
            add("--json".into());
            if *no_lab {
                add("--no-lab".into());
            }
        }
        Order::Doctor {} => {
            add("doctor".into());
            add("--json".into());
        }
        Order::EndEmulator { .. } | Order::Stop { .. } => return Err("starts nothing".into()),
    }
    Ok((at, line))
}

/// A refusal as the launcher's other end reads it.
pub(super) fn parse_word(line: &str) -> Option<Word> {
    serde_json::from_str(line).ok()
}

/// An order as the launcher reads it.
pub(super) fn numbered_line(numbered: &Numbered) -> String {
    format!("{}\n", json!(numbered))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> Place {
        Place {
            program: "/weir".into(),
            directory: "/shared".into(),
            runtime: "/run/weir".into(),
            serve: vec!["serve".into()],
        }
    }

    fn emulator(a: &str, configuration: &str, id: &str) -> Order {
        Order::Emulator {
            id: id.into(),
            interfaces: [a.into(), "b".into()],
            configuration: configuration.into(),
            link: LinkChoice::Auto,
            force: false,
            dead_man_seconds: Some(3),
            duration_seconds: None,
            at: None,
        }
    }

    fn test(host: &str, plan: &str) -> Order {
        Order::Test {
            host: host.into(),
            plan: plan.into(),
            socket: "s".into(),
            labels: [("-k".into(), "--json".into())].into(),
            key_file: None,
            from: None,
            no_store: false,
        }
    }

    #[test]
    fn words_can_not_become_flags_or_paths() {
        let (_, line) = arguments(&place(), &test("host", "plan")).unwrap();
        assert_eq!(line.last().unwrap(), "host");
        assert_eq!(line[line.len() - 2], "--");
        assert!(line.contains(&"--label=-k=--json".to_owned()), "{line:?}");
        assert!(line.contains(&"--plan=/shared/plan".to_owned()), "{line:?}");
        for order in [
            test("--json", "plan"),
            test("a b", "plan"),
            test("", "plan"),
            test("a", "../plan"),
            test("a", "/etc/passwd"),
            test("a", ""),
            test("a", "x/y"),
            emulator("--force", "c", "1"),
            emulator("a/b", "c", "1"),
            emulator("abcdefghijklmnop", "c", "1"),
            emulator("a", "..", "1"),
            emulator("a", "c", "../x"),
            emulator("a", "c", ".."),
        ] {
            assert!(arguments(&place(), &order).is_err(), "{order:?}");
        }
        let (_, line) = arguments(&place(), &emulator("a", "c", "x-1")).unwrap();
        assert_eq!(line[line.len() - 3..], ["--", "a", "b"]);
        assert!(line.contains(&"--dead-man=3s".to_owned()), "{line:?}");
        assert!(line.contains(&"--control-socket=/run/weir/impair-x-1.socket".to_owned()));
    }

    #[test]
    fn each_word_is_read_as_what_it_is() {
        for word in [
            Word::Refused { number: 7, error: "no".into() },
            Word::Done { number: 7, pid: None },
            Word::Done { number: 7, pid: Some(9) },
            Word::Exited { exited: 9, code: None, signal: Some(9) },
        ] {
            let line = serde_json::to_string(&word).unwrap();
            assert_eq!(parse_word(&line), Some(word), "{line}");
        }
        assert_eq!(number_of(b"{\"number\":12,\"or"), 12);
        assert_eq!(number_of(b"{\"order\":12"), 0);
    }

    #[test]
    fn orders_that_are_not_known_are_not_read() {
        for line in [
            r#"{"number":1,"order":{"order":"shell","line":"id"},"output":null}"#,
            r#"{"number":1,"order":{"order":"calibrate","no_lab":true,"extra":1},"output":null}"#,
            r#"{"number":1,"order":{"order":"lab-down","name":"x"},"output":null,"more":1}"#,
        ] {
            assert!(serde_json::from_str::<Numbered>(line).is_err(), "{line}");
        }
    }
}
