//! Quality of a voice connection by the E-model (ITU-T G.107).
//!
//! The E-model adds impairments on one scale: R = Ro − Is − Id − Ie,eff + A. Here the path determines delay and loss, and the codec
//! Ie and Bpl (ITU-T G.113 Appendix I). All other parameters have the defaults of G.107, table 2.

/// Weighting of the sender's telephone, dB.
const SLR: f64 = 8.0;
/// Weighting of the receiver's telephone, dB.
const RLR: f64 = 2.0;
/// Sidetone masking rating, dB.
const STMR: f64 = 15.0;
/// Listener sidetone rating, dB.
const LSTR: f64 = 18.0;
/// D factor of the sender's telephone.
const DS: f64 = 3.0;
/// Talker echo loudness rating, dB.
const TELR: f64 = 65.0;
/// Weighted echo path loss, dB.
const WEPL: f64 = 110.0;
/// Quantisation distortion units.
const QDU: f64 = 1.0;
/// Circuit noise, dBm0p.
const NC: f64 = -70.0;
/// Noise floor at the receiver, dBmp.
const NFOR: f64 = -64.0;
/// Room noise at the sender, dB(A).
const PS: f64 = 35.0;
/// Room noise at the receiver, dB(A).
const PR: f64 = 35.0;
/// Maximum equipment impairment factor.
const MAX_IE: f64 = 95.0;
/// Range of the burst ratio.
const BURST_RATIO: std::ops::RangeInclusive<f64> = 1.0..=8.0;

/// Conditions of one direction of a voice connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VoicePath {
    /// Equipment impairment factor of the codec (Ie).
    pub ie: f64,
    /// Packet-loss robustness factor of the codec (Bpl), above 0.
    pub bpl: f64,
    /// Packets that the decoder lacks ÷ packets sent (Ppl), 0 to 1.
    pub loss_ratio: f64,
    /// Mean length of the runs of missing packets ÷ that of independent losses (BurstR). Values outside 1 to 8 become the bound.
    pub burst_ratio: f64,
    /// Absolute one-way delay from mouth to ear (Ta), ms. Echo returns after the same time in either direction: T = Ta, Tr = 2·Ta.
    pub delay_ms: f64,
}

impl VoicePath {
    /// The transmission rating factor R, 0 to 93.2; absent for values that are no numbers.
    ///
    /// ```
    /// use weir_stats::VoicePath;
    ///
    /// let g711 = VoicePath { ie: 0.0, bpl: 25.1, loss_ratio: 0.0, burst_ratio: 1.0, delay_ms: 0.0 };
    /// assert_eq!((g711.r_factor().unwrap() * 10.0).round(), 932.0);
    /// ```
    #[must_use]
    pub fn r_factor(&self) -> Option<f64> {
        let delay_ms = self.delay_ms.max(0.0);
        let noise = noise();
        let signal = 15.0 - 1.5 * (SLR + noise);
        let r = signal
            - simultaneous(signal, noise, delay_ms)
            - delayed(signal, noise, delay_ms)
            - self.equipment();
        r.is_finite().then_some(r.clamp(0.0, 100.0))
    }

    /// Effective equipment impairment factor (Ie,eff): the codec and the packets that it lacks.
    fn equipment(&self) -> f64 {
        let loss = 100.0 * self.loss_ratio.clamp(0.0, 1.0);
        let burst_ratio = self.burst_ratio.clamp(*BURST_RATIO.start(), *BURST_RATIO.end());
        self.ie + (MAX_IE - self.ie) * loss / (loss / burst_ratio + self.bpl)
    }
}

/// Estimated mean opinion score of a conversation (MOS-CQE) for a rating R: G.107 Annex B. 1 to 4.5.
///
/// Between 0 and 6.5 the formula of the annex falls below 1, which no opinion does; the score is 1 there.
#[must_use]
pub fn mean_opinion_score(r: f64) -> f64 {
    let r = r.clamp(0.0, 100.0);
    (1.0 + 0.035 * r + r * (r - 60.0) * (100.0 - r) * 7e-6).max(1.0)
}

/// Burst ratio (G.107, section 7.2.4): mean length of `periods` loss periods with `lost` packets, over the mean length that
/// independent losses of the same ratio have, 1 ÷ (1 − ratio). 1 without losses.
#[must_use]
pub fn burst_ratio(lost: u64, periods: u64, sent: u64) -> f64 {
    if lost == 0 || periods == 0 || sent <= lost {
        return 1.0;
    }
    let ratio = lost as f64 / sent as f64;
    (lost as f64 / periods as f64 * (1.0 - ratio)).clamp(*BURST_RATIO.start(), *BURST_RATIO.end())
}

fn power(base: f64, exponent: f64) -> f64 {
    libm::pow(base, exponent)
}

fn decibels(ratio: f64) -> f64 {
    10.0 * libm::log10(ratio)
}

/// Sum of all noise sources (No), dBm0p.
fn noise() -> f64 {
    let olr = SLR + RLR;
    let of_sender = PS - SLR - DS - 100.0 + 0.004 * power(PS - olr - DS - 14.0, 2.0);
    let effective = PR + decibels(1.0 + power(10.0, (10.0 - LSTR) / 10.0));
    let of_receiver = RLR - 121.0 + effective + 0.008 * power(effective - 35.0, 2.0);
    let sources = [NC, of_sender, of_receiver, NFOR + RLR];
    decibels(sources.iter().map(|level| power(10.0, level / 10.0)).sum())
}

/// Impairments at the same time as speech (Is): loudness, sidetone, quantisation.
fn simultaneous(signal: f64, noise: f64, delay_ms: f64) -> f64 {
    let x = SLR + RLR + 0.2 * (64.0 + noise - RLR);
    let loudness = 20.0 * (power(1.0 + power(x / 8.0, 8.0), 1.0 / 8.0) - x / 8.0);
    let echo = libm::exp(-delay_ms / 4.0) * power(10.0, -TELR / 10.0);
    let stmr = -decibels(power(10.0, -STMR / 10.0) + echo);
    let sidetone = 12.0 * power(1.0 + power((stmr - 13.0) / 6.0, 8.0), 1.0 / 8.0)
        - 28.0 * power(1.0 + power((stmr + 1.0) / 19.4, 35.0), 1.0 / 35.0)
        - 13.0 * power(1.0 + power((stmr - 3.0) / 33.0, 13.0), 1.0 / 13.0)
        + 29.0;
    let q = 37.0 - 15.0 * libm::log10(QDU);
    let g = 1.07 + 0.258 * q + 0.0602 * q * q;
    let y = (signal - 100.0) / 15.0 + 46.0 / 8.4 - g / 9.0;
    let z = 46.0 / 30.0 - g / 40.0;
    let quantisation = 1.5 * decibels(1.0 + power(10.0, y) + power(10.0, z));
    loudness + sidetone + quantisation
}

/// Impairments by delay (Id): talker echo, listener echo, and delay itself.
fn delayed(signal: f64, noise: f64, delay_ms: f64) -> f64 {
    let t = delay_ms;
    let terv = TELR - 40.0 * libm::log10((1.0 + t / 10.0) / (1.0 + t / 150.0))
        + 6.0 * libm::exp(-0.3 * t * t);
    let difference = -1.5 * (noise - RLR) - (80.0 + 2.5 * (terv - 14.0));
    let talker = match t < 1.0 {
        true => 0.0,
        false => {
            let root = (difference * difference / 4.0 + 100.0).sqrt();
            (difference / 2.0 + root - 1.0) * (1.0 - libm::exp(-t))
        }
    };
    let difference = signal - 10.5 * (WEPL + 7.0) * power(2.0 * t + 1.0, -0.25);
    let listener = difference / 2.0 + (difference * difference / 4.0 + 169.0).sqrt();
    let absolute = match t > 100.0 {
        false => 0.0,
        true => {
            let x = libm::log10(t / 100.0) / libm::log10(2.0);
            let sixth = |x: f64| power(1.0 + power(x, 6.0), 1.0 / 6.0);
            25.0 * (sixth(x) - 3.0 * sixth(x / 3.0) + 2.0)
        }
    };
    talker + listener + absolute
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// G.711 with concealment.
    const G711: VoicePath =
        VoicePath { ie: 0.0, bpl: 25.1, loss_ratio: 0.0, burst_ratio: 1.0, delay_ms: 0.0 };

    fn r(path: VoicePath) -> f64 {
        path.r_factor().unwrap()
    }

    #[test]
    fn defaults_of_g_107_are_rated_93_2() {
        assert!((r(G711) - 93.2).abs() < 0.05, "{}", r(G711));
        assert!((mean_opinion_score(93.2) - 4.41).abs() < 0.005);
    }

    /// G.107, table B.1: limits of R and of the score by category.
    #[test]
    fn scores_are_those_of_annex_b() {
        for (r, score) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
            let of_r = mean_opinion_score(r);
            assert!((of_r - score).abs() < 0.01, "{r}: {of_r}");
        }
        assert_eq!((mean_opinion_score(-3.0), mean_opinion_score(120.0)), (1.0, 4.5));
    }

    /// G.113 Appendix I, planning values of Ie by packet loss: G.729A with VAD, G.723.1 with VAD.
    #[test]
    fn losses_impair_as_in_g_113() {
        let g729a = (
            11.0,
            19.0,
            [(0.5, 13.0), (1.0, 15.0), (2.0, 19.0), (4.0, 26.0), (8.0, 36.0), (16.0, 49.0)],
        );
        let g723 = (
            15.0,
            16.1,
            [(0.5, 17.0), (1.0, 19.0), (2.0, 24.0), (4.0, 32.0), (8.0, 41.0), (16.0, 55.0)],
        );
        for (ie, bpl, points) in [g729a, g723] {
            for (percent, expected) in points {
                let path = VoicePath { ie, bpl, loss_ratio: percent / 100.0, ..G711 };
                let ie_eff = r(G711) - r(path);
                assert!((ie_eff - expected).abs() < 1.2, "Ie {ie} at {percent} %: {ie_eff}");
            }
        }
    }

    /// The approximation of Cole and Rosenbluth (2001): Id = 0.024·d + 0.11·(d − 177.3) above 177.3 ms.
    #[test]
    fn delay_impairs_as_its_published_approximation() {
        for delay_ms in [20.0, 50.0, 100.0, 150.0, 200.0, 300.0] {
            let id = r(G711) - r(VoicePath { delay_ms, ..G711 });
            let expected = 0.024 * delay_ms + 0.11 * f64::max(delay_ms - 177.3, 0.0);
            assert!((id - expected).abs() < 2.0, "{delay_ms} ms: {id} instead of {expected}");
        }
    }

    #[test]
    fn burst_ratio_is_one_for_independent_losses() {
        // 10 % loss: 9000 runs of 10 / 9 packets each.
        assert!((burst_ratio(10_000, 9_000, 100_000) - 1.0).abs() < 1e-9);
        assert!((burst_ratio(10_000, 4_500, 100_000) - 2.0).abs() < 1e-9);
        for nothing in [(0, 0, 10), (0, 0, 0), (10, 1, 10)] {
            assert_eq!(burst_ratio(nothing.0, nothing.1, nothing.2), 1.0);
        }
    }

    fn any_path() -> impl Strategy<Value = VoicePath> {
        (0.0..50.0, 1.0..40.0, 0.0..1.0, 0.5..10.0, 0.0..2000.0).prop_map(
            |(ie, bpl, loss_ratio, burst_ratio, delay_ms)| VoicePath {
                ie,
                bpl,
                loss_ratio,
                burst_ratio,
                delay_ms,
            },
        )
    }

    proptest! {
        #[test]
        fn more_loss_delay_or_bursts_never_improve(path in any_path(), more in 0.0..1.0f64) {
            let before = r(path);
            let loss_ratio = (path.loss_ratio + more).min(1.0);
            let after = r(VoicePath { loss_ratio, ..path });
            prop_assert!(after <= before);
            // The formula of talker echo falls to −0.11 at 1 ms, where it begins.
            let delay_ms = path.delay_ms + 1000.0 * more;
            let after = r(VoicePath { delay_ms, ..path });
            prop_assert!(after <= before + 0.12);
            let burst_ratio = path.burst_ratio + more;
            let after = r(VoicePath { burst_ratio, ..path });
            prop_assert!(after <= before);
        }

        #[test]
        fn scores_rise_with_the_rating(r in 0.0..100.0f64, more in 0.0..100.0f64) {
            let (low, high) = (mean_opinion_score(r), mean_opinion_score(r + more));
            prop_assert!(low <= high && (1.0..=4.5).contains(&low));
        }
    }

    #[test]
    fn values_that_are_no_numbers_have_no_rating() {
        assert_eq!(VoicePath { delay_ms: f64::INFINITY, ..G711 }.r_factor(), None);
        assert_eq!(VoicePath { loss_ratio: f64::NAN, ..G711 }.r_factor(), None);
    }
}
