//! Frames between two packet sockets on the loopback interface, and frames that the kernel must not hand over.

use weir_net::ethernet::{
    EthernetOptions, EthernetSocket, FLOW_BYTES, FrameMatch, HEADER_BYTES, try_ethernet,
};
use weir_net::interface::{interface, neighbour_mac};
use weir_net::udp::{RecvBatch, SendBatch, UdpOptions, UdpSocket};

const ETHERTYPE: u16 = 0x88b5;

/// The first bytes of frames on loopback, whose addresses are zero, with these last eight bytes.
fn flow(name: &[u8; 6]) -> [u8; FLOW_BYTES] {
    let mut bytes = [0; FLOW_BYTES];
    bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    bytes[14..].copy_from_slice(name);
    bytes
}

fn socket(receive: FrameMatch, send: Option<[u8; FLOW_BYTES]>) -> EthernetSocket {
    let loopback = interface("lo").unwrap();
    EthernetSocket::open(&EthernetOptions {
        interface: loopback.index,
        name: loopback.name,
        ethertype: ETHERTYPE,
        receive,
        send,
        send_buffer: None,
        receive_buffer: Some(1 << 20),
        priority: Some(3),
        timestamps: true,
    })
    .unwrap()
}

fn is_skipped(test: &str) -> bool {
    let Err(error) = try_ethernet() else { return false };
    println!("SKIPPED {test}: no packet sockets ({error})");
    true
}

/// Receives until `count` messages have arrived, or none is left.
fn received(socket: &EthernetSocket, batch: &mut RecvBatch, count: usize) -> Vec<Vec<u8>> {
    let mut got = vec![];
    while got.len() < count {
        match batch.recv_frames(socket) {
            Ok(_) => got.extend(batch.messages().map(|m| m.data.to_vec())),
            // Loopback delivers a frame before the call that sent it returns, or soon after.
            Err(_) => std::thread::yield_now(),
        }
    }
    got
}

#[test]
fn payloads_of_all_sizes_arrive_whole_and_in_order() {
    if is_skipped("payloads_of_all_sizes_arrive_whole_and_in_order") {
        return;
    }
    let (there, back) = (flow(b"there!"), flow(b"back!!"));
    let near = socket(FrameMatch::exactly(back), Some(there));
    let far = socket(FrameMatch::exactly(there), Some(back));
    let payloads: Vec<Vec<u8>> = [0, 1, 45, 46, 1492, 9000, 65_000, 2]
        .iter()
        .map(|size| (0..*size).map(|i: u32| i as u8).collect())
        .collect();
    let mut out = SendBatch::new(16);
    let mut batch = RecvBatch::new(16, 65_536);
    for (from, to) in [(&near, &far), (&far, &near)] {
        let mut filling = out.fill();
        for payload in &payloads {
            filling.push(payload, None, None).unwrap();
        }
        while filling.remaining() > 0 {
            filling.send_frames(from).unwrap();
        }
        assert_eq!(received(to, &mut batch, payloads.len()), payloads);
        assert!(batch.messages().all(|m| !m.truncated && m.segment_size.is_none()));
        // Own frames are not received.
        assert!(batch.recv_frames(from).is_err());
    }
    // The same batches serve sockets of UDP afterwards.
    let sink = UdpSocket::open(&UdpOptions::bind("127.0.0.1:0".parse().unwrap())).unwrap();
    let source = UdpSocket::open(&UdpOptions::connect(sink.local_addr().unwrap())).unwrap();
    let mut filling = out.fill();
    filling.push(b"udp", None, None).unwrap();
    filling.send(&source, weir_net::udp::SendMode::AsSocket).unwrap();
    batch.recv(&sink, weir_net::udp::RecvMode::WaitForOne).unwrap();
    assert_eq!(batch.messages().map(|m| m.data.to_vec()).collect::<Vec<_>>(), [b"udp"]);
}

#[test]
fn a_payload_beyond_the_room_is_truncated_and_marked() {
    if is_skipped("a_payload_beyond_the_room_is_truncated_and_marked") {
        return;
    }
    let name = flow(b"room??");
    let (near, far) = (
        socket(FrameMatch::exactly(flow(b"none??")), Some(name)),
        socket(FrameMatch::exactly(name), None),
    );
    assert_eq!(near.send(&[7; 100]).unwrap(), 100);
    assert_eq!(near.send(&[8; 50]).unwrap(), 50);
    let mut batch = RecvBatch::new(1, 50);
    assert_eq!(received(&far, &mut batch, 1), [vec![7; 50]]);
    assert!(batch.messages().all(|m| m.truncated));
    assert_eq!(received(&far, &mut batch, 1), [vec![8; 50]]);
    assert!(batch.messages().all(|m| !m.truncated));
    assert_eq!(far.send(&[1]).unwrap_err().kind(), std::io::ErrorKind::NotConnected);
}

#[test]
fn the_kernel_drops_frames_of_other_flows_and_those_with_a_wrong_length() {
    if is_skipped("the_kernel_drops_frames_of_other_flows_and_those_with_a_wrong_length") {
        return;
    }
    let (name, other) = (flow(b"filter"), flow(b"filtes"));
    let far = socket(FrameMatch::exactly(name), None);
    let foreign = socket(FrameMatch::exactly(flow(b"none!!")), Some(other));
    foreign.send(b"another flow").unwrap();
    // A socket whose header's end is the start of the payload's length can state any length.
    let forge = |stated: u16, bytes: usize| {
        let mut frame = vec![0; HEADER_BYTES + bytes];
        frame[..FLOW_BYTES].copy_from_slice(&name);
        frame[FLOW_BYTES..HEADER_BYTES].copy_from_slice(&stated.to_be_bytes());
        raw_send(&foreign, &frame);
    };
    forge(11, 10);
    forge(u16::MAX, 0);
    forge(10, 40);
    let mut batch = RecvBatch::new(4, 100);
    assert_eq!(received(&far, &mut batch, 1), [vec![0; 10]], "of the padded frame its payload");
    assert!(batch.recv_frames(&far).is_err());
    assert_eq!(far.socket_memory().unwrap().drops, 0, "what a filter drops is not an overflow");
}

/// Sends bytes as a frame, as they are.
fn raw_send(socket: &EthernetSocket, frame: &[u8]) {
    let raw: std::net::UdpSocket =
        std::os::fd::AsFd::as_fd(socket).try_clone_to_owned().unwrap().into();
    assert_eq!(raw.send(frame).unwrap(), frame.len());
}

#[test]
fn a_peer_is_set_when_its_port_is_known() {
    if is_skipped("a_peer_is_set_when_its_port_is_known") {
        return;
    }
    let (there, back) = (flow(b"peer01"), flow(b"peer10"));
    let mut mask = [0xff; FLOW_BYTES];
    mask[18..].fill(0);
    let mut far = socket(FrameMatch { bytes: there, mask }, None);
    let near = socket(FrameMatch::exactly(back), Some(there));
    let third = socket(FrameMatch::exactly(flow(b"none..")), Some(flow(b"peer99")));
    near.send(b"hello").unwrap();
    third.send(b"stray").unwrap();
    let mut buffer = [0; 64];
    let got = std::iter::repeat_with(|| far.recv_frame(&mut buffer)).find_map(Result::ok);
    assert_eq!(got, Some(HEADER_BYTES + 5));
    assert_eq!(&buffer[..FLOW_BYTES], there);
    far.set_peer(there, back).unwrap();
    third.send(b"stray").unwrap();
    near.send(b"data").unwrap();
    let mut batch = RecvBatch::new(4, 100);
    assert_eq!(received(&far, &mut batch, 1), [b"data"]);
    far.send(b"answer").unwrap();
    assert_eq!(received(&near, &mut batch, 1), [b"answer"]);
}

#[test]
fn frames_beyond_the_receive_buffer_are_counted() {
    if is_skipped("frames_beyond_the_receive_buffer_are_counted") {
        return;
    }
    let name = flow(b"full!!");
    let loopback = interface("lo").unwrap();
    let far = EthernetSocket::open(&EthernetOptions {
        interface: loopback.index,
        name: loopback.name,
        ethertype: ETHERTYPE,
        receive: FrameMatch::exactly(name),
        send: None,
        send_buffer: None,
        receive_buffer: Some(8192),
        priority: None,
        timestamps: false,
    })
    .unwrap();
    let near = socket(FrameMatch::exactly(flow(b"none--")), Some(name));
    for _ in 0..100 {
        near.send(&[1; 1000]).unwrap();
    }
    let mut batch = RecvBatch::new(100, 1000);
    let mut got = 0;
    // Until all are accounted for: loopback may deliver the last ones a little later.
    while got + far.socket_memory().unwrap().drops < 100 {
        got += batch.recv_frames(&far).unwrap_or(0) as u32;
    }
    assert!(got > 0 && got < 100, "{got}");
}

#[test]
fn an_address_without_a_neighbour_has_no_mac() {
    let loopback = interface("lo").unwrap().index;
    assert_eq!(neighbour_mac(loopback, "192.0.2.77".parse().unwrap()).unwrap(), None);
    assert_eq!(neighbour_mac(loopback, "2001:db8::77".parse().unwrap()).unwrap(), None);
}
