//! Where and how the threads of one end of a test run: no part of its plan, since it is the host's and changes nothing of what
//! is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::units::Span;

/// Linux is built for at most this many processors.
const MAX_CPUS: usize = 8192;

/// Longest time that a sending thread may spin before a slot: 10 ms.
pub const MAX_SPIN: Span = Span(10_000_000);

/// The classes that a sending thread can be asked to run in.
pub const CLASSES: [&str; 3] = ["auto", "normal", "fifo"];

/// What [`cpus`] reads.
pub const CPUS_FORM: &str = "CPU numbers such as 0, 0,2 or 1-3";

/// What [`spin`] reads.
pub const SPIN_FORM: &str = "a time up to 10ms, such as 0, 60us or 1ms; a bare number is seconds";

/// Longest list of processors: all of them one by one take 40 kB.
const MAX_CPUS_BYTES: usize = 1 << 16;

/// Processors by number, in rising order, each once: `0`, `0,2`, `1-3`. `None`: the text is none of these, longer than 64 KiB, or
/// a number is 8192 or more.
#[must_use]
pub fn cpus(text: &str) -> Option<Vec<usize>> {
    let number = |t: &str| t.trim().parse::<usize>().ok().filter(|n| *n < MAX_CPUS);
    let mut is_named = vec![false; MAX_CPUS];
    // A list of ranges each of which is all of them costs work that grows with both.
    let mut work = MAX_CPUS_BYTES;
    if text.len() > MAX_CPUS_BYTES {
        return None;
    }
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((a, b)) => number(a).zip(number(b)).filter(|(a, b)| a <= b)?,
            None => number(part).map(|n| (n, n))?,
        };
        work = work.checked_sub(last - first + 1)?;
        is_named[first..=last].fill(true);
    }
    Some((0..MAX_CPUS).filter(|&cpu| is_named[cpu]).collect())
}

/// How long a sending thread spins, 10 ms at most.
#[must_use]
pub fn spin(text: &str) -> Option<Span> {
    text.parse::<Span>().ok().filter(|span| *span <= MAX_SPIN)
}

/// The threads of the end that starts the test; the other end's are its own matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Threads {
    /// The CPUs that they run on, such as `0`, `0,2` or `1-3`. Absent: all that the process may run on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// Scheduling of threads that send paced datagrams: `auto` (real time, SCHED_FIFO, where granted and their rates are
    /// bounded), `normal`, or `fifo` (an error where it is not granted). Absent: `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<String>,
    /// How long such a thread spins before each datagram is due, 10 ms at most. Absent: 60 µs, in real time as long as
    /// wake-ups need it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin: Option<Span>,
}

impl Threads {
    /// Whether nothing is asked.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Threads::default()
    }

    /// Checks each field by itself; what the host has of it shows when the test starts.
    ///
    /// # Errors
    /// Names the field, what was given and what is accepted; `at` is the place of these settings.
    pub fn check(&self, at: &str) -> Result<(), ModelError> {
        let refuse = |field: &str, given: &dyn std::fmt::Display, accepted: &str| {
            Err(ModelError::Field {
                field: format!("{at}.{field}"),
                given: given.to_string(),
                accepted: accepted.into(),
            })
        };
        match self {
            Threads { affinity: Some(text), .. } if cpus(text).is_none() => {
                refuse("affinity", text, CPUS_FORM)
            }
            Threads { scheduling: Some(class), .. } if !CLASSES.contains(&class.as_str()) => {
                refuse("scheduling", class, "auto, normal or fifo")
            }
            Threads { spin: Some(span), .. } if *span > MAX_SPIN => {
                refuse("spin", span, "a time up to 10ms")
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_named_one_by_one_or_as_ranges() {
        assert_eq!(cpus("0"), Some(vec![0]));
        assert_eq!(cpus("3,1-2, 2"), Some(vec![1, 2, 3]));
        for bad in ["", "a", "1-", "2-1", "0,,1", "8192", "-1"] {
            assert_eq!(cpus(bad), None, "{bad}");
        }
        assert_eq!(cpus("0-8191").unwrap().len(), 8192);
        // Some bytes each, and thousands of processors.
        assert_eq!(cpus(&["0-8191"; 9].join(",")), None);
    }

    #[test]
    fn each_wrong_field_is_named() {
        let good = Threads {
            affinity: Some("0,2-3".into()),
            scheduling: Some("fifo".into()),
            spin: Some(MAX_SPIN),
        };
        good.check("test.threads").unwrap();
        let wrong = [
            (Threads { affinity: Some("x".into()), ..good.clone() }, "affinity"),
            (Threads { scheduling: Some("rr".into()), ..good.clone() }, "scheduling"),
            (Threads { spin: Some(Span(MAX_SPIN.0 + 1)), ..good }, "spin"),
        ];
        for (threads, field) in wrong {
            let refusal = crate::Refusal::from(&threads.check("test.threads").unwrap_err());
            assert_eq!(refusal.field, Some(format!("test.threads.{field}")));
        }
    }
}
