//! Bodies of the fuzz targets: input of a browser, or of an attacker.

use super::frame::{Event, Frames};
use super::limits::SpeedLimits;
use super::message;
use super::session::{Act, Counts, SessionMachine};

/// Frames of a client in pieces: the events do not depend on the pieces, lie within their input, and every call makes
/// progress.
pub fn fuzz_speed_frames(data: &[u8]) {
    let Some((step, bytes)) = data.split_first() else { return };
    let whole = measure(bytes, bytes.len().max(1));
    let pieces = measure(bytes, usize::from(*step).max(1));
    assert_eq!(whole, pieces);
}

/// Payload bytes, messages and other events until the end or a violation.
fn measure(bytes: &[u8], step: usize) -> (u64, u64, Vec<Event>, Option<u16>) {
    const MAX: u64 = 1 << 16;
    let mut frames = Frames::new(true, MAX);
    let (mut payload, mut messages, mut message, mut others) = (0, 0, 0, vec![]);
    for piece in bytes.chunks(step) {
        let mut piece = piece.to_vec();
        let mut rest = piece.as_mut_slice();
        while !rest.is_empty() {
            let (used, event) = match frames.take(rest) {
                Ok(taken) => taken,
                // How much of a faulty frame was counted depends on the pieces; complete messages do not.
                Err(violation) => {
                    return (payload - message, messages, others, Some(violation.code));
                }
            };
            assert!(used > 0 && used <= rest.len(), "nothing was taken");
            match event {
                Some(Event::Data { from, to, ends, .. }) => {
                    assert!(from <= to && to <= used);
                    payload += (to - from) as u64;
                    message += (to - from) as u64;
                    assert!(message <= MAX, "a message is too long");
                    if ends {
                        messages += 1;
                        message = 0;
                    }
                }
                Some(other) => others.push(other),
                None => {}
            }
            rest = &mut rest[used..];
        }
    }
    (payload, messages, others, None)
}

/// A page's messages, one per line, 0.1 s apart: the session sends no more than was requested, and its phases
/// alternate correctly.
pub fn fuzz_speed_session(data: &[u8]) {
    let limits = SpeedLimits::default();
    let mut machine = SessionMachine::new(limits, 0);
    let mut running = false;
    let mut counts = Counts::default();
    for (n, line) in data.split(|byte| *byte == b'\n').enumerate().take(1000) {
        let now = n as u64 * 100_000_000;
        let Ok(text) = std::str::from_utf8(line) else { return };
        let acts = machine.on_message(now, message::read(text), counts);
        assert!(acts.len() <= 3);
        let timed = machine.on_time(now + 1, counts);
        assert!(machine.next_ns(now + 1) > now);
        for act in acts.into_iter().chain(timed) {
            match act {
                Act::Run(Some((_, until))) => {
                    assert!(!running && until <= limits.bytes);
                    running = true;
                }
                Act::Run(None) => running = false,
                Act::Keep(outcome) => {
                    assert!(outcome.download.is_none_or(|d| d.bytes <= counts.sent));
                    assert!(outcome.download.is_none_or(|d| d.bits_per_second.is_finite()));
                    assert!(
                        outcome
                            .round_trips
                            .all()
                            .iter()
                            .all(|list| list.len() <= message::MAX_ROUND_TRIPS)
                    );
                }
                Act::Close(..) => return,
                Act::Say(_) => {}
            }
        }
        if running {
            counts = Counts { sent: counts.sent + 10_000, received: counts.received + 10_000 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::frame::tests::client;
    use weir_laws::mutation::replay;

    #[test]
    fn mutations_of_frames_are_harmless() {
        let samples = [
            [vec![3], client(0x81, br#"{"type":"ping","id":7}"#), client(0x89, b"?")].concat(),
            [vec![7], client(0x02, &[1; 300]), client(0x80, &[2; 5]), client(0x88, b"\x03\xe8bye")]
                .concat(),
            [vec![1], client(0x82, &[9; 70_000])].concat(),
        ];
        replay(&samples[..2], 3000, fuzz_speed_frames);
        replay(&samples[2..], 50, fuzz_speed_frames);
    }

    #[test]
    fn mutations_of_messages_are_harmless() {
        let sample = br#"{"type":"ping","id":7}
{"type":"start","phase":"download"}
{"type":"stop"}
{"type":"start","phase":"upload"}
{"type":"ping","id":8}
{"type":"stop"}
{"type":"result","download":{"bytes":9000,"seconds":7.0,"bits_per_second":1.0},"latency":{"idle":[0.012],"download":[],"upload":[0.05]}}
{"type":"result"}"#;
        replay(&[sample], 6000, fuzz_speed_session);
    }
}
