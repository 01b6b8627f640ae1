//! Fuzz bodies: one per parser of outside bytes. Each takes any bytes and asserts what must hold for them.
//! A fuzzer calls them, and so does the replay of seeded mutations in this crate's tests.

use crate::data::{self, HeaderFields, HeaderLayout, SendTime, TagKey};
use crate::datagram::{ControlDatagram, DatagramKey, looks_like_control};
use crate::frame::{FrameDecoder, encode_frame};

/// The key under which corpora are made.
const KEY: [u8; 16] = *b"weir fuzz corpus";

/// Data header: what decodes is what would have been sent.
pub fn fuzz_data_header(data: &[u8]) {
    let Some((&selector, payload)) = data.split_first() else { return };
    let key = TagKey::for_flow(&KEY, 1);
    let layouts = [
        HeaderLayout::ALL[usize::from(selector) % HeaderLayout::ALL.len()],
        HeaderLayout::for_payload(payload.len()),
    ];
    for layout in layouts {
        let Ok(got) = data::decode(layout, &key, payload) else {
            assert!(layout.has_tag() || payload.len() < layout.len());
            continue;
        };
        let fields = HeaderFields {
            sequence: got.sequence,
            send_time_ns: match got.send_time {
                Some(SendTime::Full(time)) => time,
                Some(SendTime::Low32(time)) => time.into(),
                None => 0,
            },
            lateness_ns: got.lateness_ns.unwrap_or(0),
            flow: got.flow.unwrap_or(0),
            flags: got.flags.unwrap_or(0),
        };
        let mut again = payload.to_vec();
        data::encode(layout, &key, &fields, &mut again);
        assert_eq!(again, payload);
    }
}

/// Control datagram: what decodes encodes to the same bytes, but for the reserved ones.
pub fn fuzz_datagram(data: &[u8]) {
    let key = DatagramKey::for_session(&KEY);
    if let Ok(got) = ControlDatagram::decode(data, &key) {
        assert!(looks_like_control(data));
        let again = got.encode(&key);
        assert_eq!(again[12..56], data[12..56]);
        assert_eq!(ControlDatagram::decode(&again, &key), Ok(got));
    }
    let _ = crate::datagram::claimed_session(data);
}

/// Frames: the pieces in which a stream arrives do not matter, and memory stays with what arrived.
pub fn fuzz_frame(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let cut = |piece: usize| {
        let mut decoder = FrameDecoder::new(256);
        let mut frames = Vec::new();
        for part in stream.chunks(piece) {
            decoder.push(part);
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(_) => return (frames, true, 0),
                }
            }
        }
        (frames, false, decoder.pending())
    };
    let whole = cut(stream.len().max(1));
    assert_eq!(cut(usize::from(piece).max(1)), whole);
    let mut again: Vec<u8> = Vec::new();
    for frame in &whole.0 {
        // Frames here are at most 256 bytes: they fit their prefix.
        again.extend(encode_frame(frame).unwrap_or_default());
    }
    assert_eq!(again, stream[..again.len()]);
    assert!(whole.1 || again.len() + whole.2 == stream.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeded mutations of a corpus: flips, cuts, doubled and overwritten ranges, and noise.
    fn replay(corpus: &[Vec<u8>], body: impl Fn(&[u8])) {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as usize % below.max(1)
        };
        body(&[]);
        for seed in corpus {
            body(seed);
            for cut in 0..seed.len().min(300) {
                body(&seed[..cut]);
            }
            for _ in 0..4000 {
                let mut bytes = seed.clone();
                for _ in 0..=random(4) {
                    let at = random(bytes.len());
                    match random(6) {
                        0 if !bytes.is_empty() => bytes[at] ^= 1 << random(8),
                        1 if !bytes.is_empty() => bytes[at] = random(256) as u8,
                        2 => bytes.truncate(at),
                        3 => bytes.insert(at, [0, 1, 0x7f, 0x80, 0xff][random(5)]),
                        4 => {
                            let tail = bytes[at..].to_vec();
                            bytes.extend(tail);
                        }
                        _ => {
                            for byte in bytes.iter_mut().skip(at).take(4) {
                                *byte = [0, 0xff][random(2)];
                            }
                        }
                    }
                }
                body(&bytes);
            }
        }
        for len in 0..600 {
            let noise: Vec<u8> = (0..len).map(|_| random(256) as u8).collect();
            body(&noise);
        }
    }

    #[test]
    fn data_header() {
        let key = TagKey::for_flow(&KEY, 1);
        let corpus: Vec<_> = HeaderLayout::ALL
            .iter()
            .enumerate()
            .map(|(i, &layout)| {
                let mut bytes = vec![0; 41];
                let fields = HeaderFields { sequence: 77, flow: 1, ..HeaderFields::default() };
                data::encode(layout, &key, &fields, &mut bytes[1..]);
                bytes[0] = i as u8;
                bytes
            })
            .collect();
        replay(&corpus, fuzz_data_header);
    }

    #[test]
    fn datagram() {
        let sent = ControlDatagram {
            kind: crate::datagram::Kind::Probe,
            flow: 1,
            session: 2,
            sequence: 3,
            t1_ns: 4,
            t2_ns: 5,
            t3_ns: 6,
        };
        replay(&[sent.encode(&DatagramKey::for_session(&KEY)).to_vec()], fuzz_datagram);
    }

    #[test]
    fn frame() {
        let mut stream = vec![3];
        for len in [0, 1, 5, 255, 256] {
            stream.extend(encode_frame(&vec![len as u8; len]).unwrap());
        }
        replay(&[stream], fuzz_frame);
    }
}
