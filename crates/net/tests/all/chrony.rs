//! This crate's bound of a clock under chronyd, compared with chronyd's own: two daemons in namespaces of their own,
//! one of which follows the other. Neither touches the clock (`-x`), and nothing leaves the namespace.
// Helper functions of tests: a failure is a failed test.
#![cfg(target_os = "linux")]

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_net::clock::Clock;
use weir_net::namespace::effective_user_id;
use weir_net::reference::{ClockReference, ReferenceReader, TimeService};

/// Set in the copy of this program that runs inside the namespaces.
const INSIDE: &str = "WEIR_TEST_INSIDE";
const NAME: &str = "chronys_bound_is_reported_as_chronyc_reports_it";
/// The daemon that is followed; the other one has the socket that chronyc asks by itself.
const UPSTREAM: [&str; 6] = [
    "local stratum 5",
    "allow 127.0.0.0/8",
    "port 11123",
    "manual",
    "bindcmdaddress /run/chrony/upstream.sock",
    "pidfile /run/chrony/upstream.pid",
];

/// Runs chronyd without touching the clock, on a control socket only.
fn chronyd(directives: &[&str]) -> Child {
    Command::new("chronyd")
        .args(["-n", "-x", "-U", "-u", "root", "-F", "0", "cmdport 0"])
        .args(directives)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn end(mut daemon: Child) {
    daemon.kill().unwrap();
    daemon.wait().unwrap();
}

/// What `chronyc tracking` shows a reader, by the name of the line; empty while no daemon answers.
fn tracking() -> HashMap<String, String> {
    let shown = Command::new("chronyc").args(["-n", "tracking"]).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    let line = |l: &str| l.split_once(':').map(|(k, v)| (k.trim().into(), v.trim().into()));
    text.lines().filter_map(line).collect()
}

/// A figure of it without sign: its first word.
fn figure(shown: &HashMap<String, String>, name: &str) -> f64 {
    shown[name].split(' ').next().unwrap().trim_start_matches('+').parse::<f64>().unwrap().abs()
}

fn wait_until(what: &str, holds: impl Fn(&HashMap<String, String>) -> bool) {
    let begun = Instant::now();
    loop {
        let shown = tracking();
        if holds(&shown) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {shown:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The bound by chrony's documentation, from the figures that a reader sees, s.
fn bound(shown: &HashMap<String, String>) -> f64 {
    figure(shown, "System time")
        + figure(shown, "Root dispersion")
        + figure(shown, "Root delay") / 2.0
}

fn by_chrony() -> Option<ClockReference> {
    ReferenceReader::open(&Clock::System).read().filter(|r| r.bound.service == TimeService::Chrony)
}

/// While nothing is measured any more, so that only the dispersion grows.
fn agrees() -> f64 {
    let begun = Instant::now();
    // The reader waits only a moment, and on a busy machine the daemon may take longer: then it rightly reports
    // nothing.
    let (before, told, after) = loop {
        let before = tracking();
        if let Some(told) = by_chrony() {
            break (before, told, tracking());
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "no bound of chrony's: {before:?}");
    };
    assert_eq!(before["Ref time (UTC)"], after["Ref time (UTC)"]);
    let error = told.bound.error_ns as f64 / 1e9;
    // The reading of two clocks is in it too, and each of three figures is rounded to a nanosecond.
    assert!(error > bound(&before) - 3e-9 && error < bound(&after) + 1e-3, "{error} {before:?}");
    // Just after the first measurements the skew alone is beyond what the kernel lets a clock stray by.
    let growth = (figure(&after, "Residual freq") + figure(&after, "Skew") + 1.0).min(500.0);
    let growth_ppm = told.bound.growth_ppb as f64 / 1e3;
    // These daemons do not steer the clock: what they measured of the clock's frequency stays, but for what the kernel corrects.
    let rest = growth_ppm - growth;
    assert!((-0.002..=500.0).contains(&rest), "{told:?} {after:?}");
    bound(&after)
}

fn inside() {
    // Its own clock for lack of another is no reference.
    let alone = chronyd(&["local stratum 5", "port 0"]);
    wait_until("a daemon that serves its own clock", |t| {
        t.get("Reference ID").is_some_and(|id| id.starts_with("7F7F0101"))
    });
    assert_eq!(by_chrony(), None);
    end(alone);
    assert_eq!(by_chrony(), None, "no daemon answers");

    let follower = chronyd(&["server 127.0.0.1 port 11123 iburst minpoll -4 maxpoll -4", "port 0"]);
    wait_until("a daemon without a source", |t| {
        t.get("Leap status").is_some_and(|leap| leap == "Not synchronised")
    });
    assert_eq!(by_chrony(), None);

    let upstream = chronyd(&UPSTREAM);
    // With the first measurements alone it may lose the source again.
    wait_until("a daemon that follows another", |t| {
        t["Leap status"] == "Normal" && figure(t, "Skew") < 20.0
    });
    end(upstream);
    let close = agrees();
    assert!(close < 0.1, "{close}");

    // Some seconds off: not corrected here, hence reported.
    let upstream = chronyd(&UPSTREAM);
    let set = "chronyc -h /run/chrony/upstream.sock settime \"$(date -d '+5 seconds' +%H:%M:%S)\"";
    wait_until("the time is set", |_| {
        let done = Command::new("sh").args(["-c", set]).stdout(Stdio::null()).status().unwrap();
        done.success()
    });
    // Right after the jump it assumes a clock that drifts wildly, with a bound too large to be passed on.
    wait_until("the difference is seen", |t| {
        figure(t, "System time") > 1.0 && figure(t, "Root dispersion") < 1.0
    });
    end(upstream);
    let far = agrees();
    assert!((1.0..6.0).contains(&far), "{far}");
    end(follower);
}

#[test]
fn chronys_bound_is_reported_as_chronyc_reports_it() {
    if std::env::var_os(INSIDE).is_some() {
        return inside();
    }
    // Never a failure for lack of it, not even in CI: installing it makes it a service that steers the host's clock.
    for tool in ["chronyd", "chronyc", "unshare", "ip"] {
        let asked = Command::new(tool).arg("--version").output();
        if asked.is_err() {
            return eprintln!("SKIPPED {NAME}: no {tool}");
        }
    }
    if effective_user_id() != 0 {
        return eprintln!("SKIPPED {NAME}: needs root");
    }
    // The end of the first process ends all in its namespaces, and unmounts what was mounted there.
    let set_up =
        "mount -t tmpfs tmpfs /run && mkdir -m 750 /run/chrony && ip link set lo up && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    let possible = Command::new("unshare").args(command.get_args()).arg("true").output().unwrap();
    if !possible.status.success() {
        assert!(std::env::var_os("CI").is_none(), "{possible:?}");
        return eprintln!("SKIPPED {NAME}: {}", String::from_utf8_lossy(&possible.stderr).trim());
    }
    let copy = std::env::current_exe().unwrap();
    command.args(["sh", "-c", set_up, "sh"]).arg(copy).args(["--exact", NAME, "--nocapture"]);
    let ran = command.env(INSIDE, "1").output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said}");
}
