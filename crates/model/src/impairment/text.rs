//! Laws in one line, as flags take them: `loss 1% run 4, delay 40ms ±5ms normal allow, rate 100M queue 250ms`.
//!
//! What is read is printed back in one canonical form, which reads as the same laws.

use std::fmt;
use std::str::FromStr;

use super::laws::*;
use crate::ModelError;
use crate::experiment::nearest;
use crate::units::Span;

const LOSS: &str = "loss P% [run N], loss every N, or loss ge P% [to-good R%] [bad B%] [good G%]";
const DUPLICATE: &str = "duplicate P%";
const DELAY: &str = "delay T [±T [normal|uniform|exponential [most T]]] [allow|fifo-release|max], or delay MIN..MAX [allow|fifo-release|max], such as delay 20ms, delay 20ms ±5ms or delay 100us..2ms";
/// tc takes a bare number for microseconds, flags for seconds, people for milliseconds.
const UNIT: &str = "times with their unit (ns, us, ms, s, m, h), such as delay 10ms, delay 100us or delay 20ms ±5ms";
const SHARE: &str =
    "shares in per cent, with the sign, such as loss 5%, duplicate 0.1% or corrupt 1% repair";
const RATE: &str = "rate R [queue T|B|Npackets] [overhead N], such as rate 10M, rate 2.5G or rate 100Mbit (bits per second)";
const CORRUPT: &str = "corrupt P% [repair|leave|checksum] [flip N] [at l2|l3|l4|payload]";
const ORDER: &str = "order STAGE…, of loss rate delay content";
const TERMS: &str = "comma-separated terms: loss, duplicate, delay, rate, corrupt, order; or none";
const COMMA: &str = "a comma between two terms, such as delay 40ms, loss 1%";
/// Each term's form, by its name.
const FORMS: [(&str, &str); 6] = [
    ("loss", LOSS),
    ("duplicate", DUPLICATE),
    ("delay", DELAY),
    ("rate", RATE),
    ("corrupt", CORRUPT),
    ("order", ORDER),
];
/// What other tools and people call a term.
const OTHER_NAMES: [(&str, &str); 12] = [
    ("drop", LOSS),
    ("dup", DUPLICATE),
    ("duplication", DUPLICATE),
    ("latency", DELAY),
    ("jitter", DELAY),
    ("reorder", DELAY),
    ("bandwidth", RATE),
    ("bw", RATE),
    ("throughput", RATE),
    ("limit", RATE),
    ("corruption", CORRUPT),
    ("ber", CORRUPT),
];
/// Units that may stand apart from their number, as they are printed.
const UNITS: [&str; 28] = [
    "%", "ns", "us", "µs", "μs", "ms", "s", "packet", "packets", "B", "KiB", "MiB", "GiB", "bit/s",
    "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "bit", "kbit", "mbit", "Mbit", "Gbit", "k", "K", "M",
    "G", "T",
];

/// The words of one term, read from left to right.
struct Words<'a> {
    term: String,
    form: &'static str,
    rest: std::iter::Peekable<std::vec::IntoIter<&'a str>>,
}

impl<'a> Words<'a> {
    fn bad(&self) -> ModelError {
        ModelError::Value { what: "impairment", given: self.term.clone(), accepted: self.form }
    }

    fn next(&mut self) -> Result<&'a str, ModelError> {
        self.rest.next().ok_or_else(|| self.bad())
    }

    /// The next word as a value; a value's own complaint is the better one.
    fn value<T: FromStr>(&mut self) -> Result<T, ModelError> {
        let word = self.next()?;
        word.parse().map_err(|_| self.bad())
    }

    /// A share, never without its sign: 5 may be meant as 5 % or as all.
    fn percent(&mut self) -> Result<f64, ModelError> {
        let word = self.next()?;
        let number = word.strip_suffix('%');
        let value: f64 = number.unwrap_or(word).parse().map_err(|_| self.bad())?;
        if number.is_none() && value != 0.0 {
            return Err(ModelError::Value {
                what: "impairment",
                given: self.term.clone(),
                accepted: SHARE,
            });
        }
        Ok(value)
    }

    /// A time, as a word or a part of one: never without its unit.
    fn span(&self, word: &str) -> Result<Span, ModelError> {
        if word.bytes().all(|b| b.is_ascii_digit() || b == b'.') && word.parse() != Ok(0.0) {
            return Err(ModelError::Value {
                what: "impairment",
                given: self.term.clone(),
                accepted: UNIT,
            });
        }
        word.parse().map_err(|_| self.bad())
    }

    /// Takes the next word if it is this one.
    fn took(&mut self, word: &str) -> bool {
        self.rest.next_if(|next| *next == word).is_some()
    }

    /// Takes the next word if it is one of a list.
    fn took_one<T: Copy>(&mut self, list: &[T], name: fn(T) -> &'static str) -> Option<T> {
        let found = list.iter().find(|item| self.rest.peek() == Some(&name(**item))).copied();
        if found.is_some() {
            self.rest.next();
        }
        found
    }

    fn end(&mut self) -> Result<(), ModelError> {
        match self.rest.next() {
            None => Ok(()),
            Some(word) if FORMS.iter().any(|(name, _)| *name == word) => {
                self.form = COMMA;
                Err(self.bad())
            }
            Some(_) => Err(self.bad()),
        }
    }
}

/// The words of a term, a unit at its number: `1 %` is `1%`.
pub(crate) fn words_of(term: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    for word in term.split_whitespace() {
        let is_number = |w: &String| w.ends_with(|c: char| c.is_ascii_digit());
        match words.last_mut().filter(|last| UNITS.contains(&word) && is_number(last)) {
            Some(last) => last.push_str(word),
            None => words.push(word.to_owned()),
        }
    }
    words
}

/// The form of the term that a word was probably meant to be.
fn form_near(word: &str) -> Option<&'static str> {
    let small = word.to_ascii_lowercase();
    let other = OTHER_NAMES.iter().chain(&FORMS).find(|(name, _)| *name == small);
    let near = || nearest(&small, FORMS.iter().map(|(name, _)| *name));
    let near = || near().and_then(|near| FORMS.iter().find(|(name, _)| *name == near));
    other.or_else(near).map(|(_, form)| *form)
}

const POLICIES: [OrderPolicy; 3] = [OrderPolicy::Allow, OrderPolicy::FifoRelease, OrderPolicy::Max];
const CHECKSUMS: [Checksum; 3] = [Checksum::Repair, Checksum::Leave, Checksum::Checksum];
const REGIONS: [Region; 4] = [Region::L2, Region::L3, Region::L4, Region::Payload];

impl FromStr for Laws {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut laws = Laws::default();
        let spaced = text.replace("+-", "±").replace('±', " ±");
        // Nothing at all is more likely a variable that is not set than a wish.
        if spaced.trim() == "none" {
            return Ok(laws);
        }
        for term in spaced.split(',') {
            laws.term(term)?;
        }
        laws.check("impairment")?;
        Ok(laws)
    }
}

impl Laws {
    fn term(&mut self, term: &str) -> Result<(), ModelError> {
        let list = words_of(term);
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let mut words = Words {
            term: term.split_whitespace().collect::<Vec<_>>().join(" "),
            form: TERMS,
            rest: list.into_iter().peekable(),
        };
        let name = words.next()?;
        let again = match name {
            "loss" => {
                words.form = LOSS;
                let duplicate = self.loss.take();
                let had_law = duplicate.as_ref().is_some_and(Loss::has_law);
                let loss = loss(&mut words)?;
                self.loss = Some(Loss { duplicate: duplicate.and_then(|l| l.duplicate), ..loss });
                had_law
            }
            "duplicate" => {
                words.form = DUPLICATE;
                let percentage = words.percent()?;
                let loss = self.loss.get_or_insert_default();
                loss.duplicate.replace(Duplicate { percentage }).is_some()
            }
            "delay" => {
                words.form = DELAY;
                self.delay.replace(delay(&mut words)?).is_some()
            }
            "rate" => {
                words.form = RATE;
                self.rate.replace(rate(&mut words)?).is_some()
            }
            "corrupt" => {
                words.form = CORRUPT;
                self.content.replace(content(&mut words)?).is_some()
            }
            "order" => {
                words.form = ORDER;
                let mut order = vec![];
                while let Some(stage) = words.took_one(&Stage::DEFAULT_ORDER, Stage::name) {
                    order.push(stage);
                }
                if order.is_empty() {
                    return Err(words.bad());
                }
                self.order.replace(order).is_some()
            }
            _ => {
                words.form = form_near(name).unwrap_or(TERMS);
                return Err(words.bad());
            }
        };
        words.end()?;
        if again {
            let given = format!("{name} twice");
            return Err(ModelError::Value {
                what: "impairment",
                given,
                accepted: "each term once",
            });
        }
        Ok(())
    }
}

fn loss(words: &mut Words) -> Result<Loss, ModelError> {
    if words.took("every") {
        return Ok(Loss { every_nth: Some(words.value()?), ..Loss::default() });
    }
    let mut model = GilbertElliott::default();
    if words.took("ge") {
        model.good_to_bad_percentage = Some(words.percent()?);
        if words.took("to-good") {
            model.bad_to_good_percentage = Some(words.percent()?);
        }
        if words.took("bad") {
            model.bad_loss_percentage = Some(words.percent()?);
        }
        if words.took("good") {
            model.good_loss_percentage = Some(words.percent()?);
        }
    } else {
        let percentage = words.percent()?;
        if !words.took("run") {
            return Ok(Loss { percentage: Some(percentage), ..Loss::default() });
        }
        model.loss_percentage = Some(percentage);
        model.mean_run = Some(words.value()?);
    }
    Ok(Loss { gilbert_elliott: Some(model), ..Loss::default() })
}

fn delay(words: &mut Words) -> Result<Delay, ModelError> {
    let mut delay = Delay::default();
    let first = words.next()?;
    if let Some((min, max)) = first.split_once("..") {
        delay.uniform = Some(Uniform { min: words.span(min)?, max: words.span(max)? });
    } else {
        let mean = words.span(first)?;
        let spread = words.rest.peek().and_then(|word| word.strip_prefix('±'));
        if let Some(rest) = spread {
            words.rest.next();
            let word = if rest.is_empty() { words.next()? } else { rest };
            let spread = words.span(word)?;
            let least = mean.0.checked_sub(spread.0).map(Span);
            if words.rest.peek() == Some(&"uniform") {
                let min = least.ok_or_else(|| words.bad())?;
                let max = mean.0.checked_add(spread.0).ok_or_else(|| words.bad())?;
                words.rest.next();
                delay.uniform = Some(Uniform { min, max: Span(max) });
            } else if words.rest.peek() == Some(&"exponential") {
                let min = least.ok_or_else(|| words.bad())?;
                words.rest.next();
                let max = if words.took("most") {
                    let word = words.next()?;
                    Some(words.span(word)?)
                } else {
                    None
                };
                delay.exponential = Some(Exponential { mean, min, max });
            } else {
                words.took("normal");
                delay.normal = Some(Normal { mean, deviation: spread });
            }
        } else {
            delay.constant = Some(mean);
        }
    }
    delay.order = words.took_one(&POLICIES, OrderPolicy::name).unwrap_or_default();
    Ok(delay)
}

fn rate(words: &mut Words) -> Result<Rate, ModelError> {
    let bits = words.value()?;
    let queue = if words.took("queue") { Some(words.value()?) } else { None };
    let overhead_bytes = if words.took("overhead") { Some(words.value()?) } else { None };
    Ok(Rate { bits, queue, discipline: Discipline::TailDrop, overhead_bytes })
}

fn content(words: &mut Words) -> Result<Content, ModelError> {
    let percentage = words.percent()?;
    let checksum = words.took_one(&CHECKSUMS, Checksum::name).unwrap_or_default();
    let flip_bits = if words.took("flip") { words.value()? } else { 1 };
    let region = if words.took("at") {
        words.took_one(&REGIONS, Region::name).ok_or_else(|| words.bad())?
    } else {
        Region::default()
    };
    Ok(Content { percentage, flip_bits, checksum, region })
}

impl Loss {
    fn has_law(&self) -> bool {
        self.percentage.is_some() || self.every_nth.is_some() || self.gilbert_elliott.is_some()
    }
}

impl fmt::Display for Laws {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut terms = vec![];
        if let Some(loss) = &self.loss {
            if loss.has_law() {
                terms.push(loss_text(loss));
            }
            if let Some(Duplicate { percentage }) = &loss.duplicate {
                terms.push(format!("duplicate {percentage}%"));
            }
        }
        if let Some(rate) = &self.rate {
            let mut text = format!("rate {}", rate.bits);
            if let Some(queue) = &rate.queue {
                text += &format!(" queue {queue}");
            }
            if let Some(overhead) = &rate.overhead_bytes {
                text += &format!(" overhead {overhead}");
            }
            terms.push(text);
        }
        if let Some(delay) = &self.delay {
            terms.push(delay_text(delay));
        }
        if let Some(content) = &self.content {
            let mut text = format!("corrupt {}% {}", content.percentage, content.checksum.name());
            if content.flip_bits != 1 {
                text += &format!(" flip {}", content.flip_bits);
            }
            if content.region != Region::default() {
                text += &format!(" at {}", content.region.name());
            }
            terms.push(text);
        }
        if let Some(order) = self.order.as_ref().filter(|order| !order.is_empty()) {
            let names: Vec<&str> = order.iter().map(|stage| stage.name()).collect();
            terms.push(format!("order {}", names.join(" ")));
        }
        if terms.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&terms.join(", "))
    }
}

fn loss_text(loss: &Loss) -> String {
    if let Some(n) = loss.every_nth {
        return format!("loss every {n}");
    }
    let Some(model) = &loss.gilbert_elliott else {
        return format!("loss {}%", loss.percentage.unwrap_or_default());
    };
    if let (Some(loss), Some(run)) = (model.loss_percentage, model.mean_run) {
        return format!("loss {loss}% run {run}");
    }
    let mut text = format!("loss ge {}%", model.good_to_bad_percentage.unwrap_or_default());
    for (word, value) in [
        ("to-good", model.bad_to_good_percentage),
        ("bad", model.bad_loss_percentage),
        ("good", model.good_loss_percentage),
    ] {
        if let Some(value) = value {
            text += &format!(" {word} {value}%");
        }
    }
    text
}

fn delay_text(delay: &Delay) -> String {
    let mut text = "delay ".to_string();
    if let Some(span) = delay.constant {
        text += &span.to_string();
    } else if let Some(Uniform { min, max }) = delay.uniform {
        let (sum, width) = (min.0.saturating_add(max.0), max.0.saturating_sub(min.0));
        if sum.is_multiple_of(2) {
            text += &format!("{} ±{} uniform", Span(sum / 2), Span(width / 2));
        } else {
            text += &format!("{min}..{max}");
        }
    } else if let Some(Normal { mean, deviation }) = delay.normal {
        text += &format!("{mean} ±{deviation} normal");
    } else if let Some(Exponential { mean, min, max }) = delay.exponential {
        text += &format!("{mean} ±{} exponential", Span(mean.0.saturating_sub(min.0)));
        if let Some(max) = max {
            text += &format!(" most {max}");
        }
    }
    // A constant delay keeps order under every policy.
    if delay.constant.is_none() || delay.order != OrderPolicy::default() {
        text += &format!(" {}", delay.order.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn back(text: &str) -> String {
        let laws: Laws = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let printed = laws.to_string();
        assert_eq!(printed.parse::<Laws>().as_ref(), Ok(&laws), "{text} -> {printed}");
        printed
    }

    #[test]
    fn what_was_understood_is_printed() {
        for (given, printed) in [
            (
                "loss 1%, delay 20ms ±5ms normal, rate 100M",
                "loss 1%, rate 100M, delay 20ms ±5ms normal fifo-release",
            ),
            ("loss 0.0001% , duplicate .5%", "loss 0.0001%, duplicate 0.5%"),
            ("duplicate 1%,loss 5% run 4", "loss 5% run 4, duplicate 1%"),
            ("loss every 100", "loss every 100"),
            ("loss ge 1% to-good 25% good 0.1%", "loss ge 1% to-good 25% good 0.1%"),
            ("delay 40ms", "delay 40ms"),
            ("delay 40ms+-5ms", "delay 40ms ±5ms normal fifo-release"),
            ("delay 40ms +- 5ms uniform allow", "delay 40ms ±5ms uniform allow"),
            ("delay 1ns..4ns max", "delay 1ns..4ns max"),
            ("delay 20ms..30ms", "delay 25ms ±5ms uniform fifo-release"),
            (
                "delay 20ms ±15ms exponential most 1s allow",
                "delay 20ms ±15ms exponential most 1s allow",
            ),
            ("rate 512k queue 100packets overhead 38", "rate 512k queue 100packets overhead 38"),
            ("rate 1G queue 64K", "rate 1G queue 64K"),
            ("corrupt 0.1%", "corrupt 0.1% leave"),
            ("corrupt 1% repair flip 3 at l4", "corrupt 1% repair flip 3 at l4"),
            ("order delay rate, loss 1%", "loss 1%, order delay rate"),
            ("none", "none"),
            // As it is printed elsewhere.
            (
                "loss 1 % run 4, delay 20 ms ±5 ms",
                "loss 1% run 4, delay 20ms ±5ms normal fifo-release",
            ),
            (
                "rate 10 Mbit/s queue 100 packets overhead 38",
                "rate 10M queue 100packets overhead 38",
            ),
            ("loss ge 1 % to-good 25 %, duplicate .5 %", "loss ge 1% to-good 25%, duplicate 0.5%"),
            ("delay 1µs..4 ms", "delay 2000500ns ±1999500ns uniform fifo-release"),
        ] {
            assert_eq!(back(given), printed, "{given}");
        }
    }

    #[test]
    fn values_are_what_the_words_say() {
        let laws: Laws = "delay 20ms ±15ms exponential, loss 5% run 4".parse().unwrap();
        let exponential = laws.delay.unwrap().exponential.unwrap();
        assert_eq!((exponential.mean, exponential.min), (Span(20_000_000), Span(5_000_000)));
        let chain = laws.loss.unwrap().gilbert_elliott.unwrap().chain();
        assert_eq!(chain.to_good, 0.25);
        assert!((chain.to_bad - 0.05 / (4.0 * 0.95)).abs() < 1e-15);
    }

    #[test]
    fn a_time_without_a_unit_is_refused_and_a_rate_shown() {
        for given in ["delay 10", "delay 1.5", "delay 10ms ±5", "delay 10..20", "delay 10..20ms"] {
            let error = given.parse::<Laws>().unwrap_err().to_string();
            assert!(error.contains(given) && error.contains("delay 10ms"), "{error}");
            assert!(error.contains("unit"), "{error}");
        }
        assert!("delay 20ms ±5ms exponential most 1".parse::<Laws>().is_err());
        // Nothing is nothing in any unit.
        assert!("delay 0..4ms".parse::<Laws>().is_ok());
        let error = "rate 10Q".parse::<Laws>().unwrap_err().to_string();
        assert!(error.contains("rate 10M") && error.contains("100Mbit"), "{error}");
        for hundred in ["rate 100Mbit", "rate 100mbit", "rate 0.1gbit"] {
            assert_eq!(back(hundred), "rate 100M");
        }
    }

    #[test]
    fn a_share_without_its_sign_is_refused() {
        for given in [
            "loss 5",
            "loss 0.05",
            "loss 5 run 4",
            "loss ge 1% to-good 25",
            "loss ge 1% bad 50% good 1",
            "duplicate 1",
            "corrupt 1 repair",
        ] {
            let error = given.parse::<Laws>().unwrap_err().to_string();
            assert!(error.contains(given) && error.contains("loss 5%"), "{error}");
        }
        // None is none in any unit.
        assert_eq!(back("loss 0"), "loss 0%");
    }

    #[test]
    fn a_term_that_is_none_shows_the_form_of_the_one_that_was_meant() {
        for (given, shown) in [
            ("dealy 4ms", "delay T"),
            ("LOSS 1%", "loss P%"),
            ("jitter 5ms", "delay T"),
            ("latency 5ms", "delay T"),
            ("bandwidth 5M", "rate R"),
            ("dup 5%", "duplicate P%"),
            ("delay 40ms loss 1%", "a comma between"),
            // As it was given.
            ("loss every 3 packets", "'loss every 3 packets'"),
            ("delay 5 m", "'delay 5 m'"),
            ("rate 10M allow delay 4ms", "rate R"),
            ("jam 3", "comma-separated terms"),
            ("", "or none"),
            ("  ", "or none"),
        ] {
            let error = given.parse::<Laws>().unwrap_err().to_string();
            assert!(error.contains(shown), "{given}: {error}");
        }
    }

    #[test]
    fn refusals_name_the_term() {
        for (given, named) in [
            ("loss", "loss"),
            ("loss 101%", "impairment.loss.percentage"),
            ("loss nan%", "impairment.loss.percentage"),
            ("loss 1% run 0.5", "mean_run"),
            ("loss 90% run 2", "mean_run"),
            ("loss 1%, loss 2%", "loss twice"),
            ("duplicate 1%, duplicate 1%", "duplicate twice"),
            ("delay", "delay"),
            ("delay 5ms ±10ms uniform", "delay 5ms ±10ms uniform"),
            ("delay 2h", "impairment.delay.constant"),
            ("delay 9ms..3ms", "uniform.min"),
            ("delay 5ms sideways", "sideways"),
            ("rate 0", "impairment.rate.bits"),
            ("rate 10M queue", "queue"),
            ("corrupt 1% flip 65", "flip_bits"),
            ("corrupt 1% at l7", "l7"),
            ("order", "order"),
            ("order loss loss", "impairment.order"),
            ("jam 3", "jam"),
            ("loss 1%,,", "terms"),
        ] {
            let error = given.parse::<Laws>().unwrap_err().to_string();
            assert!(error.contains(named), "{given}: {error}");
        }
    }
}
