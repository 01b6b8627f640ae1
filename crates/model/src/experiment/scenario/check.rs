//! Checks a scenario before anything starts.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Action, ImpairStep, SCENARIO_SCHEMA, Scenario, SearchKind, Step, StopStep, SweepStep, TestStep,
    Topology, Values, inside, nearest, refuse, test_plan,
};
use crate::ModelError;
use crate::experiment::{Metric, Rule, ranges};
use crate::names::{EMULATOR_END_FORMS, is_emulator_end, is_host};
use crate::threads::Threads;

/// Maximum number of steps, nested ones included.
const MAX_STEPS: usize = 10_000;
/// Maximum number of runs of a scenario, and of points of a sweep.
const MAX_RUNS: u64 = 100_000;
/// Maximum number of repetitions of one test, at one point.
const MAX_REPETITIONS: u32 = 10_000;
/// Maximum number of repetitions of a host-limited run.
const MAX_AGAIN: u32 = 100;

/// The axes of a step and of the steps around it, with their values; empty lists for values not known yet.
type Axes = BTreeMap<String, Vec<String>>;

impl Scenario {
    pub(super) fn check(&self) -> Result<(), ModelError> {
        if self.schema != SCENARIO_SCHEMA {
            return refuse("schema", &self.schema, SCENARIO_SCHEMA);
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if self.name.is_empty() || self.name.len() > 64 || !self.name.chars().all(is_plain) {
            return refuse(
                "name",
                &format!("{:?}", self.name),
                "1 to 64 of letters, digits, '-', '_', '.'",
            );
        }
        if !(50.0..100.0).contains(&self.confidence_percentage) {
            return refuse(
                "confidence_percentage",
                &self.confidence_percentage.to_string(),
                "50 to below 100",
            );
        }
        if let Some(name) = self.quick.keys().find(|n| !self.variables.contains_key(*n)) {
            return refuse(&format!("quick.{name}"), "no such variable", "names of [variables]");
        }
        if self.steps.is_empty() {
            return refuse("step", "none", "at least one [[step]]");
        }
        if let Some(lab) = &self.lab {
            let hosts = lab.hosts.unwrap_or(2);
            if !(2..=16).contains(&hosts) {
                return refuse("lab.hosts", &hosts.to_string(), "2 to 16");
            }
            if let Some(name) = lab.sysctls.keys().find(|name| !name.starts_with("net.")) {
                return refuse(
                    "lab.sysctls",
                    name,
                    "names of kernel settings that begin with net.",
                );
            }
        }
        for (name, host) in &self.hosts {
            if host.address.is_empty() {
                return refuse(&format!("host.{name}.address"), "none", "a name or an address");
            }
            if !is_host(&host.address) {
                return refuse(
                    &format!("host.{name}.address"),
                    &format!("{:?}", host.address),
                    "a name or an address",
                );
            }
            if name == "local" || self.lab_hosts().contains(name) {
                return refuse(&format!("host.{name}"), "a name that is in use", "another name");
            }
        }
        for (name, selector) in &self.agents {
            let at = format!("agents.{name}");
            if selector.trim().is_empty() {
                let accepted = "names of agents and labels KEY=VALUE, separated by commas, or all";
                return refuse(&at, "nothing", accepted);
            }
            if name == "local" || self.lab_hosts().contains(name) || self.hosts.contains_key(name) {
                return refuse(&at, "a name that is in use", "another name");
            }
        }
        for (name, emulator) in &self.emulators {
            let at = format!("emulator.{name}");
            let has_middle = self.lab.as_ref().is_some_and(|l| l.middle);
            if let Some(agent) = &emulator.agent {
                let field = format!("{at}.agent");
                if !self.agents.contains_key(agent) {
                    let known: Vec<&str> = self.agents.keys().map(String::as_str).collect();
                    let accepted = if known.is_empty() {
                        "a name of [agents]".into()
                    } else {
                        known.join(", ")
                    };
                    return refuse(&field, agent, &accepted);
                }
                if emulator.interfaces.is_none() {
                    return refuse(
                        &format!("{at}.interfaces"),
                        "none",
                        "two interfaces of the agent's host",
                    );
                }
            }
            match (&emulator.interfaces, &emulator.control_socket) {
                (Some(_), Some(_)) => {
                    return refuse(&at, "interfaces and control_socket", "one of them");
                }
                (None, None) if !has_middle => {
                    return refuse(
                        &at,
                        "neither",
                        "interfaces, control_socket, or [lab] with middle = true",
                    );
                }
                _ => {}
            }
            for (i, interface) in emulator.interfaces.iter().flatten().enumerate() {
                if !is_emulator_end(interface) {
                    return refuse(
                        &format!("{at}.interfaces[{i}]"),
                        &format!("{interface:?}"),
                        EMULATOR_END_FORMS,
                    );
                }
            }
            emulator.initial.check(&at, false)?;
        }
        for (i, table) in self.tables.iter().enumerate() {
            let at = format!("table[{i}]");
            if self.tables[..i].iter().any(|earlier| earlier.name == table.name) {
                return refuse(&format!("{at}.name"), &table.name, "each name once");
            }
            table.check(self, &at)?;
        }
        let mut names = BTreeSet::new();
        let mut count = 0;
        self.check_steps(&self.steps, "step", &mut names, &mut count, &Axes::new())?;
        let runs = max_runs(&self.steps)?;
        if runs > MAX_RUNS {
            return refuse("step", &format!("{runs} runs"), "at most 100000 runs in all");
        }
        Ok(())
    }

    /// Names of the lab's hosts.
    #[must_use]
    pub(crate) fn lab_hosts(&self) -> Vec<String> {
        let Some(lab) = &self.lab else { return vec![] };
        // The emulator's namespace has the name `m`.
        let letters = (b'a'..=b'z').filter(|letter| !(lab.middle && *letter == b'm'));
        let letters = letters.take(lab.hosts.unwrap_or(2).min(16) as usize);
        letters.map(|letter| char::from(letter).to_string()).collect()
    }

    fn check_steps(
        &self,
        steps: &[Step],
        at: &str,
        names: &mut BTreeSet<String>,
        count: &mut usize,
        axes: &Axes,
    ) -> Result<(), ModelError> {
        for (i, step) in steps.iter().enumerate() {
            let at = format!("{at}[{i}]");
            *count += 1;
            if *count > MAX_STEPS {
                return refuse(&at, "too many", "at most 10000 steps");
            }
            let actions: Vec<&str> = step.actions().iter().map(Action::name).collect();
            let [_] = actions[..] else {
                let given =
                    if actions.is_empty() { "no action".into() } else { actions.join(" and ") };
                return refuse(
                    &at,
                    &given,
                    "one of test, sweep, search, compare, wait, start, stop, impair, command, collect, parallel, repeat",
                );
            };
            if let Some(name) = &step.name
                && !names.insert(name.clone())
            {
                return refuse(&format!("{at}.name"), name, "a name used once");
            }
            self.check_step(step, &at, names, count, axes)?;
        }
        Ok(())
    }

    fn check_step(
        &self,
        step: &Step,
        at: &str,
        names: &mut BTreeSet<String>,
        count: &mut usize,
        axes: &Axes,
    ) -> Result<(), ModelError> {
        let Some(action) = step.action() else { return Ok(()) };
        let is_command = matches!(action, Action::Command(_));
        let has_runs = matches!(
            action,
            Action::Test(_)
                | Action::Sweep(_)
                | Action::Compare(_)
                | Action::Wait(_)
                | Action::Stop(_)
                | Action::Parallel(_)
        );
        if !step.expect.is_empty() && !has_runs && !is_command {
            return refuse(
                &format!("{at}.expect"),
                &format!("on {}", action.name()),
                "expectations of test, sweep, compare, parallel or command, or of wait and stop, which end a test in the background",
            );
        }
        let is_parallel = matches!(action, Action::Parallel(_));
        for text in step.expect.iter().filter(|_| !is_command) {
            let rule: Rule = text.parse().map_err(|e| inside(&format!("{at}.expect"), e))?;
            if rule.metric.is_sum() != is_parallel {
                return refuse(
                    &format!("{at}.expect"),
                    &format!("'{text}'"),
                    "sums only for parallel, such as 'sum throughput >= 1 Gbit/s', and other figures for the tests in it",
                );
            }
            check_where(&rule, action, axes, at)?;
        }
        let expect_at = format!("{at}.expect");
        let at = format!("{at}.{}", action.name());
        match action {
            Action::Test(test) => self.check_test(test, &at, axes),
            Action::Sweep(sweep) => {
                let own = check_axes(&sweep.over, &at)?;
                check_runs(sweep.runs, &format!("{at}.runs"))?;
                check_runs(sweep.max_runs, &format!("{at}.max_runs"))?;
                if sweep.compare_content && sweep.over != [SweepStep::CONTENTS] {
                    let given = format!("{:?} with compare_content", sweep.over);
                    let only = format!("the one axis {:?}", SweepStep::CONTENTS);
                    return refuse(&format!("{at}.over"), &given, &only);
                }
                let is_single = sweep.precision_percentage.is_none() && sweep.runs.unwrap_or(1) < 2;
                if sweep.compare_content && is_single {
                    let given = "1 with compare_content";
                    return refuse(
                        &format!("{at}.runs"),
                        given,
                        "2 or more: an interval needs them",
                    );
                }
                if sweep.repeat_host_limited > MAX_AGAIN {
                    return refuse(
                        &format!("{at}.repeat_host_limited"),
                        &sweep.repeat_host_limited.to_string(),
                        "at most 100",
                    );
                }
                if sweep.precision_percentage.is_some()
                    && sweep.max_runs.is_none_or(|most| most < sweep.runs.unwrap_or(1).max(2))
                {
                    return refuse(
                        &format!("{at}.precision_percentage"),
                        "without enough max_runs",
                        "max_runs, the maximum number of repetitions, of at least 2 and at least runs",
                    );
                }
                if sweep.precision_percentage.is_some_and(|p| !(p > 0.0 && p <= 100.0)) {
                    return refuse(
                        &format!("{at}.precision_percentage"),
                        "out of range",
                        "above 0 to 100",
                    );
                }
                for text in &sweep.metrics {
                    let field = format!("{at}.metrics");
                    let metric: Metric = text.parse().map_err(|e| inside(&field, e))?;
                    if metric.is_sum() {
                        return refuse(&field, text, "figures of one test; sums are for parallel");
                    }
                }
                let axes = with(axes, own);
                if sweep.test.background || sweep.test.runs.is_some() {
                    return refuse(
                        &format!("{at}.test"),
                        "runs or background",
                        "runs of the sweep itself",
                    );
                }
                self.check_test(&sweep.test, &format!("{at}.test"), &axes)?;
                sweep
                    .impair
                    .as_ref()
                    .map_or(Ok(()), |i| self.check_impair(i, &format!("{at}.impair"), true))
            }
            Action::Search(search) => {
                let all = with(axes, check_axes(&search.over, &at)?);
                check_runs(search.runs, &format!("{at}.runs"))?;
                for text in &search.metrics {
                    let field = format!("{at}.metrics");
                    text.parse::<Metric>().map_err(|e| inside(&field, e))?;
                    if !matches!(search.kind, SearchKind::Throughput | SearchKind::Latency) {
                        return refuse(&field, text, "with kind throughput or latency");
                    }
                }
                if search.trial.0 == 0 && search.kind != SearchKind::BackToBack {
                    return refuse(
                        &format!("{at}.trial"),
                        "none",
                        "the length of a trial, such as 60s",
                    );
                }
                // The rate of a trial is not known yet, and nor is its plan.
                let all = with(&all, vec![("rate".into(), vec![])]);
                self.check_test(&search.test, &format!("{at}.test"), &all)
            }
            Action::Compare(compare) => {
                let mut all = with(axes, check_axes(&compare.over, &at)?);
                check_runs(compare.runs, &format!("{at}.runs"))?;
                for (field, host) in [("from", &compare.from), ("to", &compare.to)] {
                    if let Some(agent) =
                        host.as_ref().filter(|host| self.agents.contains_key(*host))
                    {
                        let accepted = "a host: agents run no other tools";
                        return refuse(&format!("{at}.{field}"), agent, accepted);
                    }
                }
                self.check_host(compare.from.as_deref(), &format!("{at}.from"))?;
                self.check_host(compare.to.as_deref(), &format!("{at}.to"))?;
                all.insert("tool".into(), compare.tools.clone());
                Ok(())
            }
            Action::Wait(wait) => match (wait.time, &wait.test) {
                (None, None) | (Some(_), Some(_)) => {
                    refuse(&at, "neither or both", "one of time and test")
                }
                (Some(_), None) if wait.bytes.is_some() || wait.packets.is_some() => {
                    refuse(&at, "bytes or packets without test", "test with them")
                }
                (Some(_), None) => Ok(()),
                (None, Some(test)) => {
                    self.check_background(test, BackgroundKind::Test, &format!("{at}.test"))
                }
            },
            Action::Stop(StopStep { command: Some(command), test, connection }) => {
                if !test.is_empty() || connection.is_some() || !step.expect.is_empty() {
                    return refuse(&at, "command with test, connection or expect", "command alone");
                }
                self.check_background(command, BackgroundKind::Command, &format!("{at}.command"))
            }
            Action::Start(StopStep { command: Some(command), .. }) => {
                refuse(&format!("{at}.command"), command, "a test: a command starts with its step")
            }
            Action::Start(which) | Action::Stop(which) => {
                self.check_background(&which.test, BackgroundKind::Test, &format!("{at}.test"))
            }
            Action::Impair(impair) => self.check_impair(impair, &at, !axes.is_empty()),
            Action::Command(command) => {
                command.check(&step.expect, &at, &expect_at)?;
                match &command.host {
                    Some(host) if !self.lab_hosts().contains(host) && host != "local" => refuse(
                        &format!("{at}.host"),
                        host,
                        "a host of the lab, or local: nothing runs commands elsewhere",
                    ),
                    _ => Ok(()),
                }
            }
            Action::Collect(collect) => match (&collect.emulator, &collect.file) {
                (Some(name), None) => {
                    let field = format!("{at}.emulator");
                    self.check_emulator(Some(name), &field)?;
                    if self.emulators.get(name).is_some_and(|emulator| emulator.agent.is_some()) {
                        return refuse(
                            &field,
                            name,
                            "an emulator of this machine: its result has the counters of one at an agent",
                        );
                    }
                    Ok(())
                }
                (None, Some(_)) => Ok(()),
                _ => refuse(&at, "neither or both", "one of emulator and file"),
            },
            // A step that does nothing would pass.
            Action::Parallel([]) => refuse(&at, "no steps", "at least one step"),
            Action::Parallel(inner) => {
                let in_background =
                    |step: &Step| step.command.as_ref().is_some_and(|command| command.background);
                if inner.iter().any(in_background) {
                    return refuse(&at, "a command in the background", "it as a step of its own");
                }
                self.check_steps(inner, &at, names, count, axes)
            }
            Action::Repeat(repeat) => {
                let own = check_axes(&repeat.over, &at)?;
                if own.is_empty() == repeat.times.is_none() {
                    return refuse(&at, "neither or both", "one of times and over");
                }
                if repeat.times.is_some_and(|t| t == 0 || t > 100_000) {
                    return refuse(&format!("{at}.times"), "out of range", "1 to 100000");
                }
                if repeat.steps.is_empty() {
                    return refuse(&format!("{at}.step"), "none", "at least one step");
                }
                let axes = with(axes, own);
                self.check_steps(&repeat.steps, &format!("{at}.step"), names, count, &axes)
            }
        }
    }

    fn check_test(&self, test: &TestStep, at: &str, axes: &Axes) -> Result<(), ModelError> {
        for from in hosts(test.from.as_deref(), axes) {
            self.check_host(Some(from).filter(|h| *h != "local"), &format!("{at}.from"))?;
            if self.hosts.contains_key(from) {
                return refuse(
                    &format!("{at}.from"),
                    from,
                    "local or a host of the lab: tests start on this machine",
                );
            }
        }
        for to in hosts(test.to.as_deref(), axes) {
            self.check_host(Some(to), &format!("{at}.to"))?;
        }
        if test.topology.is_some() && (test.from.is_none() || test.background) {
            let given = if test.background { "of a background test" } else { "without from" };
            return refuse(&format!("{at}.topology"), given, "the hosts of a test in from and to");
        }
        if test.threads != Threads::default()
            && hosts(test.from.as_deref(), axes).any(|from| self.agents.contains_key(from))
        {
            let accepted = "absent: an agent's host decides";
            return refuse(&format!("{at}.threads"), "given", accepted);
        }
        for (field, name) in [("from", &test.from), ("to", &test.to)] {
            if let Some(name) = name.as_ref().filter(|name| test.background && name.contains('+')) {
                return refuse(&format!("{at}.{field}"), name, "one host of a background test");
            }
        }
        if test.to.is_none()
            && self.lab.is_none()
            && self.hosts.len() != 1
            && test.topology != Some(Topology::FullMesh)
        {
            return refuse(&format!("{at}.to"), "none", "the server host");
        }
        let forms = [test.args.is_some(), test.plan.is_some(), test.plan_file.is_some()];
        if forms.iter().filter(|f| **f).count() > 1 {
            return refuse(at, "several", "one of args, plan and plan_file");
        }
        check_runs(test.runs, &format!("{at}.runs"))?;
        test.threads.check(&format!("{at}.threads"))?;
        if let Some(plan) = &test.plan
            && axes.is_empty()
        {
            test_plan(plan).map_err(|e| inside(&format!("{at}.plan"), e))?;
        }
        Ok(())
    }

    fn check_host(&self, name: Option<&str>, at: &str) -> Result<(), ModelError> {
        let Some(name) = name else { return Ok(()) };
        let lab = self.lab_hosts();
        let is_known = self.hosts.contains_key(name) || self.agents.contains_key(name);
        if name.contains('{') || is_known || lab.iter().any(|h| h == name) {
            return Ok(());
        }
        let known: Vec<&str> = lab
            .iter()
            .chain(self.hosts.keys())
            .chain(self.agents.keys())
            .map(String::as_str)
            .collect();
        let known = if known.is_empty() {
            "a [host.NAME], a name of [agents] or a [lab]".into()
        } else {
            known.join(", ")
        };
        refuse(at, name, &known)
    }

    fn check_emulator(&self, name: Option<&str>, at: &str) -> Result<(), ModelError> {
        match name {
            Some(name) if self.emulators.contains_key(name) => Ok(()),
            None if self.emulators.len() == 1 => Ok(()),
            given => {
                let known: Vec<&str> = self.emulators.keys().map(String::as_str).collect();
                let known =
                    if known.is_empty() { "an [emulator.NAME]".into() } else { known.join(", ") };
                refuse(at, given.unwrap_or("none"), &known)
            }
        }
    }

    fn check_impair(
        &self,
        impair: &ImpairStep,
        at: &str,
        is_later: bool,
    ) -> Result<(), ModelError> {
        self.check_emulator(impair.emulator.as_deref(), &format!("{at}.emulator"))?;
        if impair.clear != impair.to.is_empty() {
            return refuse(at, "neither or both", "one of clear = true and laws");
        }
        impair.to.check(at, is_later)
    }

    fn check_background(
        &self,
        name: &str,
        kind: BackgroundKind,
        at: &str,
    ) -> Result<(), ModelError> {
        fn add<'a>(steps: &'a [Step], kind: BackgroundKind, found: &mut Vec<&'a str>) {
            for step in steps {
                let is_background = match kind {
                    BackgroundKind::Test => step.test.as_ref().is_some_and(|test| test.background),
                    BackgroundKind::Command => step.command.as_ref().is_some_and(|c| c.background),
                };
                found.extend(step.name.as_deref().filter(|_| is_background));
                add(step.parallel.as_deref().unwrap_or_default(), kind, found);
                add(step.repeat.as_ref().map_or(&[], |r| &r.steps), kind, found);
            }
        }
        let mut known = vec![];
        add(&self.steps, kind, &mut known);
        if known.contains(&name) {
            return Ok(());
        }
        let known = match (known.is_empty(), kind) {
            (true, BackgroundKind::Test) => "a test with background = true".into(),
            (true, BackgroundKind::Command) => "a command with background = true".into(),
            (false, _) => known.join(", "),
        };
        refuse(at, name, &known)
    }
}

/// A step that may run in the background.
#[derive(Debug, Clone, Copy)]
enum BackgroundKind {
    Test,
    Command,
}

/// The hosts of a test: of a list joined by `+`, or of each value of the axis that it names.
fn hosts<'a>(name: Option<&'a str>, axes: &'a Axes) -> impl Iterator<Item = &'a str> {
    let axis = name.and_then(|name| axes.get(name.strip_prefix('{')?.strip_suffix('}')?));
    let values = axis.into_iter().flatten().map(String::as_str);
    let itself = name.filter(|_| axis.is_none());
    itself.into_iter().chain(values).flat_map(|list| list.split('+').map(str::trim))
}

/// The surrounding axes and a step's own.
fn with(around: &Axes, own: Values) -> Axes {
    let mut out = around.clone();
    out.extend(own);
    out
}

fn check_runs(runs: Option<u32>, at: &str) -> Result<(), ModelError> {
    match runs {
        Some(runs) if !(1..=MAX_REPETITIONS).contains(&runs) => {
            refuse(at, &runs.to_string(), "1 to 10000")
        }
        _ => Ok(()),
    }
}

/// Maximum number of runs of these steps; every step without runs counts as one.
fn max_runs(steps: &[Step]) -> Result<u64, ModelError> {
    let points = |over: &[String]| -> Result<u64, ModelError> {
        Ok(check_axes(over, "step")?.iter().map(|(_, v)| v.len() as u64).product())
    };
    steps.iter().try_fold(0u64, |sum, step| {
        let own = match step.action() {
            Some(Action::Test(test)) => u64::from(test.runs.unwrap_or(1)),
            Some(Action::Sweep(sweep)) => {
                let (runs, most) = (sweep.runs.unwrap_or(1), sweep.max_runs.unwrap_or(1));
                points(&sweep.over)?.saturating_mul(runs.max(most).into())
            }
            Some(Action::Search(search)) => points(&search.over)?,
            Some(Action::Compare(compare)) => {
                let tools = compare.tools.len().max(1) as u64;
                let runs = u64::from(compare.runs.unwrap_or(1));
                points(&compare.over)?.saturating_mul(tools).saturating_mul(runs)
            }
            Some(Action::Parallel(inner)) => max_runs(inner)?,
            Some(Action::Repeat(repeat)) => max_runs(&repeat.steps)?
                .saturating_mul(points(&repeat.over)?)
                .saturating_mul(repeat.times.unwrap_or(1).into()),
            _ => 1,
        };
        Ok(sum.saturating_add(own))
    })
}

/// Checks that the axes and values of an expectation's `where` exist. Otherwise nothing would be judged, and
/// nothing could fail.
fn check_where(rule: &Rule, action: Action<'_>, around: &Axes, at: &str) -> Result<(), ModelError> {
    let own = |over| check_axes(over, &format!("{at}.{}", action.name()));
    let mut axes = match action {
        Action::Sweep(sweep) => with(around, own(&sweep.over)?),
        Action::Compare(compare) => with(around, own(&compare.over)?),
        _ => around.clone(),
    };
    if let Action::Compare(compare) = action {
        axes.insert("tool".into(), compare.tools.clone());
    }
    for (name, value) in &rule.at {
        let place = format!("{at}.expect: where {name}={value}");
        let hint = |given: &str, known: &[&str]| {
            let near = nearest(given, known.iter().copied());
            let near = near.map_or_else(String::new, |n| format!(" (did you mean {n}?)"));
            format!("{}{near}", known.join(", "))
        };
        let Some(values) = axes.get(name) else {
            let known: Vec<&str> = axes.keys().map(String::as_str).collect();
            let accepted = if known.is_empty() {
                "no where, because this step is not within an axis".into()
            } else {
                hint(name, &known)
            };
            return refuse(&place, "no such axis", &accepted);
        };
        // Values that contain another axis are known later.
        let open = value.contains('{') || values.iter().any(|v| v.contains('{'));
        if !open && !values.is_empty() && !values.contains(value) {
            let known: Vec<&str> = values.iter().map(String::as_str).collect();
            return refuse(&place, "no such value", &hint(value, &known));
        }
    }
    Ok(())
}

/// The axes of a sweep with their values.
///
/// # Errors
/// [`ModelError::Field`] for an invalid axis.
pub fn check_axes(over: &[String], at: &str) -> Result<Values, ModelError> {
    let mut out: Values = vec![];
    for axis in over {
        let at = format!("{at}.over");
        let (name, values) = match axis.split_once('=') {
            Some((name, values)) if !name.trim().is_empty() => (name.trim(), values),
            _ => {
                refuse(&at, axis, "NAME=VALUES such as size=128..1408:128 or transport=tcp,udp")?;
                continue;
            }
        };
        if out.iter().any(|(n, _)| n == name) {
            refuse(&at, name, "each axis once")?;
        }
        out.push((name.into(), ranges(&format!("{at} {name}"), values)?));
        let points = out.iter().try_fold(1u64, |all, (_, v)| all.checked_mul(v.len() as u64));
        if points.is_none_or(|points| points > MAX_RUNS) {
            refuse(&at, "too many points", "at most 100000 of all axes together")?;
        }
    }
    Ok(out)
}
