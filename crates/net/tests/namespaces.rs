//! Namespaces and the watchdog, against the kernel. Needs root; the path of an ordinary user is tested by
//! running this program again as the user `nobody`.
// Helper functions of tests: a failure is a failed test.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]
// The MTU is read and set by ioctl here, apart from the code under test.
#![allow(unsafe_code)]

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use weir_net::namespace::{
    ChildSetup, ClockOffset, LinkControl, NamespaceOptions, NamespaceParts, NetNamespace, create,
    effective_user_id, end_processes_in,
};
use weir_net::watchdog::{RestoreAction, Watchdog};

/// Set in a copy of this program that plays a part in a test.
const PART: &str = "WEIR_TEST_PART";
const NOBODY: u32 = 65_534;

/// A namespace for a test that needs root; with CI set, root that cannot make one is a failure.
fn one_namespace(test: &str) -> Option<NamespaceParts> {
    if effective_user_id() != 0 {
        eprintln!("SKIPPED {test}: needs root");
        return None;
    }
    match create(&[NamespaceOptions::default()]) {
        Ok(mut parts) => parts.pop(),
        Err(error) if error.is_not_permitted() && std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED {test}: {error}");
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// A copy of this program that runs only `test`.
fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(PART, "1");
    command
}

fn is_copy() -> bool {
    std::env::var_os(PART).is_some()
}

fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    text.lines().skip(2).map(|l| l.split(':').next().unwrap().trim().to_owned()).collect()
}

/// Reads or sets the MTU of lo.
fn mtu_ioctl(operation: libc::c_ulong, value: i32) -> i32 {
    let control = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    // SAFETY: ifreq is plain data; the call reads or writes only the name and the MTU.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        request.ifr_name[0] = b'l' as libc::c_char;
        request.ifr_name[1] = b'o' as libc::c_char;
        request.ifr_ifru.ifru_mtu = value;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&control);
        assert_eq!(libc::ioctl(fd, operation as _, &raw mut request), 0);
        request.ifr_ifru.ifru_mtu
    }
}

fn mtu() -> i32 {
    mtu_ioctl(libc::SIOCGIFMTU as libc::c_ulong, 0)
}

fn set_mtu(value: i32) {
    mtu_ioctl(libc::SIOCSIFMTU as libc::c_ulong, value);
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_namespace_is_new_and_entered_by_threads_and_children() {
    let Some(parts) = one_namespace("a_namespace_is_new_and_entered_by_threads_and_children")
    else {
        return;
    };
    let own = NetNamespace::current().unwrap().id().unwrap();
    let inside = parts.namespace.id().unwrap();
    assert_ne!(own, inside);
    assert!(parts.namespace.user_fd().is_none(), "root needs no user namespace");
    let look = || (NetNamespace::current().unwrap().id().unwrap(), interfaces());
    let (seen_id, mut seen) = parts.namespace.run_in(look).unwrap();
    assert_eq!(seen_id, inside);
    assert!(seen.iter().any(|name| name == "lo"));
    assert_eq!(NetNamespace::current().unwrap().id().unwrap(), own, "the caller stays");

    let mut command = Command::new("ls");
    command.arg("/sys/class/net");
    ChildSetup::new().namespace(&parts.namespace).apply(&mut command).unwrap();
    let listed = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let mut listed: Vec<_> = listed.lines().map(str::to_owned).collect();
    // A file, no interface, where bonding is built in.
    listed.retain(|name| name != "bonding_masters");
    seen.sort();
    assert_eq!(listed, seen, "/sys shows the namespace's interfaces");
}

#[test]
fn a_panic_inside_propagates() {
    let Some(parts) = one_namespace("a_panic_inside_propagates") else { return };
    let inside = std::panic::AssertUnwindSafe(|| parts.namespace.run_in(|| panic!("from inside")));
    let result: Result<Result<(), _>, _> = std::panic::catch_unwind(inside);
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"from inside"));
}

#[test]
fn only_namespaces_are_opened() {
    for path in ["/dev/null", "/proc/self/ns/uts", "/proc/self/status", "/nowhere"] {
        assert!(NetNamespace::open(path, None).is_err(), "{path}");
    }
    let net = "/proc/self/ns/net";
    assert!(NetNamespace::open(net, Some(net.as_ref())).is_err(), "a net namespace for a user one");
    assert!(NetNamespace::open(net, None).is_ok());
}

fn uptime(command: &mut Command) -> f64 {
    let text = String::from_utf8(command.arg("/proc/uptime").output().unwrap().stdout).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// CLOCK_BOOTTIME, which /proc/uptime shows, 1000 s ahead; the figure is cut to hundredths.
fn lives_a_thousand_seconds_ahead(setup: ChildSetup) {
    let mut ahead = Command::new("cat");
    setup.clock_offset(ClockOffset { seconds: 1000 }).apply(&mut ahead).unwrap();
    let before = uptime(&mut Command::new("cat"));
    let inside = uptime(&mut ahead);
    let after = uptime(&mut Command::new("cat"));
    assert!(before + 999.9 <= inside && inside <= after + 1000.1, "{before} {inside} {after}");
}

#[test]
fn a_child_lives_in_another_time() {
    let Some(parts) = one_namespace("a_child_lives_in_another_time") else { return };
    lives_a_thousand_seconds_ahead(ChildSetup::new().namespace(&parts.namespace));
    lives_a_thousand_seconds_ahead(ChildSetup::new());
}

#[test]
fn an_ordinary_user_gets_a_user_namespace() {
    const NAME: &str = "an_ordinary_user_gets_a_user_namespace";
    if !is_copy() {
        if one_namespace(NAME).is_none() {
            return;
        }
        // Copied to where anyone may run it.
        let directory = std::env::temp_dir().join(format!("wlab-test-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let program = directory.join("test");
        // Not fs::copy: a fork of another test at that moment would keep the file open for writing,
        // and running it would fail with ETXTBSY.
        let copy = [std::env::current_exe().unwrap(), program.clone()];
        assert!(Command::new("cp").args(copy).status().unwrap().success());
        let mut copy = Command::new(&program);
        copy.args(["--exact", NAME, "--nocapture"]).env(PART, "1");
        let output = copy.current_dir("/").uid(NOBODY).gid(NOBODY).output();
        fs::remove_dir_all(&directory).unwrap();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(effective_user_id(), NOBODY);
    let parts = match create(&[NamespaceOptions::default(), NamespaceOptions { ipv6: false }]) {
        Err(error) if error.is_not_permitted() && std::env::var_os("CI").is_none() => {
            eprintln!("SKIPPED {NAME}: {error}");
            return;
        }
        other => other.unwrap(),
    };
    assert_eq!(parts.len(), 2);
    assert_ne!(parts[0].namespace.id().unwrap(), parts[1].namespace.id().unwrap());
    assert!(parts[0].namespace.user_fd().is_some());
    // A threaded process may not enter, and gets an error.
    assert!(parts[0].namespace.run_in(|| ()).unwrap_err().is_not_permitted());
    // Its interfaces can be read and set nevertheless.
    let has_gro = || parts[0].control.active_features("lo").unwrap().iter().any(|f| f == "rx-gro");
    for on in [true, false, true] {
        parts[0].control.set_features("lo", &[("rx-gro", on)]).unwrap();
        assert_eq!(has_gro(), on);
    }
    let mut command = Command::new("sh");
    command.args(["-c", "id -u; readlink /proc/self/ns/net"]);
    ChildSetup::new().namespace(&parts[0].namespace).apply(&mut command).unwrap();
    let output = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let inode = parts[0].namespace.id().unwrap().inode;
    assert_eq!(output, format!("0\nnet:[{inode}]\n"));
    lives_a_thousand_seconds_ahead(ChildSetup::new().namespace(&parts[0].namespace));
}

#[test]
fn watchdog_restores_in_reverse_and_disarms() {
    let Some(parts) = one_namespace("watchdog_restores_in_reverse_and_disarms") else { return };
    let work = || {
        set_mtu(2000);
        let mut watchdog = Watchdog::spawn().unwrap();
        let lo = |mtu| RestoreAction::Mtu { interface: "lo".into(), mtu };
        watchdog.add(&lo(1400)).unwrap();
        watchdog.add(&lo(1300)).unwrap();
        let none = RestoreAction::Mtu { interface: "wnone".into(), mtu: 1 };
        assert_eq!(watchdog.add(&none).unwrap_err().source.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(mtu(), 2000, "nothing happens before its time");
        watchdog.restore();
        assert_eq!(mtu(), 1400, "the first action has the last word");

        let mut watchdog = Watchdog::spawn().unwrap();
        watchdog.add(&lo(1500)).unwrap();
        watchdog.disarm();
        assert_eq!(mtu(), 1400);

        let control = LinkControl::open().unwrap();
        let is_on = || control.active_features("lo").unwrap().iter().any(|f| f == "rx-gro");
        control.set_features("lo", &[("rx-gro", true)]).unwrap();
        let mut watchdog = Watchdog::spawn().unwrap();
        let (interface, feature) = ("lo".to_owned(), "rx-gro".to_owned());
        watchdog.add(&RestoreAction::Feature { interface, feature, on: false }).unwrap();
        let (flags, mask) = (libc::IFF_UP as u16, libc::IFF_UP as u16);
        let up = RestoreAction::LinkFlags { interface: "lo".into(), flags, mask };
        watchdog.add(&up).unwrap();
        let reaches_itself = || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"x", "127.0.0.1:9").is_ok()
        };
        assert!(is_on() && !reaches_itself());
        drop(watchdog);
        assert!(!is_on() && reaches_itself());
    };
    parts.namespace.run_in(work).unwrap();
}

#[test]
fn watchdog_keeps_a_bounded_number() {
    let mut watchdog = Watchdog::spawn().unwrap();
    let action = RestoreAction::LinkFlags { interface: "lo".into(), flags: 0, mask: 0 };
    for _ in 0..weir_net::watchdog::MAX_ACTIONS {
        watchdog.add(&action).unwrap();
    }
    assert_eq!(watchdog.add(&action).unwrap_err().source.raw_os_error(), Some(libc::ENOSPC));
    watchdog.disarm();
}

#[test]
fn watchdog_outlives_a_killed_parent() {
    const NAME: &str = "watchdog_outlives_a_killed_parent";
    if is_copy() {
        let mut watchdog = Watchdog::spawn().unwrap();
        watchdog.add(&RestoreAction::Mtu { interface: "lo".into(), mtu: 1400 }).unwrap();
        set_mtu(3000); // tells the test that it is armed
        loop {
            std::thread::park();
        }
    }
    let Some(parts) = one_namespace(NAME) else { return };
    let is = |expected: i32| parts.namespace.run_in(move || mtu() == expected).unwrap();
    let mut parent = again(NAME);
    parent.stdout(Stdio::null()).stderr(Stdio::null());
    ChildSetup::new()
        .namespace(&parts.namespace)
        .parent_death_signal(libc::SIGKILL)
        .apply(&mut parent)
        .unwrap();
    let mut parent = parent.spawn().unwrap();
    until("armed", || is(3000));
    parent.kill().unwrap();
    parent.wait().unwrap();
    until("restored", || is(1400));
}

#[test]
fn processes_inside_are_ended_even_stubborn_ones() {
    let Some(parts) = one_namespace("processes_inside_are_ended_even_stubborn_ones") else {
        return;
    };
    let start = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::piped());
        let setup = ChildSetup::new().namespace(&parts.namespace).default_signals();
        setup.apply(&mut command).unwrap();
        let mut child = command.spawn().unwrap();
        // The shell has set its trap when it writes.
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        child
    };
    let mut meek = start("echo x; exec sleep 60");
    let mut stubborn = start("trap '' TERM; echo x; while :; do sleep 60; done");
    let mut bystander = Command::new("sleep").arg("60").spawn().unwrap();
    let inside = [parts.namespace.clone()];
    let told = end_processes_in(&inside, Duration::from_millis(50)).unwrap();
    assert!(told >= 2, "{told}");
    assert_eq!(meek.wait().unwrap().signal(), Some(libc::SIGTERM));
    assert_eq!(stubborn.wait().unwrap().signal(), Some(libc::SIGKILL));
    assert!(bystander.try_wait().unwrap().is_none(), "others are left alone");
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert_eq!(end_processes_in(&inside, Duration::ZERO).unwrap(), 0);
}

#[test]
fn a_child_inherits_the_given_descriptors_only() {
    let kept = weir_net::tcp::MemFile::new(b"kept").unwrap();
    let other = weir_net::tcp::MemFile::new(b"other").unwrap();
    let numbers =
        [&kept, &other].map(|f| std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(f)));
    let inherited = std::os::fd::AsFd::as_fd(&kept).try_clone_to_owned().unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&inherited);
    let read = |number: i32, setup: ChildSetup| {
        let mut command = Command::new("cat");
        command.arg(format!("/proc/self/fd/{number}")).stderr(Stdio::null());
        setup.apply(&mut command).unwrap();
        command.output().unwrap().stdout
    };
    assert_eq!(read(number, ChildSetup::new().inherit(inherited)), b"kept");
    assert_eq!(numbers.map(|n| read(n, ChildSetup::new())), [b"", b""]);
}

#[test]
fn a_child_sees_another_file_and_no_other_process_does() {
    use std::io::Read;
    let test = "a_child_sees_another_file_and_no_other_process_does";
    let Some(parts) = one_namespace(test) else { return };
    let before = fs::read("/etc/hostname").unwrap();
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mounts_before = mounts();
    let seen = |path: &'static std::ffi::CStr, file: &str| {
        let (mut refusal, writer) = std::io::pipe().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "cat \"$0\"; ls -A /sys | grep -c file; findmnt -n /sys", file]);
        ChildSetup::new().namespace(&parts.namespace).apply(&mut command).unwrap();
        ChildSetup::new().file(path, "other\n".into(), writer.into()).apply(&mut command).unwrap();
        let output = command.output().unwrap();
        drop(command);
        let mut errno = Vec::new();
        refusal.read_to_end(&mut errno).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (text, <[u8; 4]>::try_from(errno).map(i32::from_ne_bytes).ok())
    };
    let (text, errno) = seen(c"/etc/hostname", "/etc/hostname");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((lines[0], lines[1], errno), ("other", "0", None), "{text}");
    assert!(!text.contains("tmpfs"), "{text}");
    assert_eq!(fs::read("/etc/hostname").unwrap(), before);
    assert_eq!(mounts(), mounts_before);
    // A missing file can't be covered; the child runs, and its parent gets the error.
    let (text, errno) = seen(c"/etc/weir-no-such", "/etc/hostname");
    assert_eq!(errno, Some(libc::ENOENT));
    assert_eq!(text.lines().next().unwrap().as_bytes(), before.trim_ascii_end());
}

#[test]
fn a_child_gets_the_default_signals_where_they_are_ignored() {
    const NAME: &str = "a_child_gets_the_default_signals_where_they_are_ignored";
    // SIGHUP, SIGINT, SIGQUIT and SIGTERM in the mask of proc_pid_status(5).
    const FOUR: u64 = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14;
    let ignored = |setup: ChildSetup| {
        let mut command = Command::new("sed");
        command.args(["-n", "s/^SigIgn:[[:space:]]*//p", "/proc/self/status"]);
        setup.apply(&mut command).unwrap();
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        u64::from_str_radix(text.trim(), 16).unwrap() & FOUR
    };
    if is_copy() {
        assert_eq!(ignored(ChildSetup::new()), FOUR);
        assert_eq!(ignored(ChildSetup::new().default_signals()), 0);
        return;
    }
    let mut copy = Command::new("sh");
    copy.args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" \"$@\""]);
    let own = again(NAME);
    copy.arg(own.get_program()).args(own.get_args());
    copy.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = copy.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stdout));
}
