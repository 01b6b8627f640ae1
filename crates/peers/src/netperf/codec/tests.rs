//! Messages as the program sends them, and any messages.

use proptest::prelude::*;

use super::*;

/// A message of these integers, with a text at a position of the content.
fn message(kind: i32, number: i32, ints: &[(usize, i32)], text: Option<(usize, &str)>) -> Message {
    let mut message = Message::new(kind, number);
    ints.iter().for_each(|(index, value)| message.set(*index, *value));
    if let Some((at, text)) = text {
        message.content[at..at + text.len()].copy_from_slice(text.as_bytes());
    }
    message
}

/// What netperf 2.7.1 sends for `-t TCP_STREAM -l -1000000 -- -s 64K -S 32K -M 2000 -D -K reno,cubic`.
fn stream_of_bytes() -> Message {
    let ints = [
        (0, 32_768),
        (1, -1),
        (2, 8),
        (4, 132),
        (5, -1),
        (6, 32_768),
        (7, 2000),
        (8, 8),
        (11, -1),
        (12, 33),
        (14, -1_000_000),
        (17, -1),
        (18, -1),
        (19, -1),
        (21, 4),
        (22, 1),
        (23, 6),
        (24, 4),
        (36, -1),
        (37, -1),
    ];
    message(97, -1, &ints, Some((152, "cubic")))
}

#[test]
fn a_request_of_the_program_is_understood() {
    let request = Request::parse(&stream_of_bytes()).unwrap();
    let expected = Request {
        send_buffer: Some(32_768),
        receive_buffer: Some(32_768),
        receive_size: Some(2000),
        flags: flag::NO_DELAY | flag::CONGESTION,
        length: Length::Units(1_000_000),
        congestion: Some("cubic".into()),
        ..example()
    };
    assert_eq!(request, expected);
    // Of a test of datagrams between IPv4 addresses.
    let datagrams = message(
        97,
        -1,
        &[(14, 1), (21, 4), (22, 2), (23, 17), (24, 2), (25, 38_536), (32, 0x7f00_0001)],
        None,
    );
    let request = Request::parse(&datagrams).unwrap();
    assert_eq!((request.protocol, request.direction), (Protocol::Udp, Direction::Send));
    assert_eq!((request.client_port, request.client_address), (38_536, None));
    assert_eq!(request.server_address, Some("127.0.0.1".parse().unwrap()));
}

#[test]
fn a_request_that_is_not_supported_is_refused_by_its_number() {
    let base = Request::parse(&stream_of_bytes()).unwrap().to_message();
    for (index, value, number) in [
        (21, 7, errno::FAMILY),
        (21, 0, errno::FAMILY),
        (22, 4, errno::PROTOCOL),
        (23, 132, errno::PROTOCOL),
        (23, 17, errno::PROTOCOL),
        (24, 8, errno::INVALID),
        (24, 1, errno::INVALID),
        (20, 65_536, errno::INVALID),
        (20, -1, errno::INVALID),
        (25, 70_000, errno::INVALID),
    ] {
        let mut message = base.clone();
        message.set(index, value);
        let refused = Request::parse(&message).unwrap_err();
        assert_eq!(refused.number, number, "integer {index}: {value}");
    }
}

#[test]
fn results_of_the_program_are_understood() {
    // A server that was not asked for processor time: the type is that of the response, swapped a second time, and integers
    // of the response are left where the figures of processors are.
    let ints = [
        (0, 1),
        (1, 1_814_839_296),
        (2, 70_101),
        (3, 1_745_706),
        (7, 3_939_840),
        (10, 1_065_368_047),
        (11, 1_771_438_080),
        (16, -1),
        (17, -1),
    ];
    let results = Results::parse(&message(0x6200_0000, 0, &ints, None));
    assert_eq!(results.received_bytes, (1 << 32) + 1_814_839_296);
    assert_eq!((results.receive_calls, results.receive_buffer), (70_101, Some(1_745_706)));
    assert_eq!((results.cpu, results.retransmits), (None, Some(0)));
    assert!((results.seconds - 1.001_768).abs() < 1e-4, "{}", results.seconds);
    // One that was.
    let ints = [(11, 1_120_403_456), (12, 1_111_883_776), (18, 8), (19, 2), (26, -1)];
    let results = Results::parse(&message(0x6200_0000, 0, &ints, None));
    let cpu = results.cpu.unwrap();
    assert_eq!((cpu.busy, cpu.user, cpu.processors), (100.0, 49.5, 2));
    assert_eq!(results.retransmits, None);
}

#[test]
fn an_address_of_ipv6_has_its_integers_in_the_order_of_the_client() {
    let request = Request {
        is_ipv6: true,
        server_address: Some("2001:db8::1".parse().unwrap()),
        ..example()
    };
    let bytes = request.to_message().to_bytes();
    assert_eq!(bytes[8 + 4 * 32..8 + 4 * 34], [0xb8, 0x0d, 0x01, 0x20, 0, 0, 0, 0]);
    assert_eq!(Request::parse(&Message::parse(&bytes)).unwrap(), request);
}

#[test]
fn figures_that_are_no_numbers_are_zero() {
    for bits in [f32::NAN.to_bits(), f32::INFINITY.to_bits(), (-1f32).to_bits()] {
        let results =
            Results::parse(&message(98, 0, &[(10, bits as i32), (18, 8), (11, bits as i32)], None));
        assert_eq!((results.seconds, results.cpu.unwrap().busy), (0.0, 0.0));
    }
}

fn size() -> impl Strategy<Value = Option<u32>> {
    proptest::option::of(0..=i32::MAX as u32)
}

fn name() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[a-z0-9_-]{1,15}")
}

proptest! {
    #[test]
    fn requests_are_read_as_they_were_written(
        sizes in proptest::array::uniform8(size()),
        flags: u32,
        length in prop_oneof![
            (0..=i32::MAX as u32).prop_map(Length::Seconds),
            (1..=1u32 << 31).prop_map(Length::Units),
        ],
        ports: [u16; 2],
        addresses: [u32; 2],
        is_udp: bool,
        direction in proptest::sample::select(vec![
            Direction::Send, Direction::Receive, Direction::Exchange, Direction::Connect,
        ]),
        congestion in name(),
    ) {
        let address = |bits: u32| (bits != 0).then(|| Ipv4Addr::from(bits).into());
        let request = Request {
            send_buffer: sizes[0],
            receive_buffer: sizes[1],
            send_size: sizes[2],
            receive_size: sizes[3],
            request: sizes[4],
            response: sizes[5],
            priority: sizes[6],
            tos: sizes[7],
            flags,
            length,
            data_port: ports[0],
            client_port: ports[1],
            server_address: address(addresses[0]),
            client_address: address(addresses[1]),
            is_ipv6: false,
            protocol: if is_udp { Protocol::Udp } else { Protocol::Tcp },
            direction,
            congestion,
        };
        let bytes = request.to_message().to_bytes();
        prop_assert_eq!(Request::parse(&Message::parse(&bytes)), Ok(request));
    }

    #[test]
    fn results_are_read_as_they_were_written(
        long: [u64; 2],
        counts: [u32; 4],
        sizes in proptest::array::uniform3(size()),
        figures in proptest::array::uniform8(0f32..1e9),
        is_measured: bool,
        congestion in name(),
    ) {
        let cpu = Cpu {
            busy: figures[0],
            user: figures[1],
            system: figures[2],
            iowait: figures[3],
            irq: figures[4],
            softirq: figures[5],
            processors: 4,
            peak_id: 3,
            peak: figures[6],
        };
        let results = Results {
            received_bytes: long[0],
            sent_bytes: long[1],
            receive_calls: counts[0],
            send_calls: counts[1],
            failed_sends: counts[2],
            transactions: counts[3],
            receive_buffer: sizes[0],
            send_buffer: sizes[1],
            retransmits: sizes[2],
            seconds: figures[7],
            cpu: is_measured.then_some(cpu),
            congestion,
        };
        prop_assert_eq!(Results::parse(&results.to_message()), results);
    }

    #[test]
    fn responses_are_read_as_they_were_written(
        buffers: [u16; 2],
        sizes in proptest::array::uniform4(size()),
        flags: u32,
        data_port: u16,
        cpu_rate in 0f32..1e6,
    ) {
        let response = Response {
            receive_buffer: buffers[0].into(),
            send_buffer: buffers[1].into(),
            receive_size: sizes[0],
            send_size: sizes[1],
            priority: sizes[2],
            tos: sizes[3],
            flags,
            cpu_rate,
            data_port,
        };
        prop_assert_eq!(Response::parse(&response.to_message()), Some(response));
    }
}

#[test]
fn a_passphrase_is_a_text_up_to_a_nul() {
    let sent = Message::parse(&Message::passphrase("open sesame").to_bytes());
    assert!(sent.has_passphrase("open sesame"));
    for other in ["open", "open sesame!", "", "Open sesame"] {
        assert!(!sent.has_passphrase(other), "{other}");
    }
    // As the program sends it: what follows the NUL is left from before.
    let theirs = message(kind::PASSPHRASE, -1, &[(5, 7)], Some((0, "open sesame")));
    assert!(theirs.has_passphrase("open sesame"));
    assert!(!message(kind::OMNI, -1, &[], Some((0, "open sesame"))).has_passphrase("open sesame"));
    let longest = "x".repeat(1000);
    assert!(Message::passphrase(&longest).has_passphrase(&longest));
}
