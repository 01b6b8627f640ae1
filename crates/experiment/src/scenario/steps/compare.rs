//! Comparison of other tools and Weir over the same path.

use weir_model::experiment::{LeftOut, LeftOutReason, nearest, parameter_of};

use super::*;
use crate::scenario::ParseTestFlags;
use crate::scenario::environment::Server;
use crate::scenario::pair::{Pair, WEIR};
use crate::scenario::tools::own_flags;

impl<'d> Inner<'d, '_, '_> {
    /// Runs every tool at every point, in shuffled blocks.
    pub(super) fn compare(
        &self,
        step: &CompareStep,
        out: &mut StepOutcome,
    ) -> Result<(), ScenarioError> {
        let execution = self.execution;
        let Backend::Real(environment) = &execution.backend else {
            return self.not_simulated(out, "other tools");
        };
        let axes = check_axes(&step.over, self.name)?;
        // Metrics that several tools report.
        let names = [THROUGHPUT, "packet_rate", "loss", "jitter", "retransmits", PAYLOAD_SIZE];
        let metrics = self.metrics(&names.map(String::from))?;
        let to = step.to.as_deref();
        let is_lab = environment.is_in_lab(to);
        let is_here = |pair: Pair| pair.programs(is_lab).all(is_installed);
        let wanted: Vec<Pair> = match step.tools.is_empty() {
            true => Pair::usual().filter(|pair| is_here(*pair)).collect(),
            false => step.tools.iter().filter_map(|name| Pair::find(name)).collect(),
        };
        let mut all: Vec<AxisValues> = vec![];
        for at in points(&axes) {
            for pair in &wanted {
                let at = [at.clone(), vec![(TOOL.to_owned(), pair.name())]].concat();
                let load = compared(step, &at, self.name)?;
                let lacks = || match pair {
                    // Weir's plan was checked with the scenario.
                    Pair::Weir => None,
                    Pair::WeirTo(_) => {
                        let parse_flags = execution.options.parse_flags;
                        own_plan(*pair, &load, step.coalesced, parse_flags, self.name)
                            .err()
                            .map(|refusal| refusal.to_string())
                    }
                    Pair::Tool(tool) | Pair::ToWeir(tool) => {
                        environment.refusal(tool, &load, to).map(ToOwned::to_owned)
                    }
                };
                let left_out = match is_here(*pair) {
                    false => Some((LeftOutReason::NotInstalled, None)),
                    true => environment
                        .lacks_server(*pair, to)
                        .map(ToOwned::to_owned)
                        .or_else(lacks)
                        .map(|lacks| (LeftOutReason::NotSupported, Some(lacks))),
                };
                match left_out {
                    None => all.push(at),
                    Some((why, detail)) => {
                        let at = at.into_iter().collect();
                        out.left_out.push(LeftOut { at, why, detail });
                    }
                }
            }
        }
        if all.is_empty() {
            let is_missing = |l: &LeftOut| l.why == LeftOutReason::NotInstalled;
            return Err(ScenarioError::Program {
                what: self.name.into(),
                reason: format!("nothing could be compared: {}", out.left_out_words().join("; ")),
                is_unavailable: out.left_out.iter().any(is_missing),
            });
        }
        for tool in TOOLS {
            let is_used = |at: &AxisValues| {
                let pair = at.last().and_then(|(_, name)| Pair::find(name));
                pair.and_then(Pair::tool).is_some_and(|used| used.name == tool.name)
            };
            if all.iter().any(is_used) {
                out.tools.push(environment.version_of(tool));
            }
        }
        let runs = step.runs.unwrap_or(1);
        let of = all.len() as u64 * u64::from(runs);
        let (mut done, mut fresh, begun) = (0u64, 0u32, Instant::now());
        'all: for repetition in 1..=runs {
            for i in block(all.len(), execution.options.seed.0, repetition) {
                if execution.is_stopped() || self.until.is_some_and(|u| Instant::now() >= u) {
                    break 'all;
                }
                let at = &all[i];
                let (run, is_old) = self.one_tool(environment, step, at, repetition, &metrics)?;
                done += 1;
                fresh += u32::from(!is_old);
                let left = (fresh > 0).then(|| {
                    (begun.elapsed() / fresh).saturating_mul(of.saturating_sub(done) as u32)
                });
                self.ran(&run, is_old, done, of, left);
                out.runs.push(run);
            }
        }
        out.axes = axes.iter().map(|(name, _)| name.clone()).chain([TOOL.to_owned()]).collect();
        out.points = self.points(&all, &out.runs, self.execution.confidence().into());
        self.close(out);
        out.reason = out.reason.take().or_else(|| different_sizes(&out.runs));
        self.close_unmade(out, of);
        Ok(())
    }

    pub(super) fn one_tool(
        &self,
        environment: &Environment<'_>,
        step: &CompareStep,
        at: &AxisValues,
        repetition: u32,
        metrics: &[Metric],
    ) -> Result<(RunRef, bool), ScenarioError> {
        let execution = self.execution;
        let key = format!("{}|{}#{repetition}", self.path, key(at));
        let load = compared(step, at, self.name)?;
        let (_, name) = at.last().cloned().unwrap_or_default();
        let pair = Pair::find(&name).unwrap_or(Pair::Weir);
        let to = step.to.as_deref();
        if pair.is_from_weir() {
            let parse_flags = execution.options.parse_flags;
            let plan = own_plan(pair, &load, step.coalesced, parse_flags, self.name)?;
            let is_done = lock(&execution.checkpoint).done(&key).is_some();
            let test =
                TestStep { from: step.from.clone(), to: step.to.clone(), ..TestStep::default() };
            // Tools run in any order; none but the first starts at a given time.
            let is_first = false;
            let own: Vec<Metric> = metrics.iter().cloned().chain([SENT.parse()?]).collect();
            let metrics = if pair.tool().is_some() { &own } else { metrics };
            let one =
                SingleRun { test: &test, plan: &plan, at, repetition, key, metrics, is_first };
            let server = match pair {
                Pair::WeirTo(tool) if !is_done => environment.serve(tool, &load, to)?,
                _ => Server::default(),
            };
            if let Err(reason) = &server.is_ready {
                let mut run = RunRef { error: Some(reason.clone()), ..RunRef::default() };
                (run.at, run.repetition) = (at.iter().cloned().collect(), repetition);
                run.tool = Some(name);
                return Ok((run, false));
            }
            let (mut run, is_old) = self.run(&one)?;
            // As of any tool: the rate sent is a figure only where there is none of the receiver.
            if run.metrics.contains_key(THROUGHPUT) {
                run.metrics.remove(SENT);
            }
            (run.command, run.server_command) = environment.own_words(pair, &load, to)?;
            run.command.extend(own_words(pair, &load, step.coalesced));
            run.tool = pair.tool().map(|_| name);
            return Ok((run, is_old));
        }
        if let Some(done) = lock(&execution.checkpoint).done(&key) {
            return Ok((done.run.clone(), true));
        }
        let begun = Instant::now();
        let stopped = || execution.is_stopped();
        let from = step.from.as_deref();
        let found = environment.tool(pair, &load, (from, to), self.until, &stopped)?;
        let mut run = RunRef {
            at: at.iter().cloned().collect(),
            repetition,
            tool: Some(name),
            command: found.command,
            server_command: found.server_command,
            output: found.output,
            server_output: found.server_output,
            ..RunRef::default()
        };
        match found.figures {
            Ok(figures) => {
                let wanted: Vec<String> = metrics.iter().map(ToString::to_string).collect();
                let is_wanted = |name: &String| wanted.contains(name) || name == SENT;
                run.metrics = figures.into_iter().filter(|(n, _)| is_wanted(n)).collect();
            }
            Err(reason) => run.error = Some(reason),
        }
        // It was stopped, or did not end in time.
        run.interrupted = execution.is_stopped() || self.interruption() == Some(Interruption::Late);
        self.tell_cut(&mut run);
        if !(execution.is_stopped() && run.error.is_some()) {
            execution.keep(&key, &run, begun.elapsed().as_secs_f64());
        }
        Ok((run, false))
    }
}

/// The axis of tools.
const TOOL: &str = "tool";
/// The rate of a tool that reports only what it sent.
const SENT: &str = "sent_throughput";
const THROUGHPUT: &str = "throughput";

/// Warns if the tools sent datagrams of different default sizes at one point: neither packet rates nor losses are
/// comparable then.
fn different_sizes(runs: &[RunRef]) -> Option<String> {
    let mut sizes: BTreeMap<&str, f64> = BTreeMap::new();
    for run in runs {
        // A requested size is the same for all.
        if run.at.keys().any(|name| parameter_of(name) == "payload") {
            continue;
        }
        let tool = run.tool.as_deref().unwrap_or(WEIR);
        if let Some(size) = run.metrics.get(PAYLOAD_SIZE) {
            sizes.insert(tool, *size);
        }
    }
    let first = *sizes.values().next()?;
    let named = || sizes.iter().map(|(tool, size)| format!("{tool} {size} B"));
    sizes.values().any(|size| *size != first).then(|| {
        let named: Vec<String> = named().collect();
        format!(
            "the tools' default datagrams differ in size ({}): their packet rates and losses are not comparable; set a payload size",
            named.join(", ")
        )
    })
}

/// Whether a program is found in PATH or the directories of system tools.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path)
        .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Into::into));
    places.map(|place| place.join(program)).any(|file| file.is_file())
}

/// The load of a point of a comparison.
pub(in crate::scenario) fn compared(
    step: &CompareStep,
    at: &AxisValues,
    place: &str,
) -> Result<Load, ScenarioError> {
    let mut load = Load::default();
    let tool = at.iter().find(|(name, _)| name == TOOL).map(|(_, tool)| tool);
    let own = tool.and_then(|tool| step.of.get(tool));
    let fixed = step.with.iter().map(|with| (place.to_owned(), with));
    let of_tool = own
        .into_iter()
        .flatten()
        .map(|with| (format!("{place}.of.{}", tool.map_or("", String::as_str)), with));
    let given = fixed.chain(of_tool).map(|(place, (name, value))| {
        let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
        (place, name.clone(), text)
    });
    let axes = at.iter().map(|(name, value)| (place.to_owned(), name.clone(), value.clone()));
    for (place, name, value) in given.chain(axes) {
        let refuse = |accepted: &str| {
            ScenarioError::Model(weir_model::ModelError::Field {
                field: format!("{place}.{name}"),
                given: format!("'{value}'"),
                accepted: accepted.into(),
            })
        };
        let unknown = || {
            let near = nearest(&name, LOADS.iter().copied());
            let hint = near.map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
            ScenarioError::Model(weir_model::ModelError::Field {
                field: format!("{place}.{name}"),
                given: "nothing that all tools know".into(),
                accepted: format!("{}{hint}", LOADS.join(", ")),
            })
        };
        match parameter_of(&name) {
            "transport" => {
                load.is_udp = match value.as_str() {
                    "udp" => true,
                    "tcp" => false,
                    _ => return Err(refuse("tcp or udp")),
                }
            }
            "payload" => {
                let size = value.parse::<weir_model::units::ByteSize>();
                load.size = Some(size.map_err(|e| refuse(&expected(&e)))?.0.max(1));
            }
            "mss" => load.mss = Some(value.parse().map_err(|_| refuse("whole bytes"))?),
            "window" => {
                let window = value.parse::<weir_model::units::ByteSize>();
                load.window = Some(window.map_err(|e| refuse(&expected(&e)))?.0);
            }
            "congestion" => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                if value.is_empty() || !value.chars().all(is_name) {
                    return Err(refuse("a kernel name such as cubic, reno, bbr"));
                }
                load.congestion = Some(value);
            }
            "count" => {
                let count = value.parse().ok().filter(|n| (1..=128).contains(n));
                load.connections = count.ok_or_else(|| refuse("1 to 128"))?;
            }
            "rate" => {
                let rate = value.parse::<SendRate>().ok().filter(|rate| rate.burst == 1);
                let rate = rate.ok_or_else(|| refuse("a rate such as 10M or 50000pps"))?;
                load.rate = Some(rate.limit).filter(|limit| *limit != RateLimit::Unlimited);
            }
            "duration" => {
                let seconds = value.parse().ok().filter(|n| (1..=86_400).contains(n));
                load.seconds = seconds.ok_or_else(|| refuse("1 to 86400, whole seconds"))?;
            }
            TOOL => {}
            _ => return Err(unknown()),
        }
    }
    if load.is_udp && load.mss.is_some() {
        return Err(ScenarioError::refused(&format!("{place}.mss"), "it is TCP's: not with UDP"));
    }
    if load.is_udp && load.congestion.is_some() {
        let field = format!("{place}.congestion");
        return Err(ScenarioError::refused(&field, "it is TCP's: not with UDP"));
    }
    Ok(load)
}

/// Checks the tools of a comparison, their own parameters and Weir's plans.
pub(in crate::scenario) fn check_compare(
    step: &CompareStep,
    all: &[AxisValues],
    parse_flags: ParseTestFlags<'_>,
    place: &str,
) -> Result<(), ScenarioError> {
    let refuse = |field: String, given: &str, accepted: String| {
        let given = given.to_owned();
        Err(ScenarioError::Model(weir_model::ModelError::Field { field, given, accepted }))
    };
    let known: Vec<String> = Pair::all().map(Pair::name).collect();
    for tool in &step.tools {
        if !known.contains(tool) {
            return refuse(format!("{place}.tools"), tool, known.join(", "));
        }
    }
    for (tool, own) in &step.of {
        let wanted: Vec<String> = match step.tools.is_empty() {
            true => Pair::usual().map(Pair::name).collect(),
            false => step.tools.clone(),
        };
        if !wanted.contains(tool) {
            return refuse(format!("{place}.of"), tool, wanted.join(", "));
        }
        // All tools have the values of an axis.
        let is_axis = |name: &&String| {
            let mut axes = all.iter().flatten().map(|(axis, _)| axis);
            axes.any(|axis| parameter_of(axis) == parameter_of(name))
        };
        if let Some(name) = own.keys().find(is_axis) {
            let accepted = "a parameter that is no axis".into();
            return refuse(format!("{place}.of.{tool}.{name}"), "an axis", accepted);
        }
        for at in all {
            let at = [at.clone(), vec![(TOOL.to_owned(), tool.clone())]].concat();
            compared(step, &at, place)?;
        }
    }
    if step.tools.is_empty() || step.tools.iter().any(|tool| tool == WEIR) {
        for at in all {
            let at = [at.clone(), vec![(TOOL.to_owned(), WEIR.to_owned())]].concat();
            let load = compared(step, &at, place)?;
            own_plan(Pair::Weir, &load, step.coalesced, parse_flags, place)?;
        }
    }
    Ok(())
}

/// The parameters of a comparison's load.
const LOADS: &[&str] =
    &["transport", "size", "mss", "window", "connections", "rate", "congestion", "seconds"];

/// What a unit accepts.
fn expected(error: &weir_model::ModelError) -> String {
    match error {
        weir_model::ModelError::Value { accepted, .. } => (*accepted).to_owned(),
        other => other.to_string(),
    }
}

/// The flags of `weir test` for a load, with the protocol of the other tool's server.
fn own_words(pair: Pair, load: &Load, coalesced: bool) -> Vec<String> {
    let peer = match pair {
        Pair::WeirTo(tool) => tool.peer,
        _ => None,
    };
    own_flags(load, coalesced, peer)
}

/// Weir's plan for the load of the other tools.
fn own_plan(
    pair: Pair,
    load: &Load,
    coalesced: bool,
    parse_flags: ParseTestFlags<'_>,
    place: &str,
) -> Result<Plan, ScenarioError> {
    parse_flags(&own_words(pair, load, coalesced))
        .map_err(|refusal| ScenarioError::Flags { field: format!("{place}.with"), refusal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_datagrams_of_different_sizes_are_named() {
        let run = |tool: Option<&str>, size: Option<f64>, at: &[(&str, &str)]| RunRef {
            tool: tool.map(Into::into),
            metrics: size.map(|size| (PAYLOAD_SIZE.to_owned(), size)).into_iter().collect(),
            at: at.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..RunRef::default()
        };
        let of = |runs: &[RunRef]| different_sizes(runs);
        let text = of(&[run(Some("iperf3"), Some(1448.0), &[]), run(None, Some(1472.0), &[])]);
        let text = text.unwrap();
        assert!(text.contains("iperf3 1448 B") && text.contains("weir 1472 B"), "{text}");
        assert_eq!(
            of(&[run(Some("iperf3"), Some(1472.0), &[]), run(None, Some(1472.0), &[])]),
            None
        );
        assert_eq!(
            of(&[run(Some("iperf3"), None, &[]), run(None, Some(1472.0), &[])]),
            None,
            "TCP"
        );
        let asked =
            [run(None, Some(64.0), &[("size", "64")]), run(None, Some(512.0), &[("size", "512")])];
        assert_eq!(of(&asked), None, "sizes that were asked for");
    }

    /// A tool's own parameters replace the common ones, and only those of its own.
    #[test]
    fn a_tool_may_have_parameters_of_its_own() {
        let step: CompareStep = serde_json::from_value(serde_json::json!({
            "tools": ["weir", "d-itg"], "over": ["size=128"],
            "with": { "seconds": 2, "window": "8K", "rate": "1M" },
            "of": { "d-itg": { "rate": "100000pps" } },
        }))
        .unwrap();
        let at = |tool: &str| -> AxisValues {
            [("size", "128"), (TOOL, tool)].map(|(n, v)| (n.to_owned(), v.to_owned())).into()
        };
        let of = |tool: &str| compared(&step, &at(tool), "c").unwrap();
        assert_eq!(of("d-itg").rate, Some(RateLimit::Packets(1e5)));
        assert_eq!(of("weir").rate, Some(RateLimit::Bits(weir_model::units::BitRate(1_000_000))));
        assert_eq!((of("weir").window, of("d-itg").size), (Some(8192), Some(128)));
        let parse = |_: &[String]| Ok(Plan::default());
        let refused = |own: serde_json::Value| {
            let step = CompareStep { of: serde_json::from_value(own).unwrap(), ..step.clone() };
            let all = [vec![("size".to_owned(), "128".to_owned())]];
            let error = check_compare(&step, &all, &parse, "c").err()?;
            let ScenarioError::Model(weir_model::ModelError::Field { field, .. }) = error else {
                panic!("{error}")
            };
            Some(field)
        };
        let json = |text: &str| serde_json::from_str(text).unwrap();
        assert_eq!(refused(json(r#"{"d-itg": {"rate": "5M"}}"#)), None);
        assert_eq!(refused(json(r#"{"iperf": {"rate": "5M"}}"#)).as_deref(), Some("c.of"));
        assert_eq!(refused(json(r#"{"weir": {"size": 5}}"#)).as_deref(), Some("c.of.weir.size"));
        assert_eq!(refused(json(r#"{"weir": {"sice": 5}}"#)).as_deref(), Some("c.of.weir.sice"));
        assert_eq!(refused(json(r#"{"weir": {"rate": "x"}}"#)).as_deref(), Some("c.of.weir.rate"));
    }
}
