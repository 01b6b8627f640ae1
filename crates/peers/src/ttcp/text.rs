//! Output lines of ttcp: the settings, the steps, and the figures of this end.

use weir_model::record::{CpuEnd, Flow, Record, Tcp};

use super::Settings;

/// The unit of the rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateUnit {
    /// Bits, not bytes.
    bits: bool,
    /// Power of 1024.
    power: u32,
}

impl RateUnit {
    /// The letter of `-f`: lower case for bits, upper case for bytes.
    pub(super) fn parse(letter: &str) -> Option<RateUnit> {
        let power = match letter {
            "k" | "K" => 1,
            "m" | "M" => 2,
            "g" | "G" => 3,
            _ => return None,
        };
        Some(RateUnit { bits: letter.chars().all(char::is_lowercase), power })
    }

    fn show(self, bytes_per_second: f64) -> String {
        let prefix = ["", "K", "M", "G"][self.power as usize];
        let (amount, unit) = match self.bits {
            true => (8.0 * bytes_per_second, "bit"),
            false => (bytes_per_second, "B"),
        };
        format!("{:.2} {prefix}{unit}", amount / f64::from(1024_u32.pow(self.power)))
    }
}

impl Default for RateUnit {
    fn default() -> Self {
        RateUnit { bits: false, power: 1 }
    }
}

/// Prefix of each line: `ttcp-t` or `ttcp-r`.
pub(super) fn tag(transmits: bool) -> &'static str {
    if transmits { "ttcp-t" } else { "ttcp-r" }
}

/// The settings.
pub(super) fn settings(s: &Settings) -> String {
    let to = s.host.as_ref().map_or_else(String::new, |host| format!("  -> {host}"));
    let window = s.window_bytes.map(|bytes| format!(", sockbufsize={bytes}"));
    let buffer = window.unwrap_or_default();
    format!(
        "{}: buflen={}, nbuf={}, align={}/{}, port={}{buffer}  {}{to}",
        tag(s.transmits()),
        s.buffer_bytes,
        s.buffers,
        s.alignment.bytes(),
        s.alignment.offset(),
        s.port,
        if s.udp { "udp" } else { "tcp" },
    )
}

/// The figures of the record's end, one line each.
pub(super) fn figures(s: &Settings, record: &Record) -> Vec<String> {
    let Some(flow) = record.flows.first() else { return vec![] };
    let Some(counts) = Counts::of(flow) else { return vec![] };
    let cpu = record.cpu.as_ref().and_then(|cpu| cpu.local.as_ref());
    let mut lines = match s.cisco {
        true => cisco(&counts),
        false => classic(s, &counts, cpu.filter(|_| s.verbose)),
    };
    let tcp = flow.tcp.as_ref().filter(|_| s.tcp_info);
    lines.extend(tcp.map(|tcp| format!("TCP: {}", tcp_line(tcp))));
    lines.extend(counts.refused.map(|refused| {
        let sends = weir_model::counted(refused, "send");
        format!("{sends} refused and repeated: nothing listens on the port (ICMP port unreachable)")
    }));
    lines.into_iter().map(|line| format!("{}: {line}", tag(s.transmits()))).collect()
}

/// What an end counted.
struct Counts {
    bytes: u64,
    /// As in ttcp at least 1 ms, so that a zero duration still gives a rate.
    seconds: f64,
    calls: Option<u64>,
    /// Sleeps and their time, s.
    sleeps: Option<(u64, f64)>,
    refused: Option<u64>,
}

impl Counts {
    fn of(flow: &Flow) -> Option<Counts> {
        let sender = flow.sender.as_ref().map(|s| Counts {
            bytes: s.bytes,
            seconds: s.seconds,
            calls: s.io_calls,
            sleeps: s.sleeps.zip(s.sleep_seconds),
            refused: s.refused_sends,
        });
        let receiver = || {
            let r = flow.receiver.as_ref()?;
            let (bytes, seconds, calls) = (r.bytes, r.seconds, r.io_calls);
            Some(Counts { bytes, seconds, calls, sleeps: None, refused: None })
        };
        let counts = sender.or_else(receiver)?;
        Some(Counts { seconds: counts.seconds.max(0.001), ..counts })
    }
}

/// The lines of classic ttcp; with its CPU time, those of `-v`.
fn classic(s: &Settings, counts: &Counts, cpu: Option<&CpuEnd>) -> Vec<String> {
    let (bytes, seconds) = (counts.bytes, counts.seconds);
    let rate = s.unit.show(bytes as f64 / seconds);
    let mut lines = vec![format!("{bytes} bytes in {seconds:.2} real seconds = {rate}/sec +++")];
    if let Some(cpu) = cpu {
        let busy = (cpu.process_user_ratio + cpu.process_system_ratio) * cpu.seconds;
        let rate = s.unit.show(bytes as f64 / busy.max(0.001));
        lines.push(format!("{bytes} bytes in {busy:.2} CPU seconds = {rate}/cpu sec"));
    }
    if let Some(calls) = counts.calls {
        let each = 1000.0 * seconds / (calls.max(1)) as f64;
        let rate = calls as f64 / seconds;
        lines.push(format!("{calls} I/O calls, msec/call = {each:.2}, calls/sec = {rate:.2}"));
    }
    if let Some(cpu) = cpu {
        let [user, system] =
            [cpu.process_user_ratio, cpu.process_system_ratio].map(|ratio| ratio * cpu.seconds);
        let percent = 100.0 * (cpu.process_user_ratio + cpu.process_system_ratio);
        lines.push(format!("{user:.1}user {system:.1}sys {:.2}real {percent:.0}%", cpu.seconds));
    }
    lines
}

/// The lines of Cisco IOS.
fn cisco(counts: &Counts) -> Vec<String> {
    let Counts { bytes, seconds, .. } = *counts;
    let (ms, rate) = (1000.0 * seconds, (bytes as f64 / 1024.0 / seconds).floor());
    let mut lines = vec![format!(
        "{bytes} bytes in {ms:.0} ms ({seconds:.3} real seconds) (~{rate:.0} kB/s) +++"
    )];
    lines.extend(counts.calls.map(|calls| format!("{calls} I/O calls")));
    lines.extend(counts.sleeps.map(|(sleeps, slept)| {
        let (all, each) = (1000.0 * slept, 1000.0 * slept / sleeps.max(1) as f64);
        format!("{sleeps} sleeps ({all:.0} ms total) ({each:.0} ms average)")
    }));
    lines
}

/// The connection's figures, as far as the system reports them.
fn tcp_line(tcp: &Tcp) -> String {
    let ms = |seconds: f64| format!("{:.3} ms", 1e3 * seconds);
    let figures = [
        (tcp.mss_bytes > 0).then(|| format!("mss {}", tcp.mss_bytes)),
        tcp.rtt_seconds.map(|rtt| format!("rtt {}", ms(rtt))),
        tcp.min_rtt_seconds.map(|rtt| format!("min rtt {}", ms(rtt))),
        tcp.cwnd_bytes.map(|bytes| format!("cwnd {bytes}")),
        tcp.retransmitted_bytes.map(|bytes| format!("retransmitted {bytes} bytes")),
    ];
    figures.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_model::record::{Receiver, Sender};

    fn of(words: &str) -> Settings {
        super::super::tests::settings(words).unwrap()
    }

    #[test]
    fn lines_have_the_form_of_ttcp() {
        let s = of("-t -s h");
        assert_eq!(
            settings(&s),
            "ttcp-t: buflen=8192, nbuf=2048, align=16384/0, port=5001  tcp  -> h"
        );
        let sender =
            Sender { bytes: 16_777_216, seconds: 2.0, io_calls: Some(2048), ..Sender::default() };
        let flow = Flow { sender: Some(sender), ..Flow::default() };
        let record = Record { flows: vec![flow], ..Record::default() };
        assert_eq!(
            figures(&s, &record),
            [
                "ttcp-t: 16777216 bytes in 2.00 real seconds = 8192.00 KB/sec +++",
                "ttcp-t: 2048 I/O calls, msec/call = 0.98, calls/sec = 1024.00",
            ]
        );
    }

    #[test]
    fn the_lines_of_cisco_have_sleeps_and_no_classic_figures() {
        // The figures of the source, whose rate is cut off.
        let sender = Sender {
            bytes: 67_108_864,
            seconds: 23.79,
            io_calls: Some(2048),
            sleeps: Some(4),
            sleep_seconds: Some(0.1),
            refused_sends: Some(3),
            ..Sender::default()
        };
        let flow = Flow { sender: Some(sender), tcp: Some(Tcp::default()), ..Flow::default() };
        let record = Record { flows: vec![flow], ..Record::default() };
        let lines = figures(&of("-t -s --cisco h"), &record);
        assert_eq!(
            lines[..3],
            [
                "ttcp-t: 67108864 bytes in 23790 ms (23.790 real seconds) (~2754 kB/s) +++",
                "ttcp-t: 2048 I/O calls",
                "ttcp-t: 4 sleeps (100 ms total) (25 ms average)",
            ]
        );
        // One more line states the refused sends; that of TCP is printed on request.
        assert_eq!(lines.len(), 4);
        assert_eq!(figures(&of("-t -s --cisco --tcp-info h"), &record).len(), 5);
    }

    #[test]
    fn a_receiver_reports_what_it_received_in_the_unit_of_the_flag() {
        let s = of("-r -s -u -p 7 -l 1000 -f m");
        assert_eq!(settings(&s), "ttcp-r: buflen=1000, nbuf=2048, align=16384/0, port=7  udp");
        let receiver = Receiver { bytes: 1 << 20, ..Receiver::default() };
        let flow = Flow { receiver: Some(receiver), ..Flow::default() };
        let record = Record { flows: vec![flow], ..Record::default() };
        let expected = "ttcp-r: 1048576 bytes in 0.00 real seconds = 8000.00 Mbit/sec +++";
        assert_eq!(figures(&s, &record), [expected]);
    }

    #[test]
    fn units() {
        for (letter, shown) in [("K", "1048576.00 KB"), ("G", "1.00 GB"), ("g", "8.00 Gbit")] {
            let unit = RateUnit::parse(letter).unwrap();
            assert_eq!(unit.show(f64::from(1 << 30)), shown);
        }
        assert!(RateUnit::parse("x").is_none() && RateUnit::parse("kk").is_none());
    }
}
