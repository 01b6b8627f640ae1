//! Transfers: what the client of transactions knows in addition where each one is a connection with a volume of its own:
//! volumes by number, users and their pauses, the limit of concurrent ones, and when one that no longer moves has failed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_laws::{DrawPosition, Philox, slot};
use weir_model::plan::{FlowSpec, MAX_CONCURRENT, Size, Spacing, SpacingLaw};
use weir_model::record::{Sender, TransferClass, Transfers};
use weir_stats::DelaySummary;

use crate::datagram_transfer::Arrived;
use crate::pages::{Next, Object, Paging};
use crate::receive::delay_record;
use crate::sizes::{Sizes, place};
use crate::transact::Failure;

/// Longest time that an established connection may take for the next byte, ns.
const QUIET_NS: u64 = 60_000_000_000;
/// Shortest time between two looks for transfers that no longer move, ns.
const LOOK_NS: u64 = 10_000_000;
/// Bounds between the classes of volumes, bytes: decades, as studies of flow completion times use.
const CLASS_BOUNDS: [u64; 4] = [10_000, 100_000, 1_000_000, 10_000_000];

/// How a transfer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// The receiver has the whole volume.
    Completed {
        took_ns: u64,
        /// When the last of it arrived.
        done_ns: u64,
    },
    Failed,
    /// The test ended.
    Unfinished,
}

/// A transfer in progress.
#[derive(Debug, Clone, Copy)]
struct Running {
    moved: u64,
    /// When its connection was started, established, or last moved a byte.
    last_ns: u64,
    is_set_up: bool,
    /// What it is of a page, where users load pages.
    object: Option<Object>,
    /// What arrived of it, where it is sent as datagrams.
    arrived: Option<Arrived>,
}

/// When an idle user, or a user whose page has further objects, starts the next transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Ready {
    at_ns: u64,
    /// The page of which it transfers an object; `None`: that of a new one.
    page: Option<u64>,
}

/// The pauses of users, by the numbers of the transfers, or pages, that they follow.
#[derive(Debug, Clone)]
struct Pauses {
    mean_ns: f64,
    law: SpacingLaw,
    philox: Philox,
    place: DrawPosition,
    drawn: Drawn,
}

impl Pauses {
    fn after(&mut self, number: u64, is_counted: bool) -> u64 {
        let place = DrawPosition { packet: number, ..self.place };
        let factor = self.law.next(&mut place.draws(&self.philox));
        let pause = (self.mean_ns * factor).clamp(0.0, 1e18);
        self.drawn.add(pause, is_counted);
        pause as u64
    }
}

/// The mean of what was drawn.
#[derive(Debug, Clone, Copy, Default)]
struct Drawn {
    count: u64,
    sum: f64,
}

impl Drawn {
    fn add(&mut self, value: f64, is_counted: bool) {
        if is_counted {
            self.count += 1;
            self.sum += value;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

/// The transfers of a flow.
#[derive(Debug, Clone)]
pub(crate) struct Transferring {
    /// The laws of volumes and pauses, if they vary.
    laws: (Option<Size>, Option<Spacing>),
    volumes: Sizes,
    drawn_volumes: Drawn,
    pauses: Option<Pauses>,
    /// The next transfers of users; `None` if starts are scheduled.
    ready: Option<BinaryHeap<Reverse<Ready>>>,
    pages: Option<Paging>,
    users: u32,
    max_concurrent: u64,
    timeout_ns: u64,
    /// Longest time that an established transfer may take for the next byte.
    quiet_ns: u64,
    running: BTreeMap<u64, Running>,
    /// When to look for transfers that no longer move.
    look_ns: u64,
    /// When what is still running is ended, once the time of the test is over.
    cut_ns: Option<u64>,
    /// The latest time known here.
    now_ns: u64,
    started: u64,
    not_started: u64,
    unfinished: u64,
    unfinished_bytes: u64,
    completed_bytes: u64,
    /// Rate of each transfer, bit/s, where they are sent as datagrams.
    datagram_rate: Option<u64>,
    /// Completed transfers of which datagrams were lost, where they are sent as datagrams.
    with_loss: Option<u64>,
    /// Transfers × ns until `now_ns`, and since when.
    load: u128,
    since_ns: Option<u64>,
    most_running: u64,
    classes: [DelaySummary; CLASS_BOUNDS.len() + 1],
}

/// Time from one datagram of a transfer to the next, ns.
fn datagram_ns(spec: &FlowSpec) -> u64 {
    let bits = 8 * u128::from(spec.max_payload()) * 1_000_000_000;
    let ns = bits / u128::from(spec.connection.transfer_rate().0.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX / 4)
}

impl Transferring {
    /// Those of a flow; `None` for another shape. A connection that is not established within `timeout_ns` fails.
    pub(crate) fn of(spec: &FlowSpec, timeout_ns: u64) -> Option<Self> {
        let connection = &spec.connection;
        let volume = connection.volume.as_ref().filter(|_| connection.shape.has_volumes())?;
        let pauses = connection.pause.as_ref().and_then(|law| {
            Some(Pauses {
                mean_ns: law.moments().mean_ns?,
                law: law.start(),
                philox: Philox::new(spec.seed.0),
                place: place(&spec.name, connection.direction, slot::PAUSE),
                drawn: Drawn::default(),
            })
        });
        Some(Transferring {
            laws: (
                Some(volume.clone()).filter(|law| !law.is_constant()),
                connection.pause.clone().filter(|law| !law.is_constant()),
            ),
            drawn_volumes: Drawn::default(),
            volumes: Sizes::new(volume, spec.seed, &spec.name, connection.direction),
            pauses,
            ready: (!spec.is_paced()).then(BinaryHeap::new),
            pages: Paging::of(spec),
            users: connection.outstanding(),
            max_concurrent: connection.max_concurrent.unwrap_or(MAX_CONCURRENT).into(),
            timeout_ns,
            quiet_ns: match connection.transfers_datagrams() {
                false => timeout_ns.max(QUIET_NS),
                // The next one may be due much later.
                true => timeout_ns.saturating_add(2 * datagram_ns(spec)),
            },
            running: BTreeMap::new(),
            look_ns: u64::MAX,
            cut_ns: None,
            now_ns: 0,
            started: 0,
            not_started: 0,
            unfinished: 0,
            unfinished_bytes: 0,
            completed_bytes: 0,
            datagram_rate: connection.transfers_datagrams().then(|| connection.transfer_rate().0),
            with_loss: connection.transfers_datagrams().then_some(0),
            load: 0,
            since_ns: None,
            most_running: 0,
            classes: std::array::from_fn(|_| DelaySummary::new()),
        })
    }

    /// All users begin with a transfer.
    pub(crate) fn start(&mut self, at_ns: u64) {
        if let Some(ready) = &mut self.ready {
            ready.extend((0..self.users).map(|_| Reverse(Ready { at_ns, page: None })));
        }
    }

    /// Bytes of a transfer that was started.
    pub(crate) fn volume(&self, number: u64) -> u64 {
        let object = self.running.get(&number).and_then(|running| running.object);
        self.volume_of(number, object)
    }

    fn volume_of(&self, number: u64, object: Option<Object>) -> u64 {
        match &self.pages {
            Some(pages) if object.is_some_and(|object| object.is_first) => {
                pages.first_volume(number)
            }
            _ => self.volumes.at(number) as u64,
        }
    }

    pub(crate) fn max_concurrent(&self) -> u64 {
        self.max_concurrent
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// When the next user starts a transfer, `u64::MAX` if all wait; `None` if starts are scheduled.
    pub(crate) fn ready_ns(&self) -> Option<u64> {
        let ready = self.ready.as_ref()?;
        Some(ready.peek().map_or(u64::MAX, |Reverse(next)| next.at_ns))
    }

    /// A transfer was due and not started.
    pub(crate) fn passed(&mut self, is_counted: bool) {
        self.not_started += u64::from(is_counted);
    }

    /// A transfer starts. Returns when its user meant to start it, if users do.
    pub(crate) fn started(&mut self, number: u64, now_ns: u64, is_counted: bool) -> Option<u64> {
        self.advance(now_ns);
        if is_counted && self.started == 0 {
            // Transfers that were started before, in an omitted start, still count as concurrent.
            (self.since_ns, self.load, self.most_running) = (Some(now_ns), 0, 0);
        }
        self.started += u64::from(is_counted);
        let ready = self.ready.as_mut().and_then(BinaryHeap::pop).map(|Reverse(ready)| ready);
        let object = self.pages.as_mut().map(|pages| {
            let page = ready.and_then(|ready| ready.page);
            pages.started(page, now_ns, is_counted)
        });
        if object.is_none_or(|object| !object.is_first) {
            self.drawn_volumes.add(self.volumes.at(number) as f64, is_counted);
        }
        let running =
            Running { moved: 0, last_ns: now_ns, is_set_up: false, object, arrived: None };
        self.running.insert(number, running);
        self.most_running = self.most_running.max(self.running.len() as u64);
        self.look_ns = self.look_ns.min(now_ns.saturating_add(self.timeout_ns));
        ready.map(|ready| ready.at_ns)
    }

    pub(crate) fn set_up(&mut self, number: u64, now_ns: u64) {
        self.advance(now_ns);
        if let Some(running) = self.running.get_mut(&number) {
            (running.is_set_up, running.last_ns) = (true, now_ns);
        }
    }

    pub(crate) fn moved(&mut self, number: u64, bytes: u64, now_ns: u64) {
        self.advance(now_ns);
        if let Some(running) = self.running.get_mut(&number) {
            running.moved += bytes;
            running.last_ns = now_ns;
        }
    }

    /// A transfer waits until `until_ns`: its patience counts from then on.
    pub(crate) fn rests(&mut self, number: u64, until_ns: u64) {
        if let Some(running) = self.running.get_mut(&number) {
            running.last_ns = running.last_ns.max(until_ns);
        }
    }

    /// This has arrived of a transfer of datagrams, which completes.
    pub(crate) fn arrived(&mut self, number: u64, arrived: Arrived) {
        if let Some(running) = self.running.get_mut(&number) {
            running.arrived = Some(arrived);
        }
    }

    /// A transfer has ended: its user pauses, or transfers further objects of the page.
    pub(crate) fn closed(&mut self, number: u64, now_ns: u64, is_counted: bool, how: Closed) {
        self.advance(now_ns);
        let running = self.running.remove(&number);
        let moved = running.map_or(0, |running| running.moved);
        let object = running.and_then(|running| running.object);
        // A page of which an object is unfinished remains open, and is counted at the end.
        if how != Closed::Unfinished {
            let done_ns = match how {
                Closed::Completed { done_ns, .. } => Some(done_ns),
                _ => None,
            };
            self.continue_user(number, object, done_ns, now_ns, is_counted);
        }
        match how {
            _ if !is_counted => {}
            Closed::Completed { took_ns, .. } => {
                let volume = self.volume_of(number, object);
                let arrived = running.and_then(|running| running.arrived);
                let bytes = arrived.map_or(volume, |arrived| arrived.bytes);
                self.completed_bytes = self.completed_bytes.saturating_add(bytes);
                if let Some(with_loss) = &mut self.with_loss {
                    *with_loss += u64::from(arrived.is_some_and(|arrived| !arrived.is_whole));
                }
                let class = CLASS_BOUNDS.partition_point(|bound| *bound <= volume);
                self.classes[class].record(took_ns as i64);
            }
            Closed::Failed => {}
            Closed::Unfinished => {
                self.unfinished += 1;
                self.unfinished_bytes += moved;
            }
        }
    }

    /// What the user of a transfer that has ended does next. `done_ns`: when it was complete, if it was.
    fn continue_user(
        &mut self,
        number: u64,
        object: Option<Object>,
        done_ns: Option<u64>,
        now_ns: u64,
        is_counted: bool,
    ) {
        let next = match (&mut self.pages, object) {
            (Some(pages), Some(object)) => match pages.closed(object, done_ns) {
                Some(next) => next,
                None => return,
            },
            _ => Next::PageEnded { page: number },
        };
        let Some(ready) = &mut self.ready else { return };
        match next {
            Next::Objects { page, count } => {
                let object = Ready { at_ns: now_ns, page: Some(page) };
                ready.extend((0..count).map(|_| Reverse(object)));
            }
            Next::PageEnded { page } => {
                let pauses = self.pauses.as_mut();
                let pause = pauses.map_or(0, |pauses| pauses.after(page, is_counted));
                ready.push(Reverse(Ready { at_ns: now_ns.saturating_add(pause), page: None }));
            }
        }
    }

    /// How long pages took to load, where users load pages.
    pub(crate) fn page_load_time(&self) -> Option<&DelaySummary> {
        self.pages.as_ref().map(Paging::load_time)
    }

    /// Adds the time that has passed to the mean number of running transfers.
    fn advance(&mut self, now_ns: u64) {
        if now_ns > self.now_ns {
            self.load += u128::from(now_ns - self.now_ns) * self.running.len() as u128;
            self.now_ns = now_ns;
        }
    }

    /// When [`Self::expired`] is to be called again.
    pub(crate) fn deadline_ns(&self) -> u64 {
        match self.running.is_empty() {
            true => u64::MAX,
            false => self.look_ns.min(self.cut_ns.unwrap_or(u64::MAX)),
        }
    }

    fn limit_ns(&self, running: &Running) -> u64 {
        let patience = match running.is_set_up {
            true => self.quiet_ns,
            false => self.timeout_ns,
        };
        running.last_ns.saturating_add(patience)
    }

    /// The transfers whose time is up, and why. `is_over`: the time of the test is.
    pub(crate) fn expired(&mut self, now_ns: u64, is_over: bool) -> Vec<(u64, Failure)> {
        self.advance(now_ns);
        if is_over && self.cut_ns.is_none() {
            self.cut_ns = Some(now_ns.saturating_add(self.timeout_ns));
        }
        if self.cut_ns.is_some_and(|cut| cut <= now_ns) {
            return self.running.keys().map(|number| (*number, Failure::Unfinished)).collect();
        }
        if now_ns < self.look_ns {
            return vec![];
        }
        let (mut over, mut next) = (vec![], u64::MAX);
        for (number, running) in &self.running {
            match self.limit_ns(running) {
                limit if limit <= now_ns => over.push((*number, Failure::Timeout)),
                limit => next = next.min(limit),
            }
        }
        self.look_ns = next.max(now_ns.saturating_add(LOOK_NS));
        over
    }

    /// Its part of the record. `seconds`: the time of the transactions.
    pub(crate) fn report(&self, seconds: f64, sender: &Sender) -> Transfers {
        let lasted = self.since_ns.map(|since| self.now_ns.saturating_sub(since));
        let lasted = lasted.filter(|ns| *ns > 0);
        let class = |(i, times): (usize, &DelaySummary)| TransferClass {
            from_bytes: if i == 0 { 0 } else { CLASS_BOUNDS[i - 1] },
            below_bytes: CLASS_BOUNDS.get(i).copied(),
            completed: times.count(),
            completion_time: delay_record(times, None),
        };
        let per_second = |bytes: u64| (seconds > 0.0).then(|| 8.0 * bytes as f64 / seconds);
        let (volume, pause) = (self.laws.0.as_ref(), self.laws.1.as_ref());
        let mean_volume = || self.drawn_volumes.mean();
        let mean_pause = || self.pauses.as_ref().and_then(|pauses| pauses.drawn.mean());
        Transfers {
            volume_law: volume.cloned(),
            volume_draws: volume.map(Into::into),
            mean_volume_bytes: volume.and_then(|_| mean_volume()),
            pause_law: pause.cloned(),
            pause_draws: pause.map(Into::into),
            mean_pause_seconds: pause.and_then(|_| mean_pause()).map(|ns| ns / 1e9),
            completed_bytes: self.completed_bytes,
            goodput_bits_per_second: per_second(self.completed_bytes),
            asked_starts_per_second: sender.asked_packets_per_second,
            started: self.started,
            not_started: self.not_started,
            unfinished: self.unfinished,
            unfinished_bytes: self.unfinished_bytes,
            asked_bits_per_second: self.datagram_rate,
            with_loss: self.with_loss,
            max_concurrent: self.most_running,
            mean_concurrent: lasted.map(|ns| self.load as f64 / ns as f64),
            classes: self.classes.iter().enumerate().map(class).collect(),
            pages: self.pages.as_ref().map(|pages| pages.report(seconds)),
        }
    }
}
