//! The line of echoes: what came back, and in which direction the rest was lost.

use weir_model::counted;
use weir_model::record::{Echo, Flow};

use super::{Items, spread};
use crate::number::{Units, percent, volume};

pub(super) fn echoes(items: &mut Items, flows: &[Flow]) {
    let units = items.options.units;
    items.per_flow(
        "Echo",
        flows,
        |f| f.echo.as_ref().map(|echo| text(echo, units)),
        |flows| {
            let rates = flows.iter().filter_map(|f| f.echo.as_ref()?.bits_per_second);
            let mut text = format!("came back: {}", spread(rates, |bits| units.rate(bits))?);
            let lost = flows.iter().filter_map(|f| f.echo.as_ref()?.lost_packets);
            match lost.fold(0, u64::saturating_add) {
                0 => {}
                lost => text += &format!("; {lost} lost"),
            }
            Some(text)
        },
    );
}

/// `990 of 1000 packets came back, 9.8 Mbit/s; 10 lost (1 %): 6 forward, 4 back; 1 duplicate`.
fn text(echo: &Echo, units: Units) -> String {
    let mut text = match echo.lost_packets {
        Some(lost) => {
            let sent = echo.packets.saturating_add(lost);
            format!("{} of {} came back", echo.packets, counted(sent, "packet"))
        }
        None => format!("{} came back", volume(echo.bytes)),
    };
    if let Some(rate) = echo.bits_per_second {
        text += &format!(", {}", units.rate(rate));
    }
    if let Some(most) = echo.most_bytes {
        text += &format!(", cut to {most} B");
    }
    if let Some(lost) = echo.lost_packets.filter(|lost| *lost > 0) {
        text += &format!("; {lost} lost");
        if let Some(ratio) = echo.loss_ratio {
            text += &format!(" ({})", percent(ratio));
        }
        let parts = [
            (echo.lost_forward_packets, "forward"),
            (echo.unsent_packets.filter(|n| *n > 0), "not sent by the server"),
            (echo.lost_back_packets, "back"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter_map(|(count, what)| Some(format!("{} {what}", count?)))
            .collect();
        if !parts.is_empty() {
            text += &format!(": {}", parts.join(", "));
        }
    }
    for (count, noun, rest) in [
        (echo.undelivered_bytes, "byte", " missing"),
        (echo.bit_errors, "bit error", ""),
        (echo.corrupted_packets, "corrupted packet", ""),
        (echo.duplicate_packets, "duplicate packet", ""),
        (echo.reordered_packets, "reordered packet", ""),
        (echo.late_packets, "late packet", ""),
        (echo.socket_dropped_packets, "packet", " dropped by the client's socket"),
    ] {
        if let Some(n) = count.filter(|n| *n > 0) {
            text += &format!("; {}{rest}", counted(n, noun));
        }
    }
    text
}
