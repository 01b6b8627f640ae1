//! The lines of a control connection: greetings, the parameters of a test, its acceptance or refusal; and the markers among
//! datagrams.
//!
//! The client states the parameters in one line of `name = value`, separated by commas. Its form depends on the versions of both
//! ends, so that each states an exact one: [`VERSION`].

use std::fmt;

/// The version that this end speaks.
pub(super) const VERSION: Version = Version([6, 1, 2]);
/// Longest line of a control connection, bytes. nuttcp's parameters have about 400.
pub(super) const MAX_LINE: usize = 2048;
/// The rate of a sender without a limit.
pub(super) const UNLIMITED: u64 = u32::MAX as u64;
/// The number of buffers of a sender without a limit.
pub(super) const NO_AMOUNT: u64 = i32::MAX as u64;
/// Most streams of a test.
pub(super) const MAX_STREAMS: u16 = 128;
/// The usual port of data before version 7.
pub(super) const DATA_PORT: u16 = 5001;
/// Largest buffer of a stream, bytes: that of a plan.
pub(super) const MAX_BUFFER: u64 = 16 << 20;
/// Largest datagram, bytes.
pub(super) const MAX_DATAGRAM: u64 = 65_507;
/// Smallest datagram: shorter ones are markers.
pub(super) const MIN_DATAGRAM: u64 = 5;
/// Bytes of a datagram with a count of the bytes sent so far.
pub(super) const COUNTED_DATAGRAM: u64 = 32;
/// Bit of the format: figures as keys and values (`-fparse`).
pub(super) const FORMAT_PARSE: u32 = 0x40;
/// Bit of the format: intervals with the totals so far (`-frunningtotal`).
pub(super) const FORMAT_RUNNING: u32 = 0x4;
/// The format of a client without such options.
pub(super) const FORMAT_USUAL: u32 = 0x800;
/// The third party of a test without one.
const NO_THIRD_PARTY: &str = "_NULL_";

/// A version of nuttcp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub(super) [u32; 3]);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Version([major, minor, patch]) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let mut numbers = text.trim().splitn(3, '.');
        let mut next = || {
            let part = numbers.next()?;
            // A beta version has letters after its number.
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..digits].parse().ok()
        };
        Some(Version([next()?, next()?, next()?]))
    }
}

/// The greeting of either end.
pub(super) fn hello() -> String {
    format!("HELO nuttcp v{VERSION}\n")
}

/// The version in a greeting; `None`: it is none.
pub(super) fn greeted(line: &str) -> Option<Version> {
    Version::parse(line.strip_prefix("HELO nuttcp v")?)
}

/// The acceptance of a test.
pub(super) fn accepted() -> String {
    format!("OK v{VERSION}\n")
}

/// The refusal of a test, for the reason `text`. `is_sender`: this end was to send.
pub(super) fn refusal(text: &str, is_sender: bool) -> String {
    format!("KO\n{}: v{VERSION}: {text}\nKO\n", tag(is_sender))
}

/// What each line of an end begins with.
pub(super) fn tag(is_sender: bool) -> &'static str {
    if is_sender { "nuttcp-t" } else { "nuttcp-r" }
}

/// The answer of a server to the parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Accepted,
    /// The reasons follow, until the same line again.
    Refused,
}

impl Answer {
    pub(super) fn parse(line: &str) -> Option<Answer> {
        match line.split_whitespace().next() {
            Some("OK") => Some(Answer::Accepted),
            Some("KO") => Some(Answer::Refused),
            _ => None,
        }
    }
}

/// What a client asks for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parameters {
    /// Bytes of each buffer of a stream, or of each datagram.
    pub(super) buffer_bytes: u64,
    /// Buffers of all streams together; [`NO_AMOUNT`]: no limit.
    pub(super) buffers: u64,
    /// Socket buffers, bytes; 0: the system's.
    pub(super) window: u64,
    pub(super) streams: u16,
    /// kbit/s of all streams together, or packets per second; [`UNLIMITED`]: no limit.
    pub(super) rate: u64,
    pub(super) rate_is_packets: bool,
    /// The port of the first stream; each further one has the next port.
    pub(super) port: u16,
    /// The client sends.
    pub(super) client_sends: bool,
    /// Both ends set both socket buffers.
    pub(super) both_windows: bool,
    /// Seconds; 0: no limit.
    pub(super) seconds: f64,
    pub(super) is_udp: bool,
    /// Seconds between two reports of the server; 0: none.
    pub(super) interval: f64,
    /// The receiver connects to the sender.
    pub(super) is_flipped: bool,
    pub(super) format: u32,
    /// The server traces the route to the client.
    pub(super) traces_route: bool,
    /// Another host is to be the far end.
    pub(super) has_third_party: bool,
    /// Time to live of datagrams to a group; 0: no group.
    pub(super) multicast: u32,
    pub(super) mss: u32,
    pub(super) tos: u8,
    pub(super) no_delay: bool,
}

impl Default for Parameters {
    fn default() -> Self {
        Parameters {
            buffer_bytes: 65_536,
            buffers: NO_AMOUNT,
            window: 0,
            streams: 1,
            rate: UNLIMITED,
            rate_is_packets: false,
            port: DATA_PORT,
            client_sends: true,
            both_windows: false,
            seconds: 0.0,
            is_udp: false,
            interval: 0.0,
            is_flipped: false,
            format: FORMAT_USUAL,
            traces_route: false,
            has_third_party: false,
            multicast: 0,
            mss: 0,
            tos: 0,
            no_delay: false,
        }
    }
}

impl fmt::Display for Parameters {
    /// The line of a client of [`VERSION`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bit = u8::from;
        write!(
            f,
            "buflen = {}, nbuf = {}, win = {}, nstream = {}, rate = {}, port = {}, trans = {}, \
             braindead = {}, timeout = {:.6}, udp = {}, vers = {VERSION}, interval = {:.6}, \
             reverse = {}, format = {}, traceroute = {}, irate = 0, thirdparty = {} , \
             multicast = {} , datamss = {} , tos = {:X} , nbuf_bytes = 0 , rate_pps = {} , \
             nodelay = {}",
            self.buffer_bytes,
            self.buffers,
            self.window,
            self.streams,
            self.rate,
            self.port,
            bit(self.client_sends),
            bit(self.both_windows),
            self.seconds,
            bit(self.is_udp),
            self.interval,
            bit(self.is_flipped),
            self.format,
            bit(self.traces_route),
            if self.has_third_party { "another" } else { NO_THIRD_PARTY },
            self.multicast,
            self.mss,
            self.tos,
            bit(self.rate_is_packets),
            bit(self.no_delay),
        )
    }
}

impl Parameters {
    /// Reads a client's line. Clients of older versions leave out the last parameters.
    ///
    /// # Errors
    /// The reason, as nuttcp's server states it.
    pub(super) fn parse(line: &str) -> Result<Parameters, String> {
        let mut out = Parameters { buffer_bytes: 0, streams: 0, port: 0, ..Parameters::default() };
        let unread = || "error scanning parameters".to_owned();
        let mut required = ["buflen", "nbuf", "nstream", "rate", "port", "trans"].to_vec();
        for part in line.split(',') {
            let (name, value) = part.split_once('=').ok_or_else(unread)?;
            let (name, value) = (name.trim(), value.trim());
            required.retain(|wanted| *wanted != name);
            let invalid = || format!("invalid {name}");
            let number = || value.parse::<u64>().map_err(|_| invalid());
            let flag = || Ok::<_, String>(number()? != 0);
            let seconds = || match value.parse::<f64>() {
                Ok(seconds) if (0.0..=1e9).contains(&seconds) => Ok(seconds),
                _ => Err(invalid()),
            };
            match name {
                "buflen" => out.buffer_bytes = number()?,
                "nbuf" => out.buffers = number()?,
                "win" => out.window = number()?,
                "nstream" => out.streams = value.parse().map_err(|_| invalid())?,
                // Versions of 64 bits state no limit by a larger number, others may by 0.
                "rate" => {
                    out.rate =
                        Some(number()?.min(UNLIMITED)).filter(|r| *r > 0).unwrap_or(UNLIMITED);
                }
                "port" => out.port = value.parse().map_err(|_| invalid())?,
                "trans" => out.client_sends = flag()?,
                "braindead" => out.both_windows = flag()?,
                "timeout" => out.seconds = seconds()?,
                "udp" => out.is_udp = flag()?,
                "interval" => out.interval = seconds()?,
                "reverse" => out.is_flipped = flag()?,
                "format" => out.format = value.parse().map_err(|_| invalid())?,
                "traceroute" => out.traces_route = flag()?,
                "thirdparty" => out.has_third_party = value != NO_THIRD_PARTY,
                "multicast" => out.multicast = value.parse().map_err(|_| invalid())?,
                "datamss" => out.mss = value.parse().map_err(|_| invalid())?,
                "tos" => out.tos = u8::from_str_radix(value, 16).map_err(|_| invalid())?,
                "rate_pps" => out.rate_is_packets = flag()?,
                "nodelay" => out.no_delay = flag()?,
                // Versions, what only the client counts, and names of later versions.
                _ => {}
            }
        }
        if !required.is_empty() {
            return Err(unread());
        }
        out.check().map(|()| out)
    }

    fn check(&self) -> Result<(), String> {
        let sizes = match self.is_udp {
            true => MIN_DATAGRAM..=MAX_DATAGRAM,
            false => 1..=MAX_BUFFER,
        };
        let last = u32::from(self.port) + u32::from(self.streams);
        let invalid =
            |name: &str, value: &dyn fmt::Display| Err(format!("invalid {name}\n{name} = {value}"));
        if !sizes.contains(&self.buffer_bytes) {
            return invalid("buflen", &self.buffer_bytes);
        }
        if self.buffers == 0 {
            return invalid("nbuf", &self.buffers);
        }
        if self.streams == 0 || self.streams > MAX_STREAMS {
            return invalid("nstream", &self.streams);
        }
        if self.port < 1024 || last > 65_536 {
            return invalid("port/nstream", &format!("{}/{}", self.port, self.streams));
        }
        if self.window > 1 << 30 {
            return invalid("win", &self.window);
        }
        Ok(())
    }

    /// Whether datagrams have a count of the bytes sent so far.
    pub(super) fn is_counted(&self) -> bool {
        // Those of several streams have one count.
        self.is_udp
            && self.interval > 0.0
            && self.streams == 1
            && self.buffer_bytes >= COUNTED_DATAGRAM
    }
}

/// A datagram that is no data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    /// Data is about to follow.
    Begin,
    /// The data has ended, as many half seconds ago.
    End(u8),
    /// None of nuttcp's.
    Other,
}

impl Marker {
    /// Reads a datagram; `None`: it is data.
    pub(super) fn parse(datagram: &[u8]) -> Option<Marker> {
        match datagram {
            [b'B', b'O', b'D', _] => Some(Marker::Begin),
            [b'E', b'O', b'D', number @ b'0'..=b'9'] => Some(Marker::End(number - b'0')),
            short if (short.len() as u64) < MIN_DATAGRAM => Some(Marker::Other),
            _ => None,
        }
    }

    /// The marker of the beginning or the end with a number below 10.
    pub(super) fn bytes(is_end: bool, number: u8) -> [u8; 4] {
        let [a, b, c] = if is_end { *b"EOD" } else { *b"BOD" };
        [a, b, c, b'0' + number.min(9)]
    }
}

/// Fuzz body: any line is read or refused, and parameters are read as they are written again; so are markers.
pub fn fuzz_nuttcp(data: &[u8]) {
    let _ = Marker::parse(data);
    let text = String::from_utf8_lossy(data);
    super::figures::fuzz(&text);
    for line in text.lines() {
        let _ = (greeted(line), Answer::parse(line));
        if let Ok(parameters) = Parameters::parse(line) {
            let seconds = |seconds: f64| format!("{seconds:.6}").parse().unwrap_or(seconds);
            let written = parameters.to_string();
            assert!(written.len() < MAX_LINE);
            let again = Parameters::parse(&written).ok();
            let expected = Parameters {
                seconds: seconds(parameters.seconds),
                interval: seconds(parameters.interval),
                ..parameters.clone()
            };
            assert_eq!(again, Some(expected));
            if let Ok(plan) = super::settings::plan(&parameters, 3600) {
                assert!(plan.check().is_ok());
                let flows = plan.flows(weir_model::plan::Family::Ipv4, 1500);
                assert_eq!(flows.len(), usize::from(parameters.streams));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line of `nuttcp -u -T1 -R10m -c26 -w64 -i0.5 -fparse` (6.1.2).
    const CAPTURED: &str = "buflen = 8192, nbuf = 2147483647, win = 65536, nstream = 1, rate = 10000, port = 5001, \
        trans = 1, braindead = 0, timeout = 1.000000, udp = 1, vers = 6.1.2, interval = 0.500000, reverse = 0, \
        format = 2112, traceroute = 0, irate = 0, thirdparty = _NULL_ , multicast = 0 , datamss = 0 , tos = 68 , \
        nbuf_bytes = 0 , rate_pps = 0 , nodelay = 0";

    #[test]
    fn a_captured_line_is_read_and_written() {
        let captured = CAPTURED.split_whitespace().collect::<Vec<_>>().join(" ");
        let p = Parameters::parse(&captured).unwrap();
        assert_eq!((p.buffer_bytes, p.rate, p.window, p.tos), (8192, 10_000, 65_536, 0x68));
        assert!(p.is_udp && p.client_sends && p.is_counted() && !p.has_third_party);
        assert_eq!((p.seconds, p.interval, p.format & FORMAT_PARSE), (1.0, 0.5, FORMAT_PARSE));
        assert_eq!(p.to_string(), captured);
    }

    #[test]
    fn greetings_state_a_version() {
        assert_eq!(greeted("HELO nuttcp v6.1.2"), Some(VERSION));
        assert_eq!(greeted("HELO nuttcp v8.1.4-beta2"), Some(Version([8, 1, 4])));
        assert!(greeted(hello().trim_end()) == Some(VERSION));
        for wrong in ["", "HELO", "HELO nuttcp v6.1", "HELO nuttcp vx.y.z", "HTTP/1.0 400"] {
            assert_eq!(greeted(wrong), None, "{wrong}");
        }
        assert_eq!(Answer::parse("OK v6.1.2"), Some(Answer::Accepted));
        assert_eq!(Answer::parse("KO"), Some(Answer::Refused));
        assert_eq!(Answer::parse("nuttcp-r: OK"), None);
    }

    #[test]
    fn what_no_client_means_is_refused() {
        let with = |name: &str, value: &str| {
            let line = Parameters::default().to_string();
            let part = |part: &str| match part.split_once('=') {
                Some((own, _)) if own.trim() == name => format!("{name} = {value}"),
                _ => part.to_owned(),
            };
            let parts: Vec<String> = line.split(',').map(part).collect();
            Parameters::parse(&parts.join(", "))
        };
        with("buflen", "1").unwrap();
        for (name, value) in [
            ("buflen", "0"),
            ("buflen", "99999999999"),
            ("buflen", "-1"),
            ("nstream", "0"),
            ("nstream", "129"),
            ("nstream", "1000000000"),
            ("port", "80"),
            ("port", "65536"),
            ("nbuf", "0"),
            ("nbuf", "18446744073709551616"),
            ("rate", "x"),
            ("timeout", "nan"),
            ("timeout", "-1"),
            ("tos", "1ff"),
            ("win", "99999999999"),
        ] {
            let refused = with(name, value).unwrap_err();
            assert!(refused.starts_with("invalid"), "{name} {value}: {refused}");
        }
        for line in ["", "x", "buflen = 1", &"a=b,".repeat(100)] {
            assert_eq!(Parameters::parse(line).unwrap_err(), "error scanning parameters", "{line}");
        }
        assert!(with("thirdparty", "192.0.2.1 ").unwrap().has_third_party);
        // An old client states less.
        let old = Parameters::default().to_string();
        let old = old.split(", timeout").next().unwrap();
        assert_eq!(Parameters::parse(old), Ok(Parameters::default()));
    }

    #[test]
    fn short_datagrams_are_markers() {
        assert_eq!(Marker::parse(b"BOD0"), Some(Marker::Begin));
        assert_eq!(Marker::parse(&Marker::bytes(true, 3)), Some(Marker::End(3)));
        assert_eq!(Marker::parse(b"EODx"), Some(Marker::Other));
        assert_eq!(Marker::parse(b""), Some(Marker::Other));
        assert_eq!(Marker::parse(b"BOD1\0"), None);
    }

    #[test]
    fn mutated_lines_are_read_or_refused() {
        let corpus =
            [hello(), Parameters::default().to_string(), CAPTURED.to_owned(), refusal("x", true)];
        let corpus = corpus.each_ref().map(String::as_bytes);
        weir_laws::mutation::replay(&corpus, 20_000, fuzz_nuttcp);
    }
}
