//! The emulator: opens the links, starts the directions, stops.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::thread::JoinHandle;

use weir_impair::{ImpairError, Names, Prepared};
use weir_laws::Direction;
use weir_link::{Link, LinkChoice, LinkOptions, Mode, StampSource};
use weir_net::clock::Clock;
use weir_net::interface;
use weir_net::watchdog::{RestoreAction, Watchdog};

use crate::alarm::Alarms;
use crate::config::{EmulatorConfig, LinkMode, is_timed};
use crate::datapath::Datapath;
use crate::direction::{DirectionParts, DirectionResult, DirectionStatus, Running, spawn};
use crate::error::EmulatorError;
use crate::expressions::compile_filters;
use crate::interface_lock::InterfaceLock;
use crate::local::LocalPath;
use crate::packet_trace::PacketTrace;
use crate::recording::Recordings;
use crate::refusal::{permit, refusals};
use crate::remote::{Remote, Shared, lock};
use crate::report::{AppliedConfiguration, Report};
use crate::result::EmulatorResult;
use crate::rights;
use crate::wanted::Wanted;

pub(crate) const NAMES: [&str; 2] = ["a-to-b", "b-to-a"];

/// A running emulator. Dropping it stops it immediately and restores the interfaces' settings.
pub struct Emulator {
    remote: Remote,
    threads: Vec<JoinHandle<DirectionResult>>,
    supervisor: Option<JoinHandle<()>>,
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
        let Some(local) = config.local.clone() else { return Self::start_here(config) };
        let (mut path, namespace) = LocalPath::create(&local, &config.interfaces, config.force)?;
        let mut emulator = namespace.run_in(|| Self::start_here(config))??;
        path.divert(&local)?;
        emulator.local = Some(path);
        Ok(emulator)
    }

    /// Starts between the two interfaces in the calling thread's network namespace.
    fn start_here(config: EmulatorConfig) -> Result<Self, EmulatorError> {
        let [a, b] = &config.interfaces;
        for (interface, reasons) in refusals(a, b)? {
            permit(interface, reasons, config.force)?;
        }
        let indices = [interface::interface(a)?.index, interface::interface(b)?.index];
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
        let mut open = |name: &String| -> Result<Link, EmulatorError> {
            let disabled = weir_link::disable_offloads(name, &mut watchdog)?;
            if !disabled.still_on.is_empty() {
                notes.push(format!(
                    "{name}: {} cannot be disabled: incoming frames may be coalesced",
                    disabled.still_on.join(", ")
                ));
            }
            let options = LinkOptions { ring_frames: config.ring_frames, ..LinkOptions::default() };
            let link = |choice| weir_link::open(name, choice, &options);
            Ok(match config.link {
                LinkMode::Auto => link(LinkChoice::Auto { receive_stamps: timed })?,
                LinkMode::Packet => link(LinkChoice::Mode(Mode::Packet))?,
                LinkMode::XdpGeneric => link(LinkChoice::Mode(Mode::XdpGeneric))?,
                LinkMode::Xdp => link(LinkChoice::Mode(Mode::XdpZeroCopy))
                    .or_else(|_| link(LinkChoice::Mode(Mode::XdpNative)))?,
            })
        };
        let links = [open(a)?, open(b)?];
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
        compile_filters(&config.impairment).map_err(ImpairError::Config)?;
        Self::assemble(links, config, None, Vec::new())
    }

    fn assemble(
        links: [Link; 2],
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
        let descriptions = links.each_ref().map(|link| link.description.to_string());
        let stamped = links.iter().all(|link| link.description.stamps != StampSource::Reading);
        if !stamped && is_timed(&impairment) {
            notes.push(
                "this link has no receive stamps: delays count from when a frame was read".into(),
            );
        }
        let rings = links.each_ref().map(|link| {
            u64::from(link.description.ring_frames) * u64::from(link.description.queues)
        });
        let [mut a, mut b] = links;
        if [&a, &b].iter().all(|link| link.description.mode.knows_trains()) {
            a.receiver.keep_trains();
            b.receiver.keep_trains();
        }
        let ways = [
            (Direction::Forward, a.receiver, b.transmitter),
            (Direction::Reverse, b.receiver, a.transmitter),
        ];
        let statuses = [Arc::new(DirectionStatus::default()), Arc::new(DirectionStatus::default())];
        let mut datapaths = Vec::new();
        for (direction, ..) in &ways {
            let writing =
                packet_trace.as_ref().map(|packet_trace| packet_trace.writing(*direction, false));
            datapaths.push(Datapath::new(&impairment, *direction, writing)?);
        }
        let mut names = Names::default();
        names.add(&Prepared::new(&impairment, Direction::Forward, 1)?);
        let mut recordings = Recordings::default();
        recordings.set_names(names.numbered());
        for (recording, file) in config.recordings {
            let recorders = recordings.start(recording, file, None, &config.interfaces, 0.0)?;
            for (datapath, recorder) in datapaths.iter_mut().zip(recorders) {
                recorder.into_iter().for_each(|recorder| datapath.recorders().add(recorder));
            }
        }
        let started_ns = clock.monotonic_ns();
        let mut running: Vec<Running> = Vec::new();
        let opposites = [(); 2].map(|()| Arc::new(OnceLock::new()));
        for (((_, from, to), datapath), name) in ways.into_iter().zip(datapaths).zip(NAMES) {
            let started = spawn(DirectionParts {
                name,
                datapath,
                config: impairment.clone(),
                started_ns,
                from,
                ring_frames: rings[running.len()],
                to,
                scheduling: config.scheduling,
                status: statuses[running.len()].clone(),
                opposite: opposites[running.len()].clone(),
            });
            match started {
                Ok(started) => running.push(started),
                Err(error) => {
                    for started in running {
                        started.mailbox.abort();
                        let _ = started.thread.join();
                    }
                    return Err(error);
                }
            }
        }
        let (Some(second), Some(first)) = (running.pop(), running.pop()) else {
            return Err(EmulatorError::Ended);
        };
        // They are set here alone.
        let [of_first, of_second] = opposites;
        let _ = of_first.set(second.mailbox.clone());
        let _ = of_second.set(first.mailbox.clone());
        let remote = Remote {
            shared: Arc::new(Shared {
                clock,
                started_ns,
                interfaces: config.interfaces,
                lab: config.lab,
                links: descriptions.to_vec(),
                stamped,
                mailboxes: [first.mailbox, second.mailbox],
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
            threads: vec![first.thread, second.thread],
            supervisor: None,
            packet_trace,
            watchdog,
            local: None,
            locks: Vec::new(),
        };
        let supervisor = std::thread::Builder::new()
            .name("weir-watch".into())
            .spawn(move || remote.watch())
            .map_err(|source| EmulatorError::System { operation: "start a thread", source })?;
        emulator.supervisor = Some(supervisor);
        Ok(emulator)
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
        let mut directions = Vec::new();
        let mut error = None;
        for (thread, name) in std::mem::take(&mut self.threads).into_iter().zip(NAMES) {
            match thread.join() {
                Ok(ended) => {
                    error = error.or(ended.error);
                    directions.push(ended.report);
                }
                // A defect is the most important error.
                Err(_) => error = Some(EmulatorError::Panicked(name)),
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
        let report = self.remote.assemble(directions, Some(reason));
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
        if let Some(supervisor) = self.supervisor.take() {
            let _ = supervisor.join();
        }
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.restore();
        }
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        self.end();
    }
}
