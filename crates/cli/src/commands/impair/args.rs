//! The flags of `weir impair`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser as _};
use clap::{Args, Subcommand};
use serde::Serialize;
use weir_emulator::{AlarmKind, AlarmSelection, LinkMode};
use weir_model::ModelError;
use weir_model::impairment::{
    DeliveryTrace, Impairment, Laws, Netem, Other, Prefix, Rate, Timeline,
};
use weir_model::units::{ByteSize, Seed, Span};

use super::on::OnArgs;
use super::record::{CaptureVerb, LogVerb};
use super::serve::ServerArgs;
use super::topology::{self, ParallelPath};
use crate::commands::values;
use crate::error::CliError;
use crate::job::notice;
use crate::random;

/// The grammar of laws, the words of netem, and how the command ends. `weir man` makes sections of it.
const HELP: &str = "\
LAWS is a list of terms, separated by commas or only by the name of the next one.

Laws:
  loss P%                  each packet with this probability
  loss P% run N            in bursts of N packets on average
  loss P% P%               with a correlation of consecutive losses; the mean
                           stays P%
  loss every N             every Nth packet
  loss burst N [after N] [every N]
                           N packets, once or repeatedly
  loss ber RATIO           by bit errors: long frames more often
  loss ... ecn             marks ECN-capable packets instead of dropping them
  loss ge P% [to-good R%] [bad B%] [good G%]
                           Gilbert-Elliott: P% and R% are the transitions, B%
                           and G% the loss in each state [100-P, 100, 0]
  duplicate P% [P%] [copies N] [after T]
                           N copies [1] with this probability, after a time
  duplicate every N ...    of every Nth packet
  police R burst B [excess B|peak R peak-burst B] [green ACTION]
         [yellow ACTION] [red ACTION] [colour-aware] [ecn] [overhead N]
                           packets beyond a rate and a burst are red [drop],
                           yellow [pass] within an excess burst or peak rate.
                           ACTION is pass, drop or dscp NAME. ecn: marks
                           ECN-capable packets instead of dropping them.
                           colour-aware: by the DSCP with which they arrive
  mtu N [drop|icmp|fragment]
                           what happens to longer IP packets [drop]: icmp
                           also reports the limit to their senders, fragment
                           does so where IPv4 can't be fragmented
  rate R [burst B [peak R]] [queue T|B|Npackets] [AQM|background P% [run N]]
       [overhead N] [cells N+N]
                           rate of a link, its queue [250ms], bytes added to
                           each packet [18; 38: the whole wire], and cells
                           into which it is cut: 48+5 (ATM). burst: bytes
                           that leave after a pause without waiting, or at
                           the peak rate: a shaper. background: load by other
                           packets, in bursts of N on average [1]
                           AQM is one of head_drop, red, pie, codel, fq_codel
                           and dualpi2, then names and values of parameters:
                           codel target 5ms interval 100ms ecn. Without it, a
                           full queue drops arriving packets
  rate trace @FILE [once] [queue ...] [AQM|background ...] [overhead N]
                           instead of a rate: a trace of mahimahi, a line with
                           the millisecond of each delivery opportunity of
                           1504 bytes; each packet has 4 more [overhead].
                           trace(MS ...) has the milliseconds themselves
  delay T                  constant
  delay T ±J [normal|uniform|exponential [most T]|pareto|paretonormal]
                           mean T, standard deviation J [normal], half width J
                           (uniform); most: longer delays become this
  delay MIN..MAX           uniform
  delay ... [fifo-release|allow|smooth|max] [correlation P% | half-life T]
                           order of packets, see below; correlation with the
                           packet before, or half of it per time T
  reorder P% [P%] [by Npackets|T] [ahead] [within T]
                           these packets leave after N later ones [1], or T
                           later; ahead: they overtake instead; within: a
                           packet waits no longer for others [1s]
  reorder every N ...      every Nth packet
  batch N within T         N packets leave together, or fewer after T
  batch every T [packets N] [bytes B]
                           in time slots of limited size
  corrupt P% [leave|repair|checksum] [CHANGE] [at PLACE]
                           PLACE is payload, l4, l3 or l2, then [+OFFSET]
                           [:LENGTH] in bytes. Checksums are left [leave],
                           updated, or the only bytes that are damaged. CHANGE
                           is flip N (bits) [1], random N (bytes), swap N
                           (pairs of bytes), set HEX[/MASK], or ber RATIO
  corrupt ... bleach-ecn P%
                           clears ECN fields
  order STAGE...           order of loss, duplicate, police, mtu, rate,
                           delay, reorder, batch, content
  trigger [CONDITION] [stop CONDITION [rearm [repeat N]]]
                           applies the laws from the first to the second
                           CONDITION [immediately, always], again [rearm],
                           N times at most. CONDITION is after Npackets,
                           after B, after T, match(FIELD=VALUE, ...) with
                           fields of a filter, or command (`weir impair
                           trigger`). The packet that meets a CONDITION is
                           the first with laws, or without
  none                     no laws
  loss LAW(KEY=VALUE, ...), delay LAW(KEY=VALUE, ...)
                           any law of docs/impairment-laws.md: outages, gaps,
                           patterns; gamma, Weibull, tables, sine, ...:
                           delay gamma(shape=2, scale=5ms) allow
  delay @FILE              delays from a file, in their order

Order of packets:
  fifo-release             kept: the packet that waits longest leaves next
  allow                    packets overtake each other
  smooth                   kept: delays vary slowly, with half-life T
  max                      kept: no packet leaves before its predecessor

Values:
  P                        percent, with the sign: 1%
  T, J                     time with its unit: 100us, 20ms, 1.5s
  R                        bits per second: 10M, 2.5G, 100Mbit (K is 1000);
                           Mbps is bits, unlike in tc
  B                        bytes: 64K (K is 1024)
  ±                        may be written +-

From netem, also all at once by --netem 'WORDS', which knows tc's units:
  delay 100ms 10ms         the same: uniform; in order unless allow follows
  delay ... distribution normal
                           delay 100ms ±10ms normal
  delay ... distribution paretonormal
                           the same; the tail is not cut
  delay ... distribution pareto
                           the same; the tail is not cut
  delay 100ms 10ms 25%     the same; the distribution stays as stated
  delay 100ms reorder 25% 50%
                           reorder 25% 50% by 100ms ahead
  duplicate 1% 25%         the same; the mean stays 1%
  slot 10ms                batch every 10ms
  loss random 1%           loss 1%
  loss 1% 25%              the same; the mean stays 1%
  loss gemodel 1% 10% 70% 0.1%
                           loss ge 1% to-good 10% bad 70% good 0.1%
  loss state ...           loss four_state(p13_percentage=1, ...)
  limit 1000               rate R queue 999packets: packets that wait

`weir profiles` lists presets. After the first SIGINT or SIGTERM queued packets leave (2 s at most); a second one ends immediately.

Exit codes: 0 done or SIGTERM, 2 bad input or an interface that is refused, 3 an interface was removed, 4 not permitted or not available, 130 interrupted.";

/// Impair the path between two interfaces: loss, delay, rate, duplication, damage
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    override_usage = "weir impair [OPTIONS] A B [LAWS]\n       weir impair [OPTIONS] --local INTERFACE --to PREFIX [LAWS]\n       weir impair [OPTIONS] --pcap-in FILE --pcap-out FILE\n       weir impair exec [OPTIONS] [LAWS] -- COMMAND\n       weir impair serve [OPTIONS]\n       weir impair list|end|set|show|start|stop|trigger|capture|log|trace|stats|reset|save|acknowledge|clear|thresholds …",
    after_help = HELP
)]
pub(crate) struct ImpairArgs {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

/// The flags that define an impairment.
#[derive(Clone, Debug, Args, Default)]
pub(crate) struct LawArgs {
    /// Laws of both directions, in one line
    #[arg(long, value_name = "LAWS", value_parser = values::laws, conflicts_with_all = ["a_to_b", "b_to_a"])]
    pub(crate) both: Option<Laws>,
    /// Laws for packets that enter at A
    #[arg(long, value_name = "LAWS", value_parser = values::laws)]
    pub(crate) a_to_b: Option<Laws>,
    /// Laws for packets that enter at B
    #[arg(long, value_name = "LAWS", value_parser = values::laws)]
    pub(crate) b_to_a: Option<Laws>,
    /// Laws of both directions in the words and units of tc's netem; prints their translation, and how it differs from netem
    #[arg(long, value_name = "WORDS", conflicts_with_all = ["both", "a_to_b", "b_to_a"])]
    pub(crate) netem: Option<Netem>,
    /// Delivery opportunities of both directions from two files of mahimahi, as for mm-link, in addition to laws without a rate: from A
    /// to B and from B to A. The queue is limited by memory alone
    #[arg(long, num_args = 2, value_names = ["UPLINK", "DOWNLINK"], value_parser = values::delivery_trace)]
    pub(crate) mahimahi: Vec<DeliveryTrace>,
    /// A preset for directions without laws above; A is the client's side (`weir profiles`; also 3g, lte, satellite)
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// A parallel path: laws of both directions for this share of the connections (30% LAWS) or of the packets (30% of packets
    /// LAWS); repeat it for more. What is left has the laws above
    #[arg(long = "path", value_name = "SHARE LAWS")]
    pub(crate) paths: Vec<ParallelPath>,
    /// A further hop: laws of both directions for all packets, behind the laws above; repeat it for more
    #[arg(long = "hop", value_name = "LAWS", value_parser = values::laws)]
    pub(crate) hops: Vec<Laws>,
    /// Read flows, filters and laws from a file (weir.impair/1, TOML or JSON; - is stdin)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["both", "a_to_b", "b_to_a", "netem", "mahimahi", "profile", "paths", "hops"])]
    pub(crate) config: Option<PathBuf>,
    /// Seed of every draw [default: the file's, else a new one]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<Seed>,
}

impl LawArgs {
    /// Whether none of these flags is given.
    pub(crate) fn is_empty(&self) -> bool {
        self.both().is_none()
            && self.a_to_b.is_none()
            && self.b_to_a.is_none()
            && self.mahimahi.is_empty()
            && self.profile.is_none()
            && !self.is_whole()
    }

    /// Whether these flags define more than the laws of packets that no filter matches.
    pub(crate) fn is_whole(&self) -> bool {
        self.config.is_some() || !self.paths.is_empty() || !self.hops.is_empty()
    }

    /// With laws of both directions that no flag precedes; an empty line has none.
    pub(super) fn with_line(&self, line: &str) -> Result<LawArgs, CliError> {
        let mut laws = self.clone();
        if line.is_empty() {
            return Ok(laws);
        }
        if laws.both().is_some()
            || laws.a_to_b.is_some()
            || laws.b_to_a.is_some()
            || laws.config.is_some()
        {
            let accepted = "nothing with --both, --a-to-b, --b-to-a, --netem or --config";
            return Err(CliError::flag("LAWS", line, accepted));
        }
        laws.both = Some(of_line(line)?);
        Ok(laws)
    }

    /// The laws of both directions.
    pub(crate) fn both(&self) -> Option<&Laws> {
        self.both.as_ref().or_else(|| self.netem.as_ref().map(|netem| &netem.laws))
    }

    /// The laws of each direction, A to B first, with its trace; `None` without any.
    pub(crate) fn directions(&self) -> Result<[Option<Laws>; 2], CliError> {
        let mut directions =
            [&self.a_to_b, &self.b_to_a].map(|own| own.as_ref().or_else(|| self.both()).cloned());
        for (laws, trace) in directions.iter_mut().zip(&self.mahimahi) {
            let laws = laws.get_or_insert_default();
            if let Some(rate) = &laws.rate {
                let accepted = "laws without a rate; other queues: rate trace @FILE queue ...";
                return Err(CliError::flag("--mahimahi", rate.bits.to_string(), accepted));
            }
            laws.rate = Some(Rate::of_mahimahi(trace.clone()));
        }
        Ok(directions)
    }

    /// The seed, if a flag states it.
    pub(crate) fn seed(&self) -> Option<Seed> {
        self.seed.or_else(|| self.netem.as_ref()?.seed)
    }

    /// Prints what netem's words mean here.
    pub(crate) fn print_translation(&self) {
        let Some(netem) = &self.netem else { return };
        notice("netem", &format!("netem's words mean: --both '{}'", netem.laws));
        for difference in &netem.differences {
            notice("netem", &format!("different from netem: {difference}"));
        }
    }

    /// The impairment that these flags define.
    pub(crate) fn impairment(&self) -> Result<Impairment, CliError> {
        let mut config = match &self.config {
            Some(path) => {
                let (mut config, names_seed) = read(path)?;
                if !names_seed {
                    config.seed = Seed(random::u64());
                }
                config
            }
            None => {
                let [a_to_b, b_to_a] = self.directions()?.map(Option::unwrap_or_default);
                let other = Other { profile: self.profile.clone(), a_to_b, b_to_a };
                let flows = topology::flows(&self.paths, &self.hops)?;
                Impairment { other, flows, seed: Seed(random::u64()), ..Impairment::default() }
            }
        };
        config.seed = self.seed().unwrap_or(config.seed);
        config.check().map_err(|error| self.by_flag(error))?;
        weir_emulator::compile_filters(&config).map_err(|error| self.by_flag(error))?;
        Ok(config)
    }

    /// An error with the flag that set the refused field, unless the field is from a file.
    fn by_flag(&self, error: ModelError) -> CliError {
        let field = match &error {
            ModelError::Field { field, .. } if self.config.is_none() => field.as_str(),
            _ => return CliError::Model(error),
        };
        if let Some(flow) = field.strip_prefix("flow[").and_then(|at| at.split(']').next()) {
            let is_path = flow.parse::<usize>().is_ok_and(|n| n < self.paths.len());
            return CliError::of_field(error, if is_path { "--path" } else { "--hop" });
        }
        let is_of = |name: &str| field.strip_prefix("other.").is_some_and(|f| f.starts_with(name));
        let flag = match (is_of("profile"), is_of("a_to_b"), is_of("b_to_a")) {
            (true, ..) => "--profile",
            (_, true, _) if self.a_to_b.is_some() => "--a-to-b",
            (.., true) if self.b_to_a.is_some() => "--b-to-a",
            (_, true, _) | (.., true) => "--both",
            _ => return CliError::Model(error),
        };
        CliError::of_field(error, flag)
    }
}

/// Reads a weir.impair/1 file; also returns whether the file states a seed.
fn read(path: &PathBuf) -> Result<(Impairment, bool), CliError> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(CliError::io("read impairment", path))?;
    let config =
        Impairment::parse(&text).map_err(|error| CliError::Plan { path: path.clone(), error })?;
    Ok((config, Seed::is_named_in(&text)))
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Interface A; or tap:NAME, a TAP device of which the emulator is the wire, created if there is none
    #[arg(value_name = "A", required_unless_present_any = ["pcap_in", "local"])]
    pub(crate) a: Option<String>,
    /// Interface B; or tap:NAME
    #[arg(value_name = "B", required_unless_present_any = ["pcap_in", "local"])]
    pub(crate) b: Option<String>,
    /// Laws of both directions, as for --both, in one word or several
    #[arg(value_name = "LAWS", num_args = 1.., conflicts_with_all = ["both", "a_to_b", "b_to_a", "netem", "config"])]
    line: Vec<String>,
    /// A further pair of interfaces with the same laws; repeat it for more. Each pair is an emulator of its own, with its own id,
    /// draws (its seed is the one before plus 1) and report
    #[arg(long, num_args = 2, value_names = ["A", "B"], action = clap::ArgAction::Append, conflicts_with_all = ["local", "on", "pcap_in", "control_socket", "packet_trace", "capture", "log"])]
    pub(crate) pair: Vec<String>,
    /// Impair this host's own traffic on an interface instead, without a second one: A is this host, B the interface
    #[arg(long, value_name = "INTERFACE", requires = "to", conflicts_with_all = ["pcap_in", "on"])]
    pub(crate) local: Option<String>,
    /// With --local: addresses of other hosts (203.0.113.0/24); traffic with them is impaired, all other is untouched
    #[arg(long, value_name = "PREFIX", requires = "local", value_delimiter = ',', action = clap::ArgAction::Append)]
    pub(crate) to: Vec<Prefix>,
    #[command(flatten)]
    pub(crate) laws: LawArgs,
    /// Play laws of packets that no filter matches from a CSV file: a line for each time, with columns time (s) and terms of LAWS
    /// (time,rate,delay,loss), alone or after a_to_b. or b_to_a.
    #[arg(long, value_name = "FILE", value_parser = values::series)]
    timeline: Option<Timeline>,
    /// Play the timeline in a loop of this length [default: the file's, else once]
    #[arg(long, value_name = "TIME", value_parser = crate::commands::values::positive)]
    timeline_loop: Option<Span>,
    /// Play the timeline faster (above 1) or slower, 0.001 to 1000 [default: the file's, else 1]
    #[arg(long, value_name = "FACTOR")]
    timeline_speed: Option<f64>,
    /// How frames are received and sent: auto, packet (TPACKET_V2), xdp (AF_XDP in the driver), xdp-generic; for the ends that are
    /// not TAP devices
    #[arg(long, value_name = "MODE", default_value = "auto", value_parser = link)]
    pub(crate) link: LinkMode,
    /// Write the verdict on each packet to a packet trace (weir.packets/1)
    #[arg(long, value_name = "FILE", conflicts_with = "on")]
    pub(crate) packet_trace: Option<PathBuf>,
    /// Maximum size of the packet trace; verdicts beyond it are counted as missing [default: limited only by the disk]
    #[arg(long, value_name = "BYTES", requires = "packet_trace")]
    pub(crate) packet_trace_limit: Option<ByteSize>,
    /// Capture all packets as they arrive and as they leave (pcapng); `weir impair capture on` captures those of a flow
    #[arg(long, value_name = "FILE", conflicts_with = "on")]
    pub(crate) capture: Option<PathBuf>,
    /// Log the verdict on each packet as a row of CSV; `weir impair log on` logs those of a flow
    #[arg(long, value_name = "FILE", conflicts_with = "on")]
    pub(crate) log: Option<PathBuf>,
    /// Port by which traffic of Weir's own tests is recognised [default: the file's, else 9347]
    #[arg(long, value_name = "PORT", value_parser = values::whole(1_u16..=65_535))]
    pub(crate) native_port: Option<u16>,
    /// Apply the laws to ARP, ICMPv6 neighbour discovery and frames to 01:80:C2:00:00:0X too [default: the file's, else
    /// these are exempt]
    #[arg(long)]
    pub(crate) impair_arp: bool,
    /// Print the report at the end as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Post the counters of each flow to an OpenTelemetry collector every 10 s and at the end (OTLP/HTTP with JSON)
    #[arg(long, value_name = "http://HOST[:PORT][/PATH]", conflicts_with_all = ["pcap_in", "on"])]
    pub(crate) otlp: Option<String>,
    /// End after this time [default: when interrupted]
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<Span>,
    /// Keepalive timeout: forward everything untouched after this time without a command on the control socket; commands that only read do not count [default: never]
    #[arg(long, value_name = "TIME", conflicts_with = "no_control_socket", value_parser = crate::commands::values::positive)]
    pub(crate) keepalive_timeout: Option<Span>,
    /// Accept interfaces that carry the default route, this session or addresses, or are members of a bridge
    #[arg(long)]
    pub(crate) force: bool,
    /// Never schedule the threads in real time (SCHED_FIFO)
    #[arg(long)]
    pub(crate) no_real_time: bool,
    /// Size of each receive ring in frames, and of the queue of a TAP device that is created [default: 8192; AF_XDP: 4096]
    #[arg(long, value_name = "FRAMES", value_parser = values::whole(64_u32..=1_048_576))]
    pub(crate) ring: Option<u32>,
    /// Threads of each direction, 1 to 16 [default: 1]
    ///
    /// The packets of different connections are divided among them. Flows with laws that
    /// remember earlier packets, such as a rate, have one thread each.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(crate) threads: Option<u8>,
    /// Where to listen for `weir impair set` and the like [default: in the runtime directory]
    #[arg(long, value_name = "PATH", visible_alias = "socket", conflicts_with = "on")]
    pub(crate) control_socket: Option<PathBuf>,
    /// No control socket: the emulator cannot be controlled while it runs
    #[arg(long, conflicts_with_all = ["control_socket", "on"])]
    pub(crate) no_control_socket: bool,
    /// Impair a capture (pcap, pcapng; - is stdin) instead, on its own clock
    #[arg(long, value_name = "FILE", requires = "pcap_out", conflicts_with_all = ["a", "b", "link", "duration", "force", "ring", "threads", "control_socket", "no_real_time", "keepalive_timeout", "packet_trace_limit", "capture", "log", "on"])]
    pub(crate) pcap_in: Option<PathBuf>,
    /// Write the impaired capture here (- is stdout, with the report on stderr)
    #[arg(long, value_name = "FILE", requires = "pcap_in", conflicts_with_all = ["a", "b"])]
    pub(crate) pcap_out: Option<PathBuf>,
    /// In a capture: frames from this address enter at A, all others at B
    #[arg(long, value_name = "MAC", requires = "pcap_in", conflicts_with_all = ["a", "b"], value_parser = mac)]
    pub(crate) a_mac: Option<[u8; 6]>,
    /// With --on: leave the emulator running there; `weir impair end` ends it
    #[arg(long, requires = "on")]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) on: OnArgs,
}

impl RunArgs {
    /// The impairment that the flags define.
    pub(crate) fn impairment(&self) -> Result<Impairment, CliError> {
        // With --local the positional arguments are laws alone.
        let interfaces = [&self.a, &self.b].into_iter().flatten().filter(|_| self.local.is_some());
        let line: Vec<&str> = interfaces.chain(&self.line).map(String::as_str).collect();
        let mut config = self.laws.with_line(&line.join(" "))?.impairment()?;
        config.impair_arp |= self.impair_arp;
        config.native_port = self.native_port.unwrap_or(config.native_port);
        self.set_timeline(&mut config)?;
        Ok(config)
    }

    /// Applies the flags of the timeline.
    fn set_timeline(&self, config: &mut Impairment) -> Result<(), CliError> {
        let flag = match (&self.timeline, self.timeline_loop, self.timeline_speed) {
            (Some(timeline), ..) => {
                config.timeline = Some(timeline.clone());
                "--timeline"
            }
            (None, Some(_), _) => "--timeline-loop",
            (None, None, Some(_)) => "--timeline-speed",
            (None, None, None) => return Ok(()),
        };
        let Some(timeline) = &mut config.timeline else {
            return Err(CliError::flag(
                flag,
                "no timeline",
                "--timeline, or a file with a timeline",
            ));
        };
        timeline.period = self.timeline_loop.or(timeline.period);
        timeline.speed = self.timeline_speed.or(timeline.speed);
        config.check().map_err(|error| {
            let flag = match &error {
                ModelError::Field { field, .. } if field == "timeline.loop" => "--timeline-loop",
                ModelError::Field { field, .. } if field == "timeline.speed" => "--timeline-speed",
                _ => flag,
            };
            CliError::of_field(error, flag)
        })
    }
}

/// The laws after the interfaces. Words of a tc command get the flag that takes them.
pub(super) fn of_line(line: &str) -> Result<Laws, CliError> {
    let error = match values::laws(line) {
        Ok(laws) => return Ok(laws),
        Err(error) => error,
    };
    match line.split_once("netem ") {
        Some((_, words)) => {
            let accepted = format!("weir impair A B --netem \"{words}\"");
            Err(CliError::flag("LAWS", line, &accepted))
        }
        None => Err(CliError::of_field(error, "LAWS")),
    }
}

/// Selects a running emulator.
#[derive(Debug, Default, Args)]
pub(crate) struct SocketArgs {
    /// Control socket of the emulator [default: that of the only one running]
    #[arg(long, value_name = "PATH", visible_alias = "control-socket", conflicts_with_all = ["id", "on"])]
    pub(crate) socket: Option<PathBuf>,
    /// Its id in `weir impair list`
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) on: OnArgs,
}

/// Selects alarms of a running emulator.
#[derive(Debug, Args)]
pub(crate) struct AlarmArgs {
    /// Their kind [default: all]
    #[arg(value_parser = PossibleValuesParser::new(AlarmKind::ALL.map(AlarmKind::name)).try_map(alarm_kind))]
    kind: Option<AlarmKind>,
    /// The interface or direction that they are about [default: all]
    object: Option<String>,
    /// Print the number of alarms as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl AlarmArgs {
    /// The alarms that they select.
    pub(super) fn selection(&self) -> AlarmSelection {
        AlarmSelection { kind: self.kind, object: self.object.clone() }
    }
}

/// The kind of a name; the parser of possible values has refused all others.
fn alarm_kind(name: String) -> Result<AlarmKind, String> {
    AlarmKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or(name)
}

/// Parses `50` or `50%`.
fn percentage(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end();
    let found = number.parse().ok().filter(|n| (1..=100).contains(n));
    found.ok_or_else(|| "a percentage from 1 to 100, such as 50 or 50%".into())
}

/// The thresholds to change.
#[derive(Debug, Args, Serialize)]
pub(crate) struct ThresholdArgs {
    /// CPU use of a direction's thread, per cent of a processor, 1 to 100
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_percentage: Option<u32>,
    /// Memory in use for queued packets, per cent of its limit, 1 to 100
    #[arg(long, value_name = "PERCENT", value_parser = percentage)]
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_percentage: Option<u32>,
    /// Packets lost without a law in half a second
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    unplanned_packets: Option<u32>,
    /// Packets that left more than 1 ms late in half a second
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    late_packets: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// List the running emulators: id, interfaces
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        on: OnArgs,
    },
    /// End an emulator: queued packets leave, the interfaces are restored. One of several pairs ends with the others
    End {
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Replace the laws; queued packets are not lost
    Set {
        #[command(flatten)]
        laws: LawArgs,
        /// The flow whose laws are replaced [default: packets that no filter matches]
        #[arg(long, value_name = "NAME", conflicts_with_all = ["config", "profile", "paths", "hops"])]
        flow: Option<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Print the configuration in force, the interfaces and the links
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Apply a flow's laws again
    Start {
        /// Its name [default: all]
        flow: Option<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Forward a flow's packets untouched
    Stop {
        /// Its name [default: all]
        flow: Option<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Meet the condition of triggers that wait for a command
    Trigger {
        /// The flow's name [default: all]
        flow: Option<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Capture packets before and after the laws in a file (pcapng)
    Capture {
        #[command(subcommand)]
        verb: CaptureVerb,
    },
    /// Log the verdict on each packet in a file (CSV)
    Log {
        #[command(subcommand)]
        verb: LogVerb,
    },
    /// Include a flow in the packet trace, or exclude it
    Trace {
        /// on or off, and the flow's name [default: all]
        #[arg(required = true, num_args = 1..=2, value_names = ["on|off", "FLOW"])]
        words: Vec<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Print the counters
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Print rates and ratios again every INTERVAL (1s, or 100ms to 1h), until Ctrl-C or the end of the emulator; with --json the
        /// counters, a line each time
        #[arg(long, value_name = "INTERVAL", num_args = 0..=1, require_equals = true, default_missing_value = "1s", value_parser = values::watch_interval)]
        watch: Option<Span>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Reset the current counters; totals since the start remain
    Reset {
        /// The flow's name [default: all]
        flow: Option<String>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Print the configuration as a file (weir.impair/1)
    Save {
        /// The file [default: stdout]
        file: Option<PathBuf>,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Acknowledge alarms: they call for no attention until they are raised again
    Acknowledge {
        #[command(flatten)]
        alarms: AlarmArgs,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Remove alarms whose condition has passed
    Clear {
        #[command(flatten)]
        alarms: AlarmArgs,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Print the thresholds of alarms, or change them
    Thresholds {
        #[command(flatten)]
        changes: ThresholdArgs,
        /// Print JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        socket: SocketArgs,
    },
    /// Run a command behind the emulator, with access to this host's services and to other hosts
    Exec(ExecArgs),
    /// Let clients of other hosts start, control and end emulators here
    Serve(ServerArgs),
}

#[derive(Debug, Args)]
#[command(
    override_usage = "weir impair exec [OPTIONS] [LAWS] -- COMMAND…",
    after_help = "`weir impair --help` explains LAWS.\n\
                  Exit codes: the command's (128 plus the number of the signal that ended it); 126 it could not be run, \
                  127 it does not exist; 130 interrupted, 143 terminated; 3 or 70 the emulator ended before the command; \
                  2, 4 nothing was started.\n\
                  SIGTERM, SIGHUP and a SIGINT that is not from the terminal are forwarded to the command; after a second \
                  one, or 10 s, it gets SIGKILL."
)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) laws: LawArgs,
    /// Write the verdict on each packet to a packet trace (weir.packets/1)
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_trace: Option<PathBuf>,
    /// Capture all packets as they arrive at the emulator and as they leave it (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) capture: Option<PathBuf>,
    /// Log the verdict on each packet as a row of CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
    /// Print the result as one JSON object at the end: command, exit code, seconds, the emulator's report. What the command
    /// prints on stdout then goes to stderr
    #[arg(short = 'J', long)]
    pub(crate) json: bool,
    /// Write that object to a file; stdout remains the command's
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print errors and warnings only, neither laws nor report
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Command and its arguments, after `--`. Words before it are LAWS of both directions
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// How frames are received and sent.
pub(super) fn link(text: &str) -> Result<LinkMode, String> {
    let found = LinkMode::ALL.into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| "expected auto, packet, xdp or xdp-generic".into())
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Option<Vec<u8>> = text
        .split([':', '-'])
        .map(|part| {
            // `from_str_radix` would accept a sign.
            let is_octet = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
            is_octet.then(|| u8::from_str_radix(part, 16).ok())?
        })
        .collect();
    let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
    bytes.ok_or_else(|| "expected an address like 02:00:00:00:00:01".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, clap::Parser)]
    struct AlarmLine {
        #[command(flatten)]
        alarms: AlarmArgs,
    }

    #[test]
    fn thresholds_and_kinds_of_alarms_are_parsed_before_a_request() {
        use clap::Parser as _;
        for (text, wanted) in
            [("50", Some(50)), ("50%", Some(50)), ("50 %", Some(50)), ("0%", None), ("101", None)]
        {
            assert_eq!(percentage(text).ok(), wanted, "{text}");
        }
        let of = |kind: &str| AlarmLine::try_parse_from(["x", kind]).map(|line| line.alarms);
        let selected = of("link-down").unwrap().selection();
        assert_eq!(serde_json::to_string(&selected).unwrap(), r#"{"kind":"link-down"}"#);
        assert_eq!(of("linkdown").unwrap_err().kind(), clap::error::ErrorKind::InvalidValue);
    }

    /// Every equivalent of netem's words that the help names is accepted.
    #[test]
    fn the_equivalents_of_netem_are_laws() {
        let (_, table) = HELP.split_once("From netem, ").unwrap();
        let table = table.split("\n\n").next().unwrap();
        let laws: Vec<&str> = table
            .lines()
            // The second column.
            .filter_map(|line| line.split(';').next()?.get(27..))
            .filter(|text| !text.contains("..."))
            .filter(|text| {
                ["delay ", "loss ", "reorder ", "batch "].iter().any(|term| text.starts_with(term))
            })
            .collect();
        assert!(laws.len() >= 5, "{laws:?}");
        for law in laws {
            let law = law.replace("run N", "run 2").replace("=T", "=1ms").replace("=A", "=2");
            assert!(law.parse::<Laws>().is_ok(), "{law}");
        }
    }

    #[test]
    fn addresses_and_modes() {
        assert_eq!(mac("02:00:00:00:00:fF"), Ok([2, 0, 0, 0, 0, 255]));
        for bad in ["", "02:00:00:00:00", "02:00:00:00:00:1", "02:00:00:00:00:+1", "2:0:0:0:0:0"] {
            assert!(mac(bad).is_err(), "{bad}");
        }
        assert_eq!(link("xdp-generic"), Ok(LinkMode::XdpGeneric));
        assert!(link("tpacket").is_err());
    }

    #[test]
    fn a_file_that_names_no_seed_gets_a_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("laws");
        let seed = |text: &str| {
            std::fs::write(&path, text).unwrap();
            let of = LawArgs { config: Some(path.clone()), ..LawArgs::default() };
            of.impairment().unwrap().seed
        };
        let none = "schema = 'weir.impair/1'";
        assert_ne!(seed(none), seed(none));
        assert_ne!(seed(r#"{"schema":"weir.impair/1"}"#), Seed(0));
        // Zero is a valid seed.
        assert_eq!(seed("schema = 'weir.impair/1'\nseed = 0"), Seed(0));
        assert_eq!(seed(r#"{"schema":"weir.impair/1","seed":"0x7"}"#), Seed(7));
    }

    #[test]
    fn laws_follow_the_interfaces() {
        let run = |words: &str| {
            let line = crate::app::command_line();
            let words = format!("weir impair a b {words}");
            let matches = line.try_get_matches_from(words.split(' ')).unwrap();
            let (_, of_impair) = matches.subcommand().unwrap();
            let args = <ImpairArgs as clap::FromArgMatches>::from_arg_matches(of_impair).unwrap();
            args.run.impairment()
        };
        let laws: Laws = "delay 20ms, loss 1%".parse().unwrap();
        let config = run("delay 20ms loss 1% --seed 7").unwrap();
        assert_eq!((config.other.b_to_a, config.seed), (laws, Seed(7)));
        for (words, given) in
            [("delay", "delay"), ("eth0 root netem delay 1ms", "eth0 root netem delay 1ms")]
        {
            let refused = run(words).unwrap_err().refusal();
            assert_eq!((refused.given.as_deref(), refused.exit_code), (Some(given), 2), "{words}");
        }
    }

    #[test]
    fn flags_become_an_impairment() {
        let both = LawArgs {
            both: Some("delay 20ms".parse().unwrap()),
            seed: Some(Seed(7)),
            ..LawArgs::default()
        };
        let config = both.impairment().unwrap();
        assert_eq!(config.seed, Seed(7));
        assert_eq!(config.other.a_to_b, config.other.b_to_a);
        let one = LawArgs {
            a_to_b: Some("loss 1%".parse().unwrap()),
            profile: Some("3g-good".into()),
            ..LawArgs::default()
        };
        let config = one.impairment().unwrap();
        assert_eq!(config.other.profile.as_deref(), Some("3g-good"));
        assert!(config.other.a_to_b.loss.is_some() && config.other.b_to_a == Laws::default());
        let netem = |words: &str| LawArgs { netem: words.parse().ok(), ..LawArgs::default() };
        let config = netem("delay 100 loss 1% seed 9").impairment().unwrap();
        let laws: Laws = "delay 100us, loss 1%".parse().unwrap();
        assert_eq!((&config.other.a_to_b, &config.other.b_to_a), (&laws, &laws));
        assert_eq!((config.seed, netem("delay 1s").is_empty()), (Seed(9), false));
        let unknown = LawArgs { profile: Some("9g".into()), ..LawArgs::default() };
        let error = unknown.impairment().unwrap_err();
        let refused = error.refusal();
        assert_eq!((refused.given.as_deref(), refused.exit_code), (Some("9g"), 2));
    }
}
