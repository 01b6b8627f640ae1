//! MGEN's pattern CLONE: the sizes and times of a capture, as its User's and Reference Guide 5.0 describes them. No message follows the
//! first packet of a repetition: the second one follows the last after the interval between the first two.

use weir_model::ModelError;

use super::pattern::{MessageBytes, Sent};
use crate::scripts::line::{Words, meant};
use crate::scripts::timeline::Pattern;

/// Headers of Ethernet, IPv4 and UDP, which MGEN subtracts from each frame, bytes.
const HEADER_BYTES: u64 = 42;
/// Maximum number of sizes and intervals: that of a law's values.
const MAX_VALUES: usize = 10_000;

/// A packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured {
    /// When it was captured, ns.
    pub at_ns: u64,
    /// Length of its frame, bytes.
    pub frame_bytes: u64,
}

/// Returns the packets of a capture by its name, up to one more than a script can have, or why there are none.
pub type Captures<'a> = dyn FnMut(&str) -> Result<Vec<Captured>, String> + 'a;

/// Reads the parameters: type, file and repetitions.
pub(super) fn cloned(
    mut words: Words,
    of: MessageBytes,
    captures: &mut Captures,
) -> Result<Sent, ModelError> {
    const NAME: &str = "CLONE";
    let kind = words.value(NAME, "tcpdump")?;
    if meant(kind, &["TCPDUMP"]).is_none() {
        return Err(words.refused(NAME, kind, "tcpdump"));
    }
    let file = words.value(NAME, "a file")?;
    let repetitions = match words.next() {
        None => None,
        // The guide's example has brackets around it.
        Some(text) => match text.trim_matches(['[', ']']).parse::<i64>() {
            Ok(-1) => None,
            Ok(count @ 0..=1_000_000_000) => Some(count as u64),
            _ => return Err(words.refused(NAME, text, "0 to 1000000000 repetitions, or -1")),
        },
    };
    if let Some(more) = words.next() {
        return Err(words.refused(NAME, more, "no more parameters"));
    }
    let packets = captures(file).map_err(|why| words.refused(NAME, file, &why))?;
    let refused = |accepted: &str| Err(words.refused(NAME, file, accepted));
    if !(2..=MAX_VALUES).contains(&packets.len()) {
        return refused("a capture of 2 to 10000 packets");
    }
    let ((least, most), _) = of.bounds();
    let mut sizes = vec![];
    for (number, packet) in (1..).zip(&packets) {
        let size = packet.frame_bytes.saturating_sub(HEADER_BYTES);
        if !(least..=most).contains(&size) {
            let (least, most) = (least + HEADER_BYTES, most + HEADER_BYTES);
            let given = format!("{file}: packet {number} of {} bytes", packet.frame_bytes);
            return Err(words.refused(NAME, &given, &format!("frames of {least} to {most} bytes")));
        }
        sizes.push(size);
    }
    // A packet that is earlier than the one before is sent immediately.
    let gap = |pair: &[Captured]| pair[1].at_ns.saturating_sub(pair[0].at_ns);
    let gaps: Vec<u64> = packets.windows(2).map(gap).collect();
    let count = repetitions.map(|more| sizes.len() as u64 + more * gaps.len() as u64);
    if gaps.iter().sum::<u64>() < gaps.len() as u64 {
        return refused("a capture with intervals between its packets");
    }
    let bytes = sizes.iter().fold((u64::MAX, 0), |(min, max), s| (min.min(*s), max.max(*s)));
    // After the first packet, sizes repeat as intervals do.
    if bytes.0 == bytes.1 || sizes[0] == sizes[gaps.len()] {
        sizes.truncate(if bytes.0 == bytes.1 { 1 } else { gaps.len() });
    } else if repetitions != Some(0) {
        let Some(count) = count.filter(|count| *count <= MAX_VALUES as u64) else {
            return refused(
                "0 repetitions, up to 10000 messages in all, or a first packet as long as the last one",
            );
        };
        let again = sizes[1..].to_vec();
        sizes.extend(again.into_iter().cycle().take(count as usize - packets.len()));
    }
    let size = match &sizes[..] {
        [size] => size.to_string(),
        sizes => {
            let sizes: Vec<String> = sizes.iter().map(u64::to_string).collect();
            format!("values({})", sizes.join(", "))
        }
    };
    Ok(Sent { pattern: Pattern::Recorded(gaps.into(), count), size, bytes })
}
