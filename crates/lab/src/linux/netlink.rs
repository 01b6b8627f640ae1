//! The rtnetlink(7) requests that a lab needs, over a socket in the namespace that they configure. Answers are parsed
//! with every length checked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use crate::error::Error;

// linux/rtnetlink.h, linux/if_link.h, linux/veth.h, linux/if_addr.h
const NLMSG_ERROR: u16 = 2;
const NLMSG_HEADER: usize = 16;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const IFLA_MTU: u16 = 4;
const IFLA_IFNAME: u16 = 3;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFLA_BR_MCAST_SNOOPING: u16 = 23;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_F_NODAD: u8 = 2;
const IF_OPER_UP: u8 = 6;
const NESTED: u16 = 0x8000;

/// An interface as the kernel describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) mtu_bytes: Option<u32>,
    pub(crate) is_up: bool,
}

/// The properties of one end of a new link.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkParameters {
    pub(crate) mtu_bytes: u32,
    pub(crate) transmit_queue_packets: Option<u32>,
}

/// A route socket. Requests go out one at a time, each waits for its answer.
#[derive(Debug)]
pub(crate) struct Route {
    socket: File,
    sequence: u32,
}

impl Route {
    /// Takes a blocking NETLINK_ROUTE socket with a receive timeout.
    pub(crate) fn new(socket: OwnedFd) -> Self {
        // read(2) and write(2) on an unconnected netlink socket talk to the kernel.
        Self { socket: File::from(socket), sequence: 0 }
    }

    /// A veth pair: `name` here, `peer` in the namespace `peer_namespace`.
    pub(crate) fn create_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: BorrowedFd<'_>,
        parameters: LinkParameters,
    ) -> Result<(), Error> {
        let mut message =
            Message::link(RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, 0, 0, 0);
        message.end(name, parameters);
        message.nest(IFLA_LINKINFO, |info| {
            info.text(IFLA_INFO_KIND, "veth");
            info.nest(IFLA_INFO_DATA, |data| {
                data.nest(VETH_INFO_PEER, |other| {
                    other.bytes.extend([0; 16]); // ifinfomsg
                    other.end(peer, parameters);
                    other.number(IFLA_NET_NS_FD, peer_namespace.as_raw_fd() as u32);
                });
            });
        });
        self.acknowledge(message, "create virtual cable", name)
    }

    /// A bridge without spanning tree (the kernel's default), which forwards immediately.
    pub(crate) fn create_bridge(&mut self, name: &str) -> Result<(), Error> {
        let create = |snooping: Option<u8>| {
            let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
            let mut message = Message::link(RTM_NEWLINK, flags, 0, 0, 0);
            message.text(IFLA_IFNAME, name);
            message.nest(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "bridge");
                info.nest(IFLA_INFO_DATA, |data| {
                    if let Some(on) = snooping {
                        data.attribute(IFLA_BR_MCAST_SNOOPING, &[on]);
                    }
                });
            });
            message
        };
        // Snooping off: neighbour discovery must not wait for a querier. A kernel without it
        // refuses the attribute and needs none.
        self.acknowledge(create(Some(0)), "create bridge", name)
            .or_else(|_| self.acknowledge(create(None), "create bridge", name))
    }

    pub(crate) fn set_master(&mut self, link: &str, master: &str) -> Result<(), Error> {
        let (index, master) = (self.link(link)?.index, self.link(master)?.index);
        let mut message = Message::link(RTM_NEWLINK, 0, index, 0, 0);
        message.number(IFLA_MASTER, master);
        self.acknowledge(message, "attach to the bridge", link)
    }

    pub(crate) fn set_up(&mut self, link: &str) -> Result<(), Error> {
        let up = libc::IFF_UP as u32;
        let message = Message::link(RTM_NEWLINK, 0, self.link(link)?.index, up, up);
        self.acknowledge(message, "bring up", link)
    }

    /// Adds an address that is usable immediately: no duplicate address detection.
    pub(crate) fn add_address(
        &mut self,
        link: &str,
        address: IpAddr,
        prefix_bits: u8,
    ) -> Result<(), Error> {
        let index = self.link(link)?.index;
        let (family, octets) = match address {
            IpAddr::V4(v4) => (libc::AF_INET as u8, v4.octets().to_vec()),
            IpAddr::V6(v6) => (libc::AF_INET6 as u8, v6.octets().to_vec()),
        };
        let mut message = Message::new(RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL);
        message.bytes.extend([family, prefix_bits, IFA_F_NODAD, 0]); // ifaddrmsg
        message.bytes.extend(index.to_ne_bytes());
        message.attribute(IFA_LOCAL, &octets);
        message.attribute(IFA_ADDRESS, &octets);
        self.acknowledge(message, "add address", &format!("{address}/{prefix_bits} to {link}"))
    }

    pub(crate) fn link(&mut self, name: &str) -> Result<Link, Error> {
        let mut message = Message::link(RTM_GETLINK, 0, 0, 0, 0);
        message.text(IFLA_IFNAME, name);
        self.exchange(message).and_then(|answer| parse_link(&answer)).map_err(|source| {
            Error::Netlink { operation: "find interface", object: name.to_owned(), source }
        })
    }

    fn acknowledge(
        &mut self,
        message: Message,
        operation: &'static str,
        object: &str,
    ) -> Result<(), Error> {
        self.exchange(message).map(drop).map_err(|source| Error::Netlink {
            operation,
            object: object.to_owned(),
            source,
        })
    }

    /// Sends a request and returns its answer: one message, or nothing for an acknowledgement.
    fn exchange(&mut self, message: Message) -> io::Result<Vec<u8>> {
        self.sequence += 1;
        self.socket.write_all(&message.finish(self.sequence))?;
        let mut buffer = vec![0; 32 * 1024];
        loop {
            let length = self.socket.read(&mut buffer)?;
            if let Some(answer) = parse_answer(&buffer[..length], self.sequence)? {
                return Ok(answer.to_vec());
            }
        }
    }
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the kernel's answer is malformed")
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The body of the message with this sequence number; empty for an acknowledgement, `None` if the datagram has only
/// answers to another request.
pub(crate) fn parse_answer(datagram: &[u8], sequence: u32) -> io::Result<Option<&[u8]>> {
    let mut rest = datagram;
    while rest.len() >= NLMSG_HEADER {
        let length = u32_at(rest, 0).ok_or_else(malformed)? as usize;
        let kind = u16_at(rest, 4).ok_or_else(malformed)?;
        let found = u32_at(rest, 8).ok_or_else(malformed)?;
        let body = rest.get(NLMSG_HEADER..length).ok_or_else(malformed)?;
        if found == sequence {
            if kind != NLMSG_ERROR {
                return Ok(Some(body));
            }
            let code = u32_at(body, 0).ok_or_else(malformed)? as i32;
            return match code {
                0 => Ok(Some(&[])),
                _ => Err(io::Error::from_raw_os_error(code.checked_neg().unwrap_or(libc::EPROTO))),
            };
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(None)
}

/// Body of an RTM_NEWLINK message: ifinfomsg (16 bytes, the index at 4), then attributes.
pub(crate) fn parse_link(body: &[u8]) -> io::Result<Link> {
    let mut link = Link { index: u32_at(body, 4).ok_or_else(malformed)?, ..Link::default() };
    let mut rest = body.get(16..).ok_or_else(malformed)?;
    while rest.len() >= 4 {
        let length = usize::from(u16_at(rest, 0).ok_or_else(malformed)?);
        let kind = u16_at(rest, 2).ok_or_else(malformed)?;
        let value = rest.get(4..length).ok_or_else(malformed)?;
        match kind {
            IFLA_MTU => link.mtu_bytes = u32_at(value, 0),
            IFLA_OPERSTATE => link.is_up = value.first() == Some(&IF_OPER_UP),
            _ => {}
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(link)
}

/// A request under construction.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: i32) -> Self {
        // RTM_GETLINK has an answer; an acknowledgement would be a second message.
        let acknowledge = if kind == RTM_GETLINK { 0 } else { libc::NLM_F_ACK };
        let flags = (libc::NLM_F_REQUEST | acknowledge | flags) as u16;
        let mut bytes = vec![0; NLMSG_HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        Self { bytes }
    }

    /// With an ifinfomsg.
    fn link(kind: u16, flags: i32, index: u32, link_flags: u32, change: u32) -> Self {
        let mut message = Self::new(kind, flags);
        message.bytes.extend([0; 4]);
        for word in [index, link_flags, change] {
            message.bytes.extend(word.to_ne_bytes());
        }
        message
    }

    /// Attributes of one end of a link.
    fn end(&mut self, name: &str, parameters: LinkParameters) {
        self.text(IFLA_IFNAME, name);
        self.number(IFLA_MTU, parameters.mtu_bytes);
        if let Some(packets) = parameters.transmit_queue_packets {
            self.number(IFLA_TXQLEN, packets);
        }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        // Values here are names, numbers and addresses: far below 64 KiB.
        self.bytes.extend((value.len() as u16 + 4).to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.pad();
    }

    fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_ne_bytes());
    }

    fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend((kind | NESTED).to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}
