//! `weir impair exec -- COMMAND`: a command in a namespace of its own, behind the emulator, with a way to this host's
//! services and, where the kernel lets it be made, out.

use std::os::unix::process::ExitStatusExt;

use weir_lab::{Lab, LabSpec, Topology};
use weir_net::namespace::{effective_user_id, enter_user_namespace};

use super::args::ExecArgs;
use super::{outward, relay, spawn};
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
    let names = outward::names_to_relay();
    let outward = outward::open(&lab, "a", "b", names);
    let (services, way) = match &outward {
        Ok(_) => (
            "TCP and UDP",
            "; TCP and UDP over IPv4 go out too, by sockets of this program".to_owned(),
        ),
        Err(reason) => ("TCP", format!("; there is no way out ({reason})")),
    };
    note(&format!(
        "A is the command's side; this host's {services} services answer at {} ($WEIR_HOST), TCP also at {}{way}",
        b.ipv4, b.ipv6
    ));
    let resolver = match (&outward, names) {
        (Ok(_), Some(_)) => Some(resolver(b.ipv4)?),
        _ => None,
    };
    let mut command = match &resolver {
        None => lab.command("a", program)?,
        // In a mount namespace of its own, so that no other program sees it.
        Some(file) => {
            let mut command = lab.command("a", "unshare")?;
            let script = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
            command.args(["--mount", "sh", "-c", script]).arg(file.path()).arg(program);
            command
        }
    };
    command.args(words).env("WEIR_HOST", b.ipv4.to_string());
    let status = command.status();
    drop((relay, outward));
    note(emulator.finish().trim_end());
    drop(lab);
    let status = status.map_err(CliError::io("run", program))?;
    // As a shell tells it.
    Ok(status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(70))
}

/// A resolv.conf that names `server`; removed with the value.
fn resolver(server: std::net::Ipv4Addr) -> Result<Resolver, CliError> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let name = format!("resolv-{}.conf", std::process::id());
    let path = weir_lab::runtime_directory()?.join(name);
    std::fs::write(&path, outward::with_server(&text, server))
        .map_err(CliError::io("write", &path))?;
    Ok(Resolver(path))
}

struct Resolver(std::path::PathBuf);

impl Resolver {
    fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for Resolver {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
