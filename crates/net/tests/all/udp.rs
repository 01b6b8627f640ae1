//! UDP over loopback: sent datagrams arrive, with what the kernel reports about them.
#![cfg(target_os = "linux")]

use std::net::SocketAddr;

use weir_net::clock::Clock;
use weir_net::poll::{Events, Interest, Poller};
use weir_net::udp::*;

const FAMILIES: [&str; 2] = ["127.0.0.1:0", "[::1]:0"];

fn local(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn receiver(address: &str) -> UdpSocket {
    UdpSocket::open(&UdpOptions {
        receive_buffer: Some(4 << 20),
        ..UdpOptions::bind(local(address))
    })
    .unwrap()
}

/// Receives until `count` datagrams have arrived (waiting forever would be a failure the harness sees).
fn collect(socket: &UdpSocket, batch: &mut RecvBatch, count: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.len() < count {
        batch.recv(socket, RecvMode::WaitForOne).unwrap();
        all.extend(batch.messages().flat_map(|m| m.datagrams()).map(<[u8]>::to_vec));
    }
    all
}

#[test]
fn batch_arrives_in_order_with_its_sender() {
    for family in FAMILIES {
        let sink = receiver(family);
        let source = UdpSocket::open(&UdpOptions::connect(sink.local_addr().unwrap())).unwrap();
        let payloads: Vec<Vec<u8>> = (0..40_u8).map(|i| vec![i; usize::from(i) * 30]).collect();
        let mut out = SendBatch::new(40);
        // Twice, so that a batch is used again.
        for _ in 0..2 {
            let mut filling = out.fill();
            for payload in &payloads {
                filling.push(payload, None, None).unwrap();
            }
            assert!(filling.is_full());
            assert_eq!(
                filling.push(b"", None, None).unwrap_err().kind(),
                std::io::ErrorKind::StorageFull
            );
            while filling.remaining() > 0 {
                assert!(filling.send(&source, SendMode::DontWait).unwrap().messages > 0);
            }
            assert_eq!(filling.send(&source, SendMode::DontWait).unwrap().messages, 0);
            let mut batch = RecvBatch::new(16, 2000);
            let mut got = Vec::new();
            while got.len() < payloads.len() {
                let n = batch.recv(&sink, RecvMode::WaitForOne).unwrap();
                assert_eq!(batch.messages().len(), n);
                for message in batch.messages() {
                    assert_eq!(message.from, source.local_addr().unwrap());
                    assert!(!message.truncated);
                    assert_eq!((message.segment_size, message.kernel_realtime_ns), (None, None));
                    got.push(message.data.to_vec());
                }
            }
            assert_eq!(got, payloads);
        }
    }
}

#[test]
fn unconnected_messages_go_to_their_own_addresses() {
    for family in FAMILIES {
        let sinks = [receiver(family), receiver(family)];
        let source = UdpSocket::open(&UdpOptions::bind(local(family))).unwrap();
        let mut out = SendBatch::new(4);
        let mut filling = out.fill();
        for (i, text) in [(1, "b1"), (0, "a1"), (1, "b2"), (0, "a2")] {
            filling.push(text.as_bytes(), None, Some(sinks[i].local_addr().unwrap())).unwrap();
        }
        assert_eq!(filling.send(&source, SendMode::DontWait).unwrap().messages, 4);
        let mut batch = RecvBatch::new(4, 10);
        assert_eq!(collect(&sinks[0], &mut batch, 2), [b"a1", b"a2"]);
        assert_eq!(collect(&sinks[1], &mut batch, 2), [b"b1", b"b2"]);
    }
}

#[test]
fn segments_leave_apart_and_coalesced_ones_are_split_again() {
    for family in FAMILIES {
        for gro in [false, true] {
            let sink = receiver(family);
            sink.set_gro(gro).unwrap();
            let source = UdpSocket::open(&UdpOptions::connect(sink.local_addr().unwrap())).unwrap();
            assert!(source.segmentation_available());
            let bytes: Vec<u8> = (0..1000_u32).map(|i| i as u8).collect();
            let mut out = SendBatch::new(2);
            let mut filling = out.fill();
            filling.push(&bytes, Some(300), None).unwrap();
            // Fits one segment: goes as it is.
            filling.push(&bytes[..300], Some(300), None).unwrap();
            assert_eq!(filling.send(&source, SendMode::DontWait).unwrap().messages, 2);
            let mut batch = RecvBatch::new(8, 65_535);
            let mut expected: Vec<Vec<u8>> = bytes.chunks(300).map(<[u8]>::to_vec).collect();
            expected.push(bytes[..300].to_vec());
            assert_eq!(collect(&sink, &mut batch, 5), expected);
            let coalesced = batch.messages().any(|m| m.segment_size == Some(300));
            assert_eq!(coalesced, gro, "{family}");
        }
    }
}

#[test]
fn the_maximum_number_of_segments_is_found_and_accepted() {
    let n = usize::from(gso_max_segments());
    assert!(n == 64 || n == 128, "{n}");
    let sink = receiver("127.0.0.1:0");
    let source = UdpSocket::open(&UdpOptions::connect(sink.local_addr().unwrap())).unwrap();
    assert_eq!(source.send_segmented(&vec![1; n], Some(1), None).unwrap(), n);
    let error = source.send_segmented(&vec![1; n + 1], Some(1), None).unwrap_err();
    assert_eq!(SendFault::of(&error), SendFault::Invalid);
    assert_eq!(collect(&sink, &mut RecvBatch::new(64, 2048), n).len(), n);
}

#[test]
fn largest_payloads_pass_and_larger_ones_are_too_long() {
    for (family, most) in FAMILIES.into_iter().zip([MAX_PAYLOAD_IPV4, MAX_PAYLOAD_IPV6]) {
        let sink = receiver(family);
        let to = sink.local_addr().unwrap();
        let source = UdpSocket::open(&UdpOptions {
            send_buffer: Some(1 << 20),
            dont_fragment: Some(false),
            ..UdpOptions::bind(local(family))
        })
        .unwrap();
        let bytes = vec![7; most + 1];
        assert_eq!(source.send_to(&bytes[..most], to).unwrap(), most);
        let error = source.send_to(&bytes, to).unwrap_err();
        assert_eq!(SendFault::of(&error), SendFault::MessageTooLong);
        source.send_to(b"", to).unwrap();
        let mut batch = RecvBatch::new(2, 65_535);
        let got = collect(&sink, &mut batch, 2);
        assert_eq!((got[0].len(), got[1].len()), (most, 0));
        // With a smaller buffer, the rest is lost and reported so.
        source.send_to(&bytes[..100], to).unwrap();
        let mut small = RecvBatch::new(1, 10);
        small.recv(&sink, RecvMode::WaitForOne).unwrap();
        let message = small.messages().next().unwrap();
        assert!(message.truncated);
        assert_eq!(message.data, [7; 10]);
    }
}

#[test]
fn kernel_stamps_tos_and_ttl_are_reported() {
    for family in FAMILIES {
        let options = UdpOptions {
            timestamps: true,
            receive_tos_ttl: true,
            ..UdpOptions::bind(local(family))
        };
        let sink = UdpSocket::open(&options).unwrap();
        let to = sink.local_addr().unwrap();
        let options = UdpOptions { tos: Some(0xb8), ttl: Some(9), ..UdpOptions::connect(to) };
        let source = UdpSocket::open(&options).unwrap();
        let mut batch = RecvBatch::new(1, 100);
        // The kernel switches stamping on by a work item some time after the request: the first packets have no
        // stamps.
        let mut stamp = None;
        let give_up = Clock::System.monotonic_ns() + 20_000_000_000;
        while Clock::System.monotonic_ns() < give_up {
            let before = Clock::System.realtime_ns();
            source.send(b"x").unwrap();
            batch.recv(&sink, RecvMode::WaitForOne).unwrap();
            let after = Clock::System.realtime_ns();
            let message = batch.messages().next().unwrap();
            assert_eq!((message.tos, message.ttl), (Some(0xb8), Some(9)));
            if let Some(ns) = message.kernel_realtime_ns {
                assert!(before <= ns && ns <= after, "{before} {ns} {after}");
                stamp = Some(ns);
                break;
            }
        }
        assert!(stamp.is_some(), "no kernel stamp in 20 s");
    }
}

#[test]
fn overflow_is_counted_exactly() {
    let options = UdpOptions {
        rxq_overflow: true,
        receive_buffer: Some(4096),
        ..UdpOptions::bind(local("127.0.0.1:0"))
    };
    let sink = UdpSocket::open(&options).unwrap();
    let source = UdpSocket::open(&UdpOptions::connect(sink.local_addr().unwrap())).unwrap();
    for _ in 0..100 {
        source.send(&[0; 500]).unwrap();
    }
    let memory = sink.socket_memory().unwrap();
    assert!(memory.drops > 0);
    assert_eq!(memory.receive_buffer_bytes as usize, sink.receive_buffer().unwrap());
    let mut batch = RecvBatch::new(100, 500);
    let before = batch.recv(&sink, RecvMode::DontWait).unwrap();
    assert_eq!(before + memory.drops as usize, 100);
    // The count comes with a message received after the drops.
    source.send(&[0; 500]).unwrap();
    batch.recv(&sink, RecvMode::WaitForOne).unwrap();
    assert_eq!(batch.messages().last().unwrap().overflow_total, Some(memory.drops));
}

#[test]
fn buffers_are_as_requested_or_reported() {
    let options = UdpOptions {
        receive_buffer: Some(300_000),
        send_buffer: Some(200_000),
        ..UdpOptions::bind(local("127.0.0.1:0"))
    };
    let socket = UdpSocket::open(&options).unwrap();
    let limit = |name: &str| -> usize {
        std::fs::read_to_string(format!("/proc/sys/net/core/{name}"))
            .ok()
            .and_then(|t| t.trim().parse().ok())
            .unwrap_or(0)
    };
    // Twice the figure, or twice the limit for a process that may not pass it.
    for (got, asked, limit) in [
        (socket.receive_buffer().unwrap(), 300_000, limit("rmem_max")),
        (socket.send_buffer().unwrap(), 200_000, limit("wmem_max")),
    ] {
        assert!(got == 2 * asked || (asked > limit && got == 2 * limit), "{got} {asked} {limit}");
    }
}

#[test]
fn refusal_is_an_error_and_in_the_queue() {
    for family in FAMILIES {
        // Closed to all but one, and kept from other tests.
        let held = receiver(family);
        let closed = held.local_addr().unwrap();
        held.connect(SocketAddr::new(closed.ip(), 1)).unwrap();
        let options =
            UdpOptions { receive_errors: true, nonblocking: true, ..UdpOptions::connect(closed) };
        let source = UdpSocket::open(&options).unwrap();
        assert_eq!(source.read_error_queue().unwrap(), None);
        source.send(b"anyone?").unwrap();
        let poller = Poller::new().unwrap();
        poller.add(&source, 1, Interest::READ).unwrap();
        let mut events = Events::new(1);
        assert_eq!(poller.wait(&mut events, Some(5_000_000_000)).unwrap(), 1);
        assert!(events.iter().next().unwrap().error);
        let queued = source.read_error_queue().unwrap().unwrap();
        assert_eq!(queued.to_io_error().kind(), std::io::ErrorKind::ConnectionRefused);
        let origin = if closed.is_ipv4() { ErrorOrigin::Icmp } else { ErrorOrigin::Icmp6 };
        assert_eq!(queued.origin, origin);
        assert_eq!(queued.offender, Some(closed.ip()));

        // Without the queue: the pending error, once, from whichever call comes first.
        let source = UdpSocket::open(&UdpOptions::connect(closed)).unwrap();
        source.send(b"anyone?").unwrap();
        let mut batch = RecvBatch::new(1, 10);
        let error = batch.recv(&source, RecvMode::WaitForOne).unwrap_err();
        assert_eq!(SendFault::of(&error), SendFault::Refused);
        assert_eq!(batch.messages().len(), 0);
        source.send(b"anyone?").unwrap();
        assert_eq!(
            source.take_error().unwrap().unwrap().kind(),
            std::io::ErrorKind::ConnectionRefused
        );
        assert!(source.take_error().unwrap().is_none());
    }
}

#[test]
fn an_empty_socket_would_block() {
    let socket =
        UdpSocket::open(&UdpOptions { nonblocking: true, ..UdpOptions::bind(local("[::1]:0")) })
            .unwrap();
    let mut batch = RecvBatch::new(2, 10);
    for mode in [RecvMode::DontWait, RecvMode::WaitForOne] {
        let error = batch.recv(&socket, mode).unwrap_err();
        assert_eq!(SendFault::of(&error), SendFault::WouldBlock);
    }
}

#[test]
fn refused_settings_are_named() {
    let mixed = UdpOptions { bind: local("127.0.0.1:0"), ..UdpOptions::connect(local("[::1]:9")) };
    let error = UdpSocket::open(&mixed).unwrap_err();
    assert!(matches!(error, weir_net::Error::Refused { .. }), "{error:?}");
    let object = error.object().unwrap();
    assert!(object.contains("[::1]:9") && object.contains("127.0.0.1:0"), "{object}");
    let taken = receiver("127.0.0.1:0");
    let error = UdpSocket::open(&UdpOptions::bind(taken.local_addr().unwrap())).unwrap_err();
    assert_eq!(error.object(), Some(taken.local_addr().unwrap().to_string().as_str()), "{error}");
    let device =
        UdpOptions { device: Some("wnet-none".into()), ..UdpOptions::bind(local("127.0.0.1:0")) };
    let error = UdpSocket::open(&device).unwrap_err();
    assert_eq!(error.object(), Some("wnet-none"), "{error}");
}

#[test]
fn reuse_port_shares_and_connecting_demultiplexes() {
    let shared = UdpOptions { reuse_port: true, ..UdpOptions::bind(local("127.0.0.1:0")) };
    let first = UdpSocket::open(&shared).unwrap();
    let at = first.local_addr().unwrap();
    let second = UdpSocket::open(&UdpOptions { bind: at, ..shared }).unwrap();
    let source = UdpSocket::open(&UdpOptions::connect(at)).unwrap();
    second.connect(source.local_addr().unwrap()).unwrap();
    assert_eq!(second.peer_addr().unwrap(), source.local_addr().unwrap());
    source.send(b"to the connected one").unwrap();
    let mut buffer = [0; 64];
    let (n, from) = second.recv_from(&mut buffer).unwrap();
    assert_eq!((n, from), (20, source.local_addr().unwrap()));
    assert!(second.path_mtu().unwrap() >= 1280);
}

#[test]
fn flow_label_is_sent() {
    let sink = receiver("[::1]:0");
    let options =
        UdpOptions { flow_label: Some(0x12345), ..UdpOptions::connect(sink.local_addr().unwrap()) };
    let source = UdpSocket::open(&options).unwrap();
    source.send(b"labelled").unwrap();
    let mut batch = RecvBatch::new(1, 64);
    batch.recv(&sink, RecvMode::WaitForOne).unwrap();
    // getpeername returns the label that the socket sends.
    let SocketAddr::V6(peer) = source.peer_addr().unwrap() else { panic!("family") };
    assert_eq!(u32::from_be(peer.flowinfo()), 0x12345);
}
