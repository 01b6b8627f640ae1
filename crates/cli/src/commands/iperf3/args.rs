//! The flags of iperf3, and the flags of `weir test` that mean the same.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_model::units::ByteSize;
use weir_peers::{Extras, Login, LoginError, Logins, Padding, TotalRateLimit};
use weir_report::{Iperf3Options, Iperf3Unit};

use super::output::{Iperf3Form, Iperf3Settings};
use crate::commands::values;
use crate::error::CliError;

/// Flags, text and JSON of iperf3, for scripts that use it
#[derive(Debug, Args)]
#[command(
    override_usage = "weir iperf3 -c HOST [OPTIONS]\n       weir iperf3 -s [OPTIONS]",
    disable_version_flag = true,
    after_help = "Called by a link of the name iperf3, weir is this command.\n\
                  Results are stored as those of weir test are (weir runs list).\n\
                  Exit codes: 0 done, 1 any error, 2 a wrong flag."
)]
pub(crate) struct Iperf3Args {
    /// Run a test against this server; HOST%INTERFACE as with --bind-dev
    #[arg(
        short = 'c',
        long,
        value_name = "HOST",
        required_unless_present_any = ["server", "version"],
        conflicts_with = "server",
        help_heading = "Client"
    )]
    client: Option<String>,
    /// Serve clients, many at the same time
    #[arg(short = 's', long, help_heading = "Server")]
    server: bool,

    /// Port of the server
    #[arg(short = 'p', long, value_name = "PORT", default_value_t = 5201, value_parser = values::whole(1_u16..=65_535))]
    port: u16,
    /// Unit of rates: k, m, g, t (bits) or K, M, G, T (bytes)
    #[arg(short = 'f', long, value_name = "UNIT")]
    format: Option<Iperf3Unit>,
    /// Seconds between rows; 0: no rows
    #[arg(short = 'i', long, value_name = "SECONDS")]
    interval: Option<String>,
    /// Write the process id to this file
    #[arg(short = 'I', long, value_name = "FILE", conflicts_with = "client")]
    pidfile: Option<PathBuf>,
    /// CPU of this end's threads
    #[arg(short = 'A', long, value_name = "CPU")]
    affinity: Option<String>,
    /// Address of this end, optionally with its interface
    #[arg(short = 'B', long, value_name = "ADDRESS[%INTERFACE]")]
    bind: Option<String>,
    /// Interface of this end (SO_BINDTODEVICE)
    #[arg(long, value_name = "INTERFACE", conflicts_with = "server")]
    bind_dev: Option<String>,
    /// Print details
    #[arg(short = 'V', long)]
    verbose: bool,
    /// Print the result as JSON
    #[arg(short = 'J', long, conflicts_with = "json_stream")]
    json: bool,
    /// Print one JSON object a line, while the test runs
    #[arg(long)]
    json_stream: bool,
    /// Append the output to this file
    #[arg(long, value_name = "FILE")]
    logfile: Option<PathBuf>,
    /// Prefix each line with the time, in this strftime format
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    timestamps: Option<String>,
    /// Print the version
    #[arg(short = 'v', long, exclusive = true)]
    version: bool,
    /// Pad credentials by PKCS#1 v1.5, as iperf3 before 3.17 does
    #[arg(long)]
    use_pkcs1_padding: bool,
    /// IPv4 only
    #[arg(short = '4', long = "version4", conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long = "version6")]
    ipv6: bool,

    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    serving: ServingArgs,
    #[command(flatten)]
    accepted: AcceptedArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Client")]
#[group(id = "Iperf3Traffic")]
struct TrafficArgs {
    /// UDP instead of TCP
    #[arg(short = 'u', long, conflicts_with = "server")]
    udp: bool,
    /// MPTCP instead of TCP
    #[arg(short = 'm', long, conflicts_with_all = ["udp", "server"])]
    mptcp: bool,
    /// Give up connecting after this number of milliseconds
    #[arg(long, value_name = "MILLISECONDS", value_parser = values::whole(1_u32..=600_000), conflicts_with = "server")]
    connect_timeout: Option<u32>,
    /// Rate of each stream, bit/s, with the number of packets of a burst; 0: unlimited [default: 1M for UDP, unlimited for TCP]
    #[arg(
        short = 'b',
        long,
        visible_alias = "bandwidth",
        value_name = "RATE[/N]",
        conflicts_with = "server"
    )]
    bitrate: Option<String>,
    /// Rate at which the kernel paces each stream, bit/s
    #[arg(long, value_name = "RATE", conflicts_with = "server")]
    fq_rate: Option<String>,
    /// Seconds to send; 0: until stopped [default: 10]
    #[arg(short = 't', long, value_name = "SECONDS", value_parser = values::whole(0_u32..=604_800), conflicts_with = "server")]
    time: Option<u32>,
    /// Instead of -t: bytes to send, all streams of a direction together
    #[arg(short = 'n', long, value_name = "SIZE", conflicts_with_all = ["time", "server"])]
    bytes: Option<ByteSize>,
    /// Instead of -t: blocks or datagrams to send, all streams of a direction together
    #[arg(short = 'k', long, visible_alias = "blocks", value_name = "N", conflicts_with_all = ["time", "bytes", "server"])]
    blockcount: Option<ByteSize>,
    /// Bytes of a write or of a datagram [default: 128K for TCP, what fits into a packet for UDP]
    #[arg(
        short = 'l',
        long,
        visible_alias = "len",
        value_name = "SIZE",
        conflicts_with = "server"
    )]
    length: Option<String>,
    /// Port of the client's first stream
    #[arg(long, value_name = "PORT", conflicts_with = "server")]
    cport: Option<String>,
    /// Streams in each direction, 1 to 128
    #[arg(short = 'P', long, value_name = "N", default_value_t = 1, value_parser = values::whole(1_u32..=128), conflicts_with = "server")]
    parallel: u32,
    /// The server sends
    #[arg(short = 'R', long, conflicts_with = "server")]
    reverse: bool,
    /// Both ends send
    #[arg(long, conflicts_with_all = ["reverse", "server"])]
    bidir: bool,
    /// Size of the socket buffers
    #[arg(short = 'w', long, value_name = "SIZE", conflicts_with = "server")]
    window: Option<String>,
    /// TCP congestion control
    #[arg(
        short = 'C',
        long,
        visible_alias = "linux-congestion",
        value_name = "NAME",
        conflicts_with = "server"
    )]
    congestion: Option<String>,
    /// TCP maximum segment size
    #[arg(short = 'M', long, value_name = "BYTES", conflicts_with = "server")]
    set_mss: Option<String>,
    /// Do not delay small segments (TCP_NODELAY)
    #[arg(short = 'N', long, visible_alias = "nodelay", conflicts_with = "server")]
    no_delay: bool,
    /// Type of service, 0 to 255: decimal, 0x hexadecimal or 0 octal
    #[arg(short = 'S', long, value_name = "BYTE", conflicts_with_all = ["dscp", "server"])]
    tos: Option<String>,
    /// DSCP, 0 to 63 or a name
    #[arg(long, value_name = "DSCP", conflicts_with = "server")]
    dscp: Option<String>,
    /// IPv6 flow label
    #[arg(short = 'L', long, value_name = "LABEL", conflicts_with = "server")]
    flowlabel: Option<String>,
    /// Send without copying
    #[arg(short = 'Z', long, conflicts_with = "server")]
    zerocopy: bool,
    /// Discard received data in the kernel
    #[arg(long, conflicts_with = "server")]
    skip_rx_copy: bool,
    /// Seconds at the start that are not counted
    #[arg(short = 'O', long, value_name = "SECONDS", conflicts_with = "server")]
    omit: Option<String>,
    /// Prefix each line with this text
    #[arg(short = 'T', long, value_name = "TEXT", conflicts_with = "server")]
    title: Option<String>,
    /// Text that the JSON output has, and that of an iperf3 server
    #[arg(long, value_name = "TEXT", conflicts_with = "server")]
    extra_data: Option<String>,
    /// Print the server's output as well
    #[arg(long, conflicts_with = "server")]
    get_server_output: bool,
    /// Log in as this user; the password is that of IPERF3_PASSWORD, or asked for
    #[arg(long, value_name = "NAME", conflicts_with = "server", requires = "rsa_public_key_path")]
    username: Option<String>,
    /// The server's public RSA key (PEM)
    #[arg(long, value_name = "FILE", conflicts_with = "server", requires = "username")]
    rsa_public_key_path: Option<PathBuf>,
    /// Number datagrams with 64 bits
    #[arg(long, conflicts_with = "server")]
    udp_counters_64bit: bool,
    /// Repeat a pattern in the payload instead of random bytes
    #[arg(long, conflicts_with = "server")]
    repeating_payload: bool,
    /// Send the content of this file instead of random bytes; without -t, -n and -k each stream sends it once
    #[arg(short = 'F', long, value_name = "FILE", conflicts_with_all = ["repeating_payload", "reverse", "bidir", "server"])]
    file: Option<PathBuf>,
    /// Set the IPv4 flag Don't Fragment
    #[arg(long, conflicts_with = "server")]
    dont_fragment: bool,
    /// Give up after data has been unacknowledged for this number of milliseconds
    #[arg(long, value_name = "MILLISECONDS", value_parser = values::whole(1_u32..=86_400_000), conflicts_with = "server")]
    snd_timeout: Option<u32>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Server")]
#[group(id = "Iperf3Serving")]
pub(super) struct ServingArgs {
    /// Run in the background
    #[arg(short = 'D', long, conflicts_with = "client")]
    pub(super) daemon: bool,
    /// Exit after one client
    #[arg(short = '1', long, conflicts_with = "client")]
    pub(super) one_off: bool,
    /// Serve only users that log in: the server's private RSA key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "client",
        requires = "authorized_users_path"
    )]
    pub(super) rsa_private_key_path: Option<PathBuf>,
    /// Their file: USER,HASH in each line, the SHA-256 of {USER}PASSWORD in hexadecimal
    #[arg(long, value_name = "FILE", conflicts_with = "client", requires = "rsa_private_key_path")]
    pub(super) authorized_users_path: Option<PathBuf>,
    /// Accepted difference between the clocks of server and client, seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10, conflicts_with = "client")]
    pub(super) time_skew_threshold: u32,
    /// Maximum duration of a test, seconds
    #[arg(long, value_name = "SECONDS", value_parser = values::whole(1_u64..=604_800), conflicts_with = "client")]
    pub(super) server_max_duration: Option<u64>,
    /// Maximum rate of a test, bit/s, all its streams and both directions together, as a mean over 5 or S seconds; 0:
    /// unlimited. A test that exceeds it is ended
    #[arg(long, value_name = "RATE[/S]", conflicts_with = "client")]
    pub(super) server_bitrate_limit: Option<TotalRateLimit>,
    /// Set by -D for the process in the background.
    #[arg(long, hide = true, conflicts_with = "client")]
    pub(super) in_background: bool,
}

/// Flags that are accepted for scripts, without an effect.
#[derive(Debug, Args)]
#[command(next_help_heading = "Without an effect")]
#[group(id = "Iperf3Accepted")]
struct AcceptedArgs {
    /// Every line is written immediately
    #[arg(long)]
    forceflush: bool,
    /// Weir paces by its own clock
    #[arg(long, value_name = "MICROSECONDS")]
    pacing_timer: Option<String>,
    /// A silent end is noticed by keepalives
    #[arg(long, value_name = "MILLISECONDS")]
    rcv_timeout: Option<String>,
    /// The control connection has keepalives
    #[arg(long, value_name = "IDLE/INTERVAL/COUNT", num_args = 0..=1, require_equals = true)]
    cntl_ka: Option<Option<String>>,
    /// A server does not get stuck: it serves other clients meanwhile
    #[arg(long, value_name = "SECONDS")]
    idle_timeout: Option<String>,
    /// GSO and GRO are used where they help
    #[arg(long)]
    gsro: bool,
    /// No debugging output
    #[arg(short = 'd', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true)]
    debug: Option<Option<String>>,
}

/// Digits, as iperf3's repeating payload.
const PATTERN: &str = "pattern:30313233343536373839";

impl Iperf3Args {
    pub(super) fn wants_version(&self) -> bool {
        self.version
    }

    pub(super) fn is_server(&self) -> bool {
        self.server
    }

    /// The form of the output.
    pub(super) fn form(&self) -> Iperf3Form {
        match (self.json, self.json_stream) {
            (true, _) => Iperf3Form::Json,
            (_, true) => Iperf3Form::Stream,
            _ => Iperf3Form::Text,
        }
    }

    pub(super) fn output(&self) -> Iperf3Settings {
        Iperf3Settings {
            form: self.form(),
            extra_data: self.traffic.extra_data.clone(),
            options: Iperf3Options { unit: self.format.unwrap_or_default(), verbose: self.verbose },
        }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn serving(&self) -> &ServingArgs {
        &self.serving
    }

    pub(super) fn logfile(&self) -> Option<&std::path::Path> {
        self.logfile.as_deref()
    }

    pub(super) fn pidfile(&self) -> Option<&std::path::Path> {
        self.pidfile.as_deref()
    }

    /// The format of the times before each line of text.
    ///
    /// # Errors
    /// A conversion that is not known.
    pub(super) fn timestamps(&self) -> Result<Option<crate::time::Format>, CliError> {
        let Some(format) = &self.timestamps else { return Ok(None) };
        let format = if format.is_empty() { "%FT%T%:z " } else { format };
        let read = values::time_format(format);
        read.map(Some).map_err(|accepted| CliError::flag("--timestamps", format, &accepted))
    }

    /// The addresses of a server; empty: all.
    ///
    /// # Errors
    /// A name, or an address with an interface.
    pub(super) fn addresses(&self) -> Result<Vec<std::net::IpAddr>, CliError> {
        let address = |text: &String| {
            values::address(text).map_err(|accepted| CliError::flag("--bind", text, &accepted))
        };
        match &self.bind {
            Some(text) => Ok(vec![address(text)?]),
            None if self.ipv4 => Ok(vec![std::net::Ipv4Addr::UNSPECIFIED.into()]),
            None if self.ipv6 => Ok(vec![std::net::Ipv6Addr::UNSPECIFIED.into()]),
            None => Ok(vec![]),
        }
    }

    /// The CPU of this end.
    ///
    /// # Errors
    /// A CPU of the server, which the protocol of Weir's client does not state.
    pub(super) fn cpus(&self) -> Result<Option<values::Cpus>, CliError> {
        let Some(text) = &self.affinity else { return Ok(None) };
        let accepted = "the number of a CPU of this host";
        let cpu = text.parse::<u32>().ok().and_then(|_| text.parse().ok());
        cpu.map(Some).ok_or_else(|| CliError::flag("--affinity", text, accepted))
    }

    /// How credentials are padded.
    pub(super) fn padding(&self) -> Padding {
        if self.use_pkcs1_padding { Padding::Pkcs1 } else { Padding::Oaep }
    }

    /// What only a client of iperf3 asks for.
    ///
    /// # Errors
    /// A key that can't be read or is none, or a password that is not given.
    pub(super) fn extras(&self) -> Result<Extras, CliError> {
        let t = &self.traffic;
        let login = match (&t.username, &t.rsa_public_key_path) {
            (Some(user), Some(path)) => {
                let key = read("--rsa-public-key-path", path)?;
                let login = Login::new(user, &password()?, &key, self.padding());
                Some(login.map_err(|error| match error {
                    LoginError::PublicKey => refused("--rsa-public-key-path", path, error),
                    _ => CliError::flag("--username", user, &error.to_string()),
                })?)
            }
            _ => None,
        };
        let extra_data = t.extra_data.clone();
        Ok(Extras { login, server_output: t.get_server_output, extra_data })
    }

    /// The users that a server accepts; absent: all clients.
    ///
    /// # Errors
    /// A file that can't be read, or is neither a key nor a list of users.
    pub(super) fn logins(&self) -> Result<Option<Logins>, CliError> {
        let s = &self.serving;
        let (Some(key), Some(users)) = (&s.rsa_private_key_path, &s.authorized_users_path) else {
            return Ok(None);
        };
        let pem = read("--rsa-private-key-path", key)?;
        let list = read("--authorized-users-path", users)?;
        let logins = Logins::new(&pem, &list, s.time_skew_threshold, self.padding());
        logins.map(Some).map_err(|error| match error {
            LoginError::Users(_) => refused("--authorized-users-path", users, error),
            _ => refused("--rsa-private-key-path", key, error),
        })
    }

    /// The command line of `weir test` that runs the client's test.
    ///
    /// # Errors
    /// A value that it has no flag for.
    pub(super) fn test_words(&self) -> Result<Vec<String>, CliError> {
        let t = &self.traffic;
        let client = self.client.as_deref().unwrap_or_default();
        // fe80::1%eth0 is an address with its zone; name%eth0 is --bind-dev.
        let (host, device) = match client.split_once('%') {
            Some((host, device)) if !host.contains(':') => (host, Some(device)),
            _ => (client, None),
        };
        let mut words: Vec<String> = ["iperf3", "--peer", "iperf3"].map(String::from).into();
        let each = |amount: ByteSize| amount.0.div_ceil(u64::from(t.parallel)).to_string();
        let milliseconds = |ms: u32| format!("{ms}ms");
        let mut valued = |flag: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{flag}={value}")));
        };
        valued("--port", Some(self.port.to_string()));
        valued("--interval", self.interval.clone());
        valued("--affinity", self.cpus()?.map(|cpus| cpus.to_string()));
        valued("--bind", self.bind.clone());
        valued("--bind-dev", self.bind_dev.clone().or(device.map(String::from)));
        valued("--logfile", self.logfile.as_ref().map(|path| path.to_string_lossy().into()));
        valued("--file", t.file.as_ref().map(|path| path.to_string_lossy().into()));
        valued("--connect-timeout", t.connect_timeout.map(milliseconds));
        valued("--bitrate", t.bitrate.clone());
        valued("--fq-rate", t.fq_rate.clone());
        valued("--time", t.time.map(|seconds| seconds.to_string()));
        valued("--bytes", t.bytes.map(each));
        valued("--packets", t.blockcount.map(each));
        valued("--length", t.length.clone());
        valued("--cport", t.cport.clone());
        valued("--parallel", Some(t.parallel.to_string()));
        valued("--window", t.window.clone());
        valued("--congestion", t.congestion.clone());
        valued("--set-mss", t.set_mss.clone());
        valued("--tos", t.tos.clone());
        valued("--dscp", t.dscp.clone());
        valued("--flowlabel", t.flowlabel.clone());
        valued("--omit", t.omit.clone());
        valued("--title", t.title.clone());
        valued("--snd-timeout", t.snd_timeout.map(milliseconds));
        valued("--transport", t.mptcp.then(|| "mptcp".into()));
        valued("--header", t.udp_counters_64bit.then(|| "iperf3-64bit".into()));
        valued("--content", t.repeating_payload.then(|| PATTERN.into()));
        let switches = [
            ("--ipv4", self.ipv4),
            ("--ipv6", self.ipv6),
            ("--udp", t.udp),
            ("--reverse", t.reverse),
            ("--bidir", t.bidir),
            ("--no-delay", t.no_delay),
            ("--zerocopy", t.zerocopy),
            ("--skip-rx-copy", t.skip_rx_copy),
            ("--dont-fragment", t.dont_fragment),
        ];
        words.extend(switches.iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| (*flag).into()));
        words.extend(["--".into(), host.into()]);
        Ok(words)
    }
}

/// Maximum length of a key and of a list of users, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a file.
fn read(flag: &'static str, path: &Path) -> Result<String, CliError> {
    use std::io::Read;
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text));
    read.map(|_| text).map_err(CliError::io(flag, path))
}

fn refused(flag: &str, path: &Path, error: LoginError) -> CliError {
    CliError::flag(flag, path.display().to_string(), &error.to_string())
}

/// The password of a user: that of the environment, as with iperf3, or one that is typed.
fn password() -> Result<String, CliError> {
    let missing = |given: &str| {
        CliError::flag("IPERF3_PASSWORD", given, "a password, or a terminal to ask for it")
    };
    match std::env::var("IPERF3_PASSWORD") {
        Ok(password) => Ok(password),
        Err(std::env::VarError::NotUnicode(_)) => Err(missing("not text")),
        Err(std::env::VarError::NotPresent) => {
            rpassword::prompt_password("Password: ").map_err(|_| missing("missing"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Iperf3Args,
    }

    fn words(line: &str) -> Vec<String> {
        let words = std::iter::once("iperf3").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().args.test_words().unwrap()
    }

    #[test]
    fn flags_become_those_of_weir_test() {
        let line = words("-c h -u -b 10M/5 -t 3 -P 4 -R -l 1400 -4 --connect-timeout 250 -p 7");
        for expected in [
            "--udp",
            "--bitrate=10M/5",
            "--time=3",
            "--parallel=4",
            "--reverse",
            "--length=1400",
            "--ipv4",
            "--connect-timeout=250ms",
            "--port=7",
        ] {
            assert!(line.iter().any(|word| word == expected), "{expected} in {line:?}");
        }
        assert_eq!(line.last().unwrap(), "h");
    }

    #[test]
    fn amounts_are_of_all_streams_together() {
        assert!(words("-c h -P 4 -n 10M").contains(&"--bytes=2621440".into()));
        assert!(words("-c h -P 3 -k 1K").contains(&"--packets=342".into()));
    }

    #[test]
    fn an_interface_follows_a_name_but_belongs_to_an_address() {
        let named = words("-c far%eth0");
        assert_eq!(named.last().unwrap(), "far");
        assert!(named.contains(&"--bind-dev=eth0".into()));
        assert_eq!(words("-c fe80::1%eth0").last().unwrap(), "fe80::1%eth0");
    }

    #[test]
    fn every_line_of_a_client_is_one_of_weir_test() {
        for line in [
            "-c h",
            "-c h -R -O 1 -i 0.5 -C cubic -N -w 64K -M 1400 -S 0x10 -Z -T title",
            "-c h --bidir -V -f m --timestamps --forceflush -d",
            "-c h -u -b 0 --udp-counters-64bit --repeating-payload --dont-fragment --dscp ef",
            "-c h -F data.bin -n 1M",
            "-c h --cport 5000 --skip-rx-copy --fq-rate 1M --snd-timeout 500 -6 -L 5",
        ] {
            let typed = words(line).into_iter().map(std::ffi::OsString::from);
            crate::commands::tool::Line::try_parse_from(typed)
                .unwrap_or_else(|e| panic!("{line}: {e}"));
        }
    }

    #[test]
    fn flags_of_one_end_are_refused_at_the_other() {
        for line in [
            "-s -u",
            "-s -c h",
            "-c h -1",
            "-c h -D",
            "",
            "-c h -t 1 -n 5",
            "-s -R",
            "-s -F f",
            "-c h -F f -R",
            "-c h --server-bitrate-limit 1M",
        ] {
            let words = std::iter::once("iperf3").chain(line.split_whitespace());
            assert!(Line::try_parse_from(words).is_err(), "{line}");
        }
    }
}
