//! Waiting by `poll` (`WSAPoll` on Windows): each wait passes a list of sockets to the system.

use std::io;
use std::net::UdpSocket;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::native::{self, RawSocket};
use crate::poll::{Event, Interest};
use crate::socket::{AsSocket, BorrowedSocket, borrow};

/// Waits for events on sockets added to it. A closed socket is removed by the next wait.
#[derive(Debug)]
pub struct Poller {
    state: Mutex<State>,
    /// Ends a wait during which the list changes.
    changed: Waker,
}

#[derive(Debug, Default)]
struct State {
    sockets: Vec<Added>,
    waits: usize,
}

#[derive(Clone, Copy, Debug)]
struct Added {
    socket: RawSocket,
    token: u64,
    events: i16,
}

/// Room for the events of one wait.
#[derive(Debug)]
pub struct Events {
    events: Vec<Event>,
    capacity: usize,
}

impl Events {
    /// Room for `capacity` events; more are reported by the next wait.
    pub fn new(capacity: usize) -> Self {
        Events { events: Vec::new(), capacity: capacity.clamp(1, 65_536) }
    }

    /// The events of the last wait.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Event> + '_ {
        self.events.iter().copied()
    }
}

impl Poller {
    /// A poller with nothing to wait for.
    pub fn new() -> io::Result<Self> {
        Ok(Poller { state: Mutex::default(), changed: Waker::open()? })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is plain numbers: a thread that died holding it left nothing half-done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the list, even during a wait.
    fn change(&self, change: impl FnOnce(&mut Vec<Added>) -> io::Result<()>) -> io::Result<()> {
        let mut state = self.lock();
        change(&mut state.sockets)?;
        if state.waits > 0 {
            self.changed.wake();
        }
        Ok(())
    }

    /// Starts to wait for `socket`; its events carry `token`. Interest in changes only is not available.
    pub fn add(
        &self,
        socket: &(impl AsSocket + ?Sized),
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let added = Added::new(borrow(socket), token, interest)?;
        self.change(|sockets| {
            // An entry of this number that is still in the list is of a closed socket.
            sockets.retain(|other| other.socket != added.socket);
            sockets.push(added);
            Ok(())
        })
    }

    /// Changes token and interest of a socket that was added.
    pub fn modify(
        &self,
        socket: &(impl AsSocket + ?Sized),
        token: u64,
        interest: Interest,
    ) -> io::Result<()> {
        let new = Added::new(borrow(socket), token, interest)?;
        self.change(|sockets| {
            let found = sockets.iter_mut().find(|added| added.socket == new.socket);
            *found.ok_or(io::ErrorKind::NotFound)? = new;
            Ok(())
        })
    }

    /// Stops waiting for `socket`.
    pub fn remove(&self, socket: &(impl AsSocket + ?Sized)) -> io::Result<()> {
        let socket = native::raw(borrow(socket));
        self.change(|sockets| {
            let found = sockets.iter().position(|added| added.socket == socket);
            sockets.remove(found.ok_or(io::ErrorKind::NotFound)?);
            Ok(())
        })
    }

    /// Waits for events at most `timeout_ns` (forever: `None`; not at all: 0). Returns their number; 0 on a timeout.
    pub fn wait(&self, events: &mut Events, timeout_ns: Option<u64>) -> io::Result<usize> {
        events.events.clear();
        let end = timeout_ns.and_then(|ns| Instant::now().checked_add(Duration::from_nanos(ns)));
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // Whole milliseconds; the rest is slept, since a poll has no finer unit.
            let whole = left.map_or(-1, |left| i32::try_from(left.as_millis()).unwrap_or(i32::MAX));
            self.poll(events, whole)?;
            if !events.events.is_empty() || left.is_some_and(|left| left.is_zero()) {
                return Ok(events.events.len());
            }
            if whole == 0
                && let Some(end) = end
            {
                std::thread::sleep(end.saturating_duration_since(Instant::now()));
            }
        }
    }

    /// One system call. May return without an event before the timeout.
    fn poll(&self, events: &mut Events, timeout_ms: i32) -> io::Result<()> {
        let wake = Added {
            socket: native::raw(borrow(&self.changed)),
            token: 0,
            events: native::READABLE,
        };
        let mut state = self.lock();
        let added: Vec<Added> =
            std::iter::once(wake).chain(state.sockets.iter().copied()).collect();
        state.waits += 1;
        drop(state);
        let mut entries: Vec<_> = added.iter().map(|a| native::entry(a.socket, a.events)).collect();
        let polled = native::poll(&mut entries, timeout_ms);
        let mut state = self.lock();
        state.waits -= 1;
        self.changed.clear();
        match polled {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let mut last = None;
        for (added, entry) in added.iter().zip(&entries).skip(1).filter(|(_, e)| e.revents != 0) {
            // Not one that was removed, or given another token, meanwhile.
            let is_same = |now: &Added| now.socket == added.socket && now.token == added.token;
            let Some(place) = state.sockets.iter().position(is_same) else { continue };
            let has = |bits: i16| entry.revents & bits != 0;
            if has(native::CLOSED) {
                state.sockets.remove(place);
                continue;
            }
            let hang_up = has(native::HANG_UP);
            events.events.push(Event {
                token: added.token,
                readable: has(native::READABLE) || hang_up,
                writable: has(native::WRITABLE),
                error: has(native::ERROR),
                hang_up,
            });
            last = Some(place);
            if events.events.len() == events.capacity {
                break;
            }
        }
        // Sockets after the last reported one come first at the next wait, so that none starves.
        if let Some(last) = last.filter(|_| events.events.len() == events.capacity) {
            state.sockets.rotate_left(last + 1);
        }
        Ok(())
    }
}

impl Added {
    fn new(socket: BorrowedSocket<'_>, token: u64, interest: Interest) -> io::Result<Self> {
        if interest.edge {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let readable = if interest.readable { native::READABLE } else { 0 };
        let writable = if interest.writable { native::WRITABLE } else { 0 };
        Ok(Added { socket: native::raw(socket), token, events: readable | writable })
    }
}

/// Ends another thread's wait: a UDP socket connected to itself. Clones wake the same poller.
#[derive(Clone, Debug)]
pub struct Waker {
    socket: Arc<UdpSocket>,
}

crate::as_socket!(Waker, socket);

impl Waker {
    fn open() -> io::Result<Self> {
        // Connected to itself, it accepts no datagram of another sender.
        let socket = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        socket.connect(socket.local_addr()?)?;
        socket.set_nonblocking(true)?;
        Ok(Waker { socket: Arc::new(socket) })
    }

    /// A waker whose wake-ups show in `poller` as readable events with `token`, until [`Waker::clear`].
    pub fn new(poller: &Poller, token: u64) -> io::Result<Self> {
        let waker = Self::open()?;
        poller.add(&waker, token, Interest::READ)?;
        Ok(waker)
    }

    /// Wakes. Many calls before a [`Waker::clear`] count as one.
    pub fn wake(&self) {
        // The only failure is a full buffer, which is a wake-up already.
        let _ = self.socket.send(&[0]);
    }

    /// Clears the wake-ups so far; returns whether there were any.
    pub fn clear(&self) -> bool {
        let mut any = false;
        while self.socket.recv(&mut [0; 1]).is_ok() {
            any = true;
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock;
    use super::*;

    fn bound() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    #[test]
    fn reports_requested_events_until_the_socket_is_removed() {
        let poller = Poller::new().unwrap();
        let (a, b) = (bound(), bound());
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
        assert_eq!(
            poller.add(&b, 1, Interest { edge: true, ..Interest::READ }).unwrap_err().kind(),
            io::ErrorKind::Unsupported
        );
    }

    #[test]
    fn a_wait_is_as_long_as_requested() {
        let poller = Poller::new().unwrap();
        let mut events = Events::new(1);
        for ns in [300_000, 2_300_000] {
            let start = clock::monotonic_ns();
            assert_eq!(poller.wait(&mut events, Some(ns)).unwrap(), 0);
            assert!(clock::monotonic_ns() - start >= ns);
        }
    }

    #[test]
    fn a_closed_socket_leaves_and_its_number_can_be_used_again() {
        let poller = Poller::new().unwrap();
        let closed = bound();
        let number = native::raw(borrow(&closed));
        poller.add(&closed, 1, Interest::WRITE).unwrap();
        drop(closed);
        let mut events = Events::new(4);
        let _ = poller.wait(&mut events, Some(0)).unwrap();
        // Another thread's socket may have this number meanwhile: then the entry is that socket's.
        let next = bound();
        poller.add(&next, 2, Interest::WRITE).unwrap();
        if native::raw(borrow(&next)) == number {
            assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
            assert_eq!(events.iter().next().unwrap().token, 2);
        }
    }

    #[test]
    fn no_socket_starves_where_events_have_little_room() {
        let poller = Poller::new().unwrap();
        let sockets = [bound(), bound(), bound()];
        for (token, socket) in (0..).zip(&sockets) {
            poller.add(socket, token, Interest::WRITE).unwrap();
        }
        let mut events = Events::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..3 {
            assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
            seen.insert(events.iter().next().unwrap().token);
        }
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn a_change_and_a_waker_end_the_wait_of_another_thread() {
        let poller = Poller::new().unwrap();
        let socket = bound();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut events = Events::new(1);
                // Without limit: only an event can end it.
                poller.wait(&mut events, None).unwrap();
                events.iter().next().unwrap().token
            });
            while poller.lock().waits == 0 {
                std::thread::yield_now();
            }
            poller.add(&socket, 5, Interest::WRITE).unwrap();
            assert_eq!(waiting.join().unwrap(), 5);
        });
        poller.remove(&socket).unwrap();
        let waker = Waker::new(&poller, 1).unwrap();
        assert!(!waker.clear());
        let other = waker.clone();
        let thread = std::thread::spawn(move || {
            other.wake();
            other.wake();
        });
        let mut events = Events::new(1);
        assert_eq!(poller.wait(&mut events, None).unwrap(), 1);
        thread.join().unwrap();
        assert!(waker.clear() && !waker.clear());
        assert_eq!(poller.wait(&mut events, Some(0)).unwrap(), 0);
    }
}
