//! Host facts from uname, `/proc`, and `/sys`.

use std::fs;
use std::path::Path;

use super::clock;
use crate::error::{Context, Result};
use crate::host::Host;

/// Settings that affect the results of a measurement.
const SYSCTLS: [&str; 16] = [
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.rmem_default",
    "net.core.wmem_default",
    "net.core.optmem_max",
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.netdev_budget",
    "net.core.somaxconn",
    "net.core.busy_poll",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_available_congestion_control",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.udp_mem",
];

/// One setting by its dotted name, with single spaces; `None` if the kernel has none of that name here.
pub fn sysctl(name: &str) -> Option<String> {
    let text = fs::read_to_string(sysctl_path(name)?).ok()?;
    Some(text.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
}

/// The file of a setting.
pub(crate) fn sysctl_path(name: &str) -> Option<String> {
    // Dots separate, but interface names may contain them: those are written with slashes, as in sysctl(8).
    let path = if name.contains('/') { name.to_owned() } else { name.replace('.', "/") };
    let is_inside = path.split('/').all(|part| !part.is_empty() && part != "..");
    is_inside.then(|| format!("/proc/sys/{path}"))
}

/// Gathers the facts. Only the system's name for itself is required; the rest may be missing.
pub fn host() -> Result<Host> {
    // SAFETY: utsname is arrays of bytes, for which zero is a value.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is exclusively borrowed.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return Err(std::io::Error::last_os_error()).context("read", "the system's name");
    }
    let field = |array: &[libc::c_char]| {
        let bytes: Vec<u8> = array.iter().map(|&c| c as u8).collect();
        super::netlink::text(&bytes)
    };
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    Ok(Host {
        hostname: field(&names.nodename),
        os: os_name(&os_release).unwrap_or_else(|| field(&names.sysname)),
        kernel: field(&names.release),
        architecture: field(&names.machine),
        cpu_model: cpu_model(&cpuinfo),
        cpu_cores: online_cpus(),
        governor: governor(),
        cache_bytes: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
        memory_bytes: fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(memory_bytes),
        virtualisation: virtualisation(&cpuinfo),
        clocksource: clock::clocksource(),
        sysctls: SYSCTLS
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), sysctl(name)?)))
            .collect(),
    })
}

fn online_cpus() -> u32 {
    // SAFETY: takes an integer only.
    u32::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

fn os_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

/// `model name` on x86, `Model`, `cpu` or `Hardware` elsewhere.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    ["model name", "Model", "cpu", "Hardware"].into_iter().find_map(|key| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    })
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let value = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn governor() -> Option<String> {
    let mut found: Option<String> = None;
    for entry in fs::read_dir("/sys/devices/system/cpu").ok()?.flatten() {
        let name = entry.file_name();
        let is_cpu = name
            .to_str()
            .and_then(|n| n.strip_prefix("cpu"))
            .is_some_and(|n| n.parse::<u32>().is_ok());
        if !is_cpu {
            continue;
        }
        if let Ok(text) = fs::read_to_string(entry.path().join("cpufreq/scaling_governor")) {
            let this = text.trim().to_owned();
            if found.as_ref().is_some_and(|f| *f != this) {
                return None;
            }
            found = Some(this);
        }
    }
    found
}

/// Caches by their names, from the directories `index0`, `index1`, … of a CPU.
fn caches(directory: &Path) -> Vec<(String, u64)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(String, u64)> = entries
        .filter_map(|entry| {
            let field = |name: &str| {
                fs::read_to_string(entry.path().join(name)).ok().map(|t| t.trim().to_owned())
            };
            let kind = match field("type")?.as_str() {
                "Data" => "d",
                "Instruction" => "i",
                _ => "",
            };
            Some((format!("L{}{kind}", field("level")?), cache_size(&field("size")?)?))
        })
        .collect();
    found.sort();
    found
}

/// `32K` or `8M`: powers of 1024.
fn cache_size(text: &str) -> Option<u64> {
    let (number, factor) = match text.strip_suffix('K') {
        Some(number) => (number, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

fn virtualisation(cpuinfo: &str) -> Option<String> {
    if fs::metadata("/run/.containerenv").is_ok() || fs::metadata("/.dockerenv").is_ok() {
        return Some("container".to_owned());
    }
    if !has_hypervisor_flag(cpuinfo) {
        return None;
    }
    let dmi = |name: &str| {
        fs::read_to_string(format!("/sys/class/dmi/id/{name}")).ok().map(|t| t.trim().to_owned())
    };
    let parts: Vec<String> = [dmi("sys_vendor"), dmi("product_name")]
        .into_iter()
        .flatten()
        .filter(|t| !t.is_empty())
        .collect();
    if parts.is_empty() { Some("hypervisor".to_owned()) } else { Some(parts.join(" ")) }
}

fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|line| line.split_ascii_whitespace().any(|word| word == "hypervisor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_text() {
        assert_eq!(
            os_name("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").as_deref(),
            Some("Debian GNU/Linux 12")
        );
        assert_eq!(os_name("PRETTY_NAME=\"\"\n"), None);
        assert_eq!(
            cpu_model("processor : 0\nmodel name\t: AMD EPYC\n").as_deref(),
            Some("AMD EPYC")
        );
        assert_eq!(memory_bytes("MemTotal:       16 kB\n"), Some(16_384));
        assert_eq!(memory_bytes("MemTotal: 99999999999999999999 kB\n"), None);
        assert!(has_hypervisor_flag("flags\t\t: fpu hypervisor sse\n"));
        assert!(!has_hypervisor_flag("flags\t\t: fpu nohypervisor\n"));
    }

    #[test]
    fn caches_have_names_and_sizes() {
        let directory = tempfile::tempdir().unwrap();
        for (index, level, kind, size) in
            [(0, 1, "Data", "32K"), (1, 1, "Instruction", "48K"), (2, 2, "Unified", "8M")]
        {
            let cache = directory.path().join(format!("index{index}"));
            fs::create_dir(&cache).unwrap();
            for (name, text) in
                [("level", level.to_string()), ("type", kind.into()), ("size", size.into())]
            {
                fs::write(cache.join(name), format!("{text}\n")).unwrap();
            }
        }
        let found = caches(directory.path());
        let found: Vec<(&str, u64)> = found.iter().map(|(n, b)| (n.as_str(), *b)).collect();
        assert_eq!(found, [("L1d", 32 << 10), ("L1i", 48 << 10), ("L2", 8 << 20)]);
        assert_eq!(caches(&directory.path().join("absent")), []);
        assert_eq!([cache_size("x"), cache_size("64")], [None, Some(64)]);
    }

    #[test]
    fn this_host_reports_itself() {
        let host = host().unwrap();
        assert!(
            !host.kernel.is_empty() && host.cpu_cores >= 1 && host.memory_bytes > Some(1 << 20)
        );
        let ostype = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(host.kernel, ostype.trim());
        assert!(host.sysctls.iter().any(|(name, _)| name == "net.ipv4.tcp_rmem"));
        assert_eq!(sysctl("kernel.no_such_setting"), None);
        assert_eq!(sysctl("../kernel/osrelease"), None);
        assert_eq!(sysctl("net/ipv4/conf/lo/forwarding").map(|v| v.len()), Some(1));
    }
}
