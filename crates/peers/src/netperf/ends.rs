//! What only a client of netperf asks for, and what the two ends state that a record has no place for.

use std::net::IpAddr;

use super::codec::{Cpu, Request, Response, Results, flag};

/// What only a client of netperf asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Sent before the request, for a server that expects it.
    pub passphrase: Option<String>,
    /// Processor time of this host, and of the server's.
    pub cpu: [bool; 2],
    /// Options of the server's socket; absent: as those of this end.
    pub server: Option<ServerOptions>,
    /// The address of the data at the server; absent: that of the control connection.
    pub data_address: Option<IpAddr>,
}

/// Options of the server's data socket. What is absent is the server's choice.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerOptions {
    /// Send buffer, bytes.
    pub send_buffer: Option<u32>,
    /// Receive buffer, bytes.
    pub receive_buffer: Option<u32>,
    /// Bytes of each send to a stream.
    pub send_size: Option<u32>,
    /// Bytes of each receive.
    pub receive_size: Option<u32>,
    /// The port of the data; 0: any.
    pub data_port: u16,
    /// `SO_PRIORITY`.
    pub priority: Option<u32>,
    /// The TOS byte.
    pub tos: Option<u32>,
    /// Congestion control.
    pub congestion: Option<String>,
}

impl Wanted {
    /// Completes a request.
    pub(super) fn apply(&self, request: &mut Request) {
        if self.cpu[1] {
            request.flags |= flag::MEASURE_CPU;
        }
        request.server_address = self.data_address;
        let Some(server) = &self.server else { return };
        request.send_buffer = server.send_buffer;
        request.receive_buffer = server.receive_buffer;
        request.send_size = server.send_size;
        request.receive_size = server.receive_size;
        request.data_port = server.data_port;
        request.priority = server.priority;
        request.tos = server.tos;
        request.congestion.clone_from(&server.congestion);
    }
}

/// What the two ends state. What is absent was not measured, or the server has not answered.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stated {
    /// Processor time of this host.
    pub local_cpu: Option<Cpu>,
    /// The server's answer to the request.
    pub accepted: Option<Accepted>,
    /// The server's results.
    pub results: Option<Counted>,
}

/// What the server uses for a test.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Accepted {
    /// Send and receive buffer before the test, bytes.
    pub buffers: [u32; 2],
    /// Bytes of each send and of each receive.
    pub sizes: [Option<u32>; 2],
    /// `SO_PRIORITY`.
    pub priority: Option<u32>,
    /// The TOS byte.
    pub tos: Option<u32>,
    /// Whether it sends small segments without delay.
    pub no_delay: bool,
}

impl From<&Response> for Accepted {
    fn from(response: &Response) -> Self {
        Accepted {
            buffers: [response.send_buffer, response.receive_buffer],
            sizes: [response.send_size, response.receive_size],
            priority: response.priority,
            tos: response.tos,
            no_delay: response.flags & flag::NO_DELAY != 0,
        }
    }
}

/// What the server has counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counted {
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// Sends and receives.
    pub calls: [u32; 2],
    /// Send and receive buffer after the test, bytes.
    pub buffers: [Option<u32>; 2],
    /// Transactions.
    pub transactions: u32,
    /// Retransmitted segments.
    pub retransmits: Option<u32>,
    /// Congestion control.
    pub congestion: Option<String>,
    /// Processor time of its host.
    pub cpu: Option<Cpu>,
}

impl From<&Results> for Counted {
    fn from(results: &Results) -> Self {
        Counted {
            bytes: [results.sent_bytes, results.received_bytes],
            calls: [results.send_calls, results.receive_calls],
            buffers: [results.send_buffer, results.receive_buffer],
            transactions: results.transactions,
            retransmits: results.retransmits,
            congestion: results.congestion.clone(),
            cpu: results.cpu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netperf::codec;

    #[test]
    fn a_request_states_the_options_of_the_server() {
        let mut request = Request { tos: Some(8), send_size: Some(1), ..codec::example() };
        Wanted::default().apply(&mut request);
        assert_eq!(request.tos, Some(8), "as this end's");
        let server = ServerOptions { tos: Some(184), data_port: 5000, ..ServerOptions::default() };
        let address = "192.0.2.1".parse().unwrap();
        let wanted = Wanted {
            cpu: [false, true],
            server: Some(server),
            data_address: Some(address),
            ..Wanted::default()
        };
        wanted.apply(&mut request);
        assert_eq!((request.tos, request.send_size, request.data_port), (Some(184), None, 5000));
        assert_eq!(request.server_address, Some(address));
        assert_eq!(request.flags & flag::MEASURE_CPU, flag::MEASURE_CPU);
    }
}
