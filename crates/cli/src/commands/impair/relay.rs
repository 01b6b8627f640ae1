//! Access from a lab's host to this host's services: the relay listens in the lab on every TCP port that this host listens
//! on, and relays the byte streams. It needs no privileges and does not change this host's network.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use weir_lab::Lab;

/// Interval at which this host's listening ports are read.
const LOOK: Duration = Duration::from_millis(250);
/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 1024;
/// State of a TCP socket that accepts connections, in /proc/net/tcp.
const LISTENING: &str = "0A";
/// State of a UDP socket that receives from any peer, in /proc/net/udp.
const UNCONNECTED: &str = "07";

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Tcp,
    Udp,
}

/// Ends the relay when dropped.
pub(super) struct Relay(Arc<AtomicBool>);

impl Drop for Relay {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ports that this namespace listens on, each with an address that reaches it from here.
pub(super) fn listening(protocol: Protocol) -> HashMap<u16, IpAddr> {
    let (files, state) = match protocol {
        Protocol::Tcp => (["/proc/self/net/tcp6", "/proc/self/net/tcp"], LISTENING),
        Protocol::Udp => (["/proc/self/net/udp6", "/proc/self/net/udp"], UNCONNECTED),
    };
    let mut found = HashMap::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        found.extend(text.lines().skip(1).filter_map(|line| listener(line, state)));
    }
    found
}

/// Port and address of a line of /proc/net/tcp, tcp6, udp or udp6, if the socket is in `state`. For the wildcard address,
/// the loopback address is returned.
fn listener(line: &str, state: &str) -> Option<(u16, IpAddr)> {
    let mut fields = line.split_whitespace();
    let local = fields.nth(1)?;
    if fields.nth(1)? != state {
        return None;
    }
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // 32-bit words, each in this machine's byte order.
    let words: Option<Vec<u8>> = (0..address.len() / 8)
        .map(|i| u32::from_str_radix(address.get(i * 8..i * 8 + 8)?, 16).ok())
        .collect::<Option<Vec<u32>>>()
        .map(|words| words.into_iter().flat_map(u32::to_ne_bytes).collect());
    let address = match <[u8; 4]>::try_from(words.as_deref()?) {
        Ok(octets) => IpAddr::from(octets),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(words?).ok()?),
    };
    let address = match address {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        // Mostly dual-stack sockets; IPv6-only sockets are reachable at this address too.
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(v6.into(), IpAddr::V4),
        v4 => v4,
    };
    Some((port, address))
}

/// Listens in host `host` of the lab, on its addresses, on each port that this host listens on now or later. Returns once
/// the present ports are served.
pub(super) fn start(lab: &Lab, host: &str) -> Result<Relay, weir_lab::Error> {
    let over = Arc::new(AtomicBool::new(false));
    let addresses = [IpAddr::from(lab.host(host)?.ipv4), lab.host(host)?.ipv6.into()];
    let namespace = lab.namespace(host)?.clone();
    let count = Arc::new(AtomicUsize::new(0));
    let mut known = HashSet::new();
    let mut open = move |over: &Arc<AtomicBool>| {
        for (port, target) in listening(Protocol::Tcp) {
            if !known.insert(port) {
                continue;
            }
            let bound = namespace.run_in(|| {
                let bind = |ip| TcpListener::bind(SocketAddr::new(ip, port));
                addresses.map(bind)
            });
            for listener in bound.into_iter().flatten().flatten() {
                let (over, count) = (over.clone(), count.clone());
                let target = SocketAddr::new(target, port);
                let _ = std::thread::Builder::new().name("weir-relay".into()).spawn(move || {
                    accept(&listener, &over, &count, drop, move |s| serve(&s, target));
                });
            }
        }
    };
    open(&over);
    let scanning = over.clone();
    let _ = std::thread::Builder::new().name("weir-relay".into()).spawn(move || {
        while !scanning.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
            open(&scanning);
        }
    });
    Ok(Relay(over))
}

/// Serves each connection on a thread of its own until `over` is set; connections beyond [`MAX_CONNECTIONS`] are refused.
pub(super) fn accept<S>(
    listener: &TcpListener,
    over: &AtomicBool,
    count: &Arc<AtomicUsize>,
    refuse: impl Fn(TcpStream),
    serve: S,
) where
    S: Fn(TcpStream) + Clone + Send + 'static,
{
    for stream in listener.incoming() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(stream) = stream else {
            std::thread::sleep(LOOK);
            continue;
        };
        if count.fetch_add(1, Ordering::Relaxed) >= MAX_CONNECTIONS {
            count.fetch_sub(1, Ordering::Relaxed);
            refuse(stream);
            continue;
        }
        let (counted, serve) = (count.clone(), serve.clone());
        let spawned = std::thread::Builder::new().name("weir-relay".into()).spawn(move || {
            serve(stream);
            counted.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Relays a connection to a service.
fn serve(stream: &TcpStream, target: SocketAddr) {
    // If the service no longer runs, the connection is closed.
    if let Ok(service) = TcpStream::connect(target) {
        join(stream, &service);
    }
}

/// Relays bytes in both directions until both have ended.
pub(super) fn join(one: &TcpStream, other: &TcpStream) {
    let _ = (one.set_nodelay(true), other.set_nodelay(true));
    std::thread::scope(|scope| {
        scope.spawn(|| pass(one, other));
        pass(other, one);
    });
}

fn pass(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Ok(n) if n > 0 && to.write_all(&buffer[..n]).is_ok() => {}
            _ => break,
        }
    }
    // Forward the end of the stream. After an error also stop the sender.
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_read_from_proc() {
        let v4 = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(listener(v4, LISTENING), Some((8080, Ipv4Addr::LOCALHOST.into())));
        let any = "   1: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000";
        assert_eq!(listener(any, LISTENING), Some((22, Ipv4Addr::LOCALHOST.into())));
        let v6 = "   2: 00000000000000000000000000000000:0050 0:0 0A 0";
        assert_eq!(listener(v6, LISTENING), Some((80, Ipv6Addr::LOCALHOST.into())));
        let established = "   3: 0100007F:1F90 0100007F:9C40 01 00000000:00000000";
        assert_eq!(listener(established, LISTENING), None);
        for bad in ["", "x", "0: zz:1 0:0 0A", "0: 0100007F 0:0 0A", "0: 0100:1 0:0 0A"] {
            assert_eq!(listener(bad, LISTENING), None, "{bad}");
        }
    }

    #[test]
    fn bytes_and_the_end_are_relayed_in_both_directions() {
        let service = TcpListener::bind("127.0.0.1:0").unwrap();
        let front = TcpListener::bind("127.0.0.1:0").unwrap();
        let (target, entry) = (service.local_addr().unwrap(), front.local_addr().unwrap());
        let echo = std::thread::spawn(move || {
            let (mut stream, _) = service.accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            stream.write_all(&all).unwrap();
        });
        let (over, count) = (AtomicBool::new(false), Arc::new(AtomicUsize::new(0)));
        std::thread::scope(|scope| {
            scope.spawn(|| accept(&front, &over, &count, drop, move |s| serve(&s, target)));
            let mut client = TcpStream::connect(entry).unwrap();
            client.write_all(&[7; 100_000]).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut back = Vec::new();
            client.read_to_end(&mut back).unwrap();
            assert_eq!(back, [7; 100_000]);
            over.store(true, Ordering::Relaxed);
            // Wakes the listener.
            let _ = TcpStream::connect(entry);
        });
        echo.join().unwrap();
    }
}
