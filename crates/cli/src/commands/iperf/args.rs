//! The flags of iperf, and the flags of `weir test` that mean the same.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_report::{Iperf2Options, Iperf2Unit};

use super::output::IperfSettings;
use crate::commands::tool::fresh_buffers;
use crate::commands::values;
use crate::error::CliError;

/// Flags and text of iperf (iperf2), for scripts that use it
#[derive(Debug, Args)]
#[command(
    override_usage = "weir iperf -c HOST [OPTIONS]\n       weir iperf -s [OPTIONS]",
    disable_version_flag = true,
    after_help = "Called by a link of the name iperf, weir is this command.\n\
                  Results are stored as those of weir test are (weir runs list).\n\
                  Exit codes: 0 done, 1 any error, 2 a wrong flag."
)]
pub(crate) struct IperfArgs {
    /// Run a test against this server
    #[arg(
        short = 'c',
        long,
        value_name = "HOST",
        required_unless_present_any = ["server", "version"],
        conflicts_with = "server",
        help_heading = "Client"
    )]
    client: Option<String>,
    /// Serve clients of TCP and UDP, many at the same time
    #[arg(short = 's', long, help_heading = "Server")]
    server: bool,
    /// Run in the background
    #[arg(short = 'D', long, conflicts_with = "client", help_heading = "Server")]
    daemon: bool,
    /// Set by -D for the process in the background.
    #[arg(long, hide = true, conflicts_with = "client")]
    in_background: bool,

    /// UDP instead of TCP; of a server, only its first lines are those of UDP
    #[arg(short = 'u', long)]
    udp: bool,
    /// Port of the server
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 5001, value_parser = values::whole(1_u16..=65_535))]
    port: u16,
    /// Unit of volumes and rates: a, b, k, m, g, t (bits) or A, B, K, M, G, T (bytes)
    #[arg(short = 'f', long, value_name = "UNIT")]
    format: Option<Iperf2Unit>,
    /// Seconds between rows [default: one row at the end]
    #[arg(short = 'i', long, value_name = "SECONDS")]
    interval: Option<String>,
    /// Bytes of a write or of a datagram [default: 128K for TCP, 1470 for UDP, 1450 with IPv6]
    #[arg(short = 'l', long, visible_alias = "len", value_name = "SIZE")]
    length: Option<String>,
    /// Size of the socket buffers
    #[arg(short = 'w', long, value_name = "SIZE", conflicts_with = "server")]
    window: Option<String>,
    /// Address of this end, optionally with its port or its interface
    #[arg(short = 'B', long, value_name = "ADDRESS[:PORT][%INTERFACE]")]
    bind: Option<String>,
    /// IPv6
    #[arg(short = 'V', long = "ipv6_domain")]
    ipv6: bool,
    /// More columns
    #[arg(short = 'e', long, alias = "enhancedreports")]
    enhanced: bool,
    /// Rows as CSV: C or c
    #[arg(short = 'y', long, value_name = "C", value_parser = ["C", "c"])]
    reportstyle: Option<String>,
    /// Append the output to this file
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Of several streams, print only the sums
    #[arg(long)]
    sum_only: bool,
    /// Print the version
    #[arg(short = 'v', long, exclusive = true)]
    version: bool,

    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    accepted: AcceptedArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Client")]
#[group(id = "IperfTraffic")]
struct TrafficArgs {
    /// Seconds to send [default: 10]
    #[arg(short = 't', long, value_name = "SECONDS", conflicts_with = "server")]
    time: Option<String>,
    /// Instead of -t: bytes that each stream sends
    #[arg(short = 'n', long, value_name = "SIZE", conflicts_with_all = ["time", "server"])]
    num: Option<String>,
    /// Rate of each stream, bit/s or packets per second (pps) [default: 1M for UDP, unlimited for TCP]
    #[arg(short = 'b', long, value_name = "RATE", conflicts_with = "server")]
    bandwidth: Option<String>,
    /// Streams
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = values::whole(1_u32..=1024), conflicts_with = "server")]
    parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "server")]
    reverse: bool,
    /// Both ends send, on the same sockets
    #[arg(long = "full-duplex", conflicts_with_all = ["reverse", "server"])]
    full_duplex: bool,
    /// TCP maximum segment size
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with = "server")]
    mss: Option<String>,
    /// Do not delay small segments (TCP_NODELAY)
    #[arg(short = 'N', long, conflicts_with = "server")]
    nodelay: bool,
    /// Type of service: decimal, 0x hexadecimal or 0 octal
    #[arg(short = 'S', long, value_name = "BYTE", conflicts_with = "server")]
    tos: Option<String>,
    /// Time to live
    #[arg(short = 'T', long, value_name = "HOPS", conflicts_with = "server")]
    ttl: Option<String>,
    /// TCP congestion control
    #[arg(
        short = 'Z',
        long = "linux-congestion",
        visible_alias = "tcp-congestion",
        value_name = "NAME",
        conflicts_with = "server"
    )]
    congestion: Option<String>,
}

/// Flags that are accepted for scripts, without an effect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Without an effect")]
#[group(id = "IperfAccepted")]
struct AcceptedArgs {
    /// Several clients are served at the same time
    #[arg(short = '1', long = "singleclient", conflicts_with = "client")]
    single_client: bool,
    /// Headers state what Weir supports
    #[arg(short = 'X', long, conflicts_with = "server")]
    peer_detect: bool,
    /// The clocks of the two ends may differ, so that there is no one-way delay
    #[arg(long, conflicts_with = "server")]
    trip_times: bool,
    /// The segment size is in the stored result
    #[arg(short = 'm', long = "print_mss")]
    print_mss: bool,
}

/// A size with iperf's suffix: K, M and G are powers of 1024, k, m and g of 1000.
///
/// # Errors
/// The flag, and what it accepts.
fn size(flag: &str, text: &str) -> Result<u64, CliError> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" => Some(1.0),
        "K" => Some(1024.0),
        "M" => Some(1024.0 * 1024.0),
        "G" => Some(1024.0 * 1024.0 * 1024.0),
        "k" => Some(1e3),
        "m" => Some(1e6),
        "g" => Some(1e9),
        _ => None,
    };
    let number = digits.parse::<f64>().ok().zip(factor).map(|(number, factor)| number * factor);
    match number.filter(|number| (0.0..9e15).contains(number)) {
        Some(number) => Ok(number as u64),
        None => {
            let accepted = "a number, optionally with K, M, G (powers of 1024), k, m or g";
            Err(CliError::flag(flag, text, accepted))
        }
    }
}

/// Bytes of a datagram, where none are stated.
const DATAGRAM: u64 = 1470;
const DATAGRAM_IPV6: u64 = 1450;
/// Rate of datagrams where none is stated, bit/s.
const RATE: &str = "1M";

impl IperfArgs {
    pub(super) fn wants_version(&self) -> bool {
        self.version
    }

    pub(super) fn is_server(&self) -> bool {
        self.server
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn udp(&self) -> bool {
        self.udp
    }

    pub(super) fn runs_in(&self) -> (bool, bool) {
        (self.daemon, self.in_background)
    }

    pub(super) fn logfile(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    pub(super) fn has_rows(&self) -> bool {
        self.interval.is_some()
    }

    fn is_ipv6(&self) -> bool {
        let host = self.client.as_deref().unwrap_or_default();
        self.ipv6 || host.contains(':')
    }

    /// Address, port and interface of this end.
    fn bound(&self) -> (Option<&str>, Option<&str>, Option<&str>) {
        let Some(text) = self.bind.as_deref() else { return (None, None, None) };
        let (text, device) = match text.split_once('%') {
            Some((text, device)) => (text, Some(device)),
            None => (text, None),
        };
        match text.rsplit_once(':') {
            // An IPv6 address has a port only behind brackets.
            Some((address, port)) if !address.contains(':') || address.ends_with(']') => {
                (Some(address.trim_matches(['[', ']'])), Some(port), device)
            }
            _ => (Some(text).filter(|text| !text.is_empty()), None, device),
        }
    }

    /// The addresses of a server; empty: all.
    ///
    /// # Errors
    /// A name.
    pub(super) fn addresses(&self) -> Result<Vec<std::net::IpAddr>, CliError> {
        match self.bound().0 {
            Some(text) => {
                let address = values::address(text).map(|address| vec![address]);
                address.map_err(|accepted| CliError::flag("--bind", text, &accepted))
            }
            None if self.ipv6 => Ok(vec![std::net::Ipv6Addr::UNSPECIFIED.into()]),
            None => Ok(vec![]),
        }
    }

    pub(super) fn options(&self) -> Iperf2Options {
        Iperf2Options {
            unit: self.format.unwrap_or_default(),
            enhanced: self.enhanced,
            csv: self.reportstyle.is_some(),
            sum_only: self.sum_only,
        }
    }

    /// How a client's test is printed.
    ///
    /// # Errors
    /// An invalid size.
    pub(super) fn settings(&self) -> Result<IperfSettings, CliError> {
        let requested = self.window.as_deref().map(|text| size("--window", text)).transpose()?;
        let asked = requested.and_then(|bytes| u32::try_from(bytes).ok());
        let [send, receive] = fresh_buffers(self.udp, [asked; 2]);
        Ok(IperfSettings {
            options: self.options(),
            udp: self.udp,
            has_rows: self.has_rows(),
            buffer: if self.traffic.reverse { receive } else { send },
            requested,
            length: self.bytes()?,
        })
    }

    /// Bytes of a write or of a datagram.
    fn bytes(&self) -> Result<Option<u64>, CliError> {
        let usual = if self.is_ipv6() { DATAGRAM_IPV6 } else { DATAGRAM };
        match self.length.as_deref() {
            Some(text) => size("--length", text).map(Some),
            None => Ok(self.udp.then_some(usual)),
        }
    }

    /// The rate as `weir test` has it.
    fn rate(&self) -> Result<Option<String>, CliError> {
        let given = self.traffic.bandwidth.as_deref();
        let Some(text) = given.or(self.udp.then_some(RATE)) else { return Ok(None) };
        if text.ends_with("pps") {
            return Ok(Some(text.into()));
        }
        Ok(Some(size("--bandwidth", text)?.to_string()))
    }

    /// The command line of `weir test` that runs the client's test.
    ///
    /// # Errors
    /// A value that it has no flag for.
    pub(super) fn test_words(&self) -> Result<Vec<String>, CliError> {
        let t = &self.traffic;
        let mut words: Vec<String> = ["iperf", "--peer", "iperf2"].map(String::from).into();
        let mut valued = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{flag}={value}")));
        };
        let bytes = |flag: &str, text: &Option<String>| {
            let size = text.as_deref().map(|text| size(flag, text)).transpose()?;
            Ok::<_, CliError>(size.map(|size| size.to_string()))
        };
        let (address, port, device) = self.bound();
        valued("--port", Some(self.port.to_string()));
        valued("--interval", self.interval.clone());
        valued("--bind", address.map(String::from));
        valued("--cport", port.map(String::from));
        valued("--bind-dev", device.map(String::from));
        valued("--logfile", self.output.as_ref().map(|path| path.to_string_lossy().into()));
        valued("--length", self.bytes()?.map(|bytes| bytes.to_string()));
        valued("--window", bytes("--window", &self.window)?);
        valued("--time", t.time.clone());
        valued("--bytes", bytes("--num", &t.num)?);
        valued("--bitrate", self.rate()?);
        valued("--parallel", Some(t.parallel.to_string()));
        valued("--set-mss", t.mss.clone());
        valued("--tos", t.tos.clone());
        valued("--ttl", t.ttl.clone());
        valued("--congestion", t.congestion.clone());
        let switches = [
            ("--ipv6", self.is_ipv6()),
            ("--udp", self.udp),
            ("--reverse", t.reverse),
            ("--bidir", t.full_duplex),
            ("--no-delay", t.nodelay),
        ];
        words.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| (*flag).into()));
        words.extend(["--".into(), self.client.clone().unwrap_or_default()]);
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Top {
        #[command(flatten)]
        args: IperfArgs,
    }

    fn parse(line: &str) -> Result<IperfArgs, clap::Error> {
        let words = std::iter::once("iperf").chain(line.split_whitespace());
        Top::try_parse_from(words).map(|top| top.args)
    }

    fn words(line: &str) -> Vec<String> {
        parse(line).unwrap().test_words().unwrap()
    }

    #[test]
    fn every_line_of_a_client_is_one_of_weir_test() {
        for line in [
            "-c h",
            "-c h -R -i 0.5 -w 64K -M 1400 -S 0x10 -N -f m -e",
            "-c h --full-duplex -P 4 -n 10M -y C --sum-only",
            "-c h -u -b 10M -l 1000 -t 5 -T 3 -V --trip-times -X",
            "-c h -B 127.0.0.1:5002 -Z cubic -o file",
            "-c h -u -b 500pps -B [::1]:9",
        ] {
            let typed = words(line).into_iter().map(std::ffi::OsString::from);
            crate::commands::tool::Line::try_parse_from(typed)
                .unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }

    #[test]
    fn capitals_are_powers_of_1024() {
        let line = words("-c h -u -b 10M -n 1m -w 64k");
        for word in ["--bitrate=10485760", "--bytes=1000000", "--window=64000", "--length=1470"] {
            assert!(line.iter().any(|other| other == word), "{word} in {line:?}");
        }
        assert!(words("-c ::1 -u").contains(&"--length=1450".into()));
        assert!(words("-c h -B [::1]:9%eth0").contains(&"--cport=9".into()));
        assert!(words("-c h -B 2001:db8::1").contains(&"--bind=2001:db8::1".into()));
        assert!(parse("-c h -n 5X").unwrap().test_words().is_err());
    }

    #[test]
    fn flags_of_one_end_and_tests_that_connect_back_are_refused() {
        for line in ["", "-s -R", "-c h -D", "-s -c h", "-c h -d", "-c h -r", "-c h -y j"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
