//! The way out of a lab: what a command sends to any IPv4 address by TCP or UDP is taken by this program in the lab's
//! far host (nftables' `tproxy`) and sent on by sockets of this host. Nothing of this host's network is changed, and no
//! rights over it are needed. To the far host's own address answer this host's services.

use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_lab::Lab;
use weir_net::transparent::{self, TransparentUdp};

use super::datagrams::Datagrams;
use super::relay::{self, Protocol};

/// How long a service may take to answer a connection request.
const CONNECT: Duration = Duration::from_secs(30);
/// Between two looks at whether it is over.
pub(super) const LOOK: Duration = Duration::from_millis(250);
pub(super) const DNS_PORT: u16 = 53;

/// Ends the way out when dropped.
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
    /// What was not passed on so far, in words.
    pub(super) fn lost(&self) -> Option<String> {
        self.lost.text()
    }
}

/// What the way out did not pass on.
#[derive(Default)]
pub(super) struct Lost {
    datagrams: AtomicU64,
    exchanges: AtomicU64,
    connections: AtomicU64,
}

impl Lost {
    /// A datagram that this host did not take.
    pub(super) fn datagram(&self) {
        self.datagrams.fetch_add(1, Ordering::Relaxed);
    }

    /// An exchange of datagrams that was ended before its time.
    pub(super) fn exchange(&self) {
        self.exchanges.fetch_add(1, Ordering::Relaxed);
    }

    fn connection(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    fn text(&self) -> Option<String> {
        let counts = [
            (&self.datagrams, "datagrams were dropped"),
            (&self.exchanges, "datagram exchanges were ended early"),
            (&self.connections, "connections were reset without service"),
        ];
        let said: Vec<String> = counts
            .iter()
            .map(|(count, what)| (count.load(Ordering::Relaxed), what))
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        (!said.is_empty()).then(|| format!("the relay dropped traffic: {}", said.join(", ")))
    }
}

/// Where packets to an address of the lab go from here.
#[derive(Clone, Copy)]
pub(super) struct Targets {
    /// The far host's address: this host's services.
    own: Ipv4Addr,
    /// Who answers names asked of the far host.
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
    let (over, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(Lost::default()));
    let targets = Targets { own, names };
    let datagrams = Datagrams::new(datagrams, namespace, targets, lost.clone())
        .map_err(told("wait for datagrams"))?;
    let start = |work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new()
            .name("weir-outward".into())
            .spawn(work)
            .map_err(told("start a thread"))
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
        // The command's connection is established already: a reset says that there is no service.
        Err(_) => transparent::reset(stream),
    }
}

/// Who answers names on this host, by `text`, its /etc/resolv.conf, when the command cannot ask them itself: they listen
/// on this host alone, or have IPv6 addresses, for which there is no way out.
pub(super) fn names_to_relay(text: &str) -> Option<IpAddr> {
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
    fn what_was_lost_is_reported_and_nothing_when_nothing_was() {
        let lost = Lost::default();
        assert_eq!(lost.text(), None);
        lost.datagram();
        lost.exchange();
        lost.exchange();
        let said = lost.text().unwrap();
        assert!(
            said.ends_with("1 datagrams were dropped, 2 datagram exchanges were ended early"),
            "{said}"
        );
    }

    #[test]
    fn who_has_to_be_asked_for_the_command() {
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
    fn the_far_hosts_address_is_this_host() {
        let own = Ipv4Addr::new(198, 18, 0, 2);
        let targets = Targets { own, names: Some("127.0.0.53".parse().unwrap()) };
        let of = |text: &str| targets.of(text.parse().unwrap(), Protocol::Udp).to_string();
        assert_eq!(of("192.0.2.1:53"), "192.0.2.1:53");
        assert_eq!(of("198.18.0.2:53"), "127.0.0.53:53");
        let service = std::net::UdpSocket::bind("127.0.0.2:0").unwrap();
        let port = service.local_addr().unwrap().port();
        assert_eq!(of(&format!("198.18.0.2:{port}")), format!("127.0.0.2:{port}"));
        drop(service);
        assert_eq!(of(&format!("198.18.0.2:{port}")), format!("127.0.0.1:{port}"));
    }
}
