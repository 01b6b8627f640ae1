//! Forwards frames from A to B and back without an emulator: the reference for the emulator's throughput.
//!
//! ```text
//! forward A B SECONDS [auto|tpacket-v2|xdp-native|xdp-generic|xdp-zero-copy]
//! ```

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("links to interfaces are available on Linux only");
}

#[cfg(target_os = "linux")]
mod linux {
    use std::error::Error;

    use weir_link::{
        Handle, Link, LinkChoice, LinkOptions, Mode, Receive, ReceiveStatistics, Slabs, Transmit,
        TransmitStatistics, disable_offloads, open,
    };
    use weir_net::clock::{Clock, thread_cpu_ns};
    use weir_net::poll::{Events, Interest, Poller};
    use weir_net::watchdog::Watchdog;

    const MAX: usize = 64;
    const WAIT_NS: u64 = 50_000_000;

    type Outcome = Result<(ReceiveStatistics, TransmitStatistics, u64), String>;

    pub(super) fn main() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let (a, b, seconds, mode) = match &arguments[..] {
            [a, b, seconds] => (a, b, seconds, "auto"),
            [a, b, seconds, mode] => (a, b, seconds, mode.as_str()),
            _ => return Err("usage: forward A B SECONDS [MODE]".into()),
        };
        let seconds: f64 = seconds.parse()?;
        if !(0.0..=3600.0).contains(&seconds) {
            return Err("SECONDS: 0 to 3600".into());
        }
        let modes = [Mode::Packet, Mode::XdpZeroCopy, Mode::XdpNative, Mode::XdpGeneric];
        let choice = match mode {
            "auto" => LinkChoice::Auto { receive_stamps: false },
            name => LinkChoice::Mode(
                modes.into_iter().find(|m| m.name() == name).ok_or("no mode of that name")?,
            ),
        };
        // It is forked, so before any thread is started.
        let mut watchdog = Watchdog::spawn()?;
        let mut links = Vec::new();
        for interface in [a, b] {
            disable_offloads(interface, &mut watchdog)?;
            let link = open(interface, choice, &LinkOptions::default())?;
            eprintln!("{}", link.description);
            links.push(link);
        }
        let until = Clock::System.monotonic_ns() + (seconds * 1e9) as u64;
        let (Some(b), Some(a)) = (links.pop(), links.pop()) else { return Err("two links".into()) };
        let Link { receiver: from_a, transmitter: to_a, .. } = a;
        let Link { receiver: from_b, transmitter: to_b, .. } = b;
        let (forward, reverse) = std::thread::scope(|scope| {
            let forward = scope.spawn(move || direction(from_a, to_b, until));
            let reverse = scope.spawn(move || direction(from_b, to_a, until));
            (forward.join(), reverse.join())
        });
        for (name, outcome) in [("A to B", forward), ("B to A", reverse)] {
            let (received, sent, cpu_ns) = outcome.map_err(|_| "a thread ended by panic")??;
            let per_packet = cpu_ns / received.frames.max(1);
            println!("{name}: {received:?} {sent:?} cpu_ns_per_packet {per_packet}");
        }
        watchdog.restore();
        Ok(())
    }

    fn direction(mut from: Box<dyn Receive>, mut to: Box<dyn Transmit>, until_ns: u64) -> Outcome {
        let text = |e: &dyn Error| e.to_string();
        let poller = Poller::new().map_err(|e| text(&e))?;
        poller.add(from.fd(), 0, Interest::READ).map_err(|e| text(&e))?;
        let mut events = Events::new(4);
        let mut slabs = Slabs::new(256 << 20);
        let mut received = Vec::with_capacity(4096);
        let mut waiting: Vec<Handle> = Vec::with_capacity(4096);
        loop {
            received.clear();
            from.recv(&mut slabs, MAX, &mut received).map_err(|e| text(&e))?;
            waiting.extend(received.iter().map(|frame| frame.handle));
            if !waiting.is_empty() {
                let sent = to.send(&slabs, &waiting).map_err(|e| text(&e))?;
                for handle in waiting.drain(..sent) {
                    slabs.release(handle);
                }
                if waiting.len() > 4 * MAX {
                    std::thread::yield_now();
                }
            }
            let busy = !received.is_empty() || !waiting.is_empty();
            if !busy {
                poller.wait(&mut events, Some(WAIT_NS)).map_err(|e| text(&e))?;
            }
            if Clock::System.monotonic_ns() > until_ns {
                break;
            }
        }
        let cpu_ns = thread_cpu_ns();
        Ok((from.statistics().map_err(|e| text(&e))?, to.statistics(), cpu_ns))
    }
}
