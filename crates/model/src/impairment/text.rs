//! Laws in one line, as in flags: `loss 1% run 4, delay 40ms ±5ms normal allow, rate 100M queue 250ms`.
//!
//! Laws are printed in one canonical form, which is read as the same laws.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use super::laws::{Laws, SLOT_TERMS, Stage};
use super::trigger::{self, Trigger};
use crate::ModelError;
use crate::experiment::nearest;
use crate::law::{Words, parenthesised, words_of};

/// A term: its name, names that people and other tools use for it, and its form.
pub(super) struct TermName {
    pub(super) name: &'static str,
    pub(super) others: &'static [&'static str],
    pub(super) form: fn() -> &'static str,
}

static ORDER: LazyLock<String> = LazyLock::new(|| {
    format!("order STAGE…, of {}", Stage::DEFAULT_ORDER.map(Stage::name).join(" "))
});
static TERMS: LazyLock<String> = LazyLock::new(|| {
    let names: Vec<&str> = term_names().map(|term| term.name).collect();
    format!("comma-separated terms: {}; or none", names.join(", "))
});
/// The terms that do not belong to a slot.
const ORDER_TERM: TermName = TermName { name: "order", others: &[], form: || &ORDER };
const TRIGGER_TERM: TermName =
    TermName { name: trigger::TERM, others: &["start", "stop", "rearm"], form: || trigger::FORM };

fn term_names() -> impl Iterator<Item = &'static TermName> {
    SLOT_TERMS.iter().chain([&ORDER_TERM, &TRIGGER_TERM])
}

/// Changes of content are independent.
const UNCORRELATED: &str = "the term without netem's correlation, such as corrupt 0.1%";

/// The accepted form of a term.
fn form(name: &str) -> &'static str {
    term_names().find(|term| term.name == name).map_or(&TERMS, |term| (term.form)())
}

fn is_term(word: &str) -> bool {
    term_names().any(|term| term.name == word)
}

/// netem's reordering belongs to its delay and means something else, so that only a comma begins a term of this name.
const OWN_TERM: &str = "reorder";

/// The form of the term that is most similar to a word.
fn form_near(word: &str) -> Option<&'static str> {
    let small = word.to_ascii_lowercase();
    let known = term_names().find(|term| term.name == small || term.others.contains(&&*small));
    let near = || nearest(&small, term_names().map(|term| term.name));
    known.map(|term| term.name).or_else(near).map(form)
}

/// The terms of a line. They are separated by commas outside parentheses, or as in netem by the next term's name.
fn terms(line: &str) -> Vec<String> {
    let mut depth = 0_i32;
    let nesting = |c: char| i32::from(c == '(') - i32::from(c == ')');
    let parts = line.split(|c| {
        depth += nesting(c);
        c == ',' && depth <= 0
    });
    let mut terms = vec![];
    for part in parts {
        let (mut term, mut depth) = (String::new(), 0);
        for word in part.split_whitespace() {
            // Stages have the names of terms.
            let is_order = term.split(' ').next() == Some(ORDER_TERM.name);
            if depth <= 0 && is_term(word) && word != OWN_TERM && !term.is_empty() && !is_order {
                terms.push(std::mem::take(&mut term));
            }
            if !term.is_empty() {
                term.push(' ');
            }
            term += word;
            depth += word.chars().map(nesting).sum::<i32>();
        }
        terms.push(term);
    }
    terms
}

/// What is accepted instead of a term of netem that has another form here.
fn instead_of_netem(words: &[String]) -> Option<&'static str> {
    let has = |name: &str| words.iter().any(|word| word == name);
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word == name);
    if has("gap") {
        return Some("reorder every N by T ahead");
    }
    if has(OWN_TERM) && !is(0, OWN_TERM) && !is(0, ORDER_TERM.name) {
        return Some("reorder P% by T ahead, which is netem's delay T reorder P%");
    }
    if is(0, "slot") {
        return Some("batch every T [packets N] [bytes B], or batch slots(interval=LAW)");
    }
    if has("limit") {
        return Some("rate R queue Npackets");
    }
    if is(0, "loss") && is(1, "state") {
        return Some("loss four_state(p13_percentage=P, p31_percentage=P, …)");
    }
    let name = words.first()?;
    let has_correlation = name != "corrupt";
    (is_term(name) && !has_correlation && is_correlated(words)).then_some(UNCORRELATED)
}

/// Whether a term has netem's correlation: a percentage after the first value.
fn is_correlated(words: &[String]) -> bool {
    let is_number = |word: &String| word.starts_with(|c: char| c.is_ascii_digit());
    words.get(1).is_some_and(is_number)
        && words.get(2).is_some_and(|word| is_number(word) && word.ends_with('%'))
}

/// Moves the correlation of netem's `delay TIME JITTER PERCENT [distribution NAME]` behind the law.
fn with_correlation_last(mut words: Vec<String>) -> Vec<String> {
    let is_netem = words.len() > 3 && words[0] == "delay" && words[3].ends_with('%');
    if is_netem && words[1..3].iter().all(|word| word.starts_with(|c: char| c.is_ascii_digit())) {
        let percentage = words.remove(3);
        words.extend(["correlation".to_owned(), percentage]);
    }
    words
}

impl FromStr for Laws {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let mut laws = Laws::default();
        let spaced = text.replace("+-", "±").replace('±', " ±");
        // Only `none` means no laws: an empty text is more likely an unset variable.
        if spaced.trim() == "none" {
            return Ok(laws);
        }
        for term in terms(&spaced) {
            laws.term(&term)?;
        }
        laws.check("impairment")?;
        Ok(laws)
    }
}

impl Laws {
    fn term(&mut self, given: &str) -> Result<(), ModelError> {
        let (before, arguments, behind) = parenthesised(given);
        let list = with_correlation_last(words_of(&format!("{before} {behind}")));
        let mut words = Words::new("impairment", given, &TERMS, &list, arguments);
        let name = words.next()?;
        words.set_form(form(name));
        // Its conditions may have parentheses of their own.
        if name == trigger::TERM {
            let is_again = self.trigger.replace(Trigger::read(given)?).is_some();
            return if is_again { twice(name) } else { Ok(()) };
        }
        if let Some(accepted) = instead_of_netem(&list).filter(|_| arguments.is_none()) {
            return Err(words.refused(accepted));
        }
        let again = match name {
            "order" => {
                let mut order = vec![];
                while let Some(stage) = words.took_one(&Stage::DEFAULT_ORDER, Stage::name) {
                    order.push(stage);
                }
                if order.is_empty() {
                    return Err(words.bad());
                }
                self.order.replace(order).is_some()
            }
            name => match self.read_slot(name, &mut words) {
                Some(again) => again?,
                None => {
                    words.set_form(form_near(name).unwrap_or(&TERMS));
                    return Err(words.bad());
                }
            },
        };
        words.end()?;
        if again { twice(name) } else { Ok(()) }
    }
}

fn twice(name: &str) -> Result<(), ModelError> {
    let given = format!("{name} twice");
    Err(ModelError::Value { what: "impairment", given, accepted: "each term once" })
}

/// Characters in parentheses that a brief form has in full.
const BRIEF: usize = 200;

impl Laws {
    /// The laws in one line for people to read: long lists in parentheses, such as a trace, end with `…`.
    #[must_use]
    pub fn brief(&self) -> String {
        let text = self.to_string();
        let (mut out, mut depth, mut length) = (String::new(), 0, 0);
        for c in text.chars() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            length = if depth == 0 { 0 } else { length + 1 };
            match length {
                0..=BRIEF => out.push(c),
                // Not a part of a number.
                _ if length == BRIEF + 1 => {
                    let inside = out.rfind('(').unwrap_or(0);
                    let end = out[inside..].rfind([' ', ',']).map(|end| inside + end);
                    out.truncate(end.unwrap_or(out.len()));
                    out += " …";
                }
                _ => {}
            }
        }
        out
    }
}

impl fmt::Display for Laws {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut terms = self.slot_texts();
        if let Some(order) = self.order.as_ref().filter(|order| !order.is_empty()) {
            let names: Vec<&str> = order.iter().map(|stage| stage.name()).collect();
            terms.push(format!("order {}", names.join(" ")));
        }
        terms.extend(self.trigger.as_ref().map(ToString::to_string));
        if terms.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&terms.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Refusal;
    use crate::impairment::LossProcess;
    use crate::units::Span;

    fn back(text: &str) -> String {
        let laws: Laws = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let printed = laws.to_string();
        assert_eq!(printed.parse::<Laws>().as_ref(), Ok(&laws), "{text} -> {printed}");
        printed
    }

    #[test]
    fn laws_are_printed_in_canonical_form() {
        for (given, printed) in [
            (
                "loss 1%, delay 20ms ±5ms normal, rate 100M",
                "loss 1%, rate 100M, delay 20ms ±5ms normal fifo-release",
            ),
            ("order loss delay", "order loss delay"),
            ("order duplicate loss, duplicate 2%", "duplicate 2%, order duplicate loss"),
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
            (
                "rate 10M burst 32K peak 100M queue 50ms head_drop",
                "rate 10M burst 32K peak 100M queue 50ms head_drop",
            ),
            (
                "rate 10M background 30% run 8 overhead 38",
                "rate 10M background 30% run 8 overhead 38",
            ),
            ("corrupt 0.1%", "corrupt 0.1% leave"),
            ("corrupt 1% repair flip 3 at l4", "corrupt 1% repair flip 3 at l4"),
            ("order delay rate, loss 1%", "loss 1%, order delay rate"),
            ("none", "none"),
            // With units as printed elsewhere.
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
    fn laws_are_accepted_as_netem_writes_them() {
        for (given, printed) in [
            ("delay 100ms loss 1%", "loss 1%, delay 100ms"),
            ("delay 100ms 10ms", "delay 100ms ±10ms uniform fifo-release"),
            ("delay 100ms 10ms allow", "delay 100ms ±10ms uniform allow"),
            ("delay 100ms 10ms distribution normal", "delay 100ms ±10ms normal fifo-release"),
            ("delay 100ms ± 10ms distribution uniform", "delay 100ms ±10ms uniform fifo-release"),
            (
                "delay 100ms 10ms loss random 1% duplicate 2% corrupt 0.1% rate 10mbit",
                "loss 1%, duplicate 2%, rate 10M, delay 100ms ±10ms uniform fifo-release, corrupt 0.1% leave",
            ),
            (
                "delay uniform(min=1ms, max=3ms) loss 1%",
                "loss 1%, delay 2ms ±1ms uniform fifo-release",
            ),
            ("loss gemodel 1% 10% 70% 0.1%", "loss ge 1% to-good 10% bad 70% good 0.1%"),
            ("loss gemodel 1%", "loss ge 1%"),
            ("loss 1% order duplicate loss, delay 4ms", "loss 1%, delay 4ms, order duplicate loss"),
        ] {
            assert_eq!(back(given), printed, "{given}");
        }
        for (given, printed) in [
            ("delay 100ms 10ms 25%", "delay 100ms ±10ms uniform fifo-release correlation 25%"),
            (
                "delay 100ms 10ms 25% distribution normal",
                "delay 100ms ±10ms normal fifo-release correlation 25%",
            ),
            (
                "delay 9ms 1ms distribution paretonormal loss 1% 25% ecn",
                "loss 1% 25% ecn, delay 9ms ±1ms paretonormal fifo-release",
            ),
            ("delay 9ms 1ms distribution pareto", "delay 9ms ±1ms pareto fifo-release"),
            ("loss random 1% 25%", "loss 1% 25%"),
            ("duplicate 1% 25% delay 4ms", "duplicate 1% 25%, delay 4ms"),
            ("delay 4ms, reorder 5%", "delay 4ms, reorder 5% by 1packet"),
            ("batch 9 within 5ms", "batch 9 within 5ms"),
            ("batch slots(interval=9ms, packets=2)", "batch every 9ms packets 2"),
            ("loss gemodel 1% 10% ecn", "loss ge 1% to-good 10% ecn"),
            ("loss every 9 ecn", "loss every 9 ecn"),
            ("delay 9ms ±1ms half-life 1s smooth", "delay 9ms ±1ms normal smooth half-life 1s"),
            ("delay gamma(scale=5ms, shape=2) allow", "delay gamma(scale=5ms, shape=2) allow"),
            ("delay values(1ms, 2 ms)", "delay values(1ms, 2ms) fifo-release"),
            ("loss burst 3 after 10", "loss burst 3 after 10"),
            ("loss ber 1e-6", "loss ber 1e-6"),
        ] {
            assert_eq!(back(given), printed, "{given}");
        }
        let (given, accepted) = value("corrupt 1% 5%");
        assert_eq!((given.as_str(), accepted.as_str()), ("corrupt 1% 5%", UNCORRELATED));
        for (of_netem, instead) in [
            ("delay 100ms 10ms reorder 25% 50%", "by T ahead"),
            ("delay 100ms loss 1% reorder 25%", "by T ahead"),
            ("slot 10ms", "batch every"),
            ("delay 10ms gap 5", "every N by T ahead"),
            ("limit 1000", "queue Npackets"),
            ("delay 100ms limit 1000", "queue Npackets"),
            ("loss state 1%", "four_state("),
        ] {
            let (_, accepted) = value(of_netem);
            assert!(accepted.contains(instead), "{of_netem}: {accepted}");
        }
    }

    #[test]
    fn a_long_list_is_brief_for_people() {
        let short = "loss 1%, rate trace(1 2 3) queue 9packets, delay 5ms";
        assert_eq!(short.parse::<Laws>().unwrap().brief(), short);
        let long: Vec<String> = (1..99).map(|n| n.to_string()).collect();
        let laws = format!("rate trace({}) queue 9packets, delay 5ms", long.join(" "));
        let brief = laws.parse::<Laws>().unwrap().brief();
        let (start, end) = brief.split_once(" …").unwrap();
        assert!(laws.starts_with(&format!("{start} ")) && start.len() > BRIEF - 4, "{start}");
        assert_eq!(end, ") queue 9packets, delay 5ms");
    }

    #[test]
    fn words_set_the_values() {
        let laws: Laws = "delay 20ms ±15ms exponential, loss 5% run 4".parse().unwrap();
        let exponential = laws.delay.unwrap().exponential.unwrap();
        assert_eq!((exponential.mean, exponential.min), (Span(20_000_000), Span(5_000_000)));
        let Some(LossProcess::Chain(chain)) = laws.loss.unwrap().process() else {
            panic!("a chain")
        };
        assert_eq!(chain.step[1][0], 0.25);
        assert!((chain.step[0][1] - 0.05 / (4.0 * 0.95)).abs() < 1e-15);
    }

    #[test]
    fn the_general_form_of_a_law_is_the_law() {
        for (general, short) in [
            ("loss percentage(1%)", "loss 1%"),
            ("loss percentage( 1 )", "loss 1%"),
            ("loss every_nth(100)", "loss every 100"),
            ("loss gilbert_elliott(loss_percentage=5%, mean_run=4)", "loss 5% run 4"),
            ("delay constant(40ms)", "delay 40ms"),
            ("delay uniform( min = 10ms,max=30ms ) allow", "delay 20ms ±10ms uniform allow"),
            ("delay normal(mean=40ms, deviation=5ms)", "delay 40ms ±5ms normal fifo-release"),
            (
                "duplicate 1%, delay exponential(mean=20ms, max=1s) max, rate 1M",
                "duplicate 1%, rate 1M, delay 20ms ±20ms exponential most 1s max",
            ),
        ] {
            assert_eq!(back(general), short, "{general}");
        }
    }

    #[test]
    fn a_general_form_is_refused_by_field() {
        for (text, field, given, accepted) in [
            ("loss gilbert_elliott(loss=5%)", "loss.gilbert_elliott", "loss", "mean_run"),
            ("loss percentage(x)", "loss.percentage.percentage", "x", "a number"),
            ("loss every_nth(2.5)", "loss.every_nth.every_nth", "2.5", "a whole number"),
            ("loss every_nth(2%)", "loss.every_nth.every_nth", "2%", "a whole number"),
            ("loss percentage(101%)", "loss.percentage", "101", "0 to 100 percent"),
            ("delay uniform(min=10ms)", "delay.uniform.max", "nothing", "max=VALUE"),
            ("delay uniform(min=10ms, max=30)", "delay.uniform.max", "30", "unit"),
            ("delay uniform(min=10ms, max=soon)", "delay.uniform.max", "soon", "40ms"),
            ("delay uniform(min=1ms, min=2ms)", "delay.uniform.min", "min=2ms", "each key once"),
            ("delay uniform(10ms, 30ms)", "delay.uniform", "10ms", "uniform(min=10ms, max=30ms)"),
            ("delay uniform()", "delay.uniform.min", "nothing", "min=VALUE"),
        ] {
            let Err(ModelError::Field { field: f, given: g, accepted: a }) = text.parse::<Laws>()
            else {
                panic!("{text}")
            };
            assert_eq!((f.strip_prefix("impairment."), &*g), (Some(field), given), "{text}");
            assert!(a.contains(accepted), "{text}: {a}");
        }
        for text in [
            "loss jam(1)",
            "delay uniform(min=1ms, max=2ms",
            "delay uniform min=1ms",
            "rate 1M (x=2)",
            "rate(bits=1M)",
            "delay pareto(",
            "loss (1%)",
        ] {
            assert!(matches!(text.parse::<Laws>(), Err(ModelError::Value { .. })), "{text}");
        }
    }

    /// The given and the accepted value in the error of refused laws.
    fn value(laws: &str) -> (String, String) {
        let refusal = Refusal::from(&laws.parse::<Laws>().unwrap_err());
        (refusal.given.unwrap_or_default(), refusal.accepted.unwrap_or_default())
    }

    #[test]
    fn a_time_without_a_unit_is_refused_and_a_rate_shown() {
        for given in ["delay 10", "delay 1.5", "delay 10ms ±5", "delay 10..20", "delay 10..20ms"] {
            let (said, accepted) = value(given);
            assert!(said.contains(given) && accepted.contains("20ms"), "{said}: {accepted}");
        }
        assert!("delay 20ms ±5ms exponential most 1".parse::<Laws>().is_err());
        // Zero is the same in any unit.
        assert!("delay 0..4ms".parse::<Laws>().is_ok());
        let (_, accepted) = value("rate 10Q");
        assert!(accepted.contains("rate 10M") && accepted.contains("100Mbit"), "{accepted}");
        for hundred in ["rate 100Mbit", "rate 100mbit", "rate 0.1gbit"] {
            assert_eq!(back(hundred), "rate 100M");
        }
    }

    #[test]
    fn a_percentage_without_its_sign_is_refused() {
        for given in [
            "loss 5",
            "loss 0.05",
            "loss 5 run 4",
            "loss ge 1% to-good 25",
            "loss ge 1% bad 50% good 1",
            "duplicate 1",
            "corrupt 1 repair",
        ] {
            let (said, accepted) = value(given);
            assert!(said.contains(given) && accepted.contains("loss 5%"), "{said}: {accepted}");
        }
        // Zero is the same in any unit.
        assert_eq!(back("loss 0"), "loss 0%");
    }

    #[test]
    fn an_unknown_term_shows_the_form_of_the_most_similar_one() {
        for (given, shown) in [
            ("dealy 4ms", "delay T"),
            ("LOSS 1%", "loss P%"),
            ("jitter 5ms", "delay T"),
            ("latency 5ms", "delay T"),
            ("bandwidth 5M", "rate R"),
            ("background 30%", "rate R"),
            ("policer 5M", "police R"),
            ("dup 5%", "duplicate P%"),
            // As it was given.
            ("loss every 3 packets", "loss every 3 packets"),
            ("delay 5 m", "delay 5 m"),
            ("rate 10M allow delay 4ms", "rate R"),
            ("jam 3", "comma-separated terms"),
            ("", "or none"),
            ("  ", "or none"),
        ] {
            let (said, accepted) = value(given);
            assert!(accepted.contains(shown) || said == shown, "{given}: {said}: {accepted}");
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
            ("rate 10M burst 0", "impairment.rate.burst"),
            ("rate 10M peak 20M", "impairment.rate.peak"),
            ("rate 10M burst 32K peak 10M", "impairment.rate.peak"),
            ("rate 10M background 0%", "impairment.rate.background.percentage"),
            ("rate 10M background 100%", "impairment.rate.background.percentage"),
            ("rate 10M background 30% run 101", "impairment.rate.background.mean_run"),
            ("rate 10M codel background 30%", "impairment.rate.background"),
            ("corrupt 1% flip 65", "flip_bits"),
            ("corrupt 1% at l7", "l7"),
            ("order", "order"),
            ("order loss loss", "impairment.order"),
            ("jam 3", "jam"),
            ("loss 1%,,", "terms"),
        ] {
            let refusal = Refusal::from(&given.parse::<Laws>().unwrap_err());
            let given_or_accepted = refusal.given.filter(|g| !g.is_empty()).or(refusal.accepted);
            let found = refusal.field.or(given_or_accepted).unwrap_or_default();
            assert!(found.contains(named), "{given}: {found}");
        }
    }
}
