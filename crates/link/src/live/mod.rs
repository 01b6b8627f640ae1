//! Flows of UDP and of Ethernet frames without the socket layer: sent as XDP live frames, and accounted for by an XDP program at the receiver.
//!
//! [`FrameSender`] has the kernel run a program once for each frame, which writes the native data header and the checksum of UDP
//! into a template and redirects it to the interface. [`ReceiveProgram`] is on the receiver's interface: datagrams of
//! known flows with a valid tag end there and are counted; all others reach the stack as without it. Programs and maps
//! belong to descriptors of this process, and go away with it.
//!
//! The programs are C (`bpf/`), compiled by `scripts/bpf.sh`; the committed instructions are part of this crate.

mod queue;
mod receive;
mod send;

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use crate::bpf::{Attachment, attach_xdp};
use crate::error::{Error, Result};

pub use receive::{Clock, Counts, Delays, FlowAddresses, FlowCounter, ReceiveProgram, Snapshot};
pub use send::{FrameSender, SendProgram, Template};

/// Maximum number of flows of one program. A receiver's take 410 KB of the kernel's memory each.
pub const MAX_FLOWS: u32 = 32;

/// The numbers of a program's flows that are in use: the indices of their entries in its maps.
#[derive(Debug, Default)]
struct Numbers(Mutex<[bool; MAX_FLOWS as usize]>);

impl Numbers {
    /// The first free number. The error is the reason why there is none.
    fn take(&self) -> std::result::Result<u32, String> {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = used.iter_mut().zip(0..).find(|(used, _)| !**used);
        let (used, number) =
            free.ok_or_else(|| format!("it has {MAX_FLOWS} flows, the maximum"))?;
        *used = true;
        Ok(number)
    }

    fn release(&self, number: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[number as usize] = false;
    }
}

/// Attaches a program to an interface (name and number): in its driver, or generically if the driver has no XDP. Returns
/// whether it is in the driver.
fn attach(program: &OwnedFd, (name, number): (&str, u32)) -> Result<(Attachment, bool)> {
    let refused = |error: std::io::Error| match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            let reason = "another XDP program is attached";
            Error::refused("attach an XDP program to", name, reason)
        }
        _ => Error::system("attach an XDP program to", name, error),
    };
    match attach_xdp(program, number, true) {
        Ok(attachment) => Ok((attachment, true)),
        // No XDP in the driver, or not with this MTU.
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ERANGE)) => {
            Ok((attach_xdp(program, number, false).map_err(refused)?, false))
        }
        Err(error) => Err(refused(error)),
    }
}
