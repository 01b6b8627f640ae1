//! The platform layer: what Weir asks of the operating system, behind one interface.
//!
//! You meet [`clock::Clock`] (every reader of time takes one), [`udp::UdpSocket`] with its batches
//! ([`udp::SendBatch`], [`udp::RecvBatch`]), [`tcp::TcpStream`] and [`tcp::TcpListener`] with their options set before
//! the handshake, [`poll::Poller`] to wait on many of them, and the facts of the host: [`host`], [`interface`],
//! [`counters`], [`capability`]. [`reference`] tells how far its clock may be off. Settings of interfaces are changed here and nowhere else.
//!
//! Only Linux is built in full; elsewhere [`clock`], [`udp`] and [`thread`] stand on the standard library, say "not
//! available on this system" where that stops, and the other modules are absent. All `unsafe` of the data path is in this crate.
//!
//! ```
//! use weir_net::udp::{RecvBatch, RecvMode, SendBatch, UdpOptions, UdpSocket};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let receiver = UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse()?))?;
//! let sender = UdpSocket::open(&UdpOptions::connect(receiver.local_addr()?))?;
//!
//! let mut out = SendBatch::new(8);
//! let mut filling = out.fill();
//! filling.push(b"one", None, None)?;
//! filling.push(b"two", None, None)?;
//! assert_eq!(filling.send(&sender)?.messages, 2);
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

#[cfg(target_os = "linux")]
pub mod capability;
pub mod clock;
#[cfg(target_os = "linux")]
pub mod counters;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
#[cfg(target_os = "linux")]
pub mod host;
#[cfg(target_os = "linux")]
pub mod interface;
#[cfg(target_os = "linux")]
pub mod namespace;
#[cfg(target_os = "linux")]
pub mod output;
#[cfg(target_os = "linux")]
pub mod poll;
pub mod reference;
#[cfg(target_os = "linux")]
pub mod restoration;
#[cfg(unix)]
pub mod secret;
#[cfg(target_os = "linux")]
pub mod tcp;
pub mod thread;
pub mod udp;
#[cfg(target_os = "linux")]
pub mod waiting;
#[cfg(target_os = "linux")]
pub mod watchdog;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as sys;

// macOS, Windows and other systems: what the standard library offers, until each has a room of its own beside `linux`.
#[cfg(any(not(target_os = "linux"), weir_portable))]
mod portable;
#[cfg(not(target_os = "linux"))]
use portable as sys;

pub use error::{Error, Result};
#[cfg(target_os = "linux")]
pub use linux::{transparent, unix};
