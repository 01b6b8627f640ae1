//! The patterns of MGEN's flows.

use weir_model::ModelError;

use crate::scripts::line::{Words, meant};
use crate::scripts::timeline::Pattern;

/// What a message is sent as, which limits its size.
#[derive(Debug, Clone, Copy)]
pub(super) enum MessageBytes {
    /// A datagram of MGEN.
    Datagram,
    /// A message of MGEN in a stream, which is not divided.
    Message,
    /// A write to a stream without messages.
    Write,
}

impl MessageBytes {
    /// Minimum and maximum, and how they are stated.
    pub(super) fn bounds(self) -> ((u64, u64), &'static str) {
        match self {
            MessageBytes::Datagram => ((28, 8192), "28 to 8192 bytes over UDP"),
            MessageBytes::Message => ((76, 65_535), "76 to 65535 bytes over TCP"),
            MessageBytes::Write => ((76, 16 << 20), "76 to 16777216 bytes over TCP"),
        }
    }
}

/// Maximum number of messages per second.
const MAX_RATE: f64 = 1e9;

/// A pattern with its sizes.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) pattern: Pattern,
    pub(super) size: String,
    pub(super) bytes: (u64, u64),
}

/// Reads the parameters of a pattern, which is PERIODIC, POISSON, JITTER or BURST.
pub(super) fn sent(name: &str, mut words: Words, of: MessageBytes) -> Result<Sent, ModelError> {
    let sent = match name {
        "PERIODIC" => {
            let rate = rate(name, &mut words)?;
            let (size, bytes) = size(name, &mut words, of)?;
            Sent { pattern: even(rate), size, bytes }
        }
        "POISSON" => {
            let rate = rate(name, &mut words)?;
            let (size, bytes) = size(name, &mut words, of)?;
            let pattern = match even(rate) {
                Pattern::Even(rate) => Pattern::Law("exponential".into(), Some(rate)),
                other => other,
            };
            Sent { pattern, size, bytes }
        }
        "JITTER" => {
            let rate = rate(name, &mut words)?;
            let (size, bytes) = size(name, &mut words, of)?;
            let fraction = words.number(name, 0.0, 0.5, "a fraction of 0 to 0.5")?;
            let pattern = match even(rate) {
                Pattern::Even(rate) if fraction > 0.0 => {
                    Pattern::Law(uniform(rate, fraction), None)
                }
                other => other,
            };
            Sent { pattern, size, bytes }
        }
        _ => burst(&mut words, of)?,
    };
    match words.next() {
        None => Ok(sent),
        Some(more) => Err(words.refused(name, more, "no more parameters")),
    }
}

/// Messages per second; −1: no limit.
fn rate(name: &str, words: &mut Words) -> Result<f64, ModelError> {
    let accepted = "0 to 1000000000 messages per second, or -1: no limit";
    let rate = words.number(name, -1.0, MAX_RATE, accepted)?;
    match rate {
        0.0.. => Ok(rate),
        -1.0 => Ok(rate),
        _ => Err(words.refused(name, &rate.to_string(), accepted)),
    }
}

fn even(rate: f64) -> Pattern {
    match rate {
        0.0 => Pattern::Silent,
        rate if rate < 0.0 => Pattern::Unlimited,
        rate => Pattern::Even(rate),
    }
}

/// A size, or its range.
fn size(
    name: &str,
    words: &mut Words,
    of: MessageBytes,
) -> Result<(String, (u64, u64)), ModelError> {
    let ((least, most), accepted) = of.bounds();
    let text = words.value(name, accepted)?;
    let (min, max) = text.split_once(':').unwrap_or((text, text));
    let bounds = min.parse::<u64>().ok().zip(max.parse::<u64>().ok());
    match bounds.filter(|(min, max)| *min >= least && min <= max && *max <= most) {
        Some((min, max)) if min == max => Ok((min.to_string(), (min, max))),
        Some((min, max)) => Ok((format!("{min}..{max}"), (min, max))),
        None => Err(words.refused(name, text, accepted)),
    }
}

/// The law of intervals that differ from their mean by up to a fraction of it.
fn uniform(rate: f64, fraction: f64) -> String {
    let bound = |factor: f64| (factor * 1e9 / rate).round();
    format!("uniform(min={}ns, max={}ns)", bound(1.0 - fraction), bound(1.0 + fraction))
}

/// Bursts: the intervals within one, and the time from the start of one to that of the next. If they overlap there is no pause.
fn burst(words: &mut Words, of: MessageBytes) -> Result<Sent, ModelError> {
    const NAME: &str = "BURST";
    let kind = words.value(NAME, "REGULAR or RANDOM")?;
    let is_regular = match meant(kind, &["REGULAR", "RANDOM"]) {
        Some(kind) => kind == "REGULAR",
        None => return Err(words.refused(NAME, kind, "REGULAR or RANDOM")),
    };
    let interval = words.number(NAME, 0.0, 3600.0, "an interval of 0 to 3600 seconds")?;
    let word = words.value(NAME, "a pattern")?;
    let accepted = "PERIODIC, POISSON or JITTER with a rate above 0";
    let name = meant(word, &["PERIODIC", "POISSON", "JITTER"]);
    let name = name.ok_or_else(|| words.refused(NAME, word, accepted))?;
    let inner = sent(name, Words::new(words.line, words.parameters(name)?), of)?;
    let accepted_kinds = "FIXED or EXPONENTIAL";
    let kind = words.value(NAME, accepted_kinds)?;
    let length = words.number(NAME, 0.0, 3600.0, "a duration of 0 to 3600 seconds")?;
    let is_fixed = match meant(kind, &["FIXED", "EXPONENTIAL"]) {
        Some(kind) => kind == "FIXED",
        None => return Err(words.refused(NAME, kind, accepted_kinds)),
    };
    let (within, mean) = match &inner.pattern {
        Pattern::Even(rate) => (format!("{}ns", (1e9 / rate).round()), 1.0 / rate),
        Pattern::Law(law, Some(rate)) if law == "exponential" => {
            (format!("exponential(mean={}ns)", (1e9 / rate).round()), 1.0 / rate)
        }
        // Uniform: its mean is far below the length in any sensible script.
        Pattern::Law(law, None) => (law.clone(), 0.0),
        _ => return Err(words.refused(NAME, word, accepted)),
    };
    if interval == 0.0 || is_regular && is_fixed && interval <= length {
        return Ok(inner);
    }
    if length < mean {
        return Err(words.refused(
            NAME,
            &length.to_string(),
            "a duration of at least one interval",
        ));
    }
    let lasting = |seconds: f64, is_constant: bool| {
        let ns = (seconds * 1e9).round();
        if is_constant { format!("{ns}ns") } else { format!("exponential(mean={ns}ns)") }
    };
    let (on, period) = (lasting(length, is_fixed), lasting(interval, is_regular));
    let law = format!("on_off(on={on}, period={period}, interval={within})");
    Ok(Sent { pattern: Pattern::Law(law, None), ..inner })
}
