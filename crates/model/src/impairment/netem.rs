//! netem's words, as `tc qdisc add dev eth0 root netem …` takes them, translated to laws (tc-netem(8); units: tc(8)).
//!
//! The translation is written as a line of laws and read by their own parser, so that it is what a user could have typed.

use std::str::FromStr;

use super::{Cells, Laws};
use crate::ModelError;
use crate::units::{Seed, Span};

/// What netem's `limit` is unless stated.
const DEFAULT_LIMIT: u64 = 1000;
/// netem counts the Ethernet header as part of a packet.
const HEADER_BYTES: i64 = 14;
const OPTIONS: &str = "netem's options: delay, distribution, loss, ecn, duplicate, corrupt, reorder, gap, rate, limit, slot, seed";
const TIME: &str =
    "a time as tc reads it, such as 40ms, 1.5s or 100us; a bare number is microseconds";
const RATE: &str = "a rate as tc reads it, such as 10mbit, 512kbit or 100kbps, which is bytes per second; a bare number is bit/s";
const PERCENT: &str = "a percentage from 0 to 100, such as 1%";
const COUNT: &str = "a whole number";
const SIZE: &str = "a size as tc reads it, such as 3000, 10k or 1mb; k is 1024";
const DISTRIBUTION: &str =
    "uniform, normal, pareto or paretonormal; delays from a file: --both 'delay @FILE'";
const LOSS: &str = "loss P% [P%], loss state P% …, loss gemodel P% …";

/// Words of netem, and what they mean here.
#[derive(Clone, Debug, PartialEq)]
pub struct Netem {
    /// The laws of one direction.
    pub laws: Laws,
    /// The seed, if the words state one.
    pub seed: Option<Seed>,
    /// What is different here from netem, a sentence each.
    pub differences: Vec<String>,
}

/// Values of an option with an optional correlation, in percent.
type Correlated = (f64, Option<f64>);

/// What the words state.
#[derive(Default)]
struct Options {
    delay: Option<(Span, Span, Option<f64>)>,
    distribution: Option<&'static str>,
    loss: Option<String>,
    loss_correlation: bool,
    ecn: bool,
    duplicate: Option<Correlated>,
    corrupt: Option<Correlated>,
    reorder: Option<Correlated>,
    gap: Option<u64>,
    rate: Option<(u64, i64, Option<Cells>)>,
    limit: Option<u64>,
    slot: Option<String>,
    seed: Option<Seed>,
    differences: Vec<String>,
}

/// Reads words from left to right.
struct Reader<'a> {
    words: &'a [&'a str],
}

fn refused(given: &str, accepted: &'static str) -> ModelError {
    ModelError::Value { what: "netem", given: given.to_owned(), accepted }
}

/// A number, and the unit behind it in lower case.
fn number(word: &str) -> Option<(f64, String)> {
    let end = word.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(word.len());
    let (digits, unit) = word.split_at(end);
    let value = digits.parse::<f64>().ok().filter(|value| value.is_finite())?;
    Some((value, unit.to_ascii_lowercase()))
}

fn span(word: &str) -> Option<Span> {
    let (value, unit) = number(word)?;
    let factor = match unit.as_str() {
        "s" | "sec" | "secs" => 1e9,
        "ms" | "msec" | "msecs" => 1e6,
        "us" | "usec" | "usecs" | "" => 1e3,
        "ns" | "nsec" | "nsecs" => 1.0,
        _ => return None,
    };
    let ns = (value * factor).round();
    // More than an hour is refused with the law.
    (ns < 1e18).then_some(Span(ns as u64))
}

/// A rate in bit/s, and whether the unit was bytes.
fn rate(word: &str) -> Option<(u64, bool)> {
    let (value, unit) = number(word)?;
    let (prefix, factor) = match unit.strip_suffix("bps") {
        Some(prefix) => (prefix, 8.0),
        None => (unit.strip_suffix("bit").unwrap_or(&unit), 1.0),
    };
    let scale = match prefix {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "t" => 1e12,
        "ki" => 1024.0,
        "mi" => 1024f64.powi(2),
        "gi" => 1024f64.powi(3),
        "ti" => 1024f64.powi(4),
        _ => return None,
    };
    let bits = (value * factor * scale).round();
    (bits < 1e18).then_some((bits as u64, factor > 1.0))
}

fn size(word: &str) -> Option<u64> {
    let (value, unit) = number(word)?;
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1024.0,
        "m" | "mb" => 1024f64.powi(2),
        "g" | "gb" => 1024f64.powi(3),
        "kbit" => 128.0,
        "mbit" => 128.0 * 1024.0,
        _ => return None,
    };
    let bytes = (value * factor).round();
    (bytes < 1e18).then_some(bytes as u64)
}

fn percent(word: &str) -> Option<f64> {
    let value = word.strip_suffix('%').unwrap_or(word).parse::<f64>().ok()?;
    (0.0..=100.0).contains(&value).then_some(value)
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn took(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.next();
        }
        found
    }

    /// The next word as a value that must be there.
    fn value<T>(
        &mut self,
        option: &str,
        read: impl Fn(&str) -> Option<T>,
        accepted: &'static str,
    ) -> Result<T, ModelError> {
        let word =
            self.next().ok_or_else(|| refused(&format!("{option} without a value"), accepted))?;
        read(word).ok_or_else(|| refused(&format!("{option} {word}"), accepted))
    }

    /// The next word as a value, if it begins like a number.
    fn optional<T>(
        &mut self,
        option: &str,
        read: impl Fn(&str) -> Option<T>,
        accepted: &'static str,
    ) -> Result<Option<T>, ModelError> {
        let is_number =
            |word: &&str| word.starts_with(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        if !self.words.first().is_some_and(is_number) {
            return Ok(None);
        }
        self.value(option, read, accepted).map(Some)
    }

    fn percentage(&mut self, option: &str) -> Result<f64, ModelError> {
        self.value(option, percent, PERCENT)
    }

    fn more_percentages(&mut self, option: &str) -> Result<Vec<f64>, ModelError> {
        let mut found = vec![];
        while let Some(value) = self.optional(option, percent, PERCENT)? {
            found.push(value);
        }
        Ok(found)
    }

    /// A percentage with an optional correlation.
    fn correlated(&mut self, option: &str) -> Result<Correlated, ModelError> {
        Ok((self.percentage(option)?, self.optional(option, percent, PERCENT)?))
    }

    fn count(&mut self, option: &str) -> Result<u64, ModelError> {
        self.value(option, |word| word.parse().ok(), COUNT)
    }

    fn distribution(&mut self) -> Result<&'static str, ModelError> {
        let known = |word: &str| {
            ["uniform", "normal", "paretonormal", "pareto"].into_iter().find(|name| *name == word)
        };
        self.value("distribution", known, DISTRIBUTION)
    }

    fn options(&mut self) -> Result<Options, ModelError> {
        let mut o = Options::default();
        while let Some(name) = self.next() {
            match name {
                "delay" | "latency" => {
                    let mean = self.value(name, span, TIME)?;
                    let jitter = self.optional(name, span, TIME)?;
                    let correlation = match jitter {
                        Some(_) => self.optional(name, percent, PERCENT)?,
                        None => None,
                    };
                    o.delay = Some((mean, jitter.unwrap_or(Span(0)), correlation));
                }
                "distribution" => o.distribution = Some(self.distribution()?),
                "loss" | "drop" => self.loss(&mut o)?,
                "ecn" => o.ecn = true,
                "duplicate" => o.duplicate = Some(self.correlated(name)?),
                "corrupt" => o.corrupt = Some(self.correlated(name)?),
                "reorder" => o.reorder = Some(self.correlated(name)?),
                "gap" => o.gap = Some(self.count(name)?),
                "limit" => o.limit = Some(self.count(name)?),
                "seed" => o.seed = Some(Seed(self.count(name)?)),
                "rate" => self.rate(&mut o)?,
                "slot" => self.slot(&mut o)?,
                other => return Err(refused(other, OPTIONS)),
            }
        }
        Ok(o)
    }

    fn loss(&mut self, o: &mut Options) -> Result<(), ModelError> {
        if self.took("state") {
            let first = self.percentage("loss state")?;
            let names = ["p31", "p32", "p23", "p14"];
            let mut text = format!("four_state(p13_percentage={first}");
            let more = self.more_percentages("loss state")?;
            if more.len() > names.len() {
                return Err(refused("loss state with more than five values", LOSS));
            }
            for (name, value) in names.iter().zip(&more) {
                text += &format!(", {name}_percentage={value}");
            }
            o.loss = Some(text + ")");
        } else if self.took("gemodel") {
            let first = self.percentage("loss gemodel")?;
            let names = ["to-good", "bad", "good"];
            let mut text = format!("ge {first}%");
            let more = self.more_percentages("loss gemodel")?;
            if more.len() > names.len() {
                return Err(refused("loss gemodel with more than four values", LOSS));
            }
            for (name, value) in names.iter().zip(&more) {
                text += &format!(" {name} {value}%");
            }
            o.loss = Some(text);
        } else {
            self.took("random");
            let (mean, correlation) = self.correlated("loss")?;
            o.loss = Some(with_correlation(mean, correlation));
            o.loss_correlation = correlation.is_some_and(|c| c > 0.0);
        }
        Ok(())
    }

    fn rate(&mut self, o: &mut Options) -> Result<(), ModelError> {
        let (bits, is_bytes) = self.value("rate", rate, RATE)?;
        if is_bytes {
            o.differences.push(format!(
                "tc reads bps as bytes per second: the rate is {} bit/s.",
                crate::units::BitRate(bits)
            ));
        }
        let whole = |word: &str| word.parse::<i64>().ok();
        let overhead = self.optional("rate", whole, COUNT)?.unwrap_or(0);
        let small = |word: &str| word.parse::<u32>().ok();
        let payload = self.optional("rate", small, COUNT)?.unwrap_or(0);
        let header = self.optional("rate", small, COUNT)?.unwrap_or(0);
        // A size of 0 is no cells.
        let cells = (payload > 0).then_some(Cells { payload, header });
        o.rate = Some((bits, overhead, cells));
        Ok(())
    }

    fn slot(&mut self, o: &mut Options) -> Result<(), ModelError> {
        let is_distribution = self.took("distribution");
        let name = if is_distribution { self.distribution()? } else { "uniform" };
        let first = self.value("slot", span, TIME)?;
        let second = self.optional("slot", span, TIME)?;
        let interval = match (is_distribution, second) {
            (_, None) => first.to_string(),
            (true, Some(jitter)) => spread(first, jitter, name, "slot")?,
            (false, Some(max)) => format!("uniform(min={first}, max={max})"),
        };
        let mut text = format!("batch slots(interval={interval}");
        while let Some(word) = ["packets", "bytes"].into_iter().find(|word| self.took(word)) {
            let most =
                if word == "packets" { self.count(word)? } else { self.value(word, size, SIZE)? };
            // 0 is no limit.
            if most > 0 {
                text += &format!(", {word}={most}");
            }
        }
        o.slot = Some(text + ")");
        Ok(())
    }
}

/// A percentage and its correlation, as terms have them.
fn with_correlation(mean: f64, correlation: Option<f64>) -> String {
    match correlation.filter(|c| *c > 0.0) {
        Some(correlation) => format!("{mean}% {correlation}%"),
        None => format!("{mean}%"),
    }
}

/// A law in parentheses with this mean and jitter, as [`super::Timing`] has them.
fn spread(mean: Span, jitter: Span, name: &str, option: &str) -> Result<String, ModelError> {
    match name {
        _ if jitter.0 == 0 => Ok(mean.to_string()),
        "uniform" => {
            let (min, max) = (mean.0.saturating_sub(jitter.0), mean.0.saturating_add(jitter.0));
            Ok(format!("uniform(min={}, max={})", Span(min), Span(max)))
        }
        "normal" => Ok(format!("normal(mean={mean}, deviation={jitter})")),
        _ => Err(refused(
            &format!("{option} with distribution {name}"),
            "distribution uniform or normal here",
        )),
    }
}

impl Options {
    /// The terms of all options; the differences are added to.
    fn terms(&mut self) -> Result<Vec<String>, ModelError> {
        let mut terms = vec![];
        if self.ecn && self.loss.is_none() {
            return Err(refused("ecn without loss", "loss P% ecn"));
        }
        if let Some(loss) = &self.loss {
            terms.push(format!("loss {loss}{}", if self.ecn { " ecn" } else { "" }));
            if self.loss_correlation {
                self.differ("The correlation keeps the mean loss; netem's lowers it, at small percentages to almost none.");
            }
        }
        if let Some((mean, correlation)) = self.duplicate {
            terms.push(format!("duplicate {}", with_correlation(mean, correlation)));
            self.differ("Copies pass only the stages after duplication; netem's pass all of them again. A packet that is lost leaves no copy; netem's does.");
        }
        self.rate_and_delay(&mut terms)?;
        if let Some(slot) = &self.slot {
            terms.push(slot.clone());
            self.differ("Slots are at fixed times, the first at the first packet; in netem a packet that has missed a slot waits for a whole interval.");
        }
        if let Some((mean, correlation)) = self.corrupt {
            terms.push(format!("corrupt {mean}% flip 1 at l2"));
            if correlation.is_some_and(|c| c > 0.0) {
                self.differ(
                    "Packets are corrupted independently: the correlation of corrupt is ignored.",
                );
            }
        }
        if terms.is_empty() {
            terms.push("none".into());
        }
        Ok(terms)
    }

    fn differ(&mut self, sentence: &str) {
        self.differences.push(sentence.to_owned());
    }

    fn rate_and_delay(&mut self, terms: &mut Vec<String>) -> Result<(), ModelError> {
        let (mean, jitter, correlation) = self.delay.unwrap_or((Span(0), Span(0), None));
        let correlation = correlation.filter(|c| *c > 0.0);
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        // With a rate netem keeps the order: each packet is sent when the one before it has left.
        let policy = if self.rate.is_some() { "max" } else { "allow" };
        if let Some((bits, overhead, cells)) = self.rate {
            let overhead = HEADER_BYTES + overhead;
            if !(0..=1000).contains(&overhead) {
                return Err(refused(
                    &format!("an overhead of {}", overhead - HEADER_BYTES),
                    "-14 to 986 bytes",
                ));
            }
            let cells = cells.map_or(String::new(), |cells| format!(" cells {cells}"));
            // netem's limit includes the packet in transmission.
            let waiting = limit.saturating_sub(1);
            terms.push(format!("rate {bits} queue {waiting}packets overhead {overhead}{cells}"));
            if mean.0 > 0 {
                self.differ("The limit counts packets that wait for the link; netem's counts delayed ones too.");
            }
        } else if mean.0 > 0 {
            let most = limit as f64 * 1e9 / mean.0 as f64;
            self.differences.push(format!(
                "Delayed packets are not limited; netem's limit of {limit} packets drops above {most:.0} packets/s at this delay."
            ));
        }
        if self.distribution.is_some() && jitter.0 == 0 {
            return Err(refused("distribution without jitter", "delay T JITTER distribution NAME"));
        }
        if self.reorder.is_some() || self.gap.is_some() {
            return self.reorder(terms, policy);
        }
        if jitter.0 > 0 {
            let name = self.distribution.unwrap_or("uniform");
            let mut term = format!("delay {mean} ±{jitter} {name} {policy}");
            if let Some(correlation) = correlation {
                term += &format!(" correlation {correlation}%");
                self.differ(
                    "Consecutive delays are correlated; netem's are not, whatever the percentage.",
                );
            }
            match name {
                "pareto" | "paretonormal" => self.differ("The long tail is not cut: the standard deviation is the stated one; netem's is smaller."),
                _ => {}
            }
            terms.push(term);
        } else if mean.0 > 0 {
            terms.push(format!("delay {mean}"));
        }
        if self.rate.is_some() && mean.0 > 0 {
            terms.push("order loss duplicate delay rate".into());
        }
        Ok(())
    }

    fn reorder(&mut self, terms: &mut Vec<String>, policy: &str) -> Result<(), ModelError> {
        let (mean, jitter, correlation) = self.delay.unwrap_or((Span(0), Span(0), None));
        let (share, of_selection) = self.reorder.unwrap_or((100.0, None));
        let gap = self.gap.unwrap_or(1).max(1);
        if mean.0 == 0 {
            return Err(refused(
                "reorder without delay",
                "delay T reorder P%: the packets that are not delayed overtake",
            ));
        }
        if self.rate.is_some() {
            return Err(refused(
                "reorder with rate",
                "reorder without rate; with both, netem keeps the order",
            ));
        }
        if gap > 1 && share < 100.0 {
            return Err(refused(
                &format!("reorder {share}% gap {gap}"),
                "reorder P%, or gap N alone, which is every Nth packet",
            ));
        }
        if jitter.0 == 0 {
            let selected = if gap > 1 {
                format!("every {gap}")
            } else {
                with_correlation(share, of_selection)
            };
            terms.push(format!("reorder {selected} by {mean} ahead"));
            if gap == 1 && of_selection.is_some_and(|c| c > 0.0) {
                self.differ(
                    "The correlation keeps the percentage of reordered packets; netem's lowers it.",
                );
            }
            return Ok(());
        }
        if gap > 1
            || correlation.is_some()
            || of_selection.is_some_and(|c| c > 0.0)
            || share >= 100.0
        {
            return Err(refused(
                "reorder with jitter and with a gap or a correlation",
                "reorder P% below 100%, without a correlation, or a delay without jitter",
            ));
        }
        let law = spread(mean, jitter, self.distribution.unwrap_or("uniform"), "reorder")?;
        terms.push(format!("delay mixture(0s:{share}, {law}:{}) {policy}", 100.0 - share));
        Ok(())
    }
}

impl FromStr for Netem {
    type Err = ModelError;

    /// Reads netem's words; those of tc before `netem` are skipped.
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let all: Vec<&str> = text.split_whitespace().collect();
        let from = all.iter().position(|word| *word == "netem").map_or(0, |at| at + 1);
        if from == 0 && all.first().is_none_or(|word| *word == "tc") {
            return Err(refused(text, OPTIONS));
        }
        let mut options = Reader { words: &all[from..] }.options()?;
        let laws: Laws = options.terms()?.join(", ").parse()?;
        Ok(Self { laws, seed: options.seed, differences: options.differences })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;

    fn laws(text: &str) -> String {
        let netem: Netem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        netem.laws.to_string()
    }

    #[test]
    fn words_become_laws() {
        for (words, expected) in [
            ("delay 40ms", "delay 40ms"),
            ("delay 100", "delay 100us"),
            ("latency 1.5s", "delay 1.5s"),
            ("delay 100ms 10ms", "delay 100ms ±10ms uniform allow"),
            ("delay 100ms 10ms 25%", "delay 100ms ±10ms uniform allow correlation 25%"),
            ("delay 40ms 5ms distribution normal", "delay 40ms ±5ms normal allow"),
            ("delay 40ms 5ms distribution pareto", "delay 40ms ±5ms pareto allow"),
            (
                "delay 40ms 5ms 10 distribution paretonormal",
                "delay 40ms ±5ms paretonormal allow correlation 10%",
            ),
            ("loss 0.3%", "loss 0.3%"),
            ("loss random 1 25%", "loss 1% 25%"),
            ("drop 1%", "loss 1%"),
            ("loss gemodel 1% 10% 70% 0.1%", "loss ge 1% to-good 10% bad 70% good 0.1%"),
            ("loss gemodel 1%", "loss ge 1%"),
            ("loss state 1% 20%", "loss four_state(p13_percentage=1, p31_percentage=20)"),
            ("loss 2% ecn", "loss 2% ecn"),
            ("duplicate 1%", "duplicate 1%"),
            ("corrupt 0.1%", "corrupt 0.1% leave at l2"),
            ("delay 10ms reorder 25% 50%", "reorder 25% 50% by 10ms ahead"),
            ("delay 10ms reorder 100% gap 5", "reorder every 5 by 10ms ahead"),
            ("delay 10ms gap 5", "reorder every 5 by 10ms ahead"),
            ("delay 10ms 2ms reorder 25%", "delay mixture(0s:25, 8ms..12ms:75) allow"),
            ("rate 10mbit", "rate 10M queue 999packets overhead 14"),
            ("rate 100kbps 6 limit 50", "rate 800k queue 49packets overhead 20"),
            ("rate 1mbit 8 48 5", "rate 1M queue 999packets overhead 22 cells 48+5"),
            ("rate 10", "rate 10 queue 999packets overhead 14"),
            ("rate 1kibit", "rate 1.024k queue 999packets overhead 14"),
            (
                "delay 40ms 5ms rate 1mbit",
                "rate 1M queue 999packets overhead 14, delay 40ms ±5ms uniform max, order loss duplicate delay rate",
            ),
            ("slot 10ms packets 4", "batch every 10ms packets 4"),
            ("slot 800us 1ms bytes 10k", "batch every 800us..1ms bytes 10K"),
            ("limit 1000", "none"),
            (
                "tc qdisc add dev eth0 root handle 1: netem delay 40ms loss 1%",
                "loss 1%, delay 40ms",
            ),
            ("delay 40ms seed 7", "delay 40ms"),
        ] {
            assert_eq!(laws(words), expected, "{words}");
        }
        assert_eq!("loss 1% seed 7".parse::<Netem>().unwrap().seed, Some(Seed(7)));
    }

    #[test]
    fn differences_are_stated() {
        let count = |words: &str| words.parse::<Netem>().unwrap().differences.len();
        for words in ["loss 1%", "corrupt 1%", "rate 10mbit", "limit 9"] {
            assert_eq!(count(words), 0, "{words}");
        }
        for words in [
            "loss 1% 25%",
            "duplicate 1%",
            "slot 10ms",
            "delay 40ms",
            "rate 100kbps",
            "corrupt 1% 25%",
            "delay 40ms rate 1mbit",
        ] {
            assert_eq!(count(words), 1, "{words}");
        }
        assert_eq!(count("delay 40ms 5ms 25% distribution pareto"), 3);
        assert_eq!(count("delay 40ms reorder 25%"), 1);
        assert_eq!(count("delay 40ms reorder 25% 50%"), 2);
        // 1000 packets in 40 ms.
        let netem: Netem = "delay 40ms".parse().unwrap();
        assert!(netem.differences[0].contains("25000 packets/s"), "{:?}", netem.differences);
    }

    #[test]
    fn wrong_words_are_named() {
        for (words, given) in [
            ("", ""),
            ("tc qdisc add dev eth0", "tc qdisc add dev eth0"),
            ("dealy 40ms", "dealy"),
            ("delay", "delay without a value"),
            ("delay 40m", "delay 40m"),
            ("delay 40ms -5ms", "delay -5ms"),
            ("delay 40ms distribution normal", "distribution without jitter"),
            ("delay 40ms 5ms distribution experimental", "distribution experimental"),
            ("loss 101%", "loss 101%"),
            ("loss gemodel 1% 2% 3% 4% 5%", "loss gemodel with more than four values"),
            ("ecn", "ecn without loss"),
            ("reorder 25%", "reorder without delay"),
            ("delay 9ms reorder 25% gap 5", "reorder 25% gap 5"),
            (
                "delay 9ms 1ms reorder 25% 50%",
                "reorder with jitter and with a gap or a correlation",
            ),
            ("delay 9ms reorder 25% rate 1mbit", "reorder with rate"),
            ("rate 10mb", "rate 10mb"),
            ("rate 1mbit 0 48 -5", "rate -5"),
            ("rate 1mbit -15", "an overhead of -15"),
            ("limit -1", "limit -1"),
        ] {
            let refused = Refusal::from(&words.parse::<Netem>().unwrap_err());
            assert_eq!(refused.given.as_deref(), Some(given), "{words}");
        }
    }
}
