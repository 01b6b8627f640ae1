//! ttcp, iperf2 and the data of nuttcp at one port of one process, with the real programs and with peers that misbehave.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use weir_model::record::{Record, Status};
use weir_peers::{ServeConfig, SharedPorts};
use weir_traffic::{Limits, ServerEvent, Stop};

use crate::common::{LIMIT, Serving, config, open, received, run, served};
use crate::iperf2::has_iperf;
use crate::nuttcp::has_nuttcp;
use crate::ttcp;

/// Clients of the servers.
#[derive(Clone, Copy)]
struct Clients {
    /// The port that the servers share.
    to: SocketAddr,
    /// That of nuttcp's control connections.
    control: SocketAddr,
}

/// Servers that share the port of ttcp.
struct Servers {
    clients: Clients,
    ttcp: Serving,
    iperf2: Serving,
    nuttcp: Serving,
}

impl Servers {
    fn start(bind: &str, limits: &Limits) -> Servers {
        let ports = SharedPorts::default();
        let open = |name: &str, port: u16| {
            let config = config(bind, port, limits.clone());
            open(name, &ServeConfig { ports: ports.clone(), ..config })
        };
        let ttcp = open("ttcp", 0);
        let servers = [open("iperf2", ttcp.addresses()[0].port()), open("nuttcp", 0), ttcp];
        // What arrives before all have started waits for them.
        let clients = Clients { to: servers[2].addresses()[0], control: servers[1].addresses()[0] };
        let [iperf2, nuttcp, ttcp] = servers.map(Serving::run);
        Servers { clients, ttcp, iperf2, nuttcp }
    }

    /// Sessions that have begun and were not asked for yet, and refusals: of ttcp, iperf2 and nuttcp.
    fn events(&self) -> [usize; 3] {
        [&self.ttcp, &self.iperf2, &self.nuttcp].map(|server| {
            let is_session = |event: &ServerEvent| {
                matches!(event, ServerEvent::SessionOpened { .. } | ServerEvent::Refused { .. })
            };
            server.events.try_iter().filter(is_session).count()
        })
    }
}

impl Clients {
    /// Runs Debian's iperf client.
    fn iperf(self, flags: &str) -> Output {
        let (host, port) = (self.to.ip().to_string(), self.to.port().to_string());
        let mut command = Command::new("timeout");
        command.args(["20", "iperf", "-c", &host, "-p", &port]);
        if self.to.is_ipv6() {
            command.arg("-V");
        }
        let output = command.args(flags.split_whitespace()).output().unwrap();
        assert!(output.status.success(), "{flags}: {output:?}");
        output
    }

    /// Runs Debian's nuttcp client, with the shared port as that of the data.
    fn nuttcp(self, flags: &str) {
        let ports = [format!("-P{}", self.control.port()), format!("-p{}", self.to.port())];
        let host = self.to.ip().to_string();
        let mut command = Command::new("timeout");
        command.args(["20", "nuttcp"]).args(ports).args(flags.split_whitespace()).arg(host);
        let output = command.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{flags}: {output:?}");
    }

    /// Sends 50 buffers of 1000 bytes with Weir's ttcp.
    fn ttcp(self, transport: &str) {
        let (host, port) = (self.to.ip().to_string(), self.to.port().to_string());
        let mut options = vec![("transmit", ""), ("pattern", ""), ("host", &*host)];
        options.extend([("port", &*port), ("buffers", "50"), ("length", "1000")]);
        options.extend((transport == "udp").then_some(("udp", "")));
        ttcp::run(&options, &Stop::new()).1.unwrap();
    }
}

/// What one end counted as received, or sent.
fn bytes(record: &Record) -> u64 {
    let total = record.total.reverse.as_ref().and_then(|total| total.receiver.as_ref());
    let sent = record.total.forward.as_ref().and_then(|total| total.sender.as_ref());
    total.map(|total| total.bytes).or(sent.map(|total| total.bytes)).unwrap_or(0)
}

/// The next record of a server, which must be complete.
fn complete(server: &Serving, what: &str) -> u64 {
    let record = served(server);
    assert_eq!(record.status, Status::Complete, "{what}: {}", record.end_reason);
    bytes(&record)
}

/// A datagram of iperf 2.1.8 with a number and a time.
fn iperf_datagram(number: i32) -> Vec<u8> {
    let words = [
        number.cast_unsigned(),
        1_700_000_000,
        5,
        if number < 0 { u32::MAX } else { 0 },
        0x4801_0098,
        1,
        5001,
        0,
        0,
        0xffff_ff9c,
    ];
    [words.map(u32::to_be_bytes).concat(), vec![0; 60]].concat()
}

/// The header of a stream of `iperf -c HOST -n 100K -X`, without a request for an acknowledgement.
fn iperf_header() -> Vec<u8> {
    let words = [0x4401_0078_u32, 1, 5001, 0, 0, 0x0001_9000];
    [words.map(u32::to_be_bytes).concat(), vec![0; 36]].concat()
}

/// Opens a session of nuttcp whose client will send `is_udp` data.
fn announce(clients: Clients, is_udp: bool) -> TcpStream {
    let port = clients.to.port();
    let line = crate::nuttcp::parameters(port, "udp", if is_udp { "1" } else { "0" });
    let mut control = TcpStream::connect(clients.control).unwrap();
    control.set_read_timeout(Some(LIMIT)).unwrap();
    control.write_all(&[crate::nuttcp::HELLO, line.as_bytes()].concat()).unwrap();
    let mut answer = [0; 29];
    control.read_exact(&mut answer).unwrap();
    assert!(answer.ends_with(b"OK v6.1.2\n"), "{answer:?}");
    control
}

#[test]
fn each_real_client_reaches_its_server_over_ipv4_and_ipv6() {
    let name = "each_real_client_reaches_its_server_over_ipv4_and_ipv6";
    if !has_iperf(name) || !has_nuttcp(name) {
        return;
    }
    for bind in ["127.0.0.1", "::1"] {
        let servers = Servers::start(bind, &Limits::default());
        // Twice: what is left of a test must not be another's.
        for _ in 0..2 {
            for (flags, amount) in [
                ("-n 1M", Some(1 << 20)),
                ("-n 1M -R", Some(1 << 20)),
                ("-u -n 100000 -l 1000 -b 10m", None),
                ("-n 1M --full-duplex", None),
                ("--bounceback -t 1", None),
            ] {
                servers.clients.iperf(flags);
                let counted = complete(&servers.iperf2, flags);
                let is_counted = counted > 0 || flags.contains("bounceback");
                assert!(is_counted && amount.is_none_or(|amount| amount == counted), "{flags}");
            }
            for flags in [
                "-n100 -l1000",
                "-F -r -n100 -l1000",
                "-u -n100 -l1000 -R4m",
                "-u -T1 -l1000 -R4m -i0.5",
            ] {
                servers.clients.nuttcp(flags);
                let counted = complete(&servers.nuttcp, flags);
                assert!(if flags.contains("-T1") { counted > 0 } else { counted == 100_000 });
            }
            for transport in ["tcp", "udp"] {
                servers.clients.ttcp(transport);
                assert_eq!(complete(&servers.ttcp, transport), 50_000);
            }
        }
        // Without a header.
        servers.clients.iperf("-C -n 100K");
        assert_eq!(complete(&servers.ttcp, "-C"), 100 << 10);
        let left = [&servers.ttcp, &servers.iperf2, &servers.nuttcp].map(|server| {
            server
                .events
                .try_iter()
                .filter(|e| matches!(e, ServerEvent::SessionClosed { .. }))
                .count()
        });
        assert_eq!(left, [0, 0, 0]);
    }
}

#[test]
fn the_reference_transmitter_reaches_ttcp() {
    let servers = Servers::start("127.0.0.1", &Limits::default());
    for transport in ["tcp", "udp"] {
        let _sender = ttcp::reference(&["send", transport, &servers.ttcp.port(), "40", "1400"]);
        assert_eq!(complete(&servers.ttcp, transport), 56_000);
    }
    assert_eq!(servers.events(), [0, 0, 0]);
}

#[test]
fn real_clients_are_served_at_the_same_time() {
    let name = "real_clients_are_served_at_the_same_time";
    if !has_iperf(name) || !has_nuttcp(name) {
        return;
    }
    let servers = Servers::start("127.0.0.1", &Limits::default());
    let clients = servers.clients;
    let to = clients.to;
    std::thread::scope(|scope| {
        // From another address than nuttcp's client, which a session of nuttcp awaits.
        for flags in [
            "-B 127.0.0.2 -n 1M",
            "-B 127.0.0.2 -n 1M",
            "-B 127.0.0.2 -u -t 1 -b 2m",
            "-B 127.0.0.2 -u -t 1 -b 2m",
        ] {
            scope.spawn(move || clients.iperf(flags));
        }
        for flags in ["-n100 -l1000", "-u -n100 -l1000 -R4m", "-n100 -l1000"] {
            scope.spawn(move || clients.nuttcp(flags));
        }
        for number in 3..8 {
            scope.spawn(move || {
                let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, number), 0)).unwrap();
                socket.connect(to).unwrap();
                for datagram in [&[b' '; 4][..], &[b'!'; 1000], &[b'!'; 1000], &[b' '; 4]] {
                    socket.send(datagram).unwrap();
                }
            });
        }
    });
    let mut counted: Vec<u64> = (0..4).map(|_| complete(&servers.iperf2, "iperf")).collect();
    counted.sort_unstable();
    assert_eq!(counted[2..], [1 << 20, 1 << 20], "{counted:?}");
    for _ in 0..3 {
        assert_eq!(complete(&servers.nuttcp, "nuttcp"), 100_000);
    }
    for _ in 0..5 {
        assert_eq!(complete(&servers.ttcp, "ttcp"), 2000);
    }
    assert_eq!(servers.events(), [0, 0, 0]);
}

#[test]
fn iperf_is_called_back_only_where_that_is_allowed() {
    if !has_iperf("iperf_is_called_back_only_where_that_is_allowed") {
        return;
    }
    let servers = Servers::start("127.0.0.1", &Limits::default());
    let (host, port) = (servers.clients.to.ip().to_string(), servers.ttcp.port());
    let mut client = Command::new("timeout");
    client.args(["5", "iperf", "-c", &host, "-p", &port, "-d", "-L", "0", "-n", "100K"]);
    let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    loop {
        match servers.iperf2.events.recv_timeout(LIMIT).unwrap() {
            ServerEvent::Refused { .. } => break,
            ServerEvent::SessionOpened { .. } => panic!("it is served"),
            _ => {}
        }
    }
    let _ = client.kill();
    client.wait().unwrap();
    assert_eq!(servers.events()[0], 0);
}

#[test]
fn the_first_bytes_of_a_stream_decide() {
    let servers = Servers::start("127.0.0.1", &Limits::default());
    let send = |parts: &[&[u8]]| {
        let mut stream = TcpStream::connect(servers.clients.to).unwrap();
        stream.set_nodelay(true).unwrap();
        for part in parts {
            stream.write_all(part).unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    for data in [
        &b"GET / HTTP/1.0\r\n\r\n"[..],
        &[0xff; 3000],
        &[0; 3000],
        // Fewer than a header's.
        b"",
        b"abc",
        &[0x40, 1, 0, 0x78],
        &[0x40, 1, 0, 0x78, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0],
    ] {
        send(&[data]);
        assert_eq!(complete(&servers.ttcp, "garbage"), data.len() as u64, "{data:?}");
    }
    let header = iperf_header();
    for parts in
        [&[&header[..], &[7; 940]][..], &[&header[..2], &header[2..10], &header[10..], &[7; 940]]]
    {
        send(parts);
        assert_eq!(complete(&servers.iperf2, "a header"), 1000);
    }
    assert_eq!(servers.events(), [0, 0, 0]);
}

#[test]
fn a_connection_that_stops_within_a_header_is_ttcps() {
    let servers = Servers::start("127.0.0.1", &Limits::default());
    let mut stream = TcpStream::connect(servers.clients.to).unwrap();
    stream.write_all(&iperf_header()[..10]).unwrap();
    loop {
        let event = servers.ttcp.events.recv_timeout(LIMIT).unwrap();
        if matches!(event, ServerEvent::SessionOpened { .. }) {
            break;
        }
    }
    drop(stream);
    assert_eq!(complete(&servers.ttcp, "ten bytes"), 10);
}

#[test]
fn a_silent_connection_is_closed_and_keeps_no_other_out() {
    let limits = Limits { hello_seconds: 1, half_open: 1, ..Limits::default() };
    let servers = Servers::start("127.0.0.1", &limits);
    let mut silent = TcpStream::connect(servers.clients.to).unwrap();
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(matches!(silent.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(servers.events(), [0, 0, 0]);
    servers.clients.ttcp("tcp");
    assert_eq!(complete(&servers.ttcp, "the next"), 50_000);
}

#[test]
fn datagrams_go_to_the_server_of_their_kind() {
    let servers = Servers::start("127.0.0.1", &Limits::default());
    let source = || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(servers.clients.to).unwrap();
        socket
    };
    let (theirs, other) = (source(), source());
    for number in 1..=3 {
        theirs.send(&iperf_datagram(number)).unwrap();
        other.send(&[b'!'; 500]).unwrap();
    }
    theirs.send(&iperf_datagram(-4)).unwrap();
    other.send(&[b' '; 4]).unwrap();
    assert_eq!(complete(&servers.iperf2, "iperf"), 400);
    assert_eq!(complete(&servers.ttcp, "ttcp"), 1500);
    // The end of a session that is over begins none.
    source().send(&iperf_datagram(-4)).unwrap();
    source().send(&[]).unwrap();
    source().send(b"EOD1").unwrap();
    let last = source();
    last.send(&[7; 77]).unwrap();
    last.send(&[]).unwrap();
    assert_eq!(complete(&servers.ttcp, "the last"), 77);
    assert_eq!(servers.events(), [0, 0, 0]);
}

#[test]
fn data_of_a_host_that_a_session_of_nuttcp_awaits_is_nuttcps() {
    let servers = Servers::start("127.0.0.1", &Limits::default());
    let control = announce(servers.clients, false);
    // Another client of the same host comes first.
    let mut stream = TcpStream::connect(servers.clients.to).unwrap();
    stream.write_all(&[iperf_header(), vec![7; 940]].concat()).unwrap();
    drop(stream);
    let record = served(&servers.nuttcp);
    assert_eq!(received(&record.flows[0]).0, 1000);
    drop(control);
    let control = announce(servers.clients, true);
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(servers.clients.to).unwrap();
    for datagram in [&iperf_datagram(1)[..], b"EOD0"] {
        source.send(datagram).unwrap();
    }
    let record = served(&servers.nuttcp);
    assert_eq!(received(&record.flows[0]).0, 100);
    drop(control);
    // What its source still sends is no session of another server.
    source.send(&[7; 1000]).unwrap();
    // Nor is the port closed to the others.
    let record = run(
        "iperf2",
        servers.clients.to,
        "[[connection]]\nbytes = \"100K\"",
        Stop::new(),
        &mut |_| {},
    );
    assert_eq!(record.unwrap().status, Status::Complete);
    assert_eq!(complete(&servers.iperf2, "the next"), 100 << 10);
    servers.clients.ttcp("udp");
    assert_eq!(complete(&servers.ttcp, "the next"), 50_000);
    assert_eq!(servers.events(), [0, 0, 0]);
}

#[test]
fn the_limits_of_one_server_leave_the_others_free() {
    let servers = Servers::start("127.0.0.1", &Limits { sessions: 1, ..Limits::default() });
    let opened = |server: &Serving| loop {
        match server.events.recv_timeout(LIMIT).unwrap() {
            ServerEvent::SessionOpened { .. } => break true,
            ServerEvent::Refused { .. } => break false,
            _ => {}
        }
    };
    let connect = |data: &[u8]| {
        let mut stream = TcpStream::connect(servers.clients.to).unwrap();
        stream.write_all(data).unwrap();
        stream
    };
    let _first = connect(&[b'!'; 100]);
    assert!(opened(&servers.ttcp));
    let _second = connect(&[b'!'; 100]);
    assert!(!opened(&servers.ttcp));
    let _third = connect(&iperf_header());
    assert!(opened(&servers.iperf2));
    let _fourth = connect(&iperf_header());
    assert!(!opened(&servers.iperf2));
    let _fifth = announce(servers.clients, false);
    assert!(opened(&servers.nuttcp));
}

#[test]
fn the_port_is_open_until_its_last_server_ends() {
    let Servers { ttcp, iperf2, nuttcp, clients } = Servers::start("127.0.0.1", &Limits::default());
    drop(ttcp);
    // Data without a header is now iperf2's.
    TcpStream::connect(clients.to).unwrap().write_all(&[b'!'; 1000]).unwrap();
    assert_eq!(complete(&iperf2, "without a header"), 1000);
    let control = announce(clients, true);
    drop(iperf2);
    // nuttcp still receives there.
    let source = UdpSocket::bind("127.0.0.1:0").unwrap();
    source.connect(clients.to).unwrap();
    source.send(&[7; 100]).unwrap();
    source.send(b"EOD0").unwrap();
    assert_eq!(received(&served(&nuttcp).flows[0]).0, 100);
    drop((control, nuttcp));
    TcpListener::bind(clients.to).map(drop).unwrap();
    UdpSocket::bind(clients.to).map(drop).unwrap();
}
