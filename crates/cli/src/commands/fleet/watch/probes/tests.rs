use super::*;
use weir_model::record::IntervalFlow;

const HEAD: &str = "schema = \"weir.mesh/1\"\nname = \"m\"\nwindows = [\"10s\"]\n";

fn interval(start: f64) -> Event {
    let receiver = IntervalCount { packets: 9, lost_packets: Some(1), ..Default::default() };
    Event::Interval(Box::new(Interval {
        start_seconds: start,
        end_seconds: start + 1.0,
        flows: vec![IntervalFlow { id: 1, sender: None, receiver: Some(receiver) }],
        ..Interval::default()
    }))
}

fn echo(start: f64, received: u64) -> Event {
    Event::Echoes(vec![EchoInterval {
        id: 1,
        start_seconds: start,
        end_seconds: start + 1.0,
        sent_packets: 10,
        received_packets: received,
        lost_packets: 10 - received,
        ..EchoInterval::default()
    }])
}

#[test]
fn seconds_are_reported_once_while_tests_overlap() {
    let mesh = Mesh::parse(HEAD).unwrap();
    let mut pair = Pair::new(&mesh);
    let names = ("a".parse().unwrap(), "b".parse().unwrap());
    let jobs: [JobId; 2] = ["1", "2"].map(|id| id.parse().unwrap());
    let start = Instant::now();
    assert!(pair.wants_test(start));
    pair.started(jobs[0].clone(), start);
    assert!(!pair.wants_test(start + Duration::from_secs(500)));
    assert!(pair.wants_test(start + Duration::from_secs(590)));
    let mut seconds = vec![];
    let mut on = |pair: &mut Pair, job: usize, event: &Event, now: f64| {
        for line in pair.on_event(&names, &jobs[job], event, now) {
            let Line::Second(line) = line else { panic!("{line:?}") };
            seconds.push((line.at_unix_seconds, line.figures));
        }
    };
    // Without the time of its start, a test's seconds have no place.
    on(&mut pair, 0, &echo(0.0, 9), 1001.2);
    for second in 0..3 {
        let at = f64::from(second);
        on(&mut pair, 0, &interval(at), 1001.2 + at);
        on(&mut pair, 0, &echo(at, 9), 1001.3 + at);
    }
    pair.started(jobs[1].clone(), start + Duration::from_secs(590));
    assert!(!pair.wants_test(start + Duration::from_secs(590)));
    // The second test begins in second 1001.
    for second in 0..3 {
        let at = f64::from(second);
        on(&mut pair, 1, &interval(at), 1002.4 + at);
        on(&mut pair, 1, &echo(at, 10), 1002.5 + at);
    }
    let times: Vec<f64> = seconds.iter().map(|(at, _)| at.floor()).collect();
    assert_eq!(times, [1000.0, 1001.0, 1002.0, 1003.0]);
    let first = &seconds[0].1;
    assert_eq!((first.sent_packets, first.lost_packets), (10, 1));
    assert_eq!((first.arrived_packets, first.lost_forward_packets), (Some(9), Some(1)));
    let (_, _, windows) = pair.latest().unwrap();
    assert_eq!(windows[0].figures.sent_packets, 40);
    assert_eq!(windows[0].figures.lost_packets, 3);
    // Second 1020 begins the next minute.
    assert!(pair.take_minutes().is_empty());
    pair.on_event(&names, &jobs[1], &echo(19.0, 10), 1022.0);
    let [minute] = pair.take_minutes().try_into().unwrap();
    assert_eq!((minute.at_unix_seconds, minute.figures.sent_packets), (960, 40));
    assert_eq!((minute.from.as_str(), minute.figures.covered_seconds), ("a", 4.0));
}

#[test]
fn a_failed_test_is_tried_again_after_a_pause() {
    let mut pair = Pair::new(&Mesh::parse(HEAD).unwrap());
    let names = ("a".parse().unwrap(), "b".parse().unwrap());
    let now = Instant::now();
    pair.started("1".parse().unwrap(), now);
    let outcome: Outcome = serde_json::from_value(serde_json::json!({
        "id": "1", "agent": "a", "kind": "test", "starts": 1,
        "error": { "code": "connect", "message": "no route", "exit_code": 3 },
    }))
    .unwrap();
    pair.ended(&names, &outcome, now);
    assert_eq!(pair.failure(), Some("no route"));
    assert!(!pair.wants_test(now) && pair.wants_test(now + PAUSE));
}

#[test]
fn the_test_of_a_pair_is_valid() {
    let mesh = Mesh::parse(HEAD).unwrap();
    let job = test(&mesh, "192.0.2.1".parse().unwrap(), 5, KeySource::default());
    let Job::Test(job) = job else { panic!("{job:?}") };
    job.plan.check().unwrap();
    assert_eq!(job.plan.connections[0].payload.as_ref().unwrap().moments().max_bytes, 64);
}
