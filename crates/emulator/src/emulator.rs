//! The emulator: opens the links, starts the directions, stops.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use weir_impair::{ImpairError, Names, Prepared, Share};
use weir_laws::Direction;
use weir_link::{Link, LinkChoice, LinkOptions, Mode, StampSource};
use weir_model::names;
use weir_net::clock::Clock;
use weir_net::interface;
use weir_net::watchdog::{RestoreAction, Watchdog};

use crate::alarm::Alarms;
use crate::config::{EmulatorConfig, LinkMode, is_timed};
use crate::datapath::{Datapath, side};
use crate::direction::{DirectionParts, DirectionResult, DirectionStatus, Running, Workers, spawn};
use crate::error::EmulatorError;
use crate::expressions::compile_filters;
use crate::interface_lock::InterfaceLock;
use crate::local::LocalPath;
use crate::packet_trace::PacketTrace;
use crate::recording::Recordings;
use crate::refusal::{device, permit, refusals};
use crate::remote::{Remote, Shared, directions, lock};
use crate::report::{AppliedConfiguration, Report};
use crate::result::EmulatorResult;
use crate::rights;
use crate::sharing::{self, MAX_WORKERS, Receiving, Sharing};
use crate::wanted::Wanted;

pub(crate) const NAMES: [&str; 2] = ["a-to-b", "b-to-a"];

/// A running emulator. Dropping it stops it immediately and restores the interfaces' settings.
pub struct Emulator {
    remote: Remote,
    threads: Vec<JoinHandle<DirectionResult>>,
    /// They raise alarms.
    supervisors: Vec<JoinHandle<()>>,
    packet_trace: Option<PacketTrace>,
    watchdog: Option<Watchdog>,
    /// Detached when the emulator receives no more packets.
    local: Option<LocalPath>,
    /// Released last, after the interfaces are restored.
    locks: Vec<InterfaceLock>,
}

impl std::fmt::Debug for Emulator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emulator")
            .field("interfaces", &self.remote.shared.interfaces)
            .finish_non_exhaustive()
    }
}

impl Emulator {
    /// Locks the interfaces in the calling thread's network namespace and starts.
    ///
    /// # Errors
    /// [`EmulatorError::Refused`] with every reason; an invalid impairment; errors of the system. Nothing is left
    /// then.
    pub fn start(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        compile_filters(&config.impairment).map_err(ImpairError::Config)?;
        check_names(&config.interfaces)?;
        check_threads(&config)?;
        let Some(local) = config.local.clone() else { return Self::start_here(config) };
        let (mut path, namespace) = LocalPath::create(&local, &config.interfaces, config.force)?;
        let mut emulator = namespace.run_in(|| Self::start_here(config))??;
        path.divert(&local)?;
        let (remote, index) = (emulator.remote.clone(), path.index());
        emulator.local = Some(path);
        emulator.supervise(move || remote.watch_interface(&local.interface, index))?;
        Ok(emulator)
    }

    /// Starts between the two interfaces in the calling thread's network namespace.
    fn start_here(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let [a, b] = &config.interfaces;
        let options = LinkOptions { ring_frames: config.ring_frames, ..LinkOptions::default() };
        // The devices may exist only from here on.
        let mut taps = open_taps(&config.interfaces, &options)?;
        for (interface, reasons) in refusals(a, b)? {
            permit(interface, reasons, config.force)?;
        }
        let index = |end| interface::interface(device(end)).map(|found| found.index);
        let indices = [index(a)?, index(b)?];
        let locks = vec![InterfaceLock::take(a, indices[0])?, InterfaceLock::take(b, indices[1])?];
        // Errors that can be found early are reported before anything is changed.
        Datapath::new(&config.impairment, Direction::Forward, None)?;
        let mut watchdog =
            if config.few_capabilities { rights::watchdog()? } else { Watchdog::spawn()? };
        if let Some(path) = config.restoration.clone() {
            // Added first, carried out last.
            watchdog.add(&RestoreAction::RemoveFile { path })?;
        }
        let mut notes = Vec::new();
        let timed = is_timed(&config.impairment);
        let mut open = |end: usize, name: &String| -> Result<Vec<Link>, EmulatorError> {
            if let Some(link) = taps[end].take() {
                return Ok(vec![link]);
            }
            let disabled = weir_link::disable_offloads(name, &mut watchdog)?;
            if !disabled.still_on.is_empty() {
                notes.push(format!(
                    "{name}: {} cannot be disabled: incoming frames may be coalesced",
                    disabled.still_on.join(", ")
                ));
            }
            let workers = config.threads.into();
            let link = |choice| weir_link::open_several(name, choice, &options, workers);
            Ok(match config.link {
                LinkMode::Auto => link(LinkChoice::Auto { receive_stamps: timed })?,
                LinkMode::Packet => link(LinkChoice::Mode(Mode::Packet))?,
                LinkMode::XdpGeneric => link(LinkChoice::Mode(Mode::XdpGeneric))?,
                LinkMode::Xdp => link(LinkChoice::Mode(Mode::XdpZeroCopy))
                    .or_else(|_| link(LinkChoice::Mode(Mode::XdpNative)))?,
            })
        };
        let links = open(0, a)?.into_iter().zip(open(1, b)?).map(|(a, b)| [a, b]).collect();
        if config.few_capabilities {
            // Before the threads, which inherit the capabilities.
            rights::keep_for_running(config.scheduling)?;
        }
        let mut emulator = Self::assemble(links, config, Some((watchdog, indices)), notes)?;
        emulator.locks = locks;
        Ok(emulator)
    }

    /// Starts between two open links.
    ///
    /// # Errors
    /// As [`Emulator::start`], except for those of interfaces.
    pub fn between(links: [Link; 2], config: EmulatorConfig) -> Result<Self, EmulatorError> {
        Self::between_several(vec![links], config)
    }

    /// Starts between several open links at each end, each for a thread of both directions. Packets of one connection have to
    /// arrive at the same link.
    ///
    /// # Errors
    /// As [`Emulator::between`].
    pub fn between_several(
        links: Vec<[Link; 2]>,
        config: EmulatorConfig,
    ) -> Result<Self, EmulatorError> {
        compile_filters(&config.impairment).map_err(ImpairError::Config)?;
        let config =
            EmulatorConfig { threads: links.len().try_into().unwrap_or(u8::MAX), ..config };
        check_threads(&config)?;
        Self::assemble(links, config, None, Vec::new())
    }

    fn assemble(
        links: Vec<[Link; 2]>,
        config: EmulatorConfig,
        real: Option<(Watchdog, [u32; 2])>,
        mut notes: Vec<String>,
    ) -> Result<Self, EmulatorError> {
        let (watchdog, indices) = real.unzip();
        let clock = Clock::System;
        let impairment = Arc::new(config.impairment);
        let packet_trace = match &config.packet_trace {
            None => None,
            Some(path) => {
                let clock = "CLOCK_MONOTONIC, ns";
                let (files, most) = (config.packet_trace_files, config.packet_trace_max_bytes);
                let interfaces = &config.interfaces;
                Some(PacketTrace::create(path, files, most, interfaces, &impairment, clock)?)
            }
        };
        // Those of an interface are alike.
        let of_first = |end: usize| match config.threads {
            1 => links[0][end].description.to_string(),
            threads => format!("{}; {threads} threads", links[0][end].description),
        };
        let descriptions = vec![of_first(0), of_first(1)];
        let stamped =
            links.iter().flatten().all(|link| link.description.stamps != StampSource::Reading);
        if !stamped && is_timed(&impairment) {
            notes.push(
                "this link has no receive stamps: delays count from when a frame was read".into(),
            );
        }
        let mut modes = links.iter().flatten().map(|link| link.description.mode);
        let keeps_trains = modes.all(Mode::knows_trains);
        let workers = config.threads;
        let mut names = Names::default();
        names.add(&Prepared::new(&impairment, Direction::Forward, 1)?);
        let mut recordings = Recordings::of(workers.into());
        recordings.set_names(names.numbered());
        let mut recorders = [Vec::new(), Vec::new()];
        for (recording, file) in config.recordings {
            let started = recordings.start(recording, file, None, &config.interfaces, 0.0)?;
            for (all, more) in recorders.iter_mut().zip(started) {
                all.push(more.into_iter());
            }
        }
        let mut ways = [Vec::new(), Vec::new()];
        for [mut a, mut b] in links {
            if keeps_trains {
                a.receiver.keep_trains();
                b.receiver.keep_trains();
            }
            let ring = |link: &Link| {
                u64::from(link.description.ring_frames) * u64::from(link.description.queues)
            };
            let rings = [ring(&a), ring(&b)];
            ways[0].push((a.receiver, b.transmitter, rings[0]));
            ways[1].push((b.receiver, a.transmitter, rings[1]));
        }
        let started_ns = clock.monotonic_ns();
        let mut running = [Vec::new(), Vec::new()];
        let mut statuses = [Vec::new(), Vec::new()];
        let all: [Workers; 2] = Default::default();
        let start = || -> Result<(), EmulatorError> {
            for (way, links) in ways.into_iter().enumerate() {
                let direction = [Direction::Forward, Direction::Reverse][way];
                let owners = sharing::owners(&impairment, side(direction), &names, workers);
                let links = links.into_iter().zip(Receiving::of(workers)).zip(0..);
                for (((from, to, ring_frames), receiving), worker) in links {
                    let writing =
                        packet_trace.as_ref().map(|trace| trace.writing(direction, false));
                    let share = Share { worker, workers };
                    let mut datapath =
                        Datapath::for_worker(&impairment, direction, writing, share)?;
                    datapath.limit_lateness(config.late_limit_ns);
                    if workers > 1 {
                        datapath.share(Sharing::new(share, owners.clone()));
                    }
                    let own = recorders[way].iter_mut().filter_map(Iterator::next);
                    own.for_each(|recorder| datapath.recorders().add(recorder));
                    let name = match worker {
                        0 => NAMES[way].to_owned(),
                        worker => format!("{}.{worker}", NAMES[way]),
                    };
                    let status = Arc::new(DirectionStatus::default());
                    statuses[way].push(status.clone());
                    running[way].push(spawn(DirectionParts {
                        name,
                        datapath,
                        config: impairment.clone(),
                        started_ns,
                        from,
                        ring_frames,
                        to,
                        scheduling: config.scheduling,
                        status,
                        worker,
                        workers: all[way].clone(),
                        opposite: all[1 - way].clone(),
                        receiving,
                    })?);
                }
            }
            Ok(())
        };
        if let Err(error) = start() {
            for started in running.into_iter().flatten() {
                started.mailbox.abort();
                let _ = started.thread.join();
            }
            return Err(error);
        }
        let mailboxes = running.each_ref().map(|way: &Vec<Running>| {
            way.iter().map(|started| started.mailbox.clone()).collect::<Vec<_>>()
        });
        // They are set here alone.
        for (way, mailboxes) in all.iter().zip(&mailboxes) {
            let _ = way.set(mailboxes.clone());
        }
        let threads = running.into_iter().flatten().map(|started| started.thread).collect();
        let remote = Remote {
            shared: Arc::new(Shared {
                clock,
                started_ns,
                interfaces: config.interfaces,
                lab: config.lab,
                links: descriptions,
                stamped,
                mailboxes,
                statuses,
                wanted: Mutex::new(Wanted {
                    hops: impairment.hops(),
                    config: impairment,
                    stopped: BTreeSet::new(),
                    names,
                    next: 1,
                    applied: vec![AppliedConfiguration {
                        number: 0,
                        is_change: true,
                        at_seconds: [0.0, 0.0],
                    }],
                    pending: Vec::new(),
                }),
                alarms: Mutex::new(Alarms::default()),
                packet_trace: packet_trace.as_ref().map(PacketTrace::watching),
                recordings: Mutex::new(recordings),
                notes,
                watches: AtomicU64::new(0),
                over: (Mutex::new(false), Condvar::new()),
                indices,
                gone: Mutex::new(None),
            }),
        };
        let mut emulator = Emulator {
            remote: remote.clone(),
            threads,
            supervisors: Vec::new(),
            packet_trace,
            watchdog,
            local: None,
            locks: Vec::new(),
        };
        emulator.supervise(move || remote.watch())?;
        Ok(emulator)
    }

    fn supervise(&mut self, watch: impl FnOnce() + Send + 'static) -> Result<(), EmulatorError> {
        let supervisor = std::thread::Builder::new()
            .name("weir-watch".into())
            .spawn(watch)
            .map_err(|source| EmulatorError::System { operation: "start a thread", source })?;
        self.supervisors.push(supervisor);
        Ok(())
    }

    /// Makes the watchdog remove a file when this process dies, also by SIGKILL.
    ///
    /// # Errors
    /// There is no such file, or the watchdog has ended.
    pub fn remove_at_death(&mut self, path: &Path) -> Result<(), EmulatorError> {
        let Some(watchdog) = &mut self.watchdog else { return Ok(()) };
        Ok(watchdog.add(&RestoreAction::RemoveFile { path: path.to_owned() })?)
    }

    /// What steers it.
    #[must_use]
    pub fn remote(&self) -> &Remote {
        &self.remote
    }

    /// The report so far.
    ///
    /// # Errors
    /// [`EmulatorError::Ended`] when a direction has ended.
    pub fn report(&self) -> Result<Report, EmulatorError> {
        self.remote.report()
    }

    /// Stops it: receives what has arrived, lets queued packets leave within 2 s (less after [`Remote::abort`]), and
    /// restores the interfaces. `reason` goes into the report.
    #[must_use]
    pub fn finish(mut self, reason: &str) -> EmulatorResult {
        self.local.iter_mut().for_each(LocalPath::release);
        self.remote.drain();
        let mut snapshots = Vec::new();
        let mut error = None;
        let workers = usize::from(self.remote.workers());
        for (thread, number) in std::mem::take(&mut self.threads).into_iter().zip(0..) {
            match thread.join() {
                Ok(ended) => {
                    error = error.or(ended.error);
                    snapshots.push(ended.snapshot);
                }
                // A defect is the most important error.
                Err(_) => error = Some(EmulatorError::Panicked(NAMES[number / workers])),
            }
        }
        if let Some(name) = lock(&self.remote.shared.gone).take() {
            error = error.or(Some(weir_link::Error::Gone(name).into()));
        }
        if let Some(packet_trace) = self.packet_trace.take()
            && let Err(failure) = packet_trace.finish()
        {
            error = error.or(Some(failure));
        }
        self.remote.finish_recordings();
        let reason = error.as_ref().map_or_else(|| reason.to_owned(), EmulatorError::with_causes);
        let report = self.remote.assemble(directions(snapshots), Some(reason));
        self.end();
        EmulatorResult { report, error }
    }

    fn end(&mut self) {
        self.local.iter_mut().for_each(LocalPath::release);
        self.remote.abort();
        for thread in std::mem::take(&mut self.threads) {
            let _ = thread.join();
        }
        self.remote.finish_recordings();
        let (over, bell) = &self.remote.shared.over;
        *lock(over) = true;
        bell.notify_all();
        for supervisor in self.supervisors.drain(..) {
            let _ = supervisor.join();
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.restore();
        }
    }
}

/// Opens the TAP devices among two ends.
fn open_taps(
    ends: &[String; 2],
    options: &LinkOptions,
) -> Result<[Option<Link>; 2], EmulatorError> {
    let mut taps = [None, None];
    if device(&ends[0]) == device(&ends[1]) {
        // Refused with the reason for both, and not because the second is in use.
        return Ok(taps);
    }
    for (tap, end) in taps.iter_mut().zip(ends) {
        if let Some(device) = names::tap(end) {
            *tap = Some(weir_link::open_tap(device, end, options)?);
        }
    }
    Ok(taps)
}

/// Checks the names of TAP devices; the kernel knows those of interfaces.
///
/// # Errors
/// [`EmulatorError::Refusal`].
fn check_names(ends: &[String; 2]) -> Result<(), EmulatorError> {
    let is_wrong = |end: &&String| names::tap(end).is_some() && !names::is_emulator_end(end);
    ends.iter().find(is_wrong).map_or(Ok(()), |end| {
        Err(EmulatorError::Refusal {
            what: "interfaces".into(),
            given: end.clone(),
            accepted: names::EMULATOR_END_FORMS.into(),
        })
    })
}

/// Checks the number of threads, and that what is asked for works with several.
///
/// # Errors
/// [`EmulatorError::Refusal`].
fn check_threads(config: &EmulatorConfig) -> Result<(), EmulatorError> {
    let refuse = |what: &str, given: String, accepted: &str| {
        Err(EmulatorError::Refusal { what: what.into(), given, accepted: accepted.into() })
    };
    let threads = config.threads;
    if !(1..=MAX_WORKERS).contains(&threads) {
        return refuse("threads", threads.to_string(), &format!("1 to {MAX_WORKERS}"));
    }
    if threads > 1 && config.packet_trace.is_some() {
        return refuse("threads", threads.to_string(), "1 with a packet trace");
    }
    if threads > 1 && config.interfaces.iter().any(|end| names::tap(end).is_some()) {
        return refuse("threads", threads.to_string(), "1 with a TAP device, which has one queue");
    }
    sharing::check(&config.impairment, threads)
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}
