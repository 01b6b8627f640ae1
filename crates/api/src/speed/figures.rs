//! The figures of a test: rates without their slow start, round-trip statistics, and a verdict. Pure arithmetic.

use serde::{Deserialize, Serialize};

use super::message::{MAX_MARKS, RoundTrips};

/// Length of the slow start that is excluded from a rate, s.
pub(super) const RAMP_SECONDS: f64 = 1.0;
/// Minimum time of a rate without the slow start, s.
const MIN_SECONDS: f64 = 0.5;
/// How far the page's clock of a phase may be behind the server's: two messages in flight, s.
const SOONER_SECONDS: f64 = 0.5;
/// How much later than here a phase may end for a page behind a full queue, s. A later end only lowers the rate.
const LATER_SECONDS: f64 = 10.0;

/// One direction's rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Throughput {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) bits_per_second: f64,
}

impl Throughput {
    /// Absent if nothing arrived, or too little for a rate.
    pub(super) fn new(bytes: u64, seconds: f64) -> Option<Throughput> {
        let bits_per_second = bytes as f64 * 8.0 / seconds;
        (bytes > 0 && seconds > 0.0 && seconds.is_finite() && bits_per_second.is_finite())
            .then_some(Throughput { bytes, seconds, bits_per_second })
    }
}

/// Bytes counted until a time, both from the start of the phase.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(super) struct Mark {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
}

/// The rate from the end of the slow start to the last mark; of the whole phase if that leaves too little.
pub(super) fn throughput(marks: &[Mark]) -> Option<Throughput> {
    let last = marks.last()?;
    let ramp = marks.iter().rev().find(|mark| mark.seconds <= RAMP_SECONDS);
    let from = ramp
        .filter(|from| last.seconds - from.seconds >= MIN_SECONDS && last.bytes > from.bytes)
        .map_or((0, 0.0), |from| (from.bytes, from.seconds));
    Throughput::new(last.bytes.saturating_sub(from.0), last.seconds - from.1)
}

/// Statistics of round trips, s.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Summary {
    pub(super) count: usize,
    pub(super) min_seconds: f64,
    pub(super) median_seconds: f64,
    /// 95th percentile, nearest rank; absent below 20 samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) p95_seconds: Option<f64>,
    /// Mean absolute difference of consecutive round trips (RFC 5481's IPDV, of round trips).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) jitter_seconds: Option<f64>,
}

/// Statistics of round trips; absent without any.
pub(super) fn summary(seconds: &[f64]) -> Option<Summary> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    let median = if sorted.len() % 2 == 1 { upper } else { (sorted[middle - 1] + upper) / 2.0 };
    let rank = (0.95 * sorted.len() as f64).ceil() as usize;
    let differences = seconds.windows(2).map(|pair| (pair[1] - pair[0]).abs());
    Some(Summary {
        count: sorted.len(),
        min_seconds: sorted[0],
        median_seconds: median,
        p95_seconds: (sorted.len() >= 20).then(|| sorted[rank - 1]),
        jitter_seconds: (sorted.len() >= 2)
            .then(|| differences.sum::<f64>() / (sorted.len() - 1) as f64),
    })
}

/// The statistics of all three kinds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Summaries {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) idle: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) download: Option<Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) upload: Option<Summary>,
}

impl Summaries {
    pub(super) fn of(round_trips: &RoundTrips) -> Summaries {
        let [idle, download, upload] = round_trips.all().map(|list| summary(list));
        Summaries { idle, download, upload }
    }

    /// Increase of the round trip under load; absent unless both were measured.
    pub(super) fn added_seconds(&self) -> Option<f64> {
        let loaded = [self.download, self.upload].into_iter().flatten().map(|s| s.median_seconds);
        let loaded = loaded.reduce(f64::max)?;
        Some((loaded - self.idle?.median_seconds).max(0.0))
    }
}

/// The grade of a connection, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Grade {
    Good,
    Usable,
    Poor,
}

/// The grade; absent unless everything that it depends on was measured.
pub(super) fn grade(
    download: Option<&Throughput>,
    upload: Option<&Throughput>,
    round_trips: &Summaries,
) -> Option<Grade> {
    let (download, _) = (download?.bits_per_second, upload?);
    let (idle, _, _) = (round_trips.idle?, round_trips.download?, round_trips.upload?);
    let added = round_trips.added_seconds()?;
    Some(match (download, added) {
        (rate, more) if rate < 5e6 || more > 0.2 => Grade::Poor,
        (rate, more) if rate < 25e6 || more > 0.05 || idle.median_seconds > 0.15 => Grade::Usable,
        _ => Grade::Good,
    })
}

/// A use of the connection, with its grade and the figure that decides it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Use {
    pub(super) name: &'static str,
    pub(super) grade: Grade,
    pub(super) reason: String,
}

/// A figure with the values up to which it is good and usable.
struct Limit {
    label: &'static str,
    unit: &'static str,
    /// Absent: not measured, so the use has no grade.
    value: Option<f64>,
    good: f64,
    usable: f64,
    /// Whether more is better.
    is_rate: bool,
}

impl Limit {
    fn grade(&self) -> Option<Grade> {
        let value = self.value?;
        let is_within = |limit: f64| if self.is_rate { value >= limit } else { value <= limit };
        Some(match (is_within(self.good), is_within(self.usable)) {
            (true, _) => Grade::Good,
            (_, true) => Grade::Usable,
            _ => Grade::Poor,
        })
    }
}

/// How well the connection serves common uses; those whose figures were not measured are left out.
///
/// The limits: a call has 1 Mbit/s in each direction, and ITU-T G.114 asks for a one-way delay of at most 150 ms, that is a
/// round trip of 300 ms, under load too. HD video has 5 Mbit/s and 4K video 25 Mbit/s. Games suffer from round trips
/// above 50 ms to 100 ms.
pub(super) fn uses(
    download: Option<&Throughput>,
    upload: Option<&Throughput>,
    round_trips: &Summaries,
) -> Vec<Use> {
    let mega = |t: Option<&Throughput>| t.map(|t| t.bits_per_second / 1e6);
    let rate = |label, value, good, usable| Limit {
        label,
        unit: "Mbit/s",
        value,
        good,
        usable,
        is_rate: true,
    };
    let time = |label, value: Option<f64>, good, usable| Limit {
        label,
        unit: "ms",
        value: value.map(|s| s * 1e3),
        good,
        usable,
        is_rate: false,
    };
    let (down, up) = (mega(download), mega(upload));
    let idle = round_trips.idle.map(|s| s.median_seconds);
    let loaded = round_trips.added_seconds().zip(idle).map(|(added, idle)| idle + added);
    let of_uses = [
        (
            "Calls",
            vec![
                rate("download", down, 2.0, 1.0),
                rate("upload", up, 2.0, 1.0),
                time("round trip under load", loaded, 150.0, 300.0),
            ],
        ),
        ("HD video", vec![rate("download", down, 8.0, 5.0)]),
        ("4K video", vec![rate("download", down, 40.0, 25.0)]),
        (
            "Games",
            vec![
                time("round trip", idle, 50.0, 100.0),
                time("round trip under load", loaded, 100.0, 200.0),
            ],
        ),
        ("Uploads and backups", vec![rate("upload", up, 20.0, 5.0)]),
    ];
    let graded = of_uses.into_iter().filter_map(|(name, limits)| {
        let grades: Option<Vec<Grade>> = limits.iter().map(Limit::grade).collect();
        let (grade, decisive) =
            grades?.into_iter().zip(&limits).reduce(|a, b| if b.0 > a.0 { b } else { a })?;
        let value = three_digits(decisive.value?);
        Some(Use { name, grade, reason: format!("{} {value} {}", decisive.label, decisive.unit) })
    });
    graded.collect()
}

/// The result as text; absent if nothing was measured.
pub(super) fn verdict(
    download: Option<&Throughput>,
    upload: Option<&Throughput>,
    round_trips: &Summaries,
) -> Option<String> {
    let mega = |t: Option<&Throughput>| t.map_or(0.0, |t| t.bits_per_second / 1e6);
    let (down, up) = (mega(download), mega(upload));
    let idle = round_trips.idle.map(|s| s.median_seconds);
    let added = round_trips.added_seconds();
    let mut parts = vec![];
    for (name, rate) in [("download", down), ("upload", up)] {
        if rate > 0.0 {
            parts.push(format!("{name} {} Mbit/s", three_digits(rate)));
        }
    }
    if let Some(idle) = idle {
        let more = added.map(|a| format!(", {} ms more while data flows", three_digits(a * 1e3)));
        parts.push(format!(
            "round trip {} ms{}",
            three_digits(idle * 1e3),
            more.unwrap_or_default()
        ));
    }
    if parts.is_empty() {
        return None;
    }
    let mut uses = vec![];
    if down >= 1.0 && up >= 1.0 && idle.is_some_and(|s| s < 0.15) {
        uses.push("video calls");
    }
    if down >= 25.0 {
        uses.push("4K video");
    } else if down >= 5.0 {
        uses.push("HD video");
    }
    if idle.is_some_and(|s| s < 0.05) && added.is_some_and(|s| s < 0.05) {
        uses.push("games");
    }
    let mut sentence = parts.join("; ");
    sentence += &if download.is_none() {
        String::new()
    } else if uses.is_empty() {
        ": sufficient for mail and simple pages".into()
    } else {
        format!(": enough for {}", uses.join(", "))
    };
    if added.is_some_and(|s| s > 0.2) {
        sentence += "; a queue in the path is too long";
    }
    if up > 0.0 && down / up > 20.0 {
        sentence += "; sending is far slower than receiving";
    }
    Some(sentence + ".")
}

fn three_digits(value: f64) -> String {
    let decimals = match value {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Minimum time of a rate over a phase that lasted this long here, s.
fn min_seconds(phase_seconds: f64) -> f64 {
    // A short phase is used completely, whatever its length for the page.
    (phase_seconds - RAMP_SECONDS - SOONER_SECONDS).max(phase_seconds / 4.0)
}

/// Whether marks are the course of a download of at most `sent` bytes: in order, and plausible.
pub(super) fn is_course(marks: &[Mark], sent: &Mark) -> bool {
    let is_time = |m: &Mark| (0.0..=sent.seconds + LATER_SECONDS).contains(&m.seconds);
    marks.len() <= MAX_MARKS
        && marks.iter().all(|m| is_time(m) && m.bytes <= sent.bytes)
        && marks.windows(2).all(|m| m[0].seconds < m[1].seconds && m[0].bytes <= m[1].bytes)
}

/// Why a page's figures are implausible, or `None`. `sent` is the complete last download as sent here, with the rest
/// of its last frame; `pongs` is the number of answered round trips. An error is a stable name and the reason.
pub(super) fn check(
    download: Option<&Throughput>,
    round_trips: &RoundTrips,
    sent: Option<&Mark>,
    pongs: u64,
) -> Result<(), (&'static str, String)> {
    if let Some(claimed) = download {
        let sent = sent.ok_or(("no-download", "there was no download".to_owned()))?;
        if Throughput::new(claimed.bytes, claimed.seconds).is_none() {
            return Err(("figures", "the download's figures are impossible".into()));
        }
        if claimed.bytes > sent.bytes {
            let words = "bytes were sent, fewer than the page says it received";
            return Err(("bytes", format!("{} {words}", sent.bytes)));
        }
        let least = min_seconds(sent.seconds);
        let most = sent.seconds + LATER_SECONDS;
        if !(least..=most).contains(&claimed.seconds) {
            return Err((
                "seconds",
                format!(
                    "the download took {:.2} s here, but {:.2} s by the page's figures",
                    sent.seconds, claimed.seconds
                ),
            ));
        }
    }
    if round_trips.all().iter().any(|list| list.len() > super::message::MAX_ROUND_TRIPS) {
        return Err((
            "round-trips",
            format!("more than {} round trips", super::message::MAX_ROUND_TRIPS),
        ));
    }
    let all = || round_trips.all().into_iter().flatten();
    // A browser reports zero if its clock is coarser than the round trip.
    if all().any(|s| !(0.0..=60.0).contains(s)) {
        return Err(("round-trips", "a round trip is outside 0 to 60 seconds".into()));
    }
    if all().count() as u64 > pongs {
        return Err(("round-trips", "more round trips than were answered".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn marks(list: &[(f64, u64)]) -> Vec<Mark> {
        list.iter().map(|&(seconds, bytes)| Mark { seconds, bytes }).collect()
    }

    #[test]
    fn a_rate_leaves_the_slow_start_out() {
        let list = marks(&[(0.5, 10), (1.0, 100), (1.2, 300), (3.0, 2100)]);
        let t = throughput(&list).unwrap();
        assert_eq!((t.bytes, t.seconds, t.bits_per_second), (2000, 2.0, 8000.0));
    }

    #[test]
    fn a_short_phase_is_taken_whole_and_an_empty_one_is_absent() {
        let t = throughput(&marks(&[(0.5, 10), (1.0, 100), (1.2, 300)])).unwrap();
        assert_eq!((t.bytes, t.seconds), (300, 1.2));
        // All arrived in the slow start.
        let t = throughput(&marks(&[(1.0, 100), (2.0, 100)])).unwrap();
        assert_eq!((t.bytes, t.seconds), (100, 2.0));
        assert_eq!(throughput(&[]), None);
        assert_eq!(throughput(&marks(&[(2.0, 0)])), None);
        assert_eq!(throughput(&marks(&[(0.0, 5)])), None);
    }

    #[test]
    fn round_trips_are_summed_up() {
        assert_eq!(summary(&[]), None);
        let s = summary(&[0.03, 0.01, 0.02]).unwrap();
        assert_eq!(
            (s.count, s.min_seconds, s.median_seconds, s.p95_seconds),
            (3, 0.01, 0.02, None)
        );
        assert!((s.jitter_seconds.unwrap() - 0.015).abs() < 1e-12);
        assert_eq!(summary(&[0.01]).unwrap().jitter_seconds, None);
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        let s = summary(&hundred).unwrap();
        assert_eq!(
            (s.median_seconds, s.p95_seconds, s.jitter_seconds),
            (50.5, Some(95.0), Some(1.0))
        );
    }

    #[test]
    fn the_sentence_says_what_it_is_good_for() {
        let round_trips =
            RoundTrips { idle: vec![0.02; 5], download: vec![0.03; 5], upload: vec![0.3; 5] };
        let sums = Summaries::of(&round_trips);
        let (down, up) = (Throughput::new(12_500_000, 1.0), Throughput::new(1_250_000, 1.0));
        assert_eq!(
            verdict(down.as_ref(), up.as_ref(), &sums).unwrap(),
            "download 100 Mbit/s; upload 10.0 Mbit/s; round trip 20.0 ms, 280 ms more while data flows: \
             enough for video calls, 4K video; a queue in the path is too long."
        );
        let slow = Throughput::new(12_500, 1.0);
        let sums = Summaries::of(&RoundTrips::default());
        let text = verdict(slow.as_ref(), None, &sums);
        assert_eq!(text.unwrap(), "download 0.10 Mbit/s: sufficient for mail and simple pages.");
        let text = verdict(down.as_ref(), slow.as_ref(), &sums).unwrap();
        assert!(text.ends_with("; sending is far slower than receiving."), "{text}");
        assert_eq!(verdict(None, None, &sums), None);
    }

    #[test]
    fn uses_are_graded_by_their_weakest_figure() {
        let of = |down: f64, up: f64, idle: f64, loaded: f64| {
            let rate = |mega: f64| Throughput::new((mega * 1e6 / 8.0) as u64, 1.0);
            let list = |s: f64| if s > 0.0 { vec![s; 5] } else { vec![] };
            let round_trips =
                RoundTrips { idle: list(idle), download: list(loaded), upload: list(loaded) };
            let all = uses(rate(down).as_ref(), rate(up).as_ref(), &Summaries::of(&round_trips));
            all.into_iter().map(|one| (one.name, one.grade)).collect::<Vec<_>>()
        };
        use Grade::{Good, Poor, Usable};
        let all = ["Calls", "HD video", "4K video", "Games", "Uploads and backups"];
        let graded = |grades: [Grade; 5]| all.into_iter().zip(grades).collect::<Vec<_>>();
        assert_eq!(of(100.0, 50.0, 0.02, 0.03), graded([Good; 5]));
        assert_eq!(of(30.0, 1.5, 0.06, 0.5), graded([Poor, Good, Usable, Poor, Poor]));
        assert_eq!(of(6.0, 6.0, 0.02, 0.12), graded([Good, Usable, Poor, Usable, Usable]));
        // Without round trips there is no word on calls and games.
        assert_eq!(of(30.0, 0.0, 0.0, 0.0), [("HD video", Good), ("4K video", Usable)]);
    }

    #[test]
    fn a_course_is_in_order_and_below_what_was_sent() {
        let sent = Mark { bytes: 100, seconds: 2.0 };
        assert!(is_course(&marks(&[(0.2, 10), (0.4, 10), (2.0, 100)]), &sent));
        assert!(is_course(&[], &sent));
        for bad in [
            &[(0.2, 101)][..],
            &[(0.2, 10), (0.2, 20)],
            &[(0.2, 10), (0.4, 9)],
            &[(-0.1, 1)],
            &[(f64::NAN, 1)],
            &[(99.0, 1)],
        ] {
            assert!(!is_course(&marks(bad), &sent), "{bad:?}");
        }
        let many: Vec<(f64, u64)> = (1..=401).map(|n| (f64::from(n) / 1000.0, 1)).collect();
        assert!(!is_course(&marks(&many), &sent));
    }

    #[test]
    fn a_grade_is_of_what_was_measured() {
        let of = |down: f64, idle: f64, loaded: f64| {
            let rate = Throughput::new((down * 1e6 / 8.0) as u64, 1.0);
            let list = |s: f64| if s > 0.0 { vec![s; 5] } else { vec![] };
            let round_trips =
                RoundTrips { idle: list(idle), download: list(loaded), upload: list(loaded) };
            grade(rate.as_ref(), rate.as_ref(), &Summaries::of(&round_trips))
        };
        assert_eq!(of(100.0, 0.02, 0.03), Some(Grade::Good));
        assert_eq!(of(20.0, 0.02, 0.03), Some(Grade::Usable));
        assert_eq!(of(100.0, 0.02, 0.1), Some(Grade::Usable));
        assert_eq!(of(100.0, 0.2, 0.21), Some(Grade::Usable));
        assert_eq!(of(4.0, 0.02, 0.03), Some(Grade::Poor));
        assert_eq!(of(100.0, 0.02, 0.3), Some(Grade::Poor));
        // An absent figure has no grade, neither the best nor the worst.
        assert_eq!(
            (of(0.0, 0.02, 0.03), of(100.0, 0.0, 0.03), of(100.0, 0.02, 0.0)),
            (None, None, None)
        );
        let sums =
            Summaries::of(&RoundTrips { idle: vec![0.1], download: vec![0.1], upload: vec![0.1] });
        assert_eq!(grade(Throughput::new(1 << 30, 1.0).as_ref(), None, &sums), None);
    }

    #[test]
    fn claims_beyond_what_was_sent_are_refused() {
        let sent = |bytes| Mark { bytes, seconds: 2.0 };
        let download = Throughput::new(1000, 1.0);
        let list = RoundTrips { idle: vec![0.0, 0.01], ..RoundTrips::default() };
        assert_eq!(check(download.as_ref(), &list, Some(&sent(1000)), 2), Ok(()));
        let why = |sent: Option<&Mark>, pongs| {
            check(download.as_ref(), &list, sent, pongs).unwrap_err().0
        };
        assert_eq!(why(Some(&sent(999)), 2), "bytes");
        assert_eq!(why(None, 2), "no-download");
        assert_eq!(why(Some(&sent(1000)), 1), "round-trips");
        for bad in [-0.001, 60.1, f64::NAN, f64::INFINITY] {
            let list = RoundTrips { upload: vec![bad], ..RoundTrips::default() };
            assert!(check(None, &list, None, 9).is_err(), "{bad}");
        }
        let many = RoundTrips { idle: vec![0.01; 201], ..RoundTrips::default() };
        assert!(check(None, &many, None, 999).is_err());
    }

    #[test]
    fn a_claimed_time_is_about_that_of_the_phase() {
        let said = |seconds, phase| {
            let claim = Throughput { bytes: 1000, seconds, bits_per_second: 1.0 };
            let sent = Mark { bytes: 1000, seconds: phase };
            check(Some(&claim), &RoundTrips::default(), Some(&sent), 0).is_ok()
        };
        // What a page measures: without the slow start, shifted by messages in flight, or completely if it was short.
        for (seconds, phase) in [(7.0, 8.0), (7.05, 8.0), (6.6, 8.0), (8.0, 8.0), (11.0, 8.0)]
            .into_iter()
            .chain([(1.0, 2.0), (0.6, 1.6), (1.3, 1.3), (0.05, 0.1), (0.2, 0.1)])
        {
            assert!(said(seconds, phase), "{seconds} of {phase}");
        }
        for seconds in [1e-306, 1e-9, 1.0, 6.4, 18.1, 0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(!said(seconds, 8.0), "{seconds}");
        }
        assert_eq!(Throughput::new(1000, 1e-306), None, "infinite");
    }

    proptest! {
        #[test]
        fn order_statistics_are_ordered(list in prop::collection::vec(0.0f64..60.0, 20..200)) {
            let s = summary(&list).unwrap();
            prop_assert!(s.min_seconds <= s.median_seconds && s.median_seconds <= s.p95_seconds.unwrap());
            prop_assert!(s.jitter_seconds.unwrap() <= 60.0);
        }

        #[test]
        fn a_steady_rate_is_itself(rate in 1000u64..1_000_000_000, ticks in 3u64..60) {
            let list: Vec<Mark> = (1..=ticks).map(|n| Mark { seconds: n as f64 * 0.25, bytes: rate * n / 4 }).collect();
            let t = throughput(&list).unwrap();
            prop_assert!((t.bits_per_second / (rate as f64 * 8.0) - 1.0).abs() < 0.01);
        }
    }
}
