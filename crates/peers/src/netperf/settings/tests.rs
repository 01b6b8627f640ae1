//! Which request a plan becomes, which plan a request becomes, and what is refused.

use weir_model::plan::Family;

use super::*;
use crate::netperf::codec::{Direction as Seen, example};

fn config(text: &str) -> ClientConfig {
    let plan = Plan::parse(&format!("schema = \"weir.plan/1\"\npeer = \"netperf\"\n{text}"));
    ClientConfig::new(plan.unwrap(), "h")
}

fn sent(text: &str) -> Request {
    let plan = prepared(&config(text)).unwrap();
    let spec = plan.flows(Family::Ipv4, 1500).swap_remove(0);
    request(&plan, &spec, false)
}

fn field(text: &str) -> String {
    match prepared(&config(text)).unwrap_err() {
        TrafficError::Input { field, .. } => field.into(),
        TrafficError::Plan(weir_model::ModelError::Field { field, .. }) => field,
        other => panic!("{other}"),
    }
}

#[test]
fn each_shape_becomes_its_request() {
    let stream = Request { flags: flag::CONGESTION, length: Length::Seconds(42), ..example() };
    assert_eq!(sent("[[connection]]\nduration = \"12s\""), stream);
    let options = Request {
        flags: flag::CONGESTION | flag::NO_DELAY,
        send_buffer: Some(65_536),
        receive_buffer: Some(65_536),
        length: Length::Seconds(0),
        congestion: Some("reno".into()),
        tos: Some(8),
        ..example()
    };
    let text = "[[connection]]\nbytes = \"1M\"\nwindow = \"64K\"\nno_delay = true\ncongestion = \"reno\"\ntos = 8";
    assert_eq!(sent(text), options);
    let reverse =
        sent("[[connection]]\ndirection = \"reverse\"\nduration = \"7s\"\npayload = 1000");
    assert_eq!((reverse.direction, reverse.send_size), (Seen::Send, Some(1000)));
    assert_eq!(reverse.length, Length::Seconds(7));
    let amount = sent("[[connection]]\ndirection = \"reverse\"\nbytes = 12345");
    assert_eq!(amount.length, Length::Units(12_345));
    let rr = sent("[[connection]]\nshape = \"rr\"\nrequest = 10\nresponse = 20\nduration = \"1s\"");
    assert_eq!((rr.direction, rr.request, rr.response), (Seen::Exchange, Some(10), Some(20)));
    assert_eq!(rr.flags & flag::CONNECT, 0);
    let crr = sent("[[connection]]\nshape = \"crr\"\npackets = 9");
    assert_eq!((crr.direction, crr.length), (Seen::Exchange, Length::Units(9)));
    assert_eq!(crr.flags & flag::CONNECT, flag::CONNECT);
    let udp = sent("[[connection]]\ntransport = \"udp\"\nduration = \"1s\"");
    assert_eq!((udp.protocol, udp.direction), (Protocol::Udp, Seen::Receive));
}

#[test]
fn what_the_protocol_does_not_carry_is_refused_by_its_field() {
    for (text, refused) in [
        ("[[connection]]\ncount = 2", "connection[0].count"),
        ("[[connection]]\nverify = true\ntransport = \"udp\"", "connection[0].verify"),
        ("[[connection]]\nno_half_close = true", "connection[0].no_half_close"),
        ("[[connection]]\nshape = \"cc\"", "shape"),
        ("[[connection]]\n[[connection]]", "connection"),
        ("[[connection]]\ntransport = \"udp\"\ndirection = \"reverse\"", "direction"),
        (
            "[[connection]]\ntransport = \"udp\"\nshape = \"rr\"\nrate = \"10pps\"",
            "connection[0].rate",
        ),
        (
            "[[connection]]\ntransport = \"udp\"\nshape = \"rr\"\noutstanding = 2",
            "connection[0].outstanding",
        ),
        ("[[connection]]\ntransport = \"udp\"\nheader = \"iperf3\"", "header"),
        ("[[connection]]\ndirection = \"reverse\"\nrate = \"1M\"", "connection[0].rate"),
        ("[[connection]]\ndirection = \"reverse\"\nduration = \"1500ms\"", "duration"),
        ("[[connection]]\ndirection = \"reverse\"\nbytes = \"2G\"", "bytes"),
        ("[[connection]]\ndirection = \"reverse\"\npackets = 4", "packets"),
        ("omit = \"1s\"\n[[connection]]", "omit"),
    ] {
        assert_eq!(field(text), refused, "{text}");
    }
    sent("[[connection]]\nshape = \"rr\"\noutstanding = 8");
    sent("[[connection]]\nshape = \"rr\"\nrate = \"100pps\"");
    sent("omit = \"1s\"\n[[connection]]\nshape = \"rr\"");
}

#[test]
fn a_plan_and_its_request_mean_the_same() {
    for text in [
        "[[connection]]\nduration = \"5s\"\nwindow = \"64K\"",
        "[[connection]]\ndirection = \"reverse\"\nbytes = \"1M\"\npayload = 1000",
        "[[connection]]\nshape = \"rr\"\nrequest = 3\nresponse = 5",
        "[[connection]]\nshape = \"crr\"\nresponse = 5\nduration = \"2s\"",
        "[[connection]]\ntransport = \"udp\"\nshape = \"rr\"",
        "[[connection]]\ntransport = \"udp\"",
    ] {
        let far = plan(&sent(text), 3600).unwrap();
        let near = prepared(&config(text)).unwrap();
        let (near, far) = (&near.connections[0], &far.connections[0]);
        assert_eq!(near.transport.name(), far.transport.name());
        assert_eq!((near.shape, near.header), (far.shape, far.header), "{text}");
        assert_eq!(near.request_bytes(), far.request_bytes());
        assert_eq!(near.response_bytes(), far.response_bytes());
        // Datagrams have a buffer of the server's choice.
        assert!(near.window == far.window || far.transport.datagrams());
        let turned = !near.shape.has_transactions();
        assert_eq!(turned, near.direction != far.direction, "{text}");
    }
}

#[test]
fn hostile_requests_are_refused_by_number() {
    let ok = example();
    plan(&ok, 3600).unwrap();
    let udp = Request { protocol: Protocol::Udp, ..ok.clone() };
    let rr =
        Request { direction: Seen::Exchange, request: Some(1), response: Some(1), ..ok.clone() };
    for (wrong, number) in [
        (Request { length: Length::Seconds(3601), ..ok.clone() }, errno::TIME),
        (Request { direction: Seen::Connect, ..ok.clone() }, errno::INVALID),
        (Request { direction: Seen::Send, send_size: Some(0), ..ok.clone() }, errno::MESSAGE_SIZE),
        (
            Request { direction: Seen::Send, send_size: Some(1 << 30), ..ok.clone() },
            errno::MESSAGE_SIZE,
        ),
        (Request { receive_size: Some(0), ..ok.clone() }, errno::MESSAGE_SIZE),
        (Request { request: None, ..rr.clone() }, errno::MESSAGE_SIZE),
        (Request { response: Some(0), ..rr.clone() }, errno::MESSAGE_SIZE),
        (
            Request { response: Some(65_508), protocol: Protocol::Udp, ..rr.clone() },
            errno::MESSAGE_SIZE,
        ),
        (Request { flags: flag::CONNECT, ..udp.clone() }, errno::PROTOCOL),
        (Request { direction: Seen::Connect, ..udp }, errno::PROTOCOL),
    ] {
        assert_eq!(plan(&wrong, 3600).unwrap_err().number, number, "{wrong:?}");
    }
    let odd = Request {
        tos: Some(1000),
        priority: Some(1000),
        receive_buffer: Some(u32::MAX >> 1),
        ..ok
    };
    let connection = &plan(&odd, 3600).unwrap().connections[0];
    assert_eq!(connection.window, Some(ByteSize(MAX_WINDOW.into())));
    assert_eq!(connection.tos(), None);
}

#[test]
fn mutated_messages_are_read_or_refused() {
    let request = Request { congestion: Some("cubic".into()), ..example() };
    let rr =
        Request { direction: Seen::Exchange, request: Some(1), response: Some(9), ..example() };
    let results = Results { received_bytes: 1 << 40, seconds: 1.5, ..Results::default() };
    let corpus = [
        request.to_message().to_bytes(),
        rr.to_message().to_bytes(),
        results.to_message().to_bytes(),
        Response { data_port: 5000, ..Response::default() }.to_message().to_bytes(),
    ];
    weir_laws::mutation::replay(&corpus.each_ref().map(|bytes| &bytes[..]), 20_000, fuzz_netperf);
}
