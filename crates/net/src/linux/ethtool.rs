//! `SIOCETHTOOL`: driver, speed, and the features of an interface.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::netlink::{text, u16_at, u32_at, u64_at};
use crate::error::{Context, Error, Result};
use crate::interface::{Driver, Offload};

const SIOCETHTOOL: u64 = 0x8946;
const ETHTOOL_GSET: u32 = 0x01;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GSTRINGS: u32 = 0x1b;
const ETHTOOL_GSTATS: u32 = 0x1d;
const ETHTOOL_GSSET_INFO: u32 = 0x37;
const ETHTOOL_GFEATURES: u32 = 0x3a;
const ETHTOOL_SFEATURES: u32 = 0x3b;
const ETH_SS_STATS: u32 = 1;
const ETH_SS_FEATURES: u32 = 4;
const NAME_LEN: usize = 32;
/// More features than any kernel has (64 now).
const MAX_FEATURES: usize = 1024;
/// More statistics than drivers have: a veth of 4096 queues has some ten thousand.
const MAX_STATISTICS: usize = 65_536;

/// Runs one command whose request and answer share `buffer`; the kernel writes no more than the counts in the request
/// allow, and each caller sizes the buffer by them.
fn command(interface: &str, buffer: &mut [u32]) -> io::Result<i32> {
    if interface.is_empty()
        || interface.len() >= libc::IFNAMSIZ
        || interface.bytes().any(|b| b == 0)
    {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: ifreq is integers and a union of such and pointers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = buffer.as_mut_ptr().cast();
    // SAFETY: takes integers only.
    let fd = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: `request` is valid; its data points to `buffer`, sized by the caller for the command in its first word.
    let rc = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    if rc < 0 { Err(io::Error::last_os_error()) } else { Ok(rc) }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The driver behind an interface.
pub fn driver(interface: &str) -> Result<Driver> {
    // struct ethtool_drvinfo: 196 bytes.
    let mut buffer = [0_u32; 49];
    buffer[0] = ETHTOOL_GDRVINFO;
    command(interface, &mut buffer).context("read driver of", interface)?;
    let bytes = bytes_of(&buffer);
    let field = |i: usize| text(&bytes[4 + i * 32..4 + (i + 1) * 32]);
    Ok(Driver { name: field(0), version: field(1), firmware: field(2), bus: field(3) })
}

/// Speed of the link, bit/s; `None` if the interface has none or does not know it. A virtual interface may report a
/// figure that limits nothing (veth reports 10 Gb/s).
pub fn speed_bits_per_second(interface: &str) -> Result<Option<u64>> {
    // struct ethtool_cmd: 44 bytes.
    let mut buffer = [0_u32; 11];
    buffer[0] = ETHTOOL_GSET;
    match command(interface, &mut buffer) {
        Err(e) if e.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(None),
        other => other.context("read speed of", interface)?,
    };
    let bytes = bytes_of(&buffer);
    let low = u16_at(&bytes, 12).unwrap_or(0);
    let high = u16_at(&bytes, 28).unwrap_or(0);
    let megabits = u32::from(high) << 16 | u32::from(low);
    // All ones, in 16 or 32 bits, is "unknown".
    let known = megabits != 0 && megabits != u32::MAX && megabits != 0xffff;
    Ok(known.then(|| u64::from(megabits) * 1_000_000))
}

/// Names of a set of strings, `most` at most.
fn strings(interface: &str, set: u32, most: usize) -> io::Result<Vec<String>> {
    // struct ethtool_sset_info: command, reserved, 64-bit mask, one count.
    let mut buffer = [ETHTOOL_GSSET_INFO, 0, 0, 0, 0];
    let mask = (1_u64 << set).to_ne_bytes();
    buffer[2] = u32_at(&mask, 0).unwrap_or(0);
    buffer[3] = u32_at(&mask, 4).unwrap_or(0);
    command(interface, &mut buffer)?;
    let count = buffer[4] as usize;
    if count > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // struct ethtool_gstrings: command, set, length, then names of 32 bytes. The kernel writes as many as it has, whatever
    // the length: `most` is more.
    let mut buffer = vec![0_u32; 3 + most * NAME_LEN / 4];
    buffer[..3].copy_from_slice(&[ETHTOOL_GSTRINGS, set, count as u32]);
    command(interface, &mut buffer)?;
    let bytes = bytes_of(&buffer[3..3 + count * NAME_LEN / 4]);
    Ok(bytes.chunks_exact(NAME_LEN).map(text).collect())
}

/// Names of all features this kernel knows, by bit.
fn feature_names(interface: &str) -> io::Result<Vec<String>> {
    strings(interface, ETH_SS_FEATURES, MAX_FEATURES)
}

/// The statistics that the driver of an interface has of its own, in its order; none if it has none.
pub fn driver_statistics(interface: &str) -> Result<Vec<(String, u64)>> {
    let names = match strings(interface, ETH_SS_STATS, MAX_STATISTICS) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => return Ok(vec![]),
        names => names.context("read the statistics of", interface)?,
    };
    // struct ethtool_stats: command, count, then 64-bit values, as many as the driver has.
    let mut buffer = vec![0_u32; 2 + 2 * MAX_STATISTICS];
    buffer[..2].copy_from_slice(&[ETHTOOL_GSTATS, names.len() as u32]);
    command(interface, &mut buffer).context("read the statistics of", interface)?;
    let bytes = bytes_of(&buffer[2..]);
    let values = (0..).map_while(|i| u64_at(&bytes, 8 * i));
    Ok(names.into_iter().zip(values).collect())
}

/// All features of an interface, in the kernel's order.
pub fn offloads(interface: &str) -> Result<Vec<Offload>> {
    read_offloads(interface).context("read offloads of", interface)
}

fn read_offloads(interface: &str) -> io::Result<Vec<Offload>> {
    let names = feature_names(interface)?;
    let blocks = names.len().div_ceil(32);
    // struct ethtool_gfeatures: command, blocks, then per block available, requested, active, never changed.
    let mut buffer = vec![0_u32; 2 + blocks * 4];
    buffer[..2].copy_from_slice(&[ETHTOOL_GFEATURES, blocks as u32]);
    command(interface, &mut buffer)?;
    let found =
        names.into_iter().enumerate().filter(|(_, name)| !name.is_empty()).map(|(bit, name)| {
            let block = &buffer[2 + bit / 32 * 4..][..4];
            let has = |word: u32| word >> (bit % 32) & 1 == 1;
            Offload {
                name,
                changeable: has(block[0]) && !has(block[3]),
                requested: has(block[1]),
                active: has(block[2]),
            }
        });
    Ok(found.collect())
}

/// The kernel's features behind a customary short name; any other name stands for itself.
fn features_of(name: &str) -> Vec<&str> {
    match name {
        "tso" => vec![
            "tx-tcp-segmentation",
            "tx-tcp-ecn-segmentation",
            "tx-tcp-mangleid-segmentation",
            "tx-tcp6-segmentation",
        ],
        "gso" => vec!["tx-generic-segmentation"],
        "gro" => vec!["rx-gro"],
        "lro" => vec!["rx-lro"],
        "sg" => vec!["tx-scatter-gather"],
        "tx" | "tx-checksumming" => {
            vec![
                "tx-checksum-ipv4",
                "tx-checksum-ip-generic",
                "tx-checksum-ipv6",
                "tx-checksum-sctp",
            ]
        }
        "rx" | "rx-checksumming" => vec!["rx-checksum"],
        "uso" => vec!["tx-udp-segmentation"],
        other => vec![other],
    }
}

/// Switches an offload on or off: a name of the kernel's (see [`Offload::name`]) or one of `tso gso gro lro sg
/// tx-checksumming rx-checksumming uso`, which may stand for several. Those of a group that cannot be changed are left
/// as they are. Fails when nothing of that name exists, none can be changed, or the kernel kept another value.
pub fn set_offload(interface: &str, name: &str, on: bool) -> Result<()> {
    let operation = if on { "switch on offload" } else { "switch off offload" };
    let object = format!("{name} of {interface}");
    let refused = |reason| Error::Refused { operation, object: object.clone(), reason };
    let current = read_offloads(interface).context(operation, &object)?;
    let all_names = feature_names(interface).context(operation, &object)?;
    let wanted = features_of(name);
    let known: Vec<&Offload> =
        current.iter().filter(|o| wanted.contains(&o.name.as_str())).collect();
    if known.is_empty() {
        return Err(refused("this kernel knows no offload of that name"));
    }
    if known.iter().all(|o| o.active == on) {
        return Ok(());
    }
    let blocks = all_names.len().div_ceil(32);
    // struct ethtool_sfeatures: command, blocks, then per block valid, requested.
    let mut buffer = vec![0_u32; 2 + blocks * 2];
    buffer[..2].copy_from_slice(&[ETHTOOL_SFEATURES, blocks as u32]);
    let mut changed = Vec::new();
    for feature in known.iter().filter(|o| o.changeable) {
        if let Some(bit) = all_names.iter().position(|n| *n == feature.name) {
            buffer[2 + bit / 32 * 2] |= 1 << (bit % 32);
            if on {
                buffer[3 + bit / 32 * 2] |= 1 << (bit % 32);
            }
            changed.push(feature.name.as_str());
        }
    }
    if changed.is_empty() {
        return Err(refused("this interface does not let it be changed"));
    }
    command(interface, &mut buffer).context(operation, &object)?;
    let after = read_offloads(interface).context(operation, &object)?;
    if after.iter().any(|o| changed.contains(&o.name.as_str()) && o.active != on) {
        return Err(refused("the kernel kept it, since another setting requires it"));
    }
    Ok(())
}
