//! The watchdog's child: async-signal-safe from end to end (see [`crate::namespace`]'s `raw`).

use std::ffi::{CStr, c_int};
use std::os::fd::RawFd;

use crate::namespace::{interface_ioctl, raw, request_for, set_feature_bit, set_flags};

/// Maximum number of actions of one watchdog.
pub const MAX_ACTIONS: usize = 128;

const MESSAGE_BYTES: usize = 48 + FILE_BYTES;
/// Room for the name of a file (NAME_MAX) and its NUL.
pub(super) const FILE_BYTES: usize = 256;
/// Name of the child.
const NAME: &CStr = c"weir-watchdog";
/// Passes over processes, 5 ms each, in which watchdogs are left to finish their own work.
const SPARED_PASSES: u32 = 40;

/// Kind of an order.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub(super) enum OrderKind {
    #[default]
    Disarm,
    Mtu,
    TransmitQueueLength,
    LinkFlags,
    FeatureOn,
    FeatureOff,
    DeleteQdisc,
    DeleteLink,
    EndProcesses,
    RemoveFile,
}

impl OrderKind {
    fn from_byte(byte: u8) -> Option<Self> {
        const ALL: [OrderKind; 10] = [
            OrderKind::Disarm,
            OrderKind::Mtu,
            OrderKind::TransmitQueueLength,
            OrderKind::LinkFlags,
            OrderKind::FeatureOn,
            OrderKind::FeatureOff,
            OrderKind::DeleteQdisc,
            OrderKind::DeleteLink,
            OrderKind::EndProcesses,
            OrderKind::RemoveFile,
        ];
        ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// An action as it crosses the socket: plain values of fixed size.
#[derive(Clone, Copy)]
pub(super) struct Order {
    pub(super) kind: OrderKind,
    pub(super) interface: [u8; libc::IFNAMSIZ],
    pub(super) value: u32,
    pub(super) detail: u32,
    pub(super) device: u64,
    pub(super) inode: u64,
    /// Name of a file, with its NUL.
    pub(super) file: [u8; FILE_BYTES],
    /// Filled in by the child.
    pub(super) index: c_int,
    /// Filled in by the child: the descriptor received with the order, or -1.
    pub(super) directory: RawFd,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            kind: OrderKind::default(),
            interface: [0; libc::IFNAMSIZ],
            value: 0,
            detail: 0,
            device: 0,
            inode: 0,
            file: [0; FILE_BYTES],
            index: 0,
            directory: -1,
        }
    }
}

impl Order {
    pub(super) fn to_bytes(self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[0] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.value.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.detail.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.device.to_ne_bytes());
        bytes[24..32].copy_from_slice(&self.inode.to_ne_bytes());
        bytes[32..48].copy_from_slice(&self.interface);
        bytes[48..].copy_from_slice(&self.file);
        bytes
    }

    fn from_bytes(bytes: &[u8; MESSAGE_BYTES]) -> Option<Self> {
        let mut order = Self { kind: OrderKind::from_byte(bytes[0])?, ..Self::default() };
        let [_, _, _, _, a, b, c, d, e, f, g, h, ..] = *bytes;
        order.value = u32::from_ne_bytes([a, b, c, d]);
        order.detail = u32::from_ne_bytes([e, f, g, h]);
        let mut long = [0; 8];
        long.copy_from_slice(&bytes[16..24]);
        order.device = u64::from_ne_bytes(long);
        long.copy_from_slice(&bytes[24..32]);
        order.inode = u64::from_ne_bytes(long);
        order.interface.copy_from_slice(&bytes[32..48]);
        order.file.copy_from_slice(&bytes[48..]);
        Some(order)
    }
}

/// Stores orders until the socket closes, then carries them out. Never returns.
pub(super) fn run(socket: RawFd) -> ! {
    // Every other descriptor goes: a copy of the parent's end of a pipe or socket would hide the
    // parent's death from others, and from this child itself.
    raw::close_all_except(socket);
    // SAFETY: no pointers but a NUL-terminated literal. A session of its own keeps the child away
    // from the terminal; "/" keeps no mount busy.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        libc::chdir(c"/".as_ptr());
    }
    let (Ok(control), Ok(route)) = (raw::control_socket(), raw::route_socket()) else {
        raw::exit_now(1)
    };
    let mut orders = [Order::default(); MAX_ACTIONS];
    let mut count = 0;
    let mut bytes = [0_u8; MESSAGE_BYTES];
    while let Ok((length, descriptors)) = raw::receive_message(socket, &mut bytes) {
        if length != MESSAGE_BYTES {
            break;
        }
        // A descriptor received stays open on purpose: it pins the namespace and so its number, or is a file's directory.
        let answer = match Order::from_bytes(&bytes) {
            Some(order) if order.kind == OrderKind::Disarm => raw::exit_now(0),
            Some(_) if count == MAX_ACTIONS => libc::ENOSPC,
            Some(mut order) => match pin(control, descriptors[0], &mut order) {
                Ok(()) => {
                    orders[count] = order;
                    count += 1;
                    0
                }
                Err(errno) => errno,
            },
            None => libc::EINVAL,
        };
        if raw::send_message(socket, &answer.to_ne_bytes(), &[]).is_err() {
            break;
        }
    }
    let mut is_whole = true;
    for order in orders[..count].iter().rev() {
        if order.kind == OrderKind::RemoveFile {
            // The note of what is to be restored stays if that failed.
            if is_whole {
                remove_file(order);
            }
        } else {
            is_whole &= carry_out(control, route, order).is_ok();
        }
    }
    raw::exit_now(0)
}

/// Notes which interface, or file, has the name now.
fn pin(control: RawFd, descriptor: RawFd, order: &mut Order) -> Result<(), c_int> {
    match order.kind {
        OrderKind::EndProcesses => {}
        OrderKind::RemoveFile => {
            order.directory = descriptor;
            (order.device, order.inode) = raw::file_identity(descriptor, name_of(order)?)?;
        }
        _ => order.index = index_of(control, &order.interface)?,
    }
    Ok(())
}

fn name_of(order: &Order) -> Result<&CStr, c_int> {
    CStr::from_bytes_until_nul(&order.file).map_err(|_| libc::ENAMETOOLONG)
}

/// Removes a file, unless another has its name now.
fn remove_file(order: &Order) {
    let Ok(name) = name_of(order) else { return };
    if raw::file_identity(order.directory, name) == Ok((order.device, order.inode)) {
        let _ = raw::remove_file(order.directory, name);
    }
}

fn index_of(control: RawFd, interface: &[u8; libc::IFNAMSIZ]) -> Result<c_int, c_int> {
    let mut request = request_for(interface);
    interface_ioctl(control, libc::SIOCGIFINDEX as libc::c_ulong, &mut request)?;
    // SAFETY: SIOCGIFINDEX fills this member.
    Ok(unsafe { request.ifr_ifru.ifru_ifindex })
}

/// An error can't be reported: the parent is dead, and the other actions must still be carried out.
fn carry_out(control: RawFd, route: RawFd, order: &Order) -> Result<(), c_int> {
    if order.kind == OrderKind::EndProcesses {
        let namespace = [(order.device, order.inode)];
        // Until none is left: one may have been between fork and exec. A second at most. Watchdogs there end by themselves
        // when their parents have ended, and have files to remove.
        for pass in 0..200 {
            let spared = (pass < SPARED_PASSES).then_some(NAME);
            if raw::signal_processes_in(&namespace, libc::SIGKILL, spared) == 0 {
                break;
            }
            raw::sleep_milliseconds(5);
        }
        return Ok(());
    }
    if index_of(control, &order.interface) != Ok(order.index) {
        return Ok(());
    }
    let mut request = request_for(&order.interface);
    match order.kind {
        OrderKind::Mtu => {
            request.ifr_ifru.ifru_mtu = order.value as c_int;
            interface_ioctl(control, libc::SIOCSIFMTU as libc::c_ulong, &mut request)
        }
        OrderKind::TransmitQueueLength => {
            // ifr_qlen shares its place with ifr_ifindex: both are the union's one int.
            request.ifr_ifru.ifru_ifindex = order.value as c_int;
            interface_ioctl(control, libc::SIOCSIFTXQLEN as libc::c_ulong, &mut request)
        }
        OrderKind::LinkFlags => {
            set_flags(control, &mut request, order.value as u16, order.detail as u16)
        }
        OrderKind::FeatureOn | OrderKind::FeatureOff => {
            let on = order.kind == OrderKind::FeatureOn;
            set_feature_bit(control, &order.interface, order.value, order.detail, on)
        }
        OrderKind::DeleteQdisc => delete_qdisc(route, order.index, order.value),
        OrderKind::DeleteLink => delete_link(route, order.index),
        OrderKind::Disarm | OrderKind::EndProcesses | OrderKind::RemoveFile => Ok(()),
    }
}

/// RTM_DELQDISC: nlmsghdr (16 bytes) and tcmsg (20 bytes: family, index, handle, parent, info).
fn delete_qdisc(route: RawFd, index: c_int, parent: u32) -> Result<(), c_int> {
    let mut message = [0_u8; 36];
    header(&mut message, libc::RTM_DELQDISC);
    message[20..24].copy_from_slice(&index.to_ne_bytes());
    message[28..32].copy_from_slice(&parent.to_ne_bytes());
    raw::send_message(route, &message, &[])
}

/// RTM_DELLINK: nlmsghdr (16 bytes) and ifinfomsg (16 bytes: family, type, index, flags, change).
fn delete_link(route: RawFd, index: c_int) -> Result<(), c_int> {
    let mut message = [0_u8; 32];
    header(&mut message, libc::RTM_DELLINK);
    message[20..24].copy_from_slice(&index.to_ne_bytes());
    raw::send_message(route, &message, &[])
}

/// The kernel acts on a request within the send, so no answer is asked for.
fn header(message: &mut [u8], kind: u16) {
    let length = message.len() as u32;
    message[0..4].copy_from_slice(&length.to_ne_bytes());
    message[4..6].copy_from_slice(&kind.to_ne_bytes());
    message[6..8].copy_from_slice(&(libc::NLM_F_REQUEST as u16).to_ne_bytes());
}
