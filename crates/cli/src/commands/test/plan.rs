//! Flags → [`Plan`]: a pure function, so that each meaning is a line of a table in the tests.
//!
//! Where a flag is iperf3's its meaning is iperf3's, with two exceptions that the help states: `-n` and `-k` are per
//! connection, as `-b` is, and times are seconds everywhere.

use std::time::Duration;

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::names::Host;
use weir_model::plan::{Connection, ConnectionFields, Family, Plan};
use weir_model::units::{RateLimit, Seed, SendRate, Span};

use super::args::{LaterArgs, TestArgs};
use crate::commands::values::Nominal;
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
    let named = args.host.as_deref().or(plan.host.as_deref());
    let target = named.map(Host::parse).transpose().map_err(|e| CliError::of_field(e, "HOST"))?;
    if let Some(target) = &target {
        plan.host = Some(target.name.clone());
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
    // A plan file is checked again: the command line may have named another host.
    plan.check().map_err(|error| match (file, &args.general.plan) {
        (Some(_), path) => CliError::Plan { path: path.clone().unwrap_or_default(), error },
        (None, _) => by_flag(error, args),
    })?;
    Ok(Planned {
        plan,
        host: target.map(|t| t.name),
        nominal_auto: args.measure.nominal == Some(Nominal::Auto),
        connect_timeout: Duration::from_nanos(args.general.connect_timeout.0),
    })
}

/// The plan that the shaping flags make.
fn shape(args: &TestArgs, fresh_seed: Seed) -> Result<Plan, CliError> {
    let (traffic, rate, socket, measure) = (&args.traffic, &args.rate, &args.socket, &args.measure);
    let like = connection(args);
    let count = like.count;
    let directions = traffic.directions();
    // The ports of the second direction follow those of the first.
    let port_of = |first: u16, direction: usize| {
        let port = u64::from(first) + u64::from(count) * direction as u64;
        u16::try_from(port).map_err(|_| {
            let given = format!("{first} for {} connections", u64::from(count) * 2);
            CliError::flag("--cport", given, "a port from which each has one, up to 65535")
        })
    };
    let connections = directions
        .iter()
        .enumerate()
        .map(|(i, direction)| {
            let client_port = socket.cport.map(|first| port_of(first, i)).transpose()?;
            Ok(ConnectionFields { direction: *direction, client_port, ..like.clone() }.into())
        })
        .collect::<Result<Vec<Connection>, CliError>>()?;
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
    let family = match (socket.ipv4, socket.ipv6 || socket.flowlabel.is_some()) {
        (true, _) => Some(Family::Ipv4),
        (_, true) => Some(Family::Ipv6),
        _ => None,
    };
    Ok(Plan {
        family,
        bind: socket.address(),
        device: device(args)?,
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

/// The connection that all are like, with the options of any transport: the plan's check refuses those of another.
fn connection(args: &TestArgs) -> ConnectionFields {
    let (traffic, rate, socket) = (&args.traffic, &args.rate, &args.socket);
    let count = traffic.parallel.unwrap_or(1);
    ConnectionFields {
        transport: traffic.transport(args.host.as_deref()),
        count,
        payload: rate.length.clone(),
        header: rate.header.unwrap_or_default(),
        rate: rate.bitrate.map(|r| if rate.total_rate { r.divided(count) } else { r }),
        spacing: rate.spacing.clone().unwrap_or_default(),
        duration: traffic.time,
        bytes: traffic.bytes,
        packets: traffic.packets,
        content: traffic.content.unwrap_or(Content::Random),
        verify: args.measure.verify,
        catch_up: rate.catch_up.unwrap_or_default(),
        gso: socket.gso,
        gro: socket.gro,
        window: socket.window,
        mss: socket.set_mss,
        no_delay: socket.no_delay.then_some(true),
        congestion: socket.congestion.clone(),
        tos: socket.tos.or(socket.dscp.map(|d| d.0 << 2)),
        flow_label: socket.flowlabel,
        ttl: socket.ttl,
        dont_fragment: socket.dont_fragment.then_some(true),
        zero_copy: socket.zerocopy.then_some(true),
        discard: socket.skip_rx_copy.then_some(true),
        kernel_pacing: rate.fq_rate,
        ..ConnectionFields::default()
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
        (Some(name), _) | (None, Some(name)) => Ok(Some(name.clone())),
        (None, None) => Ok(None),
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
fn by_flag(error: ModelError, args: &TestArgs) -> CliError {
    let ModelError::Field { field, .. } = &error else {
        return CliError::Model(error);
    };
    let name = field.rsplit('.').next().unwrap_or(field);
    let flag = match name {
        "host" => "HOST",
        "transport" if args.traffic.udp => "-u/--udp",
        "transport" => "--transport",
        "family" if args.socket.ipv4 => "-4/--ipv4",
        "family" if args.socket.ipv6 => "-6/--ipv6",
        // The label implies IPv6.
        "family" => "-L/--flowlabel",
        "bind" => "-B/--bind",
        "device" => "--bind-dev",
        "nominal" => "--nominal",
        "port" => "-p/--port",
        "interval" => "-i/--interval",
        "omit" => "-O/--omit",
        "loss_threshold" => "--loss-threshold",
        "count" | "connection" => "-P/--parallel",
        "payload" => "-l/--length",
        "header" => "--header",
        "rate" => "-b/--bitrate",
        "spacing" => "--spacing",
        "duration" => "-t/--time",
        "bytes" => "-n/--bytes",
        "packets" => "-k/--packets",
        "window" => "-w/--window",
        "mss" => "-M/--set-mss",
        "no_delay" => "-N/--no-delay",
        "congestion" => "-C/--congestion",
        "zero_copy" => "-Z/--zerocopy",
        "discard" => "--skip-rx-copy",
        "gso" => "--gso",
        "gro" => "--gro",
        "flow_label" => "-L/--flowlabel",
        "ttl" => "--ttl",
        "tos" if args.socket.dscp.is_some() => "--dscp",
        "tos" => "-S/--tos",
        "dont_fragment" => "--dont-fragment",
        "kernel_pacing" => "--fq-rate",
        "verify" => "--verify",
        "client_port" => "--cport",
        _ => return CliError::Model(error),
    };
    CliError::of_field(error, flag)
}
