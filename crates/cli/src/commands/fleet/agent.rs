//! `weir agent`: the daemon of a host.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use weir_fleet::{AgentFacts, AgentName, AgentOptions, InterfaceFacts, Timing};
use weir_net::clock::Clock;
use weir_net::reference::ReferenceReader;
use weir_runs::DataDirectory;

use super::{NatsArgs, block_on, listening, refused, stopped};
use crate::commands::runs::RunsError;
use crate::commands::values::Label;
use crate::error::CliError;
use crate::{job, stamp, user_data};

/// Take jobs for this host from a NATS server, run them, and send their results
#[derive(Debug, Args)]
#[command(after_help = "It connects outward only, and stores each result until NATS has it.\n\
                  The key: weir fleet key --output agent.key; what the server lets it do: weir fleet config.")]
pub(crate) struct AgentArgs {
    /// Its name: 1 to 63 letters, digits and hyphens
    #[arg(long, value_name = "NAME")]
    name: AgentName,
    /// A label by which it is selected (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    label: Vec<Label>,
    /// Directory for results that NATS does not have yet [default: a directory with the agent's name beside the stored runs]
    #[arg(long, value_name = "DIR")]
    outbox: Option<PathBuf>,
    #[command(flatten)]
    nats: NatsArgs,
}

pub(super) fn run(args: &AgentArgs) -> Result<i32, CliError> {
    let stop = listening()?;
    let outbox = match &args.outbox {
        Some(outbox) => outbox.clone(),
        None => {
            let data = DataDirectory::of_this_user().map_err(RunsError::from)?;
            let directory = data.prepare_directory("agents").map_err(RunsError::from)?;
            directory.join(args.name.as_str())
        }
    };
    let labels = args.label.iter().map(|l| (l.key.clone(), l.value.clone())).collect();
    let stated = AgentFacts { labels, ..facts() };
    let options = AgentOptions {
        connection: args.nats.connection(),
        name: args.name.clone(),
        facts: stated,
        outbox,
        program: Box::new(|| Command::new(job::program())),
        clock_bound_ns: Box::new(|| {
            ReferenceReader::open(&Clock::System).read().map(|clock| clock.bound.error_ns)
        }),
        notice: Arc::new(|code, text| job::notice(code, &text)),
        clock: Clock::System,
        timing: Timing::default(),
    };
    block_on(async {
        let mut reason = None;
        weir_fleet::run(options, async { reason = Some(stopped(&stop, 1).await) })
            .await
            .map_err(refused)?;
        Ok(reason.map_or(0, |reason| reason.service_exit_code()))
    })
}

/// The facts of this host.
fn facts() -> AgentFacts {
    let host = weir_net::host::host().unwrap_or_default();
    let interfaces = weir_net::interface::interfaces().unwrap_or_default();
    let interfaces = interfaces.into_iter().filter(|it| it.up && !it.loopback).map(|it| {
        let addresses = it.addresses.iter();
        let addresses = addresses.map(|a| format!("{}/{}", a.address, a.prefix_length));
        InterfaceFacts { addresses: addresses.collect(), name: it.name }
    });
    let clock = ReferenceReader::open(&Clock::System).read();
    AgentFacts {
        version: stamp::VERSION.into(),
        interfaces: interfaces.collect(),
        os: host.os,
        kernel: host.kernel,
        architecture: host.architecture,
        cpus: host.cpu_cores,
        clock_source: clock.map(|clock| clock.bound.service.name().to_owned()),
        clock_bound_ns: clock.map(|clock| clock.bound.error_ns),
        clock_id: clock_id(),
        wake_up_p99_ns: user_data::wake_up_p99_ns(&host.hostname),
        host: host.hostname,
        ..AgentFacts::default()
    }
}

/// Identifies this host's clock: the same in all network namespaces of a running kernel.
fn clock_id() -> Option<String> {
    let boot_id = weir_net::clock::boot_id().ok()?;
    let time_namespace = weir_net::clock::time_namespace().ok()?;
    Some(format!("{boot_id}-{time_namespace}"))
}
