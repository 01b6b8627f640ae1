//! Interface settings through a control socket: ethtool features by name, flags, MTU.

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::{Error, raw};

// linux/ethtool.h
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_FEATURES: u32 = 4;
const ETH_GSTRING_LEN: usize = 32;
/// Linux has some 60 features; a larger number is invalid.
const MAX_FEATURES: u32 = 1024;
/// Words of features that the allocation-free path can carry.
pub(crate) const MAX_FEATURE_WORDS: usize = 8;

// linux/sockios.h, which libc has for other systems only.
const SIOCGIFTXQLEN: libc::c_ulong = 0x8942;

/// Settings of the interfaces of one network namespace.
#[derive(Debug)]
pub struct LinkControl {
    socket: OwnedFd,
}

impl LinkControl {
    pub(crate) fn from_socket(socket: OwnedFd) -> Self {
        Self { socket }
    }

    /// For the calling thread's network namespace.
    pub fn open() -> Result<Self, Error> {
        let fd = raw::control_socket().map_err(|errno| {
            Error::new("open", "interface control socket", io::Error::from_raw_os_error(errno))
        })?;
        // SAFETY: just opened and owned by no one else.
        Ok(Self { socket: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Names of all features the kernel knows, in bit order, as `ethtool -k` shows them.
    pub fn feature_names(&self, interface: &str) -> Result<Vec<String>, Error> {
        let named =
            |errno| Error::new("list features of", interface, io::Error::from_raw_os_error(errno));
        // struct ethtool_sset_info { cmd, reserved, mask: u64, data[0] }
        let mut set = [ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0, 0, 0];
        if cfg!(target_endian = "big") {
            set.swap(2, 3);
        }
        self.ethtool(interface, &mut set).map_err(named)?;
        let count = set[4];
        if count > MAX_FEATURES {
            return Err(named(libc::EPROTO));
        }
        // struct ethtool_gstrings { cmd, string_set, len, data[len * 32] }; one string to spare.
        let mut strings = vec![0_u32; 3 + (count as usize + 1) * ETH_GSTRING_LEN / 4];
        strings[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count]);
        self.ethtool(interface, &mut strings).map_err(named)?;
        let bytes: Vec<u8> = strings[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(bytes
            .chunks_exact(ETH_GSTRING_LEN)
            .take(count as usize)
            .map(|name| {
                let end = name.iter().position(|&b| b == 0).unwrap_or(name.len());
                String::from_utf8_lossy(&name[..end]).into_owned()
            })
            .collect())
    }

    /// Features that are on now.
    pub fn active_features(&self, interface: &str) -> Result<Vec<String>, Error> {
        let names = self.feature_names(interface)?;
        let words = names.len().div_ceil(32);
        // struct ethtool_gfeatures { cmd, size, { available, requested, active, never_changed }[] }
        let mut request = vec![0_u32; 2 + words * 4];
        request[..2].copy_from_slice(&[ETHTOOL_GFEATURES, words as u32]);
        self.ethtool(interface, &mut request).map_err(|errno| {
            Error::new("read features of", interface, io::Error::from_raw_os_error(errno))
        })?;
        let active = |bit: usize| request[2 + bit / 32 * 4 + 2] >> (bit % 32) & 1 == 1;
        Ok(names.into_iter().enumerate().filter(|&(bit, _)| active(bit)).map(|(_, n)| n).collect())
    }

    /// Turns features on or off, all in one step; then checks that they are as requested.
    ///
    /// # Errors
    /// A name the kernel does not know, or a feature the interface would not change.
    pub fn set_features(&self, interface: &str, wanted: &[(&str, bool)]) -> Result<(), Error> {
        let names = self.feature_names(interface)?;
        let words = names.len().div_ceil(32);
        // struct ethtool_sfeatures { cmd, size, { valid, requested }[] }
        let mut request = vec![0_u32; 2 + words * 2];
        request[..2].copy_from_slice(&[ETHTOOL_SFEATURES, words as u32]);
        for &(name, on) in wanted {
            let bit = names.iter().position(|n| n == name).ok_or_else(|| {
                let source = io::Error::new(io::ErrorKind::NotFound, "no such feature");
                Error::new("set feature of", format!("{interface}: {name}"), source)
            })?;
            request[2 + bit / 32 * 2] |= 1 << (bit % 32);
            request[2 + bit / 32 * 2 + 1] |= u32::from(on) << (bit % 32);
        }
        self.ethtool(interface, &mut request).map_err(|errno| {
            Error::new("set features of", interface, io::Error::from_raw_os_error(errno))
        })?;
        let active = self.active_features(interface)?;
        match wanted.iter().find(|(name, on)| active.iter().any(|a| a == name) != *on) {
            None => Ok(()),
            Some((name, on)) => {
                let source = io::Error::other(if *on { "it stays off" } else { "it stays on" });
                Err(Error::new("set feature of", format!("{interface}: {name}"), source))
            }
        }
    }

    /// Brings an interface up (`IFF_UP`).
    ///
    /// # Errors
    /// An unknown interface; the kernel's refusal.
    pub fn set_up(&self, interface: &str) -> Result<(), Error> {
        self.setting("bring up", interface, |socket, request| {
            set_flags(socket, request, libc::IFF_UP as u16, libc::IFF_UP as u16)
        })
    }

    /// The length of an interface's transmit queue, packets.
    ///
    /// # Errors
    /// An unknown interface.
    pub fn transmit_queue_length(&self, interface: &str) -> Result<u32, Error> {
        self.setting("read the transmit queue length of", interface, |socket, request| {
            interface_ioctl(socket, SIOCGIFTXQLEN, request)?;
            // SAFETY: SIOCGIFTXQLEN filled ifr_qlen, which shares its place with ifr_ifindex: both are the union's one int.
            Ok(unsafe { request.ifr_ifru.ifru_ifindex } as u32)
        })
    }

    /// Sets the length of an interface's transmit queue, packets.
    ///
    /// # Errors
    /// An unknown interface; the kernel's refusal.
    pub fn set_transmit_queue_length(&self, interface: &str, packets: u32) -> Result<(), Error> {
        self.setting("set the transmit queue length of", interface, |socket, request| {
            // As above.
            request.ifr_ifru.ifru_ifindex = packets as c_int;
            interface_ioctl(socket, libc::SIOCSIFTXQLEN as libc::c_ulong, request)
        })
    }

    fn setting<T>(
        &self,
        operation: &'static str,
        interface: &str,
        change: impl FnOnce(RawFd, &mut libc::ifreq) -> Result<T, c_int>,
    ) -> Result<T, Error> {
        let change = |name| change(self.socket.as_raw_fd(), &mut request_for(&name));
        interface_name(interface)
            .ok_or(libc::ENODEV)
            .and_then(change)
            .map_err(|errno| Error::new(operation, interface, io::Error::from_raw_os_error(errno)))
    }

    /// Bit of a feature and number of feature words, for a later change without allocation.
    pub(crate) fn feature_bit(&self, interface: &str, name: &str) -> Result<(u32, u32), Error> {
        let names = self.feature_names(interface)?;
        let words = names.len().div_ceil(32);
        match names.iter().position(|n| n == name) {
            Some(bit) if words <= MAX_FEATURE_WORDS => Ok((bit as u32, words as u32)),
            _ => {
                let source = io::Error::new(io::ErrorKind::NotFound, "no such feature");
                Err(Error::new("find feature of", format!("{interface}: {name}"), source))
            }
        }
    }

    fn ethtool(&self, interface: &str, request: &mut [u32]) -> Result<(), c_int> {
        let name = interface_name(interface).ok_or(libc::ENODEV)?;
        ethtool(self.socket.as_raw_fd(), &name, request)
    }
}

/// An interface name as the kernel accepts it: 1 to 15 bytes, NUL-padded; no slash, no space, not `.` or `..`.
pub(crate) fn interface_name(name: &str) -> Option<[u8; libc::IFNAMSIZ]> {
    let bytes = name.as_bytes();
    let plain = bytes.iter().all(|&b| b != b'/' && b != b':' && b > b' ' && b != 0x7f);
    if bytes.is_empty() || bytes.len() >= libc::IFNAMSIZ || !plain || name == "." || name == ".." {
        return None;
    }
    let mut padded = [0; libc::IFNAMSIZ];
    padded[..bytes.len()].copy_from_slice(bytes);
    Some(padded)
}

/// An `ifreq` for `name`. Async-signal-safe.
pub(crate) fn request_for(name: &[u8; libc::IFNAMSIZ]) -> libc::ifreq {
    // SAFETY: ifreq is plain data for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(name) {
        *to = from as libc::c_char;
    }
    request
}

/// Runs an interface ioctl whose argument is `request`. Async-signal-safe.
pub(crate) fn interface_ioctl(
    socket: RawFd,
    operation: libc::c_ulong,
    request: &mut libc::ifreq,
) -> Result<(), c_int> {
    // SAFETY: every operation passed here reads or writes one ifreq, which lives through the call.
    if unsafe { libc::ioctl(socket, operation as _, &raw mut *request) } < 0 {
        Err(raw::errno())
    } else {
        Ok(())
    }
}

/// Sets the flags in `mask` of the interface that `request` names to their values in `flags`. Async-signal-safe.
pub(crate) fn set_flags(
    socket: RawFd,
    request: &mut libc::ifreq,
    flags: u16,
    mask: u16,
) -> Result<(), c_int> {
    interface_ioctl(socket, libc::SIOCGIFFLAGS as libc::c_ulong, request)?;
    // SAFETY: SIOCGIFFLAGS filled this member.
    let now = unsafe { request.ifr_ifru.ifru_flags } as u16;
    request.ifr_ifru.ifru_flags = ((now & !mask) | (flags & mask)) as libc::c_short;
    interface_ioctl(socket, libc::SIOCSIFFLAGS as libc::c_ulong, request)
}

/// SIOCETHTOOL with a command laid out in `words`, which is large enough for the kernel's answer to
/// the command in its first word. Async-signal-safe.
fn ethtool(socket: RawFd, name: &[u8; libc::IFNAMSIZ], words: &mut [u32]) -> Result<(), c_int> {
    let mut request = request_for(name);
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast::<c_void>().cast();
    interface_ioctl(socket, libc::SIOCETHTOOL as libc::c_ulong, &mut request)
}

/// Sets one feature by bit. Async-signal-safe.
pub(crate) fn set_feature_bit(
    socket: RawFd,
    name: &[u8; libc::IFNAMSIZ],
    bit: u32,
    words: u32,
    on: bool,
) -> Result<(), c_int> {
    let mut request = [0_u32; 2 + 2 * MAX_FEATURE_WORDS];
    let word = (bit / 32) as usize;
    if words as usize > MAX_FEATURE_WORDS || bit / 32 >= words {
        return Err(libc::EINVAL);
    }
    request[0] = ETHTOOL_SFEATURES;
    request[1] = words;
    request[2 + word * 2] = 1 << (bit % 32);
    request[2 + word * 2 + 1] = u32::from(on) << (bit % 32);
    ethtool(socket, name, &mut request)
}
