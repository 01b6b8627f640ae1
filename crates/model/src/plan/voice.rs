//! Voice codecs, as the E-model (ITU-T G.107) rates them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ModelError;
use crate::units::Span;

/// Depth of a jitter buffer that the plan does not state.
pub const DEFAULT_JITTER_BUFFER: Span = Span(60_000_000);

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

impl std::fmt::Display for VoiceCodec {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.pad(self.label())
    }
}

impl std::str::FromStr for VoiceCodec {
    type Err = ModelError;
    fn from_str(text: &str) -> Result<Self, ModelError> {
        let found = Self::ALL.iter().find(|codec| codec.label() == text);
        found.copied().ok_or_else(|| ModelError::Value {
            what: "codec",
            given: text.into(),
            accepted: Self::accepted(),
        })
    }
}

impl VoiceCodec {
    /// The names of all codecs, for errors.
    fn accepted() -> &'static str {
        static NAMES: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
            crate::phrases::one_of(VoiceCodec::ALL.iter().map(|codec| codec.label()))
        });
        &NAMES
    }
}

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

    #[test]
    fn names_are_read_back() {
        for codec in VoiceCodec::ALL {
            assert_eq!(codec.label().parse(), Ok(*codec));
        }
        assert!("g722".parse::<VoiceCodec>().is_err());
    }
}
