//! Affinity, scheduling class, names, and the descriptor limit.

use std::ffi::CString;

use crate::error::{Context, Error, Result};

/// The CPUs the calling thread may run on, in ascending order.
pub fn allowed_cpus() -> Result<Vec<usize>> {
    // SAFETY: cpu_set_t is an array of integers, for which zero is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is exclusively borrowed and passed with its size.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Err(Error::last("read affinity of", "this thread"));
    }
    // SAFETY: CPU_ISSET reads inside the set for any number below CPU_SETSIZE.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect())
}

/// The CPUs of a NUMA node as the kernel lists them, such as `0-3,8`; empty if the node has memory only.
pub fn node_cpus(node: u32) -> Result<String> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let list = std::fs::read_to_string(&path).context("read", path)?;
    Ok(list.trim().to_owned())
}

/// Keeps the calling thread on one CPU.
pub fn pin_to_cpu(cpu: usize) -> Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        let object = format!("CPU {cpu}");
        return Err(Error::Refused {
            operation: "pin this thread to",
            object,
            reason: "CPU numbers end at 1023",
        });
    }
    // SAFETY: as in `allowed_cpus`; `cpu` is inside the set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below CPU_SETSIZE.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: `set` is valid and passed with its size.
    if unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } == 0 {
        Ok(())
    } else {
        Err(Error::last("pin this thread to", format!("CPU {cpu}")))
    }
}

fn schedule(policy: i32, priority: i32, name: &'static str) -> Result<()> {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameter` is valid through the call; 0 is the calling thread.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) } == 0 {
        Ok(())
    } else {
        Err(Error::last("schedule this thread as", name))
    }
}

/// Requests real-time scheduling of the calling thread (`SCHED_FIFO`, priority 1–99). May be refused even to root,
/// inside a control group without a real-time budget. Threads and processes created later do not inherit it.
pub fn try_fifo(priority: u8) -> Result<()> {
    schedule(
        libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
        i32::from(priority.clamp(1, 99)),
        "SCHED_FIFO",
    )
}

/// Returns to normal scheduling. Threads and processes created later still inherit no priority: changing that is
/// refused without `CAP_SYS_NICE` (`sched(7)`), and a thread may be here by [`raise_real_time_limit`] alone.
pub fn set_normal() -> Result<()> {
    schedule(libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK, 0, "SCHED_OTHER")
}

/// Lets this process schedule its threads in real time up to `priority` without `CAP_SYS_NICE` (`RLIMIT_RTPRIO`).
/// Raises the limit if it is lower, which requires `CAP_SYS_RESOURCE`. Returns whether the process may.
pub fn raise_real_time_limit(priority: u8) -> Result<bool> {
    let wanted = libc::rlim_t::from(priority);
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is exclusively borrowed.
    if unsafe { libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit) } != 0 {
        return Err(Error::last("read", "RLIMIT_RTPRIO"));
    }
    if limit.rlim_cur >= wanted {
        return Ok(true);
    }
    let new = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max.max(wanted) };
    // SAFETY: `new` is valid through the call.
    Ok(unsafe { libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const new) } == 0)
}

/// Names the calling thread, as tools show it; truncated to 15 bytes, and at a NUL.
pub fn set_name(name: &str) {
    let bytes: Vec<u8> = name.bytes().take_while(|&b| b != 0).take(15).collect();
    if let Ok(name) = CString::new(bytes) {
        // SAFETY: `name` is NUL-terminated and at most 16 bytes with it; failure leaves the old name.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    }
}

/// Raises the limit of open descriptors to `wanted`, or as far as this process may; returns the limit in effect.
pub fn raise_descriptor_limit(wanted: u64) -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is exclusively borrowed.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(Error::last("read", "RLIMIT_NOFILE"));
    }
    if limit.rlim_cur >= wanted {
        return Ok(limit.rlim_cur);
    }
    let set = |new: libc::rlimit| {
        // SAFETY: `new` is valid through the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const new) } == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    };
    if wanted > limit.rlim_max && set(libc::rlimit { rlim_cur: wanted, rlim_max: wanted }).is_ok() {
        return Ok(wanted);
    }
    let soft = wanted.min(limit.rlim_max);
    set(libc::rlimit { rlim_cur: soft, rlim_max: limit.rlim_max })
        .context("raise", "RLIMIT_NOFILE")?;
    Ok(soft)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinning_leaves_one_cpu() {
        std::thread::spawn(|| {
            let allowed = allowed_cpus().unwrap();
            let last = *allowed.last().unwrap();
            pin_to_cpu(last).unwrap();
            assert_eq!(allowed_cpus().unwrap(), [last]);
            // SAFETY: takes nothing.
            assert_eq!(usize::try_from(unsafe { libc::sched_getcpu() }), Ok(last));
            assert!(pin_to_cpu(5000).unwrap_err().to_string().contains("CPU 5000"));
        })
        .join()
        .unwrap();
    }

    #[test]
    fn names_are_truncated() {
        std::thread::spawn(|| {
            set_name("weir-worker-number-one");
            assert_eq!(
                std::fs::read_to_string("/proc/thread-self/comm").unwrap(),
                "weir-worker-num\n"
            );
        })
        .join()
        .unwrap();
    }

    #[test]
    fn fifo_is_granted_or_refused_by_name() {
        std::thread::spawn(|| match try_fifo(1) {
            Ok(()) => {
                // SAFETY: takes an id only.
                let policy = unsafe { libc::sched_getscheduler(0) };
                assert_eq!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO);
                set_normal().unwrap();
            }
            Err(e) => assert_eq!(e.object(), Some("SCHED_FIFO"), "{e}"),
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_that_gave_up_the_capability_returns_to_normal() {
        std::thread::spawn(|| {
            if let Err(e) = try_fifo(1) {
                return eprintln!(
                    "SKIPPED a_thread_that_gave_up_the_capability_returns_to_normal: {e}"
                );
            }
            crate::capability::keep(&crate::capability::Capabilities::default()).unwrap();
            set_normal().unwrap();
            // SAFETY: takes an id only.
            let policy = unsafe { libc::sched_getscheduler(0) };
            assert_eq!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_OTHER);
            // By the limit alone.
            let may = raise_real_time_limit(1).unwrap();
            assert_eq!(try_fifo(1).is_ok(), may);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_returned_descriptor_limit_is_in_effect() {
        let got = raise_descriptor_limit(4096).unwrap();
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is exclusively borrowed.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        assert_eq!(got, limit.rlim_cur);
    }
}
