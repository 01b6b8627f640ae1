//! Replays seeded mutations of small corpora through the fuzz bodies, so that every test run exercises them.

use weir_laws::mutation::replay;
use weir_link::capture::{CaptureFormat, CaptureWriter};
use weir_link::fuzz::{fuzz_capture, fuzz_capture_datagrams, fuzz_checksum, fuzz_segment};

fn frames() -> Vec<Vec<u8>> {
    let mut v4 = [[2; 12], [0; 12]].concat()[..12].to_vec();
    v4.extend([8, 0, 0x45, 0, 0, 128, 0, 1, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2]);
    v4.extend([0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x18, 1, 0, 0, 0, 0, 0]);
    v4.extend([7; 88]);
    let mut v6 = v4[..12].to_vec();
    v6.extend([0x81, 0, 0, 5, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 72, 17, 64]);
    v6.extend([0xfd; 32]);
    v6.extend([0, 80, 0, 81, 0, 72, 0, 0]);
    v6.extend([9; 64]);
    vec![v4, v6]
}

#[test]
fn captures() {
    let mut corpus = Vec::new();
    for (format, names) in
        [(CaptureFormat::Pcap, &["a"][..]), (CaptureFormat::PcapNg, &["a", "b"][..])]
    {
        let mut bytes = Vec::new();
        let mut writer = CaptureWriter::new(&mut bytes, "corpus", format, names).expect("writer");
        for (i, frame) in frames().iter().enumerate() {
            writer
                .write(0, 1_700_000_000_000_000_000 + i as u64, frame.len() as u32, frame)
                .expect("write");
        }
        drop(writer);
        corpus.push(bytes);
    }
    replay(&corpus, 20_000, fuzz_capture);
    replay(&corpus, 20_000, fuzz_capture_datagrams);
}

#[test]
fn super_packets() {
    let kinds = [(1_u8, 34_u16, 16_u16), (5, 58, 6)];
    let corpus: Vec<Vec<u8>> = frames()
        .iter()
        .zip(kinds)
        .map(|(frame, (kind, start, offset))| {
            let mut bytes = vec![1, kind, 0, 0];
            for word in [16, start, offset] {
                bytes.extend(word.to_ne_bytes());
            }
            bytes.extend(frame);
            bytes
        })
        .collect();
    replay(&corpus, 20_000, fuzz_segment);
}

#[test]
fn checksums() {
    replay(&frames(), 20_000, fuzz_checksum);
}
