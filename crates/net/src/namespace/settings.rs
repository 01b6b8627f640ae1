//! Kernel settings of a network namespace.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::{Error, NetNamespace, raw};

impl NetNamespace {
    /// Changes kernel settings (`net.…`, as in sysctl(8)) of this namespace.
    ///
    /// # Errors
    /// [`Error::object`] is the setting that was refused. Of the kernel: NotFound for a setting that this namespace does
    /// not have, InvalidInput for a value out of range, PermissionDenied for one that only the machine's root may change.
    pub fn set_sysctls(&self, settings: &BTreeMap<String, String>) -> Result<(), Error> {
        let failed = |source| Error::new("set", "kernel settings", source);
        let mut files = Vec::with_capacity(settings.len());
        for (name, value) in settings {
            let path = crate::host::sysctl_path(name).and_then(|path| CString::new(path).ok());
            let path = path.ok_or(io::ErrorKind::NotFound);
            files.push((path.map_err(|kind| Error::new("set", name, kind.into()))?, value));
        }
        let [ours, theirs] =
            raw::message_pair().map_err(io::Error::from_raw_os_error).map_err(failed)?;
        // SAFETY: both descriptors were just made and are owned by no one else.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // Only a process with one thread may enter a user namespace. Signals are blocked so that no handler of this program
        // runs in the child.
        let mask = raw::block_signals();
        // SAFETY: the child keeps to async-signal-safe calls on values prepared beforehand, touches no lock and no
        // allocator, and ends in _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let user = self.user_fd().map(|fd| fd.as_raw_fd());
            let entered = user
                .map_or(Ok(()), |user| raw::set_namespace(user, libc::CLONE_NEWUSER))
                .and_then(|()| raw::set_namespace(self.net_fd().as_raw_fd(), libc::CLONE_NEWNET));
            // The number of settings made, and the error of the next one; none is to blame if the namespace can't be entered.
            let mut made = if entered.is_err() { u32::MAX } else { 0 };
            let mut errno = entered.err().unwrap_or(0);
            for (path, value) in &files {
                if errno != 0 {
                    break;
                }
                match raw::write_file(path, value.as_bytes()) {
                    Ok(()) => made += 1,
                    Err(refused) => errno = refused,
                }
            }
            let [a, b, c, d] = made.to_ne_bytes();
            let [e, f, g, h] = errno.to_ne_bytes();
            let _ = raw::send_message(theirs.as_raw_fd(), &[a, b, c, d, e, f, g, h], &[]);
            raw::exit_now(0);
        }
        let fork_error = io::Error::last_os_error();
        raw::restore_signals(&mask);
        drop(theirs);
        if pid < 0 {
            return Err(failed(fork_error));
        }
        let mut bytes = [0_u8; 8];
        let received = raw::receive_message(ours.as_raw_fd(), &mut bytes);
        raw::wait_for_child(pid);
        let (length, _) = received.map_err(io::Error::from_raw_os_error).map_err(failed)?;
        if length != bytes.len() {
            return Err(failed(io::Error::other("the child that makes them ended early")));
        }
        let [a, b, c, d, e, f, g, h] = bytes;
        let made = u32::from_ne_bytes([a, b, c, d]) as usize;
        match i32::from_ne_bytes([e, f, g, h]) {
            0 => Ok(()),
            errno => {
                let name = settings.keys().nth(made).map_or("kernel settings", String::as_str);
                Err(Error::new("set", name, io::Error::from_raw_os_error(errno)))
            }
        }
    }
}
