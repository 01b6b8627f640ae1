//! What raw sockets of ICMP and ICMPv6 receive.

use socket2::SockFilter;

use crate::udp::{IcmpFilter, IcmpSocket};

/// Instructions of classic BPF (linux/bpf_common.h).
const LOAD_BYTE_AT: u16 = 0x30;
const LOAD_BYTE_AT_X: u16 = 0x50;
const LOAD_HALF_AT_X: u16 = 0x48;
const LOAD_WORD_AT: u16 = 0x20;
const X_OF_IP_HEADER_LENGTH: u16 = 0xb1;
const X_OF_CONSTANT: u16 = 0x01;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;

/// The filter of a raw socket. One of IPv4 sees the IP header, one of IPv6 does not.
pub(super) fn filter(v6: bool, icmp: IcmpSocket) -> Option<Vec<SockFilter>> {
    match icmp {
        IcmpSocket::Ping => None,
        IcmpSocket::Raw { identifier } => Some(Vec::from(reply_filter(v6, identifier))),
        IcmpSocket::Messages(wanted) => {
            let steps = message_filter(v6, &wanted).into_iter();
            Some(steps.map(|(code, is, not, k)| SockFilter::new(code, is, not, k)).collect())
        }
        IcmpSocket::Sender => Some(vec![SockFilter::new(RETURN, 0, 0, 0)]),
    }
}

/// A filter that accepts echo replies with this identifier.
fn reply_filter(v6: bool, identifier: u16) -> [SockFilter; 7] {
    let step = SockFilter::new;
    let (header, reply) = match v6 {
        true => (step(X_OF_CONSTANT, 0, 0, 0), 129),
        false => (step(X_OF_IP_HEADER_LENGTH, 0, 0, 0), 0),
    };
    [
        header,
        step(LOAD_BYTE_AT_X, 0, 0, 0),
        step(JUMP_IF_EQUAL, 0, 3, reply),
        step(LOAD_HALF_AT_X, 0, 0, 4),
        step(JUMP_IF_EQUAL, 0, 1, u32::from(identifier)),
        step(RETURN, 0, 0, u32::MAX),
        step(RETURN, 0, 0, 0),
    ]
}

/// An instruction: its code, steps to jump if its condition holds and if not, and its operand.
type Step = (u16, u8, u8, u32);

/// A filter that accepts these messages. A load beyond the end of a message rejects it.
fn message_filter(v6: bool, wanted: &IcmpFilter) -> Vec<Step> {
    let start = if v6 { 0 } else { 20 };
    // Each step: an instruction, its operand, and the values of which the loaded one must be one.
    let mut steps: Vec<(u16, u32, Vec<u32>)> = vec![];
    if !v6 {
        // Version 4, a header of five words.
        steps.push((LOAD_BYTE_AT, 0, vec![0x45]));
    }
    steps.push((LOAD_BYTE_AT, start, wanted.types.iter().map(|t| u32::from(*t)).collect()));
    steps.push((LOAD_BYTE_AT, start + 1, vec![0]));
    for (at, word) in (start + 4..).step_by(4).zip(wanted.words) {
        if let Some(word) = word {
            steps.push((LOAD_WORD_AT, at, vec![word]));
        }
    }
    let mut filter = vec![];
    for (load, at, values) in steps {
        filter.push((load, 0, 0, at));
        let last = values.len();
        for (i, value) in values.into_iter().enumerate() {
            // Over the comparisons that are left and the rejection after them.
            filter.push((JUMP_IF_EQUAL, (last - i) as u8, 0, value));
        }
        filter.push((RETURN, 0, 0, 0));
    }
    filter.push((RETURN, 0, 0, u32::MAX));
    filter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter on a message, as the kernel does.
    fn accepts(filter: &[Step], message: &[u8]) -> bool {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let (code, is, not, k) = filter[at];
            at += 1;
            let word = |bytes: usize| message.get(k as usize..)?.get(..bytes);
            match code {
                LOAD_BYTE_AT => match word(1) {
                    Some(byte) => loaded = u32::from(byte[0]),
                    None => return false,
                },
                LOAD_WORD_AT => match word(4) {
                    Some(bytes) => loaded = u32::from_be_bytes(bytes.try_into().unwrap()),
                    None => return false,
                },
                JUMP_IF_EQUAL => at += usize::from(if loaded == k { is } else { not }),
                RETURN => return k > 0,
                other => panic!("{other:#x}"),
            }
        }
    }

    #[test]
    fn only_messages_of_these_types_and_words_are_received() {
        let wanted = IcmpFilter { types: &[8, 13], words: [Some(0), Some(7)] };
        let of = |v6: bool, icmp: [u8; 12]| match v6 {
            true => icmp.to_vec(),
            false => [&[0x45][..], &[9; 19], &icmp].concat(),
        };
        for v6 in [false, true] {
            let filter = message_filter(v6, &wanted);
            for kind in [8, 13] {
                let message = of(v6, [kind, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7]);
                assert!(accepts(&filter, &message));
                for length in 0..message.len() {
                    assert!(!accepts(&filter, &message[..length]), "{length}");
                }
            }
            for other in [
                [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7],
                [8, 1, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7],
                [8, 0, 1, 2, 0, 0, 0, 1, 0, 0, 0, 7],
                [8, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 8],
            ] {
                assert!(!accepts(&filter, &of(v6, other)), "{other:?}");
            }
            let any = message_filter(v6, &IcmpFilter { words: [None, None], ..wanted });
            assert!(accepts(&any, &of(v6, [8, 0, 1, 2, 5, 5, 5, 5, 5, 5, 5, 5])));
            assert!(accepts(&any, &of(v6, [13, 0, 1, 2, 5, 5, 5, 5, 5, 5, 5, 5])));
        }
        // Options of IPv4 move the message.
        let mut message = of(false, [8, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 7]);
        message[0] = 0x46;
        assert!(!accepts(&message_filter(false, &wanted), &message));
    }
}
