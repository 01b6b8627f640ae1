//! The binary packet log `weir.packets/1`: a receiver's arrivals or an emulator's decisions, by packet.
//!
//! A header with JSON metadata, then fixed-size little-endian records until the end of the file. The byte
//! layout is documented in `docs/packets.md`. Reader and writer are streaming; their input and output
//! should be buffered.

use std::io::{self, ErrorKind, Read, Write};

/// The first eight bytes of a log.
pub const MAGIC: [u8; 8] = *b"\x89WEIRPK\n";
/// The version this code writes and reads.
pub const VERSION: u16 = 1;
/// Bytes of a record in this version.
pub const RECORD_LEN: usize = 40;
/// Maximum number of bytes of metadata.
pub const MAX_METADATA_LEN: usize = 1 << 20;
/// Bytes of an emulator's record: a [`Record`] and a [`Judged`].
pub const JUDGED_LEN: usize = 64;
/// Maximum size of a record, which may be of a later writer.
const MAX_RECORD_LEN: usize = 256;
/// Value of a time that was not measured.
const NO_TIME: u64 = u64::MAX;

/// What happened to a packet. Unknown kinds are read like others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordKind(pub u8);

impl RecordKind {
    /// Receiver: arrived within the loss threshold.
    pub const ARRIVED: Self = Self(1);
    /// Receiver: arrived after the loss threshold (RFC 7680).
    pub const LATE: Self = Self(2);
    /// Receiver: another copy of a datagram that had arrived (RFC 5560).
    pub const DUPLICATE: Self = Self(3);
    /// Receiver: wrong tag or content.
    pub const CORRUPTED: Self = Self(4);
    /// Receiver: shorter than sent.
    pub const TRUNCATED: Self = Self(5);
    /// Emulator: forwarded.
    pub const FORWARDED: Self = Self(16);
    /// Emulator: dropped by a loss law, as planned.
    pub const LOST: Self = Self(17);
    /// Emulator: dropped by the planned queue.
    pub const QUEUE_DROPPED: Self = Self(18);
    /// Emulator: dropped because the emulator or its host could not keep up.
    pub const UNPLANNED: Self = Self(19);
    /// Emulator: not a packet. A new configuration took effect at `time1`; its number is the sequence
    /// number.
    pub const CONFIGURED: Self = Self(32);

    /// The kind's name in the documentation; `None` if it is unknown in this version.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::ARRIVED => "arrived",
            Self::LATE => "late",
            Self::DUPLICATE => "duplicate",
            Self::CORRUPTED => "corrupted",
            Self::TRUNCATED => "truncated",
            Self::FORWARDED => "forwarded",
            Self::LOST => "lost",
            Self::QUEUE_DROPPED => "queue_dropped",
            Self::UNPLANNED => "unplanned",
            Self::CONFIGURED => "configured",
            _ => return None,
        })
    }
}

/// Flag: content was changed (emulator) or found to be changed (receiver).
pub const FLAG_MODIFIED: u32 = 1;
/// Flag: arrived or was forwarded after a later sequence number.
pub const FLAG_REORDERED: u32 = 2;
/// Flag: carries ECN Congestion Experienced.
pub const FLAG_MARKED: u32 = 4;
/// Flag: delayed by a delay law.
pub const FLAG_DELAYED: u32 = 8;
/// Flag: in the time that is omitted from results.
pub const FLAG_WARM_UP: u32 = 16;
/// Flag: the time is that of the coalesced batch in which the packet arrived.
pub const FLAG_COALESCED: u32 = 32;
/// Flag: control traffic of a Weir test, which has draws of its own (emulator).
pub const FLAG_CONTROL: u32 = 64;

/// The flags with their names in the documentation.
pub const FLAGS: [(u32, &str); 7] = [
    (FLAG_MODIFIED, "modified"),
    (FLAG_REORDERED, "reordered"),
    (FLAG_MARKED, "marked"),
    (FLAG_DELAYED, "delayed"),
    (FLAG_WARM_UP, "warm_up"),
    (FLAG_COALESCED, "coalesced"),
    (FLAG_CONTROL, "control"),
];

/// One packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sequence number in its flow, extended to 64 bits.
    pub sequence: u64,
    /// Receiver: the sender's send time. Emulator: arrival at its entry. ns, below 2⁶⁴ − 1.
    pub time1_ns: Option<u64>,
    /// Receiver: the time of arrival. Emulator: that of departure. ns, below 2⁶⁴ − 1.
    pub time2_ns: Option<u64>,
    /// Number of the flow.
    pub flow: u32,
    /// Receiver: bytes of the UDP payload. Emulator: bytes of the frame without check sequence.
    pub size_bytes: u32,
    /// 0 for the first packet of a sequence number, 1 for its first duplicate, …
    pub copy: u16,
    /// What happened.
    pub kind: RecordKind,
    /// 0 forward (A→B), 1 reverse (B→A).
    pub direction: u8,
    /// Bits such as [`FLAG_MODIFIED`].
    pub flags: u32,
}

impl Record {
    /// The record's bytes.
    #[must_use]
    pub(crate) fn encode(&self) -> [u8; RECORD_LEN] {
        let mut out = [0; RECORD_LEN];
        out[..8].copy_from_slice(&self.sequence.to_le_bytes());
        out[8..16].copy_from_slice(&self.time1_ns.unwrap_or(NO_TIME).to_le_bytes());
        out[16..24].copy_from_slice(&self.time2_ns.unwrap_or(NO_TIME).to_le_bytes());
        out[24..28].copy_from_slice(&self.flow.to_le_bytes());
        out[28..32].copy_from_slice(&self.size_bytes.to_le_bytes());
        out[32..34].copy_from_slice(&self.copy.to_le_bytes());
        out[34] = self.kind.0;
        out[35] = self.direction;
        out[36..].copy_from_slice(&self.flags.to_le_bytes());
        out
    }

    /// Decodes a record; any bytes are valid.
    #[must_use]
    pub(crate) fn decode(bytes: &[u8; RECORD_LEN]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        let time = |i: usize| Some(word(i)).filter(|&time| time != NO_TIME);
        Self {
            sequence: word(0),
            time1_ns: time(1),
            time2_ns: time(2),
            flow: word(3) as u32,
            size_bytes: (word(3) >> 32) as u32,
            copy: word(4) as u16,
            kind: RecordKind(bytes[34]),
            direction: bytes[35],
            flags: (word(4) >> 32) as u32,
        }
    }
}

/// An emulator's additions to a [`Record`]: the planned departure and the native header on arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Judged {
    /// Planned departure, ns on the clock of the record's times. `None` for packets that never leave.
    pub asked_ns: Option<u64>,
    /// Sequence number in the native data header, before any damage.
    pub native_sequence: Option<u64>,
    /// Flow number in the native data header; valid with `native_sequence`.
    pub native_flow: u32,
}

impl Judged {
    /// The bytes of the record with the emulator's additions.
    #[must_use]
    pub fn encode(&self, record: &Record) -> [u8; JUDGED_LEN] {
        let mut out = [0; JUDGED_LEN];
        out[..RECORD_LEN].copy_from_slice(&record.encode());
        out[40..48].copy_from_slice(&self.asked_ns.unwrap_or(NO_TIME).to_le_bytes());
        out[48..56].copy_from_slice(&self.native_sequence.unwrap_or(NO_TIME).to_le_bytes());
        out[56..60].copy_from_slice(&self.native_flow.to_le_bytes());
        out
    }

    /// Decodes the bytes after the first [`RECORD_LEN`] of an emulator's record.
    #[must_use]
    fn decode(bytes: &[u8; JUDGED_LEN - RECORD_LEN]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| Some(u64::from_le_bytes(words[i])).filter(|&word| word != NO_TIME);
        Self {
            asked_ns: word(0),
            native_sequence: word(1),
            native_flow: u64::from_le_bytes(words[2]) as u32,
        }
    }
}

/// An error of writing or reading a packet log.
#[derive(Debug, thiserror::Error)]
pub enum PacketsError {
    /// The output failed.
    #[error("packet log: cannot write {what}")]
    Write {
        /// What was being written.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The input failed.
    #[error("packet log: cannot read {what}")]
    Read {
        /// What was being read.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The input is not a packet log.
    #[error("packet log: the file is not a packet log")]
    Magic,
    /// The version is not supported.
    #[error("packet log: unsupported version {0}, expected {VERSION}")]
    Version(u16),
    /// The record size is out of the range of version 1.
    #[error("packet log: records of {0} bytes, expected {RECORD_LEN} to {MAX_RECORD_LEN}")]
    RecordLen(usize),
    /// The metadata exceeds the limit.
    #[error("packet log: metadata of {0} bytes, the maximum is {MAX_METADATA_LEN}")]
    MetadataLen(usize),
    /// The metadata is not UTF-8.
    #[error("packet log: metadata is not UTF-8")]
    MetadataText,
    /// The input ends inside the header.
    #[error("packet log: the file ends inside its header")]
    TruncatedHeader,
    /// The input ends inside a record, for example after an interrupted run.
    #[error("packet log: the file ends inside a record, after {records} whole ones")]
    TruncatedRecord {
        /// Whole records before it.
        records: u64,
    },
}

/// Writes a packet log.
#[derive(Debug)]
pub struct PacketLogWriter<W> {
    out: W,
    record_len: usize,
}

impl<W: Write> PacketLogWriter<W> {
    /// Writes the header. `metadata` is one JSON object; it is not parsed.
    ///
    /// # Errors
    /// [`PacketsError::MetadataLen`] above [`MAX_METADATA_LEN`], [`PacketsError::Write`].
    pub fn new(out: W, metadata: &str) -> Result<Self, PacketsError> {
        Self::of_length(out, metadata, RECORD_LEN)
    }

    /// Writes the header of an emulator's log. Write its records with [`PacketLogWriter::write_judged`].
    ///
    /// # Errors
    /// As [`PacketLogWriter::new`].
    pub fn judged(out: W, metadata: &str) -> Result<Self, PacketsError> {
        Self::of_length(out, metadata, JUDGED_LEN)
    }

    fn of_length(mut out: W, metadata: &str, record_len: usize) -> Result<Self, PacketsError> {
        // Spaces after JSON are ignored; they align the records for readers that map the file.
        let len = metadata.len().next_multiple_of(8);
        let declared = u32::try_from(len)
            .ok()
            .filter(|_| len <= MAX_METADATA_LEN)
            .ok_or(PacketsError::MetadataLen(metadata.len()))?;
        let mut header = Vec::with_capacity(16 + len);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend((record_len as u16).to_le_bytes());
        header.extend(declared.to_le_bytes());
        header.extend(metadata.as_bytes());
        header.resize(16 + len, b' ');
        out.write_all(&header)
            .map_err(|source| PacketsError::Write { what: "its header", source })?;
        Ok(Self { out, record_len })
    }

    /// Writes one record.
    ///
    /// # Errors
    /// [`PacketsError::Write`].
    #[inline]
    pub fn write(&mut self, record: &Record) -> Result<(), PacketsError> {
        self.write_judged(record, &Judged::default())
    }

    /// Writes one record with the emulator's additions; a log made by [`new`](Self::new) omits them.
    ///
    /// # Errors
    /// [`PacketsError::Write`].
    #[inline]
    pub fn write_judged(&mut self, record: &Record, judged: &Judged) -> Result<(), PacketsError> {
        self.out
            .write_all(&judged.encode(record)[..self.record_len])
            .map_err(|source| PacketsError::Write { what: "a record", source })?;
        Ok(())
    }

    /// Flushes buffered records, so that a reader finds whole records.
    ///
    /// # Errors
    /// [`PacketsError::Write`].
    pub fn flush(&mut self) -> Result<(), PacketsError> {
        self.out.flush().map_err(|source| PacketsError::Write { what: "buffered records", source })
    }

    /// Flushes and returns the output.
    ///
    /// # Errors
    /// [`PacketsError::Write`].
    pub fn finish(mut self) -> Result<W, PacketsError> {
        self.out.flush().map_err(|source| PacketsError::Write { what: "its end", source })?;
        Ok(self.out)
    }
}

/// Reads a packet log, record by record.
#[derive(Debug)]
pub struct PacketLogReader<R> {
    input: R,
    metadata: String,
    record_len: usize,
    records: u64,
    ended: bool,
}

/// Reads until `out` is full or the input ends; returns the number of bytes.
fn read_full(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < out.len() {
        match input.read(&mut out[have..]) {
            Ok(0) => break,
            // A reader that reports more bytes than fit breaks its contract; stay in bounds.
            Ok(n) => have = (have + n).min(out.len()),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(have)
}

impl<R: Read> PacketLogReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// See [`PacketsError`]. Memory for the metadata grows as it arrives, up to [`MAX_METADATA_LEN`].
    pub fn new(mut input: R) -> Result<Self, PacketsError> {
        let read = |source| PacketsError::Read { what: "its header", source };
        let mut head = [0; 16];
        let have = read_full(&mut input, &mut head).map_err(read)?;
        if !head[..have].starts_with(&MAGIC[..have.min(MAGIC.len())]) || have == 0 {
            return Err(PacketsError::Magic);
        }
        if have < head.len() {
            return Err(PacketsError::TruncatedHeader);
        }
        let version = u16::from_le_bytes([head[8], head[9]]);
        if version != VERSION {
            return Err(PacketsError::Version(version));
        }
        let record_len = usize::from(u16::from_le_bytes([head[10], head[11]]));
        if !(RECORD_LEN..=MAX_RECORD_LEN).contains(&record_len) {
            return Err(PacketsError::RecordLen(record_len));
        }
        let len = u32::from_le_bytes([head[12], head[13], head[14], head[15]]) as usize;
        if len > MAX_METADATA_LEN {
            return Err(PacketsError::MetadataLen(len));
        }
        let mut metadata = Vec::new();
        input.by_ref().take(len as u64).read_to_end(&mut metadata).map_err(read)?;
        if metadata.len() < len {
            return Err(PacketsError::TruncatedHeader);
        }
        let mut metadata = String::from_utf8(metadata).map_err(|_| PacketsError::MetadataText)?;
        metadata.truncate(metadata.trim_end_matches(' ').len());
        Ok(Self { input, metadata, record_len, records: 0, ended: false })
    }

    /// The metadata, without its padding.
    #[must_use]
    pub fn metadata(&self) -> &str {
        &self.metadata
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`PacketsError::Read`], or [`PacketsError::TruncatedRecord`] if the input ends inside a record;
    /// after either there are no more records.
    pub fn read(&mut self) -> Result<Option<Record>, PacketsError> {
        Ok(self.read_judged()?.map(|(record, _)| record))
    }

    /// The next record, with the additions if an emulator wrote the log; `None` at the end.
    ///
    /// # Errors
    /// As [`PacketLogReader::read`].
    pub fn read_judged(&mut self) -> Result<Option<(Record, Option<Judged>)>, PacketsError> {
        if self.ended {
            return Ok(None);
        }
        let mut buffer = [0; MAX_RECORD_LEN];
        let have =
            read_full(&mut self.input, &mut buffer[..self.record_len]).map_err(|source| {
                self.ended = true;
                PacketsError::Read { what: "a record", source }
            })?;
        let fields = buffer.first_chunk::<RECORD_LEN>();
        match fields {
            Some(fields) if have == self.record_len => {
                self.records += 1;
                let judged = buffer[RECORD_LEN..self.record_len].first_chunk().map(Judged::decode);
                Ok(Some((Record::decode(fields), judged)))
            }
            _ => {
                self.ended = true;
                if have == 0 {
                    Ok(None)
                } else {
                    Err(PacketsError::TruncatedRecord { records: self.records })
                }
            }
        }
    }
}

impl<R: Read> Iterator for PacketLogReader<R> {
    type Item = Result<Record, PacketsError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RECORD: Record = Record {
        sequence: 0x0102_0304_0506_0708,
        time1_ns: Some(9),
        time2_ns: None,
        flow: 0x0a0b,
        size_bytes: 1472,
        copy: 1,
        kind: RecordKind::DUPLICATE,
        direction: 1,
        flags: FLAG_COALESCED,
    };

    #[test]
    fn bytes_as_documented() {
        let mut writer = PacketLogWriter::new(Vec::new(), r#"{"a":1}"#).unwrap();
        writer.write(&RECORD).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes[..24], *b"\x89WEIRPK\n\x01\0\x28\0\x08\0\0\0{\"a\":1} ");
        let mut want = vec![8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0];
        want.extend([0xff; 8]);
        want.extend([0x0b, 0x0a, 0, 0, 0xc0, 5, 0, 0, 1, 0, 3, 1, 32, 0, 0, 0]);
        assert_eq!(bytes[24..], want);
    }

    #[test]
    fn an_emulators_record_is_read_with_and_without_additions() {
        let judged =
            Judged { asked_ns: Some(7), native_sequence: Some(u64::MAX - 1), native_flow: 0xfefd };
        let mut writer = PacketLogWriter::judged(Vec::new(), "{}").unwrap();
        writer.write_judged(&RECORD, &judged).unwrap();
        writer.write(&RECORD).unwrap();
        let bytes = writer.finish().unwrap();
        assert_eq!(bytes[10..12], [64, 0]);
        assert_eq!(bytes[24 + 40..24 + 48], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24 + 56..24 + 64], [0xfd, 0xfe, 0, 0, 0, 0, 0, 0]);
        let mut reader = PacketLogReader::new(&bytes[..]).unwrap();
        assert_eq!(reader.read_judged().unwrap(), Some((RECORD, Some(judged))));
        assert_eq!(reader.read_judged().unwrap(), Some((RECORD, Some(Judged::default()))));
        assert_eq!(reader.read_judged().unwrap(), None);
        let mut plain = PacketLogReader::new(&bytes[..]).unwrap();
        assert_eq!(plain.read().unwrap(), Some(RECORD));
        // A receiver's log has no additions.
        let bytes = log(&[RECORD]);
        let mut reader = PacketLogReader::new(&bytes[..]).unwrap();
        assert_eq!(reader.read_judged().unwrap(), Some((RECORD, None)));
    }

    fn log(records: &[Record]) -> Vec<u8> {
        let mut writer = PacketLogWriter::new(Vec::new(), "{}").unwrap();
        records.iter().for_each(|r| writer.write(r).unwrap());
        writer.finish().unwrap()
    }

    #[test]
    fn an_interrupted_log_returns_its_whole_records() {
        let bytes = log(&[RECORD; 3]);
        let mut reader = PacketLogReader::new(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(reader.read().unwrap(), Some(RECORD));
        assert_eq!(reader.read().unwrap(), Some(RECORD));
        assert!(matches!(reader.read(), Err(PacketsError::TruncatedRecord { records: 2 })));
        assert!(matches!(reader.read(), Ok(None)));
    }

    #[test]
    fn each_bad_header_has_its_error() {
        let good = log(&[]);
        let open = |at: usize, with: &[u8]| {
            let mut bytes = good.clone();
            bytes[at..at + with.len()].copy_from_slice(with);
            PacketLogReader::new(&bytes[..]).unwrap_err()
        };
        assert!(matches!(PacketLogReader::new(&b""[..]), Err(PacketsError::Magic)));
        assert!(matches!(PacketLogReader::new(&b"PK\x03\x04"[..]), Err(PacketsError::Magic)));
        assert!(matches!(open(3, b"X"), PacketsError::Magic));
        assert!(matches!(open(8, &[2]), PacketsError::Version(2)));
        assert!(matches!(open(10, &[39]), PacketsError::RecordLen(39)));
        assert!(matches!(open(10, &[1, 1]), PacketsError::RecordLen(257)));
        assert!(matches!(open(12, &[1, 0, 0x10]), PacketsError::MetadataLen(0x0010_0001)));
        assert!(matches!(open(12, &[9]), PacketsError::TruncatedHeader));
        assert!(matches!(open(17, &[0xff]), PacketsError::MetadataText));
        assert!(matches!(PacketLogReader::new(&good[..9]), Err(PacketsError::TruncatedHeader)));
        let long = " ".repeat(MAX_METADATA_LEN + 1);
        let error = PacketLogWriter::new(Vec::new(), &long).unwrap_err();
        assert!(matches!(error, PacketsError::MetadataLen(len) if len == MAX_METADATA_LEN + 1));
    }

    #[test]
    fn longer_records_of_a_later_writer_are_read() {
        let mut bytes = log(&[]);
        bytes[10] = 48;
        for _ in 0..2 {
            bytes.extend(RECORD.encode());
            bytes.extend([0xab; 8]);
        }
        let read: Vec<_> = PacketLogReader::new(&bytes[..]).unwrap().map(Result::unwrap).collect();
        assert_eq!(read, [RECORD; 2]);
    }

    /// A disk that is full after a few bytes.
    #[derive(Debug)]
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            let n = bytes.len().min(self.0);
            self.0 -= n;
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_of_what_was_written() {
        let part = |error| match error {
            PacketsError::Write { what, .. } => what,
            other => panic!("{other:?}"),
        };
        let header = part(PacketLogWriter::new(Full(10), "{}").unwrap_err());
        let mut writer = PacketLogWriter::new(Full(30), "{}").unwrap();
        let record = part(writer.write(&RECORD).unwrap_err());
        assert!(header.contains("header") && record.contains("record"), "{header}, {record}");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            bytes in prop::collection::vec(any::<[u64; 5]>(), 0..20),
            metadata in "\\{[a-zé]{0,20}\\}",
        ) {
            let records: Vec<Record> = bytes
                .iter()
                .map(|words| {
                    let mut raw = [0; RECORD_LEN];
                    for (chunk, word) in raw.chunks_mut(8).zip(words) {
                        chunk.copy_from_slice(&word.to_ne_bytes());
                    }
                    Record::decode(&raw)
                })
                .collect();
            let mut writer = PacketLogWriter::new(Vec::new(), &metadata).unwrap();
            records.iter().for_each(|r| writer.write(r).unwrap());
            let bytes = writer.finish().unwrap();
            prop_assert_eq!(bytes.len() % 8, 0);
            let mut reader = PacketLogReader::new(&bytes[..]).unwrap();
            prop_assert_eq!(reader.metadata(), metadata);
            let read: Result<Vec<_>, _> = reader.by_ref().collect();
            prop_assert_eq!(read.unwrap(), records);
        }
    }
}
