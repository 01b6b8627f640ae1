//! Relays datagrams from a lab to other hosts, on one thread. Each exchange has a socket on this host; it relays what one
//! port of the command sends to one address.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use weir_net::namespace::NetNamespace;
use weir_net::poll::{Events, Interest, Poller};
use weir_net::transparent::{self, TransparentUdp};

use super::outward::{DNS_PORT, LOOK, Lost, Targets};
use super::relay::Protocol;

/// Maximum number of concurrent exchanges; a further one ends the exchange that would expire first.
const MAX_EXCHANGES: usize = 1024;
/// An exchange expires after this time without a datagram.
const SILENCE: Duration = Duration::from_secs(120);
/// The same for a DNS query that was answered: most resolvers use a new port for each query.
const ANSWERED: Duration = Duration::from_secs(5);
/// Maximum number of datagrams read from one socket before the others are served.
const BATCH: usize = 64;
/// Number of exchanges that are ended when this process has no descriptor left.
const MAKE_ROOM: usize = 8;
/// Poll token of the socket that receives datagrams from the lab.
const FROM_LAB: u64 = u64::MAX;

/// Source address in the lab, destination address.
type Key = (SocketAddr, SocketAddr);

/// Values by key and by number, ordered by expiry.
struct Table<T> {
    numbers: HashMap<Key, u64>,
    entries: HashMap<u64, (Key, Instant, T)>,
    order: BTreeSet<(Instant, u64)>,
    next: u64,
}

impl<T> Table<T> {
    fn new() -> Self {
        let (numbers, entries) = (HashMap::new(), HashMap::new());
        Table { numbers, entries, order: BTreeSet::new(), next: 0 }
    }

    fn len(&self) -> usize {
        self.entries.len()
    }

    fn number(&self, key: &Key) -> Option<u64> {
        self.numbers.get(key).copied()
    }

    fn get(&self, number: u64) -> Option<(&Key, &T)> {
        self.entries.get(&number).map(|(key, _, value)| (key, value))
    }

    /// Inserts a new key under the next number.
    fn insert(&mut self, key: Key, until: Instant, value: T) -> u64 {
        let number = self.next;
        self.next += 1;
        self.numbers.insert(key, number);
        self.entries.insert(number, (key, until, value));
        self.order.insert((until, number));
        number
    }

    /// Sets the expiry of an entry.
    fn keep(&mut self, number: u64, until: Instant) {
        if let Some((_, before, _)) = self.entries.get_mut(&number) {
            self.order.remove(&(*before, number));
            *before = until;
            self.order.insert((until, number));
        }
    }

    /// Removes the entry that expires first; with `now`, only if it has expired.
    fn forget(&mut self, now: Option<Instant>) -> Option<T> {
        let &(until, number) = self.order.first()?;
        if now.is_some_and(|now| until > now) {
            return None;
        }
        self.order.remove(&(until, number));
        let (key, _, value) = self.entries.remove(&number)?;
        self.numbers.remove(&key);
        Some(value)
    }
}

struct Exchange {
    /// Socket of this host, connected to the destination.
    service: UdpSocket,
    /// Socket in the lab, bound to the destination's address: answers appear to come from there.
    back: Arc<UdpSocket>,
}

/// The relay of datagrams.
pub(super) struct Datagrams {
    taken: TransparentUdp,
    namespace: NetNamespace,
    targets: Targets,
    lost: Arc<Lost>,
    poller: Poller,
    table: Table<Exchange>,
    /// The sockets for answers, one for each destination.
    backs: HashMap<SocketAddrV4, Weak<UdpSocket>>,
    buffer: Vec<u8>,
}

impl Datagrams {
    /// A relay for the datagrams that `taken`, a socket in `namespace`, receives.
    ///
    /// # Errors
    /// The poller can't be created.
    pub(super) fn new(
        taken: TransparentUdp,
        namespace: NetNamespace,
        targets: Targets,
        lost: Arc<Lost>,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(&taken, FROM_LAB, Interest::READ)?;
        let (table, backs) = (Table::new(), HashMap::new());
        let buffer = vec![0; 65_536];
        Ok(Datagrams { taken, namespace, targets, lost, poller, table, backs, buffer })
    }

    /// Relays datagrams until `over` is set.
    pub(super) fn pass(mut self, over: &AtomicBool) {
        let mut events = Events::new(BATCH);
        while !over.load(Ordering::Relaxed) {
            while let Some(exchange) = self.table.forget(Some(Instant::now())) {
                self.close(exchange);
            }
            if self.poller.wait(&mut events, Some(LOOK.as_nanos() as u64)).is_err() {
                std::thread::sleep(LOOK);
            }
            for token in events.iter().map(|event| event.token).collect::<Vec<_>>() {
                match token {
                    FROM_LAB => self.pass_out(),
                    number => self.pass_back(number),
                }
            }
        }
    }

    fn pass_out(&mut self) {
        for _ in 0..BATCH {
            match self.taken.recv(&mut self.buffer) {
                Ok((len, source, asked)) => {
                    if self.send(len, (source, asked)).is_err() {
                        self.lost.datagram();
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::InvalidData => self.lost.datagram(),
                Err(_) => return,
            }
        }
    }

    fn send(&mut self, len: usize, key: Key) -> io::Result<()> {
        let number = match self.table.number(&key) {
            Some(number) => number,
            None => self.begin(key)?,
        };
        self.table.keep(number, Instant::now() + SILENCE);
        let Some((_, exchange)) = self.table.get(number) else { return Ok(()) };
        let bytes = &self.buffer[..len];
        // The first attempt may return the error of an earlier datagram.
        match exchange.service.send(bytes).or_else(|_| exchange.service.send(bytes)) {
            // No service listens there: the destination refused the datagram, the relay did not drop it.
            Err(e) if e.kind() != io::ErrorKind::ConnectionRefused => Err(e),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, key: Key) -> io::Result<u64> {
        if self.table.len() >= MAX_EXCHANGES {
            self.make_room(1);
        }
        let opened = match self.open(key.1) {
            // EMFILE, ENFILE: treat it like a full table.
            Err(e) if matches!(e.raw_os_error(), Some(23 | 24)) => {
                self.make_room(MAKE_ROOM);
                self.open(key.1)
            }
            opened => opened,
        };
        let exchange = opened?;
        self.poller.add(&exchange.service, self.table.next, Interest::READ)?;
        Ok(self.table.insert(key, Instant::now() + SILENCE, exchange))
    }

    /// Ends up to `count` exchanges before they expire.
    fn make_room(&mut self, count: usize) {
        for _ in 0..count {
            let Some(exchange) = self.table.forget(None) else { return };
            self.close(exchange);
            self.lost.exchange();
        }
    }

    /// Closes the sockets of an exchange; the one for answers only if no other exchange uses it.
    fn close(&mut self, exchange: Exchange) {
        let Exchange { service, back } = exchange;
        drop(service);
        if let Ok(SocketAddr::V4(asked)) = back.local_addr()
            && Arc::strong_count(&back) == 1
        {
            self.backs.remove(&asked);
        }
    }

    fn open(&mut self, asked: SocketAddr) -> io::Result<Exchange> {
        let SocketAddr::V4(local) = asked else { return Err(io::ErrorKind::Unsupported.into()) };
        let target = self.targets.of(asked, Protocol::Udp);
        let any: IpAddr = match target {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let service = UdpSocket::bind((any, 0))?;
        service.connect(target)?;
        service.set_nonblocking(true)?;
        let back = match self.backs.get(&local).and_then(Weak::upgrade) {
            Some(back) => back,
            None => {
                let back = self
                    .namespace
                    .run_in(|| transparent::udp_from(local))
                    .map_err(|e| io::Error::other(e.to_string()))??;
                back.set_nonblocking(true)?;
                let back = Arc::new(back);
                self.backs.insert(local, Arc::downgrade(&back));
                back
            }
        };
        Ok(Exchange { service, back })
    }

    fn pass_back(&mut self, number: u64) {
        // The exchange may have ended since the event.
        let Some(((source, asked), exchange)) = self.table.get(number) else { return };
        let mut until = None;
        for _ in 0..BATCH {
            match exchange.service.recv(&mut self.buffer) {
                Ok(len) => {
                    let answered = asked.port() == DNS_PORT;
                    until = Some(Instant::now() + if answered { ANSWERED } else { SILENCE });
                    if exchange.back.send_to(&self.buffer[..len], source).is_err() {
                        self.lost.datagram();
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // The error of an earlier datagram; the socket reports it only once.
                Err(_) => {}
            }
        }
        if let Some(until) = until {
            self.table.keep(number, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> Key {
        (SocketAddr::from(([192, 0, 2, 1], port)), SocketAddr::from(([192, 0, 2, 2], 53)))
    }

    #[test]
    fn exchanges_expire_in_order_and_not_early() {
        let mut table = Table::new();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let numbers: Vec<u64> = (0..3).map(|i| table.insert(key(i), at(10), i)).collect();
        // Entries with the same expiry are distinct.
        assert_eq!(table.len(), 3);
        table.keep(numbers[0], at(30));
        table.keep(numbers[1], at(20));
        assert_eq!(table.forget(Some(at(9))), None);
        assert_eq!(table.forget(Some(at(10))), Some(2));
        assert_eq!(table.forget(Some(at(10))), None);
        // Without `now`, an entry is removed before it expires.
        assert_eq!(table.forget(None), Some(1));
        assert_eq!((table.number(&key(1)), table.number(&key(0))), (None, Some(numbers[0])));
        table.keep(numbers[1], at(40));
        assert_eq!((table.len(), table.get(numbers[0])), (1, Some((&key(0), &0))));
        assert_eq!(table.forget(None), Some(0));
        assert_eq!((table.forget(None), table.order.len(), table.numbers.len()), (None, 0, 0));
    }
}
