//! Runs datagrams through sending and receiving without a network, so that their instructions can be counted:
//! `account N per-packet|coalesced` handles N datagrams of 160 bytes. `scripts/instructions.py` runs it under callgrind.

use weir_flow::{IntervalClock, PayloadRing, Receiving, SenderClock, Sending};
use weir_model::plan::{Connection, Family, Plan, Transport};
use weir_model::units::ByteSize;
use weir_wire::header::TagKey;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let count: u64 = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let coalesced = arguments.next().is_some_and(|m| m == "coalesced");
    let connection = Connection {
        transport: Transport::udp(),
        payload: Some(ByteSize(160).into()),
        rate: Some(
            if coalesced { "0" } else { "100000pps" }
                .parse()
                .unwrap_or(weir_model::units::SendRate::UNLIMITED),
        ),
        ..Connection::default()
    };
    let plan = Plan { connections: vec![connection], ..Plan::default() };
    let Some(spec) = plan.flows(Family::Ipv4, 1500).pop() else { return };
    let key = TagKey::for_flow(&[7; 16], spec.id);
    let mut ring = PayloadRing::new(spec.connection.content, 1, 160);
    let mut sending = Sending::new(&spec, key.clone(), 0, coalesced);
    let mut receiving = Receiving::new(&spec, key.clone(), 2_000_000_000, None);
    let clock = IntervalClock { start_ns: 0, interval_ns: 1_000_000_000, omit_ns: 0 };
    sending.start(0, clock);
    receiving.start(clock);
    // Without related clocks there are no delays, and the histograms of delay would cost nothing here.
    receiving.set_clock(SenderClock::default());
    let (mut now, mut done) = (0u64, 0u64);
    let mut message = vec![0u8; 65_536];
    while done < count {
        // Delays vary as on a real path, so that histograms do not stay in one cell.
        now += if coalesced { 640_000 } else { 10_000 };
        let _ = sending.next(now);
        let (bytes, sent) = sending.fill(&mut ring, if coalesced { 64 } else { 1 }, now);
        let length = bytes.len();
        message[..length].copy_from_slice(bytes);
        sending.sent(sent, 1, now);
        let delay = 20_000 + (done * 7919) % 9973;
        receiving.on_message(&message[..length], coalesced.then_some(160), now + delay, |_| {});
        done += u64::from(sent);
    }
    println!("{}", receiving.report("", None, None).packets);
}
