//! A path of three hosts, a – m – b, made of namespaces; a forwarder in the middle; sockets for raw frames at its ends.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_link::{
    Handle, Link, LinkChoice, LinkOptions, Mode, Receive, ReceiveStatistics, Slabs, Transmit,
    TransmitStatistics, disable_offloads, open, open_several, open_tap,
};
use weir_net::interface::set_offload;
use weir_net::namespace::{NamespaceOptions, NetNamespace, create, effective_user_id};
use weir_net::poll::{Events, Interest, Poller};
use weir_net::watchdog::Watchdog;

/// Hosts a and b with interfaces `ea` and `eb`, each a veth to `A` and `B` of host m between them.
pub(crate) struct Path {
    pub(crate) a: NetNamespace,
    pub(crate) m: NetNamespace,
    pub(crate) b: NetNamespace,
}

pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip");
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes the path. `None` if namespaces are unavailable or `ip` is missing; if CI is set, root then fails
/// instead.
pub(crate) fn path(test: &str, mtu: u32) -> Option<Path> {
    path_with_queues(test, mtu, 1)
}

/// Makes the path, whose cables have this many queues.
pub(crate) fn path_with_queues(test: &str, mtu: u32, queues: u32) -> Option<Path> {
    if effective_user_id() != 0 {
        eprintln!("SKIPPED {test}: needs root");
        return None;
    }
    let in_ci = std::env::var_os("CI").is_some();
    if Command::new("ip").arg("-V").output().is_err() {
        assert!(!in_ci, "{test}: ip is missing");
        eprintln!("SKIPPED {test}: ip is missing");
        return None;
    }
    let quiet = NamespaceOptions { ipv6: false };
    let mut parts = match create(&[quiet, quiet, quiet]) {
        Ok(parts) => parts,
        Err(error) => {
            assert!(!in_ci, "{test}: {error}");
            eprintln!("SKIPPED {test}: {error}");
            return None;
        }
    };
    let mut take = || parts.pop().expect("three namespaces").namespace;
    let path = Path { b: take(), m: take(), a: take() };
    for (end, inner, outer, number) in [(&path.a, "A", "ea", 1), (&path.b, "B", "eb", 2)] {
        let counts = format!("numrxqueues {queues} numtxqueues {queues}");
        let middle = format!("/proc/{}/fd/{}", std::process::id(), path.m.net_fd().as_raw_fd());
        end.run_in(|| {
            ip(&format!(
                "link add {outer} mtu {mtu} {counts} type veth peer name {inner} mtu {mtu} {counts} netns {middle}"
            ));
            ip(&format!("addr add 198.18.0.{number}/24 dev {outer}"));
            ip(&format!("link set dev {outer} up"));
        })
        .expect("enter");
        path.m.run_in(|| ip(&format!("link set dev {inner} up"))).expect("enter");
    }
    Some(path)
}

impl Path {
    /// Keeps both ends from sending super-packets, which generic AF_XDP does not support.
    pub(crate) fn disable_segmentation_at_the_ends(&self) {
        for (end, name) in [(&self.a, "ea"), (&self.b, "eb")] {
            end.run_in(|| {
                for feature in ["tso", "gso", "tx-udp-segmentation"] {
                    set_offload(name, feature, false).expect("offload");
                }
            })
            .expect("enter");
        }
    }

    /// From now on, frames that leave host a have VLAN tag 7 in metadata, like those of a VLAN interface on
    /// `ea`. A program on its egress pushes the tag, because not every kernel has VLAN interfaces. `None`
    /// if BPF is refused.
    pub(crate) fn tag_at_a(&self) -> Option<OwnedFd> {
        let index = self.a.run_in(|| weir_net::interface::interface("ea").expect("ea").index);
        let index = index.expect("enter");
        // r2 = ETH_P_8021Q in network order; r3 = 7; skb_vlan_push(skb, r2, r3); return TCX_NEXT
        let program: [u64; 5] = [
            0xb7 | 2 << 8 | u64::from(0x8100_u16.to_be()) << 32,
            0xb7 | 3 << 8 | 7 << 32,
            0x85 | 18 << 32,
            0xb7 | 0xffff_ffff << 32,
            0x95,
        ];
        let license = c"GPL";
        let mut load = [0_u64; 16];
        // BPF_PROG_TYPE_SCHED_CLS, five instructions, expected to be attached to BPF_TCX_EGRESS.
        load[0] = 3 | 5 << 32;
        load[1] = program.as_ptr().addr() as u64;
        load[2] = license.as_ptr().addr() as u64;
        load[8] = 47 << 32;
        let bpf = |command: i64, attributes: &[u64; 16]| {
            // SAFETY: the attributes are laid out for the command, and the targets of their pointers live
            // through the call.
            let rc = unsafe { libc::syscall(libc::SYS_bpf, command, attributes.as_ptr(), 128) };
            // SAFETY: a descriptor that is new and has no other owner.
            (rc >= 0).then(|| unsafe { OwnedFd::from_raw_fd(rc as i32) })
        };
        let loaded = bpf(5, &load)?;
        std::hint::black_box((&program, license));
        let mut attach = [0_u64; 16];
        attach[0] = loaded.as_raw_fd() as u64 | u64::from(index) << 32;
        attach[1] = 47;
        self.a.run_in(|| bpf(28, &attach)).expect("enter")
    }

    /// The link that is chosen automatically.
    pub(crate) fn best_link(&self, interface: &str) -> weir_link::Result<Link> {
        let choice = LinkChoice::Auto { receive_stamps: false };
        self.m.run_in(|| open(interface, choice, &LinkOptions::default())).expect("enter")
    }

    /// A link of this mode on one of m's interfaces.
    pub(crate) fn link(
        &self,
        interface: &str,
        mode: Mode,
        options: &LinkOptions,
    ) -> weir_link::Result<Link> {
        self.m.run_in(|| open(interface, LinkChoice::Mode(mode), options)).expect("enter")
    }

    /// Several links of this mode on one of m's interfaces.
    pub(crate) fn several_links(
        &self,
        interface: &str,
        mode: Mode,
        count: u32,
    ) -> weir_link::Result<Vec<Link>> {
        let options = LinkOptions::default();
        let open = || open_several(interface, LinkChoice::Mode(mode), &options, count);
        self.m.run_in(open).expect("enter")
    }

    /// Replaces `ea` or `eb` of a host by a TAP device with the same name, MTU and address; returns its link.
    pub(crate) fn tap(&self, name: &str, mtu: u32) -> Link {
        let (host, number) = if name == "ea" { (&self.a, 1) } else { (&self.b, 2) };
        host.run_in(|| {
            ip(&format!("link delete dev {name}"));
            let link = open_tap(name, name, &LinkOptions::default()).expect("TAP device");
            ip(&format!("link set dev {name} mtu {mtu}"));
            ip(&format!("addr add 198.18.0.{number}/24 dev {name}"));
            link
        })
        .expect("enter")
    }

    /// Runs `ip` in m.
    pub(crate) fn ip_in_middle(&self, arguments: &str) {
        self.m.run_in(|| ip(arguments)).expect("enter");
    }
}

/// Forwards both ways until told to stop.
pub(crate) struct Forwarder {
    stop: std::sync::Arc<AtomicBool>,
    threads: Vec<JoinHandle<(ReceiveStatistics, TransmitStatistics)>>,
    watchdog: Option<Watchdog>,
}

impl Forwarder {
    pub(crate) fn start(path: &Path, mode: Mode) -> Self {
        Self::start_with(path, mode, false)
    }

    /// Starts; with `keeps_trains`, super-packets are kept whole.
    pub(crate) fn start_with(path: &Path, mode: Mode, keeps_trains: bool) -> Self {
        Self::start_between(path, [None, None], mode, keeps_trains)
    }

    /// Starts between these links, and those of m's interfaces in place of absent ones.
    pub(crate) fn start_between(
        path: &Path,
        [a, b]: [Option<Link>; 2],
        mode: Mode,
        keeps_trains: bool,
    ) -> Self {
        let mut watchdog = path.m.run_in(|| Watchdog::spawn().expect("watchdog")).expect("enter");
        let mut link = |given: Option<Link>, interface: &str| {
            given.unwrap_or_else(|| {
                let disable = || disable_offloads(interface, &mut watchdog);
                path.m.run_in(disable).expect("enter").expect("disable_offloads");
                path.link(interface, mode, &LinkOptions::default()).expect("link")
            })
        };
        let Link { receiver: from_a, transmitter: to_a, .. } = link(a, "A");
        let Link { receiver: from_b, transmitter: to_b, .. } = link(b, "B");
        let stop = std::sync::Arc::new(AtomicBool::new(false));
        let threads = [(from_a, to_b), (from_b, to_a)]
            .into_iter()
            .map(|(mut from, to)| {
                if keeps_trains {
                    from.keep_trains();
                }
                let stop = stop.clone();
                std::thread::spawn(move || forward(from, to, &stop))
            })
            .collect();
        Forwarder { stop, threads, watchdog: Some(watchdog) }
    }

    /// Stops; returns the statistics from A to B and from B to A.
    pub(crate) fn stop(mut self) -> [(ReceiveStatistics, TransmitStatistics); 2] {
        self.stop.store(true, Ordering::Relaxed);
        let ended: Vec<_> = self.threads.drain(..).map(|t| t.join().expect("forwarder")).collect();
        self.watchdog.take().expect("watchdog").restore();
        [ended[0], ended[1]]
    }
}

fn forward(
    mut from: Box<dyn Receive>,
    mut to: Box<dyn Transmit>,
    stop: &AtomicBool,
) -> (ReceiveStatistics, TransmitStatistics) {
    let poller = Poller::new().expect("poller");
    poller.add(from.fd(), 0, Interest::READ).expect("add");
    let mut events = Events::new(1);
    let mut slabs = Slabs::new(64 << 20);
    slabs.keep_trains(32 << 20);
    let mut received = Vec::new();
    let mut waiting: Vec<Handle> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        received.clear();
        from.recv(&mut slabs, 64, &mut received).expect("recv");
        waiting.extend(received.iter().map(|frame| frame.handle));
        let sent = to.send(&slabs, &waiting).expect("send");
        assert_eq!(to.refused(), [] as [u32; 0]);
        waiting.drain(..sent).for_each(|handle| slabs.release(handle));
        if received.is_empty() && waiting.is_empty() {
            poller.wait(&mut events, Some(20_000_000)).expect("wait");
        }
    }
    assert_eq!(slabs.usage().packets, waiting.len() as u64, "a handle was lost");
    (from.statistics().expect("statistics"), to.statistics())
}

/// A packet socket independent of the crate's own: whole frames, with tags restored.
pub(crate) struct RawSocket(OwnedFd);

impl RawSocket {
    pub(crate) fn open(namespace: &NetNamespace, interface: &str) -> Self {
        namespace.run_in(|| Self::open_here(interface)).expect("enter")
    }

    fn open_here(interface: &str) -> Self {
        let index = weir_net::interface::interface(interface).expect("interface").index;
        let all = (libc::ETH_P_ALL as u16).to_be();
        // SAFETY: integers; then structures of plain integers that live through each call, with their sizes.
        unsafe {
            let fd =
                libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(all));
            assert!(fd >= 0, "{}", io::Error::last_os_error());
            let fd = OwnedFd::from_raw_fd(fd);
            let one = 1_i32;
            for name in [libc::PACKET_AUXDATA, libc::PACKET_IGNORE_OUTGOING] {
                let value = (&raw const one).cast();
                assert_eq!(libc::setsockopt(fd.as_raw_fd(), libc::SOL_PACKET, name, value, 4), 0);
            }
            let mut address: libc::sockaddr_ll = std::mem::zeroed();
            address.sll_family = libc::AF_PACKET as u16;
            address.sll_protocol = all;
            address.sll_ifindex = index as i32;
            let len = size_of_val(&address) as u32;
            assert_eq!(libc::bind(fd.as_raw_fd(), (&raw const address).cast(), len), 0);
            RawSocket(fd)
        }
    }

    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` is readable for its length.
        let n = unsafe { libc::send(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0) };
        if n < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next frame; `None` if none arrives for a minute.
    pub(crate) fn recv(&self) -> Option<Vec<u8>> {
        let mut bytes = vec![0_u8; 70_000];
        let mut control = [0_u64; 16];
        // SAFETY: every pointer leads to memory that lives through the calls, with its size; the walk over control
        // messages is libc's, within what the kernel filled.
        unsafe {
            let mut poll =
                libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            if libc::poll(&raw mut poll, 1, 60_000) <= 0 {
                return None;
            }
            let mut vector =
                libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut vector;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control);
            let n = libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0);
            assert!(n >= 0, "{}", io::Error::last_os_error());
            bytes.truncate(n as usize);
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            if !head.is_null() && (*head).cmsg_type == libc::PACKET_AUXDATA {
                let aux = libc::CMSG_DATA(head).cast::<libc::tpacket_auxdata>().read_unaligned();
                if aux.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                    let tag =
                        [aux.tp_vlan_tpid.to_be_bytes(), aux.tp_vlan_tci.to_be_bytes()].concat();
                    bytes.splice(12..12, tag);
                }
            }
        }
        Some(bytes)
    }
}
