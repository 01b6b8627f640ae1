//! One emulator per interface: two would send each frame twice, and the first to stop would restore offloads that the
//! other needs disabled.
//!
//! An emulator locks an interface by binding a name with its index in the abstract namespace of Unix sockets. That
//! namespace belongs to the network namespace, as the interface does, whatever the user and the runtime directory,
//! and the name disappears with the process.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::error::{EmulatorError, Refusal};

const NAME: &str = "weir.impair.interface";
/// How long to wait for the name of an ended process: a child between its fork and its exec has a copy of the socket.
const TIMEOUT: Duration = Duration::from_millis(100);

/// A locked interface; released when dropped.
#[derive(Debug)]
pub(crate) struct InterfaceLock {
    _lock: UnixDatagram,
    /// Names the owning process.
    _owner: Option<UnixDatagram>,
}

fn bound(name: &str) -> io::Result<UnixDatagram> {
    UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(name)?)
}

impl InterfaceLock {
    /// Locks the interface of this name and index in the calling thread's network namespace.
    ///
    /// # Errors
    /// [`Refusal::InUse`] if another emulator has it locked; errors of the system.
    pub(crate) fn take(interface: &str, index: u32) -> Result<InterfaceLock, EmulatorError> {
        Self::take_by(interface, index, Instant::now() + TIMEOUT)
    }

    fn take_by(
        interface: &str,
        index: u32,
        deadline: Instant,
    ) -> Result<InterfaceLock, EmulatorError> {
        let name = format!("{NAME}.{index}");
        loop {
            match bound(&name) {
                Ok(lock) => {
                    let named = bound(&format!("{name}.of.{}", std::process::id())).ok();
                    return Ok(InterfaceLock { _lock: lock, _owner: named });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    if Instant::now() >= deadline {
                        return Err(EmulatorError::Refused {
                            interface: interface.to_owned(),
                            refusals: vec![Refusal::InUse(holder(&name))],
                        });
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(source) => {
                    let operation = "lock an interface";
                    return Err(EmulatorError::System { operation, source });
                }
            }
        }
    }
}

/// The process that names itself the owner.
fn holder(name: &str) -> Option<u32> {
    // The calling thread's: it may be in another namespace than the process was started in.
    holder_in(&std::fs::read_to_string("/proc/thread-self/net/unix").ok()?, name)
}

fn holder_in(sockets: &str, name: &str) -> Option<u32> {
    let prefix = format!("@{name}.of.");
    let mut names = sockets.lines().filter_map(|line| line.split_whitespace().last());
    names.find_map(|name| name.strip_prefix(&prefix)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_taken_once_and_free_again_afterwards() {
        // An index that no interface has, nor a test of another process.
        let index = 2_000_000_000 + std::process::id();
        let first = InterfaceLock::take("x", index).unwrap();
        let other = InterfaceLock::take("y", 1_000_000_000 + std::process::id()).unwrap();
        let error = InterfaceLock::take("x", index).unwrap_err();
        let wanted = format!("x: it is in use by the emulator of process {}", std::process::id());
        assert_eq!(error.to_string(), wanted);
        drop(first);
        let again = InterfaceLock::take("x", index).unwrap();
        drop((again, other));
    }

    #[test]
    fn a_name_that_outlives_its_holder_for_a_moment_is_waited_for() {
        let index = 1_500_000_000 + std::process::id();
        let first = InterfaceLock::take("x", index).unwrap();
        // As a child of another thread between its fork and its exec.
        let copy = first._lock.try_clone().unwrap();
        drop(first);
        InterfaceLock::take("x", index).unwrap_err();
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(copy);
        });
        InterfaceLock::take_by("x", index, Instant::now() + Duration::from_secs(60)).unwrap();
        later.join().unwrap();
    }

    #[test]
    fn the_holder_is_read_from_the_list_of_sockets() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 61 @weir.impair.interface.7\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 62 @weir.impair.interface.77.of.1\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 62\n\
            0000000000000000: 00000002 00000000 00000000 0002 01 63 @weir.impair.interface.7.of.4711\n";
        assert_eq!(holder_in(list, "weir.impair.interface.7"), Some(4711));
        assert_eq!(holder_in(list, "weir.impair.interface.8"), None);
    }
}
