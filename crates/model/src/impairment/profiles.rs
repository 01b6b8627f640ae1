//! Presets: typical links as laws for both directions, each with its source.
//!
//! A is the client's side: *down* is B→A, *up* is A→B. Delays are those of one direction.

use super::laws::Laws;

/// A preset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Name for `--profile`.
    pub name: &'static str,
    /// The link.
    pub title: &'static str,
    /// Source of its figures.
    pub source: &'static str,
    /// Laws from A to B: up.
    pub up: &'static str,
    /// Laws from B to A: down.
    pub down: &'static str,
}

const TABLE: &str = "the classic table of mobile and access links that network link conditioners ship (rates, one-way delays and loss as in it)";

/// Every preset, slowest first.
pub const PROFILES: [Profile; 20] = [
    Profile {
        name: "2g-rural",
        title: "2G (GPRS), rural",
        source: TABLE,
        up: "loss 2%, rate 18k, delay 650ms",
        down: "loss 2%, rate 20k, delay 650ms",
    },
    Profile {
        name: "2g-urban",
        title: "2G (GPRS), urban",
        source: TABLE,
        up: "rate 32k, delay 650ms",
        down: "rate 35k, delay 650ms",
    },
    Profile {
        name: "modem-v90",
        title: "V.90 modem",
        source: "rates: 45.333 kbit/s down and 24 kbit/s up as connected in the TTCP technical note (ITU-T V.90 allows 56/33.6); delay: about 100 ms round trip of modem interleaving and 1 byte times, an estimate",
        up: "rate 24k, delay 50ms",
        down: "rate 45.333k, delay 50ms",
    },
    Profile {
        name: "edge-average",
        title: "EDGE, average",
        source: TABLE,
        up: "rate 200k, delay 440ms",
        down: "rate 240k, delay 400ms",
    },
    Profile {
        name: "edge-lossy",
        title: "EDGE, lossy",
        source: TABLE,
        up: "loss 1%, rate 200k, delay 440ms",
        down: "loss 1%, rate 240k, delay 400ms",
    },
    Profile {
        name: "edge-good",
        title: "EDGE, good",
        source: TABLE,
        up: "rate 200k, delay 370ms",
        down: "rate 250k, delay 350ms",
    },
    Profile {
        name: "3g-average",
        title: "3G (UMTS), average",
        source: TABLE,
        up: "rate 330k, delay 100ms",
        down: "rate 780k, delay 100ms",
    },
    Profile {
        name: "3g-good",
        title: "3G (UMTS), good",
        source: TABLE,
        up: "rate 420k, delay 100ms",
        down: "rate 850k, delay 90ms",
    },
    Profile {
        name: "dsl",
        title: "DSL",
        source: TABLE,
        up: "rate 256k, delay 5ms",
        down: "rate 2M, delay 5ms",
    },
    Profile {
        name: "cable",
        title: "Cable",
        source: TABLE,
        up: "rate 1M, delay 2ms",
        down: "rate 6M, delay 2ms",
    },
    Profile {
        name: "4g",
        title: "4G (LTE)",
        source: "an assumption: rates of ordinary coverage; delay: half of a 50 ms round trip, of which 3GPP TR 25.913 targets 10 ms for the radio part",
        up: "rate 10M, delay 25ms ±5ms normal fifo-release",
        down: "rate 30M, delay 25ms ±5ms normal fifo-release",
    },
    Profile {
        name: "5g",
        title: "5G, mid band",
        source: "an assumption: rates of ordinary mid-band coverage; delay: half of a 20 ms round trip; 3GPP TR 38.913 targets 4 ms one way for the radio part of mobile broadband",
        up: "rate 50M, delay 10ms ±2ms normal fifo-release",
        down: "rate 300M, delay 10ms ±2ms normal fifo-release",
    },
    Profile {
        name: "wifi-good",
        title: "Wi-Fi, near the access point",
        source: "an assumption: about 60 % of a 433 Mbit/s link rate (IEEE 802.11ac, one stream, 80 MHz) as goodput; little jitter",
        up: "rate 250M, delay 2ms ±1ms uniform fifo-release",
        down: "rate 250M, delay 2ms ±1ms uniform fifo-release",
    },
    Profile {
        name: "wifi-poor",
        title: "Wi-Fi, far from the access point",
        source: "an assumption: a low link rate (IEEE 802.11n, MCS 0 to 1) shared with others; losses left after retries, in runs",
        up: "loss 1% run 3, rate 5M, delay 10ms ±8ms exponential fifo-release",
        down: "loss 1% run 3, rate 5M, delay 10ms ±8ms exponential fifo-release",
    },
    Profile {
        name: "geo-satellite",
        title: "Geostationary satellite",
        source: "delay: up and down over 35 786 km at the speed of light is 239 ms under the satellite and 280 ms at the edge (ITU-T G.114, annex A: 260 ms); rates and loss: an assumption",
        up: "loss 0.1% run 2, rate 3M, delay 270ms",
        down: "loss 0.1% run 2, rate 25M, delay 270ms",
    },
    Profile {
        name: "leo-satellite",
        title: "Low-orbit satellite, between hand-overs",
        source: "delay: two hops over about 550 to 1100 km slant range are 4 to 8 ms, the rest is scheduling; rates: an assumption. The outage of the hand-over each 15 s is not in it: that law is still to come",
        up: "loss 0.5% run 3, rate 15M, delay 20ms ±5ms normal fifo-release",
        down: "loss 0.5% run 3, rate 150M, delay 20ms ±5ms normal fifo-release",
    },
    Profile {
        name: "fast-ethernet",
        title: "Fast Ethernet",
        source: "IEEE 802.3u: 100 Mbit/s; the overhead counts preamble and gap, so that full frames pass at 8127 packets/s",
        up: "rate 100M overhead 38",
        down: "rate 100M overhead 38",
    },
    Profile {
        name: "wan-transatlantic",
        title: "Transatlantic path",
        source: "delay: 5600 km New York to London at 4.9 µs/km in fibre is 27 ms, 35 ms with detours; published round trips are 70 to 75 ms; loss: an assumption",
        up: "loss 0.01%, rate 1G, delay 36ms",
        down: "loss 0.01%, rate 1G, delay 36ms",
    },
    Profile {
        name: "wan-transpacific",
        title: "Transpacific path",
        source: "delay: 8800 km Los Angeles to Tokyo at 4.9 µs/km in fibre is 43 ms, 52 ms with detours; published round trips are 100 to 110 ms; loss: an assumption",
        up: "loss 0.01%, rate 1G, delay 52ms",
        down: "loss 0.01%, rate 1G, delay 52ms",
    },
    Profile {
        name: "none",
        title: "No impairment",
        source: "nothing is changed",
        up: "none",
        down: "none",
    },
];

/// Common names of presets, and the presets.
const ALIASES: [(&str, &str); 3] =
    [("3g", "3g-average"), ("lte", "4g"), ("satellite", "geo-satellite")];

impl Profile {
    /// The preset of a name or an alias.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<&'static Profile> {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, of)| of);
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Its laws from A to B (up).
    #[must_use]
    pub fn a_to_b(&self) -> Laws {
        // A test reads every line of the table.
        self.up.parse().unwrap_or_default()
    }

    /// Its laws from B to A (down).
    #[must_use]
    pub fn b_to_a(&self) -> Laws {
        self.down.parse().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_of_every_preset_are_in_canonical_form() {
        for profile in PROFILES {
            assert_eq!(Profile::named(profile.name), Some(&profile));
            assert!(profile.source.len() > 10, "{}", profile.name);
            for line in [profile.up, profile.down] {
                let laws = line.parse::<Laws>().unwrap_or_else(|e| panic!("{}: {e}", profile.name));
                assert_eq!(laws.to_string(), line, "{}", profile.name);
            }
        }
        for (alias, of) in ALIASES {
            let preset = Profile::named(alias).unwrap_or_else(|| panic!("{alias}"));
            assert_eq!(preset.name, of);
        }
        assert_eq!(Profile::named("6g"), None);
    }
}
