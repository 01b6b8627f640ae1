//! The process that holds a lab, and the process that starts it.
//!
//! They talk over the holder's standard input, a socket, one JSON line each way: the order, then
//! what came of it, then `keep`. A starter that dies before `keep` (an interrupt during `up`)
//! leaves nothing: the holder sees the socket close and takes the lab down.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_net::namespace::{ChildSetup, TerminationSignals, boot_id, process_start_time};

use super::entry::{Entry, EntryNode, HolderId, MAX_ENTRY_BYTES};
use super::lab::Lab;
use super::registry::{JoinedLab, Registry};
use crate::error::{Error, ErrorClass};
use crate::spec::{LabName, LabSpec};

const KEEP: &str = "keep";
/// Timeout of a holder's setup, and of a starter's answer.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize)]
struct Order {
    name: LabName,
    spec: LabSpec,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Outcome {
    Up(Entry),
    Failed { class: ErrorClass, text: String },
}

fn broken(source: io::Error) -> Error {
    Error::Holder {
        class: ErrorClass::Internal,
        text: format!("the lab's holder process did not start or ended early: {source}"),
    }
}

impl Registry {
    /// Makes a lab that lasts until [`down`](Self::down) or the death of its holder. `holder` is a
    /// command that leads to [`hold`] in a process of its own, with the same environment.
    ///
    /// # Errors
    /// A name that is taken, a specification that cannot be, whatever the system refuses. Nothing is
    /// left then.
    pub fn start(
        &self,
        name: &LabName,
        spec: &LabSpec,
        mut holder: Command,
    ) -> Result<JoinedLab, Error> {
        spec.check().inspect_err(|_| {
            // Removes the directory if it is empty.
            let _ = self.list();
        })?;
        let (ours, theirs) = UnixStream::pair().map_err(broken)?;
        ours.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
        holder.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
        // It holds no directory and gets no signals of the terminal.
        holder.current_dir("/");
        holder.env(super::directory::OVERRIDE, self.runtime());
        ChildSetup::new().new_session().apply(&mut holder)?;
        let mut child = holder.spawn().map_err(broken)?;
        // The command keeps the far end of the socket open, which would hide the holder's death.
        drop(holder);
        let order = Order { name: name.clone(), spec: spec.clone() };
        let outcome = send_line(&ours, &order).and_then(|()| receive_line(&ours));
        match outcome {
            Ok(Outcome::Up(entry)) => {
                (&ours).write_all(format!("{KEEP}\n").as_bytes()).map_err(broken)?;
                Ok(JoinedLab::from_entry(entry))
            }
            Ok(Outcome::Failed { class, text }) => {
                let _ = child.wait();
                Err(Error::Holder { class, text })
            }
            Err(source) => {
                // Closing our end makes the holder remove what it created.
                drop(ours);
                let _ = child.kill();
                let _ = child.wait();
                Err(broken(source))
            }
        }
    }
}

/// The holder: reads its order from standard input, creates the lab, and keeps it until SIGTERM, SIGINT or SIGHUP.
/// Call it first in a process of its own, before there are threads.
///
/// # Errors
/// Those also reported to its starter.
pub fn hold() -> Result<(), Error> {
    let signals = TerminationSignals::block();
    let socket = io::stdin().as_fd().try_clone_to_owned().map(UnixStream::from).map_err(broken)?;
    socket.set_read_timeout(Some(TIMEOUT)).map_err(broken)?;
    let order: Order = match receive_line(&socket) {
        Ok(order) => order,
        Err(source) => {
            leave_no_empty_directory();
            return Err(broken(source));
        }
    };
    let registry = Registry::open();
    let made = registry.and_then(|registry| {
        let made = make(&registry, &order)?;
        Ok((registry, made))
    });
    let (registry, (lab, entry, lock)) = match made {
        Ok(made) => made,
        Err(error) => {
            let outcome = Outcome::Failed { class: error.class(), text: error.to_string() };
            let _ = send_line(&socket, &outcome);
            leave_no_empty_directory();
            return Err(error);
        }
    };
    if send_line(&socket, &Outcome::Up(entry)).is_ok() && is_kept(&socket) {
        drop(socket);
        signals.wait();
    }
    // The processes inside end first; the entry is removed while it is still locked, then the lock.
    drop(lab);
    registry.unregister(&order.name)?;
    drop(lock);
    Ok(())
}

fn make(registry: &Registry, order: &Order) -> Result<(Lab, Entry, File), Error> {
    // Held throughout, so that of two starters with one name only one creates anything.
    let _change = registry.lock()?;
    if registry.read(&order.name)?.is_some() {
        return Err(Error::Exists { name: order.name.to_string() });
    }
    let lab = Lab::up(&order.spec)?;
    let pid = std::process::id();
    let missing = |what: &str| Error::Damaged { why: format!("/proc has no {what}") };
    let holder = HolderId {
        pid,
        start_time: process_start_time(pid).ok_or_else(|| missing("when a process started"))?,
    };
    let boot = boot_id().ok_or_else(|| missing("the boot's id"))?;
    let mut user_descriptor = None;
    let mut nodes = Vec::new();
    for name in lab.node_names() {
        let namespace = lab.namespace(name)?;
        user_descriptor = namespace.user_fd().map(|fd| fd.as_raw_fd().unsigned_abs());
        nodes.push(EntryNode {
            name: name.to_owned(),
            net_descriptor: namespace.net_fd().as_raw_fd().unsigned_abs(),
            inode: namespace.id()?.inode,
            host: lab.hosts().find(|host| host.name == name).cloned(),
        });
    }
    let entry = Entry::new(order.name.clone(), boot, holder, user_descriptor, nodes);
    let lock = registry.write(&entry)?;
    Ok((lab, entry, lock))
}

/// The starter may be killed at any point after it created the directory of entries.
fn leave_no_empty_directory() {
    // Reading removes it when it is empty.
    let _ = Registry::open().and_then(|registry| registry.list());
}

fn is_kept(socket: &UnixStream) -> bool {
    let mut line = String::new();
    let read = BufReader::new(socket).take(16).read_line(&mut line);
    read.is_ok() && line.trim_end() == KEEP
}

fn send_line(mut socket: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    socket.write_all(&line)
}

fn receive_line<T: for<'de> Deserialize<'de>>(socket: &UnixStream) -> io::Result<T> {
    let mut line = Vec::new();
    let limit = MAX_ENTRY_BYTES as u64 + 1024;
    BufReader::new(socket).take(limit).read_until(b'\n', &mut line)?;
    if line.last() != Some(&b'\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&line)?)
}
