//! The line of transactions: how many were completed, how many failed and why.

use weir_model::counted;
use weir_model::record::{Flow, Transactions};

use super::{Items, pps, spread};

pub(super) fn transactions(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        "Transactions",
        flows,
        |f| f.transactions.as_ref().map(text),
        |flows| {
            let all = || flows.iter().filter_map(|f| f.transactions.as_ref());
            let rates = all().filter_map(|t| t.transactions_per_second);
            let mut text = format!("per second: {}", spread(rates, pps)?);
            let failed = all().map(|t| t.failed).fold(0, u64::saturating_add);
            if failed > 0 {
                text += &format!("; {failed} failed");
            }
            Some(text)
        },
    );
}

/// `4980 completed, 498 per second; 3 failed (3 timeout)`.
fn text(t: &Transactions) -> String {
    let mut text = format!("{} completed", t.completed);
    if let Some(rate) = t.transactions_per_second {
        text += &format!(", {} per second", pps(rate));
    }
    if let Some(outstanding) = t.outstanding {
        text += &format!(", {outstanding} at a time");
    }
    if t.failed > 0 {
        let reasons: Vec<String> = t.failures.iter().map(|(why, n)| format!("{n} {why}")).collect();
        text += &format!("; {} failed ({})", t.failed, reasons.join(", "));
    }
    for (count, what) in [
        (t.late_responses, "late response"),
        (t.duplicate_responses, "duplicate response"),
        (t.invalid_responses, "invalid response"),
    ] {
        if let Some(n) = count.filter(|n| *n > 0) {
            text += &format!("; {}", counted(n, what));
        }
    }
    text
}
