//! The plans of a scenario's tests: replaces the variables of a point, sets parameters, reads files.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::Value;
use weir_jobs::RemoteHosts;
use weir_model::ModelError;
use weir_model::content::Content;
use weir_model::document;
use weir_model::experiment::{
    Action, ImpairStep, Rule, Scenario, Step, TestStep, Variables, check_axes, expand,
    set_parameters, test_plan,
};
use weir_model::impairment::Impairment;
use weir_model::one_of;
use weir_model::plan::{Plan, TransportName};
use weir_stats::compare::SplitMix64;

use super::estimate::Estimate;
use super::grid::{AxisValues, points};
use super::{Files, ParseTestFlags, ScenarioError};

/// Values as variables; a value that parses as a number is one.
pub(super) fn variables(at: &[(String, String)]) -> Variables {
    at.iter()
        .map(|(name, value)| {
            let number = value.parse::<u64>().map(Value::from);
            (name.clone(), number.unwrap_or_else(|_| Value::String(value.clone())))
        })
        .collect()
}

/// A part of the scenario with the variables of a point replaced.
pub(super) fn at_point<T: serde::Serialize + serde::de::DeserializeOwned>(
    value: &T,
    at: &[(String, String)],
    place: &str,
) -> Result<T, ScenarioError> {
    let raw = serde_json::to_value(value).unwrap_or_default();
    let raw = expand(&raw, &variables(at), &BTreeSet::new(), place)?;
    document::read(&raw).map_err(|error| ScenarioError::Refused {
        given: Some(error.given.clone()),
        reason: error.accepted_with_hint(),
        field: error.inside(place).field,
    })
}

/// Splits a command line into arguments; quotes keep spaces together.
fn split(text: &str) -> Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (vec![], None::<String>, None);
    for c in text.chars() {
        match (quote, c) {
            (Some(q), c) if c == q => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        Some(q) => Err(format!("{q} is not closed")),
        None => Ok(words),
    }
}

/// The plan of a test at a point. `own` are axes that belong to something else (the emulator), not to the plan.
pub(super) fn plan(
    test: &TestStep,
    at: &AxisValues,
    own: &BTreeSet<String>,
    files: &Files,
    parse_flags: ParseTestFlags<'_>,
    place: &str,
) -> Result<Plan, ScenarioError> {
    let there: TestStep = at_point(test, at, place)?;
    let plan = if let Some(plan) = &there.plan {
        test_plan(plan)?
    } else if let Some(name) = &there.plan_file {
        Plan::parse(&files.read(name)?)?
    } else {
        let line = split(there.args.as_deref().unwrap_or_default())
            .map_err(|e| ScenarioError::refused(&format!("{place}.args"), &e))?;
        parse_flags(&line).map_err(|mut refusal| {
            // The field is that of the scenario; what was given in it is the flag with its value.
            let flag = refusal.field.take().unwrap_or_default();
            refusal.given = Some(match refusal.given.as_deref() {
                None | Some("nothing") => flag,
                Some(given) if given == flag => flag,
                Some(given) => format!("{flag} {given}"),
            });
            ScenarioError::Flags { field: format!("{place}.args"), refusal }
        })?
    };
    let parameters = at.iter().filter(|(name, _)| !test.holds(name) && !own.contains(name));
    let parameters = parameters.map(|(name, value)| (name.as_str(), value.as_str()));
    let plan = set_parameters(&plan, parameters)?;
    if plan.connections.iter().any(|connection| connection.content == Content::File) {
        // Its tests run in processes of their own, which read no file that a document names.
        return Err(ScenarioError::Refused {
            field: format!("{place}.content"),
            given: Some(Content::File.to_string()),
            reason: "generated content: only `weir test` sends a file or replays a capture".into(),
        });
    }
    Ok(plan)
}

/// The path of a test: the host that starts it and that of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestPath {
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
}

/// The agents that a scenario names.
#[derive(Clone, Copy)]
pub(super) struct Agents<'a> {
    pub(super) named: &'a BTreeMap<String, String>,
    /// The fleet; absent: which agents the names stand for is not known.
    pub(super) remote: Option<&'a dyn RemoteHosts>,
}

impl Agents<'_> {
    /// The hosts of a list joined by `+`, with the agents of each name.
    fn hosts(&self, list: &str) -> Vec<String> {
        let names = list.split('+').map(|name| name.trim().to_owned());
        let of = |name: String| match self.remote.filter(|_| self.named.contains_key(&name)) {
            Some(remote) => remote.members(&name),
            None => vec![name],
        };
        names.flat_map(of).collect()
    }

    fn are_unknown(&self, hosts: &[String]) -> bool {
        self.remote.is_none() && hosts.iter().any(|host| self.named.contains_key(host))
    }
}

/// The paths of a test at a point: one for each of its senders. A shorter list of hosts is repeated.
pub(super) fn paths(
    test: &TestStep,
    at: &AxisValues,
    agents: Agents<'_>,
    place: &str,
) -> Result<Vec<TestPath>, ScenarioError> {
    let hosts = |name: &Option<String>| -> Result<Vec<String>, ScenarioError> {
        let Some(name) = name else { return Ok(vec![]) };
        let name: String = at_point(name, at, place)?;
        Ok(agents.hosts(&name))
    };
    let (from, to) = (hosts(&test.from)?, hosts(&test.to)?);
    if let Some(topology) = test.topology
        && !agents.are_unknown(&from)
        && !agents.are_unknown(&to)
    {
        let pairs = topology.pairs(&from, &to).map_err(|error| match error {
            ModelError::Field { field, given, accepted } => {
                let field = format!("{place}.test.{field}");
                ModelError::Field { field, given, accepted }
            }
            other => other,
        })?;
        let path = |(from, to)| TestPath { from: Some(from), to: Some(to) };
        return Ok(pairs.into_iter().map(path).collect());
    }
    let some = |hosts: Vec<String>| -> Vec<Option<String>> {
        if hosts.is_empty() { vec![None] } else { hosts.into_iter().map(Some).collect() }
    };
    let (from, to) = (some(from), some(to));
    let pairs = from.iter().cycle().zip(to.iter().cycle()).take(from.len().max(to.len()));
    Ok(pairs.map(|(from, to)| TestPath { from: from.clone(), to: to.clone() }).collect())
}

/// The plan with its seed: its own, or one derived from the experiment's seed and the run's key.
pub(super) fn seeded(mut plan: Plan, seed: u64, key: &str) -> Plan {
    if plan.seed.0 == 0 {
        // FNV-1a, 64 bits.
        let hash = key.bytes().fold(0xcbf2_9ce4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
        });
        // JSON readers keep 53 bits of a number.
        plan.seed.0 = (SplitMix64::new(seed ^ hash).draw() >> 11).max(1);
    }
    plan
}

/// The impairment of a step at a point, if any.
pub(super) fn impairment(
    step: &ImpairStep,
    at: &AxisValues,
    files: &Files,
    place: &str,
) -> Result<Option<Impairment>, ScenarioError> {
    if step.clear {
        return Ok(None);
    }
    let there: ImpairStep = at_point(step, at, place)?;
    files.impairment(&there.to, place).map(Some)
}

/// Axes that an impairment step uses.
pub(super) fn names_of(impair: Option<&ImpairStep>, at: &[(String, String)]) -> BTreeSet<String> {
    let text = impair.and_then(|i| serde_json::to_string(i).ok()).unwrap_or_default();
    at.iter().map(|(n, _)| n).filter(|n| text.contains(&format!("{{{n}}}"))).cloned().collect()
}

/// What checking a scenario needs.
pub(super) struct CheckContext<'a> {
    pub(super) files: &'a Files,
    pub(super) parse_flags: ParseTestFlags<'a>,
    pub(super) agents: Agents<'a>,
    /// Asked at every point; true stops the check.
    pub(super) is_stopped: &'a dyn Fn() -> bool,
}

impl CheckContext<'_> {
    fn go_on(&self) -> Result<(), ScenarioError> {
        if (self.is_stopped)() { Err(ScenarioError::Stopped) } else { Ok(()) }
    }
}

/// Checks what [`Scenario::parse`] cannot: plans from flags at every point, and files.
pub(super) fn check(
    scenario: &Scenario,
    looked: &CheckContext<'_>,
) -> Result<Estimate, ScenarioError> {
    for (name, emulator) in &scenario.emulators {
        looked.files.impairment(&emulator.initial, &format!("emulator.{name}"))?;
    }
    scenario.tables.iter().try_for_each(|table| super::table::check(table, looked.files))?;
    all(&scenario.steps, &vec![], looked)
}

/// Steps in sequence.
fn all(
    steps: &[Step],
    around: &AxisValues,
    looked: &CheckContext<'_>,
) -> Result<Estimate, ScenarioError> {
    let each: Vec<Estimate> =
        steps.iter().map(|step| one(step, around, looked)).collect::<Result<_, _>>()?;
    // Steps after a background test run concurrently with it.
    Ok(steps.iter().zip(each).rev().fold(Estimate::default(), |rest, (step, own)| {
        let is_beside = step.test.as_ref().is_some_and(|test| test.background);
        if is_beside { own.beside(rest) } else { own + rest }
    }))
}

fn one(
    step: &Step,
    around: &AxisValues,
    looked: &CheckContext<'_>,
) -> Result<Estimate, ScenarioError> {
    let CheckContext { files, parse_flags, .. } = *looked;
    let name = step.name.as_deref().unwrap_or("step");
    let inside = |over: &[String]| -> Result<Vec<AxisValues>, ScenarioError> {
        let own = points(&check_axes(over, name)?);
        Ok(own.into_iter().map(|at| [around.clone(), at].concat()).collect())
    };
    let own = BTreeSet::new();
    Ok(match step.action() {
        Some(Action::Test(test)) => {
            let plan = plan(test, &vec![], &own, files, parse_flags, name)?;
            measurable(step, around, &plan, name)?;
            paths(test, around, looked.agents, name)?;
            Estimate::of(&plan).times(test.runs.unwrap_or(1).into())
        }
        Some(Action::Sweep(sweep)) => {
            let all = inside(&sweep.over)?;
            let mut once = Estimate { points: all.len() as u64, ..Estimate::default() };
            for at in &all {
                looked.go_on()?;
                let own = names_of(sweep.impair.as_ref(), at);
                let own: BTreeSet<String> =
                    own.into_iter().chain(around.iter().map(|(n, _)| n.clone())).collect();
                let plan = plan(&sweep.test, at, &own, files, parse_flags, name)?;
                measurable(step, at, &plan, name)?;
                paths(&sweep.test, at, looked.agents, name)?;
                if sweep.compare_content {
                    super::steps::check_content(&plan)?;
                }
                once += Estimate::of(&plan);
                if let Some(impair) = &sweep.impair {
                    impairment(impair, at, files, name)?;
                }
            }
            let runs = super::repetition::Repetition::of(sweep, 0.95).first;
            let whole = once.times(runs.into());
            let pauses = sweep.pause.map_or(Duration::ZERO, |pause| {
                Duration::from_nanos(pause.0).saturating_mul(whole.runs.min(u32::MAX.into()) as u32)
            });
            Estimate {
                points: once.points,
                waiting: pauses,
                is_minimum: whole.is_minimum
                    || sweep.precision_percentage.is_some()
                    || sweep.repeat_host_limited > 0,
                ..whole
            }
        }
        Some(Action::Search(search)) => {
            let all = points(&check_axes(&search.over, name)?);
            let mut once = Estimate::default();
            for at in &all {
                looked.go_on()?;
                let trials = super::steps::check_search(search, around, at, looked, name)?;
                let trial = Duration::from_nanos(search.trial.0);
                once += Estimate::search(trials, trial);
            }
            once
        }
        Some(Action::Compare(compare)) => {
            let all = inside(&compare.over)?;
            let mut once = Estimate::default();
            for at in &all {
                looked.go_on()?;
                let load = super::steps::compared(compare, at, name)?;
                let sending = Duration::from_secs(load.seconds.into());
                once += Estimate { points: 1, runs: 1, sending, ..Estimate::default() };
            }
            super::steps::check_compare(compare, &all, parse_flags, name)?;
            let tools = compare.tools.len().max(1) as u64;
            Estimate {
                points: once.points,
                // Which tools are installed is not known here.
                is_minimum: compare.tools.is_empty(),
                ..once.times(tools * u64::from(compare.runs.unwrap_or(1)))
            }
        }
        Some(Action::Impair(impair)) => {
            impairment(impair, &vec![], files, name).map(|_| Estimate::default())?
        }
        Some(Action::Parallel(inner)) => {
            inner.iter().try_fold(Estimate::default(), |sum, step| {
                one(step, around, looked).map(|one| sum.beside(one))
            })?
        }
        Some(Action::Repeat(repeat)) => {
            let mut once = Estimate::default();
            for at in inside(&repeat.over)? {
                looked.go_on()?;
                let inner: Vec<Step> = at_point(&repeat.steps, &at, name)?;
                once += all(&inner, &at, looked)?;
            }
            once.times(repeat.times.unwrap_or(1).into())
        }
        Some(Action::Wait(wait)) => {
            Estimate::pause(wait.time.map_or(Duration::ZERO, |time| Duration::from_nanos(time.0)))
        }
        Some(Action::Start(_) | Action::Stop(_) | Action::Command(_) | Action::Collect(_))
        | None => Estimate::default(),
    })
}

/// Refuses an expectation on a metric that the test's flows never have, such as the loss of a stream.
fn measurable(step: &Step, at: &AxisValues, plan: &Plan, place: &str) -> Result<(), ScenarioError> {
    for text in &step.expect {
        let rule: Rule = text.parse()?;
        let with: Vec<&str> = TransportName::ALL
            .iter()
            .filter(|name| rule.metric.applies_to(**name))
            .map(|name| name.label())
            .collect();
        let is_here =
            rule.at.iter().all(|(name, value)| at.contains(&(name.clone(), value.clone())));
        let has_flows = !plan.connections.is_empty();
        if is_here
            && has_flows
            && !plan.connections.iter().any(|c| rule.metric.applies_to(c.transport.name()))
        {
            let here = super::grid::key(at);
            let here = if here.is_empty() { here } else { format!(" at {here}") };
            return Err(ScenarioError::refused(
                &format!("{place}.expect"),
                &format!(
                    "'{text}' can't be judged{here}: only transport {} has {}; restrict it, such as 'where transport={}'",
                    one_of(with.iter().copied()),
                    rule.metric.definition().name,
                    with.first().copied().unwrap_or_default(),
                ),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_flow_has_is_no_expectation() {
        let udp = weir_model::plan::Connection {
            transport: weir_model::plan::Transport::udp(),
            ..Default::default()
        };
        let tcp = Plan { connections: vec![Default::default()], ..Plan::default() };
        let both = Plan { connections: vec![Default::default(), udp], ..Plan::default() };
        let at = |value: &str| vec![("transport".to_owned(), value.to_owned())];
        let of = |text: &str, at: &AxisValues, plan: &Plan| {
            let step = Step { expect: vec![text.into()], ..Step::default() };
            measurable(&step, at, plan, "s").map_err(|error| match error {
                ScenarioError::Refused { field, .. } => field,
                other => panic!("{other}"),
            })
        };
        assert_eq!(of("loss < 100 %", &at("tcp"), &tcp), Err("s.expect".into()));
        assert_eq!(of("loss < 100 % where transport=udp", &at("tcp"), &tcp), Ok(()));
        assert_eq!(of("loss < 100 %", &at("both"), &both), Ok(()));
        assert_eq!(of("throughput > 1M", &vec![], &tcp), Ok(()));
    }

    #[test]
    fn every_sender_has_a_path() {
        let of = |from: &str, to: &str, at: &[(&str, &str)]| -> Vec<String> {
            let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let test = TestStep { from: some(from), to: some(to), ..TestStep::default() };
            let at: AxisValues = at.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
            let word = |host: &Option<String>| host.clone().unwrap_or_else(|| "-".into());
            let paths =
                paths(&test, &at, Agents { named: &BTreeMap::new(), remote: None }, "s").unwrap();
            paths.iter().map(|p| format!("{}>{}", word(&p.from), word(&p.to))).collect()
        };
        assert_eq!(of("", "", &[]), ["->-"]);
        assert_eq!(of("a+c+e", "b+d", &[]), ["a>b", "c>d", "e>b"]);
        assert_eq!(of("a + c", "", &[]), ["a>-", "c>-"]);
        assert_eq!(of("a", "b+d", &[]), ["a>b", "a>d"]);
        assert_eq!(of("{from}", "b", &[("from", "a+c")]), ["a>b", "c>b"]);
    }

    #[test]
    fn pauses_and_waits_are_reported_beside_what_sends() {
        let of = |steps: &str| {
            let text = format!("schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n{steps}");
            let scenario =
                Scenario::parse(&text, false, &Variables::new(), &Default::default()).unwrap();
            let parse_flags =
                |_: &[String]| Err(Box::new(weir_model::Refusal::new("usage", "no flags here", 2)));
            let files = Files::new("/nonexistent");
            let agents = Agents { named: &scenario.agents, remote: None };
            let looked = CheckContext {
                files: &files,
                parse_flags: &parse_flags,
                agents,
                is_stopped: &|| false,
            };
            let estimate = check(&scenario, &looked).unwrap();
            (estimate.runs, estimate.sending.as_secs(), estimate.waiting.as_secs())
        };
        let test = "test = { plan = { omit = \"1s\", connection = [{ duration = \"2s\" }] } }";
        let sweep = format!(
            "[[step]]\nsweep = {{ over = [\"length=100,200\"], runs = 2, pause = \"5s\", {test} }}\n"
        );
        assert_eq!(of(&sweep), (4, 12, 20));
        let wait = "[[step]]\nwait = { time = \"7s\" }\n";
        assert_eq!(of(wait), (0, 0, 7));
        let repeat = format!(
            "[[step]]\nrepeat = {{ times = 3, step = [{{ {test} }}, {{ wait = {{ time = \"7s\" }} }}] }}\n"
        );
        assert_eq!(of(&repeat), (3, 9, 21));
        // The background test still sends for 3 s of the wait of 7 s.
        let background = test.replace("plan =", "background = true, plan =");
        let behind = format!("[[step]]\n{background}\n{wait}");
        assert_eq!(of(&behind), (1, 3, 4));
        assert_eq!(of(&format!("{wait}[[step]]\n{background}\n")), (1, 3, 7));
    }

    #[test]
    fn pcap_expressions_are_compiled_before_anything_starts() {
        let files = Files::new("/nonexistent");
        let impairment = |expression: &str| {
            let flow = serde_json::json!({ "name": "f", "filter": { "pcap": expression } });
            let form = weir_model::experiment::Impairing {
                config: Some(serde_json::json!({ "schema": "weir.impair/1", "flow": [flow] })),
                ..Default::default()
            };
            files.impairment(&form, "step[0].impair")
        };
        // libpcap refuses it, or is missing.
        let Err(ScenarioError::Model(weir_model::ModelError::Field { field, given, .. })) =
            impairment("ip and")
        else {
            panic!("not refused by its field")
        };
        assert_eq!(field, "step[0].impair.config: flow[0].filter.pcap");
        assert_eq!(given, "ip and");
        if let Ok(compiled) = impairment("ip") {
            assert!(compiled.pcap_expressions()[0].1.program().is_some());
        }
    }

    /// Checking ten thousand points takes a while: a stop takes effect at the next point.
    #[test]
    fn a_check_is_stopped_between_two_points() {
        let text = "schema = \"weir.scenario/1\"\nname = \"s\"\n[lab]\n[[step]]\nsweep = { over = [\"length=1..10000:1\"], test = {} }";
        let none = Default::default();
        let scenario = Scenario::parse(text, false, &Variables::new(), &none).unwrap();
        let files = Files::new("/nonexistent");
        let looked_at = std::sync::atomic::AtomicU32::new(0);
        let parse_flags = |_: &[String]| {
            looked_at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(Plan { connections: vec![Default::default()], ..Plan::default() })
        };
        let seen = || looked_at.load(std::sync::atomic::Ordering::Relaxed);
        let agents = Agents { named: &scenario.agents, remote: None };
        let looked = CheckContext {
            files: &files,
            parse_flags: &parse_flags,
            agents,
            is_stopped: &|| seen() >= 5,
        };
        assert!(matches!(check(&scenario, &looked), Err(ScenarioError::Stopped)));
        assert_eq!(seen(), 5);
    }

    #[test]
    fn quotes_keep_words_together() {
        let words = |text: &str| split(text).unwrap();
        assert_eq!(words("-u  -b 10M"), ["-u", "-b", "10M"]);
        assert_eq!(words("-T 'two words' \"\""), ["-T", "two words", ""]);
        assert!(words("").is_empty());
        assert!(split("-T 'x").is_err());
    }

    #[test]
    fn a_seed_follows_from_the_experiment_and_the_run_alone() {
        let of = |seed, key| seeded(Plan::default(), seed, key).seed;
        assert_eq!(of(1, "a"), of(1, "a"));
        assert_ne!(of(1, "a"), of(1, "b"));
        assert_ne!(of(1, "a"), of(2, "a"));
        let own = Plan { seed: weir_model::units::Seed(9), ..Plan::default() };
        assert_eq!(seeded(own, 1, "a").seed.0, 9);
    }
}
