//! The client's side of transactions: when to send a request, which request a response answers, and how long that took.
//!
//! Without a rate the loop is closed: a request is sent when fewer than `outstanding` wait for a response. With a rate it is
//! open: requests are sent at their scheduled times, whatever has been answered, so that a slow server does not slow down
//! the client that measures it (coordinated omission).

use std::collections::{BTreeMap, BTreeSet};

use weir_model::plan::{CatchUp, FlowSpec, Shape};
use weir_model::record::{Histogram, IntervalCount, Receiver, Sender, Transactions};
use weir_stats::DelaySummary;
use weir_wire::header::TagKey;

use crate::datagram_transfer::Arrived;
use crate::intervals::IntervalClock;
use crate::receive::delay_record;
use crate::requests::{Request, Requests};
use crate::send::{NextSend, SendCount, Sending};
use crate::transfers::{Closed, Transferring};

/// Maximum number of requests without a response where the loop is open: later ones wait, at their scheduled times.
const MAX_WAITING: u64 = 65_536;
/// Maximum number of requests since the oldest one without a response; later ones wait, too.
const MAX_SPAN: u64 = 1 << 20;
/// Timed-out requests that are remembered; every response to an older request counts as late.
const MAX_EXPIRED: usize = 4096;
/// Longest time that a stream may take for the responses that are missing when sending ends, ns.
const STREAM_QUIET_NS: u64 = 10_000_000_000;

/// Why a transaction failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Failure {
    /// No response, or no connection, within the timeout.
    Timeout,
    /// The connection was refused.
    Refused,
    /// The connection was reset.
    Reset,
    /// The connection was closed before the whole response had arrived.
    Closed,
    /// More bytes arrived than the response has.
    Invalid,
    /// No local port was free.
    NoPort,
    /// The request was due before the end of sending, but was not sent.
    Unsent,
    /// A router or the host reported that it is unreachable (ICMP destination unreachable).
    Unreachable,
    /// A router or firewall refused it by policy (ICMP administratively prohibited).
    Prohibited,
    /// It was discarded since its TTL or hop limit ran out (ICMP time exceeded).
    TtlExceeded,
    /// It was larger than the path MTU, and fragmentation was not permitted.
    TooBig,
    /// None of its datagrams arrived.
    Lost,
    /// Another error of the system.
    Error,
    /// A transfer was still running at the end of the test. Counted apart from those that failed.
    Unfinished,
}

impl Failure {
    /// Its name in records.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Failure::Timeout => "timeout",
            Failure::Refused => "refused",
            Failure::Reset => "reset",
            Failure::Closed => "closed",
            Failure::Invalid => "invalid",
            Failure::NoPort => "no-port",
            Failure::Unsent => "unsent",
            Failure::Unreachable => "unreachable",
            Failure::Prohibited => "prohibited",
            Failure::TtlExceeded => "ttl-exceeded",
            Failure::TooBig => "too-big",
            Failure::Lost => "lost",
            Failure::Error => "error",
            Failure::Unfinished => "unfinished",
        }
    }
}

/// The flow with its policy for late requests: by default they are sent immediately, since their users would not wait.
fn with_catch_up(spec: &FlowSpec) -> FlowSpec {
    let mut spec = spec.clone();
    if spec.connection.catch_up == CatchUp::default() {
        spec.connection.catch_up = CatchUp::Burst(u32::MAX);
    }
    spec
}

/// The client's side of the transactions of one flow.
#[derive(Debug, Clone)]
pub struct Transacting {
    /// Its requests: schedule, limits, intervals and totals.
    pub sending: Sending,
    shape: Shape,
    request_bytes: u64,
    response_bytes: u64,
    /// Maximum number of requests in flight, if the loop is closed.
    outstanding: Option<u32>,
    /// Bytes of the number in each datagram; 0 for streams.
    number_bytes: usize,
    /// Datagrams carry the requests and responses.
    is_lossy: bool,
    timeout_ns: u64,
    omit_ns: u64,
    counts_from_ns: u64,
    requests: Requests,
    in_flight: u64,
    /// Requests with a connection each whose time is up, not yet fetched by the caller.
    timed_out: Vec<u64>,
    expired: BTreeSet<u64>,
    /// Requests below this number have left the memory of timed-out ones.
    forgotten: u64,
    /// The first request after the omitted start.
    first_counted: Option<u64>,
    /// Slots that were skipped in the omitted start.
    missed_before: u64,
    /// Whether no further request is sent, and since when.
    done_ns: Option<u64>,
    completed: u64,
    failures: BTreeMap<Failure, u64>,
    failed_connections: u64,
    late: u64,
    duplicates: u64,
    invalid: u64,
    reordered: u64,
    /// The latest request that was answered.
    last_answered: Option<u64>,
    last_ns: u64,
    response: DelaySummary,
    squares: f64,
    from_scheduled: DelaySummary,
    setup: DelaySummary,
    /// What transfers have in addition.
    transfers: Option<Box<Transferring>>,
    /// The datagrams of all transfers, where they are sent as such.
    datagrams: Option<Box<Sending>>,
}

impl Transacting {
    /// A flow that has not started. A request without a response fails after `timeout_ns`.
    #[must_use]
    pub fn new(spec: &FlowSpec, omit_ns: u64, timeout_ns: u64) -> Self {
        let spec = with_catch_up(spec);
        let connection = &spec.connection;
        Transacting {
            // Requests have no tag.
            sending: Sending::new(&spec, TagKey::for_flow(&[0; 16], spec.id), omit_ns, false),
            shape: connection.shape,
            request_bytes: connection.request_bytes(),
            response_bytes: connection.response_bytes(),
            outstanding: (!spec.is_paced()).then(|| connection.outstanding()),
            number_bytes: connection.number_bytes(),
            is_lossy: connection.number_bytes() > 0,
            timeout_ns,
            omit_ns,
            counts_from_ns: 0,
            requests: Requests::new(connection.shape.has_volumes()),
            in_flight: 0,
            timed_out: vec![],
            expired: BTreeSet::new(),
            forgotten: 0,
            first_counted: None,
            missed_before: 0,
            done_ns: None,
            completed: 0,
            failures: BTreeMap::new(),
            failed_connections: 0,
            late: 0,
            duplicates: 0,
            invalid: 0,
            reordered: 0,
            last_answered: None,
            last_ns: 0,
            response: DelaySummary::new(),
            squares: 0.0,
            from_scheduled: DelaySummary::new(),
            setup: DelaySummary::new(),
            transfers: Transferring::of(&spec, timeout_ns).map(Box::new),
            datagrams: None,
        }
    }

    /// The same without numbers in datagrams, which the server does not send back: a response answers the latest request.
    #[must_use]
    pub fn without_numbers(mut self) -> Self {
        self.number_bytes = 0;
        self
    }

    /// The same with one request in flight, also at a rate: a request that is due waits for the response to the one before.
    #[must_use]
    pub fn one_at_a_time(mut self) -> Self {
        self.outstanding = Some(1);
        self
    }

    /// The same where transfers are sent as datagrams: with the key of their tags.
    #[must_use]
    pub fn with_key(mut self, spec: &FlowSpec, key: TagKey) -> Self {
        let datagrams = spec.datagrams_of_transfers();
        let sending = datagrams.map(|spec| Sending::new(&spec, key, self.omit_ns, false));
        self.datagrams = sending.map(Box::new);
        self
    }

    /// The datagrams of all transfers, numbered in the order in which they are sent; `None` for other flows.
    #[must_use]
    pub fn datagrams(&self) -> Option<&Sending> {
        self.datagrams.as_deref()
    }

    /// The datagrams of transfers.
    pub fn datagrams_mut(&mut self) -> Option<&mut Sending> {
        self.datagrams.as_deref_mut()
    }

    /// What is sent: the datagrams of transfers, or the requests.
    #[must_use]
    pub fn sent_data(&self) -> &Sending {
        self.datagrams().unwrap_or(&self.sending)
    }

    /// Sets when it starts, and the intervals of the test.
    pub fn start(&mut self, at_ns: u64, intervals: IntervalClock) {
        self.counts_from_ns = match self.omit_ns {
            0 => 0,
            omit => intervals.start_ns.saturating_add(omit),
        };
        self.sending.start(at_ns, intervals);
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.start(at_ns, intervals);
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.start(at_ns);
        }
    }

    /// Stops sending requests; responses to those that were sent are still awaited. Returns whether it was stopped already.
    pub fn stop(&mut self) -> bool {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.stop();
        }
        self.sending.stop()
    }

    /// Changes the rate of an open loop.
    #[must_use]
    pub fn set_rate(&mut self, spec: &FlowSpec, now_ns: u64) -> bool {
        self.sending.set_rate(&with_catch_up(spec), now_ns)
    }

    /// Number of the next request.
    #[must_use]
    pub fn next_number(&self) -> u64 {
        self.requests.next_number()
    }

    /// Requests without a response.
    #[must_use]
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The next action at `now_ns`: `Now` is a number of requests to send, `Done` that all were answered or given up.
    pub fn next(&mut self, now_ns: u64) -> NextSend {
        self.expire(now_ns);
        if self.done_ns.is_none() {
            while self.done_ns.is_none() {
                if now_ns < self.counts_from_ns {
                    self.missed_before = self.sending.missed_slots();
                }
                let missed = self.sending.missed_slots() - self.missed_before;
                let overdue = self.sending.overdue_at_end(now_ns);
                match self.sending.next(now_ns) {
                    NextSend::At(at) => return NextSend::At(at.min(self.deadline_ns())),
                    NextSend::Now(_) if self.transfers.is_some() => {
                        if let Some(next) = self.next_transfer(now_ns) {
                            return next;
                        }
                        continue;
                    }
                    NextSend::Now(count) => {
                        let most = self.outstanding.map_or(MAX_WAITING, u64::from);
                        let span = MAX_SPAN.saturating_sub(self.requests.stored());
                        let room = most.saturating_sub(self.in_flight).min(span);
                        let room = room.min(u64::from(count)) as u32;
                        return match room {
                            0 => NextSend::At(self.deadline_ns().min(self.sending.end_ns())),
                            room => NextSend::Now(room),
                        };
                    }
                    NextSend::Done => {
                        self.done_ns = Some(now_ns);
                        if missed + overdue > 0 {
                            self.failures.insert(Failure::Unsent, missed + overdue);
                        }
                    }
                }
            }
            self.expire(now_ns);
        } else {
            self.advance(now_ns);
        }
        match self.in_flight {
            0 => NextSend::Done,
            _ => NextSend::At(self.deadline_ns()),
        }
    }

    /// Closes intervals that have passed, until sending has ended.
    pub fn advance(&mut self, now_ns: u64) {
        self.sending.advance(now_ns);
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.advance(now_ns);
        }
    }

    /// What to do about a transfer that may start at `now_ns`; `None` if it does not start, because too many are running.
    fn next_transfer(&mut self, now_ns: u64) -> Option<NextSend> {
        let deadline = self.deadline_ns().min(self.sending.end_ns());
        let transfers = self.transfers.as_mut()?;
        match transfers.ready_ns() {
            Some(at) if at > now_ns => return Some(NextSend::At(at.min(deadline))),
            Some(_) => return Some(NextSend::Now(1)),
            None if self.in_flight < transfers.max_concurrent() => return Some(NextSend::Now(1)),
            None => {}
        }
        let intended = self.sending.intended_ns().unwrap_or(now_ns);
        self.sending.pass(now_ns);
        transfers.passed(intended.max(now_ns) >= self.counts_from_ns);
        // It had a number, so that the volumes of the others stay those of their numbers.
        self.requests.skip();
        None
    }

    /// When the oldest request without a response fails.
    fn deadline_ns(&self) -> u64 {
        if let Some(transfers) = &self.transfers {
            return transfers.deadline_ns();
        }
        let oldest = self.requests.oldest();
        let by_timeout =
            oldest.map_or(u64::MAX, |(_, r)| r.sent_ns.saturating_add(self.timeout_ns));
        match (self.may_time_out(), self.done_ns) {
            (true, _) => by_timeout,
            (false, None) => u64::MAX,
            (false, Some(done)) => {
                let quiet = self.timeout_ns.max(STREAM_QUIET_NS);
                done.max(self.last_ns).saturating_add(quiet)
            }
        }
    }

    /// Whether a response may be lost: a stream delivers it, however late, or breaks.
    fn may_time_out(&self) -> bool {
        self.is_lossy || self.shape.connects()
    }

    /// Fails the requests whose time is up.
    fn expire(&mut self, now_ns: u64) {
        if let Some(transfers) = &mut self.transfers {
            let is_over = self.done_ns.is_some() && self.sending.is_ended(now_ns);
            for (number, why) in transfers.expired(now_ns, is_over) {
                self.failed(number, why);
                self.timed_out.push(number);
            }
            return;
        }
        while let Some((number, _)) = self.requests.oldest()
            && self.deadline_ns() <= now_ns
        {
            self.failed(number, Failure::Timeout);
            if self.shape.connects() {
                self.timed_out.push(number);
            }
            if self.number_bytes > 0 {
                self.expired.insert(number);
                if self.expired.len() > MAX_EXPIRED
                    && let Some(oldest) = self.expired.pop_first()
                {
                    self.forgotten = oldest + 1;
                }
            }
        }
    }

    /// Numbers of requests whose connection is to be closed, since they timed out after the last call.
    pub fn take_timed_out(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.timed_out)
    }

    /// A request is being sent, or a connection opened, at `now_ns`. Returns its number.
    pub fn sent(&mut self, now_ns: u64) -> u64 {
        let number = self.next_number();
        let mut scheduled_ns = self.sending.intended_ns().unwrap_or(now_ns);
        if let Some(transfers) = &mut self.transfers {
            let is_counted = now_ns >= self.counts_from_ns;
            scheduled_ns = transfers.started(number, now_ns, is_counted).unwrap_or(scheduled_ns);
        }
        let is_set_up = !self.shape.connects();
        let request = Request { scheduled_ns, sent_ns: now_ns, is_open: true, is_set_up };
        if now_ns >= self.counts_from_ns {
            self.first_counted.get_or_insert(number);
        }
        self.requests.push(request);
        self.in_flight += 1;
        match self.transfers {
            // Its bytes are counted as they move.
            Some(_) => self.sending.wrote(0, true, now_ns),
            None => self.sending.sent(1, 1, now_ns),
        }
        number
    }

    /// Bytes of transfer `number`.
    #[must_use]
    pub fn volume(&self, number: u64) -> u64 {
        self.transfers.as_ref().map_or(0, |transfers| transfers.volume(number))
    }

    /// Bytes of a transfer were accepted by the network, or arrived, in one call at `now_ns`; where it is sent as datagrams, those
    /// of one datagram.
    pub fn moved(&mut self, number: u64, bytes: usize, now_ns: u64) {
        self.advance(now_ns);
        self.sending.wrote(bytes, false, now_ns);
        self.last_ns = now_ns;
        if let Some(transfers) = &mut self.transfers {
            transfers.moved(number, bytes as u64, now_ns);
        }
    }

    /// A datagram of a transfer was sent at `now_ns`, of which one is due every `interval_ns`.
    pub fn datagram(&mut self, number: u64, bytes: usize, interval_ns: u64, now_ns: u64) {
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.sent_sized(bytes as u64, interval_ns, now_ns);
        }
        self.moved(number, bytes, now_ns);
    }

    /// A transfer waits until `until_ns` for datagrams that may still arrive.
    pub fn rests(&mut self, number: u64, until_ns: u64) {
        if let Some(transfers) = &mut self.transfers {
            transfers.rests(number, until_ns);
        }
    }

    /// The connection of a request was established.
    pub fn set_up(&mut self, number: u64, now_ns: u64) {
        let Some(request) = self.requests.get_mut(number) else { return };
        request.is_set_up = true;
        if let Some(transfers) = &mut self.transfers {
            transfers.set_up(number, now_ns);
        }
        if request.sent_ns >= self.counts_from_ns {
            self.setup.record(now_ns.saturating_sub(request.sent_ns) as i64);
        }
    }

    /// Closes an open request.
    fn close(&mut self, number: u64) -> Option<Request> {
        let closed = self.requests.close(number)?;
        self.in_flight -= 1;
        Some(closed)
    }

    /// A request was answered at `now_ns`; `false` if it was not waiting for a response.
    pub fn answered(&mut self, number: u64, now_ns: u64) -> bool {
        self.answered_at(number, now_ns, now_ns)
    }

    /// As [`answered`](Self::answered), at `done_ns`, which is known since `now_ns`.
    fn answered_at(&mut self, number: u64, done_ns: u64, now_ns: u64) -> bool {
        let Some(request) = self.close(number) else { return false };
        self.last_ns = self.last_ns.max(done_ns);
        let is_counted = request.sent_ns >= self.counts_from_ns;
        if let Some(transfers) = &mut self.transfers {
            let from = match self.outstanding {
                None => request.scheduled_ns.min(request.sent_ns),
                Some(_) => request.sent_ns,
            };
            let took_ns = done_ns.saturating_sub(from);
            let how = Closed::Completed { took_ns, done_ns };
            transfers.closed(number, now_ns, is_counted, how);
        }
        self.sending.transaction(now_ns);
        let is_reordered = self.last_answered.is_some_and(|last| number < last);
        self.last_answered = self.last_answered.max(Some(number));
        if is_counted {
            self.reordered += u64::from(is_reordered);
            let took = done_ns.saturating_sub(request.sent_ns) as i64;
            self.completed += 1;
            self.response.record(took);
            self.squares += (took as f64).powi(2);
            if self.outstanding.is_none() {
                let took = done_ns.saturating_sub(request.scheduled_ns.min(request.sent_ns));
                self.from_scheduled.record(took as i64);
            }
        }
        true
    }

    /// A transfer of datagrams is over at `now_ns`: what has arrived of it. It failed if that is nothing.
    pub fn transferred(&mut self, number: u64, arrived: Arrived, now_ns: u64) {
        if arrived.datagrams == 0 {
            return self.failed(number, Failure::Lost);
        }
        if let Some(transfers) = &mut self.transfers {
            transfers.arrived(number, arrived);
        }
        self.answered_at(number, arrived.at_ns, now_ns);
    }

    /// The oldest request was answered: responses on a stream are in the order of the requests. `false`: there is none.
    pub fn answered_next(&mut self, now_ns: u64) -> bool {
        let oldest = self.requests.oldest().map(|(number, _)| number);
        oldest.is_some_and(|number| self.answered(number, now_ns))
    }

    /// A transaction failed.
    pub fn failed(&mut self, number: u64, why: Failure) {
        let Some(request) = self.close(number) else { return };
        let is_counted = request.sent_ns >= self.counts_from_ns;
        if let Some(transfers) = &mut self.transfers {
            let is_unfinished = why == Failure::Unfinished;
            let how = if is_unfinished { Closed::Unfinished } else { Closed::Failed };
            let now_ns = transfers.now_ns();
            transfers.closed(number, now_ns, is_counted, how);
            if is_unfinished {
                return;
            }
        }
        if is_counted {
            *self.failures.entry(why).or_insert(0) += 1;
            self.failed_connections += u64::from(!request.is_set_up);
        }
    }

    /// Ends all transactions that are in flight.
    pub fn fail_all(&mut self, why: Failure) {
        for number in self.requests.open() {
            self.failed(number, why);
        }
    }

    /// Writes the number of a request into its datagram.
    pub fn write_number(&self, number: u64, datagram: &mut [u8]) {
        let bytes = number.to_be_bytes();
        let width = self.number_bytes.min(datagram.len());
        datagram[..width].copy_from_slice(&bytes[bytes.len() - width..]);
    }

    /// A datagram arrived at `now_ns`. It answers the latest request with the number in it.
    pub fn on_datagram(&mut self, datagram: &[u8], now_ns: u64) {
        let width = self.number_bytes;
        let Some(number) = datagram
            .get(..width)
            .filter(|_| datagram.len() as u64 == self.response_bytes)
            .and_then(|low| self.whole_number(low))
        else {
            self.on_invalid(now_ns);
            return;
        };
        if self.answered(number, now_ns) {
            return;
        }
        let is_late = self.expired.remove(&number) || number < self.forgotten;
        if self.first_counted.is_some_and(|first| number >= first) {
            *(if is_late { &mut self.late } else { &mut self.duplicates }) += 1;
        }
    }

    /// A request failed, of whose number only the last bytes are known.
    pub fn failed_by_low(&mut self, low: &[u8], why: Failure) {
        if let Some(number) = self.whole_number(low) {
            self.failed(number, why);
        }
    }

    /// A datagram arrived that answers no request: forged, truncated or damaged.
    pub fn on_invalid(&mut self, now_ns: u64) {
        self.invalid += u64::from(now_ns >= self.counts_from_ns);
    }

    /// The latest number that ends in these bytes; `None` if none was used.
    fn whole_number(&self, low: &[u8]) -> Option<u64> {
        let last = self.next_number().checked_sub(1)?;
        let value = low.iter().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
        let mask = if low.len() >= 8 { u64::MAX } else { (1 << (8 * low.len())) - 1 };
        let back = last.wrapping_sub(value) & mask;
        last.checked_sub(back)
    }

    /// Closes the last interval at the end of the test.
    pub fn finish(&mut self, now_ns: u64) {
        self.sending.finish(now_ns);
        if let Some(datagrams) = &mut self.datagrams {
            datagrams.finish(now_ns);
        }
    }

    /// The transactions' part of the record, next to the sender's.
    #[must_use]
    pub fn report(&self, sender: &Sender) -> Transactions {
        let end_ns = self.sending.log.start_ns().zip(sender.end_seconds);
        let end_ns = end_ns.map_or(0, |(zero, end)| zero.saturating_add((end * 1e9) as u64));
        let seconds = sender.seconds + self.last_ns.saturating_sub(end_ns) as f64 / 1e9;
        let count = self.response.count();
        let mean = self.response.mean_ns();
        let deviation = mean.filter(|_| count > 1).map(|mean| {
            let n = count as f64;
            ((self.squares - n * mean * mean).max(0.0) / (n - 1.0)).sqrt() / 1e9
        });
        let has_data = self.shape.has_data();
        let of_datagrams = |count: u64| (self.number_bytes > 0).then_some(count);
        Transactions {
            shape: self.shape,
            request_bytes: has_data.then_some(self.request_bytes),
            response_bytes: has_data.then_some(self.response_bytes),
            outstanding: self.outstanding,
            completed: self.completed,
            failed: self.failures.values().sum(),
            failures: self.failures.iter().map(|(why, n)| (why.name().into(), *n)).collect(),
            failed_connections: self.shape.connects().then_some(self.failed_connections),
            late_responses: of_datagrams(self.late),
            duplicate_responses: of_datagrams(self.duplicates),
            reordered_responses: of_datagrams(self.reordered),
            invalid_responses: of_datagrams(self.invalid),
            timeout_seconds: self.may_time_out().then_some(self.timeout_ns as f64 / 1e9),
            seconds,
            transactions_per_second: (seconds > 0.0).then(|| self.completed as f64 / seconds),
            response_time: delay_record(&self.response, None),
            response_time_deviation_seconds: deviation,
            response_time_from_scheduled: delay_record(&self.from_scheduled, None),
            setup_time: delay_record(&self.setup, None),
            transfers: self.transfers.as_ref().map(|transfers| transfers.report(seconds, sender)),
        }
    }

    /// The receiver's part of the record where this end fetches: what was counted as sent has arrived.
    #[must_use]
    pub fn report_received(&self, sender: &Sender, buffer_bytes: Option<u64>) -> Receiver {
        Receiver {
            bytes: sender.bytes,
            packets: sender.packets,
            seconds: sender.seconds,
            start_seconds: sender.start_seconds,
            end_seconds: sender.end_seconds,
            bits_per_second: sender.bits_per_second,
            packets_per_second: sender.packets_per_second,
            io_calls: sender.io_calls,
            method: sender.method.clone(),
            buffer_bytes,
            ..Receiver::default()
        }
    }

    /// Distributions for the record.
    #[must_use]
    pub fn histograms(&self, flow: u32) -> Vec<Histogram> {
        let all = [
            ("response_time", &self.response),
            ("response_time_from_scheduled", &self.from_scheduled),
            ("setup_time", &self.setup),
        ];
        let pages = self.transfers.as_ref().and_then(|transfers| transfers.page_load_time());
        all.into_iter()
            .chain(pages.map(|times| ("page_load_time", times)))
            .filter(|(_, delays)| delays.count() > 0)
            .filter_map(|(metric, delays)| {
                Some(Histogram {
                    flow: Some(flow),
                    metric: metric.into(),
                    encoding: "hdr-v2".into(),
                    data: delays.to_hdr_v2()?,
                })
            })
            .collect()
    }

    /// This end's intervals in the form of the record.
    #[must_use]
    pub fn interval_counts(&self) -> Vec<IntervalCount> {
        let count = |index| self.interval_count(index);
        let closed = self.datagrams().map_or(0, |datagrams| datagrams.log.closed().len());
        (0..self.sending.log.closed().len().max(closed)).filter_map(count).collect()
    }

    /// One closed interval.
    #[must_use]
    pub fn interval_count(&self, index: usize) -> Option<IntervalCount> {
        let clock = self.sending.log.clock()?;
        let requests = self.sending.log.closed().get(index).copied();
        let mut count = match self.datagrams() {
            None => requests?,
            // Transfers may end after the last datagram.
            Some(datagrams) => match datagrams.log.closed().get(index) {
                Some(count) => *count,
                None => requests.map(|_| SendCount::default())?,
            },
        };
        count.transactions = requests.and_then(|requests| requests.transactions).or(Some(0));
        Some(count.count(clock.seconds(index)))
    }
}
