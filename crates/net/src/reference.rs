//! The bound of this host's realtime clock error by its own time service. On a long path it relates two hosts more
//! tightly than probes can.
//!
//! Two services are queried. chrony states every part of its bound (`chronyc tracking`). The kernel stores the error
//! that a daemon has set (`adjtimex`), which is used only if the daemon has set an estimate as well: some
//! (systemd-timesyncd, phc2sys) reset the maximum error to zero at each update and leave the estimate zero, and so
//! bound nothing.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::sys;

/// Time limit for the answer of chronyc.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum length of its answer, which is one line of a few hundred bytes.
const MAX_BYTES: usize = 4096;
/// A bound above this is of no use, ns.
const MAX_ERROR_NS: u64 = 10_000_000_000;
/// The kernel lets no clock deviate by more than 500 ppm, and lets the maximum error grow at that rate.
const KERNEL_GROWTH_PPB: u64 = 500_000;
/// chrony's own allowance for the drift of a clock between updates (`maxclockerror`).
const CHRONY_DRIFT_PPM: f64 = 1.0;
/// chrony's reference when it serves its own clock for lack of another ("local").
const CHRONY_LOCAL: &str = "7F7F0101";

/// The service that disciplines the realtime clock and reports its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeService {
    /// chronyd, asked by `chronyc tracking`.
    Chrony,
    /// An NTP daemon that reports its errors to the kernel, read by `adjtimex`.
    NtpKernel,
}

impl TimeService {
    /// Its name in a record.
    pub fn name(self) -> &'static str {
        match self {
            TimeService::Chrony => "chrony",
            TimeService::NtpKernel => "ntp-kernel",
        }
    }
}

/// Bound of a realtime clock's error, as a time service states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBound {
    /// The service that states it.
    pub service: TimeService,
    /// |realtime − true time| is at most this now, ns.
    pub error_ns: u64,
    /// Growth of the bound from now on, parts per 10^9 of the elapsed time.
    pub growth_ppb: u64,
}

/// This host's monotonic clock against true time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReference {
    /// The bound at `at_ns`, the reading of the two clocks included.
    pub bound: TimeBound,
    /// Realtime − monotonic, ns.
    pub realtime_minus_monotonic_ns: i64,
    /// Monotonic time of the bound, ns.
    pub at_ns: u64,
}

/// Reads this host's reference. chrony is queried once, since that starts a program; its bound then grows as it
/// states. The kernel is queried each time.
#[derive(Debug)]
pub struct ReferenceReader {
    clock: Clock,
    chrony: Option<(u64, TimeBound)>,
}

impl ReferenceReader {
    /// Queries chrony, for half a second at most, if it is installed.
    pub fn open(clock: &Clock) -> ReferenceReader {
        let chrony = match clock {
            Clock::System => ask_chrony()
                .and_then(|text| parse_tracking(&text, sys::clock::kernel_frequency_ppm())),
            Clock::Injected(_) => None,
        };
        ReferenceReader { clock: clock.clone(), chrony: chrony.map(|b| (clock.monotonic_ns(), b)) }
    }

    /// The reference now; `None` if no service states a bound.
    pub fn read(&self) -> Option<ClockReference> {
        let (at_ns, bound) = match (&self.clock, self.chrony) {
            (Clock::Injected(injected), _) => (self.clock.monotonic_ns(), injected.time_bound()?),
            (Clock::System, Some(chrony)) => chrony,
            (Clock::System, None) => (self.clock.monotonic_ns(), sys::clock::kernel_time_bound()?),
        };
        let bracket = self.clock.bracket();
        let error_ns = bound.error_ns.saturating_add(bracket.width_ns().div_ceil(2));
        Some(ClockReference {
            bound: TimeBound { error_ns, ..bound },
            realtime_minus_monotonic_ns: bracket.realtime_minus_monotonic(),
            at_ns,
        })
    }
}

/// The answer of `chronyc -c tracking`; `None` without chronyc, without a running chronyd, or after the timeout.
fn ask_chrony() -> Option<String> {
    let mut child = Command::new("chronyc")
        .args(["-n", "-c", "tracking"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let begun = Instant::now();
    // One line fits into the pipe, so that chronyc can exit unread. If it writes more, it blocks and is killed here.
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if begun.elapsed() < TIMEOUT => std::thread::sleep(Duration::from_millis(1)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    let mut bytes = vec![];
    child.stdout.take()?.take(MAX_BYTES as u64).read_to_end(&mut bytes).ok()?;
    status.success().then_some(())?;
    String::from_utf8(bytes).ok()
}

/// The bound that chrony documents for its clock, from the 14 comma-separated fields of `chronyc -c tracking`:
/// |system time| + root dispersion + half the root delay. `None` when it is not synchronised to anything but itself.
///
/// Between two answers the clock drifts by the frequency that is left uncorrected: none of it if chronyd steers the
/// kernel's clock, whose correction `kernel_ppm` then mirrors chronyd's figure; all of it if chronyd only observes
/// (`chronyd -x`, as in a container), and if the correction is not known.
fn parse_tracking(text: &str, kernel_ppm: Option<f64>) -> Option<TimeBound> {
    let text = text.get(..MAX_BYTES).unwrap_or(text);
    let fields: Vec<&str> = text.lines().next()?.split(',').map(str::trim).take(15).collect();
    let [
        reference,
        _name,
        stratum,
        _at,
        offset,
        _last,
        _rms,
        frequency,
        residual,
        skew,
        delay,
        dispersion,
        _interval,
        leap,
    ] = fields[..]
    else {
        return None;
    };
    let number = |text: &str| text.parse::<f64>().ok().filter(|v| v.is_finite());
    let positive = |text: &str| number(text).filter(|v| *v >= 0.0);
    let synchronised = matches!(leap, "Normal" | "Insert second" | "Delete second")
        && stratum.parse::<u8>().is_ok_and(|s| (1..16).contains(&s))
        && !reference.eq_ignore_ascii_case(CHRONY_LOCAL);
    if !synchronised {
        return None;
    }
    let error = number(offset)?.abs() + positive(dispersion)? + positive(delay)? / 2.0;
    // Both count a gain against true time as positive, chrony that of the bare clock.
    let uncorrected = number(frequency)? + kernel_ppm.unwrap_or(0.0);
    let growth = uncorrected.abs() + number(residual)?.abs() + positive(skew)? + CHRONY_DRIFT_PPM;
    // Casts saturate.
    let error_ns = (error * 1e9).ceil() as u64;
    let growth_ppb = ((growth * 1e3).ceil() as u64).min(KERNEL_GROWTH_PPB);
    let service = TimeService::Chrony;
    (error_ns > 0 && error_ns <= MAX_ERROR_NS).then_some(TimeBound {
        service,
        error_ns,
        growth_ppb,
    })
}

/// A daemon's figures as the kernel stores them (`adjtimex`).
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) struct KernelTime {
    pub(crate) synchronised: bool,
    /// Maximum error, µs; the kernel lets it grow.
    pub(crate) max_error_us: i64,
    /// Estimated error, µs; as the daemon set it.
    pub(crate) estimated_error_us: i64,
    /// Correction still to be made, ns.
    pub(crate) pending_ns: i64,
}

impl KernelTime {
    /// The bound, if a daemon stated one.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn bound(&self) -> Option<TimeBound> {
        let stated = self.synchronised
            && self.estimated_error_us > 0
            && self.max_error_us >= self.estimated_error_us;
        let maximum = u64::try_from(self.max_error_us).ok()?;
        // The kernel adds the growth of a second only at its end.
        let unseen = KERNEL_GROWTH_PPB;
        let error_ns = maximum
            .saturating_mul(1000)
            .saturating_add(self.pending_ns.unsigned_abs())
            .saturating_add(unseen);
        (stated && error_ns <= MAX_ERROR_NS).then_some(TimeBound {
            service: TimeService::NtpKernel,
            error_ns,
            growth_ppb: KERNEL_GROWTH_PPB,
        })
    }
}

/// Any text gives either no bound or a usable one.
#[doc(hidden)]
pub fn fuzz_chrony_tracking(data: &[u8]) {
    if let Some(bound) = parse_tracking(&String::from_utf8_lossy(data), Some(12.5)) {
        assert!((1..=MAX_ERROR_NS).contains(&bound.error_ns), "{bound:?}");
        assert!((1000..=KERNEL_GROWTH_PPB).contains(&bound.growth_ppb), "{bound:?}");
        assert_eq!(bound.service, TimeService::Chrony);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "C0000201,192.0.2.1,2,1795293009.123456789,-0.000002000,0.000001,0.000003,-12.345,-0.010,0.040,0.000010000,0.000020000,64.2,Normal\n";

    #[test]
    fn chronys_bound_is_offset_dispersion_and_half_the_delay() {
        let bound = parse_tracking(GOOD, Some(12.345)).unwrap();
        // Rounded up, so that it is never tighter than stated.
        assert!((27_000..=27_001).contains(&bound.error_ns), "{bound:?}");
        assert!((1050..=1051).contains(&bound.growth_ppb), "{bound:?}");
        assert_eq!(bound.service.name(), "chrony");
    }

    #[test]
    fn a_clock_that_chrony_only_observes_drifts_by_its_frequency() {
        let growth = |kernel_ppm| parse_tracking(GOOD, kernel_ppm).unwrap().growth_ppb;
        assert!((13_395..=13_396).contains(&growth(Some(0.0))));
        assert_eq!(growth(None), growth(Some(0.0)));
        // A part of it is corrected; all, but the wrong way.
        assert!((7050..=7051).contains(&growth(Some(6.345))));
        assert!((25_740..=25_741).contains(&growth(Some(-12.345))));
        assert_eq!(growth(Some(-1e9)), KERNEL_GROWTH_PPB);
    }

    #[test]
    fn a_clock_that_follows_nothing_has_no_bound() {
        for (from, to) in [
            ("Normal", "Not synchronised"),
            ("C0000201", "7F7F0101"),
            (",2,", ",0,"),
            (",2,", ",16,"),
            ("0.000020000", "-0.000020000"),
            ("0.000020000", "NaN"),
            ("0.000020000", "inf"),
            ("0.000020000", "11.0"),
            (",Normal", ""),
            (",Normal", ",Normal,"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD);
            assert_eq!(parse_tracking(&text, None), None, "{text}");
        }
        for text in ["", "\n", "506 Cannot talk to daemon\n", ",,,,,,,,,,,,,"] {
            assert_eq!(parse_tracking(text, None), None, "{text}");
        }
    }

    #[test]
    fn the_kernels_error_counts_only_when_a_daemon_stated_it() {
        let ntpd = KernelTime {
            synchronised: true,
            max_error_us: 900,
            estimated_error_us: 20,
            pending_ns: -7,
        };
        let bound = ntpd.bound().unwrap();
        assert_eq!((bound.error_ns, bound.growth_ppb), (900_000 + 7 + 500_000, 500_000));
        let none = |k: KernelTime| assert_eq!(k.bound(), None, "{k:?}");
        none(KernelTime { synchronised: false, ..ntpd });
        // As systemd-timesyncd and phc2sys leave it.
        none(KernelTime { estimated_error_us: 0, ..ntpd });
        none(KernelTime { max_error_us: 10, ..ntpd });
        none(KernelTime { max_error_us: -1, estimated_error_us: -2, ..ntpd });
        none(KernelTime { max_error_us: 16_000_000, ..ntpd });
        none(KernelTime { pending_ns: i64::MIN, ..ntpd });
    }

    #[test]
    fn an_injected_clock_has_the_bound_that_was_injected() {
        let injected = crate::clock::InjectedClock::new();
        let clock = injected.clock();
        let reader = ReferenceReader::open(&clock);
        assert_eq!(reader.read(), None);
        let bound = TimeBound { service: TimeService::Chrony, error_ns: 3000, growth_ppb: 1000 };
        injected.set_time_bound(Some(bound));
        injected.set_monotonic_offset_ns(5_000_000_000_000);
        let read = reader.read().unwrap();
        assert!(read.bound.error_ns >= 3000);
        let real = Clock::System.bracket().realtime_minus_monotonic();
        let off = real - read.realtime_minus_monotonic_ns - 5_000_000_000_000;
        assert!(off.unsigned_abs() < 100_000_000, "{off}");
        assert!(read.at_ns > 5_000_000_000_000);
    }
}
