//! The flags of iperf, and the flags of `weir test` that mean the same.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_model::impairment::Prefixes;
use weir_model::plan::Scope;
use weir_peers::{
    CallBacks, Iperf2CallBack, Iperf2Extras, Iperf2Group, Iperf2Isochronous, Iperf2WorkingLoad,
};
use weir_report::{Iperf2Bounce, Iperf2Options, Iperf2Unit};

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
    /// Also send datagrams back (-d, -r) to these addresses or prefixes, to which a forged source makes this server send
    #[arg(
        long,
        value_name = "PREFIX[,PREFIX]",
        conflicts_with = "client",
        help_heading = "Server"
    )]
    udp_call_back: Option<Prefixes>,
    /// With -B GROUP: receive from this sender alone (source-specific multicast)
    #[arg(
        short = 'H',
        long,
        value_name = "ADDRESS",
        requires = "bind",
        conflicts_with = "client",
        help_heading = "Server"
    )]
    ssm_host: Option<String>,
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
    /// Address of this end, optionally with its port or its interface; of a server also a multicast group, which it joins
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
    /// Both ends send; the server connects back to this end
    #[arg(short = 'd', long, conflicts_with_all = ["reverse", "full_duplex", "server"])]
    dualtest: bool,
    /// The same, one after the other
    #[arg(short = 'r', long, conflicts_with_all = ["reverse", "full_duplex", "dualtest", "server"])]
    tradeoff: bool,
    /// Port of this end to which the server connects back [default: chosen by the system]
    #[arg(short = 'L', long = "listenport", value_name = "PORT", value_parser = values::whole(1024_u16..=65_535), conflicts_with = "server")]
    listen_port: Option<u16>,
    /// Measure round trips: requests that the server sends back, this many in each burst [default: 10]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "10", value_parser = values::whole(1_u32..=10_000), conflicts_with_all = ["udp", "num", "bandwidth", "reverse", "full_duplex", "dualtest", "tradeoff", "server"])]
    bounceback: Option<u32>,
    /// Milliseconds that the server waits before each response
    #[arg(long, value_name = "MILLISECONDS", requires = "bounceback")]
    bounceback_hold: Option<String>,
    /// Seconds from one burst to the next; 0: one request after the other [default: 1]
    #[arg(long, value_name = "SECONDS", requires = "bounceback")]
    bounceback_period: Option<String>,
    /// Load the path meanwhile by N streams (default: 1) of the client (up), of the server (down), or of both [default: bidir]
    #[arg(long, value_name = "up|down|bidir[,N]", num_args = 0..=1, require_equals = true, default_missing_value = "bidir", requires = "bounceback")]
    bounceback_congest: Option<String>,
    /// Let the server delay acknowledgements
    #[arg(long, requires = "bounceback")]
    bounceback_no_quickack: bool,
    /// Send frames: their number per second, and mean and standard deviation of the rate in bits (k, m, g) or bytes (K, M, G) per second; 25p: datagrams of a frame [default: 60:20m,0]
    #[arg(long, value_name = "FPS:MEAN[,DEVIATION]", num_args = 0..=1, require_equals = true, default_missing_value = "60:20m,0", conflicts_with_all = ["num", "bandwidth", "dualtest", "tradeoff", "bounceback", "server"])]
    isochronous: Option<String>,
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
/// Bytes of a request, where none are stated.
const BOUNCE: u64 = 100;
/// Rate of datagrams where none is stated, bit/s.
const RATE: &str = "1M";

/// Whether an address is a multicast group that is not one of a link.
fn is_beyond_link(address: std::net::IpAddr) -> bool {
    address.is_multicast() && (address.is_ipv4() || Scope::of(address) != Some(Scope::Link))
}

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

    /// What only a client of iperf2 asks for.
    ///
    /// # Errors
    /// An invalid time or rate.
    pub(super) fn extras(&self) -> Result<Iperf2Extras, CliError> {
        let t = &self.traffic;
        let call_back = (t.dualtest || t.tradeoff)
            .then_some(Iperf2CallBack { is_after: t.tradeoff, port: t.listen_port });
        let hold = t.bounceback_hold.as_deref().unwrap_or("0");
        let hold_us = hold.parse::<f64>().ok().filter(|ms| (0.0..=10_000.0).contains(ms));
        let hold_us = hold_us
            .ok_or_else(|| CliError::flag("--bounceback-hold", hold, "milliseconds, 0 to 10000"))?;
        let hold_us = (1000.0 * hold_us) as u32;
        Ok(Iperf2Extras {
            call_back,
            hold_us,
            no_quick_ack: t.bounceback_no_quickack,
            isochronous: self.isochronous()?,
            load: self.load()?,
        })
    }

    /// The streams alongside a test of round trips.
    fn load(&self) -> Result<Option<Iperf2WorkingLoad>, CliError> {
        let Some(text) = self.traffic.bounceback_congest.as_deref() else { return Ok(None) };
        let (ways, streams) = text.split_once(',').unwrap_or((text, "1"));
        let ways = match ways {
            "up" => Some((true, false)),
            "down" => Some((false, true)),
            "bidir" => Some((true, true)),
            _ => None,
        };
        let streams = streams.parse().ok().filter(|streams| (1..=1024).contains(streams));
        match ways.zip(streams) {
            Some(((up, down), streams)) => Ok(Some(Iperf2WorkingLoad { up, down, streams })),
            None => {
                let accepted =
                    "up, down or bidir, and a number of streams up to 1024, such as up,2";
                Err(CliError::flag("--bounceback-congest", text, accepted))
            }
        }
    }

    /// The frames of an isochronous test.
    fn isochronous(&self) -> Result<Option<Iperf2Isochronous>, CliError> {
        let Some(text) = self.traffic.isochronous.as_deref() else { return Ok(None) };
        let refused = || {
            let accepted = "FPS:MEAN[,DEVIATION], such as 60:20m,2m, or FPS:Np";
            CliError::flag("--isochronous", text, accepted)
        };
        let (fps, rates) = text.split_once(':').ok_or_else(refused)?;
        let frames_per_second: f64 = fps.parse().map_err(|_| refused())?;
        let (mean, deviation) = rates.split_once(',').unwrap_or((rates, "0"));
        let rate = |text: &str| {
            let number = size("--isochronous", text).map_err(|_| refused())? as f64;
            let is_bytes = text.ends_with(|c: char| c.is_ascii_uppercase());
            Ok::<_, CliError>(if is_bytes { 8.0 * number } else { number })
        };
        let mean = match mean.strip_suffix('p') {
            Some(packets) if self.udp => {
                let packets: u32 = packets.parse().map_err(|_| refused())?;
                let length = self.bytes()?.unwrap_or(0) as f64;
                8.0 * length * frames_per_second * f64::from(packets)
            }
            _ => rate(mean)?,
        };
        let deviation = rate(deviation)?;
        Ok(Some(Iperf2Isochronous { frames_per_second, mean, deviation }))
    }

    /// The requests of a burst and the seconds from one to the next, of a test of round trips.
    fn bursts(&self) -> Result<Option<(u32, f64)>, CliError> {
        let t = &self.traffic;
        let Some(burst) = t.bounceback else { return Ok(None) };
        let period = t.bounceback_period.as_deref().unwrap_or("1");
        let seconds =
            period.parse::<f64>().ok().filter(|s| *s == 0.0 || (0.001..=3600.0).contains(s));
        match seconds {
            Some(seconds) => Ok(Some((burst, seconds))),
            None => {
                let accepted = "seconds, 0.001 to 3600, or 0: one request after the other";
                Err(CliError::flag("--bounceback-period", period, accepted))
            }
        }
    }

    /// The tests that a server serves by connecting back.
    pub(super) fn call_backs(&self) -> CallBacks {
        self.udp_call_back.clone().map_or(CallBacks::Streams, CallBacks::Listed)
    }

    fn is_ipv6(&self) -> bool {
        let host = self.client.as_deref().unwrap_or_default();
        self.ipv6 || host.contains(':')
    }

    /// The server, and the interface behind a multicast group. The resolver takes only those of a link.
    fn host(&self) -> (&str, Option<&str>) {
        let host = self.client.as_deref().unwrap_or_default();
        let Some((group, interface)) = host.split_once('%') else { return (host, None) };
        match group.parse::<std::net::IpAddr>() {
            Ok(group_address) if is_beyond_link(group_address) => (group, Some(interface)),
            _ => (host, None),
        }
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

    /// The multicast group of a server; absent: its address is none.
    ///
    /// # Errors
    /// A name, or a source without a group.
    pub(super) fn group(&self) -> Result<Option<Iperf2Group>, CliError> {
        let addresses = self.addresses()?;
        let Some(address) = addresses.into_iter().find(|address| address.is_multicast()) else {
            return match self.ssm_host.as_deref() {
                Some(text) => Err(CliError::flag("--ssm-host", text, "with -B GROUP")),
                None => Ok(None),
            };
        };
        let source = self.ssm_host.as_deref().map(|text| {
            values::address(text).map_err(|accepted| CliError::flag("--ssm-host", text, &accepted))
        });
        let interface = self.bound().2.map(String::from);
        Ok(Some(Iperf2Group { address, source: source.transpose()?, interface }))
    }

    pub(super) fn options(&self) -> Iperf2Options {
        Iperf2Options {
            unit: self.format.unwrap_or_default(),
            enhanced: self.enhanced,
            csv: self.reportstyle.is_some(),
            sum_only: self.sum_only,
            calls_back: self.traffic.dualtest || self.traffic.tradeoff,
            bounce: self.traffic.bounceback.and_then(|_| {
                let Iperf2Extras { hold_us, no_quick_ack, .. } = self.extras().ok()?;
                Some(Iperf2Bounce { hold_us, quick_ack: !no_quick_ack })
            }),
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
            bursts: self.bursts()?,
        })
    }

    /// Bytes of a write or of a datagram.
    fn bytes(&self) -> Result<Option<u64>, CliError> {
        // A server that sends has no room for more than its own default of IPv6.
        let t = &self.traffic;
        let is_small = self.is_ipv6() || t.reverse || t.full_duplex || t.dualtest || t.tradeoff;
        let usual = if is_small { DATAGRAM_IPV6 } else { DATAGRAM };
        match self.length.as_deref() {
            Some(text) => size("--length", text).map(Some),
            None if self.traffic.bounceback.is_some() => Ok(Some(BOUNCE)),
            None => Ok(self.udp.then_some(usual)),
        }
    }

    /// The rate as `weir test` has it.
    fn rate(&self) -> Result<Option<String>, CliError> {
        if let Some((burst, seconds)) = self.bursts()?.filter(|(_, seconds)| *seconds > 0.0) {
            return Ok(Some(format!("{}pps/{burst}", f64::from(burst) / seconds)));
        }
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
        let (host, interface) = self.host();
        valued("--port", Some(self.port.to_string()));
        valued("--interval", self.interval.clone());
        valued("--bind", address.map(String::from));
        valued("--cport", port.map(String::from));
        valued("--bind-dev", device.or(interface).map(String::from));
        valued("--logfile", self.output.as_ref().map(|path| path.to_string_lossy().into()));
        let length = self.bytes()?.map(|bytes| bytes.to_string());
        match t.bounceback {
            Some(_) => {
                valued("--request", length.clone());
                valued("--response", length);
            }
            None => valued("--length", length),
        }
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
            ("--rr", t.bounceback.is_some()),
            ("--reverse", t.reverse),
            ("--bidir", t.full_duplex || t.dualtest || t.tradeoff),
            ("--no-delay", t.nodelay),
        ];
        words.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| (*flag).into()));
        words.extend(["--".into(), host.to_owned()]);
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
            "-c h -d -L 6001",
            "-c h -r -u -P 2",
            "-c h -u --isochronous=10:100k,10k -t 2",
            "-c h --isochronous",
            "-c h --isochronous=10:1m -R",
            "-c h -u --isochronous=10:1m --full-duplex",
            "-c h --bounceback -e -i 1",
            "-c h --bounceback=3 --bounceback-period=0.2 --bounceback-hold=5 -l 200 -P 2",
            "-c h --bounceback --bounceback-period 0 --bounceback-no-quickack -N",
            "-c h --bounceback --bounceback-congest",
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
        let line = words("-c ff15::1%eth0 -u");
        assert!(line.contains(&"--bind-dev=eth0".into()) && line.ends_with(&["ff15::1".into()]));
        assert!(words("-c ff02::1%eth0 -u").ends_with(&["ff02::1%eth0".into()]));
        assert!(words("-c fe80::1%eth0 -u").ends_with(&["fe80::1%eth0".into()]));
        assert!(parse("-c h -n 5X").unwrap().test_words().is_err());
    }

    #[test]
    fn a_load_has_its_directions_and_streams() {
        let load = |value: &str| {
            parse(&format!("-c h --bounceback --bounceback-congest{value}")).unwrap().load()
        };
        for (value, up, down, streams) in
            [("", true, true, 1), ("=up", true, false, 1), ("=down,3", false, true, 3)]
        {
            let wanted = Iperf2WorkingLoad { up, down, streams };
            assert_eq!(load(value).unwrap(), Some(wanted), "{value}");
        }
        for value in ["=both", "=up,0", "=up,1025", "=up,x", "=,2"] {
            assert!(load(value).is_err(), "{value}");
        }
        assert!(parse("-c h --bounceback-congest").is_err());
    }

    #[test]
    fn a_server_bound_to_a_group_joins_it() {
        let group = |line: &str| parse(line).unwrap().group();
        let joined = group("-s -u -B 232.1.2.3%eth0 -H 192.0.2.1").unwrap().unwrap();
        assert_eq!(joined.address, "232.1.2.3".parse::<std::net::IpAddr>().unwrap());
        assert_eq!(
            (joined.source, &*joined.interface.unwrap()),
            ("192.0.2.1".parse().ok(), "eth0")
        );
        let joined = group("-s -V -B ff15::1").unwrap().unwrap();
        assert_eq!((joined.source, joined.interface), (None, None));
        assert_eq!(group("-s -B 192.0.2.1").unwrap(), None);
        assert_eq!(group("-s").unwrap(), None);
        assert!(group("-s -B 192.0.2.1 -H 192.0.2.2").is_err());
        assert!(group("-s -B 232.1.2.3 -H host").is_err());
        assert!(parse("-s -H 192.0.2.1").is_err());
    }

    #[test]
    fn flags_of_one_end_are_refused() {
        for line in
            ["", "-s -R", "-c h -D", "-s -c h", "-c h -d -r", "-c h -d -R", "-s -d", "-c h -y j"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
