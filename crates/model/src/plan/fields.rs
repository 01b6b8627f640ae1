//! The fields of a connection. The flat table of documents, the typed connection and its transport options
//! are generated from these declarations.

use std::net::IpAddr;

use super::transport::{Refusal, connection};
use super::{
    Alignment, CatchUp, Direction, Echo, Ecn, EngineName, HeaderFormat, ProfileName, RateSchedule,
    Scope, Shape, Size, Spacing, Switch, VoiceCodec,
};
use crate::content::Content;
use crate::law::is_default;
use crate::names::is_device;
use crate::units::{BitRate, ByteSize, SendRate, Span};

connection! {
    // Fields of all transports.
    common {
        /// Name of a traffic profile, whose connections take the place of this one. Other fields that are given here replace theirs.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Traffic profile")]
        profile: Option<ProfileName> = None,
        /// The server of this connection: a name or address, with or without its port, or unix:PATH. Absent: the test's.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<String> = None,
        /// Its port, 1 to 65535. Absent: that of `host`, else the test's.
        #[serde(skip_serializing_if = "Option::is_none")]
        port: Option<u16> = None,
        /// Which side sends.
        #[schemars(extend("x-group" = "what"))]
        direction: Direction = Direction::Forward,
        /// How datagrams are sent and received: through sockets, or by XDP programs below the socket layer. `xdp` is for streams of UDP or Ethernet frames from the client with the whole data header, and needs Linux with CAP_BPF and CAP_NET_ADMIN at both ends.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(extend("x-group" = "what"))]
        engine: EngineName = EngineName::default(),
        /// Shape of the traffic: a stream of data, or transactions.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(extend("x-group" = "what"))]
        shape: Shape = Shape::Stream,
        /// Bytes of a request (shape `rr` or `crr`), up to a payload's maximum. Absent: 1 over a stream, 8 in a datagram.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Request size", extend("x-group" = "how-much"))]
        request: Option<ByteSize> = None,
        /// Bytes of a response, likewise.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Response size", extend("x-group" = "how-much"))]
        response: Option<ByteSize> = None,
        /// Transactions in progress at the same time, 1 to 1024, where no rate is stated; of transfers, the number of users. Absent: 1.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Transactions in progress", extend("x-group" = "how-much"))]
        outstanding: Option<u32> = None,
        /// Volume of each transfer (shape `transfers`), 1 byte to 1 TiB: a size, or a law of sizes.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Volume of a transfer", extend("x-group" = "how-much", "x-unit" = "bytes"))]
        volume: Option<Size> = None,
        /// Law of the time from each start of a transfer to the next, whether or not earlier ones have completed. Unless the law states its mean, it follows from `rate`. Absent: with a rate exponential (a Poisson process); without one, a transfer starts when one before it has completed.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Starts of transfers", extend("x-group" = "how-much"))]
        starts: Option<Spacing> = None,
        /// Law of the pause between the end of a user's transfer and the start of the next, where neither `rate` nor `starts` is stated. The law states its mean. Absent: none.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Pause between transfers", extend("x-group" = "how-much"))]
        pause: Option<Spacing> = None,
        /// Maximum number of transfers at the same time, 1 to 65 536, where their starts are scheduled. Those due above it are not started, and counted. Absent: 65 536.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Concurrent transfers", extend("x-group" = "how-much"))]
        max_concurrent: Option<u32> = None,
        /// Rate at which the datagrams of each transfer are sent, payload bit/s, 1k to 1T; with transport `udp` only. Absent: 1M.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Rate of a transfer", extend("x-group" = "how-much"))]
        transfer_rate: Option<BitRate> = None,
        /// Number of objects of a page, 1 to 1000: a number, or a law of sizes with its bounds. A user transfers the first object, then the others at the same time, and pauses when the last one has arrived. Absent: each transfer is by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Objects of a page", extend("x-group" = "how-much"))]
        objects: Option<Size> = None,
        /// Volume of the first object of a page, 1 byte to 1 TiB: a size, or a law of sizes. Absent: as `volume`, which is that of the others.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Volume of the first object", extend("x-group" = "how-much", "x-unit" = "bytes"))]
        main_volume: Option<Size> = None,
        /// Maximum number of connections of a user at the same time for the objects of a page, 1 to 64. Absent: 6.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Connections for a page", extend("x-group" = "how-much"))]
        page_connections: Option<u32> = None,
        /// The server sends back what it receives: `whole`, or the first bytes of each datagram, 32 to 65 535. Absent: nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-group" = "what"))]
        echo: Option<Echo> = None,
        /// Number of such flows, 1 to 200 000.
        #[schemars(title = "Number of flows", extend("x-group" = "what"))]
        count: u32 = 1,
        /// Payload bytes of a datagram (0 to 65 507, or 65 527 over IPv6), or bytes of a write to a stream (1 to 16 M): a size, or a law of sizes. Absent: the largest datagram without fragmentation; for a stream 512K, or less when it is paced.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Payload size", extend("x-group" = "how-much", "x-unit" = "bytes"))]
        payload: Option<Size> = None,
        /// Format of the data header that begins each datagram.
        #[serde(skip_serializing_if = "is_native")]
        #[schemars(title = "Data header")]
        header: HeaderFormat = HeaderFormat::default(),
        /// Rate of this connection: payload bit/s or packets/s; `0` is unlimited. Absent: unlimited for TCP, 1M for UDP, 1000pps for empty datagrams. Transactions: requests/s, sent at their scheduled times; absent, each waits for a response. Transfers: their mean starts/s.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(extend("x-group" = "how-much"))]
        rate: Option<SendRate> = None,
        /// Changes of the rate while it sends, by time since its start. A change of a running test (`weir ctl rate`) ends them.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Rate over time", extend("x-group" = "how-much"))]
        rate_schedule: Option<RateSchedule> = None,
        /// Law of the intervals between packets. Unless the law states their mean, it follows from the rate. Absent: equal intervals.
        #[serde(skip_serializing_if = "is_default")]
        #[schemars(title = "Packet intervals", extend("x-group" = "how-much"))]
        spacing: Spacing = Spacing::default(),
        /// Duration of sending; `0`: until stopped. At most one of `duration`, `bytes` and `packets` may be set; with none of them 10 s.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(example = "10s", extend("x-group" = "how-long"))]
        duration: Option<Span> = None,
        /// Stop after this many payload bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Byte limit", extend("x-group" = "how-long"))]
        bytes: Option<ByteSize> = None,
        /// Stop after this many datagrams, writes or transactions.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Packet limit", extend("x-group" = "how-long", "x-unit" = "packets"))]
        packets: Option<u64> = None,
        /// Start this long after the start of the test.
        #[serde(skip_serializing_if = "is_zero")]
        #[schemars(example = "2s", extend("x-group" = "how-long"))]
        start_after: Span = Span(0),
        /// `false`: wait for a start command on the control socket.
        #[serde(skip_serializing_if = "is_true")]
        #[schemars(title = "Start with the test", extend("default" = true, "x-group" = "how-long"))]
        autostart: bool = true,
        /// Content of the payload.
        #[schemars(title = "Payload content", extend("x-group" = "what"))]
        content: Content = Content::Random,
        /// The receiver verifies the seeded payload: bit errors and truncation are counted.
        #[serde(skip_serializing_if = "is_false")]
        #[schemars(title = "Verify the payload")]
        verify: bool = false,
        /// How a paced sender treats late slots. Transactions with the default send late requests immediately.
        catch_up: CatchUp = CatchUp::default(),
        /// Socket buffer of both ends ("window"), bytes. Absent: TCP's autotuning; for UDP sized by Weir.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Socket buffer")]
        window: Option<ByteSize> = None,
        /// Codec of the voice that these datagrams imitate: the result has the R factor and MOS of ITU-T G.107. Payloads are whole frames, and packets are sent at their duration: 20 ms (`g723.1`: 30 ms), unless `payload`, `rate` or `spacing` give another.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Voice codec")]
        voice: Option<VoiceCodec> = None,
        /// Depth of the receiver's jitter buffer, up to 10 s; with `voice` only. Packets that arrive later than this after the fastest one are too late for the decoder. Absent: 60 ms.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(title = "Jitter buffer", example = "60ms")]
        jitter_buffer: Option<Span> = None,
    }
    // A transport's options are those of the groups that it includes.
    options {
        /// Options of UDP.
        UdpOptions {
            /// Segmentation offload at the sender (UDP_SEGMENT).
            #[schemars(with = "Switch", title = "Segmentation offload (GSO)", extend("default" = "auto"))]
            gso: Switch,
            /// Receive offload at the receiver (UDP_GRO).
            #[schemars(with = "Switch", title = "Receive offload (GRO)", extend("default" = "auto"))]
            gro: Switch,
            /// Don't-fragment (IPv4) and no local fragmentation.
            #[schemars(with = "bool", title = "Don't fragment")]
            dont_fragment: bool,
            /// ECN codepoint of sent datagrams: the lower two bits of the TOS byte, which are 0 in `tos`. The receiver counts the codepoints that arrive. TCP negotiates ECN by itself (net.ipv4.tcp_ecn).
            #[schemars(with = "Ecn", title = "ECN codepoint", extend("default" = "off"))]
            ecn: Ecn,
        }
        with {
            /// Options of the IP layer.
            ip: IpOptions,
        }
        impl {
            fn ip(&self) -> Option<&IpOptions> {
                Some(&self.ip)
            }

            fn ip_mut(&mut self) -> Option<&mut IpOptions> {
                Some(&mut self.ip)
            }

            fn udp(&self) -> Option<&UdpOptions> {
                Some(self)
            }

            fn udp_mut(&mut self) -> Option<&mut UdpOptions> {
                Some(self)
            }
        }

        /// Options of TCP.
        TcpOptions {
            /// TCP maximum segment size, 88 to 32 767 bytes.
            #[schemars(title = "Maximum segment size", extend("x-unit" = "bytes"))]
            mss: Option<u32>,
            /// TCP_NODELAY: Nagle's algorithm off.
            #[schemars(with = "bool", title = "No delay (TCP_NODELAY)")]
            no_delay: bool,
            /// TCP_CORK: partial segments wait until they are full, 200 ms at most.
            #[schemars(with = "bool", title = "Cork (TCP_CORK)")]
            cork: bool,
            /// Whether the receiver delays acknowledgements (TCP_QUICKACK, set again after each read). `auto`: the kernel decides.
            #[schemars(with = "Switch", title = "Delayed acknowledgements", extend("default" = "auto"))]
            delayed_ack: Switch,
            /// TCP congestion control by its kernel name.
            #[schemars(title = "Congestion control")]
            congestion: Option<String>,
            /// The connection fails when sent data stays unacknowledged for this time, 1 ms to 1 h (TCP_USER_TIMEOUT). Absent: the system's limit.
            #[schemars(example = "5s")]
            user_timeout: Option<Span>,
        }
        with {
            /// Options of its byte stream.
            stream: StreamOptions,
            /// Options of the IP layer.
            ip: IpOptions,
        }
        impl {
            fn ip(&self) -> Option<&IpOptions> {
                Some(&self.ip)
            }

            fn ip_mut(&mut self) -> Option<&mut IpOptions> {
                Some(&mut self.ip)
            }

            fn stream(&self) -> Option<&StreamOptions> {
                Some(&self.stream)
            }

            fn tcp(&self) -> Option<&TcpOptions> {
                Some(self)
            }

            fn tcp_mut(&mut self) -> Option<&mut TcpOptions> {
                Some(self)
            }

            fn check(&self) -> Result<(), Refusal> {
                if let Some(m) = self.mss.filter(|m| !(88..=32_767).contains(m)) {
                    return Err(("mss", m.to_string(), "88 to 32767".into()));
                }
                let is_timeout = |t: &Span| (1_000_000..=3_600_000_000_000).contains(&t.0);
                if let Some(t) = self.user_timeout.filter(|t| !is_timeout(t)) {
                    return Err(("user_timeout", t.to_string(), "1ms to 1h".into()));
                }
                let is_name = |c: &str| {
                    let known = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
                    (1..=15).contains(&c.len()) && c.bytes().all(known)
                };
                match self.congestion.as_ref().filter(|c| !is_name(c)) {
                    Some(c) => {
                        Err(("congestion", c.clone(), "a kernel name such as cubic, reno, bbr".into()))
                    }
                    None => Ok(()),
                }
            }
        }

        /// Options of the IP layer.
        IpOptions {
            /// The whole TOS or traffic-class byte.
            #[schemars(title = "TOS or traffic class")]
            tos: Option<u8>,
            /// Path MTU to test, 148 to 32 807 bytes: no packet is longer, with the headers of IP. TCP's MSS and the default payload of datagrams follow from it. Absent: that of the path.
            #[schemars(title = "Path MTU", extend("x-unit" = "bytes"))]
            mtu: Option<u32>,
            /// IPv6 flow label, 20 bits; with `family = "ipv6"` only.
            flow_label: Option<u32>,
            /// Time to live or hop limit, 1 to 255.
            #[schemars(title = "Time to live")]
            ttl: Option<u8>,
            /// Priority of sent packets in the queueing discipline of the sending host (SO_PRIORITY), 0 to 15; above 6 with
            /// CAP_NET_ADMIN.
            #[schemars(title = "Queueing priority")]
            priority: Option<u8>,
            /// The kernel paces as well (SO_MAX_PACING_RATE), bit/s.
            kernel_pacing: Option<BitRate>,
            /// Source port on the side that runs `weir test`; flows of a `count` use the following ports, up to 65535.
            client_port: Option<u16>,
            /// Last source port. Connections of single transactions (shape `crr` or `cc`) and transfers use the ports from `client_port` to this one in turn.
            #[schemars(title = "Last client port")]
            client_port_last: Option<u16>,
        }
        with {}
        impl {}

        /// Options of datagrams that may reach several receivers.
        GroupOptions {
            /// Where the datagrams are sent: a multicast group, or a broadcast address.
            #[schemars(title = "Group or broadcast address", example = "239.1.1.1")]
            group: Option<IpAddr>,
            /// The UDP port there. Absent: 9348.
            #[schemars(title = "Port of the group")]
            group_port: Option<u16>,
            /// The receiver's interface, 1 to 15 bytes. Absent: that of its control connection. Required for a group of link-local scope.
            #[schemars(title = "Interface of the receiver")]
            interface: Option<String>,
            /// The receiver joins for this sender only (source-specific multicast, RFC 4607).
            #[schemars(with = "bool", title = "Source-specific")]
            source_specific: bool,
            /// The receiver joins this long after the start of the test. Absent: before the start.
            #[schemars(example = "1s")]
            join_after: Option<Span>,
            /// The receiver leaves this long after the start of the test. Absent: at the end.
            #[schemars(example = "5s")]
            leave_after: Option<Span>,
        }
        with {}
        impl {
            fn check(&self) -> Result<(), Refusal> {
                let Some(group) = self.group else {
                    let accepted = "the address to which the datagrams are sent";
                    return Err(("group", "missing".into(), accepted.into()));
                };
                if self.group_port == Some(0) {
                    return Err(("group_port", "0".into(), "1 to 65535".into()));
                }
                if let Some(name) = self.interface.as_ref().filter(|name| !is_device(name)) {
                    let accepted = "an interface name of 1 to 15 bytes";
                    return Err(("interface", format!("'{name}'"), accepted.into()));
                }
                if Scope::of(group) == Some(Scope::Link) && self.interface.is_none() {
                    let accepted = "the receiver's interface: link-local groups exist on each link";
                    return Err(("interface", format!("missing with group {group}"), accepted.into()));
                }
                match (self.join_after, self.leave_after) {
                    (join, Some(leave)) if leave <= join.unwrap_or(Span(0)) => {
                        let given = format!("{leave} with join_after {}", join.unwrap_or(Span(0)));
                        Err(("leave_after", given, "a time after that of joining".into()))
                    }
                    (Some(span), _) | (None, Some(span)) if span.0 > 7 * 86_400 * 1_000_000_000 => {
                        let field = if self.join_after.is_some() { "join_after" } else { "leave_after" };
                        Err((field, span.to_string(), "up to 7 days".into()))
                    }
                    _ => Ok(()),
                }
            }

            fn group(&self) -> Option<&GroupOptions> {
                Some(self)
            }
        }

        /// Options of a checksum that may cover a part of the datagram.
        CoverageOptions {
            /// Bytes of each datagram that the checksum covers, from the header of 8 bytes on: 8 to 65 535, or 0 for all. The receiver drops datagrams with a smaller coverage. Absent: all.
            #[schemars(title = "Checksum coverage", extend("x-unit" = "bytes"))]
            checksum_coverage: Option<u16>,
        }
        with {}
        impl {
            fn check(&self) -> Result<(), Refusal> {
                match self.checksum_coverage {
                    Some(bytes @ 1..=7) => {
                        let accepted = "0 (all) or 8 to 65535: the header is always covered";
                        Err(("checksum_coverage", bytes.to_string(), accepted.into()))
                    }
                    _ => Ok(()),
                }
            }
        }

        /// Options of a byte stream.
        StreamOptions {
            /// Sending without a copy (sendfile from memory) on a stream.
            #[schemars(with = "bool", title = "Send without a copy")]
            zero_copy: bool,
            /// The receiver of a stream discards in the kernel instead of copying (MSG_TRUNC).
            #[schemars(with = "bool", title = "Discard at the receiver")]
            discard: bool,
            /// The server stores the bytes of a stream in a file, if it permits that (`weir serve --file-dir`).
            #[schemars(with = "bool", title = "Store in a file at the server")]
            to_file: bool,
            /// The sender leaves its direction of a stream open after the last byte, until the connection is closed. Otherwise it closes that direction (half close), so that the receiver reads the end of the stream.
            #[schemars(with = "bool", title = "No half close")]
            no_half_close: bool,
            /// Writes and reads of a stream start in memory at this offset from an address that is a multiple of this power of two: `BYTES[+OFFSET]`. Absent: the content's position decides. A write size that is no multiple of it costs a copy per write.
            #[schemars(title = "Alignment in memory")]
            align: Option<Alignment>,
        }
        with {}
        impl {}
    }
}

fn is_native(h: &HeaderFormat) -> bool {
    *h == HeaderFormat::default()
}
fn is_zero(s: &Span) -> bool {
    s.0 == 0
}
fn is_true(b: &bool) -> bool {
    *b
}
fn is_false(b: &bool) -> bool {
    !*b
}
