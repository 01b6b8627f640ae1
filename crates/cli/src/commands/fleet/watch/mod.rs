//! `weir fleet watch`: measures continuously between agents.
//!
//! Each agent that replies to probes runs a server, and each pair an echo test of ten minutes at a time: the next test starts before
//! the one before it ends. All are jobs of agents, so that they end by themselves when this controller is gone.

mod bursts;
mod jobs;
mod members;
mod output;
mod probes;
mod running;
mod servers;
mod store;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tokio::time::{MissedTickBehavior, interval};
use weir_fleet::{AgentName, Selector};
use weir_model::Refusal;
use weir_model::watch::Mesh;

use super::{Fleet, block_on, listening, refused, stopped};
use crate::commands::{exporter, values};
use crate::engine::StopReason;
use crate::error::CliError;
use jobs::Jobs;
use members::pairs_of;
use output::Output;
use running::Watch;
use store::Store;

/// Between two looks at the list of agents.
const LOOK: Duration = Duration::from_secs(2);
/// For jobs to stop at the end.
const ENDING: Duration = Duration::from_secs(15);
/// Maximum length of a mesh's file, bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Round trips, one-way delay and loss each second, and rolling windows
#[derive(Debug, Args)]
#[command(
    after_help = "The file (TOML or JSON, weir schema mesh) names the agents; docs/mesh.md describes it:\n  \
                  schema = \"weir.mesh/1\"\n  \
                  name = \"core\"\n  \
                  agents = \"site=paris,site=lyon\"\n\
                  Ctrl-C stops the measurement and its jobs."
)]
pub(crate) struct WatchArgs {
    /// Print JSON, one object a line (weir schema watch)
    #[arg(short = 'J', long)]
    json: bool,
    /// Serve the figures for Prometheus at http://ADDRESS:PORT/metrics, round trips as native histograms [default: 127.0.0.1:9350]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9350", value_parser = values::exporter_address)]
    prometheus: Option<SocketAddr>,
    /// Post the figures to an OpenTelemetry collector each second (OTLP/HTTP with JSON), round trips as exponential histograms
    #[arg(long, value_name = "http://HOST[:PORT][/PATH]")]
    otlp: Option<String>,
    /// Do not store the figures of each minute on this host
    #[arg(long)]
    no_store: bool,
    /// The file that describes the mesh
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// The names of a pair: the agent that probes, and the one that replies.
type PairNames = (AgentName, AgentName);

pub(super) fn run(fleet: &Fleet, args: &WatchArgs) -> Result<i32, CliError> {
    let mesh = read(&args.file)?;
    let selector: Selector = mesh.agents.parse().map_err(of_mesh)?;
    let metrics = exporter::start_mesh(&mesh.name, args.prometheus, args.otlp.as_deref())?;
    let store = Store::open(&mesh.name, !args.no_store)?;
    let stop = listening()?;
    block_on(async {
        let controller = fleet.controller().await?;
        let agents = controller.agents().await.map_err(refused)?;
        let members = selector.members(&agents).map_err(|refusal| of_mesh(*refusal))?;
        let names: Vec<&AgentName> = members.iter().map(|agent| &agent.name).collect();
        pairs_of(&mesh, &names)?;
        let mut outcomes = controller.outcomes_from_now().await.map_err(refused)?;
        let (jobs, mut events) = Jobs::new(controller);
        let output = Output::new(args.json);
        let mut watch = Watch::new((mesh, selector), jobs, output, store, metrics);
        watch.start(&agents);
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut seconds = interval(Duration::from_secs(1));
        seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reason = loop {
            tokio::select! {
                reason = stopped(&stop, 1) => break reason,
                Some((job, event)) = events.recv() => watch.on_event(&job, event),
                outcome = outcomes.next() => watch.on_outcome(outcome.map_err(refused)?),
                _ = looks.tick() => watch.look().await,
                _ = seconds.tick() => watch.draw(),
            }
            if watch.output.is_over() {
                break StopReason::OutputClosed;
            }
        };
        watch.finish_minutes();
        watch.jobs.stop_all().await;
        let ended = async {
            while !watch.jobs.is_empty() {
                // They fail because their servers stop.
                watch.jobs.ended(&outcomes.next().await.map_err(refused)?.id);
            }
            Ok::<(), CliError>(())
        };
        tokio::select! {
            ended = tokio::time::timeout(ENDING, ended) => drop(ended),
            _ = stopped(&stop, 2) => {}
        }
        watch.metrics.take().into_iter().for_each(|metrics| exporter::finish_mesh(metrics, &stop));
        watch.output.failure().map_or(Ok(reason.service_exit_code()), Err)
    })
}

/// The mesh of a file.
fn read(path: &Path) -> Result<Mesh, CliError> {
    use std::io::Read;
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(CliError::io("read mesh", path))?;
    let length = file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text);
    if length.map_err(CliError::io("read mesh", path))? as u64 > MAX_FILE_BYTES {
        let given = format!("{} is longer", path.display());
        return Err(CliError::flag("FILE", given, "a file of up to 4M"));
    }
    Mesh::parse(&text).map_err(|error| CliError::Plan { path: path.into(), error })
}

/// A refusal of the agents that a mesh names.
fn of_mesh(refusal: Refusal) -> CliError {
    let Refusal { code, given, accepted, nearest, .. } = refusal;
    let (given, accepted) = (given.unwrap_or_default(), accepted.unwrap_or_default());
    let refusal = Refusal::of_field(&code, "agents", given, accepted);
    CliError::Refused(Box::new(Refusal { nearest, ..refusal }))
}
