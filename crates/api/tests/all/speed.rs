//! The speed test's listener, spoken to by a small WebSocket client over loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};
use weir_api::speed::{SpeedConfig, SpeedLimits, SpeedServer};
use weir_runs::{DataDirectory, Filter, Store};

/// A server on a thread of its own; it ends with the test.
struct Bench {
    address: SocketAddr,
    directory: tempfile::TempDir,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Bench {
    fn up(limits: SpeedLimits, anonymous: bool) -> Bench {
        let directory = tempfile::tempdir().unwrap();
        let config = SpeedConfig {
            address: "127.0.0.1:0".parse().unwrap(),
            version: "0.0.0".into(),
            data: DataDirectory::in_directory(directory.path()),
            host_names: vec!["speed.example".into()],
            anonymous,
            limits,
        };
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let server = SpeedServer::bind(config).await.unwrap();
                tell.send(server.address().unwrap()).unwrap();
                server.run(async { drop(stopped.await) }).await;
            });
        });
        Bench { address: told.recv().unwrap(), directory, stop: Some(stop), thread: Some(thread) }
    }

    /// The answer to a request: status and body.
    fn get(&self, path: &str) -> (u16, String) {
        let mut tcp = TcpStream::connect(self.address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(tcp, "GET {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.address)
            .unwrap();
        let mut text = String::new();
        tcp.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-security-policy: default-src 'self'"), "{head}");
        (head[9..12].parse().unwrap(), body.to_owned())
    }

    fn open(&self, path: &str) -> Result<Socket, u16> {
        Socket::open(self.address, path, &format!("http://{}", self.address))
    }

    /// A control connection that was greeted.
    fn control(&self) -> (Socket, Value) {
        let mut control = self.open("/speed/v1").unwrap();
        let hello = control.text();
        assert_eq!(hello["type"], "hello", "{hello}");
        (control, hello)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

enum Frame {
    Text(Value),
    Binary,
    Close(u16),
}

struct Socket(TcpStream);

impl Socket {
    fn open(address: SocketAddr, path: &str, origin: &str) -> Result<Socket, u16> {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\norigin: {origin}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: weir.speed.v1\r\n\r\n"
        );
        tcp.write_all(request.as_bytes()).unwrap();
        let mut head = vec![];
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            tcp.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let status: u16 = head[9..12].parse().unwrap();
        if status != 101 {
            return Err(status);
        }
        assert!(head.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
        assert!(head.contains("sec-websocket-protocol: weir.speed.v1"), "{head}");
        Ok(Socket(tcp))
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mut frame = vec![0x80 | opcode];
        match payload.len() {
            0..=125 => frame.push(0x80 | payload.len() as u8),
            126..=0xffff => {
                frame.push(0xfe);
                frame.extend((payload.len() as u16).to_be_bytes());
            }
            _ => {
                frame.push(0xff);
                frame.extend((payload.len() as u64).to_be_bytes());
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend(mask);
        frame.extend(payload.iter().enumerate().map(|(n, byte)| byte ^ mask[n % 4]));
        self.0.write_all(&frame).unwrap();
    }

    fn say(&mut self, message: Value) {
        self.send(1, message.to_string().as_bytes());
    }

    fn frame(&mut self) -> Frame {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert_eq!(head[0] & 0xf0, 0x80, "whole frames only");
        let mut length = u64::from(head[1]);
        if length >= 126 {
            let mut long = [0; 8];
            let at = if length == 126 { 6 } else { 0 };
            self.0.read_exact(&mut long[at..]).unwrap();
            length = u64::from_be_bytes(long);
        }
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).unwrap();
        match head[0] & 0x0f {
            1 => Frame::Text(serde_json::from_slice(&payload).unwrap()),
            2 => Frame::Binary,
            8 => Frame::Close(u16::from_be_bytes([payload[0], payload[1]])),
            other => panic!("opcode {other}"),
        }
    }

    /// The bytes of all frames before a pong, and the beginning of the first frame.
    fn until_pong(&mut self) -> (u64, Vec<u8>) {
        let (mut bytes, mut first) = (0, vec![]);
        loop {
            let mut head = vec![0; 2];
            self.0.read_exact(&mut head).unwrap();
            if head[0] == 0x8a {
                let mut payload = vec![0; usize::from(head[1])];
                self.0.read_exact(&mut payload).unwrap();
                return (bytes, first);
            }
            let long = match head[1] {
                126 => 2,
                127 => 8,
                _ => 0,
            };
            head.resize(2 + long, 0);
            self.0.read_exact(&mut head[2..]).unwrap();
            let of_long = head[2..].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
            let length = if long == 0 { u64::from(head[1]) } else { of_long };
            let mut payload = vec![0; length as usize];
            self.0.read_exact(&mut payload).unwrap();
            bytes += head.len() as u64 + length;
            if first.len() < 1 << 16 {
                first.extend(head.iter().chain(&payload));
            }
        }
    }

    fn text(&mut self) -> Value {
        match self.frame() {
            Frame::Text(text) => text,
            Frame::Binary => panic!("data on the control connection"),
            Frame::Close(code) => panic!("closed with {code}"),
        }
    }

    /// The next message of this type.
    fn until(&mut self, kind: &str) -> Value {
        loop {
            let text = self.text();
            if text["type"] == kind {
                return text;
            }
        }
    }

    fn closed(&mut self) -> u16 {
        match self.frame() {
            Frame::Close(code) => code,
            Frame::Text(text) => panic!("{text}"),
            Frame::Binary => panic!("data"),
        }
    }
}

fn limits() -> SpeedLimits {
    SpeedLimits { phase_seconds: 3, bytes: 40_000_000, streams: 2, ..SpeedLimits::default() }
}

#[test]
fn a_whole_test_is_measured_kept_and_shown() {
    let bench = Bench::up(limits(), false);
    let (mut control, hello) = bench.control();
    assert_eq!((hello["streams"].as_u64(), hello["phase_seconds"].as_u64()), (Some(2), Some(3)));
    assert_eq!(hello["limits"]["bytes"], 40_000_000);
    let session = hello["session"].as_str().unwrap().to_owned();
    let join = || bench.open(&format!("/speed/v1?session={session}"));
    let (mut one, mut two) = (join().unwrap(), join().unwrap());
    assert_eq!(join().err(), Some(403), "a third");
    control.say(json!({ "type": "ping", "id": 7 }));
    assert_eq!(control.text(), json!({ "type": "pong", "id": 7 }));

    control.say(json!({ "type": "start", "phase": "download" }));
    assert_eq!(control.text(), json!({ "type": "started", "phase": "download" }));
    // A phase has half of the bytes: the server ends it by itself.
    let [reader, other] = [&one, &two].map(|socket| {
        let mut socket = Socket(socket.0.try_clone().unwrap());
        std::thread::spawn(move || socket.until_pong())
    });
    let stopped = control.until("stopped");
    // The pong follows the frame that was under way.
    one.send(9, b"end");
    two.send(9, b"end");
    let ((come, mut first), (other, of_other)) = (reader.join().unwrap(), other.join().unwrap());
    // One connection may have sent everything.
    first.extend(of_other);
    let sent = stopped["bytes"].as_u64().unwrap();
    let took = stopped["seconds"].as_f64().unwrap();
    assert_eq!(stopped["phase"], "download");
    assert!(sent >= 20_000_000 || stopped["seconds"].as_f64().unwrap() >= 3.0, "{stopped}");
    // Heads of frames beside, and the rest of frames behind the end.
    assert!(
        come + other >= sent && come + other < sent + sent / 100 + 600_000,
        "{come} {other} {sent}"
    );
    assert_eq!(first[0], 0x82, "binary, whole");
    let zeros = first.iter().filter(|byte| **byte == 0).count();
    assert!(zeros < first.len() / 64, "{zeros} zeros: it could be compressed");

    control.say(json!({ "type": "start", "phase": "upload" }));
    control.until("started");
    for _ in 0..10 {
        one.send(2, &[5; 40_000]);
        two.send(2, &[6; 60_000]);
    }
    let mut received = 0;
    while received < 1_000_000 {
        received = control.until("received")["bytes"].as_u64().unwrap();
    }
    assert_eq!(received, 1_000_000, "payload alone, both connections");
    let stopped = control.until("stopped");
    assert_eq!((&stopped["phase"], &stopped["bytes"]), (&json!("upload"), &json!(1_000_000)));
    // Not within a phase: read and not counted.
    one.send(2, &[5; 40_000]);

    let claim =
        |seconds: f64| json!({ "bytes": 5_000_000, "seconds": seconds, "bits_per_second": 1.0 });
    control.say(json!({ "type": "result", "download": claim(1e-306), "latency": {} }));
    assert_eq!(control.until("not_kept")["code"], "figures");
    control.say(json!({ "type": "result", "download": claim(took / 100.0), "latency": {} }));
    assert_eq!(control.until("not_kept")["code"], "seconds");
    let download = json!({ "bytes": 5_000_000, "seconds": took, "bits_per_second": 4e7 / took });
    let latency = json!({ "idle": [0.001], "download": [], "upload": [] });
    let upload = json!({ "bytes": 1u64 << 40, "seconds": 0.5, "bits_per_second": 1e13 });
    control.say(
        json!({ "type": "result", "download": download, "upload": upload, "latency": latency }),
    );
    let kept = control.until("kept");
    let id = kept["id"].as_str().unwrap();
    assert_eq!(kept["url"], format!("/?result={id}"));
    let (status, body) = bench.get(&format!("/speed/v1/results/{id}"));
    assert_eq!(status, 200);
    let shown: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(shown["download"], download);
    assert_eq!(shown["upload"]["bytes"], 1_000_000, "the server's count, not the page's");
    assert_eq!(shown["latency"], latency);
    assert!(shown["verdict"].as_str().unwrap().starts_with("download "), "{shown}");
    assert!(shown.get("grade").is_none(), "round trips under load were not measured");
    assert_eq!((&shown["id"], &shown["version"]), (&json!(id), &json!("0.0.0")));
    assert!(!body.contains("127.0.0.1"), "{body}");
    assert_eq!(bench.get(&format!("/r/{id}")).0, 303);

    let store = Store::open_existing(&DataDirectory::in_directory(bench.directory.path()))
        .unwrap()
        .unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap().len(), 1);
    let record = store.get("last").unwrap();
    assert_eq!(record.peer, "browser");
    assert!(record.flows[0].destination.starts_with("127.0.0.1:"));
}

#[test]
fn limits_are_reported_and_places_are_given_back() {
    let bench = Bench::up(SpeedLimits { tests_per_address: 1, ..limits() }, false);
    let (first, _) = bench.control();
    let mut second = bench.open("/speed/v1").unwrap();
    let busy = second.text();
    assert_eq!((&busy["type"], &busy["retry_after_seconds"]), (&json!("busy"), &json!(30)));
    assert_eq!(second.closed(), 1013);
    drop(first);
    // The server notices the end as soon as it notices.
    for _ in 0..200 {
        if bench.open("/speed/v1").unwrap().text()["type"] == "hello" {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("the place was not given back");
}

#[test]
fn connections_beyond_the_limit_are_closed() {
    let bench = Bench::up(SpeedLimits { connections_per_address: 2, ..limits() }, false);
    let open: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(bench.address).unwrap()).collect();
    let mut third = TcpStream::connect(bench.address).unwrap();
    third.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(matches!(third.read(&mut [0; 1]), Ok(0) | Err(_)));
    drop(open);
}

#[test]
fn strangers_are_refused_at_the_door() {
    let bench = Bench::up(limits(), false);
    assert_eq!(Socket::open(bench.address, "/speed/v1", "http://evil.example").err(), Some(403));
    assert_eq!(bench.open("/speed/v1?session=AAAAAAAAAAAAAAAAAAAAAA").err(), Some(403));
    assert_eq!(bench.open("/speed/v1?x=1").err(), Some(403));
    assert_eq!(bench.get("/speed/v1").0, 426);
    for path in [
        "/speed/v1/results/AAAAAAAAAAAAAAAAAAAAAA",
        "/speed/v1/results/..%2f",
        "/r/x",
        "/index.html",
        "/api/v1/system",
    ] {
        assert_eq!(bench.get(path).0, 404, "{path}");
    }
}

#[test]
fn a_name_that_is_not_ours_is_refused_also_where_page_and_name_agree() {
    let bench = Bench::up(limits(), false);
    let ask = |host: &str| {
        let mut tcp = TcpStream::connect(bench.address).unwrap();
        tcp.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        write!(
            tcp,
            "GET /speed/v1 HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nsec-websocket-protocol: weir.speed.v1\r\n\r\n"
        )
        .unwrap();
        let mut head = [0; 12];
        tcp.read_exact(&mut head).unwrap();
        String::from_utf8(head[9..].to_vec()).unwrap()
    };
    assert_eq!(ask("evil.example:9349"), "421");
    assert_eq!(ask("speed.example:9349"), "101");
    assert_eq!(ask("localhost"), "101");
}

#[test]
fn requests_of_one_address_have_a_rate() {
    let bench = Bench::up(SpeedLimits { requests_per_second: 1, ..limits() }, false);
    let answers: Vec<u16> =
        (0..6).map(|_| bench.get("/speed/v1/results/AAAAAAAAAAAAAAAAAAAAAA").0).collect();
    assert_eq!((answers[0], answers.contains(&429)), (404, true), "{answers:?}");
}

#[test]
fn what_is_no_message_closes_with_its_code() {
    let bench = Bench::up(limits(), false);
    let ends = |opcode: u8, payload: &[u8]| {
        let (mut control, _) = bench.control();
        control.send(opcode, payload);
        control.closed()
    };
    assert_eq!(ends(1, br#"{"type":"exec"}"#), 1003);
    assert_eq!(ends(1, b"\xff"), 1007);
    assert_eq!(ends(2, b"data"), 1003);
    assert_eq!(ends(1, &vec![b' '; (64 << 10) + 1]), 1009);
    assert_eq!(ends(3, b""), 1002);
    assert_eq!(ends(8, b"\x03\xe8"), 1000);
}

#[test]
fn a_session_ends_with_its_control_connection() {
    let bench = Bench::up(SpeedLimits { phase_seconds: 30, ..limits() }, false);
    let (mut control, hello) = bench.control();
    let mut data =
        bench.open(&format!("/speed/v1?session={}", hello["session"].as_str().unwrap())).unwrap();
    control.say(json!({ "type": "start", "phase": "download" }));
    control.until("started");
    assert!(matches!(data.frame(), Frame::Binary));
    drop(control);
    let mut buffer = vec![0; 1 << 16];
    // Ends: by a reset, since what was unsent is forgotten.
    while let Ok(1..) = data.0.read(&mut buffer) {}
    assert_eq!(
        bench.open(&format!("/speed/v1?session={}", hello["session"].as_str().unwrap())).err(),
        Some(403)
    );
}

#[test]
fn claims_that_can_not_be_are_not_kept_and_anonymous_is_anonymous() {
    let bench = Bench::up(limits(), true);
    let (mut control, _) = bench.control();
    let claim = json!({ "bytes": 5, "seconds": 1.0, "bits_per_second": 40.0 });
    control.say(json!({ "type": "result", "download": claim, "latency": {} }));
    assert_eq!(control.until("not_kept")["type"], "not_kept");
    control.say(json!({ "type": "ping", "id": 1 }));
    control.say(json!({ "type": "result", "latency": { "idle": [0.01] } }));
    control.until("kept");
    let store = Store::open_existing(&DataDirectory::in_directory(bench.directory.path()))
        .unwrap()
        .unwrap();
    let record = serde_json::to_string(&store.get("last").unwrap()).unwrap();
    assert!(!record.contains("127.0.0.1:") && record.contains("browser"), "{record}");
}
