//! epoll and eventfd.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::poll::{Event, Interest};

/// Waits for events on descriptors added to it (`epoll(7)`). A closed descriptor is removed automatically.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

/// Room for the events of one wait.
pub struct Events {
    events: Box<[libc::epoll_event]>,
    count: usize,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl Events {
    /// Room for `capacity` events; more are reported by the next wait.
    pub fn new(capacity: usize) -> Self {
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; capacity.clamp(1, 65_536)];
        Events { events: events.into_boxed_slice(), count: 0 }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.events[..self.count].iter().map(|event| {
            let bits = event.events;
            let has = |mask: i32| bits & mask as u32 != 0;
            Event {
                token: event.u64,
                readable: has(libc::EPOLLIN | libc::EPOLLHUP | libc::EPOLLRDHUP),
                writable: has(libc::EPOLLOUT),
                error: has(libc::EPOLLERR),
                hang_up: has(libc::EPOLLHUP | libc::EPOLLRDHUP),
            }
        })
    }
}

fn mask(interest: Interest) -> u32 {
    let mut mask = 0;
    if interest.readable {
        mask |= libc::EPOLLIN | libc::EPOLLRDHUP;
    }
    if interest.writable {
        mask |= libc::EPOLLOUT;
    }
    if interest.edge {
        mask |= libc::EPOLLET;
    }
    mask as u32
}

impl Poller {
    /// A poller with nothing to wait for.
    pub fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes no pointer.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        Ok(Poller { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    fn control(
        &self,
        operation: i32,
        fd: BorrowedFd<'_>,
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let mut event = libc::epoll_event { events: mask(interest), u64: token };
        // SAFETY: `event` is a valid epoll_event through the call; both descriptors are open.
        let rc = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd.as_raw_fd(), &raw mut event)
        };
        if rc == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Starts to wait for `fd`; its events carry `token`.
    pub fn add(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd.as_fd(), token, interest)
    }

    /// Changes token and interest of a descriptor that was added.
    pub fn modify(&self, fd: impl AsFd, token: u64, interest: Interest) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd.as_fd(), token, interest)
    }

    /// Stops waiting for `fd`.
    pub fn remove(&self, fd: impl AsFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd.as_fd(), 0, Interest::default())
    }

    /// Waits for events at most `timeout_ns` (forever: `None`; not at all: 0). Returns their number; 0 on a timeout
    /// or after a signal.
    pub fn wait(&self, events: &mut Events, timeout_ns: Option<u64>) -> io::Result<usize> {
        events.count = 0;
        let found = wait_ns(&self.epoll, &mut events.events, timeout_ns);
        match found {
            Ok(n) => {
                events.count = n.min(events.events.len());
                Ok(events.count)
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(0),
            Err(e) => Err(e),
        }
    }
}

fn wait_ns(
    epoll: &OwnedFd,
    events: &mut [libc::epoll_event],
    timeout_ns: Option<u64>,
) -> io::Result<usize> {
    static NO_PWAIT2: AtomicBool = AtomicBool::new(false);
    let (fd, room) = (epoll.as_raw_fd(), events.len() as libc::c_int);
    if !NO_PWAIT2.load(Ordering::Relaxed) {
        // The kernel's own layout: two 64-bit words, on every architecture.
        let timeout =
            timeout_ns.map(|ns| [(ns / 1_000_000_000) as i64, (ns % 1_000_000_000) as i64]);
        let pointer = timeout.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
        // SAFETY: `events` is writable for `room` entries, the timeout is null or two words, no signal mask is given.
        let rc = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                fd,
                events.as_mut_ptr(),
                room,
                pointer,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        if rc >= 0 {
            return Ok(rc as usize);
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::ENOSYS) {
            return Err(error);
        }
        NO_PWAIT2.store(true, Ordering::Relaxed);
    }
    // Before Linux 5.11: milliseconds, rounded up so that the wait is not cut short.
    let timeout =
        timeout_ns.map_or(-1, |ns| i32::try_from(ns.div_ceil(1_000_000)).unwrap_or(i32::MAX));
    // SAFETY: `events` is writable for `room` entries.
    let rc = unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), room, timeout) };
    if rc >= 0 { Ok(rc as usize) } else { Err(io::Error::last_os_error()) }
}

/// Ends another thread's wait. Clones wake the same poller. Safe to use from a signal handler.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

impl Waker {
    /// A waker whose wake-ups show in `poller` as readable events with `token`, until [`Waker::clear`].
    pub fn new(poller: &Poller, token: u64) -> io::Result<Self> {
        // SAFETY: eventfd takes no pointer.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
        let event = unsafe { OwnedFd::from_raw_fd(fd) };
        poller.add(&event, token, Interest::READ)?;
        Ok(Waker { event: Arc::new(event) })
    }

    /// Wakes. Many calls before a [`Waker::clear`] count as one.
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight readable bytes. The only failure is a full counter, which is a wake-up already.
        unsafe { libc::write(self.event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Clears the wake-ups so far; returns whether there were any.
    pub fn clear(&self) -> bool {
        let mut count = [0_u8; 8];
        // SAFETY: eight writable bytes.
        unsafe { libc::read(self.event.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) == 8 }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;
    use crate::udp::{UdpOptions, UdpSocket};

    #[test]
    fn reports_the_token_that_is_readable() {
        let poller = Poller::new().unwrap();
        let bind = || UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse().unwrap())).unwrap();
        let (a, b) = (bind(), bind());
        poller.add(&a, 7, Interest::READ).unwrap();
        poller.add(&b, u64::MAX, Interest::READ).unwrap();
        let mut events = Events::new(4);
        assert_eq!(poller.wait(&mut events, Some(0)).unwrap(), 0);
        a.send_to(b"x", b.local_addr().unwrap()).unwrap();
        assert_eq!(poller.wait(&mut events, Some(5_000_000_000)).unwrap(), 1);
        let event = events.iter().next().unwrap();
        assert_eq!((event.token, event.readable, event.writable), (u64::MAX, true, false));
        poller.modify(&b, 3, Interest::WRITE).unwrap();
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        let event = events.iter().next().unwrap();
        assert_eq!((event.token, event.readable, event.writable), (3, false, true));
        poller.remove(&b).unwrap();
        assert_eq!(poller.wait(&mut events, Some(0)).unwrap(), 0);
        assert_eq!(poller.remove(&b).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn timeout_is_kept_to_the_nanosecond_scale() {
        let poller = Poller::new().unwrap();
        let mut events = Events::new(1);
        let start = clock::monotonic_ns();
        assert_eq!(poller.wait(&mut events, Some(300_000)).unwrap(), 0);
        assert!(clock::monotonic_ns() - start >= 300_000);
    }

    #[test]
    fn waker_wakes_another_thread_once() {
        let poller = Poller::new().unwrap();
        let waker = Waker::new(&poller, 1).unwrap();
        assert!(!waker.clear());
        let other = waker.clone();
        let thread = std::thread::spawn(move || {
            other.wake();
            other.wake();
        });
        let mut events = Events::new(1);
        // The wait is without limit: it can end only by the waker.
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        thread.join().unwrap();
        assert!(waker.clear());
        assert!(!waker.clear());
        assert_eq!(poller.wait(&mut events, Some(0)).unwrap(), 0);
    }
}
