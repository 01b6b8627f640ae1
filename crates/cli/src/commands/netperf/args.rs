//! The flags of netperf, and the flags of `weir test` that mean the same.

mod test_flags;

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{Args, Parser};
use weir_model::plan::Family;
use weir_peers::{NetperfServerOptions, NetperfWanted};
use weir_report::{
    NetperfConfidence, NetperfExchange, NetperfKind, NetperfOptions, NetperfUnit, netperf_names,
};

use super::values::{both, explicit, family, number, size, tos};
use crate::commands::tool::fresh_buffers;
use crate::commands::values;
use crate::error::CliError;
use crate::parsed;
use test_flags::TestFlags;

/// Flags and text of netperf, for scripts that use it
#[derive(Debug, Args)]
#[command(
    override_usage = "weir netperf [OPTIONS] [-- TEST OPTIONS]",
    disable_version_flag = true,
    after_help = "TEST OPTIONS, after `--`: weir netperf -- --help lists them.\n\
                  Called by a link of the name netperf, weir is this command.\n\
                  Results are stored as those of weir test are (weir runs list).\n\
                  Exit codes: 0 done, 1 any error, 2 a wrong flag."
)]
pub(crate) struct NetperfArgs {
    /// Host that runs netserver, and its family: inet or inet6 [default: localhost]
    #[arg(short = 'H', value_name = "HOST[,FAMILY]")]
    host: Option<String>,
    /// Port of netserver
    #[arg(short = 'p', value_name = "PORT", default_value_t = 12865, value_parser = values::whole(1_u16..=65_535))]
    port: u16,
    /// Test: TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR, UDP_STREAM, UDP_RR or OMNI
    #[arg(short = 't', value_name = "TEST", default_value = "TCP_STREAM")]
    test_name: String,
    /// Seconds; if negative, bytes or transactions [default: 10]
    #[arg(short = 'l', value_name = "LENGTH", allow_hyphen_values = true)]
    length: Option<String>,
    /// Unit of rates: k, m, g (bits), K, M, G (bytes), x (transactions) or u (microseconds)
    #[arg(short = 'f', value_name = "UNIT")]
    format: Option<NetperfUnit>,
    /// Headings: 0 without, 1 with
    #[arg(short = 'P', value_name = "0|1", default_value_t = 1, value_parser = values::whole(0_u8..=1))]
    headings: u8,
    /// 0: only the result; 2: details
    #[arg(short = 'v', value_name = "LEVEL", default_value_t = 1, value_parser = values::whole(0_u32..=9))]
    verbosity: u32,
    /// Text at the end of a result without headings
    #[arg(short = 'B', value_name = "TEXT")]
    brand: Option<String>,
    /// Measure the processor time of this host
    #[arg(short = 'c', value_name = "RATE", num_args = 0..=1)]
    local_cpu: Option<Option<String>>,
    /// Measure the processor time of the server's host
    #[arg(short = 'C', value_name = "RATE", num_args = 0..=1)]
    remote_cpu: Option<Option<String>>,
    /// Print interim results at this interval, seconds; the sign and UNITS have no effect
    #[arg(short = 'D', value_name = "SECONDS[,UNITS]", allow_hyphen_values = true)]
    demo: Option<String>,
    /// Maximum and minimum number of tests, 3 to 30 [default of -I: 10,3]
    #[arg(short = 'i', value_name = "MAX[,MIN]")]
    iterations: Option<String>,
    /// Repeat the test until its result is certain: level (95 or 99) and width of the interval, percent [default of -i: 99,5]
    #[arg(short = 'I', value_name = "LEVEL[,WIDTH]")]
    confidence: Option<String>,
    /// With -I: the result alone, not processor time
    #[arg(short = 'r')]
    result_only: bool,
    /// Address of this end, and its family
    #[arg(short = 'L', value_name = "ADDRESS[,FAMILY]")]
    local: Option<String>,
    /// IPv4 only
    #[arg(short = '4', conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6')]
    ipv6: bool,
    /// TOS bytes of this end and of the server's, as numbers or names of DSCPs
    #[arg(short = 'Y', value_name = "LOCAL[,REMOTE]")]
    tos: Option<String>,
    /// Socket priorities (SO_PRIORITY) of this end and of the server's
    #[arg(short = 'y', value_name = "LOCAL[,REMOTE]")]
    priority: Option<String>,
    /// Content of the data: /dev/urandom, /dev/zero or a file
    #[arg(short = 'F', value_name = "FILE")]
    fill_file: Option<String>,
    /// Wait before the test, seconds
    #[arg(short = 's', value_name = "SECONDS", default_value_t = 0, value_parser = values::whole(0_u64..=86_400))]
    wait: u64,
    /// Send this passphrase first
    #[arg(short = 'Z', value_name = "PASSPHRASE")]
    passphrase: Option<String>,
    /// Print the version
    #[arg(short = 'V', exclusive = true)]
    version: bool,
    /// Without an effect: response times are always measured
    #[arg(short = 'j')]
    statistics: bool,
    /// Without an effect: the system knows the number of processors
    #[arg(short = 'n', value_name = "NUMBER")]
    processors: Option<u32>,
    /// Without an effect: connections have keepalives
    #[arg(short = 'S')]
    keepalive: bool,
    /// Without an effect: no debugging output
    #[arg(short = 'd', action = clap::ArgAction::Count)]
    debug: u8,
    /// Options of the test
    #[arg(last = true, value_name = "TEST OPTIONS", allow_hyphen_values = true)]
    test: Vec<OsString>,
}

/// The flags after `--`.
#[derive(Debug, Parser)]
#[command(name = "netperf --", disable_version_flag = true)]
struct TestLine {
    #[command(flatten)]
    flags: TestFlags,
}

/// What a command line asks for.
#[derive(Debug)]
pub(super) struct Asked {
    /// Arguments of `weir test`.
    pub(super) words: Vec<String>,
    pub(super) options: NetperfOptions,
    pub(super) wanted: NetperfWanted,
    /// The address of this end, if it is stated.
    pub(super) local: Option<String>,
    pub(super) has_interim: bool,
    pub(super) wait: Duration,
    /// Socket buffers of this end, for sending and receiving: requested, and of a new socket.
    pub(super) requested_buffers: [Option<u64>; 2],
    pub(super) buffers: [Option<u64>; 2],
    pub(super) priority: Option<u32>,
    pub(super) cork: bool,
}

/// Largest datagram, bytes.
const MAX_DATAGRAM: u64 = 65_507;
/// Limits on the number of repeated tests.
const RUNS: std::ops::RangeInclusive<u32> = 3..=30;
/// Number of repeated tests where only the confidence is stated.
const USUAL_RUNS: [u32; 2] = [3, 10];
/// Width of the confidence interval where none is stated, percent.
const USUAL_WIDTH: f64 = 5.0;

impl NetperfArgs {
    pub(super) fn wants_version(&self) -> bool {
        self.version
    }

    fn flags(&self) -> Result<TestFlags, CliError> {
        let name = OsString::from("netperf --");
        let words: Vec<OsString> = std::iter::once(name).chain(self.test.iter().cloned()).collect();
        match parsed::read(&words, |words| TestLine::try_parse_from(words)) {
            Ok(line) => Ok(line.flags),
            Err(error) if !error.use_stderr() => {
                let _ = error.print();
                std::process::exit(0)
            }
            Err(error) => Err(CliError::Refused(Box::new(parsed::refusal(&error, &[])))),
        }
    }

    /// The list of names, as `-o ?` prints it.
    pub(super) fn names(&self) -> Result<String, CliError> {
        let separator = if self.flags()?.lists_in_lines() { "\n" } else { "," };
        Ok(netperf_names().collect::<Vec<_>>().join(separator) + "\n")
    }

    /// Whether processor time of an end is measured. `-cC` is both.
    fn measures(&self) -> Result<[bool; 2], CliError> {
        let mut wanted = [self.local_cpu.is_some(), self.remote_cpu.is_some()];
        for (i, (flag, other, given)) in
            [("-c", "C", &self.local_cpu), ("-C", "c", &self.remote_cpu)].into_iter().enumerate()
        {
            match given.as_ref().and_then(Option::as_deref) {
                None => {}
                Some(text) if text == other => wanted[1 - i] = true,
                Some(text) if text.parse::<f64>().is_ok() => {}
                Some(text) => return Err(CliError::flag(flag, text, "nothing, or a rate")),
            }
        }
        Ok(wanted)
    }

    fn kind(&self, flags: &TestFlags) -> Result<(NetperfKind, bool), CliError> {
        let is_udp = flags.is_udp()?;
        let kind = match self.test_name.to_ascii_uppercase().as_str() {
            "TCP_STREAM" => NetperfKind::TcpStream,
            "TCP_MAERTS" => NetperfKind::TcpMaerts,
            "TCP_RR" => NetperfKind::TcpRr,
            "TCP_CRR" => NetperfKind::TcpCrr,
            "UDP_STREAM" => return Ok((NetperfKind::UdpStream, true)),
            "UDP_RR" => return Ok((NetperfKind::UdpRr, true)),
            "OMNI" => return Ok((NetperfKind::Omni(flags.exchange()?), is_udp.unwrap_or(false))),
            _ => {
                let accepted =
                    "TCP_STREAM, TCP_MAERTS, TCP_RR, TCP_CRR, UDP_STREAM, UDP_RR or OMNI";
                return Err(CliError::flag("-t", &self.test_name, accepted));
            }
        };
        Ok((kind, false))
    }

    fn runs(&self) -> Result<Option<NetperfConfidence>, CliError> {
        if self.iterations.is_none() && self.confidence.is_none() {
            return Ok(None);
        }
        let count = |text: &str| {
            let count = number("-i", text)?;
            Ok::<u32, CliError>(u32::try_from(count).unwrap_or(0).clamp(*RUNS.start(), *RUNS.end()))
        };
        let [most, least] = both(self.iterations.as_deref());
        let least = least.map(count).transpose()?.unwrap_or(USUAL_RUNS[0]);
        let most = most.map(count).transpose()?.unwrap_or(USUAL_RUNS[1]).max(least);
        let [level, width] = explicit(self.confidence.as_deref());
        let level_percent = match level {
            None | Some("99") => 99,
            Some("95") => 95,
            Some(other) => return Err(CliError::flag("-I", other, "95 or 99")),
        };
        let width_percent = match width.map(str::parse::<f64>) {
            None => USUAL_WIDTH,
            Some(Ok(width)) if width > 0.0 && width.is_finite() => width,
            Some(_) => {
                let given = width.unwrap_or_default();
                return Err(CliError::flag("-I", given, "a width above 0, percent"));
            }
        };
        let runs = [least, most];
        Ok(Some(NetperfConfidence {
            level_percent,
            width_percent,
            runs,
            result_only: self.result_only,
        }))
    }

    /// The control host and its family; the addresses of this end.
    fn host(&self) -> Result<(String, Option<Family>), CliError> {
        let [host, stated] = explicit(self.host.as_deref());
        let [_, local] = explicit(self.local.as_deref());
        let mut wanted = stated.map(|text| family("-H", text)).transpose()?.flatten();
        if let Some(local) = local {
            wanted = wanted.or(family("-L", local)?);
        }
        wanted = match (self.ipv4, self.ipv6) {
            (true, _) => Some(Family::Ipv4),
            (_, true) => Some(Family::Ipv6),
            _ => wanted,
        };
        let usual = if wanted == Some(Family::Ipv6) { "::1" } else { "localhost" };
        Ok((host.unwrap_or(usual).into(), wanted))
    }

    /// What the command line asks for; `None`: a list of names.
    ///
    /// # Errors
    /// A flag or a value that is not accepted, by its name.
    pub(super) fn asked(&self, words: &[OsString]) -> Result<Option<Asked>, CliError> {
        let flags = self.flags()?;
        let Some(form) = flags.form()? else { return Ok(None) };
        let (kind, is_udp) = self.kind(&flags)?;
        let exchange = kind.exchange();
        let (host, family) = self.host()?;
        let cpu = self.measures()?;
        let (local, data_address) = self.addresses(&flags, &host, family)?;
        let requested = flags.buffers("-s", flags.local_buffers())?;
        let buffers = fresh_buffers(is_udp, requested);
        let [own_tos, far_tos] = both(self.tos.as_deref());
        let far_tos = far_tos.map(|text| tos("-Y", text)).transpose()?;
        let [own_priority, far_priority] = both(self.priority.as_deref());
        let priority = |text: Option<&str>| text.map(|text| size("-y", text)).transpose();
        let far_priority = priority(far_priority)?.map(|size| size.unwrap_or(0));
        let own_priority = priority(own_priority)?.map(|size| size.unwrap_or(0));
        let [send_buffer, receive_buffer] = flags.buffers("-S", flags.remote_buffers())?;
        let (send_size, far_send_size) = flags.send_sizes()?;
        let server = NetperfServerOptions {
            send_buffer,
            receive_buffer,
            send_size: far_send_size.filter(|_| exchange == NetperfExchange::Receive),
            receive_size: flags.remote_receive_size()?,
            data_port: flags.ports()?[1].unwrap_or(0),
            priority: far_priority,
            tos: far_tos.map(u32::from),
            congestion: flags.congestion()[1].map(String::from),
        };
        let mut line: Vec<String> = ["netperf", "--peer", "netperf"].map(String::from).into();
        let mut valued = |flag: &str, value: Option<String>| {
            line.extend(value.map(|value| format!("{flag}={value}")));
        };
        valued("--port", Some(self.port.to_string()));
        valued("--interval", self.interim()?.map(|seconds| format!("{seconds}s")));
        valued("--bind", local.clone());
        valued(
            "--tos",
            own_tos.map(|text| tos("-Y", text)).transpose()?.map(|tos| tos.to_string()),
        );
        valued("--priority", own_priority.map(|priority| priority.to_string()));
        let window = match (exchange, requested) {
            (NetperfExchange::Send, [send, _]) => send,
            (NetperfExchange::Receive, [_, receive]) => receive,
            (_, [send, receive]) if send == receive => send,
            _ => {
                let given = flags.local_buffers().unwrap_or_default();
                return Err(CliError::flag("-s", given, "one size for sending and receiving"));
            }
        };
        valued("--window", window.map(|window| window.to_string()));
        valued("--content", self.content());
        valued("--cport", flags.ports()?[0].map(|port| port.to_string()));
        valued("--set-mss", flags.mss().map(|mss| mss.to_string()));
        let sends = exchange != NetperfExchange::Receive;
        valued(
            "--congestion",
            flags.congestion()[0].filter(|_| sends && !is_udp).map(String::from),
        );
        let (length, is_stream) = match exchange {
            NetperfExchange::Send => {
                let usual = buffers[0].unwrap_or(0);
                let usual = if is_udp { usual.min(MAX_DATAGRAM) } else { usual };
                let size = send_size.map_or(usual, u64::from);
                valued(
                    "--length",
                    Some(size).filter(|size| *size > 0).map(|size| size.to_string()),
                );
                valued("--bitrate", Some("0".into()));
                (None, true)
            }
            NetperfExchange::Receive => (Some("--reverse"), true),
            NetperfExchange::Transactions => (Some("--rr"), false),
            NetperfExchange::Connections => (Some("--shape=crr"), false),
        };
        if !is_stream {
            let [request, response] = flags.sizes()?;
            valued("--request", Some(request.unwrap_or(1).to_string()));
            valued("--response", Some(response.unwrap_or(1).to_string()));
            let outstanding = (flags.burst() > 0).then(|| (1 + flags.burst()).to_string());
            valued("--outstanding", outstanding);
        }
        let amount = number("-l", self.length.as_deref().unwrap_or("10"))?;
        match (amount, is_stream) {
            (0.., _) => valued("--time", Some(amount.to_string())),
            (_, true) => valued("--bytes", Some(amount.unsigned_abs().to_string())),
            (_, false) => valued("--packets", Some(amount.unsigned_abs().to_string())),
        }
        let switches = [
            ("--udp", is_udp),
            ("--ipv4", family == Some(Family::Ipv4)),
            ("--ipv6", family == Some(Family::Ipv6)),
            ("--no-delay", flags.no_delay() && !is_udp),
            ("--cork", flags.cork() && sends && !is_udp),
        ];
        line.extend(length.map(String::from));
        line.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| (*flag).into()));
        line.extend(["--".into(), host]);
        let command = words.iter().skip(1).map(|word| word.to_string_lossy());
        let options = NetperfOptions {
            kind,
            form,
            unit: self.format,
            verbosity: self.verbosity,
            headings: self.headings > 0,
            brand: self.brand.clone(),
            burst: flags.burst(),
            no_delay: flags.no_delay(),
            cpu: cpu.contains(&true),
            confidence: self.runs()?,
            uuid: flags.uuid(),
            command_line: command.collect::<Vec<_>>().join(" "),
        };
        Ok(Some(Asked {
            words: line,
            options,
            wanted: NetperfWanted {
                passphrase: self.passphrase.clone(),
                cpu,
                server: Some(server),
                data_address,
            },
            local,
            has_interim: self.demo.is_some(),
            wait: Duration::from_secs(self.wait),
            requested_buffers: requested.map(|bytes| bytes.map(u64::from)),
            buffers,
            priority: own_priority,
            cork: flags.cork(),
        }))
    }

    /// The address of this end, and that of the data at the server where it is another one than that of the control connection.
    fn addresses(
        &self,
        flags: &TestFlags,
        host: &str,
        family: Option<Family>,
    ) -> Result<(Option<String>, Option<IpAddr>), CliError> {
        let [control, _] = explicit(self.local.as_deref());
        let [data, _] = explicit(flags.local_address());
        if let (Some(control), Some(data)) = (control, data)
            && control != data
        {
            return Err(CliError::flag("-L", data, "one address of this end"));
        }
        let [remote, _] = explicit(flags.remote_address());
        let data_address = match remote.filter(|remote| *remote != host) {
            None => None,
            Some(remote) => {
                let is_wanted = |address: &SocketAddr| match family {
                    None => true,
                    Some(family) => address.is_ipv6() == (family == Family::Ipv6),
                };
                let found = (remote, 0).to_socket_addrs().ok();
                let found = found.and_then(|mut all| all.find(is_wanted));
                let accepted = "a host with an address";
                Some(found.ok_or_else(|| CliError::flag("-H", remote, accepted))?.ip())
            }
        };
        Ok((control.or(data).map(String::from), data_address))
    }

    /// Seconds between interim results.
    fn interim(&self) -> Result<Option<f64>, CliError> {
        let [seconds, _] = explicit(self.demo.as_deref());
        let Some(text) = seconds else { return Ok(None) };
        let seconds = text.parse::<f64>().ok().map(f64::abs);
        match seconds.filter(|seconds| (0.01..=3600.0).contains(seconds)) {
            Some(seconds) => Ok(Some(seconds)),
            None => Err(CliError::flag("-D", text, "0.01 to 3600 seconds")),
        }
    }

    /// The content of the data.
    fn content(&self) -> Option<String> {
        let [own, _] = explicit(self.fill_file.as_deref());
        match own? {
            "/dev/urandom" | "/dev/random" => None,
            "/dev/zero" => Some("zeros".into()),
            path => Some(format!("file:{path}")),
        }
    }
}

/// The forms of results.
fn selected(text: Option<&str>) -> Result<weir_report::NetperfSelection, CliError> {
    use weir_report::NetperfSelection;
    const MAX_BYTES: u64 = 1 << 16;
    match text {
        None => Ok(NetperfSelection::default()),
        Some(text) if NetperfSelection::is_direct(text) => Ok(NetperfSelection::parse(text)),
        Some(path) => {
            use std::io::Read;
            let mut text = String::new();
            let read = std::fs::File::open(path)
                .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text));
            read.map_err(CliError::io("output selection", std::path::Path::new(path)))?;
            Ok(NetperfSelection::parse(&text))
        }
    }
}

#[cfg(test)]
mod tests;
