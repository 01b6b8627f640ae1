//! Sends flows' frames.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::queue::Queue;
use super::{MAX_FLOWS, Numbers, attach};
use crate::bpf::{Attachment, Map, index, load_compiled, run_with_frames};
use crate::error::{Error, Result};

static PROGRAM: &[u8] = include_bytes!("../../bpf/send.bin");

/// Bytes before the data header: Ethernet, IP without options, UDP; or Ethernet and the header of frames without IP.
const IPV4_BYTES: usize = 14 + 20 + 8;
const IPV6_BYTES: usize = 14 + 40 + 8;
const LINK_BYTES: usize = 14 + 8;
/// The native data header.
const HEADER_BYTES: usize = 32;
/// The metadata in front of a frame: the flow's number here.
const METADATA_BYTES: u32 = 4;
/// Words of `struct sender` (bpf/send.bpf.c).
const WORDS: usize = 6;

/// The frame that all frames of a flow are made of.
#[derive(Debug, Clone)]
pub struct Template {
    /// Ethernet, IPv4 without options or IPv6, UDP with checksum 0, and a payload that begins with 32 bytes: a native
    /// data header whose sequence number, send time and tag are 0. Or Ethernet and the header of frames without IP
    /// (`weir_wire::ethernet`) in front of this payload.
    pub frame: Vec<u8>,
    /// The sum that the checksum of UDP is made of, over this frame and the pseudo-header: of words in this host's byte
    /// order. Not used without UDP.
    pub sum: u32,
    /// The key of the tags.
    pub key: [u64; 2],
}

/// The program that sends through an interface, attached to it. Dropping it, or the end of the process, detaches it.
#[derive(Debug)]
pub struct SendProgram {
    interface: String,
    number: u32,
    program: OwnedFd,
    senders: Map,
    flows: Numbers,
    /// `None`: the driver's queue does not limit a call.
    queue: Option<Mutex<Queue>>,
    _attachment: Attachment,
}

impl SendProgram {
    /// Loads the program and attaches it to an interface (name and number) of the calling thread's network namespace.
    ///
    /// # Errors
    /// The kernel refused, or the interface has another program.
    pub fn attach(interface: (&str, u32)) -> Result<SendProgram> {
        let (name, number) = interface;
        let failed = |source| Error::system("load the XDP program that sends on", name, source);
        let senders = Map::array(WORDS, MAX_FLOWS).map_err(failed)?;
        let program = load_compiled(PROGRAM, &[&senders]).map_err(failed)?;
        let (attachment, _) = attach(&program, interface)?;
        let queue = Queue::of(interface)?.map(Mutex::new);
        let interface = name.to_owned();
        let flows = Numbers::default();
        Ok(SendProgram {
            interface,
            number,
            program,
            senders,
            flows,
            queue,
            _attachment: attachment,
        })
    }

    /// A sender of frames made of `template`.
    ///
    /// # Errors
    /// The template is too short, there are as many senders as possible, or the kernel refused.
    pub fn add(self: &Arc<Self>, template: Template) -> Result<FrameSender> {
        const ADD: &str = "add a flow to the XDP program on";
        let refused = |reason| Error::refused(ADD, &*self.interface, reason);
        let Template { frame, sum, key } = template;
        let offset = match frame.get(12..14) {
            Some([0x86, 0xdd]) => IPV6_BYTES,
            Some([0x88, 0xb5]) => LINK_BYTES,
            _ => IPV4_BYTES,
        };
        let header: Option<&[u8; HEADER_BYTES]> = frame.get(offset..).and_then(<[u8]>::first_chunk);
        let header = header.ok_or_else(|| {
            refused(format!("a frame of {} bytes has no room for the data header", frame.len()))
        })?;
        let word = |at: usize| {
            u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let state: [u64; WORDS] = [
            0,
            key[0],
            key[1],
            pair(word(16), word(20)),
            pair(word(24), sum),
            pair(self.number, offset as u32),
        ];
        let number = self.flows.take().map_err(refused)?;
        let frame = [&number.to_ne_bytes(), &frame[..]].concat();
        let sender = FrameSender { program: self.clone(), number, frame, sent: AtomicU64::new(0) };
        let set = self.senders.set(&index(number), &state);
        set.map_err(|source| Error::system(ADD, &*self.interface, source))?;
        Ok(sender)
    }
}

/// Sends the frames of one flow.
#[derive(Debug)]
pub struct FrameSender {
    program: Arc<SendProgram>,
    number: u32,
    /// Metadata and template.
    frame: Vec<u8>,
    sent: AtomicU64,
}

impl FrameSender {
    /// Sends up to `count` frames with the next sequence numbers; returns how many: 0 while the queue of a veth is full.
    /// One thread at a time may call it, in the network namespace of the interface.
    ///
    /// # Errors
    /// The kernel refused to run the program.
    pub fn send(&self, count: u32) -> Result<u32> {
        let SendProgram { interface, program, senders, queue, .. } = &*self.program;
        let failed = |source| Error::system("send frames on", &**interface, source);
        let mut queue =
            queue.as_ref().map(|queue| queue.lock().unwrap_or_else(PoisonError::into_inner));
        let count = match &mut queue {
            Some(queue) => queue.room(count).map_err(failed)?,
            None => count,
        };
        if count == 0 {
            return Ok(0);
        }
        let run = run_with_frames(program, &self.frame, METADATA_BYTES, count);
        let mut state = [0; WORDS];
        senders.read(&index(self.number), &mut state).map_err(failed)?;
        let sent = (state[0] - self.sent.swap(state[0], Ordering::Relaxed)) as u32;
        if let Some(queue) = &mut queue {
            queue.sent(sent);
        }
        match run {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => Err(failed(error)),
            // A signal may have ended the run early.
            _ => Ok(sent),
        }
    }
}

impl Drop for FrameSender {
    fn drop(&mut self) {
        self.program.flows.release(self.number);
    }
}
