//! The formats of a datagram's data header, by name. The content of each format is declared by its codec in
//! `wire::header`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::ByteSize;

use super::Transport;

/// Properties of a format that plans are checked against.
struct Facts {
    label: &'static str,
    /// Minimum payload of a datagram, bytes.
    min_payload_bytes: u64,
    /// Bytes that an application's media follow; 0 for headers that stand for media themselves.
    before_media_bytes: u64,
    /// Whether streams may have it.
    streams: bool,
    /// Whether datagrams carry a sequence number.
    numbered: bool,
    /// Whether datagrams with room for it carry a send time that a one-way delay can be computed from.
    timed: bool,
    /// Whether datagrams that come back are measured by it.
    echoed: bool,
}

/// Declares the formats: variant, name, properties.
macro_rules! formats {
    ($($(#[$meta:meta])* $variant:ident: $label:literal { $($fact:ident: $value:expr),* $(,)? },)*) => {
        /// Format of the data header of each datagram.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
        pub enum HeaderFormat {
            $($(#[$meta])* #[serde(rename = $label)] $variant,)*
        }

        impl HeaderFormat {
            /// All formats; the first is the default.
            pub const ALL: &[HeaderFormat] = &[$(HeaderFormat::$variant),*];

            fn facts(self) -> Facts {
                match self {
                    $(HeaderFormat::$variant => Facts { label: $label, $($fact: $value),* },)*
                }
            }
        }
    };
}

formats! {
    /// Weir's own: sequence, send time, flow and a keyed tag, as far as they fit into the payload.
    #[default]
    Native: "native" { min_payload_bytes: 0, before_media_bytes: 0, streams: true, numbered: true, timed: true, echoed: true },
    /// No header: packets are only counted, and loss is the difference of the ends' counts.
    None: "none" { min_payload_bytes: 0, before_media_bytes: 0, streams: true, numbered: false, timed: false, echoed: false },
    /// D-ITG's: flow, a 32-bit sequence number, and the time of day in microseconds.
    Ditg: "ditg" { min_payload_bytes: 20, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: true },
    /// That of `ITGSend -p 1`, without a time.
    DitgShort: "ditg-short" { min_payload_bytes: 8, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: true },
    /// iperf2's: a 64-bit sequence number, and the send time in microseconds.
    Iperf2: "iperf2" { min_payload_bytes: 16, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// That of iperf2 before 2.0.10, with a 32-bit sequence number.
    Iperf2Narrow: "iperf2-32bit" { min_payload_bytes: 12, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// iperf3's: send time in microseconds, and a 32-bit sequence number.
    Iperf3: "iperf3" { min_payload_bytes: 16, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// iperf3's with a 64-bit sequence number (`iperf3 --udp-counters-64bit`).
    Iperf3Wide: "iperf3-64bit" { min_payload_bytes: 16, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// MGEN's message: a 32-bit sequence number, and the send time in microseconds.
    Mgen: "mgen" { min_payload_bytes: 28, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// MGEN's message with a checksum (`mgen txchecksum`).
    MgenChecked: "mgen-crc" { min_payload_bytes: 52, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// nuttcp's with intervals (`nuttcp -u -i`): the bytes sent so far, from which the number follows.
    Nuttcp: "nuttcp" { min_payload_bytes: 32, before_media_bytes: 0, streams: false, numbered: true, timed: false, echoed: false },
    /// RTP's (RFC 3550), with Weir's own behind it.
    Rtp: "rtp" { min_payload_bytes: 13, before_media_bytes: 12, streams: false, numbered: true, timed: true, echoed: false },
    /// That of test packets of STAMP (RFC 8762) and TWAMP (RFC 5357): send time, and a 32-bit sequence number.
    Stamp: "stamp" { min_payload_bytes: 44, before_media_bytes: 0, streams: false, numbered: true, timed: true, echoed: true },
    /// The same in authenticated mode, with an HMAC.
    StampHmac: "stamp-hmac" { min_payload_bytes: 112, before_media_bytes: 0, streams: false, numbered: true, timed: true, echoed: true },
}

impl HeaderFormat {
    /// Its name in documents and on the command line: `native`.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.facts().label
    }

    /// Bytes of a payload that an application's media follow: 12 of RTP. Weir's own headers stand for media.
    #[must_use]
    pub fn before_media_bytes(self) -> u64 {
        self.facts().before_media_bytes
    }

    /// Minimum payload of a datagram, bytes.
    #[must_use]
    pub fn min_payload_bytes(self) -> u64 {
        self.facts().min_payload_bytes
    }

    /// Whether datagrams with a payload carry a sequence number.
    #[must_use]
    pub fn numbered(self) -> bool {
        self.facts().numbered
    }

    /// Whether datagrams end with a checksum instead of content.
    #[must_use]
    pub fn has_trailer(self) -> bool {
        self == HeaderFormat::MgenChecked
    }

    /// Whether the content of datagrams can be verified: its place in a datagram is known, and nothing replaces it.
    #[must_use]
    pub fn verifiable(self) -> bool {
        self.numbered() && !self.has_trailer()
    }

    /// Whether datagrams with room for it carry a send time that a one-way delay can be computed from.
    pub(super) fn timed(self) -> bool {
        self.facts().timed
    }

    /// Whether datagrams that come back are measured by it.
    pub(super) fn echoed(self) -> bool {
        self.facts().echoed
    }

    /// The first field of a connection that is invalid with this format: field, given value, accepted values.
    pub(super) fn refused(
        self,
        transport: &Transport,
        payload: Option<ByteSize>,
        verify: bool,
    ) -> Option<(&'static str, String, String)> {
        if !transport.datagrams() {
            let streams = Self::ALL.iter().filter(|format| format.facts().streams);
            let accepted = crate::phrases::one_of(streams.map(|format| format.label()));
            let given = format!("{self} with transport {}", transport.name());
            return (!self.facts().streams).then_some(("header", given, accepted));
        }
        if transport.replays_frames() && self != HeaderFormat::None {
            let given = format!("{self} with transport {}", transport.name());
            return Some(("header", given, "none: frames are sent as they are".into()));
        }
        let least = self.min_payload_bytes();
        if let Some(given) = payload.filter(|payload| payload.0 < least) {
            let accepted = format!("at least {least} bytes with header {self}");
            return Some(("payload", given.0.to_string(), accepted));
        }
        (verify && !self.verifiable()).then(|| {
            let all = Self::ALL.iter().filter(|format| format.verifiable());
            let names = all.map(|format| format.label());
            let names = crate::phrases::one_of(names);
            let accepted = format!("a header with a sequence number, and no checksum: {names}");
            ("verify", format!("true with header {self}"), accepted)
        })
    }
}

crate::names::labelled!(HeaderFormat, "header format");
