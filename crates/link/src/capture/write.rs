//! Writing captures.

use std::io::Write;

use super::{
    BYTE_ORDER_MAGIC, CaptureFormat, ENHANCED_PACKET, INTERFACE_DESCRIPTION, LINK_TYPE_ETHERNET,
    MAX_CAPTURED_BYTES, OPTION_COMMENT, OPTION_DESCRIPTION, OPTION_FLAGS, OPTION_NAME,
    OPTION_TIME_RESOLUTION, PCAP_NANOSECONDS, SECTION_HEADER,
};
use crate::error::{Error, Result};

/// Maximum length of a comment, bytes; the rest is omitted.
const MAX_COMMENT_BYTES: usize = 1024;

/// An interface of a pcapng capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaptureInterface<'a> {
    /// Its name, at most 255 bytes.
    pub name: &'a str,
    /// Its description, at most 1024 bytes; empty: none.
    pub description: &'a str,
    /// Maximum number of bytes of a frame that are captured; 0: no limit.
    pub snap_bytes: u32,
}

/// What a pcapng capture has about a frame in addition to its bytes and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameNotes<'a> {
    /// Whether the interface received it, or sent it; `None`: unknown.
    pub is_received: Option<bool>,
    /// A comment, of which 1024 bytes at most are written; empty: none.
    pub comment: &'a str,
}

/// Writes Ethernet frames as a capture with times in ns. It is little-endian on every machine, so that the
/// same frames make the same bytes. The writer should be buffered; call [`flush`](Self::flush) at the end.
#[derive(Debug)]
pub struct CaptureWriter<W> {
    output: W,
    name: String,
    format: CaptureFormat,
    interfaces: u32,
    buffer: Vec<u8>,
}

impl<W: Write> CaptureWriter<W> {
    /// Writes the capture's header. `name` appears in error messages. `interfaces` are the names of the
    /// captured interfaces: exactly one for classic pcap, which does not store it.
    ///
    /// # Errors
    /// [`Error::Refused`] for another number of interfaces, [`Error::System`] of the writer.
    pub fn new(
        output: W,
        name: impl Into<String>,
        format: CaptureFormat,
        interfaces: &[&str],
    ) -> Result<Self> {
        let named = |name| CaptureInterface { name, ..CaptureInterface::default() };
        let interfaces: Vec<_> = interfaces.iter().copied().map(named).collect();
        Self::describing(output, name, format, &interfaces)
    }

    /// As [`new`](Self::new), with what pcapng has about interfaces in addition to their names.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn describing(
        output: W,
        name: impl Into<String>,
        format: CaptureFormat,
        interfaces: &[CaptureInterface<'_>],
    ) -> Result<Self> {
        let name = name.into();
        let count = interfaces.len() as u32;
        let wrong = match format {
            CaptureFormat::Pcap => count != 1,
            CaptureFormat::PcapNg => !(1..=1024).contains(&count),
        };
        let is_long = |interface: &CaptureInterface<'_>| {
            interface.name.len() > 255 || interface.description.len() > 1024
        };
        if wrong || interfaces.iter().any(is_long) {
            let reason = "classic pcap has one interface, pcapng 1 to 1024, with names of at most 255 bytes \
                 and descriptions of at most 1024";
            return Err(Error::refused("write capture", name, reason));
        }
        let mut writer =
            CaptureWriter { output, name, format, interfaces: count, buffer: Vec::new() };
        match format {
            CaptureFormat::Pcap => {
                writer.u32(PCAP_NANOSECONDS);
                writer.buffer.extend([2, 0, 4, 0]);
                writer.buffer.extend([0; 8]);
                writer.u32(MAX_CAPTURED_BYTES as u32);
                writer.u32(LINK_TYPE_ETHERNET.into());
            }
            CaptureFormat::PcapNg => {
                writer.u32(SECTION_HEADER);
                writer.u32(28);
                writer.u32(BYTE_ORDER_MAGIC);
                writer.buffer.extend([1, 0, 0, 0]);
                writer.buffer.extend([0xff; 8]);
                writer.u32(28);
                for interface in interfaces {
                    writer.describe(interface);
                }
            }
        }
        writer.out()?;
        Ok(writer)
    }

    fn describe(&mut self, interface: &CaptureInterface<'_>) {
        let start = self.buffer.len();
        self.u32(INTERFACE_DESCRIPTION);
        self.u32(0);
        self.u32(LINK_TYPE_ETHERNET.into());
        self.u32(interface.snap_bytes);
        self.option(OPTION_NAME, interface.name.as_bytes());
        if !interface.description.is_empty() {
            self.option(OPTION_DESCRIPTION, interface.description.as_bytes());
        }
        self.option(OPTION_TIME_RESOLUTION, &[9]);
        self.u32(0);
        self.close_block(start);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.buffer.extend(code.to_le_bytes());
        self.buffer.extend((value.len() as u16).to_le_bytes());
        self.buffer.extend(value);
        self.pad(value.len());
    }

    /// Writes the length of the block that started at `start`, at both ends.
    fn close_block(&mut self, start: usize) {
        let total = (self.buffer.len() + 4 - start) as u32;
        self.buffer[start + 4..start + 8].copy_from_slice(&total.to_le_bytes());
        self.u32(total);
    }

    /// Writes a frame that arrived on interface number `interface` at `time_ns` since 1970-01-01 UTC and
    /// was `original_len` bytes long.
    ///
    /// # Errors
    /// [`Error::Refused`] for a frame longer than [`MAX_CAPTURED_BYTES`], an undescribed interface, or a
    /// time out of range for classic pcap (after 2106); [`Error::System`] of the writer.
    pub fn write(
        &mut self,
        interface: u32,
        time_ns: u64,
        original_len: u32,
        frame: &[u8],
    ) -> Result<()> {
        self.write_noted(interface, time_ns, original_len, frame, &FrameNotes::default())
    }

    /// As [`write`](Self::write), with notes, which classic pcap does not store.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_noted(
        &mut self,
        interface: u32,
        time_ns: u64,
        original_len: u32,
        frame: &[u8],
        notes: &FrameNotes<'_>,
    ) -> Result<()> {
        let refused =
            |reason: &str| Err(Error::refused("write a frame to", self.name.clone(), reason));
        if frame.len() > MAX_CAPTURED_BYTES {
            return refused("it is longer than the maximum of a capture");
        }
        if interface >= self.interfaces {
            return refused("its interface is not described");
        }
        let len = frame.len() as u32;
        match self.format {
            CaptureFormat::Pcap => {
                let Ok(seconds) = u32::try_from(time_ns / 1_000_000_000) else {
                    return refused("its time is out of range for classic pcap");
                };
                self.u32(seconds);
                self.u32((time_ns % 1_000_000_000) as u32);
                self.u32(len);
                self.u32(original_len);
                self.buffer.extend(frame);
            }
            CaptureFormat::PcapNg => {
                let start = self.buffer.len();
                self.u32(ENHANCED_PACKET);
                self.u32(0);
                self.u32(interface);
                self.u32((time_ns >> 32) as u32);
                self.u32(time_ns as u32);
                self.u32(len);
                self.u32(original_len);
                self.buffer.extend(frame);
                self.pad(frame.len());
                if *notes != FrameNotes::default() {
                    if !notes.comment.is_empty() {
                        let end = notes.comment.floor_char_boundary(MAX_COMMENT_BYTES);
                        self.option(OPTION_COMMENT, &notes.comment.as_bytes()[..end]);
                    }
                    if let Some(is_received) = notes.is_received {
                        let direction: u32 = if is_received { 1 } else { 2 };
                        self.option(OPTION_FLAGS, &direction.to_le_bytes());
                    }
                    self.u32(0);
                }
                self.close_block(start);
            }
        }
        self.out()
    }

    /// Flushes the underlying writer.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn flush(&mut self) -> Result<()> {
        self.output.flush().map_err(|e| Error::system("write", self.name.clone(), e))
    }

    /// The underlying writer.
    pub fn output_mut(&mut self) -> &mut W {
        &mut self.output
    }

    fn u32(&mut self, value: u32) {
        self.buffer.extend(value.to_le_bytes());
    }

    fn pad(&mut self, len: usize) {
        self.buffer.extend(&[0; 3][..len.next_multiple_of(4) - len]);
    }

    fn out(&mut self) -> Result<()> {
        let written = self.output.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|e| Error::system("write", self.name.clone(), e))
    }
}
