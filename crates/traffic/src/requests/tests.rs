use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use weir_wire::control::{ClientMessage, Hello, Message, PROTOCOL, ServerMessage, decode, encode};
use weir_wire::frame::{FrameDecoder, encode_frame};
use weir_wire::preface::{ControlMode, encode_control};

use super::{
    InvalidRequest, MAX_REQUEST_CLIENTS, RequestClient, RequestServer, RequestTimeouts, Service,
    serve_requests,
};
use crate::key::Key;
use crate::stop::{Stop, StopReason};
use crate::{ServerEvent, TrafficError};

const ECHO: Service =
    Service { name: "echo", max_request_bytes: 100_000, max_answer_bytes: 1 << 20 };
/// Long enough for any answer; only a broken test reaches it.
const PATIENCE: Duration = Duration::from_secs(30);

/// A text, as request and as answer.
#[derive(Debug, PartialEq)]
struct Text(String);

impl Message for Text {
    fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&self.0).unwrap()
    }
    fn of_json(json: &[u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(json).map(Text)
    }
}

/// A server that returns each request.
struct Server {
    address: SocketAddr,
    refused: mpsc::Receiver<String>,
    stop: Stop,
    thread: Option<std::thread::JoinHandle<Result<(), TrafficError>>>,
}

impl Server {
    fn start(key: Option<&Key>, timeouts: RequestTimeouts) -> Server {
        let config = RequestServer {
            bind: vec![Ipv4Addr::LOCALHOST.into()],
            port: 0,
            key: key.cloned(),
            service: ECHO,
            timeouts,
        };
        let ((listening, bound), (refusing, refused)) = (mpsc::channel(), mpsc::channel());
        let stop = Stop::new();
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut observe = |event| match event {
                ServerEvent::Listening { addresses, .. } => drop(listening.send(addresses[0])),
                ServerEvent::Refused { reason, .. } => drop(refusing.send(reason)),
                other => panic!("{other:?}"),
            };
            serve_requests(config, &asked, &mut observe, |_, request: Result<Text, _>| {
                request.unwrap_or_else(|InvalidRequest(_)| Text("invalid".into()))
            })
        });
        let address = bound.recv().unwrap().to_string().parse().unwrap();
        Server { address, refused, stop, thread: Some(thread) }
    }

    fn client_of(
        &self,
        key: Option<&Key>,
        service: &Service,
    ) -> Result<RequestClient, TrafficError> {
        RequestClient::connect("127.0.0.1", self.address.port(), key, service, PATIENCE)
    }

    fn client(&self, key: Option<&Key>) -> Result<RequestClient, TrafficError> {
        self.client_of(key, &ECHO)
    }

    /// A connection in the clear, after its preface.
    fn plain(&self) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&encode_control(ControlMode::Plain)).unwrap();
        stream
    }

    fn refusal(&self) -> String {
        self.refused.recv_timeout(PATIENCE).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.request(StopReason::Terminated);
        let ended = self.thread.take().map(std::thread::JoinHandle::join);
        assert!(matches!(ended, Some(Ok(Ok(())))));
    }
}

fn ask(client: &mut RequestClient, text: &str) -> Result<String, TrafficError> {
    client.ask::<Text, Text>(&Text(text.into()), PATIENCE).map(|Text(text)| text)
}

fn hello(protocol: u32, features: &[&str]) -> Vec<u8> {
    let hello = Hello {
        protocol_min: protocol,
        protocol_max: protocol,
        features: features.iter().map(ToString::to_string).collect(),
        ..Hello::default()
    };
    encode_frame(&encode(&ClientMessage::Hello(hello))).unwrap()
}

/// The next message of a connection in the clear; `None` if it is closed instead.
fn next(stream: &mut TcpStream) -> Option<ServerMessage> {
    let mut frames = FrameDecoder::new(1 << 20);
    loop {
        if let Some(frame) = frames.next().unwrap() {
            return Some(decode(&frame).unwrap());
        }
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => frames.push(&byte),
            _ => return None,
        }
    }
}

/// The code of the refusal that a connection in the clear gets.
fn refused(mut stream: TcpStream) -> Option<String> {
    match next(&mut stream) {
        Some(ServerMessage::Refused { code, .. }) => Some(code),
        None => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_request_has_its_answer_with_and_without_a_key() {
    let key = Key::generate().unwrap();
    for key in [None, Some(&key)] {
        let server = Server::start(key, RequestTimeouts::default());
        let mut clients = [server.client(key).unwrap(), server.client(key).unwrap()];
        // Longer than a message of the handshake's cipher.
        for text in ["one", "", &"long ".repeat(19_000)] {
            for client in &mut clients {
                assert_eq!(ask(client, text).unwrap(), text);
            }
        }
    }
}

#[test]
fn only_a_client_with_the_key_is_served() {
    let (key, other) = (Key::generate().unwrap(), Key::generate().unwrap());
    let server = Server::start(Some(&key), RequestTimeouts::default());
    assert!(matches!(server.client(Some(&other)), Err(TrafficError::Key { .. })));
    server.refusal();
    let without = server.client(None).unwrap_err();
    assert!(matches!(&without, TrafficError::Refused { code, .. } if code == "key"), "{without:?}");
    server.refusal();
    // Not even a valid hello is read, and none of the requests after it.
    let mut stream = server.plain();
    stream.write_all(&hello(PROTOCOL, &["echo"])).unwrap();
    assert_eq!(refused(stream).as_deref(), Some("key"));
    let open = Server::start(None, RequestTimeouts::default());
    assert!(matches!(open.client(Some(&key)), Err(TrafficError::Key { .. })));
}

#[test]
fn another_version_or_service_is_refused_before_a_request() {
    let server = Server::start(None, RequestTimeouts::default());
    for (first, code) in [
        (hello(PROTOCOL + 1, &["echo"]), Some("version")),
        (hello(PROTOCOL, &["tcp", "udp"]), Some("unavailable")),
        (encode_frame(b"\"one\"").unwrap(), None),
    ] {
        let mut stream = server.plain();
        stream.write_all(&first).unwrap();
        assert_eq!(refused(stream).as_deref(), code);
    }
    let other = Service { name: "other", ..ECHO };
    let error = server.client_of(None, &other).unwrap_err();
    assert!(matches!(&error, TrafficError::Refused { code, .. } if code == "unavailable"));
}

/// Connections that send nothing, a part of the preface, or nothing after the handshake are closed, and hold up no other client.
#[test]
fn a_client_that_says_nothing_is_disconnected() {
    let timeouts =
        RequestTimeouts { hello: Duration::from_millis(300), request: Duration::from_millis(600) };
    let server = Server::start(None, timeouts);
    let mut silent = TcpStream::connect(server.address).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut partial = TcpStream::connect(server.address).unwrap();
    partial.set_read_timeout(Some(PATIENCE)).unwrap();
    partial.write_all(&encode_control(ControlMode::Noise)[..3]).unwrap();
    let mut greeted = server.plain();
    greeted.write_all(&hello(PROTOCOL, &["echo"])).unwrap();
    assert!(matches!(next(&mut greeted), Some(ServerMessage::Hello(_))));
    assert_eq!(ask(&mut server.client(None).unwrap(), "x").unwrap(), "x");
    let start = Instant::now();
    for stream in [&mut silent, &mut partial, &mut greeted, &mut server.plain()] {
        assert!(next(stream).is_none());
    }
    assert!(start.elapsed() < PATIENCE);
}

#[test]
fn a_long_or_invalid_request_is_answered_and_ends_its_connection() {
    let server = Server::start(None, RequestTimeouts::default());
    let mut client = server.client(None).unwrap();
    let long = "x".repeat(ECHO.max_request_bytes);
    assert_eq!(ask(&mut client, &long).unwrap(), "invalid");
    assert!(matches!(ask(&mut client, "x"), Err(TrafficError::Lost { .. })));
    // The length alone is enough: no memory is allocated for what it announces.
    for frame in
        [encode_frame(&vec![b' '; 200_000]).unwrap()[..8].to_vec(), encode_frame(b"{").unwrap()]
    {
        let mut stream = server.plain();
        stream.write_all(&hello(PROTOCOL, &["echo"])).unwrap();
        assert!(matches!(next(&mut stream), Some(ServerMessage::Hello(_))));
        stream.write_all(&frame).unwrap();
        let mut rest = vec![];
        stream.read_to_end(&mut rest).unwrap();
        let mut frames = FrameDecoder::new(1000);
        frames.push(&rest);
        assert_eq!(frames.next().unwrap().as_deref(), Some(&b"\"invalid\""[..]));
    }
}

#[test]
fn clients_beyond_the_limit_are_refused_until_one_leaves() {
    let server = Server::start(None, RequestTimeouts::default());
    let connect = || server.client(None);
    let mut clients: Vec<_> = (0..MAX_REQUEST_CLIENTS).map(|_| connect().unwrap()).collect();
    let busy = connect().unwrap_err();
    assert!(matches!(&busy, TrafficError::Refused { code, .. } if code == "busy"), "{busy:?}");
    assert_eq!(ask(&mut clients[0], "x").unwrap(), "x");
    clients.pop();
    // The server notices the end of a connection a moment later.
    let end = Instant::now() + PATIENCE;
    while connect().is_err() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_is_gone_is_an_error() {
    let server = Server::start(None, RequestTimeouts::default());
    let mut client = server.client(None).unwrap();
    let port = server.address.port();
    drop(server);
    let lost = ask(&mut client, "x").unwrap_err();
    assert!(matches!(lost, TrafficError::Lost { .. }), "{lost:?}");
    let error = RequestClient::connect("127.0.0.1", port, None, &ECHO, PATIENCE).unwrap_err();
    assert!(matches!(error, TrafficError::Connect { .. }), "{error:?}");
    assert_eq!((lost.exit_code(), error.exit_code()), (3, 3));
}
