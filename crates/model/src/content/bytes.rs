//! Seeded payload content: the bytes after a header. A receiver can generate and compare them, and they show
//! compression on a path.
//!
//! Content is a function of kind, seed and offset. It can be generated from any offset and in any pieces.

use super::Content;

/// Block size of [`Content::Ratio`], bytes: each block is random bytes followed by zeros.
pub(crate) const RATIO_BLOCK_LEN: u64 = 4096;
/// Maximum ratio of [`Content::Ratio`].
pub(crate) const MAX_RATIO: f64 = 1000.0;

const ASCII_FIRST: u8 = 0x20;
/// The printable characters, space to tilde.
const ASCII_COUNT: u64 = 95;

/// Fills `out` with the content from byte `offset` on (offsets wrap at 2⁶⁴). The same seed and offset give the
/// same byte for any division into pieces. A [`Content::Ratio`] out of range is clamped.
#[inline]
pub fn fill(content: Content, seed: u64, offset: u64, out: &mut [u8]) {
    match content {
        Content::Random => fill_random(seed, offset, out),
        // A file's bytes are not a function of the seed; who sends them has them.
        Content::Zeros | Content::File => out.fill(0),
        Content::Ascii => fill_ascii(offset, out),
        Content::Ratio(ratio) => fill_ratio(ratio, seed, offset, out),
        Content::Pattern(pattern) => fill_pattern(pattern.bytes(), offset, out),
        Content::Prbs(prbs) => prbs.fill(offset, out),
    }
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// SplitMix64's step.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bytes 8n to 8n + 7 are output n of SplitMix64, little endian. It is used for its speed and only fills
/// payload; dispositions are decided by Philox.
#[inline]
fn fill_random(seed: u64, offset: u64, out: &mut [u8]) {
    // Mixed once, so that adjacent seeds are not the same sequence shifted.
    let start = mix(seed.wrapping_add(GAMMA));
    let word =
        |n: u64| mix(start.wrapping_add(n.wrapping_add(1).wrapping_mul(GAMMA))).to_le_bytes();
    let mut n = offset / 8;
    let skip = (offset % 8) as usize;
    let (head, body) = out.split_at_mut(if skip == 0 { 0 } else { out.len().min(8 - skip) });
    if !head.is_empty() {
        head.copy_from_slice(&word(n)[skip..skip + head.len()]);
        n = n.wrapping_add(1) & (u64::MAX >> 3);
    }
    let (words, tail) = body.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = word(n);
        n = n.wrapping_add(1) & (u64::MAX >> 3);
    }
    let last = word(n);
    tail.copy_from_slice(&last[..tail.len()]);
}

fn fill_ascii(offset: u64, out: &mut [u8]) {
    let mut at = (offset % ASCII_COUNT) as u8;
    // 2⁶⁴ is not a multiple of 95: the ramp restarts where offsets wrap.
    let mut left = u64::MAX - offset;
    for byte in out {
        *byte = ASCII_FIRST + at;
        at = if u64::from(at) + 1 == ASCII_COUNT || left == 0 { 0 } else { at + 1 };
        left = left.wrapping_sub(1);
    }
}

fn fill_pattern(pattern: &[u8], mut offset: u64, out: &mut [u8]) {
    for byte in out {
        *byte = pattern[(offset % pattern.len() as u64) as usize];
        offset = offset.wrapping_add(1);
    }
}

fn fill_ratio(ratio: f64, seed: u64, mut offset: u64, mut out: &mut [u8]) {
    let ratio = if ratio.is_nan() { 1.0 } else { ratio.clamp(1.0, MAX_RATIO) };
    let random = (RATIO_BLOCK_LEN as f64 / ratio).round() as u64;
    while !out.is_empty() {
        let within = offset % RATIO_BLOCK_LEN;
        let until = if within < random { random } else { RATIO_BLOCK_LEN };
        let len = out.len().min((until - within) as usize);
        let (part, rest) = out.split_at_mut(len);
        if within < random {
            fill_random(seed, offset, part);
        } else {
            part.fill(0);
        }
        out = rest;
        offset = offset.wrapping_add(len as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn generated(content: Content, seed: u64, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0xaa; len];
        fill(content, seed, offset, &mut out);
        out
    }

    #[test]
    fn fixed_bytes() {
        // SplitMix64's published first output of state 0, and the documentation's vector.
        assert_eq!(mix(GAMMA), 0xe220_a839_7b1d_cdaf);
        let want = 0x1e61_3974_08ab_415e_eef1_6c3d_e96c_8df1u128.to_be_bytes();
        assert_eq!(generated(Content::Random, 1, 0, 16), want);
        assert_eq!(generated(Content::Zeros, 0, 3, 4), [0; 4]);
        let ramp = generated(Content::Ascii, 0, 0, 96);
        assert_eq!((ramp[0], ramp[1], ramp[94], ramp[95]), (b' ', b'!', b'~', b' '));
    }

    #[test]
    fn a_pattern_repeats() {
        let pattern = crate::content::Pattern::new(&[1, 2, 3]).unwrap();
        assert_eq!(generated(Content::Pattern(pattern), 9, 4, 5), [2, 3, 1, 2, 3]);
    }

    #[test]
    fn ratio_mixes_within_each_block() {
        let bytes = generated(Content::Ratio(4.0), 3, 0, 8192);
        for block in bytes.chunks(4096) {
            assert!(block[1024..].iter().all(|&b| b == 0));
            assert!(block[..1024].iter().filter(|&&b| b == 0).count() < 30);
        }
        assert_ne!(bytes[..1024], bytes[4096..5120], "a window compressor would find a repetition");
        assert_eq!(
            generated(Content::Ratio(1.0), 3, 5, 9000),
            generated(Content::Random, 3, 5, 9000)
        );
        for (odd, like) in [(f64::NAN, 1.0), (0.0, 1.0), (f64::INFINITY, MAX_RATIO)] {
            assert_eq!(
                generated(Content::Ratio(odd), 3, 0, 5000),
                generated(Content::Ratio(like), 3, 0, 5000)
            );
        }
    }

    #[test]
    fn random_bytes_look_random() {
        // Chi-square over byte values, 255 degrees of freedom: 0.1 % points 190 and 330.
        for seed in [0, 1, u64::MAX] {
            let mut counts = [0u32; 256];
            generated(Content::Random, seed, 0, 1 << 18)
                .iter()
                .for_each(|&b| counts[usize::from(b)] += 1);
            let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 1024.0).powi(2) / 1024.0).sum();
            assert!((190.0..330.0).contains(&chi), "seed {seed}: {chi}");
        }
        // Seeds that differ by the generator's step have different bytes, not the same ones shifted.
        let a = generated(Content::Random, 5, 8, 4096);
        let b = generated(Content::Random, 5u64.wrapping_add(GAMMA), 0, 4096);
        assert_ne!(a, b);
    }

    fn content() -> impl Strategy<Value = Content> {
        prop_oneof![
            Just(Content::Random),
            Just(Content::Zeros),
            Just(Content::Ascii),
            (1.0..=MAX_RATIO).prop_map(Content::Ratio),
            proptest::collection::vec(any::<u8>(), 1..=16)
                .prop_map(|b| Content::Pattern(crate::content::Pattern::new(&b).unwrap())),
            proptest::sample::select(crate::content::Prbs::ORDERS)
                .prop_map(|n| Content::Prbs(crate::content::Prbs::of_order(n).unwrap())),
        ]
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(
            content in content(),
            seed: u64,
            offset in prop_oneof![0u64..20_000, any::<u64>(), Just(u64::MAX - 100)],
            len in 0usize..10_000,
            piece in 1usize..3000,
        ) {
            let whole = generated(content, seed, offset, len);
            let mut out = vec![0x55; len];
            let mut at = offset;
            for part in out.chunks_mut(piece) {
                fill(content, seed, at, part);
                at = at.wrapping_add(part.len() as u64);
            }
            prop_assert_eq!(out, whole);
        }
    }
}
