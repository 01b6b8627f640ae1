//! The two BPF programs, and how they are attached: by BPF links, which the kernel removes with their
//! descriptor, so that nothing is left behind however this process ends.
//!
//! They are written as instructions, because six of them do not need a compiler.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const BPF_MAP_CREATE: i64 = 0;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_PROG_LOAD: i64 = 5;
const BPF_LINK_CREATE: i64 = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_DROP: i32 = 1;
const TCX_DROP: i32 = 2;

/// A program on an interface; dropping this detaches it.
#[derive(Debug)]
pub(crate) struct Attachment {
    _link: OwnedFd,
}

/// `union bpf_attr` as 64-bit words; commands use the first ones.
#[derive(Clone, Copy)]
struct Attributes([u64; 16]);

impl Attributes {
    fn new() -> Self {
        Attributes([0; 16])
    }

    /// Sets the 32-bit field at `offset` bytes.
    fn word(mut self, offset: usize, value: u32) -> Self {
        let mut bytes = self.0[offset / 8].to_ne_bytes();
        bytes[offset % 8..offset % 8 + 4].copy_from_slice(&value.to_ne_bytes());
        self.0[offset / 8] = u64::from_ne_bytes(bytes);
        self
    }

    /// Sets the pointer at `offset` bytes. Its target must live until [`Attributes::call`] returns.
    fn pointer<T: ?Sized>(mut self, offset: usize, to: &T) -> Self {
        self.0[offset / 8] = std::ptr::from_ref(to).cast::<u8>().addr() as u64;
        std::hint::black_box(to);
        self
    }

    /// Runs a command. The caller lays out the attributes for the command and keeps the targets of pointers
    /// alive.
    fn call(&self, command: i64) -> io::Result<i32> {
        // SAFETY: `self` is readable for its size, which is given, and laid out by the caller for this command with
        // pointers to memory that lives through the call.
        let rc =
            unsafe { libc::syscall(libc::SYS_bpf, command, self.0.as_ptr(), size_of_val(&self.0)) };
        if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc as i32) }
    }

    fn call_for_descriptor(&self, command: i64) -> io::Result<OwnedFd> {
        let fd = self.call(command)?;
        // SAFETY: the three commands called in this way return a new descriptor without another owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// One instruction (`struct bpf_insn`).
const fn instruction(code: u8, registers: u8, offset: i16, immediate: i32) -> u64 {
    let (o, i) = (offset.to_ne_bytes(), immediate.to_ne_bytes());
    u64::from_ne_bytes([code, registers, o[0], o[1], i[0], i[1], i[2], i[3]])
}

/// The registers byte: target in the lower four bits, source in the upper. As a C bit field it is reversed
/// on big-endian.
const fn registers(target: u8, source: u8) -> u8 {
    if cfg!(target_endian = "big") { target << 4 | source } else { source << 4 | target }
}

const EXIT: u64 = instruction(0x95, 0, 0, 0);

const fn set(register: u8, value: i32) -> u64 {
    instruction(0xb7, registers(register, 0), 0, value)
}

fn load(kind: u32, attach_type: u32, program: &[u64]) -> io::Result<OwnedFd> {
    let license = c"Dual MIT/GPL";
    Attributes::new()
        .word(0, kind)
        .word(4, program.len() as u32)
        .pointer(8, program)
        .pointer(16, license)
        .word(68, attach_type)
        .call_for_descriptor(BPF_PROG_LOAD)
}

fn attach(
    program: &OwnedFd,
    interface: u32,
    attach_type: u32,
    flags: u32,
) -> io::Result<Attachment> {
    let link = Attributes::new()
        .word(0, program.as_raw_fd() as u32)
        .word(4, interface)
        .word(8, attach_type)
        .word(12, flags)
        .call_for_descriptor(BPF_LINK_CREATE)?;
    Ok(Attachment { _link: link })
}

/// Drops every frame on an interface's ingress: after the packet sockets, which still receive it, and
/// before this host's stack. Needs Linux 6.6.
pub(crate) fn drop_at_ingress(interface: u32) -> io::Result<Attachment> {
    let program = load(BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS, &[set(0, TCX_DROP), EXIT])?;
    attach(&program, interface, BPF_TCX_INGRESS, 0)
}

/// Map from receive queue to socket, for the program that redirects frames to the sockets.
#[derive(Debug)]
pub(crate) struct SocketMap {
    fd: OwnedFd,
}

impl SocketMap {
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        let fd = Attributes::new()
            .word(0, BPF_MAP_TYPE_XSKMAP)
            .word(4, 4)
            .word(8, 4)
            .word(12, queues)
            .call_for_descriptor(BPF_MAP_CREATE)?;
        Ok(SocketMap { fd })
    }

    pub(crate) fn set(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        let (key, value) = (queue, socket as u32);
        Attributes::new()
            .word(0, self.fd.as_raw_fd() as u32)
            .pointer(8, &key)
            .pointer(16, &value)
            .call(BPF_MAP_UPDATE_ELEM)
            .map(|_| ())
    }

    /// Attaches the program that redirects each frame to the socket of its receive queue. Frames of a queue
    /// without a socket are dropped, so that none leaks to this host's stack. The program runs in the
    /// driver or generically in the stack.
    pub(crate) fn attach(&self, interface: u32, in_driver: bool) -> io::Result<Attachment> {
        // The offset of rx_queue_index in struct xdp_md.
        const RX_QUEUE_INDEX: i16 = 16;
        const BPF_PSEUDO_MAP_FD: u8 = 1;
        const BPF_FUNC_REDIRECT_MAP: i32 = 51;
        let program = [
            // r2 = *(u32 *)(r1 + rx_queue_index)
            instruction(0x61, registers(2, 1), RX_QUEUE_INDEX, 0),
            // r1 = map: one instruction of two words
            instruction(0x18, registers(1, BPF_PSEUDO_MAP_FD), 0, self.fd.as_raw_fd()),
            0,
            // r3 = action for a queue that is not in the map
            set(3, XDP_DROP),
            instruction(0x85, 0, 0, BPF_FUNC_REDIRECT_MAP),
            EXIT,
        ];
        let program = load(BPF_PROG_TYPE_XDP, BPF_XDP, &program)?;
        let flags = if in_driver { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE };
        attach(&program, interface, BPF_XDP, flags)
    }
}
