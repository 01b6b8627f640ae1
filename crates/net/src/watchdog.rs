//! A child process that puts things back when its parent dies, even by SIGKILL.
//!
//! The child is forked, without `exec`, and from then on makes only async-signal-safe system calls, so it may be
//! spawned from a program with threads and needs no program of its own. Parent and child share a socket pair, which
//! closes when the parent dies. Actions are declared beforehand and stored in the child, which carries them out most
//! recent first.
//!
//! ```no_run
//! use weir_net::watchdog::{RestoreAction, Watchdog};
//! let mut watchdog = Watchdog::spawn()?;
//! watchdog.add(&RestoreAction::Mtu { interface: "eth0".into(), mtu: 1500 })?;
//! // … set the MTU to something else, work …
//! watchdog.restore(); // or die: the effect is the same
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg(target_os = "linux")]
// Forking and the child's system calls; each unsafe block carries its argument.
#![allow(unsafe_code)]

mod child;

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::namespace::{Error, LinkControl, NetNamespace, raw};
use child::{Order, OrderKind};

pub use child::MAX_ACTIONS;

/// One thing to put back. Interfaces are those of the network namespace in which the watchdog was
/// spawned; each is pinned by its index when the action is added, so that another interface that
/// has taken the name since is left alone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RestoreAction {
    /// Set the MTU in bytes.
    Mtu {
        /// Interface name.
        interface: String,
        /// Bytes.
        mtu: u32,
    },
    /// Set the transmit queue length in packets.
    TransmitQueueLength {
        /// Interface name.
        interface: String,
        /// Packets.
        packets: u32,
    },
    /// Set the flags in `mask` (IFF_UP, IFF_PROMISC, …; netdevice(7)) to their values in `flags`.
    LinkFlags {
        /// Interface name.
        interface: String,
        /// Values.
        flags: u16,
        /// Which of them to set.
        mask: u16,
    },
    /// Turn an offload on or off, by its `ethtool -k` name, such as `rx-gro`.
    Feature {
        /// Interface name.
        interface: String,
        /// Name as the kernel spells it.
        feature: String,
        /// On or off.
        on: bool,
    },
    /// Remove the root queueing discipline, so that the default one returns.
    DeleteRootQdisc {
        /// Interface name.
        interface: String,
    },
    /// Remove the ingress or clsact queueing discipline.
    DeleteIngressQdisc {
        /// Interface name.
        interface: String,
    },
    /// Remove the interface.
    DeleteLink {
        /// Interface name.
        interface: String,
    },
    /// Remove a file, unless another has taken its name since, or an action carried out before has
    /// failed. Its directory stays open.
    RemoveFile {
        /// The file, which exists.
        path: PathBuf,
    },
    /// Kill every process whose main thread is inside the network namespace; other watchdogs have
    /// 200 ms to end by themselves.
    EndProcesses {
        /// The namespace, which the watchdog keeps open.
        namespace: NetNamespace,
    },
}

/// The parent's end. Dropping it restores, as dying does; [`disarm`](Self::disarm) does not.
#[derive(Debug)]
pub struct Watchdog {
    socket: Option<OwnedFd>,
    pid: libc::pid_t,
}

impl Watchdog {
    /// Forks the child, in the calling thread's network namespace. Spawn it early: the child keeps
    /// a copy-on-write image of the parent's memory as it is now, and no descriptor of it.
    ///
    /// # Errors
    /// Of socketpair and fork.
    pub fn spawn() -> Result<Self, Error> {
        let failed = |errno| Error::new("spawn", "watchdog", io::Error::from_raw_os_error(errno));
        let [ours, theirs] = raw::message_pair().map_err(failed)?;
        // SAFETY: both descriptors were just made and are owned by no one else.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) };
        // The child keeps them blocked: no handler of this program runs there, and what is sent
        // to the process group, such as a terminal's interrupt, does not end it before its work.
        let mask = raw::block_signals();
        // SAFETY: the child runs only child::run, which makes async-signal-safe calls on values of
        // its own stack, takes no lock, allocates nothing and ends in _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            child::run(theirs.as_raw_fd());
        }
        let error = io::Error::last_os_error();
        raw::restore_signals(&mask);
        if pid < 0 {
            return Err(Error::new("fork", "watchdog", error));
        }
        Ok(Self { socket: Some(ours), pid })
    }

    /// Sends the child one more action; when this returns, it is armed.
    ///
    /// # Errors
    /// An unknown interface or feature, more than [`MAX_ACTIONS`] (ENOSPC), a child that has ended.
    pub fn add(&mut self, action: &RestoreAction) -> Result<(), Error> {
        let mut order = Order::default();
        let mut namespace = None;
        let mut directory: Option<File> = None;
        let interface = match action {
            RestoreAction::Mtu { interface, mtu } => {
                order.kind = OrderKind::Mtu;
                order.value = *mtu;
                interface
            }
            RestoreAction::TransmitQueueLength { interface, packets } => {
                order.kind = OrderKind::TransmitQueueLength;
                order.value = *packets;
                interface
            }
            RestoreAction::LinkFlags { interface, flags, mask } => {
                order.kind = OrderKind::LinkFlags;
                order.value = u32::from(*flags);
                order.detail = u32::from(*mask);
                interface
            }
            RestoreAction::Feature { interface, feature, on } => {
                let (bit, words) = LinkControl::open()?.feature_bit(interface, feature)?;
                order.kind = if *on { OrderKind::FeatureOn } else { OrderKind::FeatureOff };
                order.value = bit;
                order.detail = words;
                interface
            }
            RestoreAction::DeleteRootQdisc { interface } => {
                order.kind = OrderKind::DeleteQdisc;
                order.value = 0xffff_ffff; // TC_H_ROOT
                interface
            }
            RestoreAction::DeleteIngressQdisc { interface } => {
                order.kind = OrderKind::DeleteQdisc;
                order.value = 0xffff_fff1; // TC_H_INGRESS, the same as TC_H_CLSACT
                interface
            }
            RestoreAction::DeleteLink { interface } => {
                order.kind = OrderKind::DeleteLink;
                interface
            }
            RestoreAction::EndProcesses { namespace: inside } => {
                order.kind = OrderKind::EndProcesses;
                let id = inside.id()?;
                order.device = id.device;
                order.inode = id.inode;
                namespace = Some(inside.net_fd().as_raw_fd());
                ""
            }
            RestoreAction::RemoveFile { path } => {
                order.kind = OrderKind::RemoveFile;
                let name = path.file_name().unwrap_or_default().as_encoded_bytes();
                let failed = |source| Error::new("arm watchdog for", "a file", source);
                if name.is_empty() || name.len() >= order.file.len() {
                    return Err(failed(io::Error::from_raw_os_error(libc::ENAMETOOLONG)));
                }
                order.file[..name.len()].copy_from_slice(name);
                let parent = path.parent().filter(|p| !p.as_os_str().is_empty());
                directory = Some(File::open(parent.unwrap_or(Path::new("."))).map_err(failed)?);
                "a file"
            }
        };
        let failed =
            |errno| Error::new("arm watchdog for", interface, io::Error::from_raw_os_error(errno));
        if namespace.is_none() && directory.is_none() {
            order.interface =
                crate::namespace::interface_name(interface).ok_or(failed(libc::ENODEV))?;
        }
        let Some(socket) = &self.socket else { return Err(failed(libc::EPIPE)) };
        let descriptor = namespace.or(directory.as_ref().map(AsRawFd::as_raw_fd));
        raw::send_message(socket.as_raw_fd(), &order.to_bytes(), descriptor.as_slice())
            .map_err(failed)?;
        let mut answer = [0_u8; 4];
        let (length, _) = raw::receive_message(socket.as_raw_fd(), &mut answer).map_err(failed)?;
        match i32::from_ne_bytes(answer) {
            _ if length != answer.len() => Err(failed(libc::EPIPE)),
            0 => Ok(()),
            errno => Err(failed(errno)),
        }
    }

    /// Ends the child without restoring anything.
    pub fn disarm(mut self) {
        if let Some(socket) = &self.socket {
            let order = Order { kind: OrderKind::Disarm, ..Order::default() };
            // A child that has already ended needs no message.
            let _ = raw::send_message(socket.as_raw_fd(), &order.to_bytes(), &[]);
        }
        self.finish();
    }

    /// Carries the actions out now, most recent first, and waits until it is done.
    pub fn restore(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        if self.socket.take().is_some() {
            raw::wait_for_child(self.pid);
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.finish();
    }
}
