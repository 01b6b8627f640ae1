//! Socket addresses in the kernel's form, in storage for both families.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// Storage for an IPv4 or IPv6 socket address; both start with the family.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) union RawAddress {
    v4: libc::sockaddr_in,
    v6: libc::sockaddr_in6,
}

pub(crate) const RAW_ADDRESS_LEN: libc::socklen_t = size_of::<RawAddress>() as libc::socklen_t;

impl RawAddress {
    pub(crate) fn zeroed() -> Self {
        // SAFETY: both members are plain integers, for which zero is a value.
        unsafe { std::mem::zeroed() }
    }

    /// Writes `address` and returns its length for the kernel.
    pub(crate) fn set(&mut self, address: SocketAddr) -> libc::socklen_t {
        match address {
            SocketAddr::V4(a) => {
                // SAFETY: all-zero is a valid sockaddr_in (and fills the padding some systems check).
                let mut raw: libc::sockaddr_in = unsafe { std::mem::zeroed() };
                raw.sin_family = libc::AF_INET as libc::sa_family_t;
                raw.sin_port = a.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(a.ip().octets());
                self.v4 = raw;
                size_of::<libc::sockaddr_in>() as libc::socklen_t
            }
            SocketAddr::V6(a) => {
                // SAFETY: all-zero is a valid sockaddr_in6.
                let mut raw: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
                raw.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                raw.sin6_port = a.port().to_be();
                raw.sin6_flowinfo = a.flowinfo();
                raw.sin6_addr.s6_addr = a.ip().octets();
                raw.sin6_scope_id = a.scope_id();
                self.v6 = raw;
                size_of::<libc::sockaddr_in6>() as libc::socklen_t
            }
        }
    }

    /// The address the kernel wrote, `len` bytes of it; `None` for other families or a short one.
    #[inline]
    pub(crate) fn get(&self, len: libc::socklen_t) -> Option<SocketAddr> {
        let len = len as usize;
        if len < size_of::<libc::sa_family_t>() {
            return None;
        }
        // SAFETY: every byte of the union is initialised (zeroed, then written only by `set` or the kernel), all its
        // members are plain integers, and the family is the first field of both.
        let family = i32::from(unsafe { self.v4.sin_family });
        if family == libc::AF_INET && len >= size_of::<libc::sockaddr_in>() {
            // SAFETY: as above.
            let raw = unsafe { self.v4 };
            let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(raw.sin_port)).into())
        } else if family == libc::AF_INET6 && len >= size_of::<libc::sockaddr_in6>() {
            // SAFETY: as above.
            let raw = unsafe { self.v6 };
            let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
            let port = u16::from_be(raw.sin6_port);
            Some(SocketAddrV6::new(ip, port, raw.sin6_flowinfo, raw.sin6_scope_id).into())
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_round_trip(v6: bool, octets: [u8; 16], port: u16, flow: u32, scope: u32) {
            let address: SocketAddr = if v6 {
                SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope).into()
            } else {
                SocketAddrV4::new(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]), port).into()
            };
            let mut raw = RawAddress::zeroed();
            let len = raw.set(address);
            prop_assert_eq!(raw.get(len), Some(address));
            prop_assert_eq!(raw.get(len - 1), None);
        }
    }
}
