//! CPU affinity and scheduling of the threads of one end. They are not part of the plan, because they depend
//! on the host and do not change what is sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::units::Span;

/// Maximum number of processors that Linux supports.
const MAX_CPUS: usize = 8192;

/// Maximum time that a sending thread may spin before a slot: 10 ms.
pub(crate) const MAX_SPIN: Span = Span(10_000_000);

/// Scheduling classes of sending threads.
pub(crate) const CLASSES: [&str; 3] = ["auto", "normal", "fifo"];

/// The form that [`cpus`] accepts.
pub const CPUS_FORM: &str = "CPU numbers such as 0, 0,2 or 1-3";

/// The form that [`spin`] accepts.
pub const SPIN_FORM: &str = "a time up to 10ms, such as 0, 60us or 1ms; a bare number is seconds";

/// Maximum length of a list of processors; a list of all of them takes 40 kB.
const MAX_CPUS_BYTES: usize = 1 << 16;

/// Parses a list of processors such as `0`, `0,2` or `1-3` into sorted, distinct numbers. `None` if the text
/// is malformed or longer than 64 KiB, or a number is 8192 or more.
#[must_use]
pub fn cpus(text: &str) -> Option<Vec<usize>> {
    let number = |t: &str| t.trim().parse::<usize>().ok().filter(|n| *n < MAX_CPUS);
    let mut is_named = vec![false; MAX_CPUS];
    // Many ranges over all processors would cost work that grows with both numbers.
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

/// Parses the time that a sending thread spins, at most 10 ms.
#[must_use]
pub fn spin(text: &str) -> Option<Span> {
    text.parse::<Span>().ok().filter(|span| *span <= MAX_SPIN)
}

/// Settings for the threads of the end that starts the test; the other end has its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Threads {
    /// CPUs to run on, such as `0`, `0,2` or `1-3`. Absent: all CPUs that the process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// Scheduling of threads that send paced datagrams: `auto` (real time, SCHED_FIFO, where granted and their rates are
    /// bounded), `normal`, or `fifo` (an error where it is not granted). Absent: `auto`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<String>,
    /// How long such a thread spins before each datagram is due, at most 10 ms. Absent: 60 µs, or under
    /// real-time scheduling as long as wake-ups need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin: Option<Span>,
}

impl Threads {
    /// Whether all settings are the defaults.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Threads::default()
    }

    /// Checks each field alone; whether the host supports it shows when the test starts.
    ///
    /// # Errors
    /// [`ModelError`] with the field, the given value and the accepted values; `at` is the path of these
    /// settings.
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
    fn processor_lists_have_numbers_and_ranges() {
        assert_eq!(cpus("0"), Some(vec![0]));
        assert_eq!(cpus("3,1-2, 2"), Some(vec![1, 2, 3]));
        for bad in ["", "a", "1-", "2-1", "0,,1", "8192", "-1"] {
            assert_eq!(cpus(bad), None, "{bad}");
        }
        assert_eq!(cpus("0-8191").unwrap().len(), 8192);
        // Short text for thousands of processors.
        assert_eq!(cpus(&["0-8191"; 9].join(",")), None);
    }

    #[test]
    fn errors_name_the_field() {
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
