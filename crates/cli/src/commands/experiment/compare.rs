//! `weir compare`: measures the same path with Weir and with the other tools that are installed.

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::Args;
use serde_json::Value;
use weir_experiment::scenario::pair::Pair;
use weir_model::experiment::{
    CompareStep, HostSpec, LabSetup, SCENARIO_SCHEMA, Scenario, Step, check_axes,
};
use weir_model::names::Host;
use weir_model::units::{ByteSize, Seed, SendRate};

use super::axes::refuse_beside;
use super::{Job, ResultArgs, execute};
use crate::commands::test::flags::{Shaping, flags};
use crate::commands::values::{self, MAX_RUNS, confidence, whole};
use crate::error::CliError;
use crate::output::print;

/// Measure the same path with Weir and with the other tools installed here, in shuffled order
#[derive(Debug, Args)]
#[command(
    after_help = "With --lab each tool's server is started in a lab of two hosts; with HOST it \
    must be running already (weir serve, iperf3 -s, …). Each tool's figures are its own. weir-to-iperf3 is \
    Weir's client with the server of iperf3, iperf3-to-weir the reverse."
)]
pub(crate) struct CompareArgs {
    /// The server; none with --lab
    #[arg(value_name = "HOST", required_unless_present_any = ["lab", "list"])]
    host: Option<String>,
    /// Measure between two network namespaces
    #[arg(long, conflicts_with = "host")]
    lab: bool,
    /// List the known tools, and which are installed
    #[arg(long)]
    list: bool,
    /// Tools, separated by commas [default: all that are installed]
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Vec<String>,
    /// An axis of size, mss, window, connections, rate, congestion, transport; may be repeated
    #[arg(long, value_name = "NAME=VALUES")]
    over: Vec<String>,
    #[command(flatten)]
    pub(super) load: LoadArgs,
    /// Let Weir send and receive UDP in super-packets (GSO, GRO) [default: per-packet, as the other tools do]
    #[arg(long)]
    coalesced: bool,
    /// Repetitions
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole(1_u32..=MAX_RUNS))]
    runs: u32,
    /// Confidence of the intervals, 50 to below 100 % [default: 95%]
    #[arg(long, value_name = "PERCENT", value_parser = confidence)]
    confidence: Option<f64>,
    /// Seed of the order [default: a new one, printed]
    #[arg(long, value_name = "SEED")]
    order_seed: Option<Seed>,
    /// Print what each tool printed, too
    #[arg(short = 'V', long)]
    verbose: bool,
    #[command(flatten)]
    result: ResultArgs,
}

flags! {
    LoadArgs {
        /// Use UDP
        #[arg(short = 'u', long)]
        udp: bool => transport,
        /// Payload of a datagram, or bytes of a write [default: each tool's own]
        #[arg(short = 'l', long, value_name = "SIZE")]
        length: Option<ByteSize> => payload,
        /// TCP maximum segment size
        #[arg(short = 'M', long, value_name = "BYTES")]
        set_mss: Option<u32> => mss,
        /// Connections, 1 to 128 [default: 1]
        #[arg(short = 'P', long, value_name = "N", value_parser = whole(1_u32..=128))]
        parallel: Option<u32> => count,
        /// Socket buffer of both ends
        #[arg(short = 'w', long, value_name = "SIZE")]
        window: Option<ByteSize> => window,
        /// TCP congestion control by its kernel name, such as cubic, reno or bbr
        #[arg(short = 'C', long, value_name = "NAME", value_parser = values::congestion)]
        congestion: Option<String> => congestion,
        /// Rate of a connection, bit/s, or packets or writes per second such as 1000pps [default: as fast as possible]
        #[arg(short = 'b', long, value_name = "RATE")]
        bitrate: Option<SendRate> => rate,
        /// Duration of a run in whole seconds [default: 10]
        #[arg(short = 't', long, value_name = "SECONDS", value_parser = whole(1_u32..=86_400))]
        time: Option<u32> => duration,
    }
}

/// Runs the command.
pub(crate) fn run(args: CompareArgs, command: &[OsString]) -> Result<i32, CliError> {
    if args.list {
        let others = Pair::all().filter(|pair| pair.tool().is_some());
        let lines = others.map(|pair| {
            let is_here = pair.programs(true).all(weir_experiment::scenario::is_installed);
            let state = if is_here { "installed" } else { "not installed" };
            format!("{:<16} {state}\n", pair.name())
        });
        return print(&lines.collect::<String>());
    }
    let load = &args.load;
    refuse_beside(&load.flags(), &args.over, &[])?;
    let mut with: BTreeMap<String, Value> = BTreeMap::from([
        ("seconds".to_owned(), load.time.unwrap_or(10).into()),
        ("transport".to_owned(), if load.udp { "udp" } else { "tcp" }.into()),
    ]);
    let mut put = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            with.insert(name.into(), value);
        }
    };
    put("size", load.length.map(|s| s.0.into()));
    put("mss", load.set_mss.map(Into::into));
    put("connections", load.parallel.map(Into::into));
    put("window", load.window.map(|w| w.0.into()));
    put("congestion", load.congestion.clone().map(Into::into));
    put("rate", load.bitrate.map(|r| r.to_string().into()));
    let mut hosts = BTreeMap::new();
    if let Some(host) = &args.host {
        let target = Host::parse(host).map_err(|e| CliError::of_field(e, "HOST"))?;
        hosts.insert(
            "peer".to_owned(),
            HostSpec { address: target.name, port: target.port, key_file: None },
        );
    }
    // Invalid axes are refused with the scenario.
    let axes = check_axes(&args.over, "").unwrap_or_default();
    let step = CompareStep {
        tools: args.tools,
        over: args.over,
        with,
        coalesced: args.coalesced,
        runs: Some(args.runs),
        ..CompareStep::default()
    };
    let scenario = Scenario {
        schema: SCENARIO_SCHEMA.into(),
        name: "compare".into(),
        title: Some(title(load.udp, args.coalesced, &axes)),
        method: None,
        tags: vec![],
        seed: args.order_seed,
        timeout: None,
        confidence_percentage: args.confidence.unwrap_or(95.0),
        variables: BTreeMap::new(),
        quick: BTreeMap::new(),
        lab: args.lab.then(LabSetup::default),
        hosts,
        agents: BTreeMap::new(),
        emulators: BTreeMap::new(),
        tables: vec![],
        steps: vec![Step {
            name: Some("compare".into()),
            compare: Some(Box::new(step)),
            ..Step::default()
        }],
    };
    let result = ResultArgs { verbose: args.verbose, ..args.result };
    execute(Job::of_flags(&scenario)?, &result, command)
}

/// The title, with the transport and how UDP crosses the path.
fn title(is_udp: bool, coalesced: bool, axes: &[(String, Vec<String>)]) -> String {
    let own = vec![if is_udp { "udp" } else { "tcp" }.to_owned()];
    let axis = axes.iter().find(|(name, _)| name == "transport");
    let modes = axis.map_or(&own, |(_, values)| values).iter().map(|transport| {
        match (transport.as_str(), coalesced) {
            ("udp", true) => "UDP coalesced".into(),
            ("udp", false) => "UDP per-packet".into(),
            (other, _) => other.to_uppercase(),
        }
    });
    format!("tools compared, {}", modes.collect::<Vec<_>>().join(" and "))
}

#[cfg(test)]
mod tests {
    use super::title;

    #[test]
    fn the_title_says_how_packets_cross_the_path() {
        let axis = [("transport".to_owned(), vec!["tcp".to_owned(), "udp".to_owned()])];
        assert_eq!(title(false, false, &[]), "tools compared, TCP");
        assert_eq!(title(true, false, &[]), "tools compared, UDP per-packet");
        assert_eq!(title(true, true, &[]), "tools compared, UDP coalesced");
        assert_eq!(title(false, false, &axis), "tools compared, TCP and UDP per-packet");
    }
}
