//! `weir serve --ttcp` and similar flags: servers of other tools' protocols ([`weir_peers::PROTOCOLS`]) alongside Weir's own.

use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::thread::Scope;

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use weir_jobs::{Event, ServeJob};
use weir_peers::{PROTOCOLS, Protocol, ServeConfig, Server};
use weir_traffic::session::WorkerConfig;

use super::output::event_of;
use crate::commands::values;
use crate::engine::{ServerConfig, Stop};
use crate::error::CliError;

/// The port of each protocol to serve, by the protocol's name.
#[derive(Debug, Clone, Default)]
pub(crate) struct PeersArgs(pub(super) BTreeMap<String, u16>);

fn served() -> impl Iterator<Item = &'static Protocol> {
    PROTOCOLS.iter().filter(|protocol| protocol.serve.is_some())
}

impl Args for PeersArgs {
    fn augment_args(command: Command) -> Command {
        served().fold(command, |command, protocol| {
            let help = format!(
                "Also serve {}, over {} [default port: {}]",
                protocol.name,
                protocol.transport_titles(),
                protocol.port
            );
            let flag = Arg::new(protocol.name)
                .long(protocol.name)
                .value_name("PORT")
                .num_args(0..=1)
                .require_equals(true)
                .value_parser(values::whole(1_u16..=65_535))
                .conflicts_with_all(["unix", "one_off", "idle_timeout"])
                .help_heading("Other tools")
                .help(help);
            command.arg(flag)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for PeersArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = served().filter(|protocol| matches.contains_id(protocol.name));
        let port = |p: &Protocol| matches.get_one(p.name).copied().unwrap_or(p.port);
        Ok(PeersArgs(given.map(|p| (p.name.to_owned(), port(p))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
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
pub(super) fn open(job: &ServeJob, own: &ServerConfig) -> Result<Vec<Listening>, CliError> {
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
    let open = |(name, port): (&String, &u16)| {
        let found = served().find(|protocol| protocol.name == *name);
        let Some((protocol, serve)) = found.and_then(|protocol| Some((protocol, protocol.serve?)))
        else {
            let names: Vec<&str> = served().map(|protocol| protocol.name).collect();
            return Err(CliError::flag("peers", name, &names.join(", ")));
        };
        let config = ServeConfig {
            bind: own.bind.clone(),
            port: *port,
            limits: own.limits.clone(),
            workers: WorkerConfig {
                cpus: own.cpus.clone(),
                scheduling: own.scheduling,
                spin: own.spin,
                clock: own.clock.clone(),
            },
        };
        Ok(Listening { protocol, server: serve(&config)? })
    };
    job.peers.iter().map(open).collect()
}

impl Listening {
    /// The event of its start.
    pub(super) fn event(&self) -> Event {
        let addresses = self.server.addresses();
        Event::PeerListening {
            protocol: self.protocol.name.into(),
            transports: self.protocol.transports.iter().map(|name| (*name).into()).collect(),
            addresses: addresses.iter().map(ToString::to_string).collect(),
        }
    }

    /// Serves on a thread of `scope` until it is stopped.
    pub(super) fn start<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        stop: Stop,
        events: SyncSender<Event>,
    ) {
        scope.spawn(move || {
            let name = self.protocol.name;
            let ended = self.server.run(&stop, &mut |event| {
                let _ = events.send(event_of(event).of_protocol(name));
            });
            if let Err(error) = ended {
                let refusal = CliError::from(error).refusal();
                let _ = events.send(Event::Error(refusal));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::units::Span;

    #[test]
    fn a_job_with_a_unix_socket_or_an_end_of_its_own_serves_no_other_tool() {
        let job = ServeJob { peers: [("ttcp".to_owned(), 0)].into(), ..ServeJob::default() };
        for refused in [
            ServeJob { unix: Some("/nowhere/socket".into()), ..job.clone() },
            ServeJob { one_off: true, ..job.clone() },
            ServeJob { idle_timeout: Some(Span::from_seconds(1)), ..job },
        ] {
            let refusal = open(&refused, &ServerConfig::default()).err().unwrap().refusal();
            assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some("peers"), 2));
            let alone = ServeJob { peers: BTreeMap::new(), ..refused };
            assert!(open(&alone, &ServerConfig::default()).is_ok_and(|servers| servers.is_empty()));
        }
    }
}
