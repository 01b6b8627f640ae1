//! Voice codecs, as the E-model (ITU-T G.107) rates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Connection, HeaderFormat, Switch};
use crate::units::{RateLimit, SendRate, Span};

/// Depth of a jitter buffer that the plan does not state.
pub const DEFAULT_JITTER_BUFFER: Span = Span(60_000_000);

/// Maximum depth of a jitter buffer.
const MAX_JITTER_BUFFER: Span = Span::from_seconds(10);
/// Duration of a packet that the plan does not state, ns, in whole frames (RFC 3551, section 4.2).
const DEFAULT_PACKET_NS: u64 = 20 * MS;
/// Tolerance of the interval, of the duration of a packet: rates in whole packets per second are rounded.
const TOLERANCE: f64 = 0.02;

/// Properties of a codec.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CodecFacts {
    /// Its name in documents and on the command line.
    pub label: &'static str,
    /// Bytes of a frame.
    pub frame_bytes: u64,
    /// Duration of a frame, ns.
    pub frame_ns: u64,
    /// What the codec adds to the duration of a packet's frames, ns: the processing of a frame, which takes up to its duration
    /// (ITU-T G.114, Annex A.2; 0 of a codec that codes each sample), look-ahead and concealment.
    pub added_ns: u64,
    /// Equipment impairment factor (Ie).
    pub ie: f64,
    /// Packet-loss robustness factor (Bpl), for independent losses.
    pub bpl: f64,
}

/// Declares the codecs: variant, name, properties.
macro_rules! codecs {
    ($($(#[$meta:meta])* $variant:ident: $label:literal { $($fact:ident: $value:expr),* $(,)? },)*) => {
        /// A voice codec with its impairment factors of ITU-T G.113 Appendix I.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
        pub enum VoiceCodec {
            $($(#[$meta])* #[serde(rename = $label)] $variant,)*
        }

        impl VoiceCodec {
            /// All codecs.
            pub const ALL: &[VoiceCodec] = &[$(VoiceCodec::$variant),*];

            /// Its properties.
            #[must_use]
            pub fn facts(self) -> CodecFacts {
                match self {
                    $(VoiceCodec::$variant => CodecFacts { label: $label, $($fact: $value),* },)*
                }
            }
        }
    };
}

const MS: u64 = 1_000_000;

codecs! {
    /// G.711, 64 kbit/s, without concealment of lost packets.
    #[default]
    G711: "g711" { frame_bytes: 80, frame_ns: 10 * MS, added_ns: 0, ie: 0.0, bpl: 4.3 },
    /// G.711, 64 kbit/s, with the packet loss concealment of its Appendix I.
    G711Plc: "g711-plc" { frame_bytes: 80, frame_ns: 10 * MS, added_ns: 3_750_000, ie: 0.0, bpl: 25.1 },
    /// G.729 Annex A, 8 kbit/s, with voice activity detection.
    G729a: "g729a" { frame_bytes: 10, frame_ns: 10 * MS, added_ns: 15 * MS, ie: 11.0, bpl: 19.0 },
    /// G.723.1, 6.3 kbit/s, with voice activity detection.
    G7231: "g723.1" { frame_bytes: 24, frame_ns: 30 * MS, added_ns: 37_500_000, ie: 15.0, bpl: 16.1 },
    /// GSM enhanced full rate, 12.2 kbit/s.
    GsmEfr: "gsm-efr" { frame_bytes: 31, frame_ns: 20 * MS, added_ns: 20 * MS, ie: 5.0, bpl: 10.0 },
}

impl VoiceCodec {
    /// Its name in documents and on the command line: `g711`.
    #[must_use]
    pub fn label(self) -> &'static str {
        self.facts().label
    }

    /// Time that the codec adds to the delay of a packet with `media_bytes` of speech: ITU-T G.114, Annex A.2. For N
    /// frames it is N + 1 frames and the look-ahead, ns.
    #[must_use]
    pub fn delay_ns(self, media_bytes: u64) -> u64 {
        let facts = self.facts();
        let frames = (media_bytes / facts.frame_bytes).max(1);
        frames.saturating_mul(facts.frame_ns).saturating_add(facts.added_ns)
    }
}

/// A refused field: its name, the given value, accepted values.
type Refused = (&'static str, String, String);

impl Connection {
    /// Bytes of a payload that are not voice.
    fn before_voice_bytes(&self) -> u64 {
        self.header.before_media_bytes()
    }

    /// Interval between the packets of a talk spurt, if the plan states it, ns.
    fn stated_interval_ns(&self) -> Option<f64> {
        self.spacing.within_burst().moments().mean_ns.or_else(|| match self.rate?.limit {
            RateLimit::Packets(packets) => (packets > 0.0).then(|| 1e9 / packets),
            RateLimit::Bits(bits) => {
                let bytes = self.payload.as_ref()?.moments().mean_bytes;
                (bits.0 > 0).then(|| 8e9 * bytes / bits.0 as f64)
            }
            RateLimit::Unlimited => None,
        })
    }

    /// Frames of a packet: by the payload, else the interval, else 20 ms.
    fn voice_frames(&self, codec: VoiceCodec) -> u64 {
        let facts = codec.facts();
        let frames = match &self.payload {
            Some(payload) => {
                let bytes = payload.moments().max_bytes;
                bytes.saturating_sub(self.before_voice_bytes()) / facts.frame_bytes
            }
            None => {
                let interval_ns = self.stated_interval_ns().unwrap_or(DEFAULT_PACKET_NS as f64);
                (interval_ns / facts.frame_ns as f64).round() as u64
            }
        };
        // A second of voice is more than a packet has, and fits into a datagram.
        frames.clamp(1, 1_000_000_000 / facts.frame_ns)
    }

    /// Payload of a voice connection that states none: whole frames of its codec, bytes.
    pub(super) fn voice_payload(&self) -> Option<u64> {
        let codec = self.voice?;
        Some(self.before_voice_bytes() + self.voice_frames(codec) * codec.facts().frame_bytes)
    }

    /// Rate of a voice connection that states none: one packet in its duration.
    pub(super) fn voice_rate(&self) -> Option<SendRate> {
        let codec = self.voice?;
        let duration_ns = self.voice_frames(codec) * codec.facts().frame_ns;
        Some(SendRate { limit: RateLimit::Packets(1e9 / duration_ns as f64), burst: 1 })
    }

    /// The first invalid field of those for voice.
    pub(super) fn voice_refused(&self) -> Option<Refused> {
        let Some(codec) = self.voice else {
            let accepted = "`voice` with its codec in addition".to_owned();
            return Some(("jitter_buffer", self.jitter_buffer?.to_string(), accepted));
        };
        if let Some(depth) = self.jitter_buffer.filter(|depth| *depth > MAX_JITTER_BUFFER) {
            return Some(("jitter_buffer", depth.to_string(), "0 to 10s".into()));
        }
        if !self.transport.datagrams() {
            let given = format!("{codec} with transport {}", self.transport.name());
            return Some(("voice", given, "a transport of datagrams".into()));
        }
        if self.shape.has_transactions() {
            let given = format!("{codec} with shape {}", self.shape);
            return Some(("voice", given, "no requests: voice is sent in one direction".into()));
        }
        if !self.header.timed() {
            let timed = HeaderFormat::ALL.iter().filter(|header| header.timed());
            let names = crate::phrases::one_of(timed.map(|header| header.label()));
            let given = format!("{} with voice {codec}", self.header);
            return Some(("header", given, format!("a header with number and send time: {names}")));
        }
        if self.transport.udp_options().is_some_and(|udp| udp.gro == Switch::On) {
            let accepted = "auto or off: each packet needs an arrival time of its own";
            return Some(("gro", format!("on with voice {codec}"), accepted.into()));
        }
        if let Some(schedule) = &self.rate_schedule {
            let given = format!("{schedule} with voice {codec}");
            return Some(("rate_schedule", given, "no schedule: a codec has one rate".into()));
        }
        self.packets_refused(codec)
    }

    /// Refuses packets that are not those of the codec.
    fn packets_refused(&self, codec: VoiceCodec) -> Option<Refused> {
        let facts = codec.facts();
        let before = self.before_voice_bytes();
        if let Some(payload) = &self.payload {
            let moments = payload.moments();
            let media = moments.max_bytes.saturating_sub(before);
            // An application's own header may be a part of other payloads than those behind RTP's.
            let is_whole = before == 0 || media % facts.frame_bytes == 0;
            if !payload.is_constant() || media < facts.frame_bytes || !is_whole {
                let behind = match before {
                    0 => String::new(),
                    bytes => format!(" behind {bytes} bytes of {}", self.header),
                };
                let accepted =
                    format!("payloads of whole frames of {} bytes{behind}", facts.frame_bytes);
                return Some(("voice", format!("{codec} with payload {payload}"), accepted));
            }
        }
        let duration_ns = self.voice_frames(codec) * facts.frame_ns;
        let is_regular = self.spacing.within_burst().is_constant()
            && self.rate.is_none_or(|rate| rate.burst <= 1);
        let is_unlimited = self.send_rate().limit == RateLimit::Unlimited;
        let is_near = self
            .stated_interval_ns()
            .is_none_or(|ns| (ns / duration_ns as f64 - 1.0).abs() <= TOLERANCE);
        (is_unlimited || !is_regular || !is_near).then(|| {
            let rate = match self.spacing.moments().mean_ns.and(Some(&self.spacing)) {
                Some(law) => format!("spacing {law}"),
                None => format!("rate {}", self.send_rate()),
            };
            let duration = Span(duration_ns);
            let accepted = format!("packets at their duration: every {duration} for this payload");
            ("voice", format!("{codec} with {rate}"), accepted)
        })
    }
}

crate::names::labelled!(VoiceCodec, "codec");

#[cfg(test)]
mod tests {
    use super::*;

    /// ITU-T G.114, Annex A.2: (N + 1) · frame + look-ahead for a codec with frames.
    #[test]
    fn delays_of_codecs_are_those_of_g_114() {
        let ms = |codec: VoiceCodec, bytes| codec.delay_ns(bytes) as f64 / 1e6;
        assert_eq!(ms(VoiceCodec::G711, 160), 20.0);
        assert_eq!(ms(VoiceCodec::G729a, 20), 35.0);
        assert_eq!(ms(VoiceCodec::G7231, 24), 67.5);
        assert_eq!(ms(VoiceCodec::GsmEfr, 31), 40.0);
        assert_eq!(ms(VoiceCodec::G729a, 0), 25.0, "at least one frame");
    }

    fn plan(fields: &str) -> Result<crate::plan::Plan, Option<String>> {
        let text = "schema = \"weir.plan/1\"\n[[connection]]\ntransport = \"udp\"\n";
        crate::plan::Plan::parse(&format!("{text}{fields}"))
            .map_err(|error| crate::Refusal::from(&error).field)
    }

    #[test]
    fn packets_are_those_of_the_codec() {
        let rtp = "header = \"rtp\"\nvoice";
        for (fields, bytes, ms) in [
            ("voice = \"g711\"".to_owned(), 160, 20.0),
            (format!("{rtp} = \"g711\""), 172, 20.0),
            (format!("{rtp} = \"g729a\""), 32, 20.0),
            (format!("{rtp} = \"g723.1\""), 36, 30.0),
            (format!("{rtp} = \"gsm-efr\""), 43, 20.0),
            (format!("{rtp} = \"g711\"\npayload = 92"), 92, 10.0),
            (format!("{rtp} = \"g711\"\nspacing = \"30ms\""), 252, 30.0),
            (format!("{rtp} = \"g723.1\"\nrate = \"33pps\""), 36, 1e3 / 33.0),
        ] {
            let plan = plan(&fields).unwrap();
            let flow = plan.flows(crate::plan::Family::Ipv4, 1500).remove(0);
            assert_eq!(flow.payload_bytes(), bytes, "{fields}");
            let interval_ms = 1e3 / flow.packets_per_second().unwrap();
            assert!((interval_ms - ms).abs() < 1e-6, "{fields}: {interval_ms}");
        }
    }

    #[test]
    fn packets_of_no_codec_are_refused() {
        let refused = |fields: &str| {
            let text = format!("voice = \"g711\"\n{fields}");
            plan(&text)
                .err()
                .flatten()
                .and_then(|f| f.strip_prefix("connection[0].").map(String::from))
        };
        for fields in [
            "header = \"rtp\"\npayload = 100",
            "payload = 40",
            "payload = \"80..160\"",
            "payload = 160\nspacing = \"10ms\"",
            "spacing = \"exponential(mean=20ms)\"",
            "spacing = \"25ms\"",
            "rate = 0",
            "rate = \"1M\"\npayload = 160",
        ] {
            assert_eq!(refused(fields).as_deref(), Some("voice"), "{fields}");
        }
        for header in ["none", "iperf2", "iperf2-32bit", "iperf3", "iperf3-64bit"] {
            assert_eq!(refused(&format!("header = \"{header}\"")).as_deref(), Some("header"));
        }
        assert_eq!(refused("gro = \"on\"").as_deref(), Some("gro"));
        let schedule = "rate = \"50pps\"\nrate_schedule = \"5s:100pps\"";
        assert_eq!(refused(schedule).as_deref(), Some("rate_schedule"));
        assert_eq!(refused("rate = \"64k\"\npayload = 160"), None);
    }

    #[test]
    fn names_are_read_back() {
        for codec in VoiceCodec::ALL {
            assert_eq!(codec.label().parse(), Ok(*codec));
        }
        assert!("g722".parse::<VoiceCodec>().is_err());
    }
}
