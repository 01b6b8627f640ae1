//! The flags of `weir test`, by heading. A flag that shapes the test declares the field that it sets ([`super::flags`]);
//! [`super::plan`] decides what several flags mean together.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_model::names::HostKind;
use weir_model::plan::{
    Alignment, CatchUp, DataPorts, Direction, Echo, Ecn, EngineName, HeaderFormat, MAX_FLOWS,
    PeerName, RateSchedule, Shape, Size, Spacing, Switch, Transport, TransportName, VoiceCodec,
};
use weir_model::units::{BitRate, ByteSize, Dscp, Seed, SendRate, Span};
use weir_report::Units;

use super::flags::flags;
use super::source::ReplaySpeed;
use crate::commands::values::{
    self, AddressPair, Bind, ClientPorts, ContentSource, Cpus, GroupAddress, Label, Mac, Nominal,
    PortPair, Ports,
};
use crate::engine::Scheduling;
use crate::key::KeyArgs;

/// Run a test against a host that runs `weir serve`
#[derive(Debug, Args)]
#[command(
    override_usage = "weir test [OPTIONS] HOST...\n       weir test [OPTIONS] --plan FILE [HOST]",
    after_help = "Rates: K, M, G, T are powers of ten (10M, 10Mbit and 10Mbps are 10 000 000 bit/s).\n\
                  Sizes: K, M, G, T are powers of 1024 (64K is 65 536 bytes).\n\
                  Times: a bare number is seconds; also ns, us, ms, s, m, h, d.\n\
                  Exit codes: 0 done, 1 a file was not stored whole, 2 bad input, 3 peer unreachable or lost, 4 not permitted or not available, \
                  5 inconclusive, 70 internal error, 130 interrupted, 141 the reader of the output closed it, 143 terminated (what was \
                  measured is printed and stored)."
)]
pub(crate) struct TestArgs {
    /// The server: NAME, ADDRESS, NAME:PORT, [V6ADDRESS]:PORT, V6ADDRESS%INTERFACE or unix:PATH; several are tested at the
    /// same time, each with the connections that the flags describe
    #[arg(value_name = "HOST", required_unless_present_any = ["plan", "save_plan", "mgen_script", "rude_script", "ditg_script"])]
    pub(crate) host: Vec<String>,
    #[command(flatten)]
    pub(crate) general: GeneralArgs,
    #[command(flatten)]
    pub(crate) traffic: TrafficArgs,
    #[command(flatten)]
    pub(crate) replay: ReplayArgs,
    #[command(flatten)]
    pub(crate) rate: RateArgs,
    #[command(flatten)]
    pub(crate) socket: SocketArgs,
    #[command(flatten)]
    pub(crate) measure: MeasureArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Key of STAMP's authenticated mode: the first line of this file, text or 0x and hex digits (with --peer stamp)
    #[arg(long, value_name = "FILE", help_heading = "Key")]
    pub(crate) hmac_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) later: LaterArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "General")]
pub(crate) struct GeneralArgs {
    /// Port of the server, 1 to 65535 [default: 9347, with --peer the usual one of the tool]
    #[arg(short = 'p', long, value_name = "PORT", value_parser = values::whole(1_u16..=65_535))]
    pub(crate) port: Option<u16>,
    /// Give up connecting after this time, 1ms to 10m (a bare number is seconds, not iperf3's milliseconds)
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = values::connect_timeout)]
    pub(crate) connect_timeout: Span,
    /// Read the connections from a plan (weir.plan/1, TOML or JSON); flags that would change it are refused
    #[arg(long, value_name = "FILE")]
    pub(crate) plan: Option<PathBuf>,
    /// Read the connections from a script of MGEN (docs/scripts.md): without HOST they send MGEN's messages to the script's
    /// destinations, else Weir's own to HOST. With --save-plan and without HOST only the plan is written
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "profile"])]
    pub(crate) mgen_script: Option<PathBuf>,
    /// The same of a script of RUDE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "profile", "mgen_script"])]
    pub(crate) rude_script: Option<PathBuf>,
    /// The same of a script of ITGSend, as a test with peer ditg (docs/peers.md)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["plan", "profile", "mgen_script", "rude_script"])]
    pub(crate) ditg_script: Option<PathBuf>,
    /// Send the traffic of an application by its profile (`weir profiles`); flags of size, rate, time and the like replace its values
    #[arg(long, value_name = "NAME", conflicts_with = "plan")]
    pub(crate) profile: Option<String>,
    /// Write the plan of these flags as TOML; without HOST no test is run
    #[arg(long, value_name = "FILE")]
    pub(crate) save_plan: Option<PathBuf>,
    /// Start sending at this time, so that several tests start together: an RFC 3339 time, +TIME from now, or monotonic:NS
    /// of this host's clock; later, with a warning, if an end is not ready by then
    #[arg(long, value_name = "TIME")]
    pub(crate) start_at: Option<values::StartAt>,
    /// Listen on this Unix socket for `weir ctl` (start, stop and status of each connection)
    #[arg(long, value_name = "PATH")]
    pub(crate) control_socket: Option<PathBuf>,
    /// Run this side's threads on these CPUs only, such as 0, 0,2 or 1-3, or those of a NUMA node: node:0
    #[arg(short = 'A', long, value_name = "CPUS")]
    pub(crate) affinity: Option<Cpus>,
    /// Scheduling of threads that send paced datagrams: auto (SCHED_FIFO where permitted and rates are bounded), normal, or fifo (exit code 4 where not permitted) [default: auto]
    #[arg(long, value_name = "CLASS", value_parser = values::scheduling)]
    pub(crate) scheduling: Option<Scheduling>,
    /// Time that a thread spins before each paced datagram is due, up to 10ms. A longer time makes gaps more even and uses more
    /// CPU: with SCHED_FIFO at most a quarter of a CPU for each thread, half with three or more CPUs. With --rr and one flow: how
    /// long a thread polls the socket for a message before it sleeps [default: 60us, with --rr 0; with SCHED_FIFO by measured wake-up times, up to 500us]
    #[arg(long, value_name = "TIME", value_parser = values::spin)]
    pub(crate) spin: Option<Duration>,
}

impl GeneralArgs {
    /// The flag that names the file of the connections, and that file: a plan, or a script.
    pub(crate) fn described_by(&self) -> Option<(&'static str, &PathBuf)> {
        let files = [
            ("--plan", &self.plan),
            ("--mgen-script", &self.mgen_script),
            ("--rude-script", &self.rude_script),
            ("--ditg-script", &self.ditg_script),
        ];
        files.into_iter().find_map(|(flag, file)| Some((flag, file.as_ref()?)))
    }

    /// Whether a script describes them.
    pub(crate) fn has_script(&self) -> bool {
        self.described_by().is_some_and(|(flag, _)| flag != "--plan")
    }
}

flags! {
    #[command(next_help_heading = "Traffic")]
    TrafficArgs {
        #[arg(long, value_name = "NAME", help = peers())]
        peer: Option<PeerName> => plan.peer,
        /// Send UDP datagrams; the same as --transport udp
        #[arg(short = 'u', long)]
        udp: bool => transport,
        /// Send UDP-Lite datagrams; the same as --transport udp-lite
        #[arg(long, conflicts_with = "udp")]
        udp_lite: bool => transport,
        /// Send Ethernet frames without IP (EtherType 0x88B5) to a server on the same link; both ends need CAP_NET_RAW; the same as
        /// --transport ethernet
        #[arg(long, conflicts_with_all = ["udp", "udp_lite"])]
        ethernet: bool => transport,
        /// Send ICMP echo requests, which any host answers: no server is needed; the same as --transport icmp [default: 1pps of 56 bytes]
        #[arg(long, visible_alias = "ping", conflicts_with_all = ["udp", "udp_lite", "ethernet", "multicast", "broadcast"])]
        icmp: bool => transport,
        /// Send UDP datagrams to this multicast group; each HOST joins it and is a receiver of the same stream [default port: 9348]
        #[arg(long, value_name = "GROUP[:PORT]", value_parser = values::group_address, conflicts_with_all = ["udp_lite", "ethernet", "broadcast"])]
        multicast: Option<GroupAddress> => group,
        /// Send UDP datagrams to this broadcast address, 255.255.255.255 or that of a network; each HOST is a receiver of the
        /// same stream [default port: 9348]
        #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = values::group_address, conflicts_with_all = ["udp_lite", "ethernet"])]
        broadcast: Option<GroupAddress> => group,
        /// Multicast: receivers join for this sender only (IGMPv3, MLDv2)
        #[arg(long, visible_alias = "ssm")]
        source_specific: bool => connection.source_specific,
        /// Multicast: receivers join this long after the start [default: before it]
        #[arg(long, value_name = "TIME")]
        join_after: Option<Span> => connection.join_after,
        /// Multicast: receivers leave this long after the start [default: at the end]
        #[arg(long, value_name = "TIME")]
        leave_after: Option<Span> => connection.leave_after,
        /// Transport [default: tcp]
        #[arg(long, value_name = "NAME", value_parser = values::transport(), conflicts_with_all = ["udp", "udp_lite", "ethernet", "icmp", "multicast", "broadcast"])]
        transport: Option<TransportName> => transport,
        /// Time to send, up to 7 days; 0 is until stopped [default: 10s]
        #[arg(short = 't', long, value_name = "TIME", value_parser = values::test_time)]
        time: Option<Span> => connection.duration,
        /// Instead of -t: stop each connection after this many payload bytes, at least 1 (iperf3 counts all connections together)
        #[arg(short = 'n', long, value_name = "SIZE")]
        bytes: Option<ByteSize> => connection.bytes,
        /// Instead of -t: stop each connection after this many datagrams, writes or transactions, at least 1; K, M, G are powers
        /// of ten (iperf3 counts all connections together)
        #[arg(short = 'k', long, alias = "blockcount", value_name = "COUNT", value_parser = values::count)]
        packets: Option<u64> => connection.packets,
        /// Connections in each direction, 1 to 200 000 [default: 1]
        #[arg(short = 'P', long, value_name = "N", value_parser = values::whole(1_u32..=MAX_FLOWS))]
        parallel: Option<u32> => connection.count,
        /// The server sends
        #[arg(short = 'R', long, conflicts_with = "bidir")]
        reverse: bool => direction,
        /// Both ends send: one connection (or -P) in each direction
        #[arg(long)]
        bidir: bool => direction,
        /// Transactions instead of a stream: rr (request and response), crr (connect, request and response), cc (connect and close) or transfers (connect and send --transfers bytes) [default: stream]
        #[arg(long, value_name = "SHAPE", value_parser = values::shape(), conflicts_with = "rr")]
        shape: Option<Shape> => connection.shape,
        /// Requests and responses; the same as --shape rr. A request is sent when the one before it is answered, or with -b 1000pps at that rate
        #[arg(long)]
        rr: bool => connection.shape = |_| Shape::Rr,
        /// Connections that each transfer this volume and close: SIZE such as 100K (up to 1T), MIN..MAX, @FILE with values, or a
        /// law of -l with its maximum. They start by --starts, at -b 100pps, or one after the other for each of --users
        #[arg(long, value_name = "LAW", value_parser = values::size, conflicts_with = "rr")]
        transfers: Option<Size> => connection.volume,
        /// Time from each start of a transfer to the next, a law of --spacing; its mean may be that of -b. The result is measured
        /// from the scheduled start [default: exponential with -b, a Poisson process]
        #[arg(long, value_name = "LAW", value_parser = values::spacing)]
        starts: Option<Spacing> => connection.starts,
        /// Pause between a user's transfers, a law of --spacing with its mean, such as 1s or 'exponential(mean=30s)' [default: none]
        #[arg(long, value_name = "LAW", value_parser = values::spacing, conflicts_with = "starts")]
        think_time: Option<Spacing> => connection.pause,
        /// Transfers at the same time, 1 to 65536: those due above it are not started, and counted [default: 65536]
        #[arg(long, value_name = "N", value_parser = values::whole(1_u32..=65_536))]
        max_concurrent: Option<u32> => connection.max_concurrent,
        /// Rate at which the datagrams of each transfer are sent, with -u: 1k to 1T [default: 1M]
        #[arg(long, value_name = "RATE")]
        transfer_rate: Option<BitRate> => connection.transfer_rate,
        /// Each user of --transfers loads pages of this number of objects, 1 to 1000: N, MIN..MAX, or a law of -l with its bounds.
        /// The first object is transferred, then the others at the same time: the result has the page load time
        #[arg(long, value_name = "LAW", value_parser = values::size)]
        objects: Option<Size> => connection.objects,
        /// Volume of the first object of a page, a law as of --transfers, which is that of the others [default: as --transfers]
        #[arg(long, value_name = "LAW", value_parser = values::size)]
        main_volume: Option<Size> => connection.main_volume,
        /// Connections of a user at the same time for the objects of a page, 1 to 64 [default: 6]
        #[arg(long, value_name = "N", value_parser = values::whole(1_u32..=64))]
        page_connections: Option<u32> => connection.page_connections,
        /// Transactions in progress at the same time, or users that transfer, 1 to 1024 [default: 1]
        #[arg(long, visible_alias = "users", value_name = "N", value_parser = values::whole(1_u32..=1024))]
        outstanding: Option<u32> => connection.outstanding,
        /// The server sends back what it receives, or the first BYTES of each datagram, 32 to 65535: round trips, losses in each
        /// direction and the rate of what comes back
        #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "whole")]
        echo: Option<Echo> => connection.echo,
        /// The server stores the stream in a file, if it was started with --file-dir: the result has its name, size and SHA-256
        #[arg(long)]
        to_file: bool => connection.to_file,
        /// Omit the first part of the test from the totals, 0 to 1h [default: 0]
        #[arg(short = 'O', long, value_name = "TIME")]
        omit: Option<Span> => plan.omit,
        /// Content of the payload: random, zeros, ascii, ratio:R (compressible by about R, 1 to 1000), pattern:HEX (1 to 16 bytes, repeated), prbs:N (ITU-T O.150, N = 9, 11, 15, 20, 23, 29 or 31; one sequence in a stream up to 20) or file:PATH (this file, up to 1G: once, or with -t, -n or -k repeatedly; in datagrams of 1400 bytes unless -l gives another size) [default: random]
        #[arg(long, value_name = "KIND")]
        content: Option<ContentSource> => connection.content = |source: ContentSource| source.content,
        /// Seed of all random draws, 64 bits, decimal or 0x hexadecimal [default: a new one, stored with the result]
        #[arg(long, value_name = "SEED")]
        seed: Option<Seed> => plan.seed,
        /// Ports of data connections: shared (the server's one port), dedicated (separate ports), range (separate ports of the
        /// server's --data-ports, refused if it has none), auto (as the plan needs) [default: auto]
        #[arg(long, value_name = "MODE", value_parser = values::data_ports)]
        data_ports: Option<DataPorts> => plan.data_ports,
    }
}

flags! {
    #[command(next_help_heading = "Rate and size")]
    RateArgs {
        /// Rate of each connection: payload bit/s (10M, 2.5G) or packets/s (50000pps); /N sends bursts of N; 0 is unlimited
        /// [default: unlimited for TCP, 1M for UDP, 1000pps with -l 0]
        #[arg(short = 'b', long, alias = "bandwidth", value_name = "RATE[/BURST]")]
        bitrate: Option<SendRate> => connection.rate,
        /// Changes of the rate while a connection sends: 5s:20M is a step after 5 s, 5s-10s:20M a ramp to 20M, 5s:2x a step to
        /// twice the rate of -b; several separated by commas
        #[arg(long, value_name = "TIME:RATE", conflicts_with = "total_rate")]
        rate_schedule: Option<RateSchedule> => connection.rate_schedule,
        #[arg(long, visible_aliases = ["interval-law", "idt"], value_name = "LAW", value_parser = values::spacing, help = spacing())]
        spacing: Option<Spacing> => connection.spacing,
        /// -b is the total rate of all connections of a direction, divided equally
        #[arg(long, requires = "bitrate")]
        total_rate: bool => count,
        /// How a paced sender makes up for slots that it missed: none, spread:P% (P % above the rate) or burst:N [default: spread:5%]
        #[arg(long, value_name = "POLICY")]
        catch_up: Option<CatchUp> => connection.catch_up,
        /// Pacing by the kernel in addition (SO_MAX_PACING_RATE), bit/s [default: none]
        #[arg(long, value_name = "RATE")]
        fq_rate: Option<BitRate> => connection.kernel_pacing,
        #[arg(short = 'l', long, visible_alias = "size", value_name = "SIZE", value_parser = values::size, help = length())]
        length: Option<Size> => connection.payload,
        /// Size of a request of --rr or --shape crr [default: 1 byte, in a datagram 8]
        #[arg(long, value_name = "SIZE")]
        request: Option<ByteSize> => connection.request,
        /// Size of a response [default: 1 byte, in a datagram 8]
        #[arg(long, value_name = "SIZE")]
        response: Option<ByteSize> => connection.response,
        /// Header at the start of each datagram's payload; none: packets are only counted [default: native]
        #[arg(long, value_name = "FORMAT", value_parser = values::header())]
        header: Option<HeaderFormat> => connection.header,
    }
}

/// The help of `--peer`, with all protocols.
fn peers() -> String {
    format!(
        "Protocol of the server: {}. Those of other tools carry a part of these flags (docs/peers.md); auto takes that of the server that \
         answers [default: weir]",
        PeerName::accepted()
    )
}

/// The help of `--spacing`, with all laws.
fn spacing() -> String {
    format!(
        "Intervals between packets: TIME such as 20ms, RATE such as 500pps, MIN..MAX, @FILE with values, or a law by its name \
         and keys, such as exponential or 'normal(mean=10ms, deviation=2ms)'. Their mean is that of the law, else \
         the one of -b. Laws (docs/laws.md): {} [default: constant]",
        Spacing::names().join(", ")
    )
}

/// The help of `-l`, with all laws.
fn length() -> String {
    format!(
        "Payload bytes of a datagram, 0 to 65507 (with -6: 65527), or of a TCP write, 1 to 16M: BYTES such as 1460 or 64K \
         (K is 1024), MIN..MAX, @FILE with values, or a law by its name and keys, such as \
         'normal(mean=700, deviation=200, max=1400)'. Laws (docs/laws.md): {} \
         [default: the largest datagram without fragmentation; TCP: 512K, less if paced]",
        Size::names().join(", ")
    )
}

flags! {
    #[command(next_help_heading = "Sockets")]
    SocketArgs {
        /// Use IPv4 only
        #[arg(short = '4', long, conflicts_with = "ipv6")]
        ipv4: bool => family,
        /// Use IPv6 only
        #[arg(short = '6', long)]
        ipv6: bool => family,
        /// Local address to send from, optionally with its interface. TCP: also a range such as 10.0.0.1-10.0.0.20 or a network
        /// such as 10.0.0.0/28, whose addresses the connections use in turn
        #[arg(short = 'B', long, value_name = "ADDRESS[%INTERFACE]")]
        bind: Option<Bind> => plan.bind = |bind: Bind| bind.address,
        /// Local interface to send through
        #[arg(long, value_name = "INTERFACE")]
        bind_dev: Option<String> => device,
        /// Multicast and broadcast: interface of the receivers [default: that of the control connection]
        #[arg(long, value_name = "INTERFACE")]
        interface: Option<String> => connection.interface,
        /// Local port of the first connection, 1 to 65535; the next ports for further ones. Or a range, whose ports the
        /// connections of --shape crr and cc, and of --transfers, use in turn [default: chosen by the system]
        #[arg(long, value_name = "PORT[-LAST]", value_parser = values::client_ports)]
        cport: Option<ClientPorts> => client_port,
        /// Socket buffer of both ends ("window"), 1K to 1G [default: TCP tunes itself; for UDP sized by Weir]
        #[arg(short = 'w', long, value_name = "SIZE")]
        window: Option<ByteSize> => connection.window,
        /// TCP maximum segment size, 88 to 32767 bytes [default: by the path MTU]
        #[arg(short = 'M', long, value_name = "BYTES", value_parser = values::whole(88_u32..=32_767))]
        set_mss: Option<u32> => connection.mss,
        /// Path MTU to test, 148 to 32807 bytes: no packet is longer, with the headers of IP. Sets the MSS of TCP, and the default and
        /// maximum of -l for datagrams [default: that of the path]
        #[arg(long, value_name = "BYTES", value_parser = values::whole(148_u32..=32_807))]
        mtu: Option<u32> => connection.mtu,
        /// TCP: disable Nagle's algorithm (TCP_NODELAY)
        #[arg(short = 'N', long)]
        no_delay: bool => connection.no_delay,
        /// TCP: hold back partial segments until they are full, 200 ms at most (TCP_CORK)
        #[arg(long)]
        cork: bool => connection.cork,
        /// TCP: whether the receiver delays acknowledgements: auto, on or off (TCP_QUICKACK) [default: auto: the kernel decides]
        #[arg(long, value_name = "SWITCH", value_parser = values::switch)]
        delayed_ack: Option<Switch> => connection.delayed_ack,
        /// TCP congestion control by its kernel name, such as cubic, reno or bbr [default: the kernel's]
        #[arg(short = 'C', long, value_name = "NAME", value_parser = values::congestion)]
        congestion: Option<String> => connection.congestion,
        /// TCP: fail when sent data stays unacknowledged for this time, 1ms to 1h (a bare number is seconds, not iperf3's
        /// milliseconds) [default: the system's limit]
        #[arg(long, value_name = "TIME")]
        snd_timeout: Option<Span> => connection.user_timeout,
        /// The whole TOS or traffic-class byte, 0 to 255; decimal, 0x hexadecimal or 0 octal [default: 0]
        #[arg(short = 'S', long, value_name = "BYTE", value_parser = values::tos, conflicts_with = "dscp")]
        tos: Option<u8> => connection.tos,
        /// DSCP code point, 0 to 63, or its name (ef, cs5, af41, le); ECN bits stay 0 [default: 0]
        #[arg(long, value_name = "DSCP")]
        dscp: Option<Dscp> => connection.tos = |dscp: Dscp| dscp.0 << 2,
        /// ECN codepoint of datagrams: off, on (ect0), ect0 or ect1; the receiver counts the codepoints that arrive. TCP negotiates
        /// ECN by net.ipv4.tcp_ecn of both hosts [default: off]
        #[arg(long, value_name = "CODEPOINT")]
        ecn: Option<Ecn> => connection.ecn,
        /// Priority in the queueing discipline of the sending host, 0 to 15 (SO_PRIORITY; above 6 with CAP_NET_ADMIN) [default: by the TOS byte]
        #[arg(long, value_name = "N", value_parser = values::whole(0_u8..=15))]
        priority: Option<u8> => connection.priority,
        /// IPv6 flow label, 0 to 1048575 [default: chosen by the kernel]
        #[arg(short = 'L', long, value_name = "LABEL", value_parser = values::whole(0_u32..=1_048_575))]
        flowlabel: Option<u32> => connection.flow_label,
        /// Time to live or hop limit, 1 to 255 [default: the kernel's; multicast: 1]
        #[arg(long, value_name = "HOPS", value_parser = values::whole(1_u8..=255))]
        ttl: Option<u8> => connection.ttl,
        /// Set the don't-fragment bit, and do not fragment locally
        #[arg(long)]
        dont_fragment: bool => connection.dont_fragment,
        /// UDP-Lite: bytes of each datagram that the checksum covers, from the header of 8 bytes on: 8 to 65535, or full [default: full]
        #[arg(long, value_name = "BYTES|full", value_parser = values::coverage)]
        checksum_coverage: Option<u16> => connection.checksum_coverage,
        /// TCP: zero-copy sending (MSG_ZEROCOPY)
        #[arg(short = 'Z', long)]
        zerocopy: bool => connection.zero_copy,
        /// TCP: the receiver discards data in the kernel instead of copying it (MSG_TRUNC)
        #[arg(long)]
        skip_rx_copy: bool => connection.discard,
        /// TCP: the sender does not close its direction after the last byte (no FIN until the connection is closed)
        #[arg(long)]
        no_half_close: bool => connection.no_half_close,
        /// Writes and reads of a stream start at this offset from a multiple of a power of two up to 64K in memory, such as 4096+8
        /// [default: not aligned]
        #[arg(long, value_name = "BYTES[+OFFSET]")]
        align: Option<Alignment> => connection.align,
        /// UDP and Ethernet: how datagrams are sent and received: sockets, or xdp (XDP programs below the socket layer; forward
        /// only, needs CAP_BPF and CAP_NET_ADMIN at both ends) [default: sockets]
        #[arg(long, value_name = "ENGINE")]
        engine: Option<EngineName> => connection.engine,
        /// UDP segmentation offload at the sender: auto, on or off [default: auto: on unless paced]
        #[arg(long, value_name = "SWITCH", value_parser = values::switch)]
        gso: Option<Switch> => connection.gso,
        /// UDP receive offload at the receiver: auto, on or off [default: auto: on unless paced]
        #[arg(long, value_name = "SWITCH", value_parser = values::switch)]
        gro: Option<Switch> => connection.gro,
    }
}

flags! {
    #[command(next_help_heading = "Measurement")]
    MeasureArgs {
        /// Length of a reporting interval, 10ms to 1h; 0 for none [default: 1s]
        #[arg(short = 'i', long, value_name = "TIME")]
        interval: Option<Span> => plan.interval,
        /// A packet that has not arrived within this time is lost, 1ms to 10m [default: 2s or 4 round trips, the longer]
        #[arg(long, value_name = "TIME")]
        loss_threshold: Option<Span> => plan.loss_threshold,
        /// Do not measure round-trip times during the test
        #[arg(long)]
        no_latency: bool => plan.latency = |_| false,
        /// The receiver checks every payload byte: bit errors and truncation are counted
        #[arg(long)]
        verify: bool => connection.verify,
        /// Codec of the voice that the datagrams imitate: the result has the R factor and MOS of ITU-T G.107.
        /// Packets have 20 ms of voice (g723.1: 30 ms) unless --size or --idt give another number of whole frames
        #[arg(long, value_name = "CODEC", value_parser = values::codec())]
        voice: Option<VoiceCodec> => connection.voice,
        /// Depth of the receiver's jitter buffer for --voice, 0 to 10s: packets that arrive later than this after the fastest one
        /// are missing in the speech [default: 60ms]
        #[arg(long, value_name = "TIME")]
        jitter_buffer: Option<Span> => connection.jitter_buffer,
        /// Nominal rate of the link, for link usage: bit/s, or auto for the interface's speed [default: none]
        #[arg(long, value_name = "RATE|auto")]
        nominal: Option<Nominal> => plan.nominal = Nominal::stated,
    }
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Replay")]
pub(crate) struct ReplayArgs {
    /// Send the UDP datagrams of this capture (pcap or pcapng) with their sizes, times and payloads. The data header
    /// replaces the first bytes of each; --header none leaves them and only counts packets. All other packets are left out.
    /// With HOST interface:NAME, all frames are sent on that interface as they are
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["plan", "profile", "length", "spacing", "bitrate", "bytes", "packets", "reverse", "bidir", "shape", "rr", "content", "verify", "voice"],
    )]
    pub(crate) replay: Option<PathBuf>,
    /// Speed of the replay: original, a factor such as 2x, a rate such as 10M or 5000pps, or top [default: original]
    #[arg(long, value_name = "SPEED", requires = "replay")]
    pub(crate) replay_speed: Option<ReplaySpeed>,
    /// Replay the capture N times; with -t it is repeated for that time [default: 1]
    #[arg(long = "loop", value_name = "N", requires = "replay", conflicts_with = "time", value_parser = values::count)]
    pub(crate) replay_rounds: Option<u64>,
    /// Only datagrams from or to these ports
    #[arg(long, value_name = "PORT[-PORT]", requires = "replay")]
    pub(crate) replay_port: Option<Ports>,
    /// Only datagrams from or to this address
    #[arg(long, value_name = "ADDRESS", requires = "replay")]
    pub(crate) replay_address: Option<std::net::IpAddr>,
    /// With HOST interface:NAME: replace this address, or prefix of the same length, in IP and ARP; may be repeated
    #[arg(long, value_name = "FROM=TO", requires = "replay")]
    pub(crate) map_address: Vec<AddressPair>,
    /// With HOST interface:NAME: replace this port of TCP, UDP and UDP-Lite; may be repeated
    #[arg(long, value_name = "FROM=TO", requires = "replay")]
    pub(crate) map_port: Vec<PortPair>,
    /// With HOST interface:NAME: source MAC address of all frames
    #[arg(long, value_name = "MAC", requires = "replay")]
    pub(crate) source_mac: Option<Mac>,
    /// With HOST interface:NAME: destination MAC address of all frames
    #[arg(long, value_name = "MAC", requires = "replay")]
    pub(crate) destination_mac: Option<Mac>,
    /// With HOST interface:NAME: compute all checksums; those of a capture on its sender may be incomplete
    #[arg(long, requires = "replay")]
    pub(crate) fix_checksums: bool,
}

#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print one JSON record (weir.run/1) at the end instead of text
    #[arg(short = 'J', long, conflicts_with = "json_stream")]
    pub(crate) json: bool,
    /// Print one JSON object per line while running: start, interval, end, error
    #[arg(long)]
    pub(crate) json_stream: bool,
    /// Also write intervals and summary as CSV to this file; - is stdout, with text on stderr
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Unit of rates: k, m, g, t (bits, powers of ten), K, M, G, T (bytes, powers of 1024), a or A (automatic) [default: a]
    #[arg(short = 'f', long, value_name = "UNIT")]
    pub(crate) format: Option<Units>,
    /// Print every connection and every figure
    #[arg(short = 'V', long)]
    pub(crate) verbose: bool,
    /// A title, printed and stored with the result
    #[arg(short = 'T', long, value_name = "TEXT")]
    pub(crate) title: Option<String>,
    /// Prefix each line of text with the local time (TZ) in this strftime format (%Y %m %d %H %M %S, %3f ms, %N ns,
    /// %F %T %s %z %:z %Z %%) [default: %FT%T.%3f%:z and a space]
    #[arg(long, value_name = "FORMAT", num_args = 0..=1, require_equals = true, default_missing_value = "%FT%T.%3f%:z ", value_parser = values::time_format)]
    pub(crate) timestamps: Option<crate::time::Format>,
    /// Show the running test on the whole terminal: curves and figures of each flow, and keys to start and stop it and to
    /// change its rate; the result is printed at the end
    #[arg(long, conflicts_with_all = ["json", "json_stream", "logfile"])]
    pub(crate) live: bool,
    /// Serve live figures of each connection for Prometheus at http://ADDRESS:PORT/metrics while the test runs
    /// [default: 127.0.0.1:9350]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, default_missing_value = "127.0.0.1:9350", value_parser = values::exporter_address)]
    pub(crate) prometheus: Option<std::net::SocketAddr>,
    /// Post live figures of each connection to an OpenTelemetry collector after each interval (OTLP/HTTP with JSON)
    #[arg(long, value_name = "http://HOST[:PORT][/PATH]")]
    pub(crate) otlp: Option<String>,
    /// Append the output to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub(crate) logfile: Option<PathBuf>,
    /// With --to-file: after the test, fetch the server's file into this one and check its SHA-256
    #[arg(long, value_name = "FILE")]
    pub(crate) fetch: Option<PathBuf>,
    /// Write one entry per received packet to this file (weir.packets/1)
    #[arg(long, value_name = "FILE")]
    pub(crate) packet_log: Option<PathBuf>,
    /// Control socket of an emulator on the path, whose laws, counters and drops are stored with the result
    /// [default: the emulator of the lab in which this program runs]
    #[arg(long, value_name = "PATH")]
    pub(crate) emulator: Option<PathBuf>,
    /// This host's side of that emulator: a or b [default: by its counters]
    #[arg(long, value_name = "SIDE", requires = "emulator", value_parser = ["a", "b"])]
    pub(crate) emulator_side: Option<String>,
    /// Run this shell command on this host before the test and store its output with the result; if it fails, the test
    /// does not start. Processes that it leaves are ended with it
    #[arg(long, value_name = "COMMAND")]
    pub(crate) before: Option<String>,
    /// Run this shell command on this host after the test, also after one that failed or was interrupted, and store its
    /// output with the result
    #[arg(long, value_name = "COMMAND")]
    pub(crate) after: Option<String>,
    /// Store a label with the result; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) label: Vec<Label>,
    /// Do not store the result
    #[arg(long)]
    pub(crate) no_store: bool,
    /// Print as this tool does; set by its command.
    #[arg(skip)]
    pub(crate) tool: Option<crate::commands::tool::Tool>,
}

/// Flags that repeat a test, and the flag of a file, which a repeated test does not have.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Repetition")]
pub(crate) struct LaterArgs {
    /// Run the test N times: mean, variance and confidence interval; with --precision, the first stage [default there: 10; with --compare-content: 5]
    #[arg(long, value_name = "N", value_parser = values::whole(1_u32..=values::MAX_RUNS))]
    pub(crate) runs: Option<u32>,
    /// Confidence of the interval, 50 to below 100 % [default: 95%]
    #[arg(long, value_name = "PERCENT", value_parser = values::confidence)]
    pub(crate) confidence: Option<f64>,
    /// Repeat the test until the confidence interval of its throughput is within this percentage of the mean; the standard
    /// deviation of the first runs determines the number (Stein's two stages), at most 100
    #[arg(long, value_name = "PERCENT", value_parser = values::percentage)]
    pub(crate) precision: Option<f64>,
    /// Run the test with zeros and with random bytes, N times each (--runs), in shuffled order: the ratio of the two rates
    /// shows whether the path compresses. For one direction; the rate must be limited by the path, so without -b
    #[arg(long, conflicts_with_all = ["file", "bidir", "shape", "rr", "transfers", "icmp", "content"])]
    pub(crate) compare_content: bool,
    /// The same as --content file:FILE
    #[arg(short = 'F', long = "file", value_name = "FILE", help_heading = "Traffic", conflicts_with_all = ["content", "replay", "plan", "profile"])]
    pub(crate) file: Option<PathBuf>,
}

impl LaterArgs {
    /// Whether the test is repeated.
    pub(crate) fn is_repeated(&self) -> bool {
        self.runs.is_some()
            || self.precision.is_some()
            || self.confidence.is_some()
            || self.compare_content
    }
}

impl TrafficArgs {
    /// The transport that these flags name; without a flag, the path of a Unix socket and an interface imply one.
    pub(crate) fn transport(&self, hosts: &[String]) -> TransportName {
        let kinds = hosts.iter().map(|host| HostKind::of(host));
        let other = kinds.into_iter().find(|kind| *kind != HostKind::Network);
        let of_host = TransportName::ALL.iter().find(|name| {
            other == Some(name.host_kind()) && (name.datagrams() == self.udp || !name.has_server())
        });
        match (self.transport, of_host) {
            (Some(named), _) => named,
            (None, Some(of_host)) => *of_host,
            (None, None) if self.multicast.is_some() => Transport::multicast().name(),
            (None, None) if self.broadcast.is_some() => Transport::broadcast().name(),
            (None, None) if self.udp => Transport::udp().name(),
            (None, None) if self.icmp => Transport::icmp().name(),
            (None, None) if self.udp_lite => Transport::udp_lite().name(),
            (None, None) if self.ethernet => Transport::ethernet().name(),
            (None, None) => TransportName::default(),
        }
    }

    /// Whether a flag names the transport.
    pub(crate) fn names_transport(&self) -> bool {
        self.transport.is_some()
            || self.udp
            || self.udp_lite
            || self.multicast.is_some()
            || self.broadcast.is_some()
    }

    /// The sending directions, one for each group of connections.
    pub(crate) fn directions(&self) -> &'static [Direction] {
        match (self.bidir, self.reverse) {
            (true, _) => &[Direction::Forward, Direction::Reverse],
            (_, true) => &[Direction::Reverse],
            _ => &[Direction::Forward],
        }
    }
}
