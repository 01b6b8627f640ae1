//! The path of this host's own traffic through an emulator: tcx programs that redirect frames to and from specified
//! addresses into two veths, and return what the emulator sends.
//!
//! ```text
//!            egress of the interface ─► veth A ═╗           ╔═ veth B ─► interface
//!                                               ║ emulator  ║
//!  ingress of the interface (stack) ◄─ veth A ═╝           ╚═ veth B ◄─ ingress of the interface
//! ```
//!
//! The other ends of the veths belong to the emulator. The programs are attached by BPF links: when this process ends, in
//! any way, its traffic takes its usual path again.

use std::net::IpAddr;

use crate::bpf::{Attachment, Hook, Map, attach_tcx, index};
use crate::error::{Error, Result};

static DIVERT: &[u8] = include_bytes!("../bpf/divert.bin");
static DELIVER: &[u8] = include_bytes!("../bpf/deliver.bin");
static GUARD: &[u8] = include_bytes!("../bpf/guard.bin");

/// Maximum number of prefixes.
pub const MAX_PREFIXES: usize = 1024;

/// Size of `struct key` of bpf/local.bpf.c in words: the number of bits that follow, the IP version, the address.
const KEY_WORDS: usize = 3;

/// The veths' programs. Dropping this detaches them.
#[derive(Debug)]
pub struct Delivery {
    _attachments: Vec<Attachment>,
}

impl Delivery {
    /// Attaches programs to the veths, by interface numbers in the calling thread's network namespace: what arrives on the
    /// first goes to this host's stack, as if received on `interface` (name and number); what arrives on the second is
    /// sent on `interface`. Other frames that this host sends on the veths are dropped.
    ///
    /// # Errors
    /// The kernel refused, or is older than Linux 6.6.
    pub fn attach(interface: (&str, u32), veths: [u32; 2]) -> Result<Delivery> {
        let mut attachments = Vec::new();
        let failed = |source| Error::system("attach BPF programs for", interface.0, source);
        for (veth, is_incoming) in veths.into_iter().zip([true, false]) {
            let target = target(interface.1, is_incoming).map_err(failed)?;
            for (program, maps, hook) in
                [(GUARD, &[][..], Hook::Egress), (DELIVER, &[&target][..], Hook::Ingress)]
            {
                attachments.push(attach_tcx(program, maps, veth, hook).map_err(failed)?);
            }
        }
        Ok(Delivery { _attachments: attachments })
    }
}

/// The impaired interface's programs. Dropping this detaches them.
#[derive(Debug)]
pub struct Diversion {
    _attachments: [Attachment; 2],
}

impl Diversion {
    /// Attaches programs to `interface` (name and number) of the calling thread's network namespace: IP packets that are
    /// sent there to one of `prefixes` go to the first veth, those received from one of them to the second. Frames
    /// with a VLAN tag are untouched. At most [`MAX_PREFIXES`] are accepted.
    ///
    /// # Errors
    /// More prefixes; the kernel refused, or is older than Linux 6.6.
    pub fn attach(
        interface: (&str, u32),
        veths: [u32; 2],
        prefixes: &[(IpAddr, u8)],
    ) -> Result<Diversion> {
        let operation = "attach BPF programs to";
        if prefixes.len() > MAX_PREFIXES {
            let reason = format!("{} prefixes; at most {MAX_PREFIXES}", prefixes.len());
            return Err(Error::refused(operation, interface.0, reason));
        }
        let failed = |source| Error::system(operation, interface.0, source);
        let trie = Map::trie(KEY_WORDS, 1, MAX_PREFIXES as u32).map_err(failed)?;
        for &(address, length) in prefixes {
            trie.set(&key(address, length), &[0]).map_err(failed)?;
        }
        let attached = |hook: Hook, veth: u32| {
            let target = target(veth, hook == Hook::Ingress)?;
            attach_tcx(DIVERT, &[&target, &trie], interface.1, hook)
        };
        let egress = attached(Hook::Egress, veths[0]).map_err(failed)?;
        let ingress = attached(Hook::Ingress, veths[1]).map_err(failed)?;
        Ok(Diversion { _attachments: [egress, ingress] })
    }
}

/// A map with `struct target` of bpf/local.bpf.c.
fn target(interface: u32, is_incoming: bool) -> std::io::Result<Map> {
    let map = Map::array(1, 1)?;
    map.set(&index(0), &words::<2, 1>([interface, is_incoming.into()]))?;
    Ok(map)
}

/// The key of a prefix.
fn key(address: IpAddr, length: u8) -> [u64; KEY_WORDS] {
    let (version, octets) = match address {
        IpAddr::V4(v4) => (4, [u32::from_ne_bytes(v4.octets()), 0, 0, 0]),
        IpAddr::V6(v6) => {
            let octets = v6.octets();
            let (words, _) = octets.as_chunks::<4>();
            (6, std::array::from_fn(|n| u32::from_ne_bytes(words[n])))
        }
    };
    let [a, b, c, d] = octets;
    words([32 + u32::from(length), version, a, b, c, d])
}

/// Pairs of 32-bit values as they are in memory.
fn words<const N: usize, const M: usize>(values: [u32; N]) -> [u64; M] {
    assert_eq!(N, 2 * M, "two values for each word");
    std::array::from_fn(|n| {
        let [a, b, c, d] = values[2 * n].to_ne_bytes();
        let [e, f, g, h] = values[2 * n + 1].to_ne_bytes();
        u64::from_ne_bytes([a, b, c, d, e, f, g, h])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_memory_as_the_program_reads_it() {
        let bytes = |address: &str, length| -> Vec<u8> {
            key(address.parse().unwrap(), length).iter().flat_map(|w| w.to_ne_bytes()).collect()
        };
        let bits = |n: u32| n.to_ne_bytes();
        let v4 = [&bits(56)[..], &bits(4), &[203, 0, 113, 0], &[0; 12]].concat();
        assert_eq!(bytes("203.0.113.0", 24), v4);
        let address: std::net::Ipv6Addr = "2001:db8::7".parse().unwrap();
        let v6 = [&bits(160)[..], &bits(6), &address.octets()].concat();
        assert_eq!(bytes("2001:db8::7", 128), v6);
    }
}
