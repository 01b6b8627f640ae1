//! A search whose trials are tests.

use weir_model::counted;
use weir_model::experiment::{Found, SearchKind};
use weir_model::plan::Family;
use weir_stats::{LinkFamily, LinkShape, LinkTransport};

use crate::scenario::search::{MAX_TRIALS, MIN_PACKETS, Terms, Trial, TrialRequest, search};
use crate::scenario::{Files, ParseTestFlags};

use super::*;

/// Delay statistics of a trial.
const STATISTICS: [&str; 5] = ["min", "mean", "p50", "p99", "max"];
/// Other figures of a trial.
const FIGURES: [&str; 9] = [
    "sent_packets",
    "lost_packets",
    "loss",
    "sent_throughput",
    "sent_packet_rate",
    "throughput",
    "packet_rate",
    "received_ratio",
    "link_usage",
];
/// The axis of a search's trials.
const RATE: &str = "rate";
/// That of bursts.
const PACKETS: &str = "packets";
/// Ethernet's MTU, the default for the datagram size.
const MTU_BYTES: u32 = 1500;

impl Inner<'_, '_, '_> {
    pub(super) fn search(
        &self,
        step: &SearchStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let options = self.execution.options;
        let axes = check_axes(&step.over, self.name)?;
        if let (Backend::Virtual(_), Some(at)) = (&self.execution.backend, points(&axes).first())
            && plans::paths(&step.test, at, self.execution.agents(), self.name)?.len() > 1
        {
            return self.not_simulated(out, "several senders");
        }
        let names = STATISTICS.iter().map(|s| format!("{s} one_way_delay"));
        let mut names: Vec<String> = names.chain(FIGURES.map(Into::into)).collect();
        names.extend(step.metrics.iter().cloned());
        let metrics = self.metrics(&names)?;
        let further: Vec<Metric> =
            step.metrics.iter().map(|name| name.parse()).collect::<Result<_, _>>()?;
        let mut open: Vec<String> = vec![];
        // Of each trial, in ascending order of rates.
        let mut all: Vec<AxisValues> = vec![];
        let mut failed = None;
        let (begun, of) = (Instant::now(), points(&axes).len() as u64);
        let mut has_old = false;
        for (at, place) in points(&axes).into_iter().zip(1..) {
            let before = begun.elapsed();
            let around: AxisValues = [self.around.at.clone(), at.clone()].concat();
            let room = Room {
                step,
                around: &self.around.at,
                at: &at,
                files: &options.files,
                parse_flags: options.parse_flags,
                agents: self.execution.agents(),
                place: self.name,
            };
            let terms = room.terms(self.execution.confidence(), options.seed.0)?;
            let (mut runs, mut rates, mut not_simulated) = (Vec::<RunRef>::new(), vec![], false);
            let mut tried: Vec<(f64, AxisValues)> = vec![];
            let is_first = out.runs.is_empty();
            let mut trial = |ask: TrialRequest| -> Result<Trial, ScenarioError> {
                if self.execution.is_stopped() {
                    let made = counted(u64::from(ask.number - 1), "trial");
                    let reason = format!("the search was stopped after {made}");
                    return Err(ScenarioError::program(self.name, &reason));
                }
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Err(ScenarioError::program(self.name, "the search's time was over"));
                }
                let plan = room.plan(ask, terms.unit)?;
                let key = format!("{}|{}#{}", self.path, key(&at), ask.number);
                let (load, value) = load_of(ask, terms.unit);
                let mut here = at.clone();
                here.push(value);
                let one = SingleRun {
                    test: &step.test,
                    plan: &plan,
                    at: &here,
                    repetition: ask.number,
                    key,
                    metrics: &metrics,
                    is_first: is_first && ask.number == 1,
                };
                let (run, is_old) = self.run(&one)?;
                has_old |= is_old;
                // Searches at earlier points took about as long.
                let left = (place > 1 && !has_old).then(|| {
                    let each = before / (place - 1) as u32;
                    (each * (of - place + 1) as u32).saturating_sub(begun.elapsed() - before)
                });
                (options.tell)(&ScenarioEvent::Ran {
                    step: self.name,
                    run: &run,
                    is_old,
                    done: u64::from(ask.number),
                    of: 0,
                    point: (of > 1).then_some((place, of)),
                    around: &self.around.at,
                    rates: match terms.unit {
                        "bits_per_second" => RATES_IN_BITS,
                        _ => RATES_IN_PACKETS,
                    },
                    left,
                });
                if let Some(error) = &run.error {
                    not_simulated = run.not_simulated;
                    return Err(ScenarioError::program(self.name, error));
                }
                let trial = told(&run, terms.unit).map_err(|name| {
                    let reason = format!("trial {} has no {name}", ask.number);
                    ScenarioError::program(self.name, &reason)
                });
                if let Some(before) = runs.last_mut().filter(|_| ask.is_again) {
                    before.superseded = true;
                }
                runs.push(run);
                rates.push(ask.rate);
                if !tried.iter().any(|(_, known)| *known == here) {
                    tried.push((load, here));
                }
                trial
            };
            let searched = search(&terms, &mut trial);
            let at_result = searched.as_ref().ok().map(|searched| {
                let first = searched.found.first();
                first.map_or(vec![], |first| further_figures(&further, first, &runs, &rates))
            });
            let made = out.runs.len();
            out.runs.append(&mut runs);
            out.code = not_simulated.then(|| StepOutcome::NOT_SIMULATED.into());
            tried.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            all.extend(tried.into_iter().map(|(_, at)| at));
            let mut searched = match searched {
                Ok(searched) => searched,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            if let (Some(note), Some(first)) =
                (limited_note(&out.runs[made..]), searched.found.first_mut())
            {
                let own = std::iter::once(first.text.clone()).filter(|text| !text.is_empty());
                first.text = own.chain([note]).collect::<Vec<_>>().join("; ");
            }
            searched.found.extend(at_result.into_iter().flatten());
            let words: Vec<String> = at.iter().map(|(n, v)| format!("{n}={v}")).collect();
            open.extend(searched.open.into_iter().map(|why| match words.is_empty() {
                true => why,
                false => format!("{} [{}]", why, words.join(" ")),
            }));
            for mut figure in searched.found {
                figure.at.extend(around.iter().cloned());
                out.found.push(figure);
            }
        }
        let load = if step.kind == SearchKind::BackToBack { PACKETS } else { RATE };
        out.axes = axes.into_iter().map(|(name, _)| name).chain([load.into()]).collect();
        out.points = self.points(&all, &out.runs, self.execution.confidence().into());
        if let Some(error) = failed {
            return Err(error);
        }
        if let Some(first) = open.first() {
            out.outcome = out.outcome.and(Outcome::Inconclusive);
            out.reason = Some(match open.len() {
                1 => first.clone(),
                n => format!("{first}; and {} more", n - 1),
            });
        }
        Ok(())
    }
}

/// How many trials were host-limited, if any was. A repeated trial counts once, by its last attempt.
fn limited_note(runs: &[RunRef]) -> Option<String> {
    let counted = || runs.iter().filter(|run| run.is_counted());
    let limited = counted().filter(|run| run.host_limited).count();
    let were = if limited == 1 { "was" } else { "were" };
    (limited > 0).then(|| format!("{limited} of {} trials {were} host-limited", counted().count()))
}

/// Figures of the last trial at the rate that a search found, or at its lower bound.
fn further_figures(
    metrics: &[Metric],
    result: &Found,
    runs: &[RunRef],
    rates: &[f64],
) -> Vec<Found> {
    let passed = result.bounds.and_then(|bounds| bounds.low).or(result.value);
    let trial = runs.iter().zip(rates).rfind(|(_, rate)| Some(**rate) == passed);
    let Some((run, _)) = trial else { return vec![] };
    let figure = |metric: &Metric| {
        let name = metric.to_string();
        Some(Found {
            value: Some(*run.metrics.get(&name)?),
            name,
            at: result.at.clone(),
            unit: metric.unit().suffix().into(),
            interval: None,
            bounds: None,
            host_limited: run.host_limited,
            code: None,
            text: "of the trial at this rate".into(),
        })
    };
    metrics.iter().filter_map(figure).collect()
}

/// The load of a trial, and its value of an axis: the requested rate, or the packets of a burst.
fn load_of(ask: TrialRequest, unit: &str) -> (f64, (String, String)) {
    match ask.packets {
        Some(packets) => (packets as f64, (PACKETS.into(), packets.to_string())),
        None => (ask.rate, (RATE.into(), rate_text(ask.rate, unit))),
    }
}

/// A rate as in a plan.
fn rate_text(rate: f64, unit: &str) -> String {
    match unit {
        "bits_per_second" => format!("{rate:.0}"),
        _ => {
            let text = format!("{rate:.3}");
            format!("{}pps", text.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// The trial of a run, or the name of the missing figure: what was not counted was neither lost nor carried.
fn told(run: &RunRef, unit: &str) -> Result<Trial, &'static str> {
    let of = |name: &str| run.metrics.get(name).copied();
    let in_bits = unit == "bits_per_second";
    let delays = STATISTICS
        .iter()
        .filter_map(|s| Some(((*s).to_owned(), of(&format!("{s} one_way_delay"))?)));
    Ok(Trial {
        sent: of("sent_packets").ok_or("how many packets were sent")? as u64,
        lost: of("lost_packets").ok_or("how many packets were lost")? as u64,
        sent_rate: of(if in_bits { "sent_throughput" } else { "sent_packet_rate" }),
        received_rate: of(if in_bits { "throughput" } else { "packet_rate" }),
        delays: delays.collect(),
        host_limited: run.host_limited,
    })
}

/// A search at one point of its axes.
struct Room<'a> {
    step: &'a SearchStep,
    /// Values of the enclosing axes, used as variables in the step.
    around: &'a AxisValues,
    /// Values of its own axes.
    at: &'a AxisValues,
    files: &'a Files,
    parse_flags: ParseTestFlags<'a>,
    agents: plans::Agents<'a>,
    place: &'a str,
}

/// The datagrams of its plan.
struct Shape {
    flows: usize,
    payload_bytes: u64,
    family: LinkFamily,
    header_bytes: u8,
}

impl Room<'_> {
    fn refuse<T>(&self, field: &str, reason: &str) -> Result<T, ScenarioError> {
        Err(ScenarioError::refused(&format!("{}.{field}", self.place), reason))
    }

    /// The plan of a trial.
    fn plan(&self, ask: TrialRequest, unit: &str) -> Result<Plan, ScenarioError> {
        let test = &self.step.test;
        let text = |rate: f64| rate_text(rate, unit);
        let mut values: AxisValues = [self.around.clone(), self.at.clone()].concat();
        values.push((RATE.into(), text(ask.rate)));
        values.push(("seconds".into(), ask.seconds.to_string()));
        if let Some(packets) = ask.packets {
            values.push((PACKETS.into(), packets.to_string()));
        }
        let own = [RATE, "seconds", PACKETS].map(String::from).into_iter();
        let own: BTreeSet<String> = own.chain(self.around.iter().map(|(n, _)| n.clone())).collect();
        let mut plan = plans::plan(test, &values, &own, self.files, self.parse_flags, self.place)?;
        let senders = plans::paths(test, &values, self.agents, self.place)?.len() as u32;
        let flows: u32 = senders * plan.connections.iter().map(|c| c.count).sum::<u32>();
        for connection in &mut plan.connections {
            if !test.holds("rate") {
                // The rate is the total of all flows.
                connection.rate = Some(text(ask.rate / f64::from(flows.max(1))).parse()?);
            }
            match ask.packets {
                Some(packets) => (connection.packets, connection.duration) = (Some(packets), None),
                None if !test.holds("seconds") => connection.duration = Some(self.step.trial),
                None => {}
            }
        }
        plan.check()?;
        Ok(plan)
    }

    /// The flows of a plan, and their total rate.
    fn shape(&self, plan: &Plan, unit: &str) -> Result<(Shape, f64), ScenarioError> {
        let family = plan.family.unwrap_or(Family::Ipv4);
        let flows = plan.flows(family, MTU_BYTES);
        let payload_bytes = flows.first().map_or(0, |flow| flow.payload_bytes());
        let headers = flows.first().and_then(|f| f.connection.transport.headers());
        let link_family = match family {
            _ if flows.first().is_some_and(|f| f.connection.transport.frames()) => LinkFamily::NoIp,
            Family::Ipv4 => LinkFamily::Ipv4,
            Family::Ipv6 => LinkFamily::Ipv6,
        };
        if flows.iter().any(|f| !f.connection.transport.datagrams()) {
            return self.refuse("test", "a stream: a search counts datagrams");
        }
        if flows.iter().any(|f| f.connection.shape.has_transactions()) {
            return self.refuse("test", "transactions: a search counts datagrams");
        }
        if self.step.nominal.is_some()
            && !flows.iter().all(|f| f.size == flows[0].size && f.size.is_constant())
        {
            return self
                .refuse("nominal", "datagrams of several sizes: no one rate fills the line");
        }
        let rates = flows.iter().map(|flow| match unit {
            "bits_per_second" => flow.bits_per_second(),
            _ => flow.packets_per_second(),
        });
        // An unlimited rate differs from every requested one.
        let values: AxisValues = [self.around.clone(), self.at.clone()].concat();
        let senders = plans::paths(&self.step.test, &values, self.agents, self.place)?.len();
        let rate = senders as f64 * rates.sum::<Option<f64>>().unwrap_or(f64::INFINITY);
        Ok((
            Shape {
                flows: senders * flows.len(),
                payload_bytes,
                family: link_family,
                header_bytes: headers.map_or(0, |h| h.bytes),
            },
            rate,
        ))
    }

    /// The settings at this point.
    fn terms(&self, confidence: f64, seed: u64) -> Result<Terms, ScenarioError> {
        let step = self.step;
        let Some((low, in_bits)) = self.rate("low", step.low.as_deref())? else {
            return self.refuse("low", "missing: the minimum rate, such as 1000pps or 1M");
        };
        let unit = if in_bits { "bits_per_second" } else { "packets_per_second" };
        let seconds = step.trial.seconds();
        let is_burst = step.kind == SearchKind::BackToBack;
        let packets = is_burst.then_some(1);
        let ask = |rate| TrialRequest { rate, seconds, packets, number: 1, is_again: false };
        let (shape, rate) = self.shape(&self.plan(ask(low), unit)?, unit)?;
        let payload_bits = shape.payload_bytes as f64 * 8.0;
        let high = match (self.rate("high", step.high.as_deref())?, &step.nominal) {
            (Some((high, is_same)), None) if is_same == in_bits => high,
            (Some(_), None) => return self.refuse("low", "a rate of the same unit as high"),
            (Some(_), Some(_)) => return self.refuse("nominal", "one of high and nominal"),
            (None, None) => {
                let reason = "missing: the maximum rate, or nominal for that of the link";
                return self.refuse("high", reason);
            }
            (None, Some(nominal)) => {
                let Some((nominal, true)) = self.rate("nominal", Some(nominal.as_str()))? else {
                    return self.refuse("nominal", "bits per second of the link, such as 1G");
                };
                let transport = LinkTransport::datagrams(shape.header_bytes);
                let line = LinkShape::new(transport, shape.family)
                    .line_rate_packets_per_second(nominal, shape.payload_bytes);
                if in_bits { line * payload_bits } else { line }
            }
        };
        if low >= high {
            let reason = format!("a rate below the maximum of {high:.0} {unit}");
            return self.refuse("low", &reason);
        }
        if is_burst && shape.flows > 1 {
            return self.refuse("test", "several flows: a burst is of one");
        }
        // The total rate of the flows must be the requested one.
        if (rate / low - 1.0).abs() > 0.01 {
            let reason = "its flows do not send {rate} together: the rate of each has to be a fraction of it";
            return self.refuse("test", reason);
        }
        let packets = low * seconds / if in_bits { payload_bits } else { 1.0 };
        if !is_burst && (packets.is_nan() || packets < MIN_PACKETS) {
            let reason = format!(
                "{packets:.0} packets in a trial of {seconds} s, at least {MIN_PACKETS} are needed"
            );
            return self.refuse("low", &reason);
        }
        let precision = step.precision_percentage.unwrap_or(1.0) / 100.0;
        if !(precision > 0.0 && precision < 1.0) {
            return self.refuse("precision_percentage", "above 0 and below 100");
        }
        if !(0.0..100.0).contains(&step.loss_percentage) {
            return self.refuse("loss_percentage", "0 and more, below 100");
        }
        let kind = step.kind;
        let (loss, runs) = (step.loss_percentage / 100.0, step.runs.unwrap_or(1));
        let max_trials = step.max_trials.unwrap_or(MAX_TRIALS);
        if !(1..=MAX_TRIALS).contains(&max_trials) {
            return self.refuse("max_trials", &format!("1 to {MAX_TRIALS}"));
        }
        Ok(Terms {
            kind,
            low,
            high,
            unit,
            precision,
            seconds,
            loss,
            runs,
            confidence,
            seed,
            max_trials,
        })
    }

    /// A rate as a number, and whether it is in bits.
    fn rate(&self, name: &str, text: Option<&str>) -> Result<Option<(f64, bool)>, ScenarioError> {
        let Some(text) = text else { return Ok(None) };
        let parsed: SendRate = text.parse()?;
        Ok(Some(match parsed.limit {
            RateLimit::Bits(bits) if bits.0 > 0 => (bits.0 as f64, true),
            RateLimit::Packets(packets) if packets > 0.0 => (packets, false),
            _ => return self.refuse(name, "a rate above 0, such as 100M or 50000pps"),
        }))
    }
}

/// Checks a search at one point of its axes; returns the maximum number of its trials.
pub(in crate::scenario) fn check_search(
    step: &SearchStep,
    around: &AxisValues,
    at: &AxisValues,
    looked: &plans::CheckContext<'_>,
    place: &str,
) -> Result<u32, ScenarioError> {
    let plans::CheckContext { files, parse_flags, agents, .. } = *looked;
    let terms = Room { step, around, at, files, parse_flags, agents, place }.terms(0.95, 0)?;
    Ok(terms.most_trials())
}

#[cfg(test)]
mod tests {
    use super::*;

    static NONE_NAMED: BTreeMap<String, String> = BTreeMap::new();
    const NO_AGENTS: plans::Agents<'static> = plans::Agents { named: &NONE_NAMED, remote: None };

    fn step(low: &str, high: &str, nominal: &str) -> SearchStep {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        SearchStep {
            kind: SearchKind::Throughput,
            low: some(low),
            high: some(high),
            nominal: some(nominal),
            trial: "1s".parse().unwrap(),
            test: TestStep {
                plan: Some(serde_json::json!({ "connection": [{ "transport": "udp" }] })),
                ..TestStep::default()
            },
            ..SearchStep::default()
        }
    }

    fn terms(step: &SearchStep, at: &[(&str, &str)]) -> Result<Terms, String> {
        let files = Files::default();
        let at: AxisValues = at.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        let parse_flags = |_: &[String]| Err(Default::default());
        let none = vec![];
        let room = Room {
            agents: NO_AGENTS,
            step,
            around: &none,
            at: &at,
            files: &files,
            parse_flags: &parse_flags,
            place: "s",
        };
        room.terms(0.95, 1).map_err(|e| e.to_string())
    }

    #[test]
    fn the_greatest_rate_is_the_line_s_for_each_size() {
        let step = step("200pps", "", "10M");
        let high = |size: &str, family: &str| {
            terms(&step, &[("size", size), ("family", family)]).unwrap().high
        };
        // 64 B and 1518 B of Ethernet, 20 B of preamble and gap: 14 880.95 and 812.74 frames/s on 10 Mbit/s.
        assert!((high("18", "ipv4") - 14_880.952).abs() < 0.001);
        assert!((high("1472", "ipv4") - 812.744).abs() < 0.001);
        assert!((high("1472", "ipv6") - 1e7 / 8.0 / 1558.0).abs() < 100.0);
        let bits = SearchStep { low: Some("2M".into()), ..step.clone() };
        let terms = terms(&bits, &[("size", "1472")]).unwrap();
        assert_eq!(terms.unit, "bits_per_second");
        assert!((terms.high - 812.744 * 1472.0 * 8.0).abs() < 10.0);
    }

    #[test]
    fn a_search_that_could_decide_nothing_is_refused() {
        let size: &[(&str, &str)] = &[("size", "500")];
        let why = |step: &SearchStep| terms(step, size).unwrap_err();
        for (low, high, nominal, wanted) in [
            ("", "1000pps", "", "s.low: missing"),
            ("0", "1000pps", "", "s.low: a rate above 0"),
            ("0pps", "1000pps", "", "rate"),
            ("99pps", "1000pps", "", "s.low: 99 packets in a trial of 1 s"),
            // 4000 bits are a packet.
            ("100K", "1M", "", "s.low: 25 packets in a trial"),
            ("1000pps", "1000pps", "", "s.low: a rate below the maximum"),
            ("1M", "1000pps", "", "s.low: a rate of the same unit"),
            ("200pps", "", "", "s.high: missing"),
            ("200pps", "1000pps", "1M", "s.nominal: one of"),
            ("200pps", "", "1000pps", "s.nominal: bits per second"),
        ] {
            let given = why(&step(low, high, nominal));
            assert!(given.contains(wanted), "low {low}, high {high}, nominal {nominal}: {given}");
        }
        let mut stream = step("200pps", "1000pps", "");
        stream.test.plan = Some(serde_json::json!({ "connection": [{ "transport": "tcp" }] }));
        assert!(why(&stream).contains("s.test: a stream"), "{}", why(&stream));
        let mut several = step("200pps", "1000pps", "");
        several.test.plan = Some(serde_json::json!({
            "connection": [{ "transport": "udp", "count": 4, "rate": "{rate}" }]
        }));
        assert!(why(&several).contains("together"), "{}", why(&several));
    }

    #[test]
    fn a_rate_is_of_all_flows_and_a_burst_keeps_it() {
        let mut step = step("200pps", "1000pps", "");
        step.test.plan =
            Some(serde_json::json!({ "connection": [{ "transport": "udp", "count": 4 }] }));
        let parse_flags = |_: &[String]| Err(Default::default());
        let (none, files) = (vec![], Files::default());
        let room = Room {
            agents: NO_AGENTS,
            step: &step,
            around: &none,
            at: &none,
            files: &files,
            parse_flags: &parse_flags,
            place: "",
        };
        let ask = |packets| TrialRequest {
            rate: 1000.0,
            seconds: 1.0,
            packets,
            number: 1,
            is_again: false,
        };
        let rate = |packets| {
            let plan = room.plan(ask(packets), "packets_per_second").unwrap();
            plan.connections[0].rate.unwrap().to_string()
        };
        assert_eq!(rate(None), "250pps");
        // Back to back at the maximum rate, not unlimited.
        assert_eq!(rate(Some(40)), "250pps");
    }

    #[test]
    fn a_repeated_trial_counts_once_by_its_last_attempt() {
        let limited = RunRef { host_limited: true, ..RunRef::default() };
        let again = RunRef { superseded: true, ..limited.clone() };
        let failed = RunRef { error: Some("refused".into()), ..limited.clone() };
        let note = limited_note(&[again.clone(), again, limited, failed, RunRef::default()]);
        assert_eq!(note.as_deref(), Some("1 of 2 trials was host-limited"));
        assert_eq!(limited_note(&[RunRef::default()]), None);
    }

    #[test]
    fn a_rate_has_the_digits_that_it_needs() {
        assert_eq!(rate_text(1000.0, "packets_per_second"), "1000pps");
        assert_eq!(rate_text(812.7437, "packets_per_second"), "812.744pps");
        assert_eq!(rate_text(1e6, "bits_per_second"), "1000000");
    }

    #[test]
    fn what_a_trial_does_not_tell_is_not_taken_for_none() {
        let run = |names: &[&str]| RunRef {
            metrics: names.iter().map(|n| ((*n).to_owned(), 1000.0)).collect(),
            ..RunRef::default()
        };
        let all = ["sent_packets", "lost_packets", "sent_packet_rate"];
        let trial = told(&run(&all), "packets_per_second").unwrap();
        assert_eq!((trial.lost, trial.sent_rate, trial.received_rate), (1000, Some(1000.0), None));
        assert_eq!(
            told(&run(&["sent_packets"]), "packets_per_second"),
            Err("how many packets were lost")
        );
    }
}
