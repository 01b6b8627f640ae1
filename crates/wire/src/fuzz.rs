//! Fuzz bodies, one per parser of outside bytes: functions that take any bytes and check invariants. A
//! fuzzer calls them, and so does the replay of seeded mutations in this crate's tests.

use crate::bpf::{Instruction, Program};
use crate::control::{self, ClientMessage, ClockState, ServerMessage};
use crate::datagram::{ControlDatagram, DatagramKey, looks_like_control};
use crate::echo::Echo;
use crate::ethernet::EthernetFrame;
use crate::frame::{FrameDecoder, encode_frame};
use crate::header::{Header, HeaderFields, SendTime, TagKey};
use crate::packet::{Ethernet, Icmp, Ipv4, Ipv6, Network, Packet, Tcp, Transport, Udp, UdpLite};
use crate::packets::{PacketLogReader, PacketLogWriter, PacketsError};
use crate::preface::{self, Preface};
use crate::transfer::TransferRequest;
use weir_model::plan::HeaderFormat;

/// The key of the corpora.
const KEY: [u8; 16] = *b"weir fuzz corpus";

/// A number of instructions, then these in eight bytes each, then a frame: they are refused, or run to an end on any frame.
pub fn fuzz_bpf(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else { return };
    let (instructions, frame) = rest.split_at(rest.len().min(usize::from(count) * 8));
    let instruction = |bytes: &[u8; 8]| {
        let [c0, c1, jt, jf, k @ ..] = *bytes;
        Instruction { code: u16::from_le_bytes([c0, c1]), jt, jf, k: u32::from_le_bytes(k) }
    };
    let instructions: Vec<_> = instructions.as_chunks().0.iter().map(instruction).collect();
    if let Ok(program) = Program::new(&instructions) {
        let returned = program.run(frame);
        // The first instruction decides alone if it is a return.
        if instructions[0].code == 6 {
            assert_eq!(returned, instructions[0].k);
        }
        assert_eq!(program.run(&[]), program.clone().run(&[]));
    }
}

/// Data headers of every format: decoding, encoding and decoding again has the same result; with a tag the
/// bytes are the same too.
pub fn fuzz_data_header(data: &[u8]) {
    let Some((&selector, payload)) = data.split_first() else { return };
    let key = TagKey::for_flow(&KEY, 1);
    let formats = HeaderFormat::ALL;
    let format = formats[usize::from(selector) % formats.len()];
    // A flow of the arrived size, and one of another size.
    for agreed in [payload.len(), usize::from(selector) / formats.len()] {
        let header = Header::new(format, agreed);
        let Ok(got) = header.decode(&key, payload) else { continue };
        let fields = HeaderFields {
            sequence: got.sequence,
            send_time_ns: match got.send_time {
                Some(SendTime::Full(time) | SendTime::OfDay(time)) => time,
                Some(SendTime::Low32(time)) => time.into(),
                None => 0,
            },
            lateness_ns: got.lateness_ns.unwrap_or(0),
            flow: got.flow.unwrap_or(0),
            flags: got.flags.unwrap_or(0),
        };
        let mut again = payload.to_vec();
        header.encode(&key, &fields, &mut again);
        assert_eq!(header.decode(&key, &again), Ok(got));
        let carries = header.carries();
        let tagged = carries.untagged_bytes..;
        assert!(!carries.tag || again[tagged.clone()] == payload[tagged]);
    }
}

/// Control datagrams: decoding and encoding has the same bytes, except for the reserved ones.
pub fn fuzz_datagram(data: &[u8]) {
    let key = DatagramKey::for_session(&KEY);
    if let Ok(got) = ControlDatagram::decode(data, &key) {
        assert!(looks_like_control(data));
        let again = got.encode(&key);
        assert_eq!(again[12..56], data[12..56]);
        assert_eq!(ControlDatagram::decode(&again, &key), Ok(got));
    }
    let _ = crate::datagram::claimed_session(data);
}

/// Echo replies and quoted requests: what is accepted was made with the key, and has number and tag.
pub fn fuzz_echo(data: &[u8]) {
    for (is_v6, has_ip_header) in [(false, false), (false, true), (true, false)] {
        let echo = Echo::new(is_v6, 0x5757, has_ip_header, &KEY);
        let _ = echo.quoted_sequence(data);
        let Ok(payload) = echo.decode(data) else { continue };
        let mut again = vec![];
        echo.encode(payload, &mut again);
        assert_eq!(again[8..], *payload);
    }
}

/// Frames of a flow without IP: what is accepted is encoded to the same bytes, without the padding.
pub fn fuzz_ethernet(data: &[u8]) {
    if let Ok(frame) = EthernetFrame::decode(data) {
        let again = frame.encode();
        assert_eq!(again[..], data[..again.len()]);
        assert_eq!(EthernetFrame::decode(&again), Ok(frame));
    }
}

/// Requests of transfers: what is accepted has the same bytes again.
pub fn fuzz_transfer(data: &[u8]) {
    let Some(bytes) = data.first_chunk() else { return };
    if let Some(request) = TransferRequest::decode(bytes) {
        assert_eq!(request.encode(), *bytes);
    }
}

/// Control messages from either side: decoding, encoding and decoding again has the same result, and the
/// arithmetic on a peer's clocks never overflows.
pub fn fuzz_control(data: &[u8]) {
    if let Ok(message) = control::decode::<ClientMessage>(data) {
        let again = control::encode(&message);
        assert_eq!(control::decode::<ClientMessage>(&again).ok().as_ref(), Some(&message));
        match message {
            ClientMessage::Clock(state) => evaluate_clock(&state),
            ClientMessage::Hello(hello) => {
                let own = hello.protocol_min <= hello.protocol_max;
                assert_eq!(hello.common_protocol(&hello).is_some(), own);
            }
            ClientMessage::Open(open) => drop(open.plan.check()),
            _ => {}
        }
    }
    if let Ok(message) = control::decode::<ServerMessage>(data) {
        let again = control::encode(&message);
        assert_eq!(control::decode::<ServerMessage>(&again).ok().as_ref(), Some(&message));
    }
}

fn evaluate_clock(state: &ClockState) {
    for at in [0, 1, state.reference_ns, u64::MAX] {
        let _ = (state.offset_at_client(at), state.offset_at_server(at));
    }
}

/// Frames: the result does not depend on the pieces in which a stream arrives.
pub fn fuzz_frame(data: &[u8]) {
    let Some((&piece, stream)) = data.split_first() else { return };
    let cut = |piece: usize| {
        let mut decoder = FrameDecoder::new(256);
        let mut frames = Vec::new();
        for part in stream.chunks(piece) {
            decoder.push(part);
            loop {
                match decoder.next() {
                    Ok(Some(frame)) => frames.push(frame),
                    Ok(None) => break,
                    Err(_) => return (frames, true, 0),
                }
            }
        }
        (frames, false, decoder.pending())
    };
    let whole = cut(stream.len().max(1));
    assert_eq!(cut(usize::from(piece).max(1)), whole);
    let mut again: Vec<u8> = Vec::new();
    for frame in &whole.0 {
        // Frames here have at most 256 bytes, which fit the prefix, so that their encoding is that of the
        // stream.
        again.extend(encode_frame(frame).unwrap_or_default());
    }
    assert_eq!(again, stream[..again.len()]);
    assert!(whole.1 || again.len() + whole.2 == stream.len());
}

/// Prefaces: the result does not change as bytes are added, and is reached as early as possible.
pub fn fuzz_preface(data: &[u8]) {
    let mut first = None;
    for len in 0..=data.len().min(preface::DATA_LEN + 8) {
        let now = Preface::decode(&data[..len]);
        match first {
            None if now == Preface::NeedMore => assert!(len < preface::DATA_LEN),
            None => first = Some(now),
            Some(before) => assert_eq!(now, before),
        }
    }
    match Preface::decode(data) {
        Preface::Data(got) => assert_eq!(got.encode(), data[..preface::DATA_LEN]),
        Preface::Control { mode } => {
            assert_eq!(preface::encode_control(mode), data[..preface::CONTROL_LEN]);
        }
        Preface::NeedMore | Preface::OtherVersion(_) | Preface::Foreign => {}
    }
}

/// Packet logs: records that were read are the same after writing and reading again, and are no more than
/// fit the input.
pub fn fuzz_packets(data: &[u8]) {
    let Ok(mut reader) = PacketLogReader::new(data) else { return };
    let metadata = reader.metadata().to_owned();
    assert!(metadata.len() <= data.len());
    let mut writer = PacketLogWriter::new(Vec::new(), &metadata).ok();
    let mut records = Vec::new();
    loop {
        match reader.read() {
            Ok(Some(record)) => records.push(record),
            Ok(None) => break,
            Err(PacketsError::TruncatedRecord { records: before }) => {
                assert_eq!(before, records.len() as u64);
                assert!(matches!(reader.read(), Ok(None)));
                break;
            }
            Err(other) => panic!("a slice cannot fail: {other}"),
        }
    }
    assert!(records.len() * crate::packets::RECORD_LEN <= data.len());
    let Some(mut writer) = writer.take() else { return };
    for record in &records {
        assert!(writer.write(record).is_ok());
    }
    let Ok(again) = writer.finish() else { return };
    let reread: Vec<_> = PacketLogReader::new(&again[..]).into_iter().flatten().flatten().collect();
    assert_eq!(reread, records);
}

/// Packet views: calls every accessor of every view, and checks that lengths stay within the input.
pub fn fuzz_packet(data: &[u8]) {
    if let Ok(packet) = Packet::from_ethernet(data) {
        call_all_accessors(&packet, data);
    }
    if let Ok(packet) = Packet::from_ip(data) {
        call_all_accessors(&packet, data);
    }
    // The views on their own, without the checks of the headers before them.
    let alone = [
        Tcp::new(data).map(Transport::Tcp),
        Udp::new(data).map(Transport::Udp),
        Udp::first_fragment(data).map(Transport::Udp),
        UdpLite::new(data).map(Transport::UdpLite),
        UdpLite::first_fragment(data).map(Transport::UdpLite),
        Icmp::new(data).map(Transport::Icmp),
    ];
    for transport in alone.into_iter().flatten() {
        let network = Network::Other(0, &[]);
        call_all_accessors(&Packet { ethernet: None, network, transport }, data);
    }
}

/// Remapped frames: correct checksums stay correct, and no frame becomes invalid.
pub fn fuzz_remap(data: &[u8]) {
    crate::remap::fuzz(data);
}

/// ICMP messages about packets that are too long.
pub fn fuzz_too_big(data: &[u8]) {
    crate::too_big::fuzz(data);
}

/// Entries of D-ITG's packet log.
pub fn fuzz_ditg_log(data: &[u8]) {
    crate::ditg_log::fuzz(data);
}

/// Fragments of packets that are too long.
pub fn fuzz_fragment(data: &[u8]) {
    crate::fragment::fuzz(data);
}

fn call_all_accessors(packet: &Packet<'_>, data: &[u8]) {
    let within = |part: &[u8]| assert!(data.as_ptr_range().end >= part.as_ptr_range().end);
    if let Some(view) = &packet.ethernet {
        let view: &Ethernet<'_> = view;
        let _ = (view.source(), view.destination(), view.ethertype());
        assert_eq!(view.header_len(), 14 + 4 * view.vlan_tags().count());
        assert_eq!(view.payload().len() + view.header_len(), data.len());
    }
    match &packet.network {
        Network::Ipv4(ip) => {
            let ip: &Ipv4<'_> = ip;
            let _ = (ip.source(), ip.destination(), ip.dscp(), ip.ecn(), ip.ttl(), ip.id());
            let _ = (ip.dont_fragment(), ip.fragment(), ip.header_checksum_ok());
            assert!(ip.options().len() <= 40);
            assert_eq!(ip.header_len() + ip.payload().len(), ip.bytes().len());
            within(ip.bytes());
        }
        Network::Ipv6(ip) => {
            let ip: &Ipv6<'_> = ip;
            let _ = (ip.source(), ip.destination(), ip.dscp(), ip.ecn(), ip.hop_limit());
            assert!(ip.flow_label() < 1 << 20);
            assert_eq!(ip.header_len() + ip.payload().len(), ip.bytes().len());
            within(ip.bytes());
        }
        Network::Arp(part) | Network::Other(_, part) => {
            if !part.is_empty() {
                within(part);
            }
        }
    }
    match &packet.transport {
        Transport::Tcp(t) => {
            let _ = (t.sequence(), t.acknowledgement(), t.window(), t.urgent_pointer());
            assert!(t.flags() < 0x200);
            assert!(t.options().count() <= 20);
            assert_eq!(t.header_len() + t.payload().len(), t.bytes().len());
            within(t.bytes());
        }
        Transport::Udp(t) => {
            let _ = (t.length_field(), t.checksum());
            assert_eq!(8 + t.payload().len(), t.bytes().len());
            within(t.bytes());
        }
        Transport::UdpLite(t) => {
            let _ = t.coverage_field();
            assert!((8..=t.bytes().len()).contains(&t.covered().len()));
        }
        Transport::Icmp(t) | Transport::Icmpv6(t) => {
            let _ = (t.message_type(), t.code(), t.rest_of_header());
            let _ = (t.echo_id(), t.echo_sequence());
            assert_eq!(8 + t.payload().len(), t.bytes().len());
        }
        Transport::LaterFragment(_, part) | Transport::Other(_, part) => within(part),
        Transport::None => {}
    }
    let _ = (packet.addresses(), packet.ports(), packet.fragment());
    let _ = packet.transport_checksum_ok();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replay(samples: &[Vec<u8>], body: impl Fn(&[u8])) {
        weir_laws::mutation::replay(samples, 4000, body);
    }

    #[test]
    fn bpf() {
        let frame = [0x45; 60];
        for program in [
            // IPv4, the length of its header, and a port behind that, without later fragments.
            &[
                (0x28, 0, 0, 12),
                (0x15, 0, 6, 0x4545),
                (0x28, 0, 0, 20),
                (0x45, 4, 0, 0x1fff),
                (0xb1, 0, 0, 14),
                (0x48, 0, 0, 16),
                (0x15, 0, 1, 80),
                (0x06, 0, 0, 9),
                (0x06, 0, 0, 0),
            ][..],
            // Each other kind of instruction.
            &[
                (0x80, 0, 0, 0),
                (0x02, 0, 0, 3),
                (0x81, 0, 0, 0),
                (0x3c, 0, 0, 0),
                (0x9c, 0, 0, 0),
                (0x03, 0, 0, 4),
                (0x61, 0, 0, 3),
                (0x60, 0, 0, 4),
                (0x6c, 0, 0, 0),
                (0x84, 0, 0, 0),
                (0x05, 0, 0, 1),
                (0x87, 0, 0, 0),
                (0x07, 0, 0, 0),
                (0x16, 0, 0, 0),
            ],
        ] {
            let mut data = vec![program.len() as u8];
            for (code, jt, jf, k) in program {
                data.extend(u16::to_le_bytes(*code));
                data.extend([*jt, *jf]);
                data.extend(u32::to_le_bytes(*k));
            }
            data.extend(frame);
            replay(&[data], fuzz_bpf);
        }
    }

    #[test]
    fn data_header() {
        let key = TagKey::for_flow(&KEY, 1);
        let mut corpus = vec![];
        for (i, format) in HeaderFormat::ALL.iter().enumerate() {
            for payload in [1usize, 2, 4, 8, 16, 32, 40] {
                let mut bytes = vec![0; payload + 1];
                let fields = HeaderFields { sequence: 77, flow: 1, ..HeaderFields::default() };
                if payload as u64 >= format.min_payload_bytes() {
                    Header::new(*format, payload).encode(&key, &fields, &mut bytes[1..]);
                }
                bytes[0] = i as u8;
                corpus.push(bytes);
            }
        }
        replay(&corpus, fuzz_data_header);
    }

    #[test]
    fn echo_replies() {
        let echo = Echo::new(false, 0x5757, false, &KEY);
        let mut reply = vec![];
        echo.encode(&[3; 56], &mut reply);
        reply[0] = 0;
        assert!(echo.decode(&reply).is_ok());
        replay(&[reply], fuzz_echo);
    }

    #[test]
    fn ethernet() {
        let end = |port| crate::ethernet::Endpoint { mac: [2, 0, 0, 0, 0, 1], port };
        let payload = &[5; 30];
        let frame = EthernetFrame { source: end(1), destination: end(2), payload };
        replay(&[frame.encode()], fuzz_ethernet);
    }

    #[test]
    fn transfer() {
        let requests = [(false, 1), (true, 1 << 40)]
            .map(|(is_reverse, volume)| TransferRequest { is_reverse, volume }.encode().to_vec());
        replay(&requests, fuzz_transfer);
    }

    #[test]
    fn datagram() {
        let sent = ControlDatagram {
            kind: crate::datagram::DatagramKind::Probe,
            flow: 1,
            session: 2,
            sequence: 3,
            t1_ns: 4,
            t2_ns: 5,
            t3_ns: 6,
        };
        replay(&[sent.encode(&DatagramKey::for_session(&KEY)).to_vec()], fuzz_datagram);
    }

    #[test]
    fn control() {
        use crate::control::{Hello, LiveCount, Open, Opened, SenderTotal, encode};
        use weir_model::plan::{Connection, Family, Plan};
        use weir_model::report::{EndReport, FlowReport};
        let plan = Plan { connections: vec![Connection::default()], ..Plan::default() };
        let open = Open {
            plan,
            family: Family::Ipv4,
            path_mtu_bytes: 1500,
            loss_threshold_ns: 2_000_000_000,
            live: true,
        };
        let clock = ClockState { offset_ns: i64::MIN, skew_ppb: i64::MIN, ..Default::default() };
        let total = SenderTotal {
            flow: 1,
            packets: 2,
            bytes: u64::MAX,
            omitted_packets: 1,
            end_ns: Some(3),
        };
        let client = [
            ClientMessage::Hello(Hello { protocol_max: 1, ..Hello::default() }),
            ClientMessage::Open(Box::new(open)),
            ClientMessage::Clock(clock),
            ClientMessage::StopFlow { flow: None },
            ClientMessage::SetRate { flow: 1, rate: "10M/4".parse().unwrap() },
            ClientMessage::SenderDone(total),
        ];
        let opened = Opened {
            session: 7,
            key: "00".repeat(16),
            token_secret: "ff".repeat(16),
            tcp_port: 1,
            udp_port: 2,
            flow_ports: vec![(1, 2)],
            mac: Some("02:00:00:00:00:01".into()),
        };
        let server = [
            ServerMessage::Refused { code: "busy".into(), text: "\u{1b}[31m".into() },
            ServerMessage::Opened(opened),
            ServerMessage::Live { interval: 1, flows: vec![(1, LiveCount::default())], of: 1 },
            ServerMessage::Part { flow: 1, offset: 0, data: "AAAA".into() },
            ServerMessage::Flow(Box::default()),
            ServerMessage::Flow(Box::new(FlowReport { id: 1, ..FlowReport::default() })),
            ServerMessage::End(Box::<EndReport>::default()),
        ];
        let mut corpus: Vec<_> = client.iter().map(encode).collect();
        corpus.extend(server.iter().map(encode));
        for bytes in &corpus[..client.len()] {
            assert!(control::decode::<ClientMessage>(bytes).is_ok());
        }
        for bytes in &corpus[client.len()..] {
            assert!(control::decode::<ServerMessage>(bytes).is_ok());
        }
        replay(&corpus, fuzz_control);
    }

    #[test]
    fn frame() {
        let mut stream = vec![3];
        for len in [0, 1, 5, 255, 256] {
            stream.extend(encode_frame(&vec![len as u8; len]).unwrap());
        }
        replay(&[stream], fuzz_frame);
    }

    #[test]
    fn preface() {
        let data = preface::DataPreface { session: 1, flow: 2, token: [3; 16] };
        let control = preface::encode_control(preface::ControlMode::Noise);
        replay(&[data.encode().to_vec(), control.to_vec()], fuzz_preface);
    }

    #[test]
    fn packets() {
        let mut writer = PacketLogWriter::new(Vec::new(), r#"{"flows":[]}"#).unwrap();
        let bytes: [u8; 40] = core::array::from_fn(|i| i as u8);
        for _ in 0..3 {
            writer.write(&crate::packets::Record::decode(&bytes)).unwrap();
        }
        replay(&[writer.finish().unwrap()], fuzz_packets);
    }

    #[test]
    fn packet() {
        let hex = |text: &str| -> Vec<u8> {
            let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
            digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
        };
        let corpus = [
            // Two tags, IPv4 with options, UDP, padding.
            "02000000000b 02000000000a 88a8f064 81000fff 0800 \
             46b90025 12344000 40110000 c6120001 c6130002 01010100 24833039000d0000 68656c6c6f eeee",
            // IPv6, hop by hop, destination options, fragment, TCP with options.
            "02000000000b 02000000000a 86dd 6b9abcde 0044 003f \
             20010002000000000000000000000001 20010002000100000000000000000002 \
             3c00010400000000 2c00010400000000 0600000000000009 \
             2483303900000001 00000002a112fffe 00000003 020405b4 0402080a 00000007 00000008 0103030a \
             64617461",
            // A bare IPv4 packet with ICMP echo, and one with UDP-Lite.
            "4500001d 00000000 40010000 c6120001 c6130002 08000000 12340007 70",
            "4500001d 00000000 40880000 c6120001 c6130002 24833039 00080000 70",
        ];
        let corpus: Vec<_> = corpus.into_iter().map(hex).collect();
        assert!(corpus[..2].iter().all(|frame| Packet::from_ethernet(frame).is_ok()));
        assert!(corpus[2..].iter().all(|packet| Packet::from_ip(packet).is_ok()));
        replay(&corpus, fuzz_packet);
        replay(&corpus, fuzz_remap);
        let corpus: Vec<_> = corpus.into_iter().map(|frame| [vec![5, 0], frame].concat()).collect();
        replay(&corpus, fuzz_too_big);
        replay(
            &corpus.iter().map(|with_mtu| with_mtu[1..].to_vec()).collect::<Vec<_>>(),
            fuzz_fragment,
        );
    }
}
