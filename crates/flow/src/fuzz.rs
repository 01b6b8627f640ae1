//! Fuzz bodies: no input panics, and the counts add up.

use weir_model::plan::{Connection, Family, Plan, Shape, Transport};
use weir_model::units::ByteSize;

use crate::{IntervalClock, NextSend, Transacting};

/// Plays a server of datagrams that answers with hostile bytes. Each step is a byte that says what happens, followed by
/// what arrives.
pub fn fuzz_transactions(data: &[u8]) {
    let [size, outstanding, steps @ ..] = data else { return };
    let connection = Connection {
        transport: Transport::udp(),
        shape: Shape::Rr,
        request: Some(ByteSize(4 + u64::from(size % 8))),
        response: Some(ByteSize(4 + u64::from(size / 8 % 8))),
        outstanding: Some(1 + u32::from(*outstanding)),
        ..Connection::default()
    };
    let response = connection.response_bytes() as usize;
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    let spec = plan.flows(Family::Ipv4, 1500).remove(0);
    let mut state = Transacting::new(&spec, 0, 1000);
    state.start(0, IntervalClock { start_ns: 0, interval_ns: 100, omit_ns: 0 });
    let (mut now, mut sent, mut rest) = (0, 0u64, steps);
    while let [step, more @ ..] = rest {
        rest = more;
        match step % 4 {
            0 => now += u64::from(*step) * 7,
            1 => {
                let (bytes, after) = rest.split_at(rest.len().min(usize::from(step / 4) % 16));
                state.on_datagram(bytes, now);
                rest = after;
            }
            2 => {
                // A right response to any of the last requests.
                let mut bytes = vec![0; response];
                state.write_number(sent.wrapping_sub(u64::from(*step)), &mut bytes);
                state.on_datagram(&bytes, now);
            }
            _ => {
                if let NextSend::Now(most) = state.next(now) {
                    assert!(most > 0);
                    assert_eq!(state.sent(now), sent);
                    sent += 1;
                }
            }
        }
    }
    state.stop();
    while let NextSend::At(at) = state.next(now) {
        assert!(at > now, "it would wait forever");
        now = at;
    }
    assert_eq!(state.in_flight(), 0);
    state.finish(now);
    let t = state.report(&state.sending.report("request", None));
    assert_eq!(t.completed + t.failed, sent);
    assert_eq!(t.failures.values().sum::<u64>(), t.failed);
    // Beyond the memory of timed-out requests, every response to an old one counts as late.
    assert!(t.late_responses.is_some_and(|late| late <= t.failed || t.failed > 4096));
}

#[cfg(test)]
mod tests {
    #[test]
    fn hostile_responses_do_not_confuse_the_counts() {
        let steps = [3u8, 3, 3, 2, 6, 10, 1, 3, 0xfc, 3, 33, 0, 0, 0, 0, 0, 0, 0, 1];
        let samples = [[0, 3], [63, 0], [4, 200]].map(|head| [&head[..], &steps].concat());
        weir_laws::mutation::replay(&samples, 3000, super::fuzz_transactions);
    }
}
