//! The flags of `weir serve`, by heading, and the configuration made from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_jobs::ServeJob;
use weir_model::ModelError;
use weir_model::names::{Host, UNIX};
use weir_model::plan::{DEFAULT_PORT, MAX_FLOWS, Scope};
use weir_model::threads::Threads;
use weir_model::units::{ByteSize, Span};

use crate::commands::values::{self, Cpus};
use crate::engine::{FileConfig, Key, Limits, Scheduling, ServerConfig};
use crate::error::CliError;
use crate::key::KeyArgs;

/// Run the server that tests measure against
#[derive(Debug, Args)]
#[command(
    after_help = "Without a key, any client that reaches the server can use it. One port, TCP and UDP, carries everything.\n\
                  Times: a bare number is seconds; also ns, us, ms, s, m, h, d."
)]
pub(crate) struct ServeArgs {
    /// Listen on a Unix socket only: unix:PATH
    #[arg(value_name = "unix:PATH", value_parser = socket_path, conflicts_with_all = ["port", "bind", "ipv4", "ipv6", "data_ports", "ui"])]
    pub(crate) unix: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) ui: super::ui::UiArgs,
    #[command(flatten)]
    pub(crate) speed: super::speed::SpeedArgs,
    #[command(flatten)]
    pub(crate) peers: super::peers::PeersArgs,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "General")]
#[group(id = "ServeGeneral")]
pub(crate) struct GeneralArgs {
    /// TCP and UDP port, 1 to 65535
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = DEFAULT_PORT, value_parser = values::whole(1_u16..=65_535))]
    pub(crate) port: u16,
    /// Listen on this address only; may be repeated [default: all addresses of both families]
    #[arg(short = 'B', long, value_name = "ADDRESS", value_parser = values::address, conflicts_with_all = ["ipv4", "ipv6"])]
    pub(crate) bind: Vec<IpAddr>,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// Range of separate data ports, such as 5000-5100, for firewall rules: TCP uses one per session, UDP one per flow
    /// [default: chosen by the system]
    #[arg(long, value_name = "FIRST-LAST", value_parser = values::ports)]
    pub(crate) data_ports: Option<std::ops::RangeInclusive<u16>>,
    /// Serve one client, then exit
    #[arg(short = '1', long)]
    pub(crate) one_off: bool,
    /// Run in the background once listening; output goes to --logfile, if given
    #[arg(short = 'D', long)]
    pub(crate) daemon: bool,
    /// Write the process id to this file; it is removed at the end
    #[arg(long, value_name = "FILE")]
    pub(crate) pidfile: Option<PathBuf>,
    /// Run on these CPUs only, such as 0, 0,2 or 1-3, or those of a NUMA node: node:0
    #[arg(short = 'A', long, value_name = "CPUS")]
    pub(crate) affinity: Option<Cpus>,
    /// Scheduling of threads that send paced datagrams: auto (SCHED_FIFO where permitted and rates are bounded), normal, or fifo (exit code 4 where not permitted) [default: auto]
    #[arg(long, value_name = "CLASS", value_parser = values::scheduling, default_value = "auto", hide_default_value = true)]
    pub(crate) scheduling: Scheduling,
    /// Time that a thread spins before each paced datagram is due, up to 10ms. A longer time makes gaps more even and uses more
    /// CPU: with SCHED_FIFO at most a quarter of a CPU for each thread, half with three or more CPUs. With transactions of one flow: how
    /// long a thread polls the socket for a message before it sleeps [default: 60us, with transactions 0; with SCHED_FIFO by measured wake-up times, up to 500us]
    #[arg(long, value_name = "TIME", value_parser = values::spin)]
    pub(crate) spin: Option<Duration>,
    /// Store the streams of clients that ask for it (weir test --to-file) as files in this directory; the client of the session may
    /// fetch its own. They are removed at the end of their session [default: nothing is stored]
    #[arg(long, value_name = "DIR")]
    pub(crate) file_dir: Option<PathBuf>,
    /// Keep the files of --file-dir when their session ends
    #[arg(long, requires = "file_dir")]
    pub(crate) keep_files: bool,
    /// Set by -D for the process in the background.
    #[arg(long, hide = true)]
    pub(crate) in_background: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
pub(crate) struct LimitArgs {
    /// Maximum number of concurrent sessions, from 1
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = values::whole(1_u32..=u32::MAX))]
    pub(crate) max_sessions: u32,
    /// Maximum number of concurrent flows of all sessions, 1 to 200 000
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = values::whole(1_u32..=MAX_FLOWS))]
    pub(crate) max_flows: u32,
    /// Maximum duration of a session
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = seconds)]
    pub(crate) session_time: Span,
    /// Time in which a client must send its hello
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = seconds)]
    pub(crate) hello_time: Span,
    /// Maximum number of connections without a session yet, from 1
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = values::whole(1_u32..=u32::MAX))]
    pub(crate) max_half_open: u32,
    /// Close a session after this time without a message of its client; clients send one every 2 s, or every 5 s at low rates
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = silence)]
    pub(crate) silence_time: Span,
    /// Widest scope of multicast groups that clients may let this server join: none, link, admin (239.0.0.0/8, and the IPv6
    /// scopes up to 8) or global. Broadcast counts as link
    #[arg(long, value_name = "SCOPE", default_value = "admin", value_parser = ["none", "link", "admin", "global"])]
    pub(crate) multicast_scope: String,
    /// Maximum number of multicast and broadcast flows that a session receives
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = values::whole(0_u32..=10_000))]
    pub(crate) max_session_joins: u32,
    /// The same of all sessions
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = values::whole(0_u32..=100_000))]
    pub(crate) max_joins: u32,
    /// Maximum number of flows of all sessions that are sent as Ethernet frames, which need CAP_NET_RAW; 0 refuses them
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = values::whole(0_u32..=10_000))]
    pub(crate) max_frame_flows: u32,
    /// Maximum size of the files of a session (--file-dir), at least 1; what arrives above it is not stored
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = positive_size, requires = "file_dir")]
    pub(crate) max_session_file: ByteSize,
    /// The same of all files that have not been removed
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = positive_size, requires = "file_dir")]
    pub(crate) max_files: ByteSize,
    /// Exit after this time without a client [default: never]
    #[arg(long, value_name = "TIME", value_parser = values::positive)]
    pub(crate) idle_timeout: Option<Span>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
#[group(id = "ServeOutput")]
pub(crate) struct OutputArgs {
    /// Print one JSON object per line: listening, session_opened, session_closed, refused
    #[arg(long)]
    pub(crate) json_stream: bool,
    /// Print what each flow of a session received
    #[arg(short = 'V', long)]
    pub(crate) verbose: bool,
    /// Post sums over the sessions to an OpenTelemetry collector after each change and at the end (OTLP/HTTP with JSON)
    #[arg(long, value_name = "http://HOST[:PORT][/PATH]")]
    pub(crate) otlp: Option<String>,
    /// Append the output to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) logfile: Option<PathBuf>,
    /// Prefix each line of text with the local time (TZ) in this strftime format (%Y %m %d %H %M %S, %3f ms, %N ns,
    /// %F %T %s %z %:z %Z %%) [default: %FT%T.%3f%:z and a space]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "%FT%T.%3f%:z ", value_parser = values::time_format)]
    pub(crate) timestamps: Option<crate::time::Format>,
    /// Write one entry per received packet to this file (weir.packets/1)
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
}

/// The path of a Unix socket.
fn socket_path(text: &str) -> Result<PathBuf, String> {
    match (Host::parse(text), text.strip_prefix(UNIX)) {
        (Ok(_), Some(path)) => Ok(path.into()),
        (Err(ModelError::Field { given, .. }), Some(_)) => Err(given),
        _ => Err("expected unix:PATH; --bind accepts IP addresses".into()),
    }
}

/// A size, from 1 byte.
fn positive_size(text: &str) -> Result<ByteSize, String> {
    match text.parse::<ByteSize>() {
        Ok(ByteSize(0)) => Err("expected a size from 1".into()),
        size => size.map_err(|e| e.to_string()),
    }
}

/// A limit in whole seconds, from 1.
fn seconds(text: &str) -> Result<Span, String> {
    values::positive(text)?;
    let span: Span = text.parse().map_err(|e: weir_model::ModelError| e.to_string())?;
    if span.0.is_multiple_of(1_000_000_000) {
        Ok(span)
    } else {
        Err("expected whole seconds from 1s".into())
    }
}

/// A silence time in whole seconds, from 5: clients at low rates send a message every 5 s.
fn silence(text: &str) -> Result<Span, String> {
    seconds(text).and_then(|span| match span.0 {
        5_000_000_000.. => Ok(span),
        _ => Err("expected whole seconds from 5s".into()),
    })
}

/// The job that the flags define.
pub(crate) fn job(args: &ServeArgs) -> ServeJob {
    let (general, limits) = (&args.general, &args.limits);
    let bind = match (general.ipv4, general.ipv6) {
        (true, _) => vec![Ipv4Addr::UNSPECIFIED.into()],
        (_, true) => vec![Ipv6Addr::UNSPECIFIED.into()],
        _ => general.bind.clone(),
    };
    ServeJob {
        port: general.port,
        bind,
        unix: args.unix.clone(),
        data_ports: general.data_ports.as_ref().map(|ports| (*ports.start(), *ports.end())),
        one_off: general.one_off,
        key: args.key.source(),
        threads: Threads {
            affinity: general.affinity.as_ref().map(ToString::to_string),
            scheduling: Some(general.scheduling.to_string()),
            spin: general.spin.map(|spin| Span(spin.as_nanos() as u64)),
        },
        packet_log: args.output.packet_log.clone(),
        file_dir: general.file_dir.clone(),
        keep_files: general.keep_files,
        max_session_file: limits.max_session_file,
        max_files: limits.max_files,
        max_sessions: limits.max_sessions,
        max_flows: limits.max_flows,
        session_time: limits.session_time,
        hello_time: limits.hello_time,
        max_half_open: limits.max_half_open,
        silence_time: limits.silence_time,
        multicast_scope: Scope::ALL.into_iter().find(|s| s.name() == limits.multicast_scope),
        max_session_joins: limits.max_session_joins,
        max_joins: limits.max_joins,
        max_frame_flows: limits.max_frame_flows,
        idle_timeout: limits.idle_timeout,
        speed_test: args.speed.job(),
        peers: args.peers.ports(),
        hmac_key_file: args.peers.hmac_key_file.clone(),
        ditg_managers: args.peers.ditg_managers(),
        iperf2_call_back: args.peers.iperf2_call_back,
    }
}

/// The server's configuration.
///
/// # Errors
/// CPUs that this process may not run on.
pub(crate) fn config(job: &ServeJob, key: Option<Key>) -> Result<ServerConfig, CliError> {
    let threads = values::own_threads(&job.threads)?;
    Ok(ServerConfig {
        bind: job.bind.clone(),
        port: job.port,
        unix: job.unix.clone(),
        key,
        limits: Limits {
            sessions: job.max_sessions.into(),
            session_seconds: job.session_time.0 / 1_000_000_000,
            flows: job.max_flows.into(),
            hello_seconds: job.hello_time.0 / 1_000_000_000,
            half_open: job.max_half_open.into(),
            silence_seconds: job.silence_time.0 / 1_000_000_000,
            multicast_scope: job.multicast_scope,
            session_joins: job.max_session_joins.into(),
            joins: job.max_joins.into(),
            frame_flows: job.max_frame_flows.into(),
            ..Limits::default()
        },
        files: job.file_dir.clone().map(|directory| FileConfig {
            directory,
            keeps: job.keep_files,
            session_bytes: job.max_session_file.0,
            bytes: job.max_files.0,
        }),
        data_ports: job.data_ports.map(|(first, last)| first..=last),
        one_off: job.one_off,
        idle_timeout: job.idle_timeout.map(|t| Duration::from_nanos(t.0)),
        packet_log: job.packet_log.clone(),
        cpus: threads.cpus,
        scheduling: threads.scheduling,
        spin: threads.spin,
        ..ServerConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn of(words: &str) -> Result<ServerConfig, Box<weir_model::Refusal>> {
        Line::try_parse_from(std::iter::once("serve").chain(words.split_whitespace()))
            .map_err(|e| Box::new(crate::parsed::refusal(&e, &[])))
            .and_then(|line| config(&job(&line.args), None).map_err(|e| Box::new(e.refusal())))
    }

    #[test]
    fn defaults() {
        let config = of("").unwrap();
        assert_eq!((config.port, config.bind.len(), config.one_off), (9347, 0, false));
        assert_eq!(config.limits, Limits::default());
        assert_eq!(
            (
                config.limits.sessions,
                config.limits.session_seconds,
                config.limits.flows,
                config.limits.hello_seconds
            ),
            (64, 3600, 10_000, 10)
        );
        assert_eq!((config.idle_timeout, config.cpus, config.files), (None, None, None));
        assert_eq!((config.scheduling, config.spin), (Scheduling::Auto, None));
    }

    #[test]
    fn every_flag_sets_its_field() {
        let config = of(
            "-p 5000 -B 127.0.0.1 -B ::1 -1 -A 1 --max-sessions 3 --max-flows 7 --session-time 2m \
                         --hello-time 1 --scheduling normal --spin 500us --idle-timeout 500ms --packet-log f --max-half-open 9 --silence-time 7s \
                         --data-ports 5000-5100 --file-dir d --keep-files --max-session-file 1M --max-files 2M",
        )
        .unwrap();
        assert_eq!(config.bind, ["127.0.0.1".parse::<IpAddr>().unwrap(), "::1".parse().unwrap()]);
        assert_eq!((config.port, config.one_off, config.cpus), (5000, true, Some(vec![1])));
        assert_eq!(config.scheduling, Scheduling::Normal);
        assert_eq!(config.spin, Some(Duration::from_micros(500)));
        let l = config.limits;
        assert_eq!((l.sessions, l.flows, l.session_seconds, l.hello_seconds), (3, 7, 120, 1));
        assert_eq!((l.half_open, l.silence_seconds), (9, 7));
        assert_eq!(config.data_ports, Some(5000..=5100));
        assert_eq!(config.idle_timeout, Some(Duration::from_millis(500)));
        assert_eq!(config.packet_log, Some("f".into()));
        let files = FileConfig {
            directory: "d".into(),
            keeps: true,
            session_bytes: 1 << 20,
            bytes: 2 << 20,
        };
        assert_eq!(config.files, Some(files));
        assert_eq!(of("-4").unwrap().bind, [IpAddr::from(Ipv4Addr::UNSPECIFIED)]);
        assert_eq!(of("-6").unwrap().bind, [IpAddr::from(Ipv6Addr::UNSPECIFIED)]);
    }

    #[test]
    fn protocols_of_other_tools_use_their_default_port_or_the_given_one() {
        let peers = |words: &str| {
            let words = std::iter::once("serve").chain(words.split_whitespace());
            Line::try_parse_from(words)
                .map(|line| job(&line.args).peers.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(peers("").unwrap(), []);
        assert_eq!(peers("--peers ttcp").unwrap(), [("ttcp".to_owned(), 5001)]);
        assert_eq!(peers("--peer ttcp=7").unwrap(), [("ttcp".to_owned(), 7)]);
        let both = [("iperf3".to_owned(), 5201), ("ttcp".to_owned(), 7)];
        // Reflectors are served by name only.
        let all = peers("--peers all --peer ttcp=7").unwrap();
        let names: Vec<&str> = all.iter().map(|(name, _)| &**name).collect();
        let served = vec!["ditg", "iperf2", "iperf3", "netperf", "nuttcp", "ttcp"];
        assert_eq!((names, all[5].1), (served, 7));
        assert_eq!(peers("--peer ttcp=7 --peer iperf3").unwrap(), both);
        for refused in [
            "--peer ttcp=0",
            "--peer ttcp=x",
            "--peer tcp",
            "--peers ttcp=7",
            "--peers ttcp -1",
            "--peer ttcp --idle-timeout 1",
            "--peers all unix:/s",
        ] {
            assert!(peers(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn refusals_name_the_flag() {
        for (words, flag) in [
            ("-p 0", "--port"),
            ("-p 65536", "--port"),
            ("-B host", "--bind"),
            ("-4 -6", "--ipv4"),
            ("-4 -B ::1", "--ipv4"),
            ("--max-sessions 0", "--max-sessions"),
            ("--session-time 0", "--session-time"),
            ("--hello-time 1500ms", "--hello-time"),
            ("--idle-timeout 0", "--idle-timeout"),
            ("--silence-time 4s", "--silence-time"),
            ("--max-half-open 0", "--max-half-open"),
            ("--keep-files", "--file-dir"),
            ("--file-dir d --max-files 0", "--max-files"),
            ("--data-ports 5000", "--data-ports"),
            ("--data-ports 5100-5000", "--data-ports"),
            ("--data-ports 0-5000", "--data-ports"),
            ("--data-ports 5000-65536", "--data-ports"),
            ("--key a --key-file b", "--key"),
        ] {
            let refused = of(words).unwrap_err();
            assert_eq!((refused.field.as_deref(), refused.exit_code), (Some(flag), 2), "{words}");
        }
    }
}
