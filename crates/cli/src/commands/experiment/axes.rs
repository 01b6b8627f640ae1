//! Refuses a flag that sets the same field as an axis: the axis sets it at each point, so the flag would have no effect.

use weir_model::experiment::parameter_of;

use crate::commands::test::flags::{Flag, spelled};
use crate::error::CliError;

/// Refuses a flag whose field is an axis. An axis that occurs in the emulator's `laws` as `{NAME}` is not a field.
pub(super) fn refuse_beside(
    flags: &[Flag],
    over: &[String],
    laws: &[&str],
) -> Result<(), CliError> {
    for axis in over.iter().filter_map(|axis| Some(axis.split_once('=')?.0.trim())) {
        if laws.iter().any(|laws| laws.contains(&format!("{{{axis}}}"))) {
            continue;
        }
        let field = parameter_of(axis);
        if let Some(flag) = flags.iter().find(|flag| flag.field == field && flag.is_given) {
            let given = format!("given with --over {axis}, which sets the same at each point");
            return Err(CliError::flag(&spelled(flag.id), given, "one of them"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::{FromArgMatches, Parser};
    use serde_json::Value;
    use weir_model::experiment::set_parameters;
    use weir_model::plan::{Connection, Plan};

    use super::*;
    use crate::commands::experiment::compare::CompareArgs;
    use crate::commands::test::TestArgs;
    use crate::commands::test::flags::Shaping;

    #[derive(Debug, Parser)]
    struct Line<A: clap::Args> {
        #[command(flatten)]
        args: A,
    }

    fn parsed<A: clap::Args + FromArgMatches>(words: &str) -> A {
        let words = ["x", "h"].into_iter().chain(words.split_whitespace());
        Line::try_parse_from(words).unwrap().args
    }

    /// The field of the refusal of a flag and an axis, if they are refused.
    fn refused(flags: &[Flag], axis: &str, laws: &[&str]) -> Option<String> {
        let refused = refuse_beside(flags, &[format!("{axis}=1,2")], laws);
        refused.err().and_then(|error| error.refusal().field)
    }

    #[test]
    fn a_flag_is_refused_beside_each_axis_that_sets_the_same_field() {
        for (words, flag, axes) in [
            ("-u", "--udp", &["transport"][..]),
            ("--transport udp", "--transport", &["transport"]),
            ("-t 3", "--time", &["duration", "time"]),
            ("-P 4", "--parallel", &["count", "connections"]),
            // The rate is divided by the number of connections (-P), which the axis changes.
            ("-b 8M --total-rate", "--total-rate", &["count"]),
            ("-R", "--reverse", &["direction"]),
            ("--bidir", "--bidir", &["direction"]),
            ("-4", "--ipv4", &["family"]),
            ("-6", "--ipv6", &["family"]),
            ("-B 192.0.2.1%eth0", "--bind", &["bind", "device"]),
            ("--bind-dev eth0", "--bind-dev", &["device"]),
            ("--cport 5000", "--cport", &["client_port"]),
            ("-l 100", "--length", &["payload", "size"]),
            ("--dscp ef", "--dscp", &["tos"]),
            ("--no-latency", "--no-latency", &["latency"]),
        ] {
            let flags = parsed::<TestArgs>(words).flags();
            for axis in axes {
                assert_eq!(refused(&flags, axis, &[]).as_deref(), Some(flag), "{words}, {axis}");
                let own = format!("delay {{{axis}}}ms");
                assert_eq!(refused(&flags, axis, &[&own]), None, "{words}");
                assert_eq!(refused(&flags, &format!("video.{axis}"), &[]), None, "{words}");
            }
            assert_eq!(refused(&flags, "window", &[]), None, "{words}");
        }
        let flags = parsed::<TestArgs>("-B %eth0").flags();
        assert_eq!(refused(&flags, "bind", &[]), None);
        assert_eq!(refused(&flags, "device", &[]).as_deref(), Some("--bind"));
    }

    /// Every possible axis of a sweep is the field of a flag, except the fields in `WITHOUT`.
    #[test]
    fn every_axis_of_a_plan_has_its_flags() {
        // The server is an argument; an axis replaces it. The port of a group is a part of --multicast. Only documents have the rate
        // of control traffic.
        const WITHOUT: &[&str] =
            &["name", "host", "port", "start_after", "autostart", "group_port", "control_rate"];
        let schema = weir_model::schema::plan_schema();
        let fields = |schema: &Value| -> Vec<String> {
            schema["properties"].as_object().unwrap().keys().cloned().collect()
        };
        let all = Plan { connections: vec![Connection::default()], ..Plan::default() };
        // A known parameter is refused for its value, an unknown one for its name.
        let is_axis = |name: &String| {
            let refused = set_parameters(&all, [(name.as_str(), "?")]).err().map(|e| e.to_string());
            refused.is_none_or(|e| !e.contains("no parameter of a plan"))
        };
        let names = [fields(&schema), fields(&schema["$defs"]["Connection"])].concat();
        let axes: Vec<String> = names.into_iter().filter(is_axis).collect();
        assert!(axes.len() > 30, "{axes:?}");
        let flags = parsed::<TestArgs>("").flags();
        for axis in axes {
            let has_flag = flags.iter().any(|flag| flag.field == axis);
            assert!(has_flag != WITHOUT.contains(&axis.as_str()), "{axis}");
        }
    }

    #[test]
    fn every_flag_of_a_comparison_is_refused_beside_its_axis() {
        for (words, flag, axes) in [
            ("-u", "--udp", &["transport"][..]),
            ("-l 100", "--length", &["size", "length"]),
            ("-M 1000", "--set-mss", &["mss"]),
            ("-P 2", "--parallel", &["connections"]),
            ("-u -b 1M", "--bitrate", &["rate"]),
            ("-t 2", "--time", &["time", "seconds"]),
        ] {
            let flags = parsed::<CompareArgs>(words).load.flags();
            for axis in axes {
                assert_eq!(refused(&flags, &format!(" {axis} "), &[]).as_deref(), Some(flag));
            }
            assert_eq!(refused(&flags, "video.time", &[]), None);
        }
    }
}
