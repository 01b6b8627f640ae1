//! The Linux clocks: `clock_gettime`, absolute sleeps, CPU time, and what identifies this machine's time.

use std::os::unix::fs::MetadataExt;

use crate::clock::ProcessCpu;
use crate::error::{Context, Error, Result};
use crate::reference::{KernelTime, TimeBound};

fn read_clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid, exclusively borrowed timespec for the duration of the call.
    unsafe { libc::clock_gettime(id, &raw mut t) };
    // The clocks asked for here always exist and are never negative, so a failure (zero) cannot arise.
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

#[inline]
pub(crate) fn realtime_ns() -> u64 {
    read_clock(libc::CLOCK_REALTIME)
}

pub(crate) fn sleep_until(monotonic_ns: u64) {
    let until = libc::timespec {
        tv_sec: (monotonic_ns / 1_000_000_000) as libc::time_t,
        tv_nsec: (monotonic_ns % 1_000_000_000) as libc::c_long,
    };
    loop {
        // SAFETY: `until` is a valid timespec; the remainder pointer may be null for absolute sleeps.
        let rc = unsafe {
            libc::clock_nanosleep(
                libc::CLOCK_MONOTONIC,
                libc::TIMER_ABSTIME,
                &raw const until,
                std::ptr::null_mut(),
            )
        };
        if rc != libc::EINTR {
            return;
        }
    }
}

/// Resolution of the monotonic clock, ns (`clock_getres`).
pub fn monotonic_resolution_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid, exclusively borrowed timespec for the duration of the call.
    unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &raw mut t) };
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

/// Sets how much later than requested the kernel may wake the calling thread, ns. The default of 50 000 costs 50 µs
/// at each sleep; 1 is the minimum. Threads that it creates later inherit it.
pub fn set_timer_slack(slack_ns: u64) -> Result<()> {
    // Zero would mean "back to the default", the opposite of what a caller who writes it wants.
    let slack = slack_ns.clamp(1, libc::c_ulong::MAX);
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory of ours.
    if unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, slack, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(Error::last("set timer slack of", "this thread"))
    }
}

/// CPU time used by the calling thread, ns (`CLOCK_THREAD_CPUTIME_ID`).
pub fn thread_cpu_ns() -> u64 {
    read_clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time used by this process (`getrusage`, resolution 1 µs).
pub fn process_cpu() -> ProcessCpu {
    cpu_of(libc::RUSAGE_SELF)
}

/// CPU time of the children that this process has waited for, and of theirs.
pub fn children_cpu() -> ProcessCpu {
    cpu_of(libc::RUSAGE_CHILDREN)
}

fn cpu_of(who: libc::c_int) -> ProcessCpu {
    // SAFETY: rusage is plain integers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, exclusively borrowed rusage for the duration of the call.
    unsafe { libc::getrusage(who, &raw mut usage) };
    let ns = |t: libc::timeval| (t.tv_sec as u64) * 1_000_000_000 + (t.tv_usec as u64) * 1000;
    ProcessCpu { user_ns: ns(usage.ru_utime), system_ns: ns(usage.ru_stime) }
}

/// Identity of this boot of this machine. Two processes with the same boot id and the same [`time_namespace`] read the
/// same monotonic clock.
pub fn boot_id() -> Result<String> {
    let path = "/proc/sys/kernel/random/boot_id";
    std::fs::read_to_string(path).map(|text| text.trim().to_owned()).context("read", path)
}

/// Identity of this thread's time namespace, as `device:inode`. Namespaces of one kernel with equal identities share
/// their monotonic offset.
pub fn time_namespace() -> Result<String> {
    let path = "/proc/thread-self/ns/time";
    std::fs::metadata(path).map(|m| format!("{}:{}", m.dev(), m.ino())).context("read", path)
}

/// Name of the kernel's clocksource (`tsc`, `kvm-clock`, `hpet`), if the kernel reports it.
pub(crate) fn clocksource() -> Option<String> {
    let text =
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .ok()?;
    Some(text.trim().to_owned()).filter(|name| !name.is_empty())
}

/// The bound of the realtime clock's error that a daemon has set in the kernel.
pub(crate) fn kernel_time_bound() -> Option<TimeBound> {
    // SAFETY: `timex` is plain numbers, for which all bits zero are a value; zero `modes` changes nothing.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `state` is a valid, exclusively borrowed timex for the duration of the call.
    let leap = unsafe { libc::adjtimex(&raw mut state) };
    let unit_ns = if state.status & libc::STA_NANO != 0 { 1 } else { 1000 };
    let kernel = KernelTime {
        synchronised: leap >= 0 && leap != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0,
        max_error_us: state.maxerror,
        estimated_error_us: state.esterror,
        pending_ns: state.offset.saturating_mul(unit_ns),
    };
    kernel.bound()
}

/// Correction of the clocks' rate that the kernel applies, ppm: above 0 they run faster than the bare clock.
pub(crate) fn kernel_frequency_ppm() -> Option<f64> {
    // SAFETY: as in `kernel_time_bound`.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: as in `kernel_time_bound`.
    let leap = unsafe { libc::adjtimex(&raw mut state) };
    // `freq` in ppm × 2^16; `tick` in µs of 1/100 s, 10 000 without a correction (adjtimex(2)).
    let ppm = state.freq as f64 / 65_536.0 + (state.tick - 10_000) as f64 * 100.0;
    (leap >= 0).then_some(ppm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timer_slack_is_set() {
        set_timer_slack(1).expect("slack");
        // SAFETY: PR_GET_TIMERSLACK takes no pointer.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }, 1);
        set_timer_slack(0).expect("slack");
        // SAFETY: as above.
        assert_eq!(unsafe { libc::prctl(libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) }, 1);
    }

    #[test]
    fn cpu_time_grows_with_work() {
        let (thread, process) = (thread_cpu_ns(), process_cpu());
        let mut x = 1_u64;
        while thread_cpu_ns() < thread + 20_000_000 {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        let after = process_cpu();
        let spent = after.user_ns + after.system_ns - process.user_ns - process.system_ns;
        // getrusage splits by tick on some kernels but its sum is exact.
        assert!(spent >= 19_000_000, "{spent}");
    }

    #[test]
    fn identity_of_time() {
        assert_eq!(boot_id().expect("boot id").len(), 36);
        let ns = time_namespace().expect("time namespace");
        let other =
            std::thread::spawn(time_namespace).join().expect("join").expect("time namespace");
        assert_eq!(ns, other);
        assert!(
            ns.split_once(':')
                .is_some_and(|(dev, ino)| dev.parse::<u64>().is_ok() && ino.parse::<u64>().is_ok())
        );
        assert!(monotonic_resolution_ns() >= 1);
    }
}
