//! The line of transactions: how many were completed, how many failed and why.

use weir_model::counted;
use weir_model::metric::{are_echo, are_transfers};
use weir_model::record::{Flow, Transactions};

use super::{Items, pps, spread};

pub(super) fn transactions(items: &mut Items, flows: &[Flow]) {
    items.per_flow(
        match are_echo(flows) {
            true => "Echo requests",
            false if are_transfers(flows) => "Transfers",
            false => "Transactions",
        },
        flows,
        |f| f.transactions.as_ref().map(|t| text(t, f.transport.echoes())),
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

/// `4980 completed, 498 per second; 3 failed (3 timeout)`, of transfers `; 5000 started (asked 500 per second)`, or of echo requests `8 of 10 answered (20 % lost), …`.
fn text(t: &Transactions, is_echo: bool) -> String {
    let requests = t.completed.saturating_add(t.failed);
    let mut text = match is_echo && requests > 0 {
        true => {
            let lost = 100.0 * t.failed as f64 / requests as f64;
            format!("{} of {requests} answered ({lost:.3} % lost)", t.completed)
        }
        false => format!("{} completed", t.completed),
    };
    if let Some(rate) = t.transactions_per_second {
        text += &format!(", {} per second", pps(rate));
    }
    // The rate is that of ends: transfers that began last may take long.
    if let Some(transfers) = &t.transfers
        && let Some(asked) = transfers.asked_starts_per_second
    {
        text += &format!("; {} started (asked {} per second)", transfers.started, pps(asked));
    }
    match (t.outstanding, t.transfers.is_some()) {
        (Some(users), true) => text += &format!(", {}", counted(users, "user")),
        (Some(outstanding), false) => text += &format!(", {outstanding} at a time"),
        (None, _) => {}
    }
    if t.failed > 0 {
        let reasons: Vec<String> = t.failures.iter().map(|(why, n)| format!("{n} {why}")).collect();
        text += &format!("; {} failed ({})", t.failed, reasons.join(", "));
    }
    for (count, what) in [
        (t.late_responses, "late response"),
        (t.duplicate_responses, "duplicate response"),
        (t.reordered_responses, "reordered response"),
        (t.invalid_responses, "invalid response"),
    ] {
        if let Some(n) = count.filter(|n| *n > 0) {
            text += &format!("; {}", counted(n, what));
        }
    }
    text
}
