//! Flags → [`Plan`]: a pure function, so that each meaning is a line of a table in the tests.
//!
//! Where a flag is iperf3's its meaning is iperf3's, with two exceptions that the help states: `-n` and `-k` are per
//! connection, as `-b` is, and times are seconds everywhere.

use std::net::IpAddr;
use std::time::Duration;

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::plan::{Connection, Family, Plan, Switch, Transport};
use weir_model::units::{ByteSize, RateLimit, Seed, SendRate, Span};

use super::args::{LaterArgs, TestArgs};
use super::target::Target;
use crate::commands::values::{Nominal, is_interface};
use crate::engine::TrafficError;
use crate::error::CliError;

/// What the flags mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    /// What is to be run.
    pub(crate) plan: Plan,
    /// Who answers; absent only when a plan is written and not run.
    pub(crate) host: Option<String>,
    /// The nominal rate is the interface's speed.
    pub(crate) nominal_auto: bool,
    /// How long connecting may take.
    pub(crate) connect_timeout: Duration,
}

/// Packets per second of empty datagrams whose rate is not stated: no bit rate can pace them.
const EMPTY_DATAGRAM_RATE: f64 = 1000.0;

/// Makes the plan of a command line; `file` is the text of `--plan`, `fresh_seed` what the seed is where neither names one.
///
/// # Errors
/// [`CliError::Flag`] naming the flag, or [`CliError::Plan`] naming the field of the file.
pub(crate) fn plan(
    args: &TestArgs,
    file: Option<&str>,
    fresh_seed: Seed,
) -> Result<Planned, CliError> {
    refuse_later(&args.later)?;
    let mut plan = match (file, &args.general.plan) {
        (Some(text), path) => {
            let mut plan = Plan::parse(text).map_err(|error| CliError::Plan {
                path: path.clone().unwrap_or_default(),
                error,
            })?;
            if !Seed::is_named_in(text) {
                plan.seed = fresh_seed;
            }
            plan
        }
        (None, _) => shape(args, fresh_seed)?,
    };
    let target = match &args.host {
        Some(text) => Some(Target::parse(text)?),
        None => plan.host.as_deref().map(Target::parse).transpose()?,
    };
    if let Some(target) = &target {
        plan.host = Some(target.host.clone());
    }
    match (args.general.port, target.as_ref().and_then(|t| t.port)) {
        (Some(flag), Some(with_host)) if flag != with_host => {
            return Err(CliError::flag(
                "-p/--port",
                format!("{flag}, while HOST says {with_host}"),
                "one of them",
            ));
        }
        (Some(port), _) | (None, Some(port)) => plan.port = port,
        (None, None) => {}
    }
    if let Some(target) = &target {
        refuse_other_family(args, plan.family, &target.host)?;
    }
    if let Some(title) = &args.output.title {
        plan.title = Some(title.clone());
    }
    if target.is_none() && args.general.save_plan.is_none() {
        return Err(CliError::flag(
            "HOST",
            "missing, and the plan names no host",
            "NAME or ADDRESS",
        ));
    }
    if file.is_none() {
        plan.check().map_err(by_flag)?;
    }
    Ok(Planned {
        plan,
        host: target.map(|t| t.host),
        nominal_auto: args.measure.nominal == Some(Nominal::Auto),
        connect_timeout: Duration::from_nanos(args.general.connect_timeout.0),
    })
}

/// The plan that the shaping flags make.
fn shape(args: &TestArgs, fresh_seed: Seed) -> Result<Plan, CliError> {
    let (traffic, rate, socket, measure) = (&args.traffic, &args.rate, &args.socket, &args.measure);
    refuse_other_transport(args)?;
    let like = connection(args);
    let count = like.count;
    let directions = traffic.directions();
    let connections = directions
        .iter()
        .enumerate()
        .map(|(i, direction)| Connection {
            direction: *direction,
            // The ports of the second direction follow those of the first.
            client_port: socket.cport.map(|p| p.wrapping_add((i as u32 * count) as u16)),
            ..like.clone()
        })
        .collect();
    if let Some(first) = socket.cport {
        let needed = u64::from(count) * directions.len() as u64;
        if u64::from(first) + needed > 65_536 {
            return Err(CliError::flag(
                "--cport",
                format!("{first} for {needed} connections"),
                "a port from which all connections have one, up to 65535",
            ));
        }
    }
    if rate.total_rate
        && let Some(SendRate { limit: RateLimit::Bits(bits), .. }) = rate.bitrate
        && bits.0 < u64::from(count)
    {
        return Err(CliError::flag(
            "--total-rate",
            format!("{bits}bit/s for {count} connections"),
            "at least 1 bit/s for each",
        ));
    }
    let (bind, device) = (socket.address(), device(args)?);
    let family = match (socket.ipv4, socket.ipv6 || socket.flowlabel.is_some()) {
        (true, _) => Some(Family::Ipv4),
        (_, true) => Some(Family::Ipv6),
        _ => None,
    };
    if let (Some(address), Some(family)) = (bind, family)
        && (family == Family::Ipv4) != address.is_ipv4()
    {
        return Err(CliError::flag(
            "-B/--bind",
            format!("{address}"),
            &format!("an {family} address"),
        ));
    }
    Ok(Plan {
        family,
        bind,
        device,
        interval: measure.interval.unwrap_or(Span::from_seconds(1)),
        omit: traffic.omit.unwrap_or_default(),
        seed: traffic.seed.unwrap_or(fresh_seed),
        data_ports: traffic.data_ports.unwrap_or_default(),
        loss_threshold: measure.loss_threshold,
        latency: !measure.no_latency,
        nominal: match measure.nominal {
            Some(Nominal::Stated(rate)) => Some(rate),
            _ => None,
        },
        connections,
        ..Plan::default()
    })
}

/// The connection that all are like.
fn connection(args: &TestArgs) -> Connection {
    let (traffic, rate, socket) = (&args.traffic, &args.rate, &args.socket);
    let count = traffic.parallel.unwrap_or(1);
    let transport = traffic.transport();
    let empty = transport == Transport::Udp && rate.length == Some(ByteSize(0));
    let stated = match rate.bitrate {
        None if empty => {
            Some(SendRate { limit: RateLimit::Packets(EMPTY_DATAGRAM_RATE), burst: 1 })
        }
        Some(r) if rate.total_rate => Some(r.divided(count)),
        other => other,
    };
    Connection {
        transport,
        count,
        payload: rate.length,
        rate: stated,
        duration: traffic.time,
        bytes: traffic.bytes,
        packets: traffic.packets,
        content: traffic.content.unwrap_or(Content::Random),
        verify: args.measure.verify,
        catch_up: rate.catch_up.unwrap_or_default(),
        gso: socket.gso.unwrap_or_default(),
        gro: socket.gro.unwrap_or_default(),
        window: socket.window,
        mss: socket.set_mss,
        no_delay: socket.no_delay,
        congestion: socket.congestion.clone(),
        tos: socket.tos.or(socket.dscp.map(|d| d.0 << 2)),
        flow_label: socket.flowlabel,
        ttl: socket.ttl,
        dont_fragment: socket.dont_fragment,
        zero_copy: socket.zerocopy,
        discard: socket.skip_rx_copy,
        kernel_pacing: rate.fq_rate,
        ..Connection::default()
    }
}

/// The interface of `-B %IF` and `--bind-dev`, which must agree.
fn device(args: &TestArgs) -> Result<Option<String>, CliError> {
    let zone = args.socket.bind.as_ref().and_then(|b| b.interface.as_ref());
    match (&args.socket.bind_dev, zone) {
        (Some(flag), Some(zone)) if flag != zone => Err(CliError::flag(
            "--bind-dev",
            format!("{flag}, while -B says {zone}"),
            "one interface",
        )),
        (Some(name), _) if !is_interface(name) => Err(CliError::flag(
            "--bind-dev",
            format!("'{name}'"),
            "an interface name of 1 to 15 characters",
        )),
        (Some(name), _) | (None, Some(name)) => Ok(Some(name.clone())),
        (None, None) => Ok(None),
    }
}

/// An address of the one family is not reached by the other, which was asked for.
fn refuse_other_family(
    args: &TestArgs,
    family: Option<Family>,
    host: &str,
) -> Result<(), CliError> {
    let bare = host.split('%').next().unwrap_or(host);
    let (Some(family), Ok(address)) = (family, bare.parse::<IpAddr>()) else { return Ok(()) };
    if address.is_ipv4() == (family == Family::Ipv4) {
        return Ok(());
    }
    let of_address = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    let (flag, takes) = match family {
        Family::Ipv4 => ("-4/--ipv4", "an IPv4 address or a name"),
        Family::Ipv6 if args.socket.flowlabel.is_some() => {
            ("-L/--flowlabel", "an IPv6 address or a name, since only IPv6 has flow labels")
        }
        Family::Ipv6 => ("-6/--ipv6", "an IPv6 address or a name"),
    };
    let flag = if args.general.plan.is_some() { "family of the plan" } else { flag };
    Err(CliError::flag(flag, format!("set for the {of_address} address {host}"), takes))
}

/// Flags that only one transport has are refused for the other, rather than ignored.
fn refuse_other_transport(args: &TestArgs) -> Result<(), CliError> {
    let socket = &args.socket;
    let on = |switch: Option<Switch>| switch == Some(Switch::On);
    let (given, transport, other) = match args.traffic.transport() {
        Transport::Udp => (
            [
                (socket.set_mss.is_some(), "-M/--set-mss"),
                (socket.no_delay, "-N/--no-delay"),
                (socket.congestion.is_some(), "-C/--congestion"),
                (socket.zerocopy, "-Z/--zerocopy"),
                (socket.skip_rx_copy, "--skip-rx-copy"),
            ]
            .to_vec(),
            "udp",
            "tcp only",
        ),
        Transport::Tcp => {
            (vec![(on(socket.gso), "--gso"), (on(socket.gro), "--gro")], "tcp", "udp only (-u)")
        }
    };
    match given.iter().find(|(set, _)| *set) {
        Some((_, flag)) => Err(CliError::flag(flag, format!("set for {transport}"), other)),
        None => Ok(()),
    }
}

/// Flags that the contract has and this version has not.
fn refuse_later(later: &LaterArgs) -> Result<(), CliError> {
    let given = [(
        later.file.is_some(),
        "-F/--file",
        "sending a file comes later; --content names what is sent",
    )];
    match given.iter().find(|(set, ..)| *set) {
        Some((_, flag, why)) => Err(CliError::NotYet { flag: (*flag).into(), why: (*why).into() }),
        None => Ok(()),
    }
}

/// What the engine says of a part of the plan, with the flag by which that part was asked for.
pub(super) fn flag_named(error: TrafficError, plan: &Plan) -> TrafficError {
    const NOT_AVAILABLE: i32 = 99; // EADDRNOTAVAIL
    match error {
        TrafficError::Unavailable { what, reason } => {
            let name = what.strip_prefix("congestion control ");
            let what = name.map_or_else(|| what.clone(), |name| format!("-C/--congestion: {name}"));
            TrafficError::Unavailable { what, reason }
        }
        TrafficError::File { what, path, source } => {
            let what = match what {
                "packet log" => "--packet-log:",
                "control socket" => "--control-socket:",
                other => other,
            };
            TrafficError::File { what, path, source }
        }
        TrafficError::Input { what: "bind", given, accepted } => {
            TrafficError::Input { what: "-B/--bind", given, accepted }
        }
        TrafficError::Net(error) if error.raw_os_error() == Some(NOT_AVAILABLE) => {
            match plan.bind {
                Some(bind) => TrafficError::Unavailable {
                    what: format!("-B/--bind: {bind}"),
                    reason: "no address of this host (`ip address` lists them)".into(),
                },
                None => TrafficError::Net(error),
            }
        }
        other => other,
    }
}

/// A refusal of the plan in words of the command line: the user wrote a flag, not a field.
fn by_flag(error: ModelError) -> CliError {
    let ModelError::Field { field, given, accepted } = &error else {
        return CliError::Model(error);
    };
    let name = field.rsplit('.').next().unwrap_or(field);
    let flag = match name {
        "port" => "-p/--port",
        "interval" => "-i/--interval",
        "omit" => "-O/--omit",
        "loss_threshold" => "--loss-threshold",
        "count" | "connection" => "-P/--parallel",
        "payload" => "-l/--length",
        "rate" => "-b/--bitrate",
        "duration" => "-t/--time",
        "bytes" => "-n/--bytes",
        "packets" => "-k/--packets",
        "window" => "-w/--window",
        "mss" => "-M/--set-mss",
        "congestion" => "-C/--congestion",
        "flow_label" => "-L/--flowlabel",
        "ttl" => "--ttl",
        "verify" => "--verify",
        "client_port" => "--cport",
        _ => return CliError::Model(error),
    };
    CliError::flag(flag, given.clone(), accepted)
}
