//! Packet sockets, which other systems do not have.

use std::io;

use super::udp::UdpSocket;
use crate::error::{Error, Result};
use crate::ethernet::{EthernetOptions, FLOW_BYTES};
use crate::udp::SocketMemory;

/// A packet socket, of which there is none.
#[derive(Debug)]
pub struct EthernetSocket {
    socket: UdpSocket,
    never: std::convert::Infallible,
}

crate::as_socket!(EthernetSocket, socket);

/// Not available.
pub fn try_ethernet() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

impl EthernetSocket {
    /// Not available.
    pub fn open(options: &EthernetOptions) -> Result<EthernetSocket> {
        Err(Error::Unsupported {
            operation: "open a packet socket on",
            object: options.name.clone(),
        })
    }

    /// Not available.
    pub fn set_peer(&mut self, _: [u8; FLOW_BYTES], _: [u8; FLOW_BYTES]) -> io::Result<()> {
        match self.never {}
    }

    /// Not available.
    pub fn send(&self, _: &[u8]) -> io::Result<usize> {
        match self.never {}
    }

    /// Not available.
    pub fn recv_frame(&self, _: &mut [u8]) -> io::Result<usize> {
        match self.never {}
    }

    /// Not available.
    pub fn socket_memory(&self) -> io::Result<SocketMemory> {
        match self.never {}
    }

    /// Not available.
    pub fn send_buffer(&self) -> io::Result<usize> {
        match self.never {}
    }

    /// Not available.
    pub fn receive_buffer(&self) -> io::Result<usize> {
        match self.never {}
    }
}
