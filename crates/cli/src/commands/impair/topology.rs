//! Parallel paths and hops of `weir impair`, as flows of its configuration.

use std::str::FromStr;

use weir_model::ModelError;
use weir_model::impairment::{Filter, ImpairFlow, Laws, MAX_HOPS, Share};

use crate::commands::values;
use crate::error::CliError;

const PATH_FORM: &str = "a share and laws: 30% LAWS, or 30% of packets LAWS";

/// A parallel path.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ParallelPath {
    percentage: f64,
    /// Whether it is a share of the packets, not of the connections.
    of_packets: bool,
    laws: Laws,
}

impl FromStr for ParallelPath {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let bad = || ModelError::Value { what: "path", given: text.into(), accepted: PATH_FORM };
        let (share, rest) = text.trim().split_once(|c: char| c.is_whitespace()).ok_or_else(bad)?;
        let percentage = share.strip_suffix('%').and_then(|number| number.parse().ok());
        let percentage = percentage.filter(|p| *p > 0.0 && *p <= 100.0).ok_or_else(bad)?;
        let rest = rest.trim_start();
        let (of_packets, laws) = match rest.strip_prefix("of packets") {
            Some(laws) => (true, laws),
            None => (false, rest.strip_prefix("of connections").unwrap_or(rest)),
        };
        Ok(ParallelPath { percentage, of_packets, laws: values::laws(laws.trim_start())? })
    }
}

/// The flows of parallel paths and of the hops behind them.
pub(super) fn flows(paths: &[ParallelPath], hops: &[Laws]) -> Result<Vec<ImpairFlow>, CliError> {
    let of_packets = paths.first().is_some_and(|path| path.of_packets);
    if paths.iter().any(|path| path.of_packets != of_packets) {
        let accepted = "shares of connections, or shares of packets, for all of them";
        return Err(CliError::flag("--path", "shares of both", accepted));
    }
    if hops.len() >= usize::from(MAX_HOPS) {
        let accepted = format!("{} times at most", MAX_HOPS - 1);
        return Err(CliError::flag("--hop", hops.len().to_string(), &accepted));
    }
    let (mut flows, mut from) = (vec![], 0.0);
    for (path, number) in paths.iter().zip(1..) {
        // Percentages such as 33.4, 33.3 and 33.3 add up to 100, but for rounding.
        let sum: f64 = from + path.percentage;
        let to = if (sum - 100.0).abs() < 1e-9 { 100.0 } else { sum };
        if to > 100.0 {
            let accepted = "shares that add up to 100% at most";
            return Err(CliError::flag("--path", format!("{to}%"), accepted));
        }
        let share = Some(Share { from, to }.into());
        let filter = match of_packets {
            true => Filter { packet_share: share, ..Filter::default() },
            false => Filter { connection_share: share, ..Filter::default() },
        };
        flows.push(flow(format!("path {number}"), None, Some(filter), &path.laws));
        from = to;
    }
    for (laws, hop) in hops.iter().zip(2..) {
        flows.push(flow(format!("hop {hop}"), Some(hop), None, laws));
    }
    Ok(flows)
}

fn flow(name: String, hop: Option<u8>, filter: Option<Filter>, laws: &Laws) -> ImpairFlow {
    let (a_to_b, b_to_a) = (laws.clone(), laws.clone());
    ImpairFlow { name, hop, filter, a_to_b, b_to_a, ..ImpairFlow::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<ParallelPath> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn shares_follow_each_other_and_hops_are_numbered() {
        let hops = ["rate 10M".parse().unwrap(), "loss 1%".parse().unwrap()];
        let made = flows(&paths(&["30% delay 5ms", "70% of connections none"]), &hops).unwrap();
        let share =
            |n: usize| made[n].filter.as_ref()?.connection_share.map(|c| c.value.to_string());
        assert_eq!(share(0).as_deref(), Some("30%"));
        assert_eq!(share(1).as_deref(), Some("30%-100%"));
        assert_eq!(made.iter().map(ImpairFlow::hop).collect::<Vec<_>>(), [1, 1, 2, 3]);
        assert_eq!(made[3].b_to_a.to_string(), "loss 1%");
        let thirds =
            paths(&["33.4% of packets none", "33.3% of packets none", "33.3% of packets none"]);
        let made = flows(&thirds, &[]).unwrap();
        let last = made[2].filter.as_ref().unwrap().packet_share.unwrap();
        assert_eq!(last.value.to, 100.0);
    }

    #[test]
    fn what_can_not_be_divided_is_refused() {
        for bad in ["", "delay 5ms", "30%", "0% none", "130% none", "30 none", "30% of what none"] {
            assert!(bad.parse::<ParallelPath>().is_err(), "{bad}");
        }
        for (texts, hops) in [
            (&["60% none", "60% none"][..], 0),
            (&["60% none", "20% of packets none"], 0),
            (&[], 8),
        ] {
            let hops = vec![Laws::default(); hops];
            assert_eq!(
                flows(&paths(texts), &hops).unwrap_err().refusal().exit_code,
                2,
                "{texts:?}"
            );
        }
    }
}
