//! `weir impair exec -- COMMAND`: a command in a namespace of its own, behind the emulator, with a way to this host's
//! services.

use std::os::unix::process::ExitStatusExt;

use weir_lab::{Lab, LabSpec, Topology};
use weir_net::namespace::{effective_user_id, enter_user_namespace};

use super::args::ExecArgs;
use super::{relay, spawn};
use crate::app::note;
use crate::engine::Stop;
use crate::error::CliError;
use crate::signals;

/// Runs the command behind an emulator; its exit code is returned.
pub(super) fn run(args: &ExecArgs) -> Result<i32, CliError> {
    let impairment = args.laws.impairment()?;
    let Some((program, words)) = args.command.split_first() else {
        return Err(CliError::Usage("a command is needed".into()));
    };
    if effective_user_id() != 0 {
        // Before there are threads; threads of ours then may enter the lab's namespaces.
        enter_user_namespace().map_err(weir_lab::Error::from)?;
    }
    // Signals of the terminal reach the command too; this program ends when the command has.
    let stop = Stop::new();
    let lab = Lab::up(&LabSpec { topology: Topology::Middle, ..LabSpec::default() })?;
    let mut more = Vec::new();
    if let Some(path) = &args.journal {
        more.extend(["--journal".into(), path.as_os_str().to_owned()]);
    }
    let emulator = spawn::start(lab.command("m", spawn::OWN_PROGRAM)?, &impairment, &more)?;
    signals::listen(&stop)?;
    let relay = relay::start(&lab, "b")?;
    note(emulator.head.trim_end());
    let b = lab.host("b")?;
    note(&format!(
        "this host's TCP services answer at {} and {} ($WEIR_HOST); A is the command's side",
        b.ipv4, b.ipv6
    ));
    let mut command = lab.command("a", program)?;
    command.args(words).env("WEIR_HOST", b.ipv4.to_string());
    let status = command.status();
    drop(relay);
    note(emulator.finish().trim_end());
    drop(lab);
    let status = status.map_err(CliError::io("run", program))?;
    // As a shell tells it.
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(70))
}
