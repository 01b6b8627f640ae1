//! Reading captures.

use std::io::{ErrorKind, Read};

use super::{
    BYTE_ORDER_MAGIC, CaptureFormat, ENHANCED_PACKET, INTERFACE_DESCRIPTION, MAX_CAPTURED_BYTES,
    OPTION_TIME_OFFSET, OPTION_TIME_RESOLUTION, PACKET, PCAP_MICROSECONDS, PCAP_NANOSECONDS,
    SECTION_HEADER, SIMPLE_PACKET,
};
use crate::error::{Error, Result};

/// Maximum number of interfaces of one section.
const MAX_INTERFACES: usize = 65_536;
/// Maximum length of an interface description, bytes; a longer one is refused.
const MAX_DESCRIPTION_BYTES: usize = 65_536;

/// Maximum time, in the year 2262. It leaves room for delays that are added to it.
const MAX_TIME_NS: u64 = u64::MAX / 2;

/// One frame of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedFrame<'a> {
    /// Time of capture, ns since 1970-01-01 UTC; at most `u64::MAX / 2`.
    pub time_ns: u64,
    /// Its length on the wire, bytes; longer than `data` if the capture truncated it.
    pub original_len: u32,
    /// Number of the interface within its section; 0 in classic pcap.
    pub interface: u32,
    /// Link type: [`super::LINK_TYPE_ETHERNET`], or one that Weir does not parse.
    pub link_type: u16,
    /// The captured bytes.
    pub data: &'a [u8],
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: u16,
    resolution: Resolution,
    offset_seconds: i64,
}

#[derive(Clone, Copy)]
enum Resolution {
    /// 10⁻ⁿ s.
    Decimal(u8),
    /// 2⁻ⁿ s.
    Binary(u8),
}

impl Resolution {
    fn to_ns(self, units: u64) -> Option<u64> {
        match self {
            Resolution::Decimal(n @ 0..=9) => units.checked_mul(10_u64.pow(9 - u32::from(n))),
            // If 10^(n-9) exceeds 64 bits, the quotient is 0.
            Resolution::Decimal(n) => {
                Some(10_u64.checked_pow(u32::from(n) - 9).map_or(0, |d| units / d))
            }
            Resolution::Binary(n) => {
                let ns = (u128::from(units) * 1_000_000_000).checked_shr(n.into()).unwrap_or(0);
                u64::try_from(ns).ok()
            }
        }
    }
}

/// Reads the frames of a capture, of either format and byte order, one by one.
///
/// Memory is bounded by [`MAX_CAPTURED_BYTES`] and the interfaces' descriptions for any input. The reader
/// should be buffered.
pub struct CaptureReader<R> {
    input: R,
    name: String,
    format: CaptureFormat,
    big_endian: bool,
    /// The only interface of classic pcap, or the current section's of pcapng.
    interfaces: Vec<Interface>,
    /// Bytes read so far.
    pub(super) at: u64,
    buffer: Vec<u8>,
    ended: bool,
}

impl<R> std::fmt::Debug for CaptureReader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureReader")
            .field("name", &self.name)
            .field("format", &self.format)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl<R: Read> CaptureReader<R> {
    /// Reads the capture's header. `name` appears in error messages.
    ///
    /// # Errors
    /// [`Error::Capture`] if it is not a capture; [`Error::System`] of the reader.
    pub fn new(input: R, name: impl Into<String>) -> Result<Self> {
        let mut reader = CaptureReader {
            input,
            name: name.into(),
            format: CaptureFormat::Pcap,
            big_endian: false,
            interfaces: Vec::new(),
            at: 0,
            buffer: Vec::new(),
            ended: false,
        };
        let magic: [u8; 4] = reader.need()?;
        if u32::from_be_bytes(magic) == SECTION_HEADER {
            reader.format = CaptureFormat::PcapNg;
            reader.section()?;
            return Ok(reader);
        }
        let decimals = |magic| match magic {
            PCAP_MICROSECONDS => Some(6),
            PCAP_NANOSECONDS => Some(9),
            _ => None,
        };
        let (big, little) = (u32::from_be_bytes(magic), u32::from_le_bytes(magic));
        reader.big_endian = decimals(big).is_some();
        let Some(decimals) = decimals(if reader.big_endian { big } else { little }) else {
            return Err(reader.bad("neither pcap nor pcapng"));
        };
        let header: [u8; 20] = reader.need()?;
        let major = reader.u16(&header, 0);
        if major != 2 {
            return Err(reader.bad(format!("unknown pcap version {major}, expected 2")));
        }
        // The upper bits of the last word describe the check sequence.
        let link_type = reader.u32(&header, 16) as u16;
        reader.interfaces.push(Interface {
            link_type,
            resolution: Resolution::Decimal(decimals),
            offset_seconds: 0,
        });
        Ok(reader)
    }

    /// The capture's format.
    pub fn format(&self) -> CaptureFormat {
        self.format
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Capture`] at the first invalid bytes, or if the capture ends within a frame. Frames before
    /// it are valid; none follow.
    pub fn next_frame(&mut self) -> Result<Option<CapturedFrame<'_>>> {
        if self.ended {
            return Ok(None);
        }
        // Set while reading, because reading can't continue after an error.
        self.ended = true;
        let found = match self.format {
            CaptureFormat::Pcap => self.record()?,
            CaptureFormat::PcapNg => self.blocks()?,
        };
        let Some((interface, time_ns, original_len)) = found else { return Ok(None) };
        self.ended = false;
        let link_type = self.interfaces[interface as usize].link_type;
        Ok(Some(CapturedFrame { time_ns, original_len, interface, link_type, data: &self.buffer }))
    }

    /// Reads a record of classic pcap.
    fn record(&mut self) -> Result<Option<(u32, u64, u32)>> {
        let Some(header) = self.some::<16>()? else { return Ok(None) };
        let (seconds, fraction) = (self.u32(&header, 0), self.u32(&header, 4));
        let (captured, original_len) = (self.u32(&header, 8), self.u32(&header, 12));
        let fraction_ns = self.interfaces[0].resolution.to_ns(fraction.into()).unwrap_or(0);
        self.data(captured)?;
        Ok(Some((0, u64::from(seconds) * 1_000_000_000 + fraction_ns, original_len)))
    }

    /// Reads blocks of pcapng up to the next one with a packet.
    fn blocks(&mut self) -> Result<Option<(u32, u64, u32)>> {
        loop {
            let Some(kind) = self.some::<4>()? else { return Ok(None) };
            if u32::from_be_bytes(kind) == SECTION_HEADER {
                self.section()?;
                continue;
            }
            let kind = self.u32(&kind, 0);
            let total = self.need::<4>()?;
            let total = self.u32(&total, 0);
            // Type, length, length again.
            let Some(body) = total.checked_sub(12).filter(|_| total.is_multiple_of(4)) else {
                return Err(self.bad(format!("a block cannot be {total} bytes long")));
            };
            let found = match kind {
                INTERFACE_DESCRIPTION => {
                    self.interface(body)?;
                    None
                }
                ENHANCED_PACKET | PACKET => Some(self.packet(kind, body)?),
                SIMPLE_PACKET => {
                    return Err(self.bad("a simple packet block has no timestamp"));
                }
                _ => {
                    self.skip(body.into())?;
                    None
                }
            };
            let again = self.need::<4>()?;
            if self.u32(&again, 0) != total {
                return Err(self.bad("a block's two lengths differ"));
            }
            if found.is_some() {
                return Ok(found);
            }
        }
    }

    /// Reads a section header after its type.
    fn section(&mut self) -> Result<()> {
        let header: [u8; 20] = self.need()?;
        let order = [header[4], header[5], header[6], header[7]];
        self.big_endian = match BYTE_ORDER_MAGIC {
            magic if magic == u32::from_be_bytes(order) => true,
            magic if magic == u32::from_le_bytes(order) => false,
            _ => return Err(self.bad("the section's byte-order magic is invalid")),
        };
        let total = self.u32(&header, 0);
        let major = self.u16(&header, 8);
        if major != 1 {
            return Err(self.bad(format!("unknown pcapng version {major}, expected 1")));
        }
        let Some(options) = total.checked_sub(28).filter(|_| total.is_multiple_of(4)) else {
            return Err(self.bad(format!("a section header cannot be {total} bytes long")));
        };
        self.skip(options.into())?;
        let again = self.need::<4>()?;
        if self.u32(&again, 0) != total {
            return Err(self.bad("a block's two lengths differ"));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn interface(&mut self, body: u32) -> Result<()> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(self.bad(format!("more than {MAX_INTERFACES} interfaces")));
        }
        if body < 8 || body as usize > MAX_DESCRIPTION_BYTES {
            return Err(
                self.bad(format!("an interface description's body cannot be {body} bytes long"))
            );
        }
        self.fill(body as usize)?;
        let mut interface = Interface {
            link_type: self.u16(&self.buffer, 0),
            resolution: Resolution::Decimal(6),
            offset_seconds: 0,
        };
        let mut at = 8;
        while let Some(head) = self.buffer.get(at..at + 4) {
            let (code, len) = (self.u16(head, 0), usize::from(self.u16(head, 2)));
            let Some(value) = self.buffer.get(at + 4..at + 4 + len) else {
                return Err(self.bad("an option reaches beyond its block"));
            };
            match (code, value) {
                (0, _) => break,
                (OPTION_TIME_RESOLUTION, &[n, ..]) if n & 0x80 != 0 => {
                    interface.resolution = Resolution::Binary(n & 0x7f);
                }
                (OPTION_TIME_RESOLUTION, &[n, ..]) => interface.resolution = Resolution::Decimal(n),
                (OPTION_TIME_OFFSET, &[a, b, c, d, e, f, g, h]) => {
                    let bytes = [a, b, c, d, e, f, g, h];
                    interface.offset_seconds = if self.big_endian {
                        i64::from_be_bytes(bytes)
                    } else {
                        i64::from_le_bytes(bytes)
                    };
                }
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        self.interfaces.push(interface);
        Ok(())
    }

    /// Reads an enhanced packet block or its obsolete predecessor, which differ only in the interface's
    /// number.
    fn packet(&mut self, kind: u32, body: u32) -> Result<(u32, u64, u32)> {
        let Some(rest) = body.checked_sub(20) else {
            return Err(self.bad(format!("a packet block's body cannot be {body} bytes long")));
        };
        let header: [u8; 20] = self.need()?;
        let interface = match kind {
            ENHANCED_PACKET => self.u32(&header, 0),
            _ => self.u16(&header, 0).into(),
        };
        let units = u64::from(self.u32(&header, 4)) << 32 | u64::from(self.u32(&header, 8));
        let (captured, original_len) = (self.u32(&header, 12), self.u32(&header, 16));
        let Some(&described) = self.interfaces.get(interface as usize) else {
            return Err(self.bad(format!("interface {interface} was not described")));
        };
        let Some(options) = captured.checked_next_multiple_of(4).and_then(|c| rest.checked_sub(c))
        else {
            return Err(self.bad("a packet reaches beyond its block"));
        };
        let time = described
            .resolution
            .to_ns(units)
            .map(i128::from)
            .map(|ns| ns + i128::from(described.offset_seconds) * 1_000_000_000)
            .and_then(|ns| u64::try_from(ns).ok())
            .filter(|ns| *ns <= MAX_TIME_NS);
        let Some(time_ns) = time else { return Err(self.bad("a timestamp is out of range")) };
        self.data(captured)?;
        self.skip(u64::from(captured.next_multiple_of(4) - captured) + u64::from(options))?;
        Ok((interface, time_ns, original_len))
    }

    /// Reads a frame's bytes into the buffer.
    fn data(&mut self, captured: u32) -> Result<()> {
        if captured as usize > MAX_CAPTURED_BYTES {
            return Err(self.bad(format!(
                "a frame has {captured} bytes, the maximum is {MAX_CAPTURED_BYTES}"
            )));
        }
        self.fill(captured as usize)
    }

    fn fill(&mut self, len: usize) -> Result<()> {
        self.buffer.resize(len, 0);
        let mut buffer = std::mem::take(&mut self.buffer);
        let whole = self.read(&mut buffer);
        self.buffer = buffer;
        if whole? == len { Ok(()) } else { Err(self.bad("it ends within a frame or block")) }
    }

    fn need<const N: usize>(&mut self) -> Result<[u8; N]> {
        match self.some()? {
            Some(bytes) => Ok(bytes),
            None => Err(self.bad("it ends within a header")),
        }
    }

    /// Reads `N` bytes; `None` at the end of the input.
    fn some<const N: usize>(&mut self) -> Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        match self.read(&mut bytes)? {
            0 => Ok(None),
            n if n == N => Ok(Some(bytes)),
            _ => Err(self.bad("it ends within a header")),
        }
    }

    /// Reads until `to` is full or the input ends; returns the number of bytes.
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < to.len() {
            match self.input.read(&mut to[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(Error::system("read", self.name.clone(), e)),
            }
        }
        self.at += filled as u64;
        Ok(filled)
    }

    fn skip(&mut self, mut len: u64) -> Result<()> {
        let mut scratch = [0; 4096];
        while len > 0 {
            let part = len.min(4096) as usize;
            if self.read(&mut scratch[..part])? < part {
                return Err(self.bad("it ends within a block"));
            }
            len -= part as u64;
        }
        Ok(())
    }

    fn u16(&self, bytes: &[u8], at: usize) -> u16 {
        let pair = [bytes[at], bytes[at + 1]];
        if self.big_endian { u16::from_be_bytes(pair) } else { u16::from_le_bytes(pair) }
    }

    fn u32(&self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self.big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }

    fn bad(&self, reason: impl Into<String>) -> Error {
        Error::Capture { capture: self.name.clone(), at: self.at, reason: reason.into() }
    }
}

/// Fuzz body: checks that reading ends within its memory bounds, and that the frames are the same after
/// writing and reading again.
pub(crate) fn fuzz(data: &[u8]) {
    let Ok(mut reader) = CaptureReader::new(data, "fuzz") else { return };
    let mut frames: Vec<(u64, u32, Vec<u8>)> = Vec::new();
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.data.len() <= MAX_CAPTURED_BYTES && frame.data.len() <= data.len());
        frames.push((frame.time_ns, frame.original_len, frame.data.to_vec()));
    }
    assert!(matches!(reader.next_frame(), Ok(None)), "the end stays the end");
    assert!(reader.buffer.capacity() <= 2 * MAX_CAPTURED_BYTES);
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let Ok(mut writer) =
        super::CaptureWriter::new(&mut bytes, "fuzz", CaptureFormat::PcapNg, &["x"])
    else {
        return;
    };
    for (time_ns, original_len, frame) in &frames {
        assert!(writer.write(0, *time_ns, *original_len, frame).is_ok());
    }
    drop(writer);
    let Ok(mut again) = CaptureReader::new(&bytes[..], "again") else { panic!("what was written") };
    for (time_ns, original_len, frame) in &frames {
        let Ok(Some(read)) = again.next_frame() else { panic!("a frame that was written") };
        assert_eq!(
            (read.time_ns, read.original_len, read.data),
            (*time_ns, *original_len, &frame[..])
        );
    }
}
