//! Lines of the laws of payload sizes, intervals, volumes and pauses: the bounds to which their draws were clamped, the mean that follows from
//! these, and the mean of what was sent.

use std::fmt::Display;

use weir_model::record::{Flow, SizeDraws, TimeDraws, Transfers};

use super::{Items, spread};
use crate::number::duration;

pub(super) fn laws(items: &mut Items, flows: &[Flow]) {
    let sizes = |f: &Flow| {
        let (law, draws) = (f.payload_law.as_ref()?, f.payload_draws.as_ref()?);
        Some(of_sizes(law, draws))
    };
    let sent_bytes = |f: &Flow| f.sender.as_ref()?.mean_payload_bytes;
    line(items, "Payload law", flows, sizes, sent_bytes, bytes);
    let intervals = |f: &Flow| {
        let (law, draws) = (f.spacing_law.as_ref()?, f.spacing_draws.as_ref()?);
        Some(of_times(law, draws))
    };
    let sent_seconds = |f: &Flow| f.sender.as_ref()?.mean_spacing_seconds;
    line(items, "Interval law", flows, intervals, sent_seconds, duration);
    let volumes = |f: &Flow| {
        let t = transfers_of(f)?;
        Some(of_sizes(t.volume_law.as_ref()?, t.volume_draws.as_ref()?))
    };
    let mean_volume = |f: &Flow| transfers_of(f)?.mean_volume_bytes;
    line(items, "Volume law", flows, volumes, mean_volume, bytes);
    let pauses = |f: &Flow| {
        let t = transfers_of(f)?;
        Some(of_times(t.pause_law.as_ref()?, t.pause_draws.as_ref()?))
    };
    let mean_pause = |f: &Flow| transfers_of(f)?.mean_pause_seconds;
    line(items, "Pause law", flows, pauses, mean_pause, duration);
}

fn transfers_of(flow: &Flow) -> Option<&Transfers> {
    flow.transactions.as_ref()?.transfers.as_ref()
}

/// The line of a law: `law` states it, `actual` is the mean of what was drawn.
fn line(
    items: &mut Items,
    label: &str,
    flows: &[Flow],
    law: impl Fn(&Flow) -> Option<String>,
    actual: impl Fn(&Flow) -> Option<f64>,
    show: impl Fn(f64) -> String,
) {
    let one = |f: &Flow| {
        let actual = actual(f).map(|mean| format!(", {} actual", show(mean)));
        Some(law(f)? + &actual.unwrap_or_default())
    };
    items.per_flow(label, flows, one, |flows| {
        let mut laws: Vec<String> = flows.iter().filter_map(&law).collect();
        laws.dedup();
        let text = match &laws[..] {
            [] => return None,
            [one] => one.clone(),
            several => format!("{} laws", several.len()),
        };
        let actual = spread(flows.iter().filter_map(&actual), &show);
        Some(text + &actual.map(|mean| format!(", actual {mean}")).unwrap_or_default())
    });
}

/// `normal(mean=1000, deviation=600) clamped to at least 32 bytes: mean 1012.3 bytes by the law`.
pub(super) fn of_sizes(law: &impl Display, draws: &SizeDraws) -> String {
    let bounds = (draws.clamp_min_bytes, draws.clamp_max_bytes);
    let clamp = clamped(bounds, |bytes| format!("{bytes} bytes"));
    format!("{law}{clamp}: mean {} by the law", bytes(draws.mean_bytes))
}

/// `exponential(mean=1ms): mean 1 ms by the law`; without the mean if it is unknown.
pub(super) fn of_times(law: &impl Display, draws: &TimeDraws) -> String {
    let clamp = clamped((draws.clamp_min_seconds, draws.clamp_max_seconds), duration);
    let mean = draws.mean_seconds.map(|mean| format!(": mean {} by the law", duration(mean)));
    format!("{law}{clamp}{}", mean.unwrap_or_default())
}

fn clamped<T>(bounds: (Option<T>, Option<T>), show: impl Fn(T) -> String) -> String {
    match bounds {
        (None, None) => String::new(),
        (Some(min), None) => format!(" clamped to at least {}", show(min)),
        (None, Some(max)) => format!(" clamped to at most {}", show(max)),
        (Some(min), Some(max)) => format!(" clamped to {} to {}", show(min), show(max)),
    }
}

pub(super) fn bytes(mean: f64) -> String {
    format!("{mean:.1} bytes")
}

#[cfg(test)]
mod tests {
    use weir_model::record::Sender;

    use super::super::TextOptions;
    use super::*;

    #[test]
    fn a_law_has_its_bounds_and_both_means() {
        let of = |clamp_min_bytes, clamp_max_bytes| {
            let draws = SizeDraws { mean_bytes: 1012.34, clamp_min_bytes, clamp_max_bytes };
            of_sizes(&"x", &draws)
        };
        assert_eq!(of(None, None), "x: mean 1012.3 bytes by the law");
        assert!(of(Some(32), None).contains("at least 32 bytes"));
        assert!(of(None, Some(1400)).contains("at most 1400 bytes"));
        assert!(of(Some(32), Some(1400)).contains("32 bytes to 1400 bytes"));
        let mut flow = Flow {
            payload_law: Some("normal(mean=1000, deviation=600)".parse().unwrap()),
            payload_draws: Some(SizeDraws { mean_bytes: 1012.34, ..SizeDraws::default() }),
            ..Flow::default()
        };
        let text = |flow: &Flow| {
            let options = &TextOptions::default();
            let mut items = Items { out: String::new(), options, each: true };
            laws(&mut items, std::slice::from_ref(flow));
            items.out
        };
        assert!(text(&flow).ends_with("by the law\n"), "nothing was sent");
        let mean_payload_bytes = Some(998.76);
        flow.sender = Some(Sender { mean_payload_bytes, ..Sender::default() });
        assert!(text(&flow).ends_with("by the law, 998.8 bytes actual\n"));
        assert_eq!(text(&Flow::default()), "");
    }
}
