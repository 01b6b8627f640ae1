//! Maximum rates of one flow: datagrams per-packet and coalesced, and TCP; and the sender's cost of a datagram.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_net::clock::{Clock, thread_cpu_ns};
use weir_net::udp::{
    RecvBatch, RecvMode, SendBatch, SendFault, SendMode, UdpSocket, gso_max_segments,
};

use super::clocks::without_slack;
use super::figures::{Figures, put, rate};
use super::path::Path;
use crate::Error;
use crate::error::Context;

/// Payload of a datagram that fills an Ethernet frame over IPv4.
const PAYLOAD: u16 = 1472;
/// Segments of one coalesced send, below 64 KiB.
const SEGMENTS: u16 = 44;
const DRAIN_NS: u64 = 50_000_000;
const LOOK_NS: u64 = 100_000;

/// All three rates, each for `length_ns`.
pub(crate) fn measure(path: &Path<'_>, length_ns: u64, figures: &mut Figures) -> Result<(), Error> {
    let name = path.name();
    let (per_packet, cost_ns) = udp(path, 1, length_ns)?;
    put(figures, format!("{name}_udp_per_packet_packets_per_second"), per_packet);
    put(figures, format!("{name}_udp_send_cost_seconds"), cost_ns.map(|ns| ns / 1e9));
    let segments = SEGMENTS.min(gso_max_segments());
    if segments > 1 {
        let (coalesced, _) = udp(path, segments, length_ns)?;
        put(figures, format!("{name}_udp_coalesced_packets_per_second"), coalesced);
    }
    put(figures, format!("{name}_tcp_bits_per_second"), tcp(path, length_ns)?);
    Ok(())
}

/// Delivered datagrams per second, and the sender's CPU time for each, ns.
fn udp(
    path: &Path<'_>,
    segments: u16,
    length_ns: u64,
) -> Result<(Option<f64>, Option<f64>), Error> {
    let (sender, receiver) = path.udp(false, segments > 1)?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let receiving = scope.spawn(|| without_slack(|| count(&receiver, segments, &done)));
        // A thread of its own, so that its CPU time is that of sending.
        let sending = scope.spawn(|| flood(&sender, segments, length_ns));
        let sent = sending.join();
        done.store(true, Ordering::Release);
        match (sent, receiving.join()) {
            (Ok(cost), Ok(delivered)) => Ok((delivered?, cost?)),
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

fn flood(socket: &UdpSocket, segments: u16, length_ns: u64) -> Result<Option<f64>, Error> {
    let clock = Clock::System;
    let messages: usize = if segments > 1 { 4 } else { 32 };
    let payload = vec![0_u8; usize::from(PAYLOAD) * usize::from(segments)];
    let mut batch = SendBatch::new(messages);
    let (end, before) = (clock.monotonic_ns() + length_ns, thread_cpu_ns());
    let mut sent = 0_u64;
    while clock.monotonic_ns() < end {
        let mut filling = batch.fill();
        for _ in 0..messages {
            filling
                .push(&payload, (segments > 1).then_some(PAYLOAD), None)
                .context("fill", "a batch")?;
        }
        while filling.remaining() > 0 {
            match filling.send(socket, SendMode::AsSocket) {
                Ok(taken) => sent += taken.messages as u64 * u64::from(segments),
                Err(e)
                    if matches!(
                        SendFault::of(&e),
                        SendFault::NoBuffers | SendFault::WouldBlock
                    ) =>
                {
                    if clock.monotonic_ns() >= end {
                        break;
                    }
                    std::thread::yield_now();
                }
                Err(e) => return Err(e).context("send to", "the receiver of a rate"),
            }
        }
    }
    let spent = thread_cpu_ns().saturating_sub(before);
    Ok((sent > 0).then(|| spent as f64 / sent as f64))
}

/// Counts arrivals, polling every 100 µs: a wake-up for each datagram would be charged to the sender, and the buffer
/// holds more than arrives in between.
fn count(socket: &UdpSocket, segments: u16, done: &AtomicBool) -> Result<Option<f64>, Error> {
    let clock = Clock::System;
    let mut batch =
        if segments > 1 { RecvBatch::new(16, 65_535) } else { RecvBatch::new(64, 2048) };
    // Datagrams after those of the first call, and the times of the first and the last call.
    let (mut later, mut first, mut last) = (0_u64, None, clock.monotonic_ns());
    loop {
        match batch.recv(socket, RecvMode::DontWait) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                let now = clock.monotonic_ns();
                if done.load(Ordering::Acquire) && now > last + DRAIN_NS {
                    break;
                }
                clock.sleep_until(now + LOOK_NS);
                continue;
            }
            Err(e) => return Err(e).context("receive on", "the receiver of a rate"),
        }
        last = clock.monotonic_ns();
        let datagrams: usize = batch.messages().map(|m| m.datagrams().count()).sum();
        match first {
            None => first = Some(last),
            Some(_) => later += datagrams as u64,
        }
    }
    Ok(first.and_then(|first| rate(later + 1, first, last)))
}

/// Delivered payload, bit/s.
fn tcp(path: &Path<'_>, length_ns: u64) -> Result<Option<f64>, Error> {
    let (sender, receiver) = path.tcp()?;
    let object = "a connection over the path";
    let clock = Clock::System;
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let payload = vec![0_u8; 256 << 10];
            let end = clock.monotonic_ns() + length_ns;
            let mut sent = Ok(0);
            while sent.is_ok() && clock.monotonic_ns() < end {
                sent = sender.send(&payload);
            }
            // On any result, or the receiver would wait forever.
            let closed = sender.half_close().context("close", object);
            sent.context("send on", object).and(closed)
        });
        let mut buffer = vec![0_u8; 1 << 20];
        let (mut later, mut first, mut last) = (0_u64, None, 0_u64);
        let received = loop {
            match receiver.recv(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(n) => {
                    last = clock.monotonic_ns();
                    match first {
                        None => first = Some(last),
                        Some(_) => later += n as u64,
                    }
                }
                Err(e) => break Err(e).context("receive on", object),
            }
        };
        // If one end stopped reading, the sender would wait forever.
        if received.is_err() {
            let _ = receiver.shutdown();
        }
        match sending.join() {
            Ok(sent) => sent.and(received)?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        Ok(first.and_then(|first| rate(later * 8 + 1, first, last)))
    })
}
