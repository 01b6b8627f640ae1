//! A network namespace without a name, and cables to it from the calling thread's own.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use weir_net::namespace::{
    Error as NamespaceError, NamespaceOptions, NetNamespace, create, route_socket,
};

use super::netlink::{LinkParameters, Route};
use super::wiring::await_up;
use crate::error::Error;

/// How long to wait for a name that is in use: the kernel removes the cables of an ended process in the background.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The names of a virtual cable's ends.
#[derive(Debug, Clone)]
pub struct Cable {
    /// In the calling thread's namespace.
    pub here: String,
    /// In the new one.
    pub inside: String,
}

/// Creates a network namespace and `cables` to it. All ends are up and have neither addresses nor IPv6. The kernel removes
/// both with the namespace's last descriptor and thread.
///
/// # Errors
/// The caller lacks CAP_SYS_ADMIN or CAP_NET_ADMIN; an end's name is in use; other errors of the system.
pub fn namespace_with_cables(cables: &[Cable], mtu_bytes: u32) -> Result<NetNamespace, Error> {
    let parts = create(&[NamespaceOptions { ipv6: false }])?;
    let Some(parts) = parts.into_iter().next().filter(|parts| parts.namespace.user_fd().is_none())
    else {
        // Root of a user namespace has no rights in the caller's network namespace.
        return Err(Error::Namespace(NamespaceError {
            operation: "create",
            object: "virtual cable".into(),
            source: io::Error::from_raw_os_error(libc::EPERM),
        }));
    };
    let current = NetNamespace::current()?;
    let (mut inside, mut here) = (Route::new(parts.route), Route::new(route_socket()?));
    let parameters = LinkParameters { mtu_bytes, transmit_queue_packets: None };
    for cable in cables {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let peer = current.net_fd();
            match inside.create_veth(&cable.inside, &cable.here, peer.as_fd(), parameters) {
                Err(Error::Netlink { source, .. })
                    if source.kind() == ErrorKind::AlreadyExists && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => break other?,
            }
        }
        let setting = format!("net.ipv6.conf.{}.disable_ipv6", cable.here);
        match current.set_sysctls(&BTreeMap::from([(setting, "1".to_owned())])) {
            // A kernel without IPv6.
            Err(error) if error.source.kind() == ErrorKind::NotFound => {}
            other => other?,
        }
        here.set_up(&cable.here)?;
        inside.set_up(&cable.inside)?;
    }
    for cable in cables {
        await_up(&mut here, &cable.here)?;
        await_up(&mut inside, &cable.inside)?;
    }
    Ok(parts.namespace)
}
