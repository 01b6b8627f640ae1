//! Replies to ICMP echo requests, and the ICMP errors that come back instead.

use weir_flow::{Failure, Transacting};
use weir_net::clock::Clock;
use weir_net::udp::{ErrorOrigin, QueuedError, RecvMessage};
use weir_wire::echo::EchoError;

use super::super::arrived_ns;
use crate::transport::EchoSocket;

/// `EHOSTUNREACH` and the like have no ICMP type of their own; this one is needed: the message is too long.
const EMSGSIZE: i32 = 90;

/// Counts a received message. Its time of arrival is the kernel's, where there is a stamp.
pub(super) fn on_message(
    socket: &EchoSocket,
    message: &RecvMessage<'_>,
    state: &mut Transacting,
    clock: &Clock,
) {
    let now = clock.monotonic_ns();
    let arrived = message.kernel_realtime_ns.and_then(|stamp| arrived_ns(clock, stamp));
    match socket.echo.decode(message.data) {
        Ok(payload) if !message.truncated => state.on_datagram(payload, arrived.unwrap_or(now)),
        Ok(_) | Err(EchoError::Invalid) => state.on_invalid(now),
        Err(EchoError::Other) => {}
    }
}

/// Counts the errors that have arrived, each as the failure of the request that it quotes.
pub(super) fn on_errors(socket: &EchoSocket, state: &mut Transacting) {
    // An error's request was sent, so that there are no more of them.
    for _ in 0..=state.in_flight() {
        let Some(error) = socket.next_error() else { return };
        let sequence = error.quoted.and_then(|quoted| socket.echo.quoted_sequence(&quoted));
        // What this host refused to send has not become a request.
        if let (Some(sequence), Some(why)) = (sequence, failure(&error)) {
            state.failed_by_low(&sequence.to_be_bytes(), why);
        }
    }
}

/// The kind of an ICMP error (RFC 792, RFC 1812 section 5.2.7, RFC 4443 section 3).
fn failure(error: &QueuedError) -> Option<Failure> {
    if error.errno == EMSGSIZE && error.origin != ErrorOrigin::Local {
        return Some(Failure::TooBig);
    }
    match (error.origin, error.icmp_type, error.icmp_code) {
        (ErrorOrigin::Icmp, 3, 9 | 10 | 13) | (ErrorOrigin::Icmp6, 1, 1 | 5 | 6) => {
            Some(Failure::Prohibited)
        }
        (ErrorOrigin::Icmp, 3, _) | (ErrorOrigin::Icmp6, 1, _) => Some(Failure::Unreachable),
        (ErrorOrigin::Icmp, 11, _) | (ErrorOrigin::Icmp6, 3, _) => Some(Failure::TtlExceeded),
        (ErrorOrigin::Icmp | ErrorOrigin::Icmp6, ..) => Some(Failure::Error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_kinds() {
        let of = |origin, icmp_type, icmp_code, errno| {
            failure(&QueuedError {
                errno,
                origin,
                icmp_type,
                icmp_code,
                info: 0,
                data: 0,
                offender: None,
                quoted: None,
            })
        };
        for (origin, kind, code, errno, expected) in [
            (ErrorOrigin::Icmp, 3, 1, 113, Some(Failure::Unreachable)),
            (ErrorOrigin::Icmp, 3, 4, EMSGSIZE, Some(Failure::TooBig)),
            (ErrorOrigin::Icmp, 3, 13, 113, Some(Failure::Prohibited)),
            (ErrorOrigin::Icmp, 11, 0, 113, Some(Failure::TtlExceeded)),
            (ErrorOrigin::Icmp, 12, 0, 71, Some(Failure::Error)),
            (ErrorOrigin::Icmp6, 1, 3, 113, Some(Failure::Unreachable)),
            (ErrorOrigin::Icmp6, 2, 0, EMSGSIZE, Some(Failure::TooBig)),
            (ErrorOrigin::Icmp6, 3, 0, 113, Some(Failure::TtlExceeded)),
            (ErrorOrigin::Local, 0, 0, EMSGSIZE, None),
        ] {
            assert_eq!(of(origin, kind, code, errno), expected, "{origin:?} {kind} {code}");
        }
    }
}
