//! Makes a [`Plan`] from flags, by a pure function: each meaning is a line of a table in the tests.
//!
//! A flag with the name of an iperf3 flag has the same meaning, with two exceptions that the help states: `-n` and `-k` are
//! per connection, as `-b` is, and times are seconds everywhere.

use std::net::IpAddr;
use std::time::Duration;

use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::names::Host;
use weir_model::plan::{
    Connection, ConnectionFields, Family, HeaderFormat, Plan, Shape, TrafficProfile, Transport,
    TransportName,
};
use weir_model::units::{ByteSize, RateLimit, Seed};

use super::args::TestArgs;
use super::flags::{Flag, flag_of_field, spelled, with_flags};
use crate::commands::values::Nominal;
use crate::engine::TrafficError;
use crate::error::CliError;
use crate::job::is_job;

/// The meaning of the flags.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    /// The plan to run.
    pub(crate) plan: Plan,
    /// The server of connections that name none; absent when all name one, or when a plan is saved and not run.
    pub(crate) host: Option<String>,
    /// The nominal rate is the interface's speed.
    pub(crate) nominal_auto: bool,
    /// Timeout of connecting.
    pub(crate) connect_timeout: Duration,
}

/// Makes the plan of a command line. `file` is the text of `--plan`; `fresh_seed` is used if neither states a seed.
///
/// # Errors
/// [`CliError::Flag`] naming the flag, or [`CliError::Plan`] naming the field of the file.
pub(crate) fn plan(
    args: &TestArgs,
    file: Option<&str>,
    fresh_seed: Seed,
) -> Result<Planned, CliError> {
    refuse_transport_as_title(args)?;
    if let Some((source, _)) = args.general.described_by()
        && let Some(flag) = args.flags().iter().find(|flag| flag.is_given)
    {
        let accepted = match args.general.has_script() {
            true => format!("`{}` in the plan that --save-plan writes of it", flag.field),
            false => format!("`{}` in the plan", flag.field),
        };
        return Err(CliError::flag(&spelled(flag.id), format!("given with {source}"), &accepted));
    }
    let described_by = args.general.described_by().map(|(_, path)| path);
    let hosts = parsed(&args.host)?;
    let mut plan = match (file, described_by) {
        (Some(_), _) if hosts.len() > 1 => {
            let accepted = "one: the connections of a plan name their own hosts";
            return Err(CliError::flag("HOST", args.host.join(" "), accepted));
        }
        (Some(text), path) => {
            let mut plan = Plan::parse(text).map_err(|error| CliError::Plan {
                path: path.cloned().unwrap_or_default(),
                error,
            })?;
            if !Seed::is_named_in(text) || args.general.has_script() {
                plan.seed = fresh_seed;
            }
            plan
        }
        (None, _) => match &args.general.profile {
            Some(name) => profiled(args, name, &hosts, fresh_seed)?,
            None => shape(args, &hosts, fresh_seed)?,
        },
    };
    let targets = match &hosts[..] {
        [] => parsed(plan.host.as_slice())?,
        _ => hosts,
    };
    if let Some(flag) = args.general.port {
        if let Some(with_host) = targets.iter().filter_map(|t| t.port).find(|port| *port != flag) {
            let given = format!("{flag}, while HOST says {with_host}");
            return Err(CliError::flag("-p/--port", given, "one of them"));
        }
        plan.port = Some(flag);
    }
    let target = targets.first();
    if let Some(target) = target {
        plan.host = Some(target.name.clone());
    }
    // Each connection names its port if there are several hosts.
    if let [Host { port: Some(port), .. }] = &targets[..] {
        plan.port = Some(*port);
    }
    if let Some(title) = &args.output.title {
        plan.title = Some(title.clone());
    }
    let is_needed = plan.connections.iter().any(|connection| connection.host.is_none());
    if target.is_none() && is_needed && args.general.save_plan.is_none() {
        return Err(CliError::flag(
            "HOST",
            "missing, and the plan names no host for all connections",
            "NAME or ADDRESS",
        ));
    }
    // A plan file is checked again: the command line may have named another host.
    plan.check().map_err(|error| match (file, described_by) {
        (Some(_), path) => CliError::Plan { path: path.cloned().unwrap_or_default(), error },
        (None, _) => by_flag(error, args),
    })?;
    Ok(Planned {
        plan,
        host: target.map(|t| t.name.clone()),
        nominal_auto: args.measure.nominal == Some(Nominal::Auto),
        connect_timeout: Duration::from_nanos(args.general.connect_timeout.0),
    })
}

/// Parses the servers of the command line or of a plan.
fn parsed(hosts: &[String]) -> Result<Vec<Host>, CliError> {
    let hosts = hosts.iter().map(|host| Host::parse(host)).collect::<Result<_, _>>();
    hosts.map_err(|e| CliError::of_field(e, "HOST"))
}

/// The plan that the shaping flags make: each of several hosts has the same connections.
fn shape(args: &TestArgs, hosts: &[Host], fresh_seed: Seed) -> Result<Plan, CliError> {
    let (traffic, rate, socket) = (&args.traffic, &args.rate, &args.socket);
    let mut plan = Plan { seed: fresh_seed, ..Plan::default() };
    // All options are set, whatever the transport: the plan's check refuses those that it does not have.
    let mut like = ConnectionFields::default();
    args.apply(&mut plan, &mut like);
    like.transport = traffic.transport(&args.host);
    if args.replay.replay.is_some() && !traffic.names_transport() && like.transport.ip() {
        like.transport = Transport::udp().name();
    }
    if like.transport.echoes() && !plan.peer.counts_icmp() {
        echo(&mut like);
    }
    if like.transport.replays_frames() && args.replay.replay.is_some() {
        like.content = Content::File;
        like.header = rate.header.unwrap_or(HeaderFormat::None);
    }
    // A volume says what a connection does.
    if like.volume.is_some() && like.shape == Shape::default() {
        like.shape = Shape::Transfers;
    }
    if let Some(group) = traffic.multicast.or(traffic.broadcast) {
        (like.group, like.group_port) = (Some(group.address), group.port);
    }
    // Several hosts receive the same stream.
    let senders = if like.transport.multicast() { 1 } else { hosts.len().max(1) };
    let count = like.count;
    let directions = traffic.directions();
    let of_direction = count.saturating_mul(senders as u32);
    if rate.total_rate
        && let Some(total) = rate.bitrate
    {
        if let RateLimit::Bits(bits) = total.limit
            && bits.0 < u64::from(of_direction)
        {
            return Err(CliError::flag(
                "--total-rate",
                format!("{bits}bit/s for {of_direction} connections"),
                "at least 1 bit/s for each",
            ));
        }
        like.rate = Some(total.divided(of_direction));
    }
    // The ports of each group follow those of the one before.
    let port_of = |first: u16, group: usize| {
        let port = u64::from(first) + u64::from(count) * group as u64;
        u16::try_from(port).map_err(|_| {
            let all = u64::from(of_direction) * directions.len() as u64;
            let given = format!("{first} for {all} connections");
            CliError::flag(
                "--cport",
                given,
                "a first port that leaves one for each connection, up to 65535",
            )
        })
    };
    // One host is the plan's own.
    let servers: Vec<Option<&Host>> = match hosts {
        [] | [_] => vec![None],
        several => several.iter().map(Some).collect(),
    };
    let groups = servers.iter().flat_map(|server| directions.iter().map(move |d| (server, *d)));
    plan.connections = groups
        .enumerate()
        .map(|(group, (server, direction))| {
            let group = if senders == 1 { group % directions.len() } else { group };
            let client_port = match socket.cport {
                // The connections of all groups use the same ports in turn.
                Some(ports) if ports.last.is_some() && like.shape.connects() => Some(ports.first),
                Some(ports) => Some(port_of(ports.first, group)?),
                None => None,
            };
            let client_port_last = socket.cport.and_then(|ports| ports.last);
            let host = server.map(|server| server.name.clone());
            let port = server.and_then(|server| server.port);
            let own = ConnectionFields {
                host,
                port,
                direction,
                client_port,
                client_port_last,
                ..like.clone()
            };
            Ok(own.into())
        })
        .collect::<Result<Vec<Connection>, CliError>>()?;
    plan.family = family(args);
    plan.device = device(args)?;
    Ok(plan)
}

/// Echo requests are transactions whose size `-l` states, too.
fn echo(like: &mut ConnectionFields) {
    if like.shape == Shape::default() {
        like.shape = Shape::Rr;
    }
    if like.request.is_none()
        && let Some(size) = like.payload.take_if(|size| size.is_constant())
    {
        like.request = Some(ByteSize(size.moments().max_bytes));
    }
}

/// The plan of a traffic profile. The given flags replace fields of its connections; each of several hosts has them all.
fn profiled(
    args: &TestArgs,
    name: &str,
    hosts: &[Host],
    fresh_seed: Seed,
) -> Result<Plan, CliError> {
    let refused = |reason: String| {
        CliError::flag("--profile", format!("{name}: {reason}"), "a valid file of `weir.plan/1`")
    };
    let profile = TrafficProfile::named(name)
        .ok_or_else(|| CliError::flag("--profile", name, &TrafficProfile::accepted()))?;
    let flags = args.flags();
    let of_profile = |flag: &&Flag| {
        flag.is_given
            && matches!(flag.id, "udp" | "transport" | "reverse" | "bidir" | "total_rate" | "cport")
    };
    if let Some(flag) = flags.iter().find(of_profile) {
        let accepted = format!(
            "`{}` of the profile; `weir profiles show {name}` prints it as a plan to edit",
            flag.field
        );
        return Err(CliError::flag(&spelled(flag.id), "given with --profile", &accepted));
    }
    let mut plan = profile.plan().map_err(|e| refused(e.to_string()))?;
    if !Seed::is_named_in(&profile.text) {
        plan.seed = fresh_seed;
    }
    let mut own = ConnectionFields::default();
    args.apply(&mut plan, &mut own);
    let given: Vec<&str> = flags.iter().filter(|f| f.is_given).map(|f| f.field).collect();
    let connections = profile.connections(&own, &given).map_err(|e| refused(e.to_string()))?;
    plan.connections = match hosts {
        [] | [_] => connections.into_iter().map(Connection::from).collect(),
        several => several
            .iter()
            .flat_map(|server| {
                connections.iter().map(|fields| {
                    let name = match &*fields.name {
                        "" => String::new(),
                        name => format!("{name} {}", server.name),
                    };
                    let (host, port) = (Some(server.name.clone()), server.port);
                    ConnectionFields { name, host, port, ..fields.clone() }.into()
                })
            })
            .collect(),
    };
    plan.family = family(args).or(plan.family);
    plan.device = device(args)?.or(plan.device);
    Ok(plan)
}

/// The IP version that the flags name; a flow label implies IPv6.
fn family(args: &TestArgs) -> Option<Family> {
    let socket = &args.socket;
    match (socket.ipv4, socket.ipv6 || socket.flowlabel.is_some()) {
        (true, _) => Some(Family::Ipv4),
        (_, true) => Some(Family::Ipv6),
        _ => None,
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

/// Refuses `-T UDP` without `-u`: in D-ITG, -T is the transport.
fn refuse_transport_as_title(args: &TestArgs) -> Result<(), CliError> {
    let Some(title) = args.output.title.as_deref().filter(|_| args.general.plan.is_none()) else {
        return Ok(());
    };
    match title.to_ascii_lowercase().parse::<TransportName>() {
        Ok(name) if name != args.traffic.transport(&args.host) => {
            let accepted = format!("--transport {name}, or a title other than a transport's name");
            Err(CliError::flag("-T/--title", title, &accepted))
        }
        _ => Ok(()),
    }
}

/// An error of the engine, with the flag that set the field.
pub(crate) fn of_engine(error: TrafficError, plan: &Plan) -> CliError {
    const NOT_AVAILABLE: i32 = 99; // EADDRNOTAVAIL
    match (error, plan.bind) {
        (TrafficError::Net(error), Some(bind)) if error.raw_os_error() == Some(NOT_AVAILABLE) => {
            CliError::NotAvailable {
                flag: spelled("bind"),
                given: bind.to_string(),
                reason: "no address of this host (`ip address` lists them)".into(),
            }
        }
        (TrafficError::Unavailable { field, given, reason }, _) => match flag_of_field(field) {
            Some(flag) => CliError::NotAvailable { flag, given, reason },
            None => TrafficError::Unavailable { field, given, reason }.into(),
        },
        (TrafficError::Input { field, given, accepted }, _) => {
            match flag_that_gave(field, &given) {
                Some(flag) => CliError::flag(&flag, with_flags(&given), &with_flags(&accepted)),
                None => TrafficError::Input { field, given, accepted }.into(),
            }
        }
        (TrafficError::Plan(ModelError::Field { field, given, accepted }), _) if !is_job() => {
            let of_connection = field.rsplit('.').next().unwrap_or(&field);
            match flag_that_gave(of_connection, &given) {
                Some(flag) => CliError::flag(&flag, with_flags(&given), &with_flags(&accepted)),
                None => CliError::Model(ModelError::Field { field, given, accepted }),
            }
        }
        (TrafficError::File { field: "packet_log", path, source }, _) => {
            CliError::io("--packet-log: open", path)(source)
        }
        (TrafficError::File { field: "fetch", path, source }, _) => {
            CliError::io("--fetch: write", path)(source)
        }
        (TrafficError::File { field: "control_socket", path, source }, _) => {
            CliError::io("--control-socket: open", path)(source)
        }
        (other, _) => other.into(),
    }
}

/// The flag to name in an error about a value of a field.
fn flag_that_gave(field: &str, given: &str) -> Option<String> {
    let is_multicast = || given.parse().map_or(true, |group: IpAddr| group.is_multicast());
    match field {
        // Each of the two flags that set it has its own kind of address.
        "group" if !is_multicast() => Some(spelled("broadcast")),
        // They shape no plan.
        "fetch" | "packet_log" | "control_socket" | "key" | "hmac_key_file" => Some(spelled(field)),
        "start_at_ns" => Some(spelled("start_at")),
        _ => flag_of_field(field),
    }
}

/// A refusal of the plan, with the flag that set the field.
pub(super) fn by_flag(error: ModelError, args: &TestArgs) -> CliError {
    let flag = match &error {
        ModelError::Field { field, .. } => args.flag_of(field),
        _ => None,
    };
    match (error, flag) {
        (ModelError::Field { given, accepted, .. }, Some(flag)) => {
            CliError::flag(&flag, with_flags(&given), &with_flags(&accepted))
        }
        (error, _) => CliError::Model(error),
    }
}
