//! Access from a lab to other hosts. This program intercepts the TCP and UDP traffic of the command to any IPv4 address in
//! the lab's far host (nftables' `tproxy`) and relays it through sockets of this host. This host's network is not changed, and
//! no privileges over it are needed. Traffic to the far host's own address reaches this host's services.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_lab::Lab;
use weir_model::counted;
use weir_net::transparent::{self, TransparentUdp};

use super::datagrams::Datagrams;
use super::relay::{self, Protocol};

/// Timeout of a connection to a service.
const CONNECT: Duration = Duration::from_secs(30);
/// Interval at which threads check whether to end.
pub(super) const LOOK: Duration = Duration::from_millis(250);
pub(super) const DNS_PORT: u16 = 53;

/// Access to other hosts; it ends when this is dropped.
pub(super) struct Outward {
    over: Arc<AtomicBool>,
    lost: Arc<Lost>,
}

impl Drop for Outward {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Outward {
    /// Warnings that count the traffic dropped so far: code and text.
    pub(super) fn lost(&self) -> Vec<(&'static str, String)> {
        self.lost.warnings()
    }
}

/// Counts traffic that the relay dropped.
#[derive(Default)]
pub(super) struct Lost {
    datagrams: AtomicU64,
    exchanges: AtomicU64,
    connections: AtomicU64,
}

impl Lost {
    /// Counts a datagram that this host did not send.
    pub(super) fn datagram(&self) {
        self.datagrams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an exchange of datagrams that was ended before it expired.
    pub(super) fn exchange(&self) {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn warnings(&self) -> Vec<(&'static str, String)> {
        let counts = [
            ("datagrams-dropped", &self.datagrams, "datagram", "dropped"),
            ("exchanges-ended", &self.exchanges, "datagram exchange", "ended early"),
            ("connections-reset", &self.connections, "connection", "reset without service"),
        ];
        let counts = counts.map(|(code, count, what, how)| {
            let count = count.load(Ordering::Relaxed);
            (count > 0).then(|| (code, format!("relay: {} {how}", counted(count, what))))
        });
        counts.into_iter().flatten().collect()
    }
}

/// Maps destinations of the command to addresses reachable from this host.
#[derive(Clone, Copy)]
pub(super) struct Targets {
    /// The far host's address: this host's services.
    own: Ipv4Addr,
    /// The DNS server for queries to the far host.
    names: Option<IpAddr>,
}

impl Targets {
    pub(super) fn of(self, asked: SocketAddr, protocol: Protocol) -> SocketAddr {
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

/// Opens the way from host `from` through host `by`. `names` is the DNS server for queries to `by`.
///
/// # Errors
/// A text: a tool is missing, or the kernel lacks a feature.
pub(super) fn open(
    lab: &Lab,
    from: &str,
    by: &str,
    names: Option<IpAddr>,
) -> Result<Outward, String> {
    let error_text = |what: &'static str| move |e: io::Error| format!("{what}: {e}");
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
        .map_err(error_text("open transparent sockets"))?;
    let port = listener.local_addr().map_err(error_text("open transparent sockets"))?.port();
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
    // Deliver packets to any destination locally, for tproxy.
    run(lab, by, &["ip", "route", "add", "local", "default", "dev", "lo"], "")?;
    let gateway = own.to_string();
    run(lab, from, &["ip", "route", "add", "default", "via", &gateway], "")?;
    let (over, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(Lost::default()));
    let targets = Targets { own, names };
    let datagrams = Datagrams::new(datagrams, namespace, targets, lost.clone())
        .map_err(error_text("wait for datagrams"))?;
    let start = |work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name("weir-outward".into())
            .spawn(work)
            .map_err(error_text("start a thread"))
    };
    let (ending, refused) = (over.clone(), lost.clone());
    start(Box::new(move || {
        let serve = move |stream| serve(stream, targets);
        let refuse = move |stream| {
            refused.connection();
            transparent::reset(stream);
        };
        relay::accept(&listener, &ending, &Arc::default(), refuse, serve);
    }))?;
    let ending = over.clone();
    start(Box::new(move || datagrams.pass(&ending)))?;
    Ok(Outward { over, lost })
}

/// Runs a tool in a host of the lab.
fn run(lab: &Lab, host: &str, words: &[&str], input: &str) -> Result<(), String> {
    let error_text = |e: &dyn std::fmt::Display| format!("{}: {e}", words.join(" "));
    let mut command: Command = lab.command(host, words[0]).map_err(|e| error_text(&e))?;
    // Add the directories of administrators' tools, which a user's PATH may lack.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/sbin:/usr/sbin:/sbin"));
    command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| error_text(&e))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the tool has ended already, stderr says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|e| error_text(&e))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(error_text(&text.lines().next().unwrap_or("failed")))
}

/// Relays a connection to its destination.
fn serve(stream: TcpStream, targets: Targets) {
    let service = stream
        .local_addr()
        .and_then(|asked| TcpStream::connect_timeout(&targets.of(asked, Protocol::Tcp), CONNECT));
    match service {
        Ok(service) => relay::join(&stream, &service),
        // The command's connection is established already: a reset says that there is no service.
        Err(_) => transparent::reset(stream),
    }
}

/// The DNS server of this host, by `text`, its /etc/resolv.conf, if the command can't reach it directly: because it listens
/// on loopback only, or has an IPv6 address, which is not relayed.
pub(super) fn names_to_relay(text: &str) -> Option<IpAddr> {
    let servers: Vec<IpAddr> = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver")?.trim().parse().ok())
        .collect();
    let reachable = |ip: &IpAddr| ip.is_ipv4() && !ip.is_loopback();
    if servers.iter().any(reachable) {
        return None;
    }
    // Without a server, the resolver queries this host.
    Some(servers.first().copied().unwrap_or(Ipv4Addr::LOCALHOST.into()))
}

/// Replaces the servers in `text`, a resolv.conf, by `server`.
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
    fn dropped_traffic_is_reported_if_there_is_any() {
        let lost = Lost::default();
        assert_eq!(lost.warnings(), []);
        lost.datagram();
        lost.exchange();
        lost.exchange();
        let codes: Vec<&str> = lost.warnings().iter().map(|(code, _)| *code).collect();
        assert_eq!(codes, ["datagrams-dropped", "exchanges-ended"]);
        assert!(lost.warnings()[1].1.contains(" 2 "), "{:?}", lost.warnings());
    }

    #[test]
    fn dns_servers_that_need_the_relay() {
        let ip = |text: &str| text.parse::<IpAddr>().ok();
        assert_eq!(names_to_relay("nameserver 192.0.2.53\n"), None);
        assert_eq!(names_to_relay("nameserver 127.0.0.53\nnameserver 192.0.2.53"), None);
        assert_eq!(names_to_relay("search a\nnameserver 127.0.0.53\n"), ip("127.0.0.53"));
        assert_eq!(names_to_relay("nameserver 2001:db8::53"), ip("2001:db8::53"));
        assert_eq!(names_to_relay("# none"), ip("127.0.0.1"));
        let text = "search example.org\nnameserver 127.0.0.53\noptions edns0\n";
        let ours = "search example.org\noptions edns0\nnameserver 198.18.0.2\n";
        assert_eq!(with_server(text, Ipv4Addr::new(198, 18, 0, 2)), ours);
    }

    #[test]
    fn the_far_hosts_address_reaches_this_host() {
        let own = Ipv4Addr::new(198, 18, 0, 2);
        let targets = Targets { own, names: Some("127.0.0.53".parse().unwrap()) };
        let of = |text: &str| targets.of(text.parse().unwrap(), Protocol::Udp).to_string();
        assert_eq!(of("192.0.2.1:53"), "192.0.2.1:53");
        assert_eq!(of("198.18.0.2:53"), "127.0.0.53:53");
        let service = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
        let port = service.local_addr().unwrap().port();
        assert_eq!(of(&format!("198.18.0.2:{port}")), format!("127.0.0.2:{port}"));
        drop(service);
        // A process that another test starts meanwhile may hold a copy of the socket until it executes its program.
        let wanted = format!("127.0.0.1:{port}");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while of(&format!("198.18.0.2:{port}")) != wanted {
            assert!(std::time::Instant::now() < deadline, "the closed port is still used");
            std::thread::yield_now();
        }
    }
}
