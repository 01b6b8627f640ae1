//! Writing captures.

use std::io::Write;

use super::{
    BYTE_ORDER_MAGIC, CaptureFormat, ENHANCED_PACKET, INTERFACE_DESCRIPTION, LINK_TYPE_ETHERNET,
    MAX_CAPTURED_BYTES, OPTION_NAME, OPTION_TIME_RESOLUTION, PCAP_NANOSECONDS, SECTION_HEADER,
};
use crate::error::{Error, Result};

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
        let name = name.into();
        let count = interfaces.len() as u32;
        let wrong = match format {
            CaptureFormat::Pcap => count != 1,
            CaptureFormat::PcapNg => !(1..=1024).contains(&count),
        };
        if wrong || interfaces.iter().any(|interface| interface.len() > 255) {
            let reason =
                "classic pcap has one interface, pcapng 1 to 1024, with names of at most 255 bytes";
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

    fn describe(&mut self, interface: &str) {
        let name_len = interface.len();
        let total = 20 + 4 + name_len.next_multiple_of(4) + 8 + 4;
        self.u32(INTERFACE_DESCRIPTION);
        self.u32(total as u32);
        self.u32(LINK_TYPE_ETHERNET.into());
        self.u32(0);
        self.buffer.extend(OPTION_NAME.to_le_bytes());
        self.buffer.extend((name_len as u16).to_le_bytes());
        self.buffer.extend(interface.as_bytes());
        self.pad(name_len);
        self.buffer.extend(OPTION_TIME_RESOLUTION.to_le_bytes());
        self.buffer.extend([1, 0, 9, 0, 0, 0]);
        self.u32(0);
        self.u32(total as u32);
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
                let total = 32 + len.next_multiple_of(4);
                self.u32(ENHANCED_PACKET);
                self.u32(total);
                self.u32(interface);
                self.u32((time_ns >> 32) as u32);
                self.u32(time_ns as u32);
                self.u32(len);
                self.u32(original_len);
                self.buffer.extend(frame);
                self.pad(frame.len());
                self.u32(total);
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
