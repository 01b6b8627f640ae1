//! What the server answers: what it uses for a test, its results, and its idle rate.

use super::{Message, flag, kind};

/// Integers at the start of a response, and of results.
const RESPONSE_INTS: usize = 18;
const RESULT_INTS: usize = 27;
/// Where results have that name: after the integers and the names of an interface and its driver.
const RESULT_CONGESTION: usize = 4 * RESULT_INTS + 16 + 4 * 32 + 16;

/// The server's answer to a request: what it uses.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::netperf) struct Response {
    /// Socket buffers before the test, bytes.
    pub(in crate::netperf) receive_buffer: u32,
    pub(in crate::netperf) send_buffer: u32,
    /// Bytes of each receive and send.
    pub(in crate::netperf) receive_size: Option<u32>,
    pub(in crate::netperf) send_size: Option<u32>,
    /// Bits of [`flag`].
    pub(in crate::netperf) flags: u32,
    /// Rate of the server's idle counter, 1/s; 0 if its processor time is not measured.
    pub(in crate::netperf) cpu_rate: f32,
    /// The port of the data.
    pub(in crate::netperf) data_port: u16,
    pub(in crate::netperf) priority: Option<u32>,
    pub(in crate::netperf) tos: Option<u32>,
}

impl Response {
    /// Reads a response. `None`: its port is above 65 535.
    #[must_use]
    pub(in crate::netperf) fn parse(m: &Message) -> Option<Self> {
        Some(Response {
            receive_buffer: m.size(0).unwrap_or(0),
            receive_size: m.size(1),
            send_buffer: m.size(3).unwrap_or(0),
            send_size: m.size(4),
            flags: m.unsigned(6),
            cpu_rate: m.float(7),
            data_port: u16::try_from(m.unsigned(11)).ok()?,
            priority: m.size(16),
            tos: m.size(17),
        })
    }

    /// Its message.
    #[must_use]
    pub(in crate::netperf) fn to_message(&self) -> Message {
        let mut m = Message::new(kind::OMNI_RESPONSE, 0);
        m.set_size(0, Some(self.receive_buffer));
        m.set_size(1, self.receive_size);
        m.set(2, 1);
        m.set_size(3, Some(self.send_buffer));
        m.set_size(4, self.send_size);
        m.set(5, 1);
        m.set_unsigned(6, self.flags);
        m.set_unsigned(7, self.cpu_rate.to_bits());
        m.set_unsigned(11, self.data_port.into());
        m.set_size(16, self.priority);
        m.set_size(RESPONSE_INTS - 1, self.tos);
        m
    }
}

/// Processor time of a host, percent of all its processors.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Cpu {
    /// Time that was not idle.
    pub busy: f32,
    /// Time in programs.
    pub user: f32,
    /// Time in the system.
    pub system: f32,
    /// Time in which a program waited for a device.
    pub iowait: f32,
    /// Time in interrupts.
    pub irq: f32,
    /// Time in deferred interrupts.
    pub softirq: f32,
    /// Number of processors.
    pub processors: u32,
    /// The busiest processor.
    pub peak_id: u32,
    /// Its time that was not idle, percent.
    pub peak: f32,
}

/// How processor time was measured: not at all, or from `/proc/stat`.
const NOT_MEASURED: i32 = 0;
const PROC_STAT: i32 = 8;

/// The server's results.
#[derive(Debug, Clone, PartialEq, Default)]
pub(in crate::netperf) struct Results {
    pub(in crate::netperf) received_bytes: u64,
    pub(in crate::netperf) receive_calls: u32,
    pub(in crate::netperf) sent_bytes: u64,
    pub(in crate::netperf) send_calls: u32,
    /// Socket buffers after the test, bytes.
    pub(in crate::netperf) receive_buffer: Option<u32>,
    pub(in crate::netperf) send_buffer: Option<u32>,
    /// Sends that the system refused.
    pub(in crate::netperf) failed_sends: u32,
    pub(in crate::netperf) transactions: u32,
    pub(in crate::netperf) seconds: f32,
    /// Absent if it was not measured.
    pub(in crate::netperf) cpu: Option<Cpu>,
    /// Retransmitted segments, if the server knows.
    pub(in crate::netperf) retransmits: Option<u32>,
    /// Congestion control, if the client asked.
    pub(in crate::netperf) congestion: Option<String>,
}

impl Results {
    /// Reads results. A server that was not asked leaves integers of its earlier messages in their place, which are ignored as
    /// far as they can be recognised. The type of the message is not that of a response.
    #[must_use]
    pub(in crate::netperf) fn parse(m: &Message) -> Self {
        let cpu = Cpu {
            busy: m.float(11),
            user: m.float(12),
            system: m.float(13),
            iowait: m.float(14),
            irq: m.float(15),
            softirq: m.float(16),
            processors: m.size(19).unwrap_or(0),
            peak_id: m.size(20).unwrap_or(0),
            peak: m.float(21),
        };
        Results {
            received_bytes: m.long(0),
            receive_calls: m.unsigned(2),
            receive_buffer: m.size(3),
            sent_bytes: m.long(4),
            send_calls: m.unsigned(6),
            send_buffer: m.size(7),
            failed_sends: m.unsigned(8),
            transactions: m.unsigned(9),
            seconds: m.float(10),
            cpu: (m.int(18) != NOT_MEASURED).then_some(cpu),
            retransmits: m.size(26),
            congestion: m.name(RESULT_CONGESTION),
        }
    }

    /// Its message.
    #[must_use]
    pub(in crate::netperf) fn to_message(&self) -> Message {
        let mut m = Message::new(kind::OMNI_RESPONSE, 0);
        m.set_long(0, self.received_bytes);
        m.set_unsigned(2, self.receive_calls);
        m.set_size(3, self.receive_buffer);
        m.set_long(4, self.sent_bytes);
        m.set_unsigned(6, self.send_calls);
        m.set_size(7, self.send_buffer);
        m.set_unsigned(8, self.failed_sends);
        m.set_unsigned(9, self.transactions);
        m.set_unsigned(10, self.seconds.to_bits());
        let cpu = self.cpu.unwrap_or_default();
        let shares = [cpu.busy, cpu.user, cpu.system, cpu.iowait, cpu.irq, cpu.softirq];
        for (index, percent) in (11..).zip(shares) {
            m.set_unsigned(index, percent.to_bits());
        }
        // The client computes the service demand.
        m.set_unsigned(17, (-1f32).to_bits());
        m.set(18, if self.cpu.is_some() { PROC_STAT } else { NOT_MEASURED });
        m.set_size(19, Some(cpu.processors));
        m.set_size(20, Some(cpu.peak_id));
        m.set_unsigned(21, cpu.peak.to_bits());
        m.set_size(26, self.retransmits);
        m.set_name(RESULT_CONGESTION, self.congestion.as_deref());
        m
    }
}

/// The answer to [`kind::CPU_CALIBRATE`]: rate of the idle counter, 1/s, and number of processors.
#[must_use]
pub(in crate::netperf) fn calibration(rate: f32, processors: u32) -> Message {
    let mut m = Message::new(kind::CPU_CALIBRATE, 0);
    m.set_unsigned(0, rate.to_bits());
    m.set_size(1, Some(processors));
    m
}

/// The form of a request, and of the answers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::netperf) enum Form {
    /// That of all tests.
    Omni,
    /// The older one of connections without data.
    TcpCc,
}

impl Form {
    fn kind(self) -> i32 {
        match self {
            Form::Omni => kind::OMNI_RESPONSE,
            Form::TcpCc => kind::TCP_CC_RESPONSE,
        }
    }

    /// The refusal of a request.
    #[must_use]
    pub(in crate::netperf) fn refusal(self, number: i32) -> Message {
        Message::new(self.kind(), number)
    }

    /// The answer to a request.
    #[must_use]
    pub(in crate::netperf) fn response(self, response: &Response) -> Message {
        if self == Form::Omni {
            return response.to_message();
        }
        let mut m = Message::new(self.kind(), 0);
        m.set_size(0, Some(response.receive_buffer));
        m.set(1, i32::from(response.flags & flag::NO_DELAY != 0));
        m.set(2, i32::from(response.flags & flag::MEASURE_CPU != 0));
        m.set_size(4, Some(response.send_buffer));
        m.set_unsigned(5, response.data_port.into());
        m.set_unsigned(6, response.cpu_rate.to_bits());
        m
    }

    /// The results of a test.
    #[must_use]
    pub(in crate::netperf) fn results(self, results: &Results) -> Message {
        if self == Form::Omni {
            return results.to_message();
        }
        let mut m = Message::new(self.kind(), 0);
        m.set_unsigned(2, results.transactions);
        m.set_unsigned(3, results.seconds.to_bits());
        m.set_unsigned(4, results.cpu.map_or(-1.0, |cpu| cpu.busy).to_bits());
        m.set_unsigned(5, (-1f32).to_bits());
        m.set(6, if results.cpu.is_some() { PROC_STAT } else { NOT_MEASURED });
        m.set_size(7, Some(results.cpu.map_or(0, |cpu| cpu.processors)));
        m
    }
}
