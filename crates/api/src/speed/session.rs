//! The server's side of a test: messages and time in, actions out. No sockets, no clock.

use super::figures::{Mark, Throughput, check, is_course, throughput};
use super::frame::close;
use super::limits::SpeedLimits;
use super::message::{FromPage, PageLimits, Phase, ReportedResult, RoundTrips, ToPage};

/// Interval of `received` messages.
const TOLD_EVERY_NS: u64 = 200_000_000;
/// Interval of checking the bytes of a running phase.
const LOOK_EVERY_NS: u64 = 50_000_000;
/// Message rate limit of a page, per second, and burst size after a stall of its path.
const MESSAGES_PER_SECOND: f64 = 50.0;
const MESSAGES_AT_ONCE: f64 = 100.0;
/// Time before the first phase for idle round trips, s.
const IDLE_SECONDS: f64 = 2.0;
/// Interval of pings, s.
const PING_SECONDS: f64 = 0.1;

const SECOND_NS: u64 = 1_000_000_000;

/// Payload bytes of this session's data connections, over all phases. Data that arrives outside an upload does not
/// count; the rest of a frame sent after a download does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Counts {
    fn of(self, phase: Phase) -> u64 {
        match phase {
            Phase::Download => self.sent,
            Phase::Upload => self.received,
        }
    }
}

/// The bytes of a phase over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Course {
    /// Start of the phase, from the start of the session, s.
    pub(super) start_seconds: f64,
    pub(super) marks: Vec<Mark>,
}

/// The figures to store.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Outcome {
    /// The browser's words.
    pub(super) download: Option<Throughput>,
    /// Counted here.
    pub(super) upload: Option<Throughput>,
    pub(super) round_trips: RoundTrips,
    /// The download as the browser counted it.
    pub(super) download_course: Course,
    /// The upload as counted here.
    pub(super) upload_course: Course,
    /// The last download, complete, as sent here.
    pub(super) sent: Option<Mark>,
    /// The last upload, complete.
    pub(super) received: Option<Mark>,
    /// A phase ended because its byte limit was reached.
    pub(super) bytes_used_up: bool,
}

/// An action for the caller.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    Say(ToPage),
    /// Data connections are in this phase, until this many bytes are counted.
    Run(Option<(Phase, u64)>),
    /// Store the result as a run; then tell the page.
    Keep(Outcome),
    Close(u16, &'static str),
}

#[derive(Debug)]
struct Running {
    phase: Phase,
    began_ns: u64,
    before: u64,
    most: u64,
    told_ns: u64,
    marks: Vec<Mark>,
}

/// The state machine of a session.
#[derive(Debug)]
pub(super) struct SessionMachine {
    limits: SpeedLimits,
    began_ns: u64,
    heard_ns: u64,
    /// Messages permitted, at `filled_ns`.
    allowed: f64,
    filled_ns: u64,
    pongs: u64,
    /// Bytes sent when the last download started.
    sent_before: u64,
    running: Option<Running>,
    outcome: Outcome,
    kept: bool,
}

impl SessionMachine {
    pub(super) fn new(limits: SpeedLimits, now_ns: u64) -> SessionMachine {
        SessionMachine {
            limits,
            began_ns: now_ns,
            heard_ns: now_ns,
            allowed: MESSAGES_AT_ONCE,
            filled_ns: now_ns,
            pongs: 0,
            sent_before: 0,
            running: None,
            outcome: Outcome::default(),
            kept: false,
        }
    }

    /// The first message.
    pub(super) fn hello(&self, version: &str, session: &str) -> ToPage {
        ToPage::Hello {
            version: version.into(),
            session: session.into(),
            streams: self.limits.streams,
            phase_seconds: self.limits.phase_seconds,
            idle_seconds: IDLE_SECONDS,
            ping_seconds: PING_SECONDS,
            limits: PageLimits {
                bytes: self.limits.bytes,
                session_seconds: self.limits.session_seconds,
            },
        }
    }

    /// Handles a message; `None` is an invalid one.
    pub(super) fn on_message(
        &mut self,
        now_ns: u64,
        message: Option<FromPage>,
        counts: Counts,
    ) -> Vec<Act> {
        let Some(message) = message else {
            return vec![Act::Close(close::UNSUPPORTED, "not a message of weir.speed/1")];
        };
        let more = now_ns.saturating_sub(self.filled_ns) as f64 / 1e9 * MESSAGES_PER_SECOND;
        self.allowed = (self.allowed + more).min(MESSAGES_AT_ONCE);
        self.filled_ns = now_ns;
        if self.allowed < 1.0 {
            return vec![Act::Close(close::POLICY, "more than 50 messages a second")];
        }
        self.allowed -= 1.0;
        self.heard_ns = now_ns;
        match message {
            FromPage::Ping { id } => {
                self.pongs += 1;
                vec![Act::Say(ToPage::Pong { id })]
            }
            FromPage::Start { phase } => self.start(now_ns, phase, counts),
            // The page's `stop` crossed our `stopped`: nothing to stop.
            FromPage::Stop => self.stop(now_ns, counts),
            FromPage::Result(claims) => {
                let mut acts = self.stop(now_ns, counts);
                acts.push(self.result(claims, counts));
                acts
            }
        }
    }

    fn start(&mut self, now_ns: u64, phase: Phase, counts: Counts) -> Vec<Act> {
        if self.running.is_some() {
            return vec![Act::Close(close::POLICY, "a phase is running")];
        }
        let used = counts.sent.saturating_add(counts.received);
        let most = (self.limits.bytes / 2).min(self.limits.bytes.saturating_sub(used));
        let before = counts.of(phase);
        let marks = Vec::with_capacity((self.limits.phase_seconds * 5 + 2) as usize);
        let running = Running { phase, began_ns: now_ns, before, most, told_ns: now_ns, marks };
        self.running = Some(running);
        vec![
            Act::Say(ToPage::Started { phase }),
            Act::Run(Some((phase, before.saturating_add(most)))),
        ]
    }

    fn stop(&mut self, now_ns: u64, counts: Counts) -> Vec<Act> {
        let Some(mut running) = self.running.take() else { return vec![] };
        let end = running.mark(now_ns, counts);
        running.marks.push(end);
        self.outcome.bytes_used_up |= end.bytes >= running.most;
        match running.phase {
            Phase::Download => {
                self.outcome.sent = Some(end);
                self.sent_before = running.before;
            }
            Phase::Upload => {
                self.outcome.received = Some(end);
                self.outcome.upload = throughput(&running.marks);
            }
        }
        let course = Course {
            start_seconds: running.began_ns.saturating_sub(self.began_ns) as f64 / 1e9,
            marks: running.marks,
        };
        match running.phase {
            // Only the browser knows what arrived.
            Phase::Download => self.outcome.download_course = Course { marks: vec![], ..course },
            Phase::Upload => self.outcome.upload_course = course,
        }
        let Mark { bytes, seconds } = end;
        vec![Act::Run(None), Act::Say(ToPage::Stopped { phase: running.phase, bytes, seconds })]
    }

    fn result(&mut self, claims: ReportedResult, counts: Counts) -> Act {
        let refuse = |code, text: &str| Act::Say(ToPage::NotKept { code, text: text.into() });
        if self.kept {
            return refuse("again", "A result of this test is already stored.");
        }
        // With the rest of a frame, which is sent after the end.
        let all = counts.sent.saturating_sub(self.sent_before);
        let sent = self.outcome.sent.map(|sent| Mark { bytes: all, ..sent });
        if let Err((code, why)) =
            check(claims.download.as_ref(), &claims.latency, sent.as_ref(), self.pongs)
        {
            return refuse(code, &format!("{why}."));
        }
        // Without a plausible course the result has no curve of the download.
        let is_known = sent.is_some_and(|sent| is_course(&claims.download_marks, &sent));
        let outcome = &mut self.outcome;
        if is_known {
            outcome.download_course.marks = claims.download_marks;
        }
        outcome.download = claims.download.and_then(|d| Throughput::new(d.bytes, d.seconds));
        outcome.round_trips = claims.latency;
        let measured = outcome.download.is_some()
            || outcome.upload.is_some()
            || outcome.round_trips.all().iter().any(|list| !list.is_empty());
        if !measured {
            return refuse("nothing", "Nothing was measured.");
        }
        self.kept = true;
        Act::Keep(outcome.clone())
    }

    /// Actions that are due.
    pub(super) fn on_time(&mut self, now_ns: u64, counts: Counts) -> Vec<Act> {
        let since = |then: u64| now_ns.saturating_sub(then);
        if since(self.began_ns) >= self.limits.session_seconds * SECOND_NS {
            let mut acts = self.stop(now_ns, counts);
            acts.push(Act::Close(close::POLICY, "the time of the test is over"));
            return acts;
        }
        if since(self.heard_ns) >= self.limits.silence_seconds * SECOND_NS {
            return vec![Act::Run(None), Act::Close(close::GOING, "no message")];
        }
        let Some(running) = &mut self.running else { return vec![] };
        let mark = running.mark(now_ns, counts);
        let over = since(running.began_ns) >= self.limits.phase_seconds * SECOND_NS;
        if over || mark.bytes >= running.most {
            return self.stop(now_ns, counts);
        }
        if since(running.told_ns) < TOLD_EVERY_NS {
            return vec![];
        }
        running.told_ns = now_ns;
        running.marks.push(mark);
        match running.phase {
            Phase::Download => vec![],
            Phase::Upload => {
                vec![Act::Say(ToPage::Received { bytes: mark.bytes, seconds: mark.seconds })]
            }
        }
    }

    /// The latest time of the next call of [`SessionMachine::on_time`].
    pub(super) fn next_ns(&self, now_ns: u64) -> u64 {
        let limits = &self.limits;
        let ends = self.began_ns + limits.session_seconds * SECOND_NS;
        let silent = self.heard_ns + limits.silence_seconds * SECOND_NS;
        let phase = self.running.as_ref().map(|running| {
            let over = running.began_ns + limits.phase_seconds * SECOND_NS;
            over.min(running.told_ns + TOLD_EVERY_NS).min(now_ns + LOOK_EVERY_NS)
        });
        phase.unwrap_or(u64::MAX).min(ends).min(silent)
    }
}

impl Running {
    fn mark(&self, now_ns: u64, counts: Counts) -> Mark {
        Mark {
            bytes: counts.of(self.phase).saturating_sub(self.before),
            seconds: now_ns.saturating_sub(self.began_ns) as f64 / 1e9,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn machine() -> SessionMachine {
        SessionMachine::new(SpeedLimits::default(), 0)
    }

    fn say(
        machine: &mut SessionMachine,
        at_ms: u64,
        message: FromPage,
        sent: u64,
        received: u64,
    ) -> Vec<Act> {
        machine.on_message(at_ms * MS, Some(message), Counts { sent, received })
    }

    const DOWN: FromPage = FromPage::Start { phase: Phase::Download };
    const UP: FromPage = FromPage::Start { phase: Phase::Upload };

    fn claims(bytes: u64, round_trips: usize) -> FromPage {
        claims_in(bytes, 6.0, round_trips)
    }

    fn claims_in(bytes: u64, seconds: f64, round_trips: usize) -> FromPage {
        let download = Some(Throughput { bytes, seconds, bits_per_second: 1.0 });
        let latency = RoundTrips { idle: vec![0.01; round_trips], ..RoundTrips::default() };
        FromPage::Result(ReportedResult {
            download,
            upload: Throughput::new(1 << 40, 1.0),
            latency,
            download_marks: vec![
                Mark { bytes: bytes / 2, seconds: 1.0 },
                Mark { bytes, seconds: 2.0 },
            ],
        })
    }

    #[test]
    fn a_whole_test() {
        let mut m = machine();
        assert_eq!(
            say(&mut m, 100, FromPage::Ping { id: 9 }, 0, 0),
            [Act::Say(ToPage::Pong { id: 9 })]
        );
        let acts = say(&mut m, 2000, DOWN, 0, 0);
        assert_eq!(
            acts,
            [
                Act::Say(ToPage::Started { phase: Phase::Download }),
                Act::Run(Some((Phase::Download, 2_000_000_000))),
            ]
        );
        assert_eq!(
            m.on_time(2200 * MS, Counts { sent: 10, received: 0 }),
            [],
            "the browser counts"
        );
        let acts = say(&mut m, 9000, FromPage::Stop, 7000, 0);
        let stopped = ToPage::Stopped { phase: Phase::Download, bytes: 7000, seconds: 7.0 };
        assert_eq!(acts, [Act::Run(None), Act::Say(stopped)]);
        say(&mut m, 10_000, UP, 7000, 0);
        for tick in 1..=39u64 {
            let acts =
                m.on_time((10_000 + tick * 200) * MS, Counts { sent: 7000, received: tick * 100 });
            let told = ToPage::Received { bytes: tick * 100, seconds: tick as f64 / 5.0 };
            assert_eq!(acts, [Act::Say(told)]);
        }
        // Its time is over: sent without a request.
        let acts = m.on_time(18_000 * MS, Counts { sent: 7000, received: 4000 });
        let stopped = ToPage::Stopped { phase: Phase::Upload, bytes: 4000, seconds: 8.0 };
        assert_eq!(acts, [Act::Run(None), Act::Say(stopped)]);
        // The page's own stop was in flight.
        assert_eq!(say(&mut m, 18_010, FromPage::Stop, 7000, 4000), []);
        let acts = say(&mut m, 18_400, claims(6000, 1), 7000, 4000);
        let [Act::Keep(outcome)] = acts.as_slice() else { panic!("{acts:?}") };
        assert_eq!(outcome.download, Throughput::new(6000, 6.0));
        assert_eq!(
            outcome.upload,
            Throughput::new(3500, 7.0),
            "counted here, without the first second"
        );
        assert!(!outcome.bytes_used_up);
        let again = say(&mut m, 18_500, claims(6000, 1), 7000, 4000);
        assert!(matches!(&again[..], [Act::Say(ToPage::NotKept { .. })]), "{again:?}");
    }

    #[test]
    fn claims_that_can_not_be_are_not_kept() {
        let refused = |m: &mut SessionMachine, result, sent| {
            let acts = say(m, 9_100, result, sent, 0);
            matches!(acts.last(), Some(Act::Say(ToPage::NotKept { .. })))
        };
        let mut m = machine();
        assert!(refused(&mut m, FromPage::Result(ReportedResult::default()), 0), "nothing");
        assert!(refused(&mut m, claims(1, 0), 0), "no download was");
        say(&mut m, 2000, DOWN, 0, 0);
        say(&mut m, 9000, FromPage::Stop, 6900, 0);
        // The rest of a frame was sent after the phase.
        assert!(refused(&mut m, claims(7001, 0), 7000), "more than was sent");
        assert!(refused(&mut m, claims(7000, 1), 7000), "no ping came");
        assert!(refused(&mut m, claims_in(7000, 1.0, 0), 7000), "seven seconds were one");
        assert!(refused(&mut m, claims_in(7000, 1e-306, 0), 7000), "infinite");
        assert!(!refused(&mut m, claims(7000, 0), 7000));
    }

    #[test]
    fn a_claim_is_held_to_the_last_download_alone() {
        let mut m = machine();
        say(&mut m, 0, DOWN, 0, 0);
        say(&mut m, 7000, FromPage::Stop, 7000, 0);
        say(&mut m, 8000, DOWN, 7000, 0);
        say(&mut m, 15_000, FromPage::Stop, 8000, 0);
        let acts = say(&mut m, 15_100, claims(7000, 0), 8000, 0);
        assert!(matches!(acts.last(), Some(Act::Say(ToPage::NotKept { .. }))), "{acts:?}");
        let acts = say(&mut m, 15_200, claims(1000, 0), 8000, 0);
        assert!(matches!(acts.last(), Some(Act::Keep(_))), "{acts:?}");
    }

    #[test]
    fn bytes_are_shared_between_the_directions() {
        let mut m = SessionMachine::new(SpeedLimits { bytes: 1000, ..SpeedLimits::default() }, 0);
        let acts = say(&mut m, 0, DOWN, 0, 0);
        assert_eq!(acts[1], Act::Run(Some((Phase::Download, 500))));
        let acts = m.on_time(10 * MS, Counts { sent: 500, received: 0 });
        assert_eq!(acts[0], Act::Run(None));
        assert!(m.outcome.bytes_used_up);
        let acts = say(&mut m, 20, DOWN, 500, 0);
        assert_eq!(acts[1], Act::Run(Some((Phase::Download, 1000))));
        m.on_time(30 * MS, Counts { sent: 1000, received: 0 });
        let acts = say(&mut m, 40, UP, 1000, 0);
        assert_eq!(acts[1], Act::Run(Some((Phase::Upload, 0))), "nothing is left");
        assert_eq!(m.on_time(41 * MS, Counts { sent: 1000, received: 0 })[0], Act::Run(None));
    }

    #[test]
    fn wrong_turns_close() {
        let mut m = machine();
        let acts = m.on_message(0, None, Counts::default());
        assert!(matches!(acts[..], [Act::Close(close::UNSUPPORTED, _)]));
        say(&mut m, 0, DOWN, 0, 0);
        assert!(matches!(say(&mut m, 1, UP, 0, 0)[..], [Act::Close(close::POLICY, _)]));
    }

    #[test]
    fn pings_have_a_rate() {
        let mut m = machine();
        let answered = (0..1000u64)
            .take_while(|n| {
                say(&mut m, *n, FromPage::Ping { id: *n }, 0, 0)[0]
                    == Act::Say(ToPage::Pong { id: *n })
            })
            .count();
        // 100 immediately and one per 20 ms.
        assert!((100..=106).contains(&answered), "{answered}");
        let mut m = machine();
        for n in 0..1000u64 {
            assert!(matches!(
                say(&mut m, n * 20, FromPage::Ping { id: n }, 0, 0)[..],
                [Act::Say(_)]
            ));
        }
    }

    #[test]
    fn silence_and_length_end_it() {
        let mut m = machine();
        assert_eq!(m.next_ns(0), 15_000 * MS);
        assert_eq!(m.on_time(14_999 * MS, Counts::default()), []);
        let acts = m.on_time(15_000 * MS, Counts::default());
        assert!(matches!(acts[..], [Act::Run(None), Act::Close(close::GOING, _)]));
        let mut m = machine();
        for at in (0..60_000).step_by(10_000) {
            say(&mut m, at, FromPage::Ping { id: 0 }, 0, 0);
            assert_eq!(m.on_time((at + 1) * MS, Counts::default()), []);
        }
        assert_eq!(m.next_ns(0), 60_000 * MS);
        say(&mut m, 59_000, DOWN, 0, 0);
        let acts = m.on_time(60_000 * MS, Counts { sent: 1, received: 0 });
        assert!(matches!(acts[..], [Act::Run(None), Act::Say(_), Act::Close(close::POLICY, _)]));
    }
}
