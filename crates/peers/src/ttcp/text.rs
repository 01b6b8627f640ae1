//! Output lines of ttcp: the settings, the steps, and the figures of this end.

use weir_model::record::{Record, Tcp};

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
    let sender = flow.sender.as_ref().map(|s| (s.bytes, s.seconds, s.io_calls));
    let receiver = || flow.receiver.as_ref().map(|r| (r.bytes, r.seconds, r.io_calls));
    let Some((bytes, seconds, calls)) = sender.or_else(receiver) else { return vec![] };
    // As in ttcp, so that a zero duration still gives a rate.
    let seconds = seconds.max(0.001);
    let tag = tag(s.transmits());
    let rate = s.unit.show(bytes as f64 / seconds);
    let mut lines =
        vec![format!("{tag}: {bytes} bytes in {seconds:.2} real seconds = {rate}/sec +++")];
    if let Some(cpu) = record.cpu.as_ref().and_then(|cpu| cpu.local.as_ref()).filter(|_| s.verbose)
    {
        let busy = (cpu.process_user_ratio + cpu.process_system_ratio) * cpu.seconds;
        let rate = s.unit.show(bytes as f64 / busy.max(0.001));
        lines.push(format!("{tag}: {bytes} bytes in {busy:.2} CPU seconds = {rate}/cpu sec"));
    }
    if let Some(calls) = calls {
        let each = 1000.0 * seconds / (calls.max(1)) as f64;
        let rate = calls as f64 / seconds;
        lines.push(format!(
            "{tag}: {calls} I/O calls, msec/call = {each:.2}, calls/sec = {rate:.2}"
        ));
    }
    if s.verbose
        && let Some(cpu) = record.cpu.as_ref().and_then(|cpu| cpu.local.as_ref())
    {
        let [user, system] =
            [cpu.process_user_ratio, cpu.process_system_ratio].map(|ratio| ratio * cpu.seconds);
        let percent = 100.0 * (cpu.process_user_ratio + cpu.process_system_ratio);
        lines.push(format!(
            "{tag}: {user:.1}user {system:.1}sys {:.2}real {percent:.0}%",
            cpu.seconds
        ));
    }
    if s.verbose
        && let Some(tcp) = &flow.tcp
    {
        lines.push(format!("{tag}: TCP: {}", tcp_line(tcp)));
    }
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
    use weir_model::record::{Flow, Receiver, Sender};

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
