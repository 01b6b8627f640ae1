//! Flags that set what an axis may set, too: one table, from which a flag beside its axis is refused and a parameter gets its
//! flag's name in refusals. Tests hold it to the flags that there are and to the plans that they make.

use weir_model::experiment::parameter_of;

use super::compare::CompareArgs;
use crate::commands::test::TestArgs;
use crate::error::CliError;

/// A flag, and what it sets.
pub(super) struct Sets<A> {
    /// A parameter of a plan, or of a comparison, by its own name.
    pub(super) parameter: &'static str,
    /// As people write it.
    pub(super) flag: &'static str,
    /// Whether it is there.
    is_given: fn(&A) -> bool,
}

const fn sets<A>(parameter: &'static str, flag: &'static str, is_given: fn(&A) -> bool) -> Sets<A> {
    Sets { parameter, flag, is_given }
}

/// The flags of a test. Where several set the same, the one that is named in refusals comes first.
pub(super) const OF_TESTS: &[Sets<TestArgs>] = &[
    sets("transport", "-u", |a| a.traffic.udp),
    sets("transport", "--transport", |a| a.traffic.transport.is_some()),
    sets("duration", "-t", |a| a.traffic.time.is_some()),
    sets("bytes", "-n", |a| a.traffic.bytes.is_some()),
    sets("packets", "-k", |a| a.traffic.packets.is_some()),
    sets("count", "-P", |a| a.traffic.parallel.is_some()),
    // Of so many connections as -P says: an axis changes their number behind it.
    sets("count", "--total-rate", |a| a.rate.total_rate),
    sets("direction", "-R", |a| a.traffic.reverse),
    sets("direction", "--bidir", |a| a.traffic.bidir),
    sets("omit", "-O", |a| a.traffic.omit.is_some()),
    sets("content", "--content", |a| a.traffic.content.is_some()),
    sets("seed", "--seed", |a| a.traffic.seed.is_some()),
    sets("data_ports", "--data-ports", |a| a.traffic.data_ports.is_some()),
    sets("rate", "-b", |a| a.rate.bitrate.is_some()),
    sets("spacing", "--spacing", |a| a.rate.spacing.is_some()),
    sets("catch_up", "--catch-up", |a| a.rate.catch_up.is_some()),
    sets("kernel_pacing", "--fq-rate", |a| a.rate.fq_rate.is_some()),
    sets("payload", "-l", |a| a.rate.length.is_some()),
    sets("header", "--header", |a| a.rate.header.is_some()),
    sets("family", "-4", |a| a.socket.ipv4),
    sets("family", "-6", |a| a.socket.ipv6),
    sets("bind", "-B", |a| a.socket.address().is_some()),
    sets("device", "--bind-dev", |a| a.socket.bind_dev.is_some()),
    sets("device", "-B", |a| a.socket.bind.as_ref().is_some_and(|b| b.interface.is_some())),
    sets("client_port", "--cport", |a| a.socket.cport.is_some()),
    sets("window", "-w", |a| a.socket.window.is_some()),
    sets("mss", "-M", |a| a.socket.set_mss.is_some()),
    sets("no_delay", "-N", |a| a.socket.no_delay),
    sets("congestion", "-C", |a| a.socket.congestion.is_some()),
    sets("tos", "-S", |a| a.socket.tos.is_some()),
    sets("tos", "--dscp", |a| a.socket.dscp.is_some()),
    sets("flow_label", "-L", |a| a.socket.flowlabel.is_some()),
    sets("ttl", "--ttl", |a| a.socket.ttl.is_some()),
    sets("dont_fragment", "--dont-fragment", |a| a.socket.dont_fragment),
    sets("zero_copy", "-Z", |a| a.socket.zerocopy),
    sets("discard", "--skip-rx-copy", |a| a.socket.skip_rx_copy),
    sets("gso", "--gso", |a| a.socket.gso.is_some()),
    sets("gro", "--gro", |a| a.socket.gro.is_some()),
    sets("interval", "-i", |a| a.measure.interval.is_some()),
    sets("loss_threshold", "--loss-threshold", |a| a.measure.loss_threshold.is_some()),
    sets("latency", "--no-latency", |a| a.measure.no_latency),
    sets("verify", "--verify", |a| a.measure.verify),
    sets("nominal", "--nominal", |a| a.measure.nominal.is_some()),
];

/// The flags of a comparison.
pub(super) const OF_COMPARISONS: &[Sets<CompareArgs>] = &[
    sets("transport", "-u", |a| a.udp),
    sets("payload", "-l", |a| a.length.is_some()),
    sets("mss", "-M", |a| a.set_mss.is_some()),
    sets("count", "-P", |a| a.parallel.is_some()),
    sets("rate", "-b", |a| a.bitrate.is_some()),
    sets("duration", "-t", |a| a.time.is_some()),
];

/// Refuses a flag whose parameter is an axis: the axis sets it at each point, and the flag would do nothing. Names that the
/// emulator's `laws` hold as `{NAME}` are no parameters.
pub(super) fn refuse_beside<A>(
    table: &[Sets<A>],
    args: &A,
    over: &[String],
    laws: &[&str],
) -> Result<(), CliError> {
    for axis in over.iter().filter_map(|axis| Some(axis.split_once('=')?.0.trim())) {
        if laws.iter().any(|laws| laws.contains(&format!("{{{axis}}}"))) {
            continue;
        }
        let parameter = parameter_of(axis);
        if let Some(set) = table.iter().find(|s| s.parameter == parameter && (s.is_given)(args)) {
            return Err(CliError::flag(
                set.flag,
                format!("given beside --over {axis}, which sets the same at each point"),
                "one of them",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, Parser};
    use serde_json::Value;
    use weir_model::experiment::set_parameters;
    use weir_model::plan::{Connection, Plan};
    use weir_model::units::Seed;

    use super::*;
    use crate::commands::test::plan::plan;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        test: TestArgs,
    }

    #[derive(Debug, Parser)]
    struct Comparison {
        #[command(flatten)]
        compare: CompareArgs,
    }

    fn test(words: &str) -> TestArgs {
        let words = ["x", "h"].into_iter().chain(words.split_whitespace());
        Line::try_parse_from(words).unwrap().test
    }

    fn plan_of(words: &str) -> Value {
        let planned = plan(&test(words), None, Seed(7)).unwrap_or_else(|e| panic!("{words}: {e}"));
        serde_json::to_value(planned.plan).unwrap()
    }

    /// Each flag as it would be written, beside flags that it needs, and the axes that set what it sets.
    const WRITTEN: &[(&str, &str, &str, &[&str])] = &[
        ("udp", "", "-u", &["transport"]),
        ("transport", "", "--transport udp", &["transport"]),
        ("time", "", "-t 3", &["duration"]),
        ("bytes", "", "-n 1M", &["bytes"]),
        ("packets", "", "-k 5", &["packets"]),
        ("parallel", "", "-P 4", &["count"]),
        ("total_rate", "-P 4 -b 8M", "--total-rate", &["count"]),
        ("reverse", "", "-R", &["direction"]),
        ("bidir", "", "--bidir", &["direction"]),
        ("omit", "", "-O 1", &["omit"]),
        ("content", "", "--content zeros", &["content"]),
        ("seed", "", "--seed 9", &["seed"]),
        ("data_ports", "", "--data-ports dedicated", &["data_ports"]),
        ("bitrate", "", "-b 5M", &["rate"]),
        ("spacing", "", "--spacing 20ms", &["spacing"]),
        ("catch_up", "-b 5M", "--catch-up none", &["catch_up"]),
        ("fq_rate", "", "--fq-rate 5M", &["kernel_pacing"]),
        ("length", "", "-l 100", &["payload"]),
        ("header", "-u", "--header none", &["header"]),
        ("ipv4", "", "-4", &["family"]),
        ("ipv6", "", "-6", &["family"]),
        ("bind", "", "-B 192.0.2.1%eth0", &["bind", "device"]),
        ("bind_dev", "", "--bind-dev eth0", &["device"]),
        ("cport", "", "--cport 5000", &["client_port"]),
        ("window", "", "-w 64K", &["window"]),
        ("set_mss", "", "-M 1000", &["mss"]),
        ("no_delay", "", "-N", &["no_delay"]),
        ("congestion", "", "-C reno", &["congestion"]),
        ("tos", "", "-S 8", &["tos"]),
        ("dscp", "", "--dscp ef", &["tos"]),
        ("flowlabel", "-6", "-L 5", &["flow_label"]),
        ("ttl", "", "--ttl 9", &["ttl"]),
        ("dont_fragment", "-u", "--dont-fragment", &["dont_fragment"]),
        ("zerocopy", "", "-Z", &["zero_copy"]),
        ("skip_rx_copy", "", "--skip-rx-copy", &["discard"]),
        ("gso", "-u", "--gso on", &["gso"]),
        ("gro", "-u", "--gro on", &["gro"]),
        ("interval", "", "-i 2", &["interval"]),
        ("loss_threshold", "", "--loss-threshold 3", &["loss_threshold"]),
        ("no_latency", "", "--no-latency", &["latency"]),
        ("verify", "-u", "--verify", &["verify"]),
        ("nominal", "", "--nominal 1G", &["nominal"]),
    ];

    /// Fields of a plan and of its connections whose values differ.
    fn different(before: &Value, after: &Value) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
        let (before, after) = (fields(before), fields(after));
        for name in before.keys().chain(after.keys()) {
            if before.get(name) == after.get(name) {
                continue;
            }
            if name == "connection" {
                let connections = after[name].as_array().unwrap();
                connections.iter().for_each(|c| out.extend(different(&before[name][0], c)));
            } else {
                out.insert(name.clone());
            }
        }
        out
    }

    #[test]
    fn every_flag_that_shapes_a_test_is_refused_beside_each_axis_that_sets_the_same() {
        let command = Line::command();
        let shaping = ["TrafficArgs", "RateArgs", "SocketArgs", "MeasureArgs"];
        let shaping: BTreeSet<String> = command
            .get_groups()
            .filter(|g| shaping.contains(&g.get_id().as_str()))
            .flat_map(|g| g.get_args().map(ToString::to_string))
            .collect();
        let listed: BTreeSet<String> = WRITTEN.iter().map(|(id, ..)| (*id).to_owned()).collect();
        assert_eq!(listed, shaping);
        for (id, with, words, axes) in WRITTEN {
            let both = format!("{with} {words}");
            // What the plans say is what the table says; a share of a rate is a rate, which -b has.
            let changed = different(&plan_of(with), &plan_of(&both));
            let wanted = if *id == "total_rate" { &["rate"] } else { *axes };
            let wanted: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
            assert_eq!(changed, wanted, "{words}");
            // Without what else sets the same.
            let with = if *id == "total_rate" { "-b 8M" } else { with };
            let (alone, given) = (test(with), test(&format!("{with} {words}")));
            let flag = words.split(' ').next().unwrap();
            for axis in *axes {
                let over = [format!("{axis}=1,2")];
                let refused = refuse_beside(OF_TESTS, &given, &over, &[]).unwrap_err().to_string();
                let wanted = format!("{flag}: given beside --over {axis}, ");
                assert!(refused.starts_with(&wanted), "{words}: {refused}");
                let own = format!("delay {{{axis}}}ms");
                assert!(refuse_beside(OF_TESTS, &given, &over, &[&own]).is_ok(), "{words}");
                let of_one = [format!("video.{axis}=1,2")];
                assert!(refuse_beside(OF_TESTS, &given, &of_one, &[]).is_ok(), "{words}");
                assert!(refuse_beside(OF_TESTS, &alone, &over, &[]).is_ok(), "{words}");
            }
        }
    }

    /// All axes that a sweep may have: none of them is without its flag but those that no flag sets.
    #[test]
    fn every_axis_of_a_plan_has_its_flags() {
        const WITHOUT: &[&str] = &["name", "start_after", "autostart"];
        let schema = weir_model::schema::plan_schema();
        let fields = |schema: &Value| -> Vec<String> {
            schema["properties"].as_object().unwrap().keys().cloned().collect()
        };
        let all = Plan { connections: vec![Connection::default()], ..Plan::default() };
        // What is known as a parameter is refused for its value, what is not by its name.
        let is_axis = |name: &String| {
            let refused = set_parameters(&all, [(name.as_str(), "?")]).err().map(|e| e.to_string());
            refused.is_none_or(|e| !e.contains("no parameter of a plan"))
        };
        let names = [fields(&schema), fields(&schema["$defs"]["Connection"])].concat();
        let axes: Vec<String> = names.into_iter().filter(is_axis).collect();
        assert!(axes.len() > 30, "{axes:?}");
        for axis in axes {
            let has_flag = OF_TESTS.iter().any(|s| s.parameter == axis);
            assert!(has_flag != WITHOUT.contains(&axis.as_str()), "{axis}");
        }
    }

    #[test]
    fn every_flag_of_a_comparison_is_refused_beside_its_axis() {
        for (words, flag, axes) in [
            ("-u", "-u", &["transport"][..]),
            ("-l 100", "-l", &["size", "length"]),
            ("-M 1000", "-M", &["mss"]),
            ("-P 2", "-P", &["connections"]),
            ("-u -b 1M", "-b", &["rate"]),
            ("-t 2", "-t", &["time", "seconds"]),
        ] {
            let words = ["x", "h"].into_iter().chain(words.split(' '));
            let args = Comparison::try_parse_from(words).unwrap().compare;
            for axis in axes {
                let refused = refuse_beside(OF_COMPARISONS, &args, &[format!(" {axis} =1,2")], &[]);
                let refused = refused.unwrap_err().to_string();
                assert!(
                    refused.starts_with(&format!("{flag}: given beside --over {axis}")),
                    "{refused}"
                );
            }
            assert!(refuse_beside(OF_COMPARISONS, &args, &["video.time=1".into()], &[]).is_ok());
        }
        assert_eq!(OF_COMPARISONS.len(), 6);
    }
}
