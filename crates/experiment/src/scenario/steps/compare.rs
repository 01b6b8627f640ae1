//! Comparison of other tools and Weir over the same path.

use weir_model::experiment::{nearest, parameter_of};

use super::*;

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
        let names = ["throughput", "packet_rate", "loss", "jitter", "retransmits", PAYLOAD_SIZE];
        let metrics = self.metrics(&names.map(String::from))?;
        let mut here: Vec<&str> = vec![WEIR];
        here.extend(
            TOOLS.iter().filter(|t| t.programs.iter().all(|p| is_installed(p))).map(|t| t.name),
        );
        let wanted: Vec<&str> = match step.tools.is_empty() {
            true => here.clone(),
            false => step.tools.iter().map(String::as_str).collect(),
        };
        let missing: Vec<&str> = wanted.iter().copied().filter(|t| !here.contains(t)).collect();
        let tools: Vec<&str> = wanted.iter().copied().filter(|t| here.contains(t)).collect();
        let mut reasons = vec![];
        if !missing.is_empty() {
            reasons.push(format!("not installed here: {}", missing.join(", ")));
        }
        let mut all: Vec<AxisValues> = vec![];
        for at in points(&axes) {
            for name in &tools {
                let at = [at.clone(), vec![(TOOL.to_owned(), (*name).to_owned())]].concat();
                let load = compared(step, &at, self.name)?;
                let tool = TOOLS.iter().find(|t| t.name == *name);
                match tool.and_then(|t| environment.refusal(t, &load, step.to.as_deref())) {
                    None => all.push(at),
                    // An unsupported load is not a failure of the tool.
                    Some(reason) => {
                        let reason = format!("{name} is skipped: {reason}");
                        if !reasons.contains(&reason) {
                            reasons.push(reason);
                        }
                    }
                }
            }
        }
        if all.is_empty() {
            return Err(ScenarioError::Program {
                what: self.name.into(),
                reason: format!("nothing could be compared: {}", reasons.join("; ")),
                is_unavailable: !missing.is_empty(),
            });
        }
        out.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
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
        for figures in &step.published {
            let table = published::read(figures, &execution.options.files)?;
            published::beside(figures, &table, &mut out.points);
        }
        reasons.extend(different_sizes(&out.runs));
        out.reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        let reason = out.reason.take();
        self.close(out);
        out.reason = out.reason.take().or(reason);
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
        let Some(tool) = TOOLS.iter().find(|t| t.name == name) else {
            let test =
                TestStep { from: step.from.clone(), to: step.to.clone(), ..TestStep::default() };
            let plan = own_plan(&load, step.coalesced);
            // Tools run in any order; none but the first starts at a given time.
            let is_first = false;
            let one =
                SingleRun { test: &test, plan: &plan, at, repetition, key, metrics, is_first };
            return self.run(&one);
        };
        if let Some(done) = lock(&execution.checkpoint).done(&key) {
            return Ok((done.run.clone(), true));
        }
        let begun = Instant::now();
        let stopped = || execution.is_stopped();
        let found = environment.tool(
            tool,
            &load,
            step.from.as_deref(),
            step.to.as_deref(),
            self.until,
            &stopped,
        )?;
        let mut run = RunRef {
            at: at.iter().cloned().collect(),
            repetition,
            tool: Some(name),
            ..RunRef::default()
        };
        match found {
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

/// Weir's name in the axis of tools.
const WEIR: &str = "weir";
const TOOL: &str = "tool";
/// The rate of a tool that reports only what it sent.
const SENT: &str = "sent_throughput";

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
    let mut load =
        Load { is_udp: false, size: None, mss: None, connections: 1, rate: None, seconds: 10 };
    let fixed = step.with.iter().map(|(name, value)| {
        let text = value.as_str().map_or_else(|| value.to_string(), Into::into);
        (name.clone(), text)
    });
    for (name, value) in fixed.chain(at.iter().cloned()) {
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
            "count" => {
                let count = value.parse().ok().filter(|n| (1..=128).contains(n));
                load.connections = count.ok_or_else(|| refuse("1 to 128"))?;
            }
            "rate" => {
                let rate = value.parse::<weir_model::units::BitRate>();
                let rate = rate.map_err(|e| refuse(&expected(&e)))?;
                load.rate = Some(rate.0).filter(|r| *r > 0);
            }
            "duration" => {
                let seconds = value.parse().ok().filter(|n| (1..=86_400).contains(n));
                load.seconds = seconds.ok_or_else(|| refuse("1 to 86400, whole seconds"))?;
            }
            TOOL => {}
            _ => return Err(unknown()),
        }
    }
    if !load.is_udp && load.rate.is_some() {
        // Not every tool can pace a stream, so that some would send at full speed.
        return Err(ScenarioError::refused(
            &format!("{place}.rate"),
            "it is UDP's: every tool sends TCP as fast as it goes",
        ));
    }
    if load.is_udp && load.mss.is_some() {
        return Err(ScenarioError::refused(&format!("{place}.mss"), "it is TCP's: not with UDP"));
    }
    Ok(load)
}

/// The parameters of a comparison's load.
const LOADS: &[&str] = &["transport", "size", "mss", "connections", "rate", "seconds"];

/// What a unit accepts.
fn expected(error: &weir_model::ModelError) -> String {
    match error {
        weir_model::ModelError::Value { accepted, .. } => (*accepted).to_owned(),
        other => other.to_string(),
    }
}

/// Weir's plan for the load of the other tools.
fn own_plan(load: &Load, coalesced: bool) -> Plan {
    use weir_model::plan::{Connection, Switch, TcpOptions, UdpOptions};
    use weir_model::units::{BitRate, ByteSize, Span};
    let bits = load.rate.map(|r| SendRate { limit: RateLimit::Bits(BitRate(r)), burst: 1 });
    // One datagram per system call at both ends, as the other tools do.
    let offload = if load.is_udp && !coalesced { Switch::Off } else { Switch::Auto };
    let connection = Connection {
        transport: if load.is_udp {
            UdpOptions { gso: offload, gro: offload, ..UdpOptions::default() }.into()
        } else {
            TcpOptions { mss: load.mss, ..TcpOptions::default() }.into()
        },
        count: load.connections,
        payload: load.size.map(|size| ByteSize(size).into()),
        rate: bits.or(load.is_udp.then_some(SendRate::UNLIMITED)),
        duration: Some(Span::from_seconds(u64::from(load.seconds))),
        ..Connection::default()
    };
    Plan { connections: vec![connection], ..Plan::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::plan::Switch;

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

    #[test]
    fn weir_sends_datagrams_by_themselves_as_the_other_tools_do() {
        let load =
            |is_udp| Load { is_udp, size: None, mss: None, connections: 1, rate: None, seconds: 1 };
        let offloads = |is_udp, coalesced| {
            let connection = own_plan(&load(is_udp), coalesced).connections.remove(0);
            connection.transport.udp_options().map(|options| [options.gso, options.gro])
        };
        assert_eq!(offloads(true, false), Some([Switch::Off; 2]));
        assert_eq!(offloads(true, true), Some([Switch::Auto; 2]));
        assert_eq!(offloads(false, false), None);
    }
}
