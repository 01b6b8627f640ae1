//! A client of few lines: what it sends is what a test wants to send, right or wrong.
// Each test file is a crate of its own and uses its part.
#![allow(dead_code, clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Ends a broken test; no good one comes near it.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name));
        found.map_or("", |(_, v)| v)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// The body of an answer that must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { self.json() }
    }

    pub(crate) fn etag(&self) -> String {
        self.header("etag").to_owned()
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// Asks over a connection that is there; absent when it was closed without an answer.
pub(crate) fn ask_on(
    mut stream: TcpStream,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&[u8]>,
) -> Option<Reply> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("host")) {
        head += "Host: localhost\r\n";
    }
    if let Some(body) = body {
        head += &format!("Content-Length: {}\r\n", body.len());
        if !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type")) {
            head += "Content-Type: application/json\r\n";
        }
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    // A server that refuses may close before it has read all.
    let _ = stream.write_all(format!("{head}\r\n").as_bytes());
    let _ = stream.write_all(body.unwrap_or_default());
    answer(stream)
}

/// Reads an answer up to the end of the connection.
pub(crate) fn answer(mut stream: TcpStream) -> Option<Reply> {
    let mut bytes = vec![];
    let mut piece = [0; 65_536];
    while let Ok(n @ 1..) = stream.read(&mut piece) {
        bytes.extend(&piece[..n]);
    }
    let end = bytes.windows(4).position(|w| w == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines
        .filter_map(|l| l.split_once(':'))
        .map(|(n, v)| (n.trim().to_owned(), v.trim().to_owned()))
        .collect();
    Some(Reply { status, headers, body: bytes[end + 4..].to_vec() })
}

/// Asks and must be answered.
#[track_caller]
pub(crate) fn ask(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: Option<&Value>,
) -> Reply {
    let text = body.map(|b| b.to_string().into_bytes());
    let path = if path.starts_with("/api") || path == "/" {
        path.into()
    } else {
        format!("/api/v1{path}")
    };
    let reply = ask_on(connect(address), method, &path, headers, text.as_deref());
    reply.unwrap_or_else(|| panic!("{method} {path}: closed without an answer"))
}

#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    ask(address, "GET", path, &[], None)
}

/// The live stream.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    /// Opens it, by the first version of HTTP, in which a body has no chunks.
    pub(crate) fn open(mut stream: TcpStream, query: &str) -> Events {
        let path = format!("/api/v1/events{query}");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.contains(" 200 "), "{line}");
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        Events(reader)
    }

    /// The next event; absent when the stream has ended.
    pub(crate) fn next(&mut self) -> Option<(String, Value)> {
        let (mut event, mut data) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix("event: ") {
                event = name.into();
            } else if let Some(text) = line.strip_prefix("data: ") {
                data += text;
            } else if line.is_empty() && !event.is_empty() {
                return Some((event, serde_json::from_str(&data).unwrap()));
            }
        }
    }

    /// The next event of this name for which this holds.
    #[track_caller]
    pub(crate) fn until(&mut self, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        // The stream goes on by itself: its silence is no limit.
        let end = std::time::Instant::now() + LIMIT;
        loop {
            assert!(std::time::Instant::now() < end, "no such {name} within {LIMIT:?}");
            let (event, data) =
                self.next().unwrap_or_else(|| panic!("the stream ended before {name}"));
            if event == name && holds(&data) {
                return data;
            }
        }
    }
}
