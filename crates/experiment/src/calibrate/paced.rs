//! Paced packets: spacing, delay, and the error of times read by a program.

use std::sync::atomic::{AtomicBool, Ordering};

use weir_flow::{Due, Pacer};
use weir_model::plan::CatchUp;
use weir_model::warning::{Severity, Warning};
use weir_net::clock::Clock;
use weir_net::poll::{Events, Interest, Poller};
use weir_net::udp::{RecvBatch, RecvMode, SendFault, UdpSocket};
use weir_stats::{ClockReading, RealtimeMap};

use super::Options;
use super::clocks::{Waiter, as_sender};
use super::figures::{Arrival, Figures, Paced, put, put_quantiles};
use super::path::Path;
use crate::Error;
use crate::error::Context;

/// Payload of a paced packet, bytes: sequence, intended and actual time, padded to the size of a voice packet.
pub(super) const PAYLOAD: usize = 160;
/// Time to wait for packets after the last send.
const DRAIN_NS: u64 = 100_000_000;
/// A sender that is silent for this many drain times has failed.
const SILENT_DRAINS: u32 = 30;
/// Lead time before the first slot: the kernel needs a moment to start stamping.
const LEAD_NS: u64 = 20_000_000;

/// A received paced stream, and the slots that the sender missed.
struct Stream {
    arrivals: Vec<Arrival>,
    missed: u64,
    mapping_error_ns: u64,
    clock_stepped: bool,
}

/// Measures the path at 1000 packets/s, and loopback also at 50 000.
pub(crate) fn measure(
    path: &Path<'_>,
    options: &Options,
    figures: &mut Figures,
    warnings: &mut Vec<Warning>,
) -> Result<(), Error> {
    let name = path.name();
    let slow = run(path, 1000.0, options.slow_packets)?;
    let summary = Paced::of(&slow.arrivals);
    put_quantiles(figures, &format!("{name}_one_way_delay"), &summary.delay);
    put_quantiles(figures, &format!("{name}_stamp_to_read"), &summary.stamp_to_read);
    put_spacing(figures, &format!("{name}_spacing_1000pps_seconds"), &summary);
    let error = slow.mapping_error_ns as f64 / 1e9;
    let before = figures.get("stamp_mapping_error_seconds").copied().unwrap_or(0.0);
    put(figures, "stamp_mapping_error_seconds", Some(error.max(before)));
    let mut stepped = slow.clock_stepped;
    if name == "loopback" {
        let fast = run(path, 50_000.0, options.fast_packets)?;
        let summary = Paced::of(&fast.arrivals);
        put_spacing(figures, &format!("{name}_spacing_50000pps_seconds"), &summary);
        let ratio = fast.missed as f64 / options.fast_packets.max(1) as f64;
        put(figures, "missed_slots_50000pps_ratio", Some(ratio));
        stepped |= fast.clock_stepped;
    }
    if stepped {
        let text = format!(
            "the realtime clock was stepped during the measurement over {name}: delays there are wrong by up to the step"
        );
        warnings.push(Warning::new("clock-step", Severity::Warning, text));
    }
    Ok(())
}

fn put_spacing(figures: &mut Figures, name: &str, summary: &Paced) {
    put(figures, name, summary.spacing.half_range_ns().map(|ns| ns / 1e9));
}

fn reading(clock: &Clock) -> ClockReading {
    let bracket = clock.bracket();
    ClockReading {
        monotonic_before_ns: bracket.before_ns,
        realtime_ns: bracket.realtime_ns,
        monotonic_after_ns: bracket.after_ns,
    }
}

fn run(path: &Path<'_>, packets_per_second: f64, count: u64) -> Result<Stream, Error> {
    let clock = Clock::System;
    let (sender, receiver) = path.udp(true, false)?;
    let mut map = RealtimeMap::new(reading(&clock))?;
    let done = AtomicBool::new(false);
    let start_ns = clock.monotonic_ns() + LEAD_NS;
    let pacer = Pacer::new(packets_per_second, 1, CatchUp::default(), start_ns);
    let (missed, mut arrivals) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&clock, &receiver, count, &done));
        let missed = as_sender(packets_per_second, PAYLOAD, |waiter| {
            send(&clock, waiter, &sender, pacer, count)
        });
        done.store(true, Ordering::Release);
        match receiving.join() {
            Ok(arrivals) => Ok::<_, Error>((missed?, arrivals?)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })?;
    if arrivals.is_empty() {
        return Err(Error::Nothing { operation: "send paced packets", object: path.name().into() });
    }
    let step = map.refit(reading(&clock))?;
    for arrival in &mut arrivals {
        arrival.stamped_ns = arrival.stamped_ns.map(|realtime_ns| map.to_monotonic(realtime_ns));
    }
    Ok(Stream { arrivals, missed, mapping_error_ns: map.error_ns(), clock_stepped: step.is_some() })
}

/// Serves `count` slots; returns how many were skipped.
fn send(
    clock: &Clock,
    waiter: &mut Waiter,
    socket: &UdpSocket,
    mut pacer: Pacer,
    count: u64,
) -> Result<u64, Error> {
    let mut payload = [0_u8; PAYLOAD];
    let mut now = clock.monotonic_ns();
    while pacer.slot() < count {
        if let Due::At(due_ns) = pacer.due(now) {
            now = waiter.until(clock, due_ns);
            continue;
        }
        let slot = pacer.slot();
        if slot >= count {
            break;
        }
        payload[..8].copy_from_slice(&slot.to_le_bytes());
        payload[8..16].copy_from_slice(&pacer.intended_ns(slot).to_le_bytes());
        payload[16..24].copy_from_slice(&now.to_le_bytes());
        match socket.send(&payload) {
            Ok(_) => {}
            // A full queue loses this packet; the stream continues.
            Err(e) if matches!(SendFault::of(&e), SendFault::NoBuffers | SendFault::WouldBlock) => {
            }
            Err(e) => return Err(e).context("send to", "the receiver of paced packets"),
        }
        pacer.served(1, now);
        now = clock.monotonic_ns();
    }
    Ok(pacer.missed())
}

/// Receives until all packets have arrived or none arrives any more. Stamps are realtime.
fn receive(
    clock: &Clock,
    socket: &UdpSocket,
    count: u64,
    done: &AtomicBool,
) -> Result<Vec<Arrival>, Error> {
    let object = "the receiver of paced packets";
    let poller = Poller::new().context("wait on", object)?;
    poller.add(socket, 0, Interest::READ).context("wait on", object)?;
    let mut events = Events::new(1);
    let mut batch = RecvBatch::new(64, PAYLOAD);
    let mut arrivals = Vec::with_capacity(count.min(1 << 20) as usize);
    let mut silent = 0;
    while (arrivals.len() as u64) < count {
        let finished = done.load(Ordering::Acquire);
        if poller.wait(&mut events, Some(DRAIN_NS)).context("wait on", object)? == 0 {
            silent += 1;
            if finished || silent > SILENT_DRAINS {
                break;
            }
            continue;
        }
        silent = 0;
        match batch.recv(socket, RecvMode::DontWait) {
            Ok(_) => {}
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(e) => return Err(e).context("receive on", object),
        }
        let read_ns = clock.monotonic_ns();
        arrivals.extend(batch.messages().filter_map(|message| {
            let word = |at: usize| {
                Some(u64::from_le_bytes(message.data.get(at..at + 8)?.try_into().ok()?))
            };
            Some(Arrival {
                sequence: word(0)?,
                intended_ns: word(8)?,
                sent_ns: word(16)?,
                stamped_ns: message.kernel_realtime_ns,
                read_ns,
            })
        }));
    }
    Ok(arrivals)
}
