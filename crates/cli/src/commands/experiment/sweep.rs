//! `weir sweep`: a test at each point of a grid, several times.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use weir_model::experiment::{
    EmulatorSpec, HostSpec, ImpairStep, Impairing, LabSetup, SCENARIO_SCHEMA, Scenario, Step,
    SweepStep, TestStep,
};
use weir_model::plan::Plan;
use weir_model::threads::Threads;
use weir_model::units::{Seed, Span};

use super::axes::refuse_beside;
use super::{Job, ResultArgs, execute};
use crate::commands::test::TestArgs;
use crate::commands::test::args::{
    GeneralArgs, LaterArgs, MeasureArgs, OutputArgs, RateArgs, ReplayArgs, SocketArgs, TrafficArgs,
};
use crate::commands::test::plan as test_plan;
use crate::commands::values::{Cpus, MAX_RUNS, Nominal, confidence, percentage, whole};
use crate::error::CliError;
use crate::key::KeyArgs;

/// Run a test at each point of a grid, repeatedly, in shuffled order: mean, variance and confidence interval
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weir sweep HOST --over size=128..1408:128 --runs 25 -u -b 0 -t 1\n  \
                        weir sweep HOST --over transport=tcp,udp --over connections=1,16 -t 5\n  \
                        weir sweep --lab --over loss=0,0.5,1 --both \"delay 20ms, loss {loss}%\" -t 2\n\
                        A name is a parameter of the plan (size, rate, connections, transport, family, mss, window, …; of one \
                        connection NAME.rate), or one that the laws hold as {NAME}. Ranges end where steps do: 1M..1000M*10 multiplies.\n\
                        Resume an interrupted sweep by weir run --resume."
)]
pub(crate) struct SweepArgs {
    /// The server, as for `weir test`; none with --lab
    #[arg(value_name = "HOST", required_unless_present_any = ["lab", "plan"])]
    host: Option<String>,
    /// A title, shown in lists and reports [default: sweep]
    #[arg(short = 'T', long, value_name = "TEXT")]
    title: Option<String>,
    #[command(flatten)]
    sweep: GridArgs,
    #[command(flatten)]
    result: ResultArgs,
    #[command(flatten)]
    general: GeneralArgs,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    rate: RateArgs,
    #[command(flatten)]
    socket: SocketArgs,
    #[command(flatten)]
    measure: MeasureArgs,
    #[command(flatten)]
    key: KeyArgs,
}

impl SweepArgs {
    /// The file of `--plan`.
    pub(crate) fn plan(&self) -> Option<&std::path::Path> {
        self.general.plan.as_deref()
    }
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sweep")]
pub(crate) struct GridArgs {
    /// An axis: values separated by commas, ranges A..B:STEP or A..B*FACTOR; may be repeated
    #[arg(long, value_name = "NAME=VALUES", required = true)]
    over: Vec<String>,
    /// Repetitions of each point [default: 1; with --precision 10, the first stage]
    #[arg(long, value_name = "N", value_parser = whole(1_u32..=MAX_RUNS))]
    runs: Option<u32>,
    /// Confidence of the intervals, 50 to below 100 % [default: 95%]
    #[arg(long, value_name = "PERCENT", value_parser = confidence)]
    confidence: Option<f64>,
    /// Repeat each point until the confidence interval of its first metric is within this percentage of the mean; the
    /// standard deviation of the first runs determines the number (Stein's two stages), at most --max-runs
    #[arg(long, value_name = "PERCENT", value_parser = percentage, requires = "max_runs")]
    precision: Option<f64>,
    /// Maximum number of repetitions of a point with --precision, up to 10 000; required with it
    #[arg(long, value_name = "N", requires = "precision", value_parser = whole(1_u32..=MAX_RUNS))]
    max_runs: Option<u32>,
    /// A metric of the table: throughput, loss, 'p99 one_way_delay', …; may be repeated
    /// [default: throughput, packet_rate, loss, jitter]
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// An expectation of each point, such as 'loss <= 0.1 %'; may be repeated
    #[arg(long, value_name = "EXPECTATION")]
    expect: Vec<String>,
    /// Visit the points in the order of the axes instead of a shuffled order
    #[arg(long)]
    in_order: bool,
    /// Repeat a host-limited run at most N times [default: 0]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = whole(0_u32..=100))]
    repeat_host_limited: u32,
    /// Pause between two runs [default: none]
    #[arg(long, value_name = "TIME")]
    pause: Option<Span>,
    /// Seed of the order [default: a new one, printed]
    #[arg(long, value_name = "SEED")]
    order_seed: Option<Seed>,
    /// Measure between two network namespaces, with an emulator between them if laws are given
    #[arg(long, conflicts_with = "host")]
    lab: bool,
    /// Laws of the emulator for both directions, as for weir impair, with {NAME} of axes
    #[arg(long, value_name = "LAWS", conflicts_with_all = ["a_to_b", "b_to_a"])]
    both: Option<String>,
    /// Laws from A to B
    #[arg(long, value_name = "LAWS")]
    a_to_b: Option<String>,
    /// Laws from B to A
    #[arg(long, value_name = "LAWS")]
    b_to_a: Option<String>,
    /// The control socket of a running emulator that gets the laws
    #[arg(long, value_name = "PATH", conflicts_with = "lab")]
    emulator: Option<PathBuf>,
    /// `--compare-content` of `weir test`.
    #[arg(skip)]
    compare_content: bool,
}

/// Runs the command.
pub(crate) fn run(args: SweepArgs, command: &[OsString]) -> Result<i32, CliError> {
    let test = TestArgs {
        host: args.host.into_iter().collect(),
        general: args.general,
        traffic: args.traffic,
        rate: args.rate,
        socket: args.socket,
        measure: args.measure,
        output: OutputArgs { title: args.title, ..OutputArgs::default() },
        key: args.key,
        hmac_key_file: None,
        later: LaterArgs::default(),
        replay: ReplayArgs::default(),
    };
    let file = test.general.plan.clone();
    let text = file.as_deref().map(super::read_text).transpose()?;
    let scenario = scenario(args.sweep, test, "sweep", text.as_deref())?;
    execute(Job { plan_file: file, ..Job::of_flags(&scenario)? }, &args.result, command)
}

/// Runs `weir test --runs` as a sweep with a single point.
pub(crate) fn repeated(args: TestArgs, command: &[OsString]) -> Result<i32, CliError> {
    let output = &args.output;
    let refused = [
        (output.json_stream, "--json-stream"),
        (output.packet_log.is_some(), "--packet-log"),
        (output.prometheus.is_some(), "--prometheus"),
        (output.otlp.is_some(), "--otlp"),
        (output.live, "--live"),
        (output.before.is_some(), "--before"),
        (output.after.is_some(), "--after"),
        (args.replay.replay.is_some(), "--replay"),
        (args.later.file.is_some(), "-F/--file"),
        (output.logfile.is_some(), "--logfile"),
        (!output.label.is_empty(), "--label"),
        (output.timestamps.is_some(), "--timestamps"),
        (output.emulator.is_some(), "--emulator"),
        (args.hmac_key_file.is_some(), "--hmac-key-file"),
    ];
    if let Some((_, flag)) = refused.iter().find(|(given, _)| *given) {
        return Err(CliError::flag(flag, "given with --runs", "one run"));
    }
    let LaterArgs { runs, confidence, precision, compare_content, file: _ } = args.later;
    let runs = match (runs, precision) {
        (None, None) if compare_content => Some(CONTENT_RUNS),
        _ => runs,
    };
    let result = ResultArgs {
        json: output.json,
        csv: output.csv.clone(),
        no_store: output.no_store,
        junit: None,
        html: None,
        svg: None,
        verbose: false,
        id: None,
    };
    let sweep = GridArgs {
        over: compare_content.then(|| SweepStep::CONTENTS.into()).into_iter().collect(),
        compare_content,
        runs,
        // A limit for tests that never become precise enough.
        max_runs: precision.map(|_| runs.unwrap_or(0).max(100)),
        confidence,
        precision,
        ..GridArgs::default()
    };
    let test = TestArgs { later: LaterArgs::default(), ..args };
    let file = test.general.plan.clone();
    let text = file.as_deref().map(super::read_text).transpose()?;
    let scenario = scenario(sweep, test, "test", text.as_deref())?;
    execute(Job { plan_file: file, ..Job::of_flags(&scenario)? }, &result, command)
}

/// Default of `--runs` with `--compare-content`.
const CONTENT_RUNS: u32 = 5;

/// A scenario with one step that repeats a test at each point of a grid. `name` is the name of both, `file` the text of
/// `--plan`.
fn scenario(
    grid: GridArgs,
    test: TestArgs,
    name: &str,
    file: Option<&str>,
) -> Result<Scenario, CliError> {
    if let Some((flag, _)) = test.general.described_by().filter(|_| test.general.has_script()) {
        let accepted = "one run; --save-plan writes the plan of a script, for --plan";
        return Err(CliError::flag(flag, "given with several runs", accepted));
    }
    let impairing = Impairing {
        both: grid.both.clone(),
        a_to_b: grid.a_to_b.clone(),
        b_to_a: grid.b_to_a.clone(),
        ..Impairing::default()
    };
    if impairing.is_empty() && grid.emulator.is_some() {
        return Err(CliError::flag(
            "--emulator",
            "no laws to apply",
            "--emulator together with --both, --a-to-b or --b-to-a",
        ));
    }
    if !impairing.is_empty() && !grid.lab && grid.emulator.is_none() {
        return Err(CliError::flag(
            "--both",
            "laws without an emulator",
            "--lab, or --emulator SOCKET",
        ));
    }
    let laws = [&grid.both, &grid.a_to_b, &grid.b_to_a];
    let laws: Vec<&str> = laws.into_iter().flatten().map(String::as_str).collect();
    refuse_beside(&test.flags(), &grid.over, &laws)?;
    refuse_unrepeatable(&test)?;
    let general = &test.general;
    // The hosts of a lab run on this host's CPUs.
    general.affinity.as_ref().map_or(Ok(()), Cpus::check)?;
    let threads = Threads {
        affinity: general.affinity.as_ref().map(Cpus::to_string),
        scheduling: general.scheduling.map(|class| class.to_string()),
        spin: general.spin.map(|time| Span(time.as_nanos() as u64)),
    };
    let key_file = test.key.key_file.as_ref().map(|p| p.display().to_string());
    let keys = [
        (test.key.key.is_some(), "--key"),
        (test.key.passphrase_file.is_some(), "--passphrase-file"),
    ];
    if let Some((_, flag)) = keys.iter().find(|(given, _)| *given) {
        let given = "given with several runs";
        let accepted = "--key-file or WEIR_KEY: a repeated test is stored in a file";
        return Err(CliError::flag(flag, given, accepted));
    }
    let is_test = grid.over.is_empty() || grid.compare_content;
    let title = test.output.title.clone().unwrap_or_else(|| match is_test {
        true => title_of(&grid, &test.host),
        false => name.into(),
    });
    let test = TestArgs {
        host: if grid.lab { vec!["b".into()] } else { test.host },
        key: KeyArgs { key: None, key_file: None, passphrase_file: None },
        ..test
    };
    let planned = test_plan::plan(&test, file, Seed(0))?;
    let host = planned.host.unwrap_or_default();
    let port = planned.plan.port;
    let plan = Plan { host: None, ..planned.plan };
    let plan = serde_json::to_value(plan).map_err(|e| CliError::Internal(e.to_string()))?;
    let mut hosts = BTreeMap::new();
    if !grid.lab {
        hosts.insert("peer".to_owned(), HostSpec { address: host, port, key_file });
    }
    let mut emulators = BTreeMap::new();
    if !impairing.is_empty() {
        let control_socket = grid.emulator.as_ref().map(|p| p.display().to_string());
        emulators.insert(
            "middle".to_owned(),
            EmulatorSpec { control_socket, ..EmulatorSpec::default() },
        );
    }
    let middle = grid.lab && !impairing.is_empty();
    let lab = grid.lab.then(|| LabSetup { middle, ..LabSetup::default() });
    let sweep = SweepStep {
        over: grid.over,
        runs: grid.runs,
        max_runs: grid.max_runs,
        precision_percentage: grid.precision,
        compare_content: grid.compare_content,
        in_order: grid.in_order,
        repeat_host_limited: grid.repeat_host_limited,
        pause: grid.pause,
        metrics: grid.metric,
        test: TestStep { plan: Some(plan), threads, ..TestStep::default() },
        impair: (!impairing.is_empty())
            .then(|| ImpairStep { to: impairing, ..ImpairStep::default() }),
    };
    Ok(Scenario {
        schema: SCENARIO_SCHEMA.into(),
        name: name.into(),
        title: Some(title),
        method: None,
        tags: vec![],
        seed: grid.order_seed,
        timeout: None,
        confidence_percentage: grid.confidence.unwrap_or(95.0),
        variables: BTreeMap::new(),
        quick: BTreeMap::new(),
        lab,
        hosts,
        agents: BTreeMap::new(),
        emulators,
        tables: vec![],
        steps: vec![Step {
            name: Some(name.into()),
            expect: grid.expect,
            sweep: Some(Box::new(sweep)),
            ..Step::default()
        }],
    })
}

/// Refuses flags of a single test that have no effect on repeated tests.
fn refuse_unrepeatable(test: &TestArgs) -> Result<(), CliError> {
    let general = &test.general;
    let refused = [
        (general.control_socket.is_some(), "--control-socket"),
        (general.save_plan.is_some(), "--save-plan"),
        (general.start_at.is_some(), "--start-at"),
    ];
    if let Some((_, flag)) = refused.iter().find(|(given, _)| *given) {
        return Err(CliError::flag(flag, "given with several runs", "one run of weir test"));
    }
    if test.measure.nominal == Some(Nominal::Auto) {
        let accepted = "a rate such as 1G, which the repeated plan can store";
        return Err(CliError::flag("--nominal", "auto", accepted));
    }
    if general.connect_timeout != CONNECT_TIMEOUT {
        let given = format!("{} with several runs", general.connect_timeout);
        return Err(CliError::flag("--connect-timeout", given, "one run of weir test"));
    }
    Ok(())
}

/// Default of `--connect-timeout`.
pub(super) const CONNECT_TIMEOUT: Span = Span::from_seconds(3);

/// The title of the repetitions of one test.
fn title_of(grid: &GridArgs, hosts: &[String]) -> String {
    let test = match hosts {
        [] => "test".into(),
        hosts => format!("test of {}", hosts.join(", ")),
    };
    let test = match grid.compare_content {
        true => format!("{test}, zeros against random bytes"),
        false => test,
    };
    match (grid.precision, grid.runs) {
        (Some(percentage), _) => format!("{test}, repeated to ± {percentage} %"),
        (None, Some(runs @ 2..)) => format!("{test}, {runs} runs"),
        (None, _) => test,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use weir_model::experiment::Action;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        test: TestArgs,
    }

    /// The scenario of `weir test` with these arguments, or of `weir sweep` if there are axes.
    fn of(words: &str, over: &[&str], name: &str) -> Scenario {
        let test = Line::try_parse_from(["x"].into_iter().chain(words.split(' '))).unwrap().test;
        let grid = GridArgs {
            over: over.iter().map(ToString::to_string).collect(),
            runs: test.later.runs,
            precision: test.later.precision,
            ..GridArgs::default()
        };
        scenario(grid, test, name, None).unwrap()
    }

    #[test]
    fn repeated_tests_are_named_test_and_grids_sweep() {
        let named = |s: &Scenario| (s.name.clone(), s.steps[0].name.clone().unwrap());
        let both = |name: &str| (name.to_owned(), name.to_owned());
        for (words, title) in [
            ("192.0.2.1 --runs 3", "test of 192.0.2.1, 3 runs"),
            ("192.0.2.1 --precision 2%", "test of 192.0.2.1, repeated to ± 2 %"),
            ("192.0.2.1 --confidence 99%", "test of 192.0.2.1"),
            ("192.0.2.1 --runs 3 --title mine", "mine"),
        ] {
            let test = of(words, &[], "test");
            assert_eq!((named(&test), test.title.as_deref()), (both("test"), Some(title)));
        }
        let sweep = of("192.0.2.1 --runs 3", &["size=1,2"], "sweep");
        assert_eq!((named(&sweep), sweep.title.as_deref()), (both("sweep"), Some("sweep")));
    }

    #[test]
    fn flags_that_have_no_effect_on_repetitions_are_refused() {
        for words in [
            "--start-at +1s",
            "--save-plan /x",
            "--control-socket /x",
            "--nominal auto",
            "--connect-timeout 1s",
            "--key 0",
            "--passphrase-file /x",
        ] {
            let line = ["x", "h"].into_iter().chain(words.split(' '));
            let test = Line::try_parse_from(line).unwrap().test;
            let grid = GridArgs { over: vec!["size=1".into()], ..GridArgs::default() };
            let refused = scenario(grid, test, "sweep", None).unwrap_err().refusal();
            let flag = words.split(' ').next();
            assert_eq!((refused.field.as_deref(), refused.exit_code), (flag, 2), "{words}");
        }
        of("h --connect-timeout 3s --nominal 1G", &["size=1"], "sweep");
    }

    #[test]
    fn thread_settings_apply_to_every_repetition() {
        let made = of("h --runs 2 -A 0 --scheduling normal --spin 1ms -t 1", &[], "test");
        let Some(Action::Sweep(sweep)) = made.steps[0].action() else { panic!("{made:?}") };
        let wanted = Threads {
            affinity: Some("0".into()),
            scheduling: Some("normal".into()),
            spin: Some(Span(1_000_000)),
        };
        assert_eq!(sweep.test.threads, wanted);
        // They survive serializing and parsing the scenario.
        let text = serde_json::to_string(&made).unwrap();
        let read = Scenario::parse(&text, false, &Default::default(), &Default::default());
        assert_eq!(read.unwrap(), made);
        let made = of("h --runs 2", &[], "test");
        let Some(Action::Sweep(sweep)) = made.steps[0].action() else { panic!("{made:?}") };
        assert!(sweep.test.threads.is_default());
    }
}
