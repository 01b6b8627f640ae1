//! Transfers under a virtual clock, over a path that moves each at a constant rate.

use std::collections::BTreeMap;

use weir_flow::{Arrived, Failure, IntervalClock, NextSend, Transacting};
use weir_model::plan::{Connection, Direction, Family, FlowSpec, Plan, Shape};
use weir_model::record::{Transactions, Transfers};
use weir_model::units::{Seed, Span};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
const START: u64 = 5 * SECOND;
const TIMEOUT: u64 = 500 * MS;

fn connection(volume: &str) -> Connection {
    Connection {
        shape: Shape::Transfers,
        volume: Some(volume.parse().unwrap()),
        duration: Some(Span::from_seconds(10)),
        ..Connection::default()
    }
}

fn spec(connection: Connection) -> FlowSpec {
    let plan = Plan { connections: vec![connection], seed: Seed(7), ..Plan::default() };
    plan.check().unwrap();
    plan.flows(Family::Ipv4, 1500).remove(0)
}

/// One that ran: when it was started, and its volume.
type Started = (u64, u64);

/// Runs a flow to its end. `takes`: how long a transfer of this number and volume takes; `None`: it never moves a byte.
fn run(
    spec: &FlowSpec,
    takes: impl Fn(u64, u64) -> Option<u64>,
) -> (Transactions, Transfers, Vec<Started>) {
    let (t, started) = run_with_omitted_start(spec, 0, takes);
    let transfers = t.transfers.clone().unwrap();
    assert_eq!(transfers.started, started.len() as u64);
    (t, transfers, started)
}

/// The same with an omitted start of `omit_ns`.
fn run_with_omitted_start(
    spec: &FlowSpec,
    omit_ns: u64,
    takes: impl Fn(u64, u64) -> Option<u64>,
) -> (Transactions, Vec<Started>) {
    let mut state = Transacting::new(spec, omit_ns, TIMEOUT);
    state.start(START, IntervalClock { start_ns: START, interval_ns: SECOND, omit_ns });
    let (mut now, mut started) = (START - MS, vec![]);
    // Ends by time, then number.
    let mut running: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    loop {
        while let Some(((at, number), volume)) = running.pop_first() {
            if at > now {
                running.insert((at, number), volume);
                break;
            }
            state.moved(number, volume as usize, now);
            state.answered(number, now);
        }
        match state.next(now) {
            NextSend::Done => break,
            NextSend::Now(_) => {
                let number = state.sent(now);
                let volume = state.volume(number);
                started.push((now, volume));
                state.set_up(number, now);
                if let Some(duration) = takes(number, volume) {
                    running.insert((now + duration, number), volume);
                }
            }
            NextSend::At(at) => {
                let next = running.first_key_value().map_or(u64::MAX, |((at, _), _)| *at);
                assert!(at > now || next > now, "it would wait forever");
                now = at.min(next).max(now);
                assert!(now < START + 1000 * SECOND, "nothing more happens");
            }
        }
        for number in state.take_timed_out() {
            running.retain(|(_, running), _| *running != number);
        }
    }
    state.finish(now);
    let sender = state.sending.report("request", None);
    let t = state.report(&sender);
    let transfers = t.transfers.as_ref().unwrap();
    assert_eq!(sender.packets, transfers.started);
    assert_eq!(transfers.started, t.completed + t.failed + transfers.unfinished);
    (t, started)
}

/// 1 MB/s.
fn by_volume(_: u64, volume: u64) -> Option<u64> {
    Some(volume * 1000)
}

#[test]
fn an_open_loop_starts_transfers_whatever_became_of_earlier_ones() {
    let open = Connection { starts: Some("10ms".parse().unwrap()), ..connection("1000") };
    let (t, transfers, started) = run(&spec(open), |_, _| Some(100 * MS));
    // One each 10 ms for 10 s, each of which takes 100 ms.
    assert_eq!((t.completed, t.failed, transfers.unfinished), (1000, 0, 0));
    assert!(started.windows(2).all(|w| w[1].0 - w[0].0 == 10 * MS));
    assert_eq!(transfers.completed_bytes, 1_000_000);
    assert!((9..=11).contains(&transfers.max_concurrent), "{transfers:?}");
    assert!((transfers.mean_concurrent.unwrap() - 10.0).abs() < 0.5, "{transfers:?}");
    assert_eq!(t.response_time_from_scheduled.unwrap().max_seconds, 0.1);
    assert_eq!(
        transfers.classes.iter().map(|c| c.completed).collect::<Vec<_>>(),
        [1000, 0, 0, 0, 0]
    );
    assert_eq!(t.outstanding, None);
}

#[test]
fn starts_at_a_rate_are_independent_of_each_other() {
    let open = Connection { rate: Some("100pps".parse().unwrap()), ..connection("1000") };
    let (t, transfers, started) = run(&spec(open), by_volume);
    let gaps: Vec<f64> = started.windows(2).map(|w| (w[1].0 - w[0].0) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    // A Poisson process: the standard deviation of the intervals is their mean.
    let variation = variance.sqrt() / mean;
    assert!((0.9..1.1).contains(&variation), "{variation}");
    assert!((850..1150).contains(&t.completed), "{}", t.completed);
    assert_eq!(transfers.asked_starts_per_second, Some(100.0));
}

#[test]
fn volumes_are_those_of_their_numbers_in_each_run_and_direction_by_itself() {
    let law = "pareto(shape=1.2, scale=2K, max=1M)";
    let open = Connection { starts: Some("10ms".parse().unwrap()), ..connection(law) };
    let volumes = |connection: &Connection| -> Vec<u64> {
        run(&spec(connection.clone()), by_volume).2.iter().map(|(_, volume)| *volume).collect()
    };
    let (_, transfers, started) = run(&spec(open.clone()), by_volume);
    let mean = started.iter().map(|(_, v)| *v as f64).sum::<f64>() / started.len() as f64;
    assert!((transfers.mean_volume_bytes.unwrap() / mean - 1.0).abs() < 1e-9, "{transfers:?}");
    let draws = transfers.volume_draws.unwrap();
    assert_eq!((draws.clamp_min_bytes, draws.clamp_max_bytes), (None, Some(1 << 20)));
    assert!((draws.mean_bytes / mean - 1.0).abs() < 0.3, "{draws:?} {mean}");
    let first = volumes(&open);
    assert!(first.iter().all(|v| (2048..=1 << 20).contains(v)));
    assert_eq!(volumes(&open), first);
    let reverse = Connection { direction: Direction::Reverse, ..open.clone() };
    assert_ne!(volumes(&reverse), first);
    // Those that do not start take their volumes with them.
    let limited = Connection { max_concurrent: Some(1), ..open };
    let (t, transfers, started) = run(&spec(limited), |_, _| Some(15 * MS));
    assert_eq!((t.completed, transfers.not_started, transfers.max_concurrent), (500, 500, 1));
    assert!(started.iter().zip(first.iter().step_by(2)).all(|((_, volume), one)| volume == one));
}

#[test]
fn users_pause_between_their_transfers() {
    let users = Connection {
        outstanding: Some(3),
        pause: Some("900ms".parse().unwrap()),
        ..connection("100000")
    };
    let (t, transfers, started) = run(&spec(users), |_, _| Some(100 * MS));
    // Three users, each with a transfer of 0.1 s in each second.
    assert_eq!((t.completed, transfers.max_concurrent, t.outstanding), (30, 3, Some(3)));
    assert!(started.iter().all(|(at, _)| (at - START).is_multiple_of(SECOND)));
    assert!((transfers.mean_concurrent.unwrap() - 0.3).abs() < 0.05, "{transfers:?}");
    assert_eq!(t.response_time_from_scheduled, None);
    // Of the class from 100 kB on.
    assert_eq!(transfers.classes[2].completed, 30);
    assert_eq!(transfers.classes[2].completion_time.as_ref().unwrap().max_seconds, 0.1);
}

#[test]
fn the_pauses_of_users_have_the_mean_of_their_clamped_law() {
    let users = Connection {
        outstanding: Some(100),
        pause: Some("normal(mean=200ms, deviation=200ms, max=1s)".parse().unwrap()),
        ..connection("1000")
    };
    let (_, transfers, _) = run(&spec(users), by_volume);
    let draws = transfers.pause_draws.unwrap();
    assert_eq!((draws.clamp_min_seconds, draws.clamp_max_seconds), (Some(0.0), Some(1.0)));
    // Without the values below 0, the mean is larger than that of the law.
    let (law, actual) = (draws.mean_seconds.unwrap(), transfers.mean_pause_seconds.unwrap());
    assert!(law > 0.21 && (actual / law - 1.0).abs() < 0.05, "{law} {actual}");
    assert_eq!((transfers.volume_law, transfers.mean_volume_bytes), (None, None));
}

#[test]
fn an_omitted_start_is_no_part_of_the_mean_concurrency() {
    let open = Connection { starts: Some("10ms".parse().unwrap()), ..connection("1000") };
    // Those of the first second take ten times as long.
    let takes = |number, _| Some(if number < 90 { 100 * MS } else { 10 * MS });
    let (t, _) = run_with_omitted_start(&spec(open), SECOND, takes);
    let transfers = t.transfers.unwrap();
    assert!((transfers.mean_concurrent.unwrap() - 1.0).abs() < 0.05, "{transfers:?}");
    assert!(transfers.max_concurrent <= 2, "{transfers:?}");
}

#[test]
fn a_late_start_counts_from_its_scheduled_time() {
    let open = Connection { starts: Some("10ms".parse().unwrap()), ..connection("1000") };
    let spec = spec(open);
    let mut state = Transacting::new(&spec, 0, TIMEOUT);
    state.start(START, IntervalClock { start_ns: START, interval_ns: SECOND, omit_ns: 0 });
    // The first is due at the start; this host comes to it 30 ms later, and it takes 5 ms.
    let now = START + 30 * MS;
    assert!(matches!(state.next(now), NextSend::Now(1)));
    let number = state.sent(now);
    state.answered(number, now + 5 * MS);
    state.stop();
    let t = state.report(&state.sending.report("request", None));
    assert_eq!(t.response_time.unwrap().max_seconds, 0.005);
    assert_eq!(t.response_time_from_scheduled.unwrap().max_seconds, 0.035);
}

#[test]
fn what_is_still_running_at_the_end_is_unfinished_with_its_bytes() {
    let one = Connection { duration: Some(Span::from_seconds(1)), ..connection("1000000") };
    let spec = spec(one);
    let mut state = Transacting::new(&spec, 0, TIMEOUT);
    state.start(START, IntervalClock { start_ns: START, interval_ns: SECOND, omit_ns: 0 });
    assert!(matches!(state.next(START), NextSend::Now(1)));
    let number = state.sent(START);
    state.set_up(number, START);
    state.moved(number, 4000, START + SECOND);
    // It has the loss threshold to finish, which ends when that is over.
    let end = START + SECOND;
    assert!(matches!(state.next(end), NextSend::At(at) if at == end + TIMEOUT));
    assert!(matches!(state.next(end + TIMEOUT), NextSend::Done));
    assert_eq!(state.take_timed_out(), [number]);
    let t = state.report(&state.sending.report("request", None));
    let transfers = t.transfers.unwrap();
    assert_eq!((t.completed, t.failed), (0, 0));
    assert_eq!((transfers.unfinished, transfers.unfinished_bytes), (1, 4000));
}

#[test]
fn a_transfer_that_no_longer_moves_fails_and_a_slow_one_does_not() {
    let some =
        Connection { packets: Some(2), duration: None, outstanding: Some(2), ..connection("1000") };
    let (t, transfers, _) = run(&spec(some), |number, _| (number == 0).then_some(9 * SECOND));
    // Far longer than the loss threshold, but not silent for 10 s.
    assert_eq!((t.completed, transfers.unfinished), (1, 0));
    assert_eq!(t.failures.get(Failure::Timeout.name()), Some(&1));
}

#[test]
fn a_long_transfer_does_not_delay_the_starts_of_millions_of_others() {
    // 2 million starts in 10 s, while the first transfer lasts all the time.
    let open = Connection { starts: Some("5us".parse().unwrap()), ..connection("1000") };
    let (t, transfers, started) =
        run(&spec(open), |number, _| Some(if number == 0 { 9 * SECOND } else { 1000 }));
    assert_eq!((t.completed, t.failed, transfers.not_started), (2_000_000, 0, 0));
    assert!(started.windows(2).all(|w| w[1].0 - w[0].0 == 5000));
}

#[test]
fn a_transfer_of_datagrams_may_wait_for_missing_ones_and_ends_when_the_last_arrived() {
    let one = Connection {
        transport: weir_model::plan::Transport::udp(),
        packets: Some(2),
        duration: None,
        outstanding: Some(2),
        ..connection("1000")
    };
    let mut state = Transacting::new(&spec(one), 0, TIMEOUT);
    state.start(START, IntervalClock { start_ns: START, interval_ns: SECOND, omit_ns: 0 });
    let numbers = [0, 1].map(|_| {
        assert!(matches!(state.next(START), NextSend::Now(1)));
        state.sent(START)
    });
    for number in numbers {
        state.set_up(number, START);
        state.datagram(number, 1000, 8 * MS, START);
    }
    // The round trip and the grace period are longer than the loss threshold.
    let lost_at = START + 3 * TIMEOUT;
    state.rests(numbers[0], lost_at);
    for now in [START + TIMEOUT + 20 * MS, lost_at + TIMEOUT - MS] {
        state.next(now);
        assert!(!state.take_timed_out().contains(&numbers[0]), "{now}");
    }
    let arrived = Arrived { datagrams: 1, bytes: 900, at_ns: START + 10 * MS, is_whole: false };
    state.transferred(numbers[0], arrived, lost_at + TIMEOUT - MS);
    let t = state.report(&state.sending.report("request", None));
    assert_eq!((t.completed, t.response_time.unwrap().max_seconds), (1, 0.01));
    assert_eq!(t.failures.get(Failure::Timeout.name()), Some(&1));
    assert_eq!(t.transfers.unwrap().with_loss, Some(1));
}

#[test]
fn a_transfer_of_which_nothing_arrived_has_failed() {
    let one = Connection {
        transport: weir_model::plan::Transport::udp(),
        packets: Some(1),
        duration: None,
        ..connection("1000")
    };
    let mut state = Transacting::new(&spec(one), 0, TIMEOUT);
    state.start(START, IntervalClock { start_ns: START, interval_ns: SECOND, omit_ns: 0 });
    assert!(matches!(state.next(START), NextSend::Now(1)));
    let number = state.sent(START);
    state.set_up(number, START);
    let nothing = Arrived { datagrams: 0, bytes: 0, at_ns: START, is_whole: false };
    state.transferred(number, nothing, START + SECOND);
    let t = state.report(&state.sending.report("request", None));
    assert_eq!((t.completed, t.failed), (0, 1));
    assert_eq!(t.failures.get(Failure::Lost.name()), Some(&1));
}

fn pages(objects: &str) -> Connection {
    Connection {
        objects: Some(objects.parse().unwrap()),
        main_volume: Some("5000".parse().unwrap()),
        page_connections: Some(2),
        pause: Some("700ms".parse().unwrap()),
        ..connection("1000")
    }
}

#[test]
fn a_page_is_loaded_when_its_last_object_has_arrived() {
    // 100 ms for the first of six objects, and 100 ms for two of the others at a time: 400 ms, of which 10 s have 9.
    let (t, transfers, started) = run(&spec(pages("6")), |_, _| Some(100 * MS));
    let pages = transfers.pages.unwrap();
    assert_eq!((pages.loaded, pages.failed, pages.unfinished), (9, 0, 1));
    assert_eq!(pages.mean_objects, Some(6.0));
    let load_time = pages.load_time.unwrap();
    assert_eq!((load_time.min_seconds, load_time.max_seconds), (0.4, 0.4));
    assert_eq!(transfers.max_concurrent, 2);
    let page: Vec<_> =
        started[..7].iter().map(|(at, volume)| ((at - START) / MS, *volume)).collect();
    let others = [100, 100, 200, 200, 300].map(|at| (at, 1000));
    assert_eq!(page, [&[(0, 5000)][..], &others, &[(1100, 5000)]].concat());
    assert_eq!(t.completed, started.len() as u64);
}

#[test]
fn numbers_of_objects_are_drawn_for_each_page() {
    let users = Connection { pause: Some("20ms".parse().unwrap()), ..pages("1..9") };
    let (_, transfers, started) = run(&spec(users), |_, _| Some(MS));
    let pages = transfers.pages.unwrap();
    let of_pages: Vec<_> =
        started.split(|(_, volume)| *volume == 5000).skip(1).map(<[_]>::len).collect();
    assert!((0..9).all(|others| of_pages.contains(&others)), "{of_pages:?}");
    assert_eq!(pages.loaded + pages.unfinished, of_pages.len() as u64);
    let objects = started.len() as f64 / of_pages.len() as f64;
    assert!((pages.mean_objects.unwrap() - objects).abs() < 0.05);
}

#[test]
fn users_load_pages_at_the_same_time() {
    let users = Connection { outstanding: Some(3), ..pages("3") };
    let (_, transfers, _) = run(&spec(users), |_, _| Some(100 * MS));
    let pages = transfers.pages.unwrap();
    // Each page takes 200 ms and is followed by 700 ms: 11 of each user begin before 10 s, and one more at 9.9 s.
    assert_eq!((pages.loaded, pages.unfinished, transfers.max_concurrent), (33, 3, 6));
}

#[test]
fn a_page_fails_with_one_of_its_objects() {
    // The fourth object of the first page never moves a byte, and the first one of the second page.
    let lost = [3, 6];
    let long = Connection { duration: Some(Span::from_seconds(200)), ..pages("6") };
    let (t, transfers, started) =
        run(&spec(long), |number, _| (!lost.contains(&number)).then_some(100 * MS));
    let pages = transfers.pages.unwrap();
    assert_eq!((pages.failed, t.failed), (2, 2));
    assert!(pages.loaded > 0);
    // Nothing follows the first object if that has failed: the third page begins after the pause.
    assert_eq!(started[6].1, 5000);
    assert_eq!(started[7].1, 5000);
}

#[test]
fn pages_of_an_omitted_start_are_left_out() {
    let spec = spec(pages("2"));
    let mut state = Transacting::new(&spec, SECOND, TIMEOUT);
    state.start(START, IntervalClock { start_ns: START, interval_ns: SECOND, omit_ns: SECOND });
    let page = |state: &mut Transacting, at: u64| {
        for part in 0..2 {
            assert!(matches!(state.next(at + part * MS), NextSend::Now(1)));
            let number = state.sent(at + part * MS);
            state.answered(number, at + (part + 1) * MS);
        }
    };
    page(&mut state, START);
    page(&mut state, START + 2 * SECOND);
    state.stop();
    let t = state.report(&state.sending.report("request", None));
    assert_eq!(t.transfers.unwrap().pages.unwrap().loaded, 1);
}
