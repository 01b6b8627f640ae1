//! The way out of a lab: what a command sends to any IPv4 address by TCP or UDP is taken by this program in the lab's
//! far host (nftables' `tproxy`) and sent on by sockets of this host. Nothing of this host's network is changed, and no
//! rights over it are needed. To the far host's own address answer this host's services.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_lab::Lab;
use weir_net::namespace::NetNamespace;
use weir_net::transparent::{self, TransparentUdp};

use super::relay::{self, MOST_CONNECTIONS, Protocol};

/// How long a service may take to answer a connection request.
const CONNECT: Duration = Duration::from_secs(30);
/// How long a UDP exchange may be silent before it is forgotten.
const SILENCE: Duration = Duration::from_secs(120);
/// Between two looks at whether it is over.
const LOOK: Duration = Duration::from_millis(250);
const DNS_PORT: u16 = 53;

/// Ends the way out when dropped.
pub(super) struct Outward(Arc<AtomicBool>);

impl Drop for Outward {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where packets to an address of the lab go from here.
#[derive(Clone, Copy)]
struct Targets {
    /// The far host's address: this host's services.
    own: Ipv4Addr,
    /// Who answers names asked of the far host.
    names: Option<IpAddr>,
}

impl Targets {
    fn of(self, asked: SocketAddr, protocol: Protocol) -> SocketAddr {
        if asked.ip() != self.own {
            return asked;
        }
        if let Some(ip) = self.names.filter(|_| asked.port() == DNS_PORT) {
            return SocketAddr::new(ip, DNS_PORT);
        }
        let service = relay::listening(protocol).get(&asked.port()).copied();
        SocketAddr::new(service.unwrap_or(Ipv4Addr::LOCALHOST.into()), asked.port())
    }
}

/// Opens the way from host `from` by way of host `by`. `names`: who answers names asked of `by`.
///
/// # Errors
/// Why there is none: a tool that is missing, a kernel that cannot.
pub(super) fn open(
    lab: &Lab,
    from: &str,
    by: &str,
    names: Option<IpAddr>,
) -> Result<Outward, String> {
    let told = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
    let host = lab.host(by).map_err(|e| e.to_string())?;
    let namespace = lab.namespace(by).map_err(|e| e.to_string())?.clone();
    let any = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0);
    let (listener, datagrams) = namespace
        .run_in(|| -> io::Result<_> {
            let listener = transparent::listen(any)?;
            let port = listener.local_addr()?.port();
            Ok((listener, TransparentUdp::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))?))
        })
        .map_err(|e| e.to_string())?
        .map_err(told("open transparent sockets"))?;
    datagrams.set_read_timeout(LOOK).map_err(told("open transparent sockets"))?;
    let port = listener.local_addr().map_err(told("open transparent sockets"))?.port();
    let (own, interface) = (host.ipv4, &host.interface);
    let rules = format!(
        "table ip weir {{
            chain outward {{
                type filter hook prerouting priority mangle; policy accept;
                iifname != \"{interface}\" accept
                ip daddr 224.0.0.0/3 drop
                meta l4proto tcp tproxy to :{port} accept
                meta l4proto udp tproxy to :{port} accept
                ip daddr != {own} drop
            }}
        }}\n"
    );
    run(lab, by, &["nft", "-f", "-"], &rules)?;
    // Whatever is asked for is taken in here.
    run(lab, by, &["ip", "route", "add", "local", "default", "dev", "lo"], "")?;
    let gateway = own.to_string();
    run(lab, from, &["ip", "route", "add", "default", "via", &gateway], "")?;
    let over = Arc::new(AtomicBool::new(false));
    let targets = Targets { own, names };
    let start = |work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name("weir-outward".into())
            .spawn(work)
            .map_err(told("start a thread"))
    };
    let ending = over.clone();
    start(Box::new(move || {
        let serve = move |stream| serve(stream, targets);
        relay::accept(&listener, &ending, &Arc::default(), transparent::reset, serve);
    }))?;
    let ending = over.clone();
    start(Box::new(move || pass_datagrams(&datagrams, &namespace, targets, &ending)))?;
    Ok(Outward(over))
}

/// Runs a tool in a host of the lab.
fn run(lab: &Lab, host: &str, words: &[&str], input: &str) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", words.join(" "));
    let mut command: Command = lab.command(host, words[0]).map_err(|e| failed(&e))?;
    // Where administrators' tools are, for users whose path lacks them.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| failed(&e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ended of something else tells it on stderr.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| failed(&e))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(failed(&text.lines().next().unwrap_or("failed")))
}

/// Passes a connection on to whom it was made to.
fn serve(stream: TcpStream, targets: Targets) {
    let service = stream
        .local_addr()
        .and_then(|asked| TcpStream::connect_timeout(&targets.of(asked, Protocol::Tcp), CONNECT));
    match service {
        Ok(service) => relay::join(&stream, &service),
        // The command's connection stands already: it learns so that nobody is there.
        Err(_) => transparent::reset(stream),
    }
}

/// Exchanges of datagrams by who asked whom.
type Exchanges = Arc<Mutex<HashMap<(SocketAddr, SocketAddr), Arc<UdpSocket>>>>;

fn pass_datagrams(
    datagrams: &TransparentUdp,
    namespace: &NetNamespace,
    targets: Targets,
    over: &Arc<AtomicBool>,
) {
    let exchanges = Exchanges::default();
    let mut buffer = vec![0; 65_536];
    while !over.load(Ordering::Relaxed) {
        let Ok((len, source, asked)) = datagrams.recv(&mut buffer) else { continue };
        let known = {
            let exchanges = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
            exchanges.get(&(source, asked)).cloned()
        };
        let socket = match known {
            Some(socket) => Ok(socket),
            None => exchange(source, asked, namespace, targets, &exchanges, over),
        };
        // A datagram that cannot be sent on is lost, as datagrams are.
        if let Ok(socket) = socket {
            let _ = socket.send(&buffer[..len]);
        }
    }
}

/// A socket of this host for what `source` sends to `asked`; what comes back goes there as if from `asked`.
fn exchange(
    source: SocketAddr,
    asked: SocketAddr,
    namespace: &NetNamespace,
    targets: Targets,
    exchanges: &Exchanges,
    over: &Arc<AtomicBool>,
) -> io::Result<Arc<UdpSocket>> {
    let SocketAddr::V4(local) = asked else { return Err(io::ErrorKind::Unsupported.into()) };
    let target = targets.of(asked, Protocol::Udp);
    let any: IpAddr = match target {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = Arc::new(UdpSocket::bind((any, 0))?);
    socket.connect(target)?;
    socket.set_read_timeout(Some(LOOK))?;
    let back = namespace
        .run_in(|| transparent::udp_from(local))
        .map_err(|e| io::Error::other(e.to_string()))??;
    let key = (source, asked);
    {
        let mut exchanges = exchanges.lock().unwrap_or_else(PoisonError::into_inner);
        if exchanges.len() >= MOST_CONNECTIONS {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        exchanges.insert(key, socket.clone());
    }
    let (ours, all, over) = (socket.clone(), exchanges.clone(), over.clone());
    let answering = move || {
        let mut buffer = vec![0; 65_536];
        let mut heard = std::time::Instant::now();
        while !over.load(Ordering::Relaxed) && heard.elapsed() < SILENCE {
            if let Ok(len) = ours.recv(&mut buffer) {
                heard = std::time::Instant::now();
                let _ = back.send_to(&buffer[..len], source);
            }
        }
        all.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    };
    let spawned = std::thread::Builder::new().name("weir-outward".into()).spawn(answering);
    if let Err(error) = spawned {
        exchanges.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
        return Err(error);
    }
    Ok(socket)
}

/// Who answers names on this host, by /etc/resolv.conf, when the command cannot ask them itself: they listen on this
/// host alone, or have IPv6 addresses, for which there is no way out.
pub(super) fn names_to_relay() -> Option<IpAddr> {
    unreachable_names(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

fn unreachable_names(text: &str) -> Option<IpAddr> {
    let servers: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok())
        .collect();
    let reachable = |ip: &IpAddr| ip.is_ipv4() && !ip.is_loopback();
    if servers.iter().any(reachable) {
        return None;
    }
    // Without any, the resolver asks this host itself.
    Some(servers.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into()))
}

/// What of `text`, a resolv.conf, is not a server, with `server` as the only one.
pub(super) fn with_server(text: &str, server: Ipv4Addr) -> String {
    let kept = text.lines().filter(|line| !line.trim().starts_with("nameserver"));
    let mut out: String = kept.map(|line| format!("{line}\n")).collect();
    out += &format!("nameserver {server}\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_to_be_asked_for_the_command() {
        let ip = |text: &str| text.parse::<IpAddr>().ok();
        assert_eq!(unreachable_names("nameserver 192.0.2.53\n"), None);
        assert_eq!(unreachable_names("nameserver 127.0.0.53\nnameserver 192.0.2.53"), None);
        assert_eq!(unreachable_names("search a\nnameserver 127.0.0.53\n"), ip("127.0.0.53"));
        assert_eq!(unreachable_names("nameserver 2001:db8::53"), ip("2001:db8::53"));
        assert_eq!(unreachable_names("# none"), ip("127.0.0.1"));
        let text = "search example.org\nnameserver 127.0.0.53\noptions edns0\n";
        let ours = "search example.org\noptions edns0\nnameserver 198.18.0.2\n";
        assert_eq!(with_server(text, Ipv4Addr::new(198, 18, 0, 2)), ours);
    }

    #[test]
    fn the_far_hosts_address_is_this_host() {
        let own = Ipv4Addr::new(198, 18, 0, 2);
        let targets = Targets { own, names: Some("127.0.0.53".parse().unwrap()) };
        let of = |text: &str| targets.of(text.parse().unwrap(), Protocol::Udp).to_string();
        assert_eq!(of("192.0.2.1:53"), "192.0.2.1:53");
        assert_eq!(of("198.18.0.2:53"), "127.0.0.53:53");
        let service = UdpSocket::bind("127.0.0.2:0").unwrap();
        let port = service.local_addr().unwrap().port();
        assert_eq!(of(&format!("198.18.0.2:{port}")), format!("127.0.0.2:{port}"));
        drop(service);
        assert_eq!(of(&format!("198.18.0.2:{port}")), format!("127.0.0.1:{port}"));
    }
}
