//! The platform layer: Weir's requests to the operating system, behind one interface.
//!
//! The main types are [`clock::Clock`] (all code reads time from one), [`udp::UdpSocket`] with its batches
//! ([`udp::SendBatch`], [`udp::RecvBatch`]), [`tcp::TcpStream`] and [`tcp::TcpListener`] with their options set before
//! the handshake, [`poll::Poller`] to wait on many of them, and the facts of the host: [`host`], [`interface`],
//! [`counters`], [`capability`]. [`reference`] bounds the error of its clock. Settings of interfaces are changed here and nowhere else.
//!
//! Linux is in `linux/`, other systems are in `portable/`, behind the same interface. What a system lacks returns
//! [`Error::Unsupported`] ("not available on this system"). `capability`, `namespace`, `restoration` and `watchdog` exist on Linux
//! alone. All `unsafe` of the data path is in this crate.
//!
//! ```
//! use weir_net::udp::{RecvBatch, RecvMode, SendBatch, SendMode, UdpOptions, UdpSocket};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let receiver = UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse()?))?;
//! let sender = UdpSocket::open(&UdpOptions::connect(receiver.local_addr()?))?;
//!
//! let mut out = SendBatch::new(8);
//! let mut filling = out.fill();
//! filling.push(b"one", None, None)?;
//! filling.push(b"two", None, None)?;
//! assert_eq!(filling.send(&sender, SendMode::AsSocket)?.messages, 2);
//!
//! let mut received = RecvBatch::new(8, 2048);
//! let mut texts = Vec::new();
//! while texts.len() < 2 {
//!     received.recv(&receiver, RecvMode::WaitForOne)?;
//!     texts.extend(received.messages().map(|m| m.data.to_vec()));
//! }
//! assert_eq!(texts, [b"one", b"two"]);
//! # Ok(())
//! # }
//! ```

pub mod capability;
pub mod clock;
pub mod counters;
pub mod error;
pub mod ethernet;
pub mod file;
pub mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod host;
pub mod interface;
pub mod local;
#[cfg(target_os = "linux")]
pub mod namespace;
pub mod output;
pub mod poll;
pub mod process;
pub mod reference;
#[cfg(target_os = "linux")]
pub mod restoration;
pub mod secret;
pub mod socket;
pub mod tcp;
mod tcp_info;
pub mod thread;
pub mod udp;
pub mod waiting;
#[cfg(target_os = "linux")]
pub mod watchdog;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as sys;

// The tests compile it on Linux too.
#[cfg(any(not(target_os = "linux"), test))]
mod portable;
#[cfg(not(target_os = "linux"))]
use portable as sys;

pub use error::{Error, Result};
#[cfg(target_os = "linux")]
pub use linux::{transparent, unix};
#[cfg(not(target_os = "linux"))]
pub use portable::passing as unix;
