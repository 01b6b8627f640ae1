//! Lines of transfers: their volume, how many ran at the same time, those without an end, and completion times by volume.

use weir_model::counted;
use weir_model::record::{Flow, Pages, TransferClass, Transfers};

use super::{Items, pps, spread};
use crate::number::{Units, duration, significant, volume};

fn of(flow: &Flow) -> Option<&Transfers> {
    flow.transactions.as_ref()?.transfers.as_ref()
}

/// The line of pages: `12 loaded, 0.2 per second, 6.6 objects each; 1 failed; 2 unfinished`.
pub(super) fn pages(items: &mut Items, flows: &[Flow]) {
    items.per_flow("Pages", flows, |flow| of_pages(flow).map(pages_text), all_pages);
}

fn of_pages(flow: &Flow) -> Option<&Pages> {
    of(flow)?.pages.as_ref()
}

/// The sums over all flows.
fn all_pages(flows: &[Flow]) -> Option<String> {
    let sum = |count: fn(&Pages) -> u64| {
        flows.iter().filter_map(of_pages).map(count).fold(0, u64::saturating_add)
    };
    flows.iter().find_map(of_pages)?;
    let without = without_load_time(sum(|p| p.failed), sum(|p| p.unfinished));
    Some(format!("{} loaded{without}", sum(|p| p.loaded)))
}

fn pages_text(pages: &Pages) -> String {
    let mut text = format!("{} loaded", pages.loaded);
    if let Some(rate) = pages.pages_per_second {
        text += &format!(", {} per second", pps(rate));
    }
    if let Some(mean) = pages.mean_objects {
        text += &format!(", {} objects each", significant(mean));
    }
    text + &without_load_time(pages.failed, pages.unfinished)
}

fn without_load_time(failed: u64, unfinished: u64) -> String {
    let counts = [(failed, "failed"), (unfinished, "unfinished")];
    counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("; {n} {what}")).collect()
}

pub(super) fn transfers(items: &mut Items, flows: &[Flow]) {
    let units = items.options.units;
    items.per_flow(
        "  volume",
        flows,
        |f| of(f).map(|t| text(t, units)),
        |flows| {
            let goodput = flows.iter().filter_map(|f| of(f)?.goodput_bits_per_second);
            Some(format!("goodput {}", spread(goodput, |bits| units.rate(bits))?))
        },
    );
    let classes = flows.iter().filter_map(of).map(|t| t.classes.len()).max().unwrap_or(0);
    for i in 0..classes {
        let class = |f: &Flow| of(f)?.classes.get(i).filter(|class| class.completed > 0).cloned();
        let Some(label) = flows.iter().find_map(|f| of(f)?.classes.get(i).map(label)) else {
            continue;
        };
        items.per_flow(
            &label,
            flows,
            |f| class(f).map(|class| times(&class)),
            |flows| {
                let p50 = flows.iter().filter_map(|f| class(f)?.completion_time?.p50_seconds);
                Some(format!("p50 {}", spread(p50, duration)?))
            },
        );
    }
}

/// `12.3 MB, goodput 9.8 Mbit/s; 2.1 at the same time, at most 9; 3 not started; 1 unfinished (40 kB of it)`.
fn text(t: &Transfers, units: Units) -> String {
    let mut text = volume(t.completed_bytes);
    if let Some(bits) = t.goodput_bits_per_second {
        text += &format!(", goodput {}", units.rate(bits));
    }
    if let Some(rate) = t.asked_bits_per_second {
        text += &format!(", each sent at {}", units.rate(rate as f64));
    }
    if let Some(mean) = t.mean_concurrent {
        text += &format!("; {} at the same time, at most {}", significant(mean), t.max_concurrent);
    }
    if let Some(lossy) = t.with_loss.filter(|n| *n > 0) {
        text += &format!("; {lossy} with loss");
    }
    if t.not_started > 0 {
        text += &format!("; {} not started", t.not_started);
    }
    if t.unfinished > 0 {
        text += &format!(
            "; {} unfinished ({} of them moved)",
            t.unfinished,
            volume(t.unfinished_bytes)
        );
    }
    text
}

/// `  < 100 kB`, for the label of a line.
fn label(class: &TransferClass) -> String {
    let bytes = |bytes: u64| match bytes {
        1_000_000.. => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} kB", bytes / 1000),
    };
    match class.below_bytes {
        Some(below) => format!("  below {}", bytes(below)),
        None => format!("  from {}", bytes(class.from_bytes)),
    }
}

fn times(class: &TransferClass) -> String {
    let mut text = counted(class.completed, "transfer");
    let Some(times) = &class.completion_time else { return text };
    text += &format!(", mean {}", duration(times.mean_seconds));
    for (name, value) in [("p50", times.p50_seconds), ("p99", times.p99_seconds)] {
        if let Some(value) = value {
            text += &format!(", {name} {}", duration(value));
        }
    }
    text + &format!(", max {}", duration(times.max_seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::Transactions;

    fn flow(loaded: u64, failed: u64, unfinished: u64) -> Flow {
        let pages = Some(Pages { loaded, failed, unfinished, ..Pages::default() });
        let transfers = Some(Transfers { pages, ..Transfers::default() });
        let transactions = Some(Transactions { transfers, ..Transactions::default() });
        Flow { transactions, ..Flow::default() }
    }

    #[test]
    fn pages_of_many_flows_are_summed() {
        let flows = [flow(3, 1, 0), Flow::default(), flow(4, 0, 2)];
        assert_eq!(all_pages(&flows).as_deref(), Some("7 loaded; 1 failed; 2 unfinished"));
        assert_eq!(all_pages(&flows[..1]).as_deref(), Some("3 loaded; 1 failed"));
        assert_eq!(all_pages(&flows[1..2]), None);
    }
}
