//! `weir lab`: hosts in network namespaces.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::{Args, Subcommand};
use weir_jobs::{EmulatorJob, Event, LabDownJob, LabUpJob, Ready};
use weir_lab::{Error, JoinedLab, LabName, LabSpec, Registry, Topology, hold};
use weir_model::impairment::{Impairment, Laws};
use weir_model::units::Seed;

use super::impair::{LawArgs, spawn};
use crate::app::note;
use crate::error::CliError;
use crate::job::emit;
use crate::output::print;

/// Flags of `weir lab`.
#[derive(Debug, Args)]
#[command(
    after_help = "Labs are registered in $WEIR_RUNTIME_DIR, else (root) /run/weir, else $XDG_RUNTIME_DIR/weir, \
                  else weir-UID in the temporary directory."
)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Create a lab; it exists until `down`, or until its holder process ends
    Up(Box<UpArgs>),
    /// Run a command on a host, and return its exit code
    Exec(ExecArgs),
    /// List the labs
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a lab and end its processes
    Down {
        /// Which lab
        #[arg(long, value_name = "NAME", default_value = "default", conflicts_with = "all")]
        lab: LabName,
        /// All labs of this user
        #[arg(long)]
        all: bool,
    },
    /// The holder process of a lab; started by `up`
    #[command(hide = true)]
    Hold,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("impaired").args(["impair", "profile", "config"]).multiple(true)))]
struct UpArgs {
    /// Name of the lab
    #[arg(long, value_name = "NAME", default_value = "default")]
    lab: LabName,
    /// Number of hosts, 2 to 16; more than two are connected by a switch, with an emulator in the middle by one on each
    /// side: a, c, e, … on the side of a, the others on that of b
    #[arg(long, value_name = "N", default_value_t = 2)]
    hosts: usize,
    /// MTU of the links, 1280 to 65535 bytes [default: 1500]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<u32>,
    /// Disable segmentation and receive offloads, so that each packet crosses on its own
    #[arg(long)]
    no_offload: bool,
    /// Transmit queue length of the links, packets [default: the kernel's, 1000]
    #[arg(long, value_name = "PACKETS")]
    txqueuelen: Option<u32>,
    /// Set a kernel setting of every host, as sysctl(8); may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    sysctl: Vec<(String, String)>,
    /// Put a namespace `m` for an emulator between a and b
    #[arg(long)]
    middle: bool,
    /// Run an emulator in the middle with these laws in both directions: "delay 20ms, loss 1%" (`weir impair --help`)
    #[arg(long, value_name = "LAWS")]
    impair: Option<Laws>,
    /// Run an emulator in the middle with a preset (`weir profiles`); a is the client's side
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Run an emulator in the middle with flows, filters and laws from a file (weir.impair/1; - is stdin)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["impair", "profile"])]
    config: Option<PathBuf>,
    /// Seed of the emulator's draws [default: the file's, else a new one]
    #[arg(long, value_name = "N", requires = "impaired")]
    seed: Option<Seed>,
}

#[derive(Debug, Args)]
#[command(override_usage = "weir lab exec [OPTIONS] HOST -- CMD…")]
struct ExecArgs {
    /// Which lab
    #[arg(long, value_name = "NAME", default_value = "default")]
    lab: LabName,
    /// Host: a, b, … (m: the middle)
    host: String,
    /// Command and its arguments, after `--`
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Runs `weir lab …` and returns the exit code. Must be called before the program has threads:
/// `exec` and the holder enter namespaces that only a process with one thread may enter.
pub(crate) fn run(args: LabArgs) -> Result<i32, CliError> {
    Ok(match args.command {
        LabCommand::Up(args) => up(*args).map_err(by_flag)?,
        LabCommand::Exec(args) => exec(args)?,
        LabCommand::List { json } => list(json)?,
        LabCommand::Down { all: true, .. } => down_all()?,
        LabCommand::Down { lab, .. } => Registry::open()?.down(&lab).map(|()| 0)?,
        LabCommand::Hold => hold().map(|()| 0)?,
    })
}

/// A refused field of a lab, by the flag that set it.
fn by_flag(error: CliError) -> CliError {
    let CliError::Lab(Error::Invalid { field, given, accepted }) = error else { return error };
    let flag = match field {
        "name" => "--lab",
        "hosts" => "--hosts",
        "mtu_bytes" => "--mtu",
        "transmit_queue_packets" => "--txqueuelen",
        "sysctls" => "--sysctl",
        other => other,
    };
    CliError::flag(flag, given, &accepted)
}

fn up(args: UpArgs) -> Result<i32, CliError> {
    // Refuse invalid laws before the lab is created.
    let impairment = args.impairment()?;
    let mut text = make(&args, impairment)?;
    let flag =
        if args.lab == LabName::default() { String::new() } else { format!("--lab {} ", args.lab) };
    text += &format!("run a program in it: weir lab exec {flag}a -- CMD\n");
    // A closed stdout is no failure: the lab is up.
    let _ = print(&text);
    Ok(0)
}

/// Runs a job of `weir job` that creates a lab. Must be called before the program has threads, as [`run`].
///
/// # Errors
/// As `weir lab up`.
pub(crate) fn up_job(job: LabUpJob) -> Result<i32, CliError> {
    let args = UpArgs {
        lab: job.name.parse()?,
        hosts: job.hosts.map_or(2, |hosts| hosts as usize),
        mtu: job.mtu_bytes,
        no_offload: job.no_offload,
        middle: job.middle,
        impair: None,
        profile: None,
        config: None,
        seed: None,
        txqueuelen: None,
        sysctl: job.sysctls.into_iter().collect(),
    };
    let message = make(&args, job.impairment.map(|impairment| *impairment))?;
    emit(&Event::Ready(Ready { control_socket: None, message }));
    Ok(0)
}

/// Runs a job of `weir job` that removes a lab.
///
/// # Errors
/// As `weir lab down`.
pub(crate) fn down_job(job: &LabDownJob) -> Result<i32, CliError> {
    Ok(Registry::open()?.down(&job.name.parse()?).map(|()| 0)?)
}

/// Creates a lab; returns its description.
fn make(args: &UpArgs, impairment: Option<Impairment>) -> Result<String, CliError> {
    let has_middle = args.middle || impairment.is_some();
    let spec = LabSpec {
        topology: Topology::of(args.hosts, has_middle),
        mtu_bytes: args.mtu,
        no_offload: args.no_offload,
        transmit_queue_packets: args.txqueuelen,
        sysctls: args.sysctl.iter().cloned().collect(),
    };
    // Unlike current_exe, this path starts the running program even if its file was replaced.
    let mut holder = Command::new("/proc/self/exe");
    holder.arg0("weir").args(["lab", "hold"]);
    let lab = Registry::open()?.start(&args.lab, &spec, holder)?;
    let mut text = format!("lab {} is running (holder process {})\n", lab.name(), lab.holder_pid());
    text += &hosts_table(&lab);
    if let Some(impairment) = &impairment {
        // If the emulator does not start, the lab is removed.
        let emulator = impair(&lab, impairment)
            .inspect_err(|_| drop(Registry::open().and_then(|all| all.down(lab.name()))))?;
        text += &format!("  m     {}", emulator.trim_end().replace('\n', "\n        "));
        text.push('\n');
    } else if has_middle {
        text += &middle_row("the two sides are joined only while an emulator runs there");
    }
    for (name, value) in &spec.sysctls {
        text += &format!("  {name} = {value}\n");
    }
    for limit in lab.limits() {
        text += &format!("note: {limit}\n");
    }
    Ok(text)
}

/// Starts the emulator in the middle; it ends with the lab, as every process in it does.
fn impair(lab: &JoinedLab, impairment: &Impairment) -> Result<String, CliError> {
    let command = lab.command("m", crate::job::program())?;
    let job = EmulatorJob { detached: true, ..spawn::in_the_middle(impairment) };
    Ok(spawn::start(command, job)?.leave())
}

impl UpArgs {
    /// The impairment of the emulator in the middle, if there is one.
    fn impairment(&self) -> Result<Option<Impairment>, CliError> {
        let laws = LawArgs {
            both: self.impair.clone(),
            profile: self.profile.clone(),
            config: self.config.clone(),
            seed: self.seed,
            ..LawArgs::default()
        };
        (!laws.is_empty()).then(|| laws.impairment()).transpose()
    }
}

/// A kernel setting, `NAME=VALUE`.
fn setting(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("NAME=VALUE, such as net.ipv4.tcp_sack=0")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// The line of the middle, which has no address.
fn middle_row(state: &str) -> String {
    format!("  m     interfaces to-a and to-b; {state}\n")
}

/// Whether the lab has a middle.
fn has_middle(lab: &JoinedLab) -> bool {
    lab.node_names().any(|name| name == "m") && lab.hosts().all(|host| host.name != "m")
}

fn hosts_table(lab: &JoinedLab) -> String {
    let row = |host: &weir_lab::Host| {
        format!("  {:<4}  {:<12}  {:<10}  {}\n", host.name, host.ipv4, host.ipv6, host.interface)
    };
    lab.hosts().map(row).collect()
}

/// Becomes the command, so that signals, terminal and exit code are the command's own.
fn exec(args: ExecArgs) -> Result<i32, Error> {
    let lab = Registry::open()?.join(&args.lab)?;
    let Some((program, rest)) = args.command.split_first() else {
        return Ok(2); // clap requires one
    };
    let error = lab.command(&args.host, program)?.args(rest).exec();
    Err(Error::Program { program: program.to_string_lossy().into_owned(), source: error })
}

fn list(as_json: bool) -> Result<i32, CliError> {
    let labs = Registry::open()?.list()?;
    Ok(if as_json {
        // Formatted by hand for a readable order: name first, a before b.
        let labs: Vec<_> = labs.iter().map(lab_json).collect();
        print(&format!("{{\"labs\":[{}]}}\n", labs.join(",")))?
    } else if labs.is_empty() {
        note("no lab is running (weir lab up creates one)");
        0
    } else {
        let text: String = labs
            .iter()
            .map(|lab| {
                let (name, holder) = (lab.name(), lab.holder_pid());
                let middle = if has_middle(lab) {
                    middle_row("between the side of a and that of b")
                } else {
                    String::new()
                };
                format!("{name} (holder process {holder})\n{}{middle}", hosts_table(lab))
            })
            .collect();
        print(&text)?
    })
}

fn lab_json(lab: &JoinedLab) -> String {
    // Names and addresses contain no character that JSON escapes.
    let host = |host: &weir_lab::Host| {
        format!(r#"{{"name":"{}","ipv4":"{}","ipv6":"{}"}}"#, host.name, host.ipv4, host.ipv6)
    };
    let hosts: Vec<_> = lab.hosts().map(host).collect();
    let nodes: Vec<_> = lab.node_names().map(|name| format!(r#""{name}""#)).collect();
    let (hosts, nodes) = (hosts.join(","), nodes.join(","));
    format!(r#"{{"name":"{}","hosts":[{hosts}],"nodes":[{nodes}]}}"#, lab.name())
}

fn down_all() -> Result<i32, Error> {
    let registry = Registry::open()?;
    for lab in registry.list()? {
        match registry.down(lab.name()) {
            // Another process may have removed the lab in the meantime.
            Err(Error::NoSuchLab { .. }) | Ok(()) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: UpArgs,
    }

    fn of(words: &[&str]) -> Result<Option<Impairment>, Box<weir_model::Refusal>> {
        let line = Line::try_parse_from(std::iter::once(&"up").chain(words));
        let line = line.map_err(|e| Box::new(crate::parsed::refusal(&e, &[])))?;
        line.args.impairment().map_err(|e| Box::new(e.refusal()))
    }

    #[test]
    fn a_lab_is_impaired_by_laws_a_preset_or_a_file() {
        assert_eq!(of(&[]), Ok(None));
        let laws = of(&["--impair", "delay 20ms", "--seed", "7"]).unwrap().unwrap();
        assert_eq!((laws.other.a_to_b, laws.seed), ("delay 20ms".parse().unwrap(), Seed(7)));
        let preset = of(&["--profile", "3g-good", "--impair", "loss 1%"]).unwrap().unwrap();
        assert_eq!(preset.other.profile.as_deref(), Some("3g-good"));
        assert!(preset.other.b_to_a.loss.is_some());
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("laws.toml");
        let text = "schema = 'weir.impair/1'\nseed = '0x9'\n[[flow]]\nname = 'voice'\n";
        std::fs::write(&path, text).unwrap();
        let file = of(&["--config", path.to_str().unwrap()]).unwrap().unwrap();
        assert_eq!((file.flows[0].name.as_str(), file.seed), ("voice", Seed(9)));
        for (words, field, given) in [
            (&["--profile", "9g"][..], "--profile", "9g"),
            (&["--config", "x", "--profile", "3g-good"], "--config", "given with --profile"),
            (&["--seed", "7"], "--impair", "nothing"),
        ] {
            let refused = of(words).unwrap_err();
            let parts = (refused.field.as_deref(), refused.given.as_deref());
            assert_eq!(parts, (Some(field), Some(given)), "{words:?}");
        }
    }
}
