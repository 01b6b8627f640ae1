//! Starting a program inside namespaces.

use std::ffi::{CStr, CString, c_int};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Error, NetNamespace, raw};

// linux/mount.h
const OPEN_TREE_CLONE: libc::c_uint = 1;
const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
const AT_RECURSIVE: libc::c_uint = 0x8000;

/// How far the clocks of a new time namespace are ahead of the machine's (time_namespaces(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Added to CLOCK_MONOTONIC and CLOCK_BOOTTIME, seconds; the result must not be negative.
    pub seconds: i64,
}

/// What happens to a child between `fork` and `exec`.
#[derive(Debug, Default)]
pub struct ChildSetup {
    namespace: Option<NetNamespace>,
    clock_offset: Option<ClockOffset>,
    parent_death_signal: Option<c_int>,
    new_session: bool,
    default_signals: bool,
    inherited: Vec<OwnedFd>,
    shown: Option<Shown>,
}

/// A file that the child sees instead of another.
#[derive(Debug)]
struct Shown {
    path: &'static CStr,
    content: String,
    refusal: OwnedFd,
}

impl ChildSetup {
    /// A setup that changes nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs the child inside a network namespace (and its user namespace, as root there), with a
    /// private mount namespace and a fresh `/sys` that shows its interfaces. The fresh `/sys` is
    /// best effort: where it is refused the child sees the machine's.
    #[must_use]
    pub fn namespace(mut self, namespace: &NetNamespace) -> Self {
        self.namespace = Some(namespace.clone());
        self
    }

    /// Runs the child in a new time namespace. Needs CAP_SYS_ADMIN, which a user namespace gives.
    #[must_use]
    pub fn clock_offset(mut self, offset: ClockOffset) -> Self {
        self.clock_offset = Some(offset);
        self
    }

    /// Sends `signal` to the child when the *thread* that started it ends (PR_SET_PDEATHSIG).
    #[must_use]
    pub fn parent_death_signal(mut self, signal: i32) -> Self {
        self.parent_death_signal = Some(signal);
        self
    }

    /// Makes the child leader of its own session, out of reach of the terminal's signals.
    #[must_use]
    pub fn new_session(mut self) -> Self {
        self.new_session = true;
        self
    }

    /// Gives the child the default disposition of SIGHUP, SIGINT, SIGQUIT and SIGTERM, also where this process was started
    /// with one of them ignored (`nohup`, or a background job of a shell without job control).
    #[must_use]
    pub fn default_signals(mut self) -> Self {
        self.default_signals = true;
        self
    }

    /// Keeps a descriptor open in the child, under the number that it has here.
    #[must_use]
    pub fn inherit(mut self, descriptor: OwnedFd) -> Self {
        self.inherited.push(descriptor);
        self
    }

    /// Shows the child a file with `content` instead of the one at `path`, which must exist. It lives in memory,
    /// in a mount namespace of the child's own, and ends with it: no other program sees it, and it has no name elsewhere.
    ///
    /// If that is refused, the child starts without it, and the errno is written to `refusal`, the writing end of a
    /// pipe: four bytes in this machine's byte order.
    #[must_use]
    pub fn file(mut self, path: &'static CStr, content: String, refusal: OwnedFd) -> Self {
        self.shown = Some(Shown { path, content, refusal });
        self
    }

    /// Installs this in `command`; `spawn` returns a refusal as its error.
    ///
    /// `CommandExt::exec` works too, from a process with one thread, without
    /// [`parent_death_signal`](Self::parent_death_signal).
    ///
    /// # Errors
    /// Only those of preparing the text for the kernel.
    pub fn apply(self, command: &mut Command) -> Result<(), Error> {
        let offsets = match self.clock_offset {
            None => None,
            Some(ClockOffset { seconds }) => {
                let text = format!("monotonic {seconds} 0\nboottime {seconds} 0\n");
                Some(CString::new(text).map_err(|error| {
                    Error::new("write", "clock offset", io::Error::other(error))
                })?)
            }
        };
        let parent = std::process::id();
        let hook = move || {
            if self.new_session {
                // SAFETY: no arguments. EPERM means that it leads a group already: harmless.
                unsafe { libc::setsid() };
            }
            if self.default_signals {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                    // SAFETY: async-signal-safe, and SIG_DFL is a disposition of these signals.
                    unsafe { libc::signal(signal, libc::SIG_DFL) };
                }
            }
            for descriptor in &self.inherited {
                // SAFETY: a descriptor that this hook owns; F_SETFD takes an integer and touches no memory.
                if unsafe { libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            if let Some(namespace) = &self.namespace {
                let user = namespace.user_fd().map(|fd| fd.as_raw_fd());
                enter(namespace.net_fd().as_raw_fd(), user)
                    .map_err(io::Error::from_raw_os_error)?;
            }
            if let Some(Shown { path, content, refusal }) = &self.shown
                && let Err(errno) = show_file(path, content.as_bytes())
            {
                let errno = errno.to_ne_bytes();
                // SAFETY: an open descriptor and four readable bytes. A parent that does not read it misses the error.
                unsafe { libc::write(refusal.as_raw_fd(), errno.as_ptr().cast(), errno.len()) };
            }
            if let Some(offsets) = &offsets {
                enter_time_namespace(offsets.as_bytes()).map_err(io::Error::from_raw_os_error)?;
            }
            // After the changes of user namespace, which clear it.
            if let Some(signal) = self.parent_death_signal {
                // SAFETY: prctl with plain integers; getppid cannot fail.
                let orphaned = unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong);
                    libc::getppid() as u32 != parent
                };
                if orphaned {
                    return Err(io::Error::from_raw_os_error(libc::ESRCH));
                }
            }
            Ok(())
        };
        // SAFETY: the hook keeps to system calls on values prepared beforehand: no allocation (an
        // io::Error from an errno holds none), no lock, no panic.
        unsafe { command.pre_exec(hook) };
        Ok(())
    }
}

/// Enters the namespaces and gives them a `/sys` of their own. Async-signal-safe.
fn enter(net: RawFd, user: Option<RawFd>) -> Result<(), c_int> {
    if let Some(user) = user {
        raw::set_namespace(user, libc::CLONE_NEWUSER)?;
    }
    raw::set_namespace(net, libc::CLONE_NEWNET)?;
    if raw::unshare(libc::CLONE_NEWNS).is_ok() {
        refresh_sys();
    }
    Ok(())
}

/// sysfs shows the interfaces of the network namespace in which it was mounted. What was mounted
/// below /sys/fs/cgroup is carried over, since programs read their CPU limits there.
fn refresh_sys() {
    // SAFETY: all strings are NUL-terminated literals; null source, type and data are allowed for
    // a change of propagation. Nothing here affects the machine's own mounts: the mount namespace is
    // new, and made a slave first.
    unsafe {
        let changed = libc::mount(
            std::ptr::null(),
            c"/".as_ptr(),
            std::ptr::null(),
            libc::MS_REC | libc::MS_SLAVE,
            std::ptr::null(),
        );
        if changed != 0 {
            return;
        }
        let groups = libc::syscall(
            libc::SYS_open_tree,
            libc::AT_FDCWD,
            c"/sys/fs/cgroup".as_ptr(),
            OPEN_TREE_CLONE | AT_RECURSIVE | libc::O_CLOEXEC as libc::c_uint,
        );
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
        let mount = |flags| {
            libc::mount(
                c"sysfs".as_ptr(),
                c"/sys".as_ptr(),
                c"sysfs".as_ptr(),
                flags,
                std::ptr::null(),
            ) == 0
        };
        // Where the machine's own is read-only (a container), a writable one is refused.
        let mounted = mount(flags) || mount(flags | libc::MS_RDONLY);
        if groups >= 0 {
            if mounted {
                libc::syscall(
                    libc::SYS_move_mount,
                    groups,
                    c"".as_ptr(),
                    libc::AT_FDCWD,
                    c"/sys/fs/cgroup".as_ptr(),
                    MOVE_MOUNT_F_EMPTY_PATH,
                );
            }
            raw::close(groups as RawFd);
        }
    }
}

/// Puts a new file over the one at `path`, in a new mount namespace. Async-signal-safe.
///
/// A bind mount requires a file on a mounted file system: one in memory is mounted at /sys, which every Linux has,
/// for the time being.
fn show_file(path: &CStr, content: &[u8]) -> Result<(), c_int> {
    const PLACE: &CStr = c"/sys";
    const FILE: &CStr = c"/sys/file";
    let done = |result: c_int| if result == 0 { Ok(()) } else { Err(raw::errno()) };
    raw::unshare(libc::CLONE_NEWNS)?;
    let (none, flags) = (std::ptr::null(), libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC);
    // SAFETY: strings that end in NUL, null where mount(2) allows it. Nothing is mounted before the new namespace is a
    // slave of the machine's, so that the machine sees none of it.
    unsafe {
        let slave = libc::MS_REC | libc::MS_SLAVE;
        done(libc::mount(none, c"/".as_ptr(), none, slave, none.cast()))?;
        let (kind, limits) = (c"tmpfs".as_ptr(), c"size=1m,mode=755".as_ptr());
        done(libc::mount(kind, PLACE.as_ptr(), kind, flags, limits.cast()))?;
    }
    let shown = write_new(FILE, content).and_then(|()| {
        // SAFETY: as above.
        done(unsafe { libc::mount(FILE.as_ptr(), path.as_ptr(), none, libc::MS_BIND, none.cast()) })
    });
    // SAFETY: a string that ends in NUL. The file stays as long as it is mounted.
    done(unsafe { libc::umount2(PLACE.as_ptr(), libc::MNT_DETACH) }).and(shown)
}

/// Writes a new file that all users may read. Async-signal-safe.
fn write_new(path: &CStr, content: &[u8]) -> Result<(), c_int> {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: a string that ends in NUL; the mode that O_CREAT wants.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o644 as libc::c_uint) };
    if fd < 0 {
        return Err(raw::errno());
    }
    // SAFETY: an open descriptor and a readable slice.
    let written = unsafe {
        // Whatever the umask is.
        libc::fchmod(fd, 0o644);
        libc::write(fd, content.as_ptr().cast(), content.len())
    };
    let result = if written < 0 {
        Err(raw::errno())
    } else if written.unsigned_abs() == content.len() {
        Ok(())
    } else {
        Err(libc::EIO)
    };
    raw::close(fd);
    result
}

/// Async-signal-safe.
fn enter_time_namespace(offsets: &[u8]) -> Result<(), c_int> {
    raw::unshare(libc::CLONE_NEWTIME)?;
    raw::write_file(c"/proc/self/timens_offsets", offsets)?;
    // unshare moves only future children; not every kernel moves the process itself at exec.
    let own = raw::open(c"/proc/self/ns/time_for_children", libc::O_RDONLY)?;
    let result = raw::set_namespace(own, libc::CLONE_NEWTIME);
    raw::close(own);
    result
}
