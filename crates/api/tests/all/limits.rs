//! Slow, huge and many: bounded and harmless.

use crate::http;
use crate::served;
use std::io::{Read, Write};
use std::net::TcpStream;

use http::{Events, answer, ask, ask_on, connect, get};
use serde_json::json;
use served::{Served, serve};

/// Reads until the server closes; whatever it said.
fn closed(mut stream: TcpStream) -> Vec<u8> {
    let mut all = vec![];
    let _ = stream.read_to_end(&mut all);
    all
}

fn is_well(s: &Served) {
    get(s.address, "/schemas").expect(200);
}

#[test]
fn a_head_that_does_not_come_ends_the_connection() {
    let s = serve(|c| c.limits.head_seconds = 1);
    // Nothing, half a line, lines without end one by one.
    let silent = connect(s.address);
    let mut half = connect(s.address);
    half.write_all(b"GET /api/v1/sys").unwrap();
    let mut dripping = connect(s.address);
    dripping.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    let writer = {
        let mut out = dripping.try_clone().unwrap();
        std::thread::spawn(move || {
            for i in 0..600 {
                if out.write_all(format!("X-{i}: y\r\n").as_bytes()).is_err() {
                    return true;
                }
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            false
        })
    };
    for stream in [silent, half, dripping] {
        let said = String::from_utf8_lossy(&closed(stream)).into_owned();
        assert!(!said.contains(" 200 "), "{said}");
    }
    assert!(writer.join().unwrap(), "the server took lines for 30 s");
    is_well(&s);
}

#[test]
fn bodies_are_bounded_in_size_and_time() {
    let s = serve(|c| {
        c.limits.body_bytes = 100_000;
        c.limits.body_seconds = 1;
    });
    let path = "/api/v1/validate/plan";
    let huge = vec![b' '; 100_001];
    assert_eq!(ask_on(connect(s.address), "POST", path, &[], Some(&huge)).unwrap().status, 413);
    // Without a declared length, and endless.
    let mut chunked = connect(s.address);
    write!(chunked, "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 50_000, " ".repeat(50_000));
    for _ in 0..3 {
        let _ = chunked.write_all(chunk.as_bytes());
    }
    assert_eq!(answer(chunked).unwrap().status, 413);
    // Promised and not sent.
    let mut slow = connect(s.address);
    write!(slow, "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{").unwrap();
    assert_eq!(answer(slow).unwrap().status, 408);
    // A length that is a lie does not get memory.
    let mut liar = connect(s.address);
    write!(liar, "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999999999999\r\n\r\n").unwrap();
    assert_eq!(answer(liar).unwrap().status, 413);
    let nested = "[".repeat(50_000);
    assert_eq!(
        ask_on(connect(s.address), "POST", path, &[], Some(nested.as_bytes())).unwrap().status,
        400
    );
    let mut many = connect(s.address);
    many.write_all(b"GET /api/v1/schemas HTTP/1.1\r\nHost: localhost\r\n").unwrap();
    for i in 0..100 {
        let _ = many.write_all(format!("X-{i}: y\r\n").as_bytes());
    }
    let _ = many.write_all(b"\r\n");
    let said = String::from_utf8_lossy(&closed(many)).into_owned();
    assert!(!said.contains(" 200 "), "{said}");
    is_well(&s);
}

#[test]
fn two_thousand_connections_leave_room_when_they_go() {
    let s = serve(|c| {
        c.limits.connections = 100;
        c.limits.connections_per_address = 100;
        c.limits.head_seconds = 60;
    });
    let mut open = vec![];
    for _ in 0..2000 {
        let Ok(stream) = TcpStream::connect(s.address) else { continue };
        open.push(stream);
    }
    // One that is beyond the limit is closed without a message.
    let last = open.pop().unwrap();
    last.set_read_timeout(Some(http::LIMIT)).unwrap();
    assert!(closed(last).is_empty());
    // Those within it are served; the first hundred are they.
    let first = open.swap_remove(0);
    first.set_read_timeout(Some(http::LIMIT)).unwrap();
    assert_eq!(ask_on(first, "GET", "/api/v1/schemas", &[], None).unwrap().status, 200);
    drop(open);
    for _ in 0..1000 {
        if let Some(reply) = ask_on(connect(s.address), "GET", "/api/v1/schemas", &[], None) {
            assert_eq!(reply.status, 200);
            return;
        }
    }
    panic!("no connection was served after the others had gone");
}

#[test]
fn who_asks_too_often_is_asked_to_wait() {
    let s = serve(|c| c.limits.requests_per_second = 2);
    let replies: Vec<_> = (0..40).map(|_| get(s.address, "/schemas")).collect();
    assert!(replies[..8].iter().all(|r| r.status == 200));
    let refused = replies.iter().find(|r| r.status == 429).expect("a burst of 8 and 2 a second");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    assert_eq!(
        refused.json()["retry_after_seconds"].as_u64(),
        refused.header("retry-after").parse().ok()
    );
}

#[test]
fn readers_are_reported_once_and_counted() {
    let s = serve(|c| c.limits.stream_readers = 6);
    let system = get(s.address, "/system").expect(200);
    let mut readers: Vec<Events> = (0..5).map(|_| Events::open(connect(s.address), "")).collect();
    // The sixth reads nothing, ever.
    let _slow = Events::open(connect(s.address), "");
    for reader in &mut readers {
        let (event, hello) = reader.next().unwrap();
        assert_eq!((event.as_str(), &hello["instance"]), ("hello", &system["instance"]));
    }
    assert_eq!(get(s.address, "/events").status, 503);
    let plan = json!({ "schema": "weir.plan/1", "connection": [{}] });
    for i in 0..200 {
        let path = format!("/plans/p{}", i % 2);
        let condition = if i < 2 { ("If-None-Match", "*") } else { ("If-Match", "*") };
        assert!(ask(s.address, "PUT", &path, &[condition], Some(&plan)).status < 300);
    }
    ask(s.address, "DELETE", "/plans/p1", &[("If-Match", "*")], None).expect(204);
    for reader in &mut readers {
        let gone = reader.until("edited", |e| e["document"] == "plans/p1" && e["etag"].is_null());
        assert_eq!(gone["by"], "127.0.0.1");
    }
    // A place is free again when a reader has gone.
    drop(readers.pop());
    for _ in 0..1000 {
        let mut stream = connect(s.address);
        write!(stream, "GET /api/v1/events HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        if status.ends_with(b"200") {
            return;
        }
    }
    panic!("the place of a reader that had gone stayed taken");
}

#[test]
fn a_restart_shows_as_another_instance() {
    let s = serve(|_| {});
    let before = get(s.address, "/system").expect(200)["instance"].clone();
    let mut reader = Events::open(connect(s.address), "");
    reader.until("hello", |_| true);
    drop(s);
    assert!(reader.next().is_none(), "the stream ends with its server");
    let s = serve(|_| {});
    assert_ne!(get(s.address, "/system").expect(200)["instance"], before);
}

#[test]
fn who_reads_nothing_does_not_keep_its_connection() {
    let s = serve(|c| {
        c.limits.connections = 1;
        c.limits.connections_per_address = 1;
        c.limits.head_seconds = 1;
        c.limits.write_seconds = 1;
    });
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(&s.address.into()).unwrap();
    let mut greedy = TcpStream::from(socket);
    let one = "GET /api/v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
    greedy.write_all(one.repeat(50).as_bytes()).unwrap();
    // Its place is free again though it never takes what it asked for.
    let end = std::time::Instant::now() + http::LIMIT;
    while std::time::Instant::now() < end {
        if ask_on(connect(s.address), "GET", "/api/v1/schemas", &[], None).is_some() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(greedy);
    panic!("the place stayed taken");
}

#[test]
fn lengths_that_are_only_declared_keep_no_client_out() {
    let s = serve(|_| {});
    let path = "/api/v1/validate/plan";
    let silent: Vec<TcpStream> = (0..32)
        .map(|_| {
            let mut stream = connect(s.address);
            let length = 8 << 20;
            write!(stream, "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{{").unwrap();
            stream
        })
        .collect();
    let plan = json!({ "schema": "weir.plan/1", "connection": [{}] });
    for _ in 0..20 {
        ask(s.address, "POST", "/validate/plan", &[], Some(&plan)).expect(200);
    }
    drop(silent);
    // What is open to everybody takes a token and no more.
    let long = json!({ "token": "x".repeat(2000) });
    ask(s.address, "POST", "/session", &[], Some(&long)).expect(413);
}

#[test]
fn many_small_values_are_refused_before_they_are_parsed() {
    let s = serve(|_| {});
    let array = format!("[{}0]", "0,".repeat(4_000_000));
    let tables = format!("{{\"connection\":[{}{{}}]}}", "{},".repeat(1_000_000));
    for (what, text) in
        [("scenario", &array), ("plan", &array), ("plan", &tables), ("impairment", &array)]
    {
        let path = format!("/api/v1/validate/{what}");
        let reply = ask_on(connect(s.address), "POST", &path, &[], Some(text.as_bytes()));
        assert_eq!(reply.unwrap().status, 413, "{what}");
    }
    // A long plan is fine.
    let connection = json!({ "transport": "udp", "rate": "1M", "name": "n".repeat(60) });
    let plan = json!({ "schema": "weir.plan/1", "connection": vec![connection; 1] });
    ask(s.address, "POST", "/validate/plan", &[], Some(&plan)).expect(200);
}

#[test]
fn labs_have_a_limit() {
    let made = |most: usize| {
        let s = serve(|c| c.limits.labs = most);
        ask(s.address, "POST", "/labs", &[], Some(&json!({ "name": "x" })))
    };
    let refused = made(0);
    assert_eq!(refused.expect(409)["type"], "urn:weir:problem:limit");
    // Below it, what is lacking here is who makes them.
    assert_eq!(made(1000).status, 503);
}
