//! Seeded mutations for fuzz bodies: what `cargo test` runs of each fuzz target.

/// Bytes that end, begin or break numbers, strings and lists.
const EDGES: &[u8] = b"\0\x01\x7f\x80\xff 0{}[]\",:e9-.\\\n";
const EDGE_WORDS: [u32; 5] = [0, 1, u32::MAX, 1 << 31, 1 << 18];
/// Maximum length of a piece that is doubled or overwritten, bytes.
const PIECE: usize = 20;
/// Maximum length of truncated samples and of noise, bytes.
const LENGTHS: usize = 300;

/// SplitMix64: the same mutations on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

/// Runs a fuzz body on empty input, on each sample, its prefixes and `rounds` mutations of it, and on noise.
pub fn replay<S: AsRef<[u8]>>(samples: &[S], rounds: usize, body: impl Fn(&[u8])) {
    let mut random = Random(9347);
    body(&[]);
    for sample in samples.iter().map(AsRef::as_ref) {
        body(sample);
        for length in 1..sample.len().min(LENGTHS) {
            body(&sample[..length]);
        }
        for _ in 0..rounds {
            let mut bytes = sample.to_vec();
            for _ in 0..=random.below(4) {
                mutate(&mut bytes, &mut random);
            }
            body(&bytes);
        }
    }
    for length in 1..LENGTHS {
        let noise: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        body(&noise);
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        return bytes.push(random.below(256) as u8);
    }
    let at = random.below(bytes.len());
    let piece = at..bytes.len().min(at + 1 + random.below(PIECE));
    match random.below(8) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.below(256) as u8,
        2 => bytes.truncate(at),
        3 => bytes.insert(at, EDGES[random.below(EDGES.len())]),
        4 => drop(bytes.remove(at)),
        5 => bytes[piece].fill([0, 0xff][random.below(2)]),
        6 => bytes.extend_from_within(piece),
        _ => {
            let word = EDGE_WORDS[random.below(EDGE_WORDS.len())].to_le_bytes();
            bytes.iter_mut().skip(at).zip(word).for_each(|(byte, new)| *byte = new);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn mutations_are_varied_and_reproducible() {
        let seen = || {
            let all = RefCell::new(Vec::new());
            replay(&["{\"one\":1}", "[2,2]"], 1000, |bytes| all.borrow_mut().push(bytes.to_vec()));
            all.into_inner()
        };
        let all = seen();
        assert_eq!(all, seen());
        let different: BTreeSet<_> = all.iter().collect();
        assert!(different.len() > 1500, "{}", different.len());
        assert!(different.contains(&b"{\"one\":1}".to_vec()) && different.contains(&vec![]));
    }
}
