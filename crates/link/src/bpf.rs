//! BPF programs and maps, and how programs are attached: by BPF links, which the kernel removes with their
//! descriptor, so that nothing is left behind however this process ends.
//!
//! The two programs here are written as instructions, because six of them do not need a compiler. Longer ones are
//! compiled C ([`load_compiled`]).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

const BPF_MAP_CREATE: i64 = 0;
const BPF_MAP_LOOKUP_ELEM: i64 = 1;
const BPF_MAP_UPDATE_ELEM: i64 = 2;
const BPF_MAP_DELETE_ELEM: i64 = 3;
const BPF_PROG_LOAD: i64 = 5;
const BPF_PROG_TEST_RUN: i64 = 10;
const BPF_LINK_CREATE: i64 = 28;
const BPF_MAP_TYPE_HASH: u32 = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_LPM_TRIE: u32 = 11;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_TCX_INGRESS: u32 = 46;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_F_NO_PREALLOC: u32 = 1;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
const XDP_DROP: i32 = 1;
const TCX_DROP: i32 = 2;
const BPF_F_TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
/// Source register that makes a 64-bit constant a map.
const BPF_PSEUDO_MAP_FD: u8 = 1;
/// Opcode of a 64-bit constant: one instruction of two words.
const LOAD_WIDE: u8 = 0x18;

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

    /// Sets the pointer at `offset` bytes to memory that the command writes.
    fn output(mut self, offset: usize, to: &mut [u64]) -> Self {
        self.0[offset / 8] = to.as_mut_ptr().cast::<u8>().expose_provenance() as u64;
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
        // SAFETY: the commands called in this way return a new descriptor without another owner.
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
        const BPF_FUNC_REDIRECT_MAP: i32 = 51;
        let program = [
            // r2 = *(u32 *)(r1 + rx_queue_index)
            instruction(0x61, registers(2, 1), RX_QUEUE_INDEX, 0),
            // r1 = map: one instruction of two words
            instruction(LOAD_WIDE, registers(1, BPF_PSEUDO_MAP_FD), 0, self.fd.as_raw_fd()),
            0,
            // r3 = action for a queue that is not in the map
            set(3, XDP_DROP),
            instruction(0x85, 0, 0, BPF_FUNC_REDIRECT_MAP),
            EXIT,
        ];
        attach_xdp(&load(BPF_PROG_TYPE_XDP, BPF_XDP, &program)?, interface, in_driver)
    }
}

/// Attaches an XDP program to an interface: in its driver, or generically in the stack.
pub(crate) fn attach_xdp(
    program: &OwnedFd,
    interface: u32,
    in_driver: bool,
) -> io::Result<Attachment> {
    let flags = if in_driver { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE };
    attach(program, interface, BPF_XDP, flags)
}

/// A map whose keys and values are whole 64-bit words (a key of four bytes is an index).
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    key_bytes: usize,
    value_words: usize,
}

impl Map {
    /// A hash table of up to `entries` entries.
    pub(crate) fn hash(key_words: usize, value_words: usize, entries: u32) -> io::Result<Self> {
        Map::new(BPF_MAP_TYPE_HASH, 0, 8 * key_words, value_words, entries)
    }

    /// An array of `entries` entries of zeros.
    pub(crate) fn array(value_words: usize, entries: u32) -> io::Result<Self> {
        Map::new(BPF_MAP_TYPE_ARRAY, 0, 4, value_words, entries)
    }

    /// A trie of up to `entries` prefixes. The first four bytes of a key are the number of its bits that follow.
    pub(crate) fn trie(key_words: usize, value_words: usize, entries: u32) -> io::Result<Self> {
        Map::new(BPF_MAP_TYPE_LPM_TRIE, BPF_F_NO_PREALLOC, 8 * key_words, value_words, entries)
    }

    fn new(
        kind: u32,
        flags: u32,
        key_bytes: usize,
        value_words: usize,
        entries: u32,
    ) -> io::Result<Self> {
        let fd = Attributes::new()
            .word(0, kind)
            .word(4, key_bytes as u32)
            .word(8, 8 * value_words as u32)
            .word(12, entries)
            .word(16, flags)
            .call_for_descriptor(BPF_MAP_CREATE)?;
        Ok(Map { fd, key_bytes, value_words })
    }

    /// The attributes of a command for the entry at `key`, an index or the words of a key.
    fn at(&self, key: &[u64]) -> Attributes {
        // The kernel reads as many bytes as the map's keys have.
        assert!(size_of_val(key) >= self.key_bytes, "a key that is too short");
        Attributes::new().word(0, self.fd.as_raw_fd() as u32).pointer(8, key)
    }

    /// Sets the entry at `key`.
    pub(crate) fn set(&self, key: &[u64], value: &[u64]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_words, "the kernel reads a whole value");
        self.at(key).pointer(16, value).call(BPF_MAP_UPDATE_ELEM).map(|_| ())
    }

    /// Reads the entry at `key`. A program may change it meanwhile: each word is whole, and they may differ in age.
    pub(crate) fn read(&self, key: &[u64], value: &mut [u64]) -> io::Result<()> {
        assert_eq!(value.len(), self.value_words, "the kernel writes a whole value");
        self.at(key).output(16, value).call(BPF_MAP_LOOKUP_ELEM).map(|_| ())
    }

    /// Removes the entry at `key` of a hash table.
    pub(crate) fn remove(&self, key: &[u64]) -> io::Result<()> {
        self.at(key).call(BPF_MAP_DELETE_ELEM).map(|_| ())
    }
}

/// The key of an array's entry. The map reads four bytes, which are the first ones on little-endian only.
pub(crate) fn index(number: u32) -> [u64; 1] {
    let [a, b, c, d] = number.to_ne_bytes();
    [u64::from_ne_bytes([a, b, c, d, 0, 0, 0, 0])]
}

/// Loads an XDP program from compiled instructions, whose placeholders (`bpf/flow.h`) stand for `maps`.
pub(crate) fn load_compiled(instructions: &[u8], maps: &[&Map]) -> io::Result<OwnedFd> {
    load(BPF_PROG_TYPE_XDP, BPF_XDP, &linked(instructions, maps)?)
}

/// Which frames of an interface a tcx program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Received ones, before this host's stack.
    Ingress,
    /// Sent ones, before the queueing discipline.
    Egress,
}

/// Loads a tcx program from compiled instructions, as [`load_compiled`], and attaches it to an interface, after other
/// programs there. Needs Linux 6.6.
pub(crate) fn attach_tcx(
    instructions: &[u8],
    maps: &[&Map],
    interface: u32,
    hook: Hook,
) -> io::Result<Attachment> {
    let attach_type = match hook {
        Hook::Ingress => BPF_TCX_INGRESS,
        Hook::Egress => BPF_TCX_EGRESS,
    };
    let program = load(BPF_PROG_TYPE_SCHED_CLS, attach_type, &linked(instructions, maps)?)?;
    attach(&program, interface, attach_type, 0)
}

/// Compiled instructions with the descriptors of `maps` in place of their placeholders: constants whose lower half is
/// "WEIR", and whose upper half is the index of the map.
fn linked(instructions: &[u8], maps: &[&Map]) -> io::Result<Vec<u64>> {
    const PLACEHOLDER: [u8; 4] = *b"WEIR";
    let (words, []) = instructions.as_chunks::<8>() else {
        return Err(io::ErrorKind::InvalidData.into());
    };
    if cfg!(target_endian = "big") {
        // The instructions were compiled for little-endian.
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut words = words.to_vec();
    let mut at = 0;
    while let [wide, upper, ..] = &mut words[at..] {
        if wide[0] != LOAD_WIDE {
            at += 1;
            continue;
        }
        if wide[4..] == PLACEHOLDER {
            let number = u32::from_le_bytes([upper[4], upper[5], upper[6], upper[7]]);
            let map = maps.get(number as usize).ok_or(io::ErrorKind::InvalidData)?;
            wide[1] |= BPF_PSEUDO_MAP_FD << 4;
            wide[4..].copy_from_slice(&map.fd.as_raw_fd().to_le_bytes());
            upper[4..].fill(0);
        }
        at += 2;
    }
    Ok(words.into_iter().map(u64::from_ne_bytes).collect())
}

/// Runs an XDP program `count` times in this thread, each time with a frame that begins as a copy of `frame` or as the
/// program left an earlier one. The kernel sends frames that the program redirects. `metadata`: bytes at the start of
/// `frame` that are the frame's metadata, a multiple of 4 up to 32. Needs Linux 5.18.
///
/// The error `EINTR` means that a signal arrived: the program has run fewer times.
pub(crate) fn run_with_frames(
    program: &OwnedFd,
    frame: &[u8],
    metadata: u32,
    count: u32,
) -> io::Result<()> {
    // struct xdp_md: data, data_end, data_meta, and three fields that are 0.
    let context = [metadata, frame.len() as u32, 0, 0, 0, 0];
    Attributes::new()
        .word(0, program.as_raw_fd() as u32)
        .word(8, frame.len() as u32)
        .pointer(16, frame)
        .word(32, count)
        .word(40, size_of_val(&context) as u32)
        .pointer(48, &context)
        .word(64, BPF_F_TEST_XDP_LIVE_FRAMES)
        .call(BPF_PROG_TEST_RUN)
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_that_are_no_placeholder_stay_and_others_need_their_map() {
        let constant = [LOAD_WIDE, 1, 0, 0, 1, 2, 3, 4, 0, 0, 0, 0, 5, 6, 7, 8];
        let program = [&constant[..], &EXIT.to_ne_bytes()].concat();
        let words = linked(&program, &[]).unwrap();
        assert_eq!(words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>(), program);
        // A constant that looks like a placeholder's opcode in its upper half is not one.
        let nested = [LOAD_WIDE, 1, 0, 0, 0, 0, 0, 0, LOAD_WIDE, 0, 0, 0, b'W', b'E', b'I', b'R'];
        assert!(linked(&nested, &[]).is_ok());
        let placeholder = [LOAD_WIDE, 1, 0, 0, b'W', b'E', b'I', b'R', 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(linked(&placeholder, &[]).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(linked(&program[..20], &[]).is_err(), "a part of an instruction");
        assert!(linked(&placeholder[..8], &[]).is_ok(), "half of a constant is left to the kernel");
    }
}
