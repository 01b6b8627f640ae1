//! The program that accounts for flows at the receiver, and its counts.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use super::{MAX_FLOWS, Numbers, attach};
use crate::bpf::{Attachment, Map, index, load_compiled};
use crate::error::{Error, Result};

static PROGRAM: &[u8] = include_bytes!("../../bpf/receive.bin");

// Sizes in 64-bit words of the structures of bpf/receive.bpf.c.
const TUPLE_WORDS: usize = 5;
const FLOW_WORDS: usize = 5;
const COUNT_WORDS: usize = 13;
const STATE_WORDS: usize = 2 * COUNT_WORDS + 4;
const WINDOW_WORDS: usize = 8192;
const ABOVE_CELLS: usize = (36 - 11 + 2) * 1024;
const BELOW_CELLS: usize = (24 - 11 + 2) * 1024;

/// A program on an interface. Dropping it, or the end of the process, detaches it.
#[derive(Debug)]
pub struct ReceiveProgram {
    interface: String,
    in_driver: bool,
    flows: Map,
    states: Map,
    windows: Map,
    delays: Map,
    numbers: Numbers,
    _attachment: Attachment,
}

impl ReceiveProgram {
    /// Attaches the program to an interface (name and number) of the calling thread's network namespace: in its driver,
    /// or generically if the driver has no XDP.
    ///
    /// # Errors
    /// The kernel refused, or the interface has another program.
    pub fn attach(interface: (&str, u32)) -> Result<ReceiveProgram> {
        let failed =
            |source| Error::system("load the XDP program that receives on", interface.0, source);
        let flows = Map::hash(TUPLE_WORDS, FLOW_WORDS, MAX_FLOWS).map_err(failed)?;
        let states = Map::array(STATE_WORDS, MAX_FLOWS).map_err(failed)?;
        let windows = Map::array(WINDOW_WORDS, MAX_FLOWS).map_err(failed)?;
        let delays = Map::array(ABOVE_CELLS + BELOW_CELLS, MAX_FLOWS).map_err(failed)?;
        let program =
            load_compiled(PROGRAM, &[&flows, &states, &windows, &delays]).map_err(failed)?;
        let (attachment, in_driver) = attach(&program, interface)?;
        Ok(ReceiveProgram {
            interface: interface.0.to_owned(),
            in_driver,
            flows,
            states,
            windows,
            delays,
            numbers: Numbers::default(),
            _attachment: attachment,
        })
    }

    /// Whether the program runs in the driver, rather than generically in the stack.
    #[must_use]
    pub fn is_in_driver(&self) -> bool {
        self.in_driver
    }

    /// Starts to account for the flow of datagrams with these addresses, whose tags have this key.
    ///
    /// # Errors
    /// All numbers are in use, or the kernel refused.
    pub fn add(self: &Arc<Self>, addresses: FlowAddresses, key: [u64; 2]) -> Result<FlowCounter> {
        let failed =
            |source| Error::system("add a flow to the XDP program on", &*self.interface, source);
        let number = self.numbers.take().map_err(|reason| {
            Error::refused("add a flow to the XDP program on", &*self.interface, reason)
        })?;
        // From here on dropping it releases the number.
        let counter = FlowCounter {
            program: self.clone(),
            tuple: addresses.tuple(),
            key,
            number,
            stated: Mutex::default(),
        };
        let at = index(number);
        self.states.set(&at, &[0; STATE_WORDS]).map_err(failed)?;
        self.windows.set(&at, &vec![0; WINDOW_WORDS]).map_err(failed)?;
        self.delays.set(&at, &vec![0; ABOVE_CELLS + BELOW_CELLS]).map_err(failed)?;
        counter.state(Clock { offset_ns: None, boundary_ns: u64::MAX })?;
        Ok(counter)
    }
}

/// What all frames of a flow have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlowAddresses {
    /// UDP from one address and port to another.
    Udp {
        /// The sender.
        source: SocketAddr,
        /// The receiver.
        destination: SocketAddr,
    },
    /// Ethernet frames without IP: the bytes that identify the flow (`weir_wire::ethernet::flow_bytes`).
    Ethernet([u8; 20]),
}

impl FlowAddresses {
    /// `struct tuple`.
    fn tuple(self) -> [u64; TUPLE_WORDS] {
        let mut bytes = [0; 8 * TUPLE_WORDS];
        match self {
            FlowAddresses::Ethernet(flow) => bytes[..flow.len()].copy_from_slice(&flow),
            FlowAddresses::Udp { source, destination } => {
                let mut version = 4u32;
                for (address, at) in [(source, 0), (destination, 16)] {
                    match address.ip().to_canonical() {
                        IpAddr::V4(ip) => bytes[at..at + 4].copy_from_slice(&ip.octets()),
                        IpAddr::V6(ip) => {
                            version = 6;
                            bytes[at..at + 16].copy_from_slice(&ip.octets());
                        }
                    }
                }
                bytes[32..34].copy_from_slice(&source.port().to_be_bytes());
                bytes[34..36].copy_from_slice(&destination.port().to_be_bytes());
                bytes[36..].copy_from_slice(&version.to_ne_bytes());
            }
        }
        let (words, _) = bytes.as_chunks::<8>();
        std::array::from_fn(|i| u64::from_ne_bytes(words[i]))
    }
}

/// What user space states about the time of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// The sender's clock minus this host's, ns. `None`: unknown, and delays are not counted.
    pub offset_ns: Option<i64>,
    /// End of the current interval on this host's monotonic clock.
    pub boundary_ns: u64,
}

/// Counts of a flow. Times are on this host's monotonic clock, those of the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Unique datagrams.
    pub packets: u64,
    /// Their payload, bytes.
    pub bytes: u64,
    /// Datagrams that arrived before.
    pub duplicates: u64,
    /// Datagrams too far behind the newest to be known: new or duplicates.
    pub late: u64,
    /// Payload of duplicates and late datagrams, bytes.
    pub repeated_bytes: u64,
    /// Unique datagrams with a number below that of an earlier one.
    pub reordered: u64,
    /// One above the highest sequence number.
    pub next: u64,
    /// Arrival of the first and of the last datagram; 0: none.
    pub first_ns: u64,
    /// As above.
    pub last_ns: u64,
    /// Datagrams whose delay was counted.
    pub delays: u64,
    /// Sum of these delays, ns.
    pub delay_sum_ns: i64,
    /// Interarrival jitter (RFC 3550) in 1/256 ns.
    pub jitter_256th_ns: u64,
}

impl Counts {
    fn read(words: &[u64; COUNT_WORDS]) -> Counts {
        let [packets, bytes, duplicates, late, repeated_bytes, reordered, next, rest @ ..] = *words;
        let [first_ns, last_ns, delays, delay_sum_ns, jitter_256th_ns, _] = rest;
        let delay_sum_ns = delay_sum_ns as i64;
        Counts {
            packets,
            bytes,
            duplicates,
            late,
            repeated_bytes,
            reordered,
            next,
            first_ns,
            last_ns,
            delays,
            delay_sum_ns,
            jitter_256th_ns,
        }
    }
}

/// A flow's counts when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// All so far.
    pub now: Counts,
    /// Those at the end of the interval that ended at [`Clock::boundary_ns`], once a later datagram has arrived.
    pub at_boundary: Option<Counts>,
}

/// The delays of a flow as a histogram.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Delays {
    /// Minimum and maximum, ns.
    pub min_ns: i64,
    /// As above.
    pub max_ns: i64,
    /// Cells in use: number of a cell of `weir_stats::Histogram`, and how many delays it has.
    pub above: Vec<(usize, u64)>,
    /// The same of negative delays, by their distance from zero.
    pub below: Vec<(usize, u64)>,
}

/// A flow that the program accounts for. Dropping it ends that: later datagrams reach the stack.
#[derive(Debug)]
pub struct FlowCounter {
    program: Arc<ReceiveProgram>,
    tuple: [u64; TUPLE_WORDS],
    key: [u64; 2],
    number: u32,
    stated: Mutex<Option<Clock>>,
}

impl FlowCounter {
    /// Whether the program runs in the driver, rather than generically in the stack.
    #[must_use]
    pub fn is_in_driver(&self) -> bool {
        self.program.in_driver
    }

    /// States a clock offset and the end of the current interval.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn state(&self, clock: Clock) -> Result<()> {
        let mut stated = self.stated.lock().unwrap_or_else(PoisonError::into_inner);
        if *stated == Some(clock) {
            return Ok(());
        }
        let has_clock = u64::from(clock.offset_ns.is_some());
        let offset_ns = clock.offset_ns.unwrap_or(0) as u64;
        let numbers = u64::from(self.number) | has_clock << 32;
        let value = [self.key[0], self.key[1], offset_ns, clock.boundary_ns, numbers];
        self.program.flows.set(&self.tuple, &value).map_err(self.failed())?;
        *stated = Some(clock);
        Ok(())
    }

    /// The flow's counts.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn read(&self) -> Result<Snapshot> {
        let mut words = [0; STATE_WORDS];
        let at = index(self.number);
        // The program may store the counts at the end of the interval during the first reading; not during the second one.
        for _ in 0..2 {
            self.program.states.read(&at, &mut words).map_err(self.failed())?;
        }
        let (parts, rest) = words.as_chunks::<COUNT_WORDS>();
        let boundary_ns =
            self.stated.lock().unwrap_or_else(PoisonError::into_inner).map(|c| c.boundary_ns);
        let is_at_boundary = boundary_ns == Some(rest[0]);
        Ok(Snapshot {
            now: Counts::read(&parts[0]),
            at_boundary: is_at_boundary.then(|| Counts::read(&parts[1])),
        })
    }

    /// The flow's delays; `None` before any was counted.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn delays(&self) -> Result<Option<Delays>> {
        let at = index(self.number);
        let mut words = [0; STATE_WORDS];
        self.program.states.read(&at, &mut words).map_err(self.failed())?;
        let (parts, rest) = words.as_chunks::<COUNT_WORDS>();
        if Counts::read(&parts[0]).delays == 0 {
            return Ok(None);
        }
        let mut cells = vec![0; ABOVE_CELLS + BELOW_CELLS];
        self.program.delays.read(&at, &mut cells).map_err(self.failed())?;
        let used = |cells: &[u64]| {
            cells.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect()
        };
        Ok(Some(Delays {
            min_ns: rest[1] as i64,
            max_ns: rest[2] as i64,
            above: used(&cells[..ABOVE_CELLS]),
            below: used(&cells[ABOVE_CELLS..]),
        }))
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> Error {
        |source| Error::system("read the XDP program's counts of", &*self.program.interface, source)
    }
}

impl Drop for FlowCounter {
    fn drop(&mut self) {
        // Fails only if it was not added.
        let _ = self.program.flows.remove(&self.tuple);
        self.program.numbers.release(self.number);
    }
}
