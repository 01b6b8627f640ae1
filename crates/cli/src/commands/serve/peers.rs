//! `weir serve --peers`: servers of other tools' protocols ([`weir_peers::PROTOCOLS`]) alongside Weir's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::SyncSender;
use std::thread::Scope;
use std::time::{Duration, SystemTime};

use clap::Args;
use weir_jobs::{DitgManagers, Event, Notice, ServeJob};
use weir_model::impairment::Prefixes;
use weir_model::plan::PeerName;
use weir_model::record::{Record, SERVED};
use weir_model::warning::{Severity, Warning};
use weir_peers::{CallBacks, Managers, PROTOCOLS, Protocol, ServeConfig, Server, SharedPorts};
use weir_runs::retention::Retention;
use weir_traffic::session::WorkerConfig;

use super::output::event_of;
use crate::engine::{ServerConfig, ServerEvent, Stop};
use crate::error::{CliError, chain};
use crate::job::warn;
use crate::key;
use crate::random;
use crate::stamp::Identity;
use crate::time::since_epoch;
use crate::user_data;

/// Clients of other tools that are served.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Other tools")]
pub(crate) struct PeersArgs {
    /// Also serve the clients of these tools, on their usual ports: `all` (without reflectors of datagrams, mgen, ditg-log and ditg-manager), or names (docs/peers.md) such as iperf3,ttcp
    #[arg(long, value_name = "all|LIST", value_parser = usual, conflicts_with_all = ["unix", "one_off", "idle_timeout"])]
    peers: Option<Peers>,
    /// Also serve the clients of this tool, on this port; may be repeated
    #[arg(long, value_name = "NAME[=PORT]", value_parser = one, conflicts_with_all = ["unix", "one_off", "idle_timeout"])]
    peer: Vec<Peers>,
    /// Answer STAMP's authenticated test packets only, with this key: the first line of a file, text or 0x and hex digits
    #[arg(long, value_name = "FILE")]
    pub(super) hmac_key_file: Option<PathBuf>,
    /// With --peer ditg-manager: addresses or prefixes of the managers of D-ITG that may command this host to send
    #[arg(long, value_name = "PREFIX[,PREFIX]", requires = "ditg_receivers")]
    ditg_managers: Option<Prefixes>,
    /// Addresses or prefixes of the receivers to which these managers may let it send
    #[arg(long, value_name = "PREFIX[,PREFIX]", requires = "ditg_managers")]
    ditg_receivers: Option<Prefixes>,
    /// Let iperf2's server connect back to its clients over TCP, as their -d and -r ask for
    #[arg(long)]
    pub(super) iperf2_call_back: bool,
}

/// The protocol that needs lists of managers and receivers.
const MANAGER: &str = "ditg-manager";

/// Ports by the names of their protocols.
type Peers = BTreeMap<String, u16>;

impl PeersArgs {
    /// The managers of D-ITG and their receivers.
    pub(super) fn ditg_managers(&self) -> Option<DitgManagers> {
        let (from, to) = self.ditg_managers.clone().zip(self.ditg_receivers.clone())?;
        Some(DitgManagers { from, to })
    }

    /// The port of each protocol to serve.
    pub(super) fn ports(&self) -> Peers {
        self.peers
            .iter()
            .chain(&self.peer)
            .flatten()
            .map(|(name, port)| (name.clone(), *port))
            .collect()
    }
}

fn served() -> impl Iterator<Item = &'static Protocol> {
    PROTOCOLS.iter().filter(|protocol| protocol.serve.is_some())
}

fn names() -> String {
    served().map(|protocol| protocol.name).collect::<Vec<_>>().join(", ")
}

fn named(name: &str) -> Result<&'static Protocol, String> {
    let found = served().find(|protocol| protocol.name == name);
    found.ok_or_else(|| format!("'{name}'; accepted: {}", names()))
}

fn usual(text: &str) -> Result<Peers, String> {
    let port = |protocol: &Protocol| (protocol.name.to_owned(), protocol.port);
    match text {
        "all" => Ok(served().filter(|p| !p.is_served_by_name_only).map(port).collect()),
        list => list.split(',').map(|name| named(name.trim()).map(port)).collect(),
    }
}

fn one(text: &str) -> Result<Peers, String> {
    let (name, port) = text.split_once('=').map_or((text, None), |(name, port)| (name, Some(port)));
    let protocol = named(name)?;
    let port = match port.map(str::parse) {
        None => protocol.port,
        Some(Ok(port)) if port > 0 => port,
        Some(_) => return Err(format!("'{text}'; accepted: NAME=PORT with a port of 1 to 65535")),
    };
    Ok(BTreeMap::from([(protocol.name.to_owned(), port)]))
}

/// A listening server of a protocol.
pub(super) struct Listening {
    protocol: &'static Protocol,
    server: Box<dyn Server>,
}

/// Opens the servers of a job.
///
/// # Errors
/// An unknown protocol, a port that is in use, or a server that ends by itself or has no address.
pub(super) fn open(job: &ServeJob, own: &mut ServerConfig) -> Result<Vec<Listening>, CliError> {
    // A job has no parser that knows which flags exclude each other.
    let excluding = [
        ("unix", job.unix.is_some()),
        ("one_off", job.one_off),
        ("idle_timeout", job.idle_timeout.is_some()),
    ];
    if let Some((name, _)) =
        excluding.iter().find(|(_, is_given)| *is_given && !job.peers.is_empty())
    {
        return Err(CliError::flag("peers", format!("with {name}"), "one of them"));
    }
    let hmac = key::hmac(job.hmac_key_file.as_deref())?;
    if hmac.is_some() && !job.peers.contains_key(PeerName::Stamp.label()) {
        return Err(CliError::flag("--hmac-key-file", "given", "with --peer stamp"));
    }
    let ports = SharedPorts::default();
    let call_backs = if job.iperf2_call_back { CallBacks::Streams } else { CallBacks::Never };
    let open = |(name, port): (&String, &u16)| {
        let found = served().find(|protocol| protocol.name == *name);
        let Some((protocol, serve)) = found.and_then(|protocol| Some((protocol, protocol.serve?)))
        else {
            return Err(CliError::flag("peers", name, &names()));
        };
        let managers = job.ditg_managers.clone();
        if managers.is_none() && protocol.name == MANAGER {
            let accepted = "--ditg-managers and --ditg-receivers with it";
            return Err(CliError::flag("peer", protocol.name, accepted));
        }
        let managers = managers.map(|list| Managers { from: list.from, to: list.to });
        let common = config_of(own, *port, call_backs.clone());
        let config = ServeConfig { hmac: hmac.clone(), managers, ports: ports.clone(), ..common };
        Ok(Listening { protocol, server: serve(&config)? })
    };
    let mut listening: Vec<Listening> = job.peers.iter().map(open).collect::<Result<_, _>>()?;
    // A client of another tool has no key, and neither waits for nor counts as the one client of a one-off server.
    let is_open = own.key.is_none() && own.unix.is_none();
    if is_open && !own.one_off && own.idle_timeout.is_none() {
        for protocol in PROTOCOLS {
            let Some(guests) = protocol.guests else { continue };
            let (strangers, server) = guests(&config_of(own, own.port, call_backs.clone()));
            own.strangers = Some(strangers);
            listening.push(Listening { protocol, server });
        }
    }
    Ok(listening)
}

fn config_of(own: &ServerConfig, port: u16, call_backs: CallBacks) -> ServeConfig {
    ServeConfig {
        bind: own.bind.clone(),
        port,
        limits: own.limits.clone(),
        workers: WorkerConfig {
            cpus: own.cpus.clone(),
            scheduling: own.scheduling,
            spin: own.spin,
            clock: own.clock.clone(),
        },
        logins: None,
        rate_limit: None,
        passphrase: None,
        hmac: None,
        managers: None,
        describe: Some(crate::commands::iperf3::describe),
        call_backs,
        iperf2: Default::default(),
        ports: SharedPorts::default(),
    }
}

impl Listening {
    /// The event of its start; `None` for one that listens on Weir's own port.
    pub(super) fn event(&self) -> Option<Event> {
        let addresses = self.server.addresses();
        (!addresses.is_empty()).then(|| Event::PeerListening {
            protocol: self.protocol.name.into(),
            transports: self.protocol.transports.iter().map(|name| (*name).into()).collect(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
        })
    }

    /// Serves on a thread of `scope` until it is stopped.
    pub(super) fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        stop: Stop,
        events: SyncSender<Event>,
        words: &'scope [OsString],
    ) {
        scope.spawn(move || {
            let name = self.protocol.name;
            let mut kept = Kept::new(words, name);
            let ended = self.server.run(&stop, &mut |mut event| {
                let run = match &mut event {
                    ServerEvent::SessionClosed { record, .. } => record.take(),
                    _ => None,
                };
                let run = run.and_then(|mut record| {
                    kept.stamp(&mut record);
                    kept.store(*record)
                });
                let _ = events.send(event_of(event).of_protocol(name).with_run(run));
            });
            if let Err(error) = ended {
                let refusal = CliError::from(error).refusal();
                let _ = events.send(Event::Error(refusal));
            }
        });
    }
}

/// Days after which such a result is removed, unless it was tagged, and the maximum number of them: clients create them
/// without end.
const KEPT: Retention<'static> = Retention { label: SERVED, own: &[], days: 90, most: 2_000 };
/// Rows of intervals of such a result, and samples of TCP information: about 1 MB of each. Clients choose how many there are.
const MAX_ROWS: usize = 3_600;
/// Distributions of such a result.
const MAX_HISTOGRAMS: usize = 64;
/// Results that are stored before old ones are removed again.
const TIDY_EVERY: u64 = 100;

/// Stores the results of clients, which the clients themselves do not.
pub(crate) struct Kept<'a> {
    words: &'a [OsString],
    name: &'static str,
    stored: u64,
}

impl<'a> Kept<'a> {
    /// Results of clients of the tool `name`; `words`: the command line.
    pub(crate) fn new(words: &'a [OsString], name: &'static str) -> Self {
        Kept { words, name, stored: 0 }
    }

    /// Gives a result that has just ended its identity and label.
    pub(crate) fn stamp(&self, record: &mut Record) {
        let labels = BTreeMap::from([(SERVED.to_owned(), self.name.to_owned())]);
        let now = since_epoch(SystemTime::now());
        let identity = Identity::new(self.words, labels, now, random::u64());
        identity.stamp(record);
        let started = now.saturating_sub(Duration::from_secs_f64(record.seconds.max(0.0)));
        record.started_at = weir_runs::rfc3339(started.as_millis() as u64);
        user_data::add_calibration(record);
    }

    /// Stores a result; returns its id.
    pub(crate) fn store(&mut self, mut record: Record) -> Option<String> {
        let now = since_epoch(SystemTime::now());
        trim(&mut record);
        let tidies = self.stored.is_multiple_of(TIDY_EVERY).then_some(&KEPT);
        self.stored += 1;
        match user_data::keep_and_tidy(&record, tidies, now.as_millis() as i64) {
            Ok(()) => Some(record.id),
            Err(error) => {
                warn(Notice::NOT_STORED, &format!("a result was not stored: {}", chain(&error)));
                None
            }
        }
    }
}

/// Removes intervals and samples of which there are too many to be stored, and says so.
pub(crate) fn trim(record: &mut Record) {
    let rows: usize = record.intervals.iter().map(|interval| interval.flows.len()).sum();
    if rows > MAX_ROWS {
        record.intervals.clear();
    }
    let samples: usize = record.flows.iter().map(|flow| flow.tcp_samples.len()).sum();
    if samples > MAX_ROWS {
        record.flows.iter_mut().for_each(|flow| flow.tcp_samples.clear());
    }
    let histograms = record.histograms.len();
    if histograms > MAX_HISTOGRAMS {
        record.histograms.clear();
    }
    if rows > MAX_ROWS || samples > MAX_ROWS || histograms > MAX_HISTOGRAMS {
        let text = "the intervals, TCP samples or distributions of this test are too many to be stored by its server: they are absent";
        record.warnings.push(Warning::new("details-not-stored", Severity::Info, text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{Flow, Histogram, Interval, IntervalFlow, TcpSample};
    use weir_model::units::Span;

    #[test]
    fn details_beyond_their_limits_are_not_stored() {
        let of = |flows: usize, intervals: usize| {
            let row =
                Interval { flows: vec![IntervalFlow::default(); flows], ..Interval::default() };
            let mut record = Record {
                intervals: vec![row; intervals],
                flows: vec![
                    Flow {
                        tcp_samples: vec![TcpSample::default(); 4 * intervals],
                        ..Flow::default()
                    };
                    flows
                ],
                histograms: vec![Histogram::default(); flows],
                ..Record::default()
            };
            trim(&mut record);
            let samples = record.flows[0].tcp_samples.len();
            let codes: Vec<_> = record.warnings.iter().map(|w| w.code.clone()).collect();
            (record.intervals.len(), samples, record.histograms.len(), codes.len())
        };
        assert_eq!(of(1, 900), (900, 3600, 1, 0));
        assert_eq!(of(1, 901), (901, 0, 1, 1));
        assert_eq!(of(1, 3601), (0, 0, 1, 1));
        assert_eq!(of(65, 10), (10, 40, 0, 1));
    }

    #[test]
    fn reflectors_are_served_only_where_they_are_named() {
        let all = usual("all").unwrap();
        let names: Vec<_> = all.keys().map(String::as_str).collect();
        assert_eq!(names, ["ditg", "iperf2", "iperf3", "netperf", "nuttcp", "ttcp"]);
        assert_eq!(usual("ttcp, echo").unwrap()["echo"], 7);
        assert_eq!(one("echo=7007").unwrap()["echo"], 7007);
    }

    #[test]
    fn servers_of_one_job_share_a_port() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let peers = [("iperf2".to_owned(), port), ("ttcp".to_owned(), port)].into();
        let job = ServeJob { peers, ..ServeJob::default() };
        let bind = vec!["127.0.0.1".parse().unwrap()];
        let mut own = ServerConfig { bind, ..ServerConfig::default() };
        let listening = open(&job, &mut own).unwrap();
        assert_eq!(listening.iter().filter_map(Listening::event).count(), 2);
        let other = ServeJob { peers: [("iperf2".to_owned(), port)].into(), ..ServeJob::default() };
        assert!(open(&other, &mut own).is_err());
    }

    #[test]
    fn managers_of_d_itg_are_served_only_with_their_addresses() {
        assert!(!usual("all").unwrap().contains_key(MANAGER));
        let job = ServeJob { peers: [(MANAGER.to_owned(), 0)].into(), ..ServeJob::default() };
        let refusal = open(&job, &mut ServerConfig::default()).err().unwrap().refusal();
        assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some("peer"), 2));
        let prefixes = || "127.0.0.1".parse().unwrap();
        let managers = DitgManagers { from: prefixes(), to: prefixes() };
        let job = ServeJob { ditg_managers: Some(managers), ..job };
        let bind = vec!["127.0.0.1".parse().unwrap()];
        let mut own = ServerConfig { bind, ..ServerConfig::default() };
        let listening = open(&job, &mut own).unwrap();
        assert_eq!(listening.iter().filter_map(Listening::event).count(), 1);
    }

    #[test]
    fn a_job_with_a_unix_socket_or_an_end_of_its_own_serves_no_other_tool() {
        let job = ServeJob { peers: [("ttcp".to_owned(), 0)].into(), ..ServeJob::default() };
        for refused in [
            ServeJob { unix: Some("/nowhere/socket".into()), ..job.clone() },
            ServeJob { one_off: true, ..job.clone() },
            ServeJob { idle_timeout: Some(Span::from_seconds(1)), ..job },
        ] {
            let refusal = open(&refused, &mut ServerConfig::default()).err().unwrap().refusal();
            assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some("peers"), 2));
            let alone = ServeJob { peers: BTreeMap::new(), ..refused };
            let own = open(&alone, &mut ServerConfig::default()).unwrap();
            assert!(own.iter().all(|listening| listening.event().is_none()));
        }
    }
}
