//! Transactions under a virtual clock, with a server and a path between that delay, lose and repeat.

use std::collections::BTreeMap;

use weir_flow::{Failure, IntervalClock, NextSend, Transacting};
use weir_model::plan::{Connection, Family, FlowSpec, Plan, Shape, Transport};
use weir_model::record::{Sender, Transactions};
use weir_model::units::{ByteSize, Span};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const START: u64 = 5 * SECOND;
const TIMEOUT: u64 = 500 * MS;

fn rr(transport: Transport) -> Connection {
    Connection {
        transport,
        shape: Shape::Rr,
        duration: Some(Span::from_seconds(1)),
        ..Connection::default()
    }
}

fn spec(connection: Connection) -> FlowSpec {
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    plan.check().unwrap();
    plan.flows(Family::Ipv4, 1500).remove(0)
}

fn intervals(omit_ns: u64) -> IntervalClock {
    IntervalClock { start_ns: START, interval_ns: 100 * MS, omit_ns }
}

/// Runs a flow to its end. `answers`: the delays after which responses to request n arrive. Returns the state, and the
/// times at which requests were sent.
fn run(
    spec: &FlowSpec,
    omit_ns: u64,
    mut answers: impl FnMut(u64) -> Vec<u64>,
) -> (Transacting, Vec<u64>) {
    let is_datagram = spec.connection.transport.datagrams();
    let mut state = Transacting::new(spec, omit_ns, TIMEOUT);
    state.start(START, intervals(omit_ns));
    let mut flying: BTreeMap<(u64, u64), Vec<u8>> = BTreeMap::new();
    let (mut now, mut sent, mut copies) = (START - 10 * MS, vec![], 0);
    loop {
        while let Some(((at, number), bytes)) = flying.pop_first() {
            if at > now {
                flying.insert((at, number), bytes);
                break;
            }
            match is_datagram {
                true => state.on_datagram(&bytes, now),
                false => assert!(state.answered_next(now), "each response has a request"),
            }
        }
        match state.next(now) {
            NextSend::Done => return (state, sent),
            NextSend::Now(_) => {
                let number = state.next_number();
                let mut response = vec![0; spec.connection.response_bytes() as usize];
                state.write_number(number, &mut response);
                assert_eq!(state.sent(now), number);
                sent.push(now);
                for delay in answers(number) {
                    copies += 1;
                    flying.insert((now + delay, copies), response.clone());
                }
            }
            NextSend::At(at) => {
                let arrival = flying.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
                now = at.min(arrival).max(now);
                assert!(now < START + 100 * SECOND, "nothing more happens");
            }
        }
    }
}

fn report(state: &mut Transacting, now: u64) -> (Transactions, Sender) {
    state.finish(now);
    let sender = state.sending.report("request", None);
    (state.report(&sender), sender)
}

#[test]
fn a_closed_loop_sends_when_it_is_answered() {
    let (mut state, sent) = run(&spec(rr(Transport::tcp())), 0, |_| vec![2 * MS]);
    let (t, sender) = report(&mut state, START + SECOND);
    // One at a time, 2 ms each, for one second.
    assert_eq!((t.completed, t.failed, sender.packets), (500, 0, 500));
    assert!(sent.windows(2).all(|w| w[1] - w[0] == 2 * MS));
    let times = t.response_time.unwrap();
    assert_eq!((times.count, times.min_seconds, times.max_seconds), (500, 0.002, 0.002));
    assert_eq!(times.p50_seconds, Some(0.002));
    assert_eq!(t.response_time_deviation_seconds, Some(0.0));
    assert_eq!(t.transactions_per_second, Some(500.0));
    assert_eq!((t.outstanding, t.timeout_seconds), (Some(1), None));
    assert!(t.response_time_from_scheduled.is_none());
    let counts: Vec<_> = state.interval_counts().iter().map(|c| c.transactions).collect();
    assert_eq!(counts.iter().map(|n| n.unwrap()).sum::<u64>(), 500);
    assert_eq!(counts[5], Some(50));
    assert_eq!(state.interval_counts()[5].transactions_per_second, Some(500.0));
}

#[test]
fn outstanding_requests_are_in_flight_together() {
    let connection = Connection { outstanding: Some(8), ..rr(Transport::tcp()) };
    let (mut state, sent) = run(&spec(connection), 0, |_| vec![4 * MS]);
    assert!(sent[..8].iter().all(|at| *at == START) && sent[8] == START + 4 * MS);
    let (t, _) = report(&mut state, START + SECOND);
    assert_eq!((t.completed, t.outstanding), (2000, Some(8)));
}

#[test]
fn the_standard_deviation_is_that_of_the_response_times() {
    let connection = Connection { packets: Some(4), duration: None, ..rr(Transport::tcp()) };
    let delays = [2, 4, 4, 6];
    let (mut state, _) = run(&spec(connection), 0, |n| vec![delays[n as usize] * MS]);
    let (t, _) = report(&mut state, START + SECOND);
    let times = t.response_time.unwrap();
    assert_eq!(times.mean_seconds, 0.004);
    let expected = (8.0f64 / 3.0).sqrt() * 1e-3;
    assert!((t.response_time_deviation_seconds.unwrap() - expected).abs() < 1e-9);
    // The rate is over the time until the last response.
    assert!((t.seconds - 0.016).abs() < 1e-9, "{}", t.seconds);
}

#[test]
fn a_response_after_that_to_a_later_request_is_reordered() {
    let connection = Connection { outstanding: Some(4), ..rr(Transport::udp()) };
    let (mut state, _) = run(&spec(connection), 0, |n| match n {
        5 => vec![14 * MS],
        _ => vec![10 * MS],
    });
    let (t, _) = report(&mut state, START + 2 * SECOND);
    assert_eq!((t.reordered_responses, t.failed), (Some(1), 0));
}

#[test]
fn lost_datagrams_time_out_and_late_and_repeated_responses_are_counted_apart() {
    let connection = Connection { outstanding: Some(4), ..rr(Transport::udp()) };
    let (mut state, _) = run(&spec(connection), 0, |n| match n {
        // Lost.
        7 => vec![],
        // Later than the timeout, while others are answered.
        8 => vec![TIMEOUT + 20 * MS],
        // Twice.
        9 => vec![10 * MS, 11 * MS],
        _ => vec![10 * MS],
    });
    let (t, sender) = report(&mut state, START + 2 * SECOND);
    assert_eq!((t.failed, t.failures.get("timeout")), (2, Some(&2)));
    assert_eq!((t.late_responses, t.duplicate_responses), (Some(1), Some(1)));
    assert_eq!(t.invalid_responses, Some(0));
    assert_eq!(t.completed + t.failed, sender.packets);
    assert_eq!(t.timeout_seconds, Some(0.5));
    // Of completed transactions only.
    assert_eq!(t.response_time.unwrap().max_seconds, 0.01);
}

#[test]
fn numbers_of_one_byte_repeat_without_confusion_of_a_single_request() {
    let connection = Connection {
        request: Some(ByteSize(1)),
        response: Some(ByteSize(1)),
        packets: Some(1000),
        duration: None,
        ..rr(Transport::udp())
    };
    let (mut state, _) = run(&spec(connection), 0, |n| match n % 100 {
        5 => vec![MS, MS + 1],
        _ => vec![MS],
    });
    let (t, _) = report(&mut state, START + 2 * SECOND);
    assert_eq!((t.completed, t.failed), (1000, 0));
    assert_eq!((t.duplicate_responses, t.late_responses), (Some(10), Some(0)));
}

#[test]
fn datagrams_that_are_no_responses_answer_nothing() {
    let spec = spec(rr(Transport::udp()));
    let mut state = Transacting::new(&spec, 0, TIMEOUT);
    state.start(START, intervals(0));
    // None was sent yet.
    state.on_datagram(&0u64.to_be_bytes(), START);
    assert!(matches!(state.next(START), NextSend::Now(1)));
    state.sent(START);
    for bytes in [&[][..], &[0; 7], &[0; 9], &1u64.to_be_bytes(), &u64::MAX.to_be_bytes()] {
        state.on_datagram(bytes, START + MS);
        assert_eq!(state.in_flight(), 1);
    }
    state.on_datagram(&0u64.to_be_bytes(), START + MS);
    assert_eq!(state.in_flight(), 0);
    let (t, _) = report(&mut state, START + SECOND);
    assert_eq!((t.invalid_responses, t.duplicate_responses, t.completed), (Some(6), Some(0), 1));
}

/// A server that pauses: in an open loop, the requests that were due meanwhile show the pause.
#[test]
fn an_open_loop_is_not_slowed_down_by_a_slow_server() {
    let connection = Connection { rate: Some("1000pps".parse().unwrap()), ..rr(Transport::udp()) };
    let pause_until = START + 300 * MS;
    let spec = spec(connection);
    let (mut state, sent) = run(&spec, 0, |n| {
        let at = START + n * MS;
        vec![(at + MS).max(pause_until) - at]
    });
    assert_eq!(sent.len(), 1000);
    assert!(sent.iter().zip(0..).all(|(at, n)| *at == START + n * MS), "as scheduled");
    let (t, _) = report(&mut state, START + SECOND);
    assert_eq!((t.completed, t.failed, t.outstanding), (1000, 0, None));
    let times = t.response_time.unwrap();
    assert_eq!(times.max_seconds, 0.3);
    // 300 of 1000 requests met the pause.
    assert!(times.p90_seconds.unwrap() > 0.19, "{times:?}");
    // A closed loop asks one question in that time, and hides it in the percentiles.
    let closed = spec_closed();
    let mut paused = false;
    let (mut state, _) =
        run(&closed, 0, |_| vec![if std::mem::replace(&mut paused, true) { MS } else { 300 * MS }]);
    let (t, _) = report(&mut state, START + SECOND);
    assert_eq!(t.response_time.unwrap().p90_seconds, Some(0.001));
}

fn spec_closed() -> FlowSpec {
    spec(rr(Transport::udp()))
}

/// A client that wakes up late measures the wait from the schedule, not from the send.
#[test]
fn response_time_from_the_schedule_includes_the_clients_own_delay() {
    let connection = Connection {
        rate: Some("100pps".parse().unwrap()),
        packets: Some(3),
        duration: None,
        ..rr(Transport::tcp())
    };
    let mut state = Transacting::new(&spec(connection), 0, TIMEOUT);
    state.start(START, intervals(0));
    let mut now = START;
    for late in [0, 3 * MS, 0] {
        while let NextSend::At(at) = state.next(now) {
            now = at;
        }
        now += late;
        let number = state.sent(now);
        assert!(state.answered(number, now + MS));
    }
    let (t, _) = report(&mut state, now + SECOND);
    assert_eq!(t.response_time.unwrap().max_seconds, 0.001);
    assert_eq!(t.response_time_from_scheduled.unwrap().max_seconds, 0.004);
}

#[test]
fn an_omitted_start_is_left_out_of_figures_but_not_of_intervals() {
    let (mut state, _) = run(&spec(rr(Transport::tcp())), 200 * MS, |_| vec![2 * MS]);
    let (t, sender) = report(&mut state, START + 2 * SECOND);
    assert_eq!((t.completed, sender.packets), (500, 500));
    assert_eq!(t.response_time.unwrap().count, 500);
    let all: u64 = state.interval_counts().iter().filter_map(|c| c.transactions).sum();
    assert_eq!(all, 600);
}

#[test]
fn a_server_that_falls_silent_ends_a_stream_after_the_drain() {
    let spec = spec(rr(Transport::tcp()));
    let mut state = Transacting::new(&spec, 0, TIMEOUT);
    state.start(START, intervals(0));
    state.sent(START);
    // Not before the end of sending: TCP retransmits.
    let NextSend::At(at) = state.next(START + 2 * TIMEOUT - 1) else { panic!("still waiting") };
    assert_eq!(at, START + SECOND);
    let NextSend::At(at) = state.next(START + SECOND) else { panic!("still waiting") };
    assert_eq!(at, START + 11 * SECOND);
    assert_eq!(state.next(at), NextSend::Done);
    let (t, _) = report(&mut state, at);
    assert_eq!((t.completed, t.failures.get("timeout")), (0, Some(&1)));
}

#[test]
fn connections_have_set_up_times_and_fail_by_reason() {
    let connection = Connection {
        shape: Shape::Crr,
        outstanding: Some(5),
        packets: Some(5),
        duration: None,
        ..rr(Transport::tcp())
    };
    let mut state = Transacting::new(&spec(connection), 0, TIMEOUT);
    state.start(START, intervals(0));
    let numbers: Vec<u64> = (0..5).map(|_| state.sent(START)).collect();
    for number in &numbers[..3] {
        state.set_up(*number, START + MS);
    }
    assert!(state.answered(numbers[1], START + 3 * MS), "in any order");
    assert!(state.answered(numbers[0], START + 4 * MS));
    state.failed(numbers[2], Failure::Reset);
    state.failed(numbers[3], Failure::Refused);
    assert!(!state.answered(numbers[3], START + 4 * MS), "it is over");
    // The last one is neither established nor refused.
    assert!(matches!(state.next(START + TIMEOUT - 1), NextSend::At(at) if at == START + TIMEOUT));
    assert_eq!(state.next(START + TIMEOUT), NextSend::Done);
    assert_eq!(state.take_timed_out(), [numbers[4]]);
    let (t, _) = report(&mut state, START + SECOND);
    let failures: Vec<_> = t.failures.iter().map(|(why, n)| (why.as_str(), *n)).collect();
    assert_eq!(failures, [("refused", 1), ("reset", 1), ("timeout", 1)]);
    assert_eq!((t.completed, t.failed, t.failed_connections), (2, 3, Some(2)));
    let setup = t.setup_time.unwrap();
    assert_eq!((setup.count, setup.max_seconds), (3, 0.001));
    assert_eq!(t.response_time.unwrap().max_seconds, 0.004);
}

/// A client that is blocked for longer than any backlog of other traffic still sends each request that was due.
#[test]
fn a_blocked_client_of_an_open_loop_measures_its_whole_delay() {
    for idt in [None, Some("exponential".parse().unwrap())] {
        let connection = Connection {
            rate: Some("1000pps".parse().unwrap()),
            duration: Some(Span::from_seconds(3)),
            spacing: idt.clone().unwrap_or_default(),
            ..rr(Transport::udp())
        };
        let spec = spec(connection);
        let (mut state, mut now) = (Transacting::new(&spec, 0, TIMEOUT), START);
        state.start(START, intervals(0));
        let blocked = START + SECOND..START + 2 * SECOND;
        loop {
            match state.next(now) {
                NextSend::Done => break,
                NextSend::At(at) => now = at,
                NextSend::Now(_) => {
                    let number = state.sent(now);
                    assert!(state.answered(number, now));
                }
            }
            if blocked.contains(&now) {
                now = blocked.end;
            }
        }
        let (t, sender) = report(&mut state, now);
        assert_eq!((t.failed, sender.missed_slots), (0, Some(0)), "{idt:?}");
        assert_eq!(t.response_time.unwrap().max_seconds, 0.0);
        let scheduled = t.response_time_from_scheduled.unwrap();
        assert_eq!(scheduled.count, sender.packets);
        assert!(scheduled.max_seconds > 0.99, "{scheduled:?}");
        if idt.is_none() {
            assert_eq!((t.completed, scheduled.max_seconds), (3000, 1.0));
            // A third of the requests met the pause, half a second on average.
            assert!((scheduled.mean_seconds - 0.1665).abs() < 0.002, "{scheduled:?}");
        }
    }
}

#[test]
fn requests_that_were_due_but_not_sent_fail() {
    let rate = Some("1000pps".parse().unwrap());
    let spec = spec(Connection { rate, ..rr(Transport::udp()) });
    for omit_ns in [0, 100 * MS] {
        let mut state = Transacting::new(&spec, omit_ns, TIMEOUT);
        state.start(START, intervals(omit_ns));
        let (mut now, blocked_from) = (START, START + omit_ns + 600 * MS);
        loop {
            match state.next(now) {
                NextSend::Done => break,
                NextSend::At(at) if at >= blocked_from => now = START + omit_ns + SECOND,
                NextSend::At(at) => now = at,
                NextSend::Now(_) => {
                    let number = state.sent(now);
                    assert!(state.answered(number, now));
                }
            }
        }
        let (t, _) = report(&mut state, now);
        // The last one was due 1 ms before the end: too short to be overdue.
        assert_eq!((t.completed, t.failed, t.failures.get("unsent")), (600, 399, Some(&399)));
    }
}

#[test]
fn responses_to_requests_before_the_memory_are_late_and_never_duplicates() {
    let connection = Connection { rate: Some("10000pps".parse().unwrap()), ..rr(Transport::udp()) };
    let (mut state, sent) = run(&spec(connection), 0, |_| vec![TIMEOUT + 600 * MS]);
    assert_eq!(sent.len(), 10_000);
    let (mut t, _) = report(&mut state, START + 3 * SECOND);
    // Those that arrive after the end are no longer read.
    assert_eq!((t.completed, t.failed, t.duplicate_responses), (0, 10_000, Some(0)));
    let late = t.late_responses.unwrap();
    assert!(late > 0);
    let mut response = [0; 8];
    state.write_number(0, &mut response);
    state.on_datagram(&response, START + 3 * SECOND);
    (t, _) = report(&mut state, START + 3 * SECOND);
    assert_eq!((t.late_responses, t.duplicate_responses), (Some(late + 1), Some(0)));
    assert!(state.take_timed_out().is_empty(), "without connections there is none to close");
}

#[test]
fn responses_to_requests_of_an_omitted_start_are_not_counted() {
    let mut state = Transacting::new(&spec(rr(Transport::udp())), 200 * MS, TIMEOUT);
    state.start(START, intervals(200 * MS));
    let response = |n: u64| n.to_be_bytes();
    let answer = |state: &mut Transacting, n, now| {
        state.on_datagram(&response(n), now);
        state.on_datagram(&response(n), now);
    };
    assert_eq!(state.sent(START), 0);
    answer(&mut state, 0, START + MS);
    state.on_datagram(&[], START + MS);
    // This one times out.
    assert_eq!(state.sent(START + 2 * MS), 1);
    let after = START + 2 * MS + TIMEOUT;
    assert!(matches!(state.next(after), NextSend::Now(1)));
    assert_eq!(state.sent(after), 2);
    answer(&mut state, 1, after + MS);
    let (t, _) = report(&mut state, after + MS);
    assert_eq!((t.late_responses, t.duplicate_responses), (Some(0), Some(0)));
    assert_eq!((t.invalid_responses, t.completed, t.failed), (Some(0), 0, 0));
    answer(&mut state, 2, after + 2 * MS);
    let (t, _) = report(&mut state, after + 2 * MS);
    assert_eq!((t.duplicate_responses, t.completed), (Some(1), 1));
}
