//! The rows on real hosts: a lab of two with the emulator in the middle. Each row starts its own processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use weir_emulator::Report;
use weir_jobs::{EmulatorJob, Event, Job, Process, ServeJob, TestJob};
use weir_lab::{Lab, LabSpec, Topology};
use weir_model::impairment::{Impairment, OTHER};
use weir_model::record::ImpairmentUse;
use weir_net::namespace::ChildSetup;
use weir_wire::packets::{self, Judged, PacketLogReader};

use super::cases::{PathCase, cases};
use super::conditions::{Conditions, Floor, baseline_host_limit, host_limit, link_dropped};
use super::evidence::Evidence;
use super::judge::{Judgement, judge};
use crate::demo::load::Watch;
use crate::demo::process::{OutputFile, failed, measure, serve};
use crate::demo::{ATTEMPTS, DemoError, TEST_GRACE, Verdict, excused, told};
use crate::triangulation::quantile;

/// Interfaces of a lab's middle.
const MIDDLE: [&str; 2] = ["to-a", "to-b"];
/// Time for the emulator to report when stopped.
const EMULATOR: Duration = Duration::from_secs(20);
const IMPAIR: &str = "weir impair";

/// The result of a row on real hosts.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Record, packet trace, packet logs.
    pub evidence: Evidence,
    /// The emulator's report.
    pub emulator: Report,
    /// Under what conditions.
    pub conditions: Conditions,
    /// The judgement.
    pub judgement: Judgement,
    /// The packet logs of a failed row, by file name.
    pub logs: Vec<(&'static str, Vec<u8>)>,
}

/// Why a row could not be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unmeasured {
    /// What went wrong.
    pub reason: String,
    /// Why the host was the limit, if it was.
    pub host_limited: Option<String>,
}

impl Unmeasured {
    fn new(reason: String) -> Unmeasured {
        Unmeasured { reason, host_limited: None }
    }
}

/// The outcome of a row.
type Outcome = Result<Box<Measured>, Unmeasured>;

/// One row.
#[derive(Debug, Clone)]
pub struct PathRow {
    /// What was asked.
    pub case: PathCase,
    /// The outcome of the last attempt.
    pub outcome: Outcome,
    /// Number of attempts.
    pub attempts: u32,
    /// Whether it is not measured again.
    pub is_final: bool,
}

impl PathRow {
    /// The verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match &self.outcome {
            Ok(measured) => measured.judgement.verdict.clone(),
            Err(why) => excused(why.reason.clone(), why.host_limited.as_deref()),
        }
    }

    /// Whether another attempt may decide it.
    fn is_open(&self) -> bool {
        self.outcome.as_ref().map_or(true, |measured| measured.judgement.is_open())
    }
}

/// The clean baseline, which is subtracted from all rows.
#[derive(Debug, Clone, Default)]
struct Baseline {
    path_delay_ns: f64,
    /// Why it is unusable, if so.
    host_limited: Option<String>,
}

impl Baseline {
    /// What disturbed a row: its own reasons, and those of the baseline that is taken off.
    fn with(&self, own: Option<String>) -> Option<String> {
        let of_baseline = self
            .host_limited
            .as_ref()
            .map(|why| format!("the clean baseline was host-limited ({why})"));
        match (own, of_baseline) {
            (Some(own), Some(of_baseline)) => Some(format!("{own}, {of_baseline}")),
            (own, of_baseline) => own.or(of_baseline),
        }
    }
}

/// Runs the rows with `program` as both ends and as the emulator, each sending for `seconds`. A host-limited row is
/// repeated at most twice and not after `until`, after all others: load on a host often outlasts a row. The first
/// row, the baseline of all, is repeated immediately, even if its verdict stands. A row is shown when it is measured,
/// and again when it is final.
///
/// # Errors
/// [`DemoError`]; rows that were final before have been shown by then.
pub fn on_hosts(
    program: PathBuf,
    seconds: u32,
    floor: Floor,
    until: Instant,
    is_stopped: &dyn Fn() -> bool,
    show: &mut dyn FnMut(&PathRow),
) -> Result<Vec<PathRow>, DemoError> {
    let lab = Lab::up(&LabSpec { topology: Topology::MIDDLE, ..LabSpec::default() })?;
    let hosts = Hosts { lab, program, is_stopped };
    let mut cases = cases(seconds).map_err(failed("weir demo"))?.into_iter();
    let Some(clean) = cases.next() else { return Ok(vec![]) };
    // The clean row uses the path of all rows, emulator included.
    let (clean, baseline) = hosts.clean(clean, seconds, floor, until)?;
    show(&clean);
    let mut rows = vec![clean];
    let once = &mut |case: &PathCase| hosts.judged(case, seconds, floor, &baseline);
    let may_repeat = &|| Instant::now() < until;
    in_turns(cases, once, may_repeat, &mut rows, show).map(|()| rows)
}

/// All cases once, then those still open, in turn; each is shown when final.
fn in_turns(
    cases: impl Iterator<Item = PathCase>,
    once: &mut dyn FnMut(&PathCase) -> Result<Outcome, DemoError>,
    may_repeat: &dyn Fn() -> bool,
    rows: &mut Vec<PathRow>,
    show: &mut dyn FnMut(&PathRow),
) -> Result<(), DemoError> {
    let ended = turns(cases, once, may_repeat, rows, show);
    // An error ends the rest; what was measured is shown.
    for row in rows.iter_mut().filter(|row| !row.is_final) {
        row.is_final = true;
        show(row);
    }
    ended
}

fn turns(
    cases: impl Iterator<Item = PathCase>,
    once: &mut dyn FnMut(&PathCase) -> Result<Outcome, DemoError>,
    may_repeat: &dyn Fn() -> bool,
    rows: &mut Vec<PathRow>,
    show: &mut dyn FnMut(&PathRow),
) -> Result<(), DemoError> {
    for case in cases {
        let outcome = once(&case)?;
        let mut row = PathRow { case, outcome, attempts: 1, is_final: true };
        row.is_final = !row.is_open() || !may_repeat();
        show(&row);
        rows.push(row);
    }
    for attempt in 2..=ATTEMPTS {
        for row in rows.iter_mut().filter(|row| !row.is_final) {
            if !may_repeat() {
                return Ok(());
            }
            let outcome = once(&row.case)?;
            // A failed attempt does not replace a measured one.
            if outcome.is_ok() || row.outcome.is_err() {
                row.outcome = outcome;
            }
            row.attempts = attempt;
            row.is_final = attempt == ATTEMPTS || !row.is_open();
            if row.is_final {
                show(row);
            }
        }
    }
    Ok(())
}

struct Hosts<'a> {
    lab: Lab,
    program: PathBuf,
    is_stopped: &'a dyn Fn() -> bool,
}

type Found = Result<(Evidence, Report, Logs), Unmeasured>;

/// The packet logs of a row, by file name.
type Logs = Vec<(&'static str, Vec<u8>)>;

/// Maximum packet log stored of a row: a row has some 20 000 records of 64 bytes.
const MAX_LOG_BYTES: u64 = 32 << 20;

impl Hosts<'_> {
    /// The row without laws, at most three attempts until it is not host-limited; else the attempt with the lowest
    /// delay.
    fn clean(
        &self,
        case: PathCase,
        seconds: u32,
        floor: Floor,
        until: Instant,
    ) -> Result<(PathRow, Baseline), DemoError> {
        let mut best: Option<(Baseline, Box<Measured>)> = None;
        let mut attempts = 0;
        let outcome = loop {
            attempts += 1;
            let is_last = attempts == ATTEMPTS || Instant::now() >= until;
            let measured = match self.judged(&case, seconds, floor, &Baseline::default())? {
                Ok(measured) => measured,
                Err(_) if !is_last => continue,
                // Keep the earlier measurement.
                Err(_) if best.is_some() => break Ok(()),
                Err(why) => break Err(why),
            };
            let joined = measured.evidence.triangulation(1, &case.impairment);
            let median = joined.and_then(|t| quantile(&t.measured_delay_ns, 0.5));
            let path_delay_ns = median.unwrap_or(0) as f64;
            let host_limited = measured.conditions.host_limited.as_deref();
            let host_limited = baseline_host_limit(path_delay_ns, floor, host_limited);
            let is_open = host_limited.is_some() || measured.judgement.is_open();
            if !is_open || best.as_ref().is_none_or(|b| path_delay_ns < b.0.path_delay_ns) {
                best = Some((Baseline { path_delay_ns, host_limited }, measured));
            }
            if !is_open || is_last {
                break Ok(());
            }
        };
        let (outcome, baseline) = match (outcome, best) {
            (Ok(()), Some((baseline, measured))) => (Ok(measured), baseline),
            (ended, _) => {
                let why = ended.err().unwrap_or(Unmeasured::new("nothing was measured".into()));
                let host_limited = Some("it was not measured".into());
                (Err(why), Baseline { path_delay_ns: 0.0, host_limited })
            }
        };
        Ok((PathRow { case, outcome, attempts, is_final: true }, baseline))
    }

    /// Measures and judges one row once.
    fn judged(
        &self,
        case: &PathCase,
        seconds: u32,
        floor: Floor,
        baseline: &Baseline,
    ) -> Result<Outcome, DemoError> {
        if (self.is_stopped)() {
            return Err(DemoError::Interrupted);
        }
        let watch = Watch::start();
        let found = told(self.is_stopped, || self.measure(case, seconds).map(Ok))?;
        // All programs of the row have ended by now.
        let load = watch.host_limit();
        let found = found.unwrap_or_else(|reason| Err(Unmeasured::new(reason)));
        let found = found.map_err(|why| Unmeasured {
            host_limited: why.host_limited.or_else(|| load.clone()),
            ..why
        });
        Ok(found.map(|(mut evidence, emulator, mut logs)| {
            let host_limited = host_limit(&evidence.record, &emulator, load);
            let conditions = Conditions {
                path_delay_ns: baseline.path_delay_ns,
                floor,
                floor_ratio: 0.0,
                host_limited: baseline.with(host_limited),
            };
            let judgement = judge(case, &evidence, &conditions);
            evidence.record.triangulation = Some(judgement.triangulation());
            evidence.record.impairment =
                Some(ImpairmentUse { client_side: Some("a".into()), ..emulator.used_since(None) });
            if !matches!(judgement.verdict, Verdict::Failed(_)) {
                logs.clear();
            }
            Box::new(Measured { evidence, emulator, conditions, judgement, logs })
        }))
    }

    /// Measures one row once. The inner error is a test without a record.
    fn measure(&self, case: &PathCase, seconds: u32) -> Result<Found, DemoError> {
        let (packet_trace, at_b) = (OutputFile::new(IMPAIR)?, OutputFile::new("weir serve")?);
        let at_a = OutputFile::new("weir test")?;
        let emulator = self.emulator(&case.impairment, &packet_trace)?;
        let mut command = self.lab.command("b", &self.program)?;
        let packet_log = Some(at_b.to(&mut command, "weir serve")?);
        let server = serve(command, ServeJob { packet_log, ..ServeJob::default() })?;
        let mut command = self.lab.command("a", &self.program)?;
        let packet_log = Some(at_a.to(&mut command, "weir test")?);
        let job = TestJob {
            host: Some(self.lab.host("b")?.ipv4.to_string()),
            plan: case.plan.clone(),
            packet_log,
            store: false,
            ..TestJob::default()
        };
        let limit = Duration::from_secs(u64::from(seconds)) + TEST_GRACE;
        let record = measure(command, job, limit, self.is_stopped)?;
        drop(server);
        let report = report(emulator)?;
        let record = match record {
            Ok(record) => *record,
            Err(reason) => return Ok(Err(Unmeasured::new(reason))),
        };
        match &report.packet_trace {
            // Its thread was not scheduled in time.
            Some(packet_trace) if packet_trace.dropped_records > 0 => {
                return Ok(Err(Unmeasured {
                    reason: "the emulator's packet trace is incomplete".into(),
                    host_limited: Some(format!(
                        "its queue dropped {} records",
                        packet_trace.dropped_records
                    )),
                }));
            }
            Some(packet_trace) if !packet_trace.failed => {}
            _ => {
                let reason = "the emulator's packet trace could not be written";
                return Ok(Err(Unmeasured::new(reason.into())));
            }
        }
        let mut received = vec![];
        for log in [&at_b, &at_a] {
            received.extend(read_log(log)?.into_iter().map(|(record, _)| record));
        }
        let names = case.impairment.flows.iter().map(|flow| flow.name.clone());
        let offset = record.clock.as_ref().map_or(0.0, |c| c.offset_seconds);
        let evidence = Evidence {
            record,
            packet_trace: read_log(&packet_trace)?,
            emulator_flows: (0..)
                .zip([OTHER.to_owned()].into_iter().chain(names))
                .collect::<BTreeMap<_, _>>(),
            received,
            clock_offset_ns: (offset * 1e9).round() as i64,
            link_dropped: link_dropped(&report),
        }
        .placed(&case.impairment);
        let logs =
            [("emulator.packets", &packet_trace), ("b.packets", &at_b), ("a.packets", &at_a)];
        let logs = logs.into_iter().map(|(name, log)| Ok((name, log.bytes(MAX_LOG_BYTES)?)));
        Ok(Ok((evidence, report, logs.collect::<Result<_, DemoError>>()?)))
    }

    fn emulator(
        &self,
        impairment: &Impairment,
        packet_trace: &OutputFile,
    ) -> Result<Process, DemoError> {
        let mut command: Command = self.lab.command("m", &self.program)?;
        let job = EmulatorJob {
            // The same link for every row, with receive stamps, so that the baseline applies to all.
            link: Some("packet".into()),
            packet_trace: Some(packet_trace.to(&mut command, IMPAIR)?),
            // SIGKILL would leave the socket's name behind.
            controlled: false,
            disposable: true,
            ..EmulatorJob::new(MIDDLE.map(ToOwned::to_owned), impairment.clone())
        };
        // Signals of the terminal go to the demo alone, which stops the others.
        ChildSetup::new().new_session().apply(&mut command).map_err(failed(IMPAIR))?;
        let job = Job::Emulator(Box::new(job));
        let mut emulator = Process::start(command, &job, EMULATOR).map_err(failed(IMPAIR))?;
        emulator.wait_ready().map_err(failed(IMPAIR))?;
        Ok(emulator)
    }
}

/// Stops an emulator with SIGTERM, and returns its report.
fn report(emulator: Process) -> Result<Report, DemoError> {
    let (events, _) = emulator.finish();
    let report = events.into_iter().find_map(|event| match event {
        Event::Result(report) => Some(report),
        _ => None,
    });
    let report = report.ok_or_else(|| failed(IMPAIR)("it ended without a report"))?;
    weir_model::document::read(&report).map_err(failed(IMPAIR))
}

fn read_log(log: &OutputFile) -> Result<Vec<(packets::Record, Judged)>, DemoError> {
    let mut reader = PacketLogReader::new(log.read("packet log")?).map_err(failed("packet log"))?;
    let mut out = vec![];
    while let Some((record, judged)) = reader.read_judged().map_err(failed("packet log"))? {
        out.push((record, judged.unwrap_or_default()));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_limited_baseline_is_a_reason_in_every_row() {
        let calm = Baseline::default();
        assert_eq!(calm.with(None), None);
        assert_eq!(calm.with(Some("steal".into())).as_deref(), Some("steal"));
        let bad = Baseline { path_delay_ns: 7e5, host_limited: Some("a stall".into()) };
        assert_eq!(bad.with(None).unwrap(), "the clean baseline was host-limited (a stall)");
        let both = bad.with(Some("steal".into())).unwrap();
        assert_eq!(both, "steal, the clean baseline was host-limited (a stall)");
    }
    /// Measured, with this verdict.
    fn measured(verdict: Verdict, of: &Measured) -> Outcome {
        let mut measured = of.clone();
        measured.judgement.verdict = verdict;
        Ok(Box::new(measured))
    }

    /// Simulated, with an empty report of the emulator.
    fn sample(case: &PathCase) -> Measured {
        let conditions = Conditions::default();
        let evidence = crate::demo::path::simulate(case).unwrap();
        let judgement = judge(case, &evidence, &conditions);
        let emulator = serde_json::json!({
            "schema": "", "interfaces": ["", ""], "links": [], "seconds": 0.0, "directions": [], "configurations": [],
            "impairment": { "config": Impairment::default(), "flows": [] },
        });
        let emulator = serde_json::from_value(emulator).unwrap();
        Measured { evidence, emulator, conditions, judgement, logs: vec![] }
    }

    #[test]
    fn host_limited_rows_wait_for_the_others_and_keep_what_they_had() {
        let cases: Vec<PathCase> = cases(1).unwrap().into_iter().take(3).collect();
        let (of, names) = (sample(&cases[0]), [cases[0].name, cases[1].name, cases[2].name]);
        let open = || Verdict::Undecided("busy".into());
        // The outcomes of each row, attempt by attempt.
        let run = |gives: [Vec<Result<Outcome, DemoError>>; 3], tries: usize| {
            let gives = std::cell::RefCell::new(gives.map(Vec::into_iter));
            let (asked, mut told) = (std::cell::RefCell::new(vec![]), vec![]);
            let mut rows = vec![];
            let ended = in_turns(
                cases.clone().into_iter(),
                &mut |case| {
                    let at = names.iter().position(|name| *name == case.name).unwrap();
                    asked.borrow_mut().push(at);
                    gives.borrow_mut()[at].next().unwrap()
                },
                &|| asked.borrow().len() < tries,
                &mut rows,
                &mut |row| told.push((row.case.name, row.is_final)),
            );
            (ended, asked.into_inner(), told, rows)
        };
        let good = || Ok(measured(Verdict::Passed, &of));
        let bad = || Ok(measured(open(), &of));
        let none = || Ok(Err(Unmeasured::new("no record".to_owned())));
        let verdicts = |rows: &[PathRow]| rows.iter().map(PathRow::verdict).collect::<Vec<_>>();

        let (ended, asked, told, rows) =
            run([vec![bad(), none(), bad()], vec![bad(), good()], vec![good()]], 99);
        ended.unwrap();
        assert_eq!(asked, [0, 1, 2, 0, 1, 0]);
        let [a, b, c] = names;
        assert_eq!(told, [(a, false), (b, false), (c, true), (b, true), (a, true)]);
        assert_eq!(verdicts(&rows), [open(), Verdict::Passed, Verdict::Passed]);
        assert_eq!(rows.iter().map(|row| row.attempts).collect::<Vec<_>>(), [3, 2, 1]);

        // A row without an outcome is repeated too; its last reason counts unless load excuses it.
        let busy_and_none = || {
            let why =
                Unmeasured { host_limited: Some("load".into()), ..Unmeasured::new("died".into()) };
            Ok(Err(why))
        };
        let (ended, asked, _, rows) = run(
            [
                vec![none(), good()],
                vec![none(), none(), busy_and_none()],
                vec![none(), none(), none()],
            ],
            99,
        );
        ended.unwrap();
        assert_eq!(asked, [0, 1, 2, 0, 1, 2, 1, 2]);
        assert_eq!(rows[0].verdict(), Verdict::Passed);
        assert!(matches!(rows[1].verdict(), Verdict::Undecided(_)));
        assert!(matches!(rows[2].verdict(), Verdict::Failed(_)));

        // The last attempt decides, and is shown as final when it is made.
        let busy = |why: &str| Ok(measured(Verdict::Undecided(why.into()), &of));
        let lost = || Verdict::Failed("lost".into());
        let (ended, asked, told, rows) = run(
            [
                vec![busy("first"), busy("second"), busy("third")],
                vec![bad(), bad(), Ok(measured(lost(), &of))],
                vec![bad(), busy("again"), good()],
            ],
            99,
        );
        ended.unwrap();
        assert_eq!(asked, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(told[3..], [(a, true), (b, true), (c, true)]);
        let last = Verdict::Undecided("third".into());
        assert_eq!(verdicts(&rows), [last, lost(), Verdict::Passed]);
        assert_eq!(rows.iter().map(|row| row.attempts).collect::<Vec<_>>(), [3, 3, 3]);
        // Shown at its last attempt, not at the end of all.
        let (_, _, told, _) =
            run([vec![bad(), bad(), bad()], vec![bad(), bad(), good()], vec![good()]], 99);
        assert_eq!(told[3..], [(a, true), (b, true)]);

        // No time left: open rows are final, without another attempt announced.
        let (ended, asked, told, _) = run([vec![bad()], vec![bad()], vec![good()]], 1);
        ended.unwrap();
        assert_eq!((asked.len(), told.iter().all(|row| row.1)), (3, true));

        // Nor is there one before the last round.
        let (ended, asked, told, rows) = run([(); 3].map(|()| vec![bad(), bad()]), 4);
        ended.unwrap();
        assert_eq!(asked, [0, 1, 2, 0]);
        assert_eq!(told[3..], [(a, true), (b, true), (c, true)]);
        assert_eq!(verdicts(&rows), [open(), open(), open()]);

        // Interrupted: what was measured is returned.
        let stop = || Err(DemoError::Interrupted);
        let (ended, _, told, rows) = run([vec![bad(), stop()], vec![good()], vec![bad()]], 99);
        assert!(matches!(ended, Err(DemoError::Interrupted)));
        // And shown so.
        assert_eq!(told, [(a, false), (b, true), (c, false), (a, true), (c, true)]);
        assert_eq!(verdicts(&rows), [open(), Verdict::Passed, open()]);
        let (_, _, _, rows) = run([vec![bad()], vec![stop()], vec![]], 99);
        assert_eq!(rows.len(), 1);
    }
}
