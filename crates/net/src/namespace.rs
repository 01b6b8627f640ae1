//! Linux namespaces: where a lab's hosts live.
//!
//! A network namespace created here has no name and no mount: it exists for as long as a descriptor or a process
//! refers to it, so it cannot outlive its holder, not even by SIGKILL.
//!
//! * [`create`] makes namespaces, for root directly and for an ordinary user inside a new user
//!   namespace, and hands back for each a [`NetNamespace`], a route socket and a [`LinkControl`].
//! * [`NetNamespace::run_in`] runs a closure inside; [`ChildSetup`] starts a program inside;
//!   [`NetNamespace::set_sysctls`] changes kernel settings.
//! * [`Process`] and [`end_processes_in`] act on other processes without the race of a reused pid.
//!
//! ```no_run
//! use std::process::Command;
//! use weir_net::namespace::{ChildSetup, NamespaceOptions, create};
//! let parts = create(&[NamespaceOptions::default()])?;
//! let mut command = Command::new("cat");
//! command.arg("/proc/net/dev");
//! ChildSetup::new().namespace(&parts[0].namespace).apply(&mut command)?;
//! command.status()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![cfg(target_os = "linux")]
// The modules below are the system calls themselves; each unsafe block carries its argument.
#![allow(unsafe_code)]

mod child;
mod create;
mod link;
mod process;
pub(crate) mod raw;
mod settings;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

pub use child::{ChildSetup, ClockOffset};
pub use create::{NamespaceOptions, NamespaceParts, create, enter_user_namespace, route_socket};
pub use link::LinkControl;
pub(crate) use link::{interface_ioctl, interface_name, request_for, set_feature_bit, set_flags};
pub(crate) use process::signal_group;
pub use process::{
    Process, TerminationSignals, boot_id, effective_user_id, end_processes_in, process_start_time,
};

/// An error of a namespace, an interface setting or a process: the operation and its object.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {object}: {source}")]
pub struct Error {
    /// What was attempted, as a verb phrase.
    pub operation: &'static str,
    /// Its object.
    pub object: String,
    /// The system's error.
    #[source]
    pub source: io::Error,
}

impl Error {
    pub(crate) fn new(
        operation: &'static str,
        object: impl Into<String>,
        source: io::Error,
    ) -> Self {
        Self { operation, object: object.into(), source }
    }

    pub(crate) fn last(operation: &'static str, object: impl Into<String>) -> Self {
        Self::new(operation, object, io::Error::last_os_error())
    }

    /// Whether the system refused for lack of a privilege (EPERM, EACCES) or forbids or lacks the
    /// facility (ENOSPC and EUSERS of namespace limits, ENOSYS, EINVAL of a kernel built without it).
    pub fn is_not_permitted(&self) -> bool {
        matches!(
            self.source.raw_os_error(),
            Some(libc::EPERM | libc::EACCES | libc::ENOSPC | libc::EUSERS | libc::ENOSYS)
        )
    }
}

/// Identity of a namespace: device and inode number of its nsfs file.
/// Unique only while something refers to the namespace; the number may be reused afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespaceId {
    /// Device number of nsfs.
    pub device: u64,
    /// Inode number within nsfs.
    pub inode: u64,
}

impl NamespaceId {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { device: metadata.dev(), inode: metadata.ino() })
    }
}

/// A network namespace, kept alive by this value, with the user namespace that owns it when that
/// is not the caller's own.
#[derive(Debug, Clone)]
pub struct NetNamespace {
    net: Arc<OwnedFd>,
    user: Option<Arc<OwnedFd>>,
}

impl NetNamespace {
    pub(crate) fn from_parts(net: OwnedFd, user: Option<Arc<OwnedFd>>) -> Self {
        Self { net: Arc::new(net), user }
    }

    /// The network namespace of the calling thread.
    pub fn current() -> Result<Self, Error> {
        Self::open("/proc/thread-self/ns/net", None)
    }

    /// Opens a network namespace, and its owning user namespace if it must be entered first, by
    /// path: `/proc/<pid>/ns/net` or `/proc/<pid>/fd/<number>` of a holder.
    /// Refuses a path that does not lead to a namespace of that kind.
    pub fn open(net: impl AsRef<Path>, user: Option<&Path>) -> Result<Self, Error> {
        let net = open_kind(net.as_ref(), libc::CLONE_NEWNET)?;
        let user = match user {
            Some(path) => Some(Arc::new(open_kind(path, libc::CLONE_NEWUSER)?)),
            None => None,
        };
        Ok(Self::from_parts(net, user))
    }

    /// Descriptor of the network namespace.
    pub fn net_fd(&self) -> BorrowedFd<'_> {
        self.net.as_fd()
    }

    /// Descriptor of the user namespace that has to be entered first, if there is one.
    pub fn user_fd(&self) -> Option<BorrowedFd<'_>> {
        self.user.as_ref().map(|fd| fd.as_fd())
    }

    /// Identity of the network namespace.
    pub fn id(&self) -> Result<NamespaceId, Error> {
        self.net
            .try_clone()
            .and_then(|fd| NamespaceId::of(&File::from(fd)))
            .map_err(|source| Error::new("identify", "network namespace", source))
    }

    /// Runs `work` on a fresh thread inside the namespace and returns its result.
    ///
    /// Sockets opened by `work` stay in the namespace after it returns. Read `/proc/thread-self/net`
    /// there, never `/proc/net` or `/proc/self/net`, which show the main thread's namespace.
    ///
    /// # Errors
    /// EPERM when the namespace belongs to another user namespace: a threaded process cannot enter
    /// one. Start a program inside with [`ChildSetup`] instead, or call [`enter_user_namespace`]
    /// first thing in `main`. A panic of `work` continues in the caller.
    pub fn run_in<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let entered = std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("weir-netns".into())
                .spawn_scoped(scope, || {
                    raw::set_namespace(self.net.as_raw_fd(), libc::CLONE_NEWNET)
                        .map(|()| work())
                        .map_err(io::Error::from_raw_os_error)
                })
                .map(|thread| match thread.join() {
                    Ok(result) => result,
                    Err(panic) => std::panic::resume_unwind(panic),
                })
        });
        entered
            .and_then(|result| result)
            .map_err(|source| Error::new("enter", "network namespace", source))
    }
}

/// Opens a namespace file and checks that it is one of the wanted kind, so that a stale or hostile
/// descriptor number can never be mistaken for a namespace.
fn open_kind(path: &Path, kind: libc::c_int) -> Result<OwnedFd, Error> {
    let named = |source| Error::new("open", path.display().to_string(), source);
    // Checked before it is opened: opening an arbitrary descriptor (a device, a FIFO) could block.
    let expected = std::fs::metadata("/proc/thread-self/ns/net").map_err(named)?;
    let found = std::fs::metadata(path).map_err(named)?;
    if found.dev() != expected.dev() {
        return Err(named(io::Error::new(io::ErrorKind::InvalidInput, "not a namespace")));
    }
    let fd = OwnedFd::from(File::open(path).map_err(named)?);
    match raw::namespace_kind(fd.as_raw_fd()) {
        Ok(found) if found == kind => Ok(fd),
        Ok(_) => {
            Err(named(io::Error::new(io::ErrorKind::InvalidInput, "a namespace of another kind")))
        }
        Err(errno) => Err(named(io::Error::from_raw_os_error(errno))),
    }
}
