//! netperf: Weir with Weir, with peers by hand in both roles, with the program itself where it is installed, and with peers that
//! misbehave or vanish.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::Duration;

use weir_model::plan::Direction;
use weir_model::record::{Record, Status};
use weir_traffic::{Failure, Limits, Stop};

use crate::common::{LIMIT, Program, Serving, received, run, sent, served};

fn serve(limits: Limits) -> Serving {
    Serving::start("netperf", "127.0.0.1", limits)
}

/// Runs a plan of this connection.
fn test(to: SocketAddr, connection: &str) -> Result<Record, Failure> {
    let connection = format!("[[connection]]\n{connection}");
    run("netperf", to, &connection, Stop::new(), &mut |_| {})
}

#[test]
fn two_weirs_agree_in_each_mode() {
    for bind in ["127.0.0.1", "::1"] {
        let server = Serving::start("netperf", bind, Limits::default());
        let run = |connection: &str| {
            let near = test(server.address, connection).unwrap();
            let far = served(&server);
            assert_eq!((near.status, far.status), (Status::Complete, Status::Complete));
            assert_eq!((near.peer.as_str(), far.peer.as_str()), ("netperf", "netperf"));
            (near.flows[0].clone(), far.flows[0].clone())
        };
        let (near, far) = run("bytes = \"3M\"\nwindow = \"64K\"");
        for bytes in [sent(&near).0, received(&near).0, received(&far).0] {
            assert_eq!(bytes, 3 << 20);
        }
        assert_eq!(far.receiver.unwrap().buffer_bytes, Some(128 << 10));
        assert_eq!(far.direction, Direction::Reverse);
        let (near, far) = run("bytes = \"3M\"\ndirection = \"reverse\"\npayload = 1000");
        assert_eq!(received(&near).0, 3 << 20);
        assert_eq!((sent(&near).0, sent(&far).0), (3 << 20, 3 << 20));
        let (near, far) =
            run("transport = \"udp\"\npackets = 200\npayload = 100\nrate = \"5000pps\"");
        assert_eq!((sent(&near), received(&near)), ((20_000, 200), (20_000, 200)));
        assert_eq!((received(&far), near.receiver.unwrap().lost_packets), ((20_000, 200), Some(0)));
        assert_eq!(far.receiver.unwrap().lost_packets, None);
        for transport in ["tcp", "udp"] {
            let (near, far) = run(&format!(
                "transport = \"{transport}\"\nshape = \"rr\"\npackets = 100\nrequest = 10\nresponse = 2000"
            ));
            let transactions = near.transactions.clone().unwrap();
            assert_eq!((transactions.completed, transactions.failed), (100, 0));
            assert_eq!((received(&near), received(&far)), ((1000, 100), (1000, 100)));
            assert_eq!(far.receiver.unwrap().duplicate_packets, None);
        }
        let (near, far) = run("shape = \"crr\"\npackets = 50\nrequest = 100\nresponse = 3000");
        let transactions = near.transactions.clone().unwrap();
        assert_eq!((transactions.completed, transactions.failed), (50, 0));
        assert_eq!((received(&near), received(&far)), ((5000, 50), (5000, 50)));
    }
}

const MESSAGE_BYTES: usize = 656;

/// A request for a test: kind of socket, protocol, direction, length, sizes of transactions.
struct Request {
    socket: [i32; 2],
    direction: i32,
    length: i32,
    sizes: [i32; 2],
    flags: i32,
    port: i32,
}

const TCP: [i32; 2] = [1, 6];
const UDP: [i32; 2] = [2, 17];
/// Directions, as the server sees them.
const SENDS: i32 = 2;
const RECEIVES: i32 = 4;
const CONNECT: i32 = 4;
const CPU: i32 = 8;

impl Default for Request {
    fn default() -> Self {
        Request { socket: TCP, direction: RECEIVES, length: 1, sizes: [-1, -1], flags: 0, port: 0 }
    }
}

fn message(kind: i32, number: i32, ints: &[(usize, i32)]) -> [u8; MESSAGE_BYTES] {
    let mut bytes = [0; MESSAGE_BYTES];
    bytes[..4].copy_from_slice(&kind.to_be_bytes());
    bytes[4..8].copy_from_slice(&number.to_be_bytes());
    for (index, value) in ints {
        bytes[8 + 4 * index..12 + 4 * index].copy_from_slice(&value.to_be_bytes());
    }
    bytes
}

fn int(message: &[u8; MESSAGE_BYTES], index: usize) -> i32 {
    let at = 8 + 4 * index;
    i32::from_be_bytes(message[at..at + 4].try_into().unwrap())
}

fn number(message: &[u8; MESSAGE_BYTES]) -> i32 {
    i32::from_be_bytes(message[4..8].try_into().unwrap())
}

/// A client or a server by hand: its control connection.
struct ByHand(TcpStream);

impl ByHand {
    fn connect(server: &Serving) -> Self {
        ByHand::of(TcpStream::connect(server.address).unwrap())
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        ByHand(stream)
    }

    fn send(&mut self, bytes: &[u8]) {
        // The peer may have closed it.
        let _ = self.0.write_all(bytes);
    }

    /// The next message, or `None` at the end.
    fn message(&mut self) -> Option<[u8; MESSAGE_BYTES]> {
        let mut bytes = [0; MESSAGE_BYTES];
        self.0.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    /// Requests a test, and returns the answer.
    fn request(&mut self, request: &Request) -> [u8; MESSAGE_BYTES] {
        let Request { socket, direction, length, sizes, flags, port } = *request;
        let defaults = [0, 1, 6, 7, 36, 37].map(|index| (index, -1));
        let stated = [
            (5, sizes[0]),
            (11, sizes[1]),
            (12, flags),
            (14, length),
            (21, 4),
            (22, socket[0]),
            (23, socket[1]),
            (24, direction),
            (25, port),
        ];
        self.send(&message(97, -1, &[&defaults[..], &stated].concat()));
        self.message().unwrap()
    }

    /// The same, and the address of the data.
    fn agreed(&mut self, request: &Request) -> SocketAddr {
        let answer = self.request(request);
        assert_eq!(number(&answer), 0);
        SocketAddr::new(self.0.peer_addr().unwrap().ip(), int(&answer, 11) as u16)
    }
}

/// A data connection.
fn data(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

fn datagrams(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    socket.connect(to).unwrap();
    socket
}

#[test]
fn a_client_by_hand_is_served_by_one_test_after_the_other() {
    let server = serve(Limits::default());
    let mut client = ByHand::connect(&server);
    // A stream to the server: its end ends the test, and the server closes too.
    let mut stream = data(client.agreed(&Request::default()));
    stream.write_all(&[7; 100_000]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let results = client.message().unwrap();
    assert_eq!((number(&results), int(&results, 0), int(&results, 1)), (0, 0, 100_000));
    assert_eq!(received(&served(&server).flows[0]).0, 100_000);
    // One from the server, of bytes.
    let request = Request { direction: SENDS, length: -50_001, ..Request::default() };
    let mut stream = data(client.agreed(&request));
    let mut bytes = vec![];
    stream.read_to_end(&mut bytes).unwrap();
    let results = client.message().unwrap();
    assert_eq!((bytes.len(), int(&results, 5)), (50_001, 50_001));
    assert_eq!((int(&results, 18), int(&results, 11)), (0, 0), "no processor time was asked for");
    // The system counts processor time in hundredths of a second.
    let mut stream = data(client.agreed(&Request { flags: CPU, length: 1, ..Request::default() }));
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(100) {
        stream.write_all(&[7; 10_000]).unwrap();
    }
    drop(stream);
    let results = client.message().unwrap();
    if cfg!(target_os = "linux") {
        let processors = std::thread::available_parallelism().unwrap().get();
        assert!(int(&results, 18) == 8 && int(&results, 19) as usize >= processors);
        let busy = f32::from_bits(int(&results, 11) as u32);
        assert!(busy > 0.0 && busy <= 100.0, "{busy} %");
    }
    served(&server);
    served(&server);
    // Requests that follow each other without a wait.
    let request = Request { direction: SENDS | RECEIVES, sizes: [3, 5], ..Request::default() };
    let mut stream = data(client.agreed(&request));
    stream.write_all(&[1; 30]).unwrap();
    let mut responses = [0; 50];
    stream.read_exact(&mut responses).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    let results = client.message().unwrap();
    assert_eq!([9, 1, 5].map(|index| int(&results, index)), [10, 30, 50]);
    served(&server);
    // A connection for each, closed by the server.
    let request = Request { flags: CONNECT, length: -3, ..request };
    let to = client.agreed(&request);
    for _ in 0..3 {
        let mut stream = data(to);
        stream.write_all(&[1; 3]).unwrap();
        let mut response = vec![];
        stream.read_to_end(&mut response).unwrap();
        assert_eq!(response.len(), 5);
    }
    assert_eq!(int(&client.message().unwrap(), 9), 3);
    assert_eq!(received(&served(&server).flows[0]).1, 3);
    // Connections without data.
    let to = client.agreed(&Request { direction: 0, sizes: [-1, -1], ..request });
    for _ in 0..3 {
        assert_eq!(data(to).read(&mut [0]).unwrap(), 0);
    }
    assert_eq!(int(&client.message().unwrap(), 9), 3);
    served(&server);
}

#[test]
fn the_older_form_of_connections_without_data_is_served() {
    let server = serve(Limits::default());
    let mut client = ByHand::connect(&server);
    // As netperf 2.7.1 sends it for `-t TCP_CC -l -4`.
    let ints = [(0, -1), (1, -1), (2, 8), (4, 8), (6, 1), (7, 1), (11, -4), (15, 4)];
    client.send(&message(300, -1, &ints));
    let answer = client.message().unwrap();
    assert_eq!((i32::from_be_bytes(answer[..4].try_into().unwrap()), number(&answer)), (301, 0));
    let to = SocketAddr::new(server.address.ip(), int(&answer, 5) as u16);
    for _ in 0..4 {
        assert_eq!(data(to).read(&mut [0]).unwrap(), 0);
    }
    let results = client.message().unwrap();
    assert_eq!((int(&results, 2), int(&results, 6)), (4, 0));
    assert_eq!(f32::from_bits(int(&results, 4) as u32), -1.0);
    assert_eq!(received(&served(&server).flows[0]).1, 4);
    client.send(&message(300, -1, &[(11, -4), (15, 7)]));
    assert_eq!(number(&client.message().unwrap()), 97);
}

#[test]
fn datagrams_of_a_client_by_hand_are_counted_and_answered() {
    let server = serve(Limits::default());
    let mut client = ByHand::connect(&server);
    let socket =
        datagrams(client.agreed(&Request { socket: UDP, length: 5, ..Request::default() }));
    for size in [100, 1, 400] {
        socket.send(&vec![0; size]).unwrap();
    }
    (0..3).for_each(|_| drop(socket.send(&[])));
    let results = client.message().unwrap();
    assert_eq!([1, 2].map(|index| int(&results, index)), [501, 3]);
    assert_eq!(received(&served(&server).flows[0]), (501, 3));
    let request = Request {
        socket: UDP,
        direction: SENDS | RECEIVES,
        sizes: [4, 1000],
        length: 5,
        ..Request::default()
    };
    let socket = datagrams(client.agreed(&request));
    for _ in 0..20 {
        socket.send(&[1; 4]).unwrap();
        assert_eq!(socket.recv(&mut [0; 2000]).unwrap(), 1000);
    }
    // One of another size is no request.
    socket.send(&[1; 5]).unwrap();
    socket.send(&[]).unwrap();
    let results = client.message().unwrap();
    assert_eq!([9, 1, 5].map(|index| int(&results, index)), [20, 80, 20_000]);
    served(&server);
    // To the client, at the port that it states.
    let own = UdpSocket::bind("127.0.0.1:0").unwrap();
    own.set_read_timeout(Some(LIMIT)).unwrap();
    let port = own.local_addr().unwrap().port().into();
    let request =
        Request { socket: UDP, direction: SENDS, length: -10_000, port, ..Request::default() };
    client.agreed(&request);
    let (mut total, mut buffer) = (0, vec![0; 70_000]);
    loop {
        match own.recv(&mut buffer).unwrap() {
            0 => break,
            bytes => total += bytes,
        }
    }
    let results = client.message().unwrap();
    // In whole datagrams, of the default size.
    assert_eq!((total as i32, int(&results, 5)), (65_507, 65_507));
}

#[test]
fn data_of_another_host_is_not_that_of_the_client() {
    let server = Serving::start("netperf", "127.0.0.1", Limits::default());
    let mut client = ByHand::connect(&server);
    let to = client.agreed(&Request {
        socket: UDP,
        direction: SENDS | RECEIVES,
        sizes: [4, 1000],
        length: 5,
        ..Request::default()
    });
    let stranger = UdpSocket::bind("127.0.0.2:0").unwrap();
    stranger.send_to(&[1; 4], to).unwrap();
    let own = datagrams(to);
    own.send(&[1; 4]).unwrap();
    assert_eq!(own.recv(&mut [0; 2000]).unwrap(), 1000);
    stranger.send_to(&[1; 4], to).unwrap();
    own.send(&[1; 4]).unwrap();
    assert_eq!(own.recv(&mut [0; 2000]).unwrap(), 1000);
    own.send(&[]).unwrap();
    assert_eq!(int(&client.message().unwrap(), 9), 2);
    stranger.set_nonblocking(true).unwrap();
    assert_eq!(stranger.recv(&mut [0; 2000]).unwrap_err().kind(), ErrorKind::WouldBlock);
    // Of a stream, too: the connection of another host is closed.
    let to = client.agreed(&Request::default());
    let stranger = socket_from("127.0.0.2", to);
    stranger.set_read_timeout(Some(LIMIT)).unwrap();
    let ended = (&stranger).read(&mut [0]);
    assert!(matches!(ended, Ok(0)) || ended.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    let stream = data(to);
    drop(stream);
    assert_eq!(number(&client.message().unwrap()), 0);
}

/// A connection from an address of this host.
fn socket_from(from: &str, to: SocketAddr) -> TcpStream {
    let options = weir_net::tcp::TcpOptions {
        bind: Some(SocketAddr::new(from.parse().unwrap(), 0)),
        ..weir_net::tcp::TcpOptions::default()
    };
    weir_net::tcp::TcpStream::connect(to, &options, None).unwrap().into()
}

#[test]
fn other_messages_are_answered_and_unknown_ones_have_an_error() {
    let server = serve(Limits::default());
    let mut client = ByHand::connect(&server);
    // A passphrase has no answer.
    client.send(&message(6, -1, &[]));
    client.send(&message(1, -1, &[]));
    let answer = client.message().unwrap();
    assert_eq!((answer[3], number(&answer)), (3, 0));
    client.send(&message(5, -1, &[]));
    let answer = client.message().unwrap();
    assert_eq!(answer[3], 5);
    if cfg!(target_os = "linux") {
        assert_eq!(f32::from_bits(int(&answer, 0) as u32), 100.0);
    }
    client.send(&message(12_345, -1, &[]));
    assert_eq!(number(&client.message().unwrap()), 998);
    for (request, expected) in [
        (Request { socket: [4, 132], ..Request::default() }, 93),
        (Request { direction: 8, ..Request::default() }, 22),
        (Request { length: 5000, ..Request::default() }, 62),
        (Request { direction: 6, ..Request::default() }, 90),
        (Request { direction: 6, sizes: [1, i32::MAX], ..Request::default() }, 90),
        // Datagrams to a client without a port.
        (Request { socket: UDP, direction: SENDS, ..Request::default() }, 99),
    ] {
        assert_eq!(number(&client.request(&request)), expected);
    }
    // It still serves.
    let record = test(server.address, "bytes = \"100K\"").unwrap();
    assert_eq!(received(&record.flows[0]).0, 100 << 10);
}

#[test]
fn clients_that_vanish_or_say_nothing_are_forgotten() {
    let limits = Limits { hello_seconds: 1, silence_seconds: 1, sessions: 2, ..Limits::default() };
    let server = serve(limits);
    // Nothing, or half a message.
    let mut silent = ByHand::connect(&server);
    let mut half = ByHand::connect(&server);
    half.send(&[0; 300]);
    assert!(silent.message().is_none() && half.message().is_none());
    // A request without data, with data that stops, and a control connection that is closed.
    let forever = Request { length: 0, ..Request::default() };
    let mut without = ByHand::connect(&server);
    without.agreed(&forever);
    let mut stopped = ByHand::connect(&server);
    let mut stream = data(stopped.agreed(&forever));
    stream.write_all(&[0; 10]).unwrap();
    // More than two sessions are refused.
    let mut third = ByHand::connect(&server);
    assert_eq!(number(&third.request(&forever)), 11);
    assert!(without.message().is_none() && stopped.message().is_none());
    for _ in 0..2 {
        assert_eq!(served(&server).status, Status::Partial);
    }
    let mut gone = ByHand::connect(&server);
    let stream = data(gone.agreed(&forever));
    drop(gone);
    assert_eq!(served(&server).status, Status::Partial);
    drop(stream);
    let record = test(server.address, "bytes = \"100K\"").unwrap();
    assert_eq!(received(&record.flows[0]).0, 100 << 10);
}

/// A server by hand, which answers one request with what `then` does with control connection, request and data socket.
fn server_by_hand(
    then: impl FnOnce(ByHand, [u8; MESSAGE_BYTES], TcpListener) + Send + 'static,
) -> (SocketAddr, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = std::thread::spawn(move || {
        let mut control = ByHand::of(listener.accept().unwrap().0);
        let request = control.message().unwrap();
        let data = TcpListener::bind("127.0.0.1:0").unwrap();
        then(control, request, data);
    });
    (address, thread)
}

fn answer(port: u16) -> [u8; MESSAGE_BYTES] {
    message(98, 0, &[(11, port.into())])
}

fn one_second() -> i32 {
    1f32.to_bits() as i32
}

#[test]
fn a_server_by_hand_is_tested() {
    let (address, thread) = server_by_hand(|mut control, request, listener| {
        assert_eq!([21, 22, 23, 24].map(|index| int(&request, index)), [4, 1, 6, 4]);
        control.send(&answer(listener.local_addr().unwrap().port()));
        let mut bytes = vec![];
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        let results = [(1, bytes.len() as i32), (2, 17), (10, one_second()), (3, 4096), (26, -1)];
        // The type is as netserver sends it.
        control.send(&message(0x6200_0000, 0, &results));
    });
    let record = test(address, "bytes = \"1M\"").unwrap();
    thread.join().unwrap();
    let flow = &record.flows[0];
    assert_eq!((sent(flow).0, received(flow).0), (1 << 20, 1 << 20));
    let receiver = flow.receiver.as_ref().unwrap();
    assert_eq!((receiver.io_calls, receiver.buffer_bytes), (Some(17), Some(4096)));
    // Datagrams: three are lost. The end is marked.
    let (address, thread) = server_by_hand(|mut control, request, _| {
        assert_eq!([22, 23, 24].map(|index| int(&request, index)), [2, 17, 4]);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        control.send(&answer(socket.local_addr().unwrap().port()));
        let mut sizes = vec![];
        loop {
            match socket.recv(&mut [0; 2000]).unwrap() {
                0 => break,
                bytes => sizes.push(bytes),
            }
        }
        assert_eq!(sizes, [100; 10]);
        control.send(&message(98, 0, &[(1, 700), (2, 7), (10, one_second())]));
    });
    let record =
        test(address, "transport = \"udp\"\npackets = 10\npayload = 100\nrate = \"1000pps\"")
            .unwrap();
    thread.join().unwrap();
    let flow = &record.flows[0];
    assert_eq!((sent(flow), received(flow)), ((1000, 10), (700, 7)));
    assert_eq!(flow.receiver.as_ref().unwrap().lost_packets, Some(3));
}

#[test]
fn a_response_that_is_lost_times_out_and_the_next_request_is_sent() {
    let (address, thread) = server_by_hand(|mut control, _, _| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        control.send(&answer(socket.local_addr().unwrap().port()));
        let mut requests = 0;
        loop {
            let (bytes, from) = socket.recv_from(&mut [0; 2000]).unwrap();
            match bytes {
                0 => break,
                _ => requests += 1,
            }
            if requests != 2 {
                socket.send_to(&[0; 20], from).unwrap();
            }
        }
        control.send(&message(98, 0, &[(1, 10 * requests), (9, requests), (10, one_second())]));
    });
    let record = test(
        address,
        "transport = \"udp\"\nshape = \"rr\"\nrequest = 10\nresponse = 20\npackets = 5",
    )
    .unwrap();
    thread.join().unwrap();
    let transactions = record.flows[0].transactions.as_ref().unwrap();
    assert_eq!((transactions.completed, transactions.failed), (4, 1));
    assert_eq!(transactions.failures.get("timeout"), Some(&1));
    assert_eq!(transactions.late_responses, None, "responses have no numbers");
}

#[test]
fn servers_that_refuse_or_vanish_are_errors() {
    let (address, thread) = server_by_hand(|mut control, _, _| control.send(&message(98, 22, &[])));
    let failure = test(address, "bytes = \"1M\"").unwrap_err();
    assert_eq!(
        (failure.error.code().as_str(), failure.error.exit_code()),
        ("peer-server-error", 3)
    );
    thread.join().unwrap();
    // Without a port, and closed during the test.
    let (address, thread) = server_by_hand(|mut control, _, _| control.send(&answer(0)));
    assert!(test(address, "bytes = \"1M\"").unwrap_err().partial.is_none());
    thread.join().unwrap();
    let (address, thread) = server_by_hand(|mut control, _, listener| {
        control.send(&answer(listener.local_addr().unwrap().port()));
        drop(control);
        let mut bytes = vec![];
        let _ = listener.accept().unwrap().0.read_to_end(&mut bytes);
    });
    let failure = test(address, "duration = \"20s\"\nrate = \"1M\"").unwrap_err();
    assert_eq!(failure.partial.unwrap().status, Status::Partial);
    thread.join().unwrap();
}

fn has(program: &str, name: &str) -> bool {
    // Debian has no package of it.
    let found = Command::new(program).arg("-V").output().is_ok();
    if !found {
        println!("SKIPPED {name}: no {program}");
    }
    found
}

/// Runs netperf and returns figures of its results by name.
fn netperf(port: &str, test: &str, length: &str, options: &str, figures: &str) -> Vec<f64> {
    let mut command = Command::new("netperf");
    command.args(["-H", "127.0.0.1", "-p", port, "-t", test, "-l", length, "-P", "0", "--"]);
    command.args(options.split_whitespace()).args(["-o", figures]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{test}: {text}");
    text.trim().split(',').map(|figure| figure.parse().unwrap()).collect()
}

#[test]
fn netperf_is_served() {
    if !has("netperf", "netperf_is_served") {
        return;
    }
    let server = serve(Limits::default());
    let run = |test: &str, length: &str, options: &str, figures: &str| {
        let theirs = netperf(&server.port(), test, length, options, figures);
        (theirs, served(&server))
    };
    for length in ["1", "-5000000"] {
        let (theirs, record) = run("TCP_STREAM", length, "", "REMOTE_BYTES_RECVD,LOCAL_BYTES_SENT");
        // The client does not count the part of its last write that its timer interrupts.
        assert!((0.0..16_384.0).contains(&(theirs[0] - theirs[1])), "{theirs:?}");
        assert_eq!(theirs[0], received(&record.flows[0]).0 as f64);
    }
    let (theirs, record) = run("TCP_MAERTS", "-5000000", "", "LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT");
    assert_eq!(theirs, [5e6, 5e6]);
    assert_eq!(sent(&record.flows[0]).0, 5_000_000);
    let (theirs, record) = run("TCP_MAERTS", "1", "", "LOCAL_BYTES_RECVD");
    assert!(theirs[0] > 0.0 && theirs[0] <= sent(&record.flows[0]).0 as f64);
    for test in ["TCP_RR", "TCP_CRR", "UDP_RR"] {
        let figures = "TRANSACTION_RATE,ELAPSED_TIME,REMOTE_BYTES_RECVD";
        let (theirs, record) = run(test, "1", "-r 10,200", figures);
        let (rate, seconds, bytes) = (theirs[0], theirs[1], theirs[2]);
        let counted = received(&record.flows[0]);
        assert_eq!((bytes, record.status), (counted.0 as f64, Status::Complete), "{test}");
        // The client counts those that it completed within its time.
        let all = rate * seconds;
        assert!(all > 10.0 && (counted.1 as f64 - all).abs() <= 2.0 + 0.01 * all, "{test}");
    }
    let (theirs, record) = run("TCP_RR", "-500", "-r 1,1 -b 8", "REMOTE_BYTES_RECVD");
    assert!(theirs[0] >= 500.0 && received(&record.flows[0]).1 as f64 == theirs[0]);
    let (theirs, record) =
        run("UDP_STREAM", "1", "-m 1000", "REMOTE_BYTES_RECVD,REMOTE_RECV_CALLS");
    let counted = received(&record.flows[0]);
    assert_eq!(theirs, [counted.0 as f64, counted.1 as f64]);
}

#[test]
fn a_server_of_netperf_is_tested() {
    if !has("netserver", "a_server_of_netperf_is_tested") {
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut command = Command::new("netserver");
    command.args(["-D", "-L", "127.0.0.1", "-p", &port.port().to_string()]);
    let _server = Program(command.stdout(Stdio::null()).spawn().unwrap());
    let begun = std::time::Instant::now();
    let run = |connection: &str| loop {
        match test(port, connection) {
            // It does not listen yet.
            Err(error) if error.partial.is_none() && begun.elapsed() < LIMIT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            ended => {
                let record = ended.unwrap();
                assert_eq!(record.status, Status::Complete);
                break record.flows[0].clone();
            }
        }
    };
    let flow = run("bytes = \"5M\"");
    assert_eq!((sent(&flow).0, received(&flow).0), (5 << 20, 5 << 20));
    let flow = run("bytes = \"5M\"\ndirection = \"reverse\"\npayload = 4096");
    assert_eq!((sent(&flow).0, received(&flow).0), (5 << 20, 5 << 20));
    let flow = run("duration = \"1s\"\ndirection = \"reverse\"\npayload = 4096");
    // The server does not count the part of its last write that its timer interrupts.
    assert!((0..4096).contains(&(received(&flow).0 - sent(&flow).0)));
    let flow = run("transport = \"udp\"\npackets = 500\npayload = 200\nrate = \"1000pps\"");
    let lost = flow.receiver.as_ref().unwrap().lost_packets.unwrap();
    assert_eq!((sent(&flow).1, received(&flow).1 + lost), (500, 500));
    for transport in ["tcp", "udp"] {
        let text =
            format!("transport = \"{transport}\"\nshape = \"rr\"\npackets = 300\nresponse = 100");
        let flow = run(&text);
        assert_eq!(flow.transactions.as_ref().unwrap().completed, 300);
        assert_eq!(received(&flow).1, 300);
    }
    let flow = run("shape = \"crr\"\npackets = 100");
    assert_eq!(flow.transactions.as_ref().unwrap().completed, 100);
    assert_eq!(received(&flow).1, 100);
}
