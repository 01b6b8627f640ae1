//! The path of this host's own traffic through an emulator: two veths from a network namespace of its own, and programs
//! at the interface that redirect packets into them.

use std::io;

use weir_lab::{Cable, namespace_with_cables};
use weir_link::local::{Delivery, Diversion};
use weir_net::interface;
use weir_net::namespace::NetNamespace;

use crate::config::Local;
use crate::error::EmulatorError;
use crate::interface_lock::InterfaceLock;
use crate::refusal::{local_refusals, permit};

/// The first kernel with tcx.
const KERNEL: (u32, u32) = (6, 6);

/// The path; dropping it attaches nothing any more, and the veths end with their namespace.
#[derive(Debug)]
pub(crate) struct LocalPath {
    diversion: Option<Diversion>,
    delivery: Option<Delivery>,
    index: u32,
    veths: [u32; 2],
    _lock: InterfaceLock,
}

impl LocalPath {
    /// Creates the path in the calling thread's network namespace, without traffic yet, and the namespace of the emulator
    /// with `interfaces` as the names of its ends.
    ///
    /// # Errors
    /// The interface is refused, the kernel is too old, or the caller lacks rights.
    pub(crate) fn create(
        local: &Local,
        interfaces: &[String; 2],
        force: bool,
    ) -> Result<(LocalPath, NetNamespace), EmulatorError> {
        let impaired = interface::interface(&local.interface)?;
        let reasons = local_refusals(&impaired, &local.prefixes)?;
        permit(impaired.name.clone(), reasons, force)?;
        let kernel = weir_net::host::host()?.kernel;
        if !has_tcx(&kernel) {
            let (major, minor) = KERNEL;
            let reason = format!("Linux {major}.{minor} or later is required (this is {kernel})");
            let source = io::Error::new(io::ErrorKind::Unsupported, reason);
            return Err(EmulatorError::System { operation: OPERATION, source });
        }
        let lock = InterfaceLock::take(&impaired.name, impaired.index)?;
        // Names of 15 characters at most.
        let veths = ["a", "b"].map(|side| format!("weir{}{side}", impaired.index));
        let cables: Vec<Cable> = veths
            .iter()
            .zip(interfaces)
            .map(|(here, inside)| Cable { here: here.clone(), inside: inside.clone() })
            .collect();
        let namespace = namespace_with_cables(&cables, impaired.mtu_bytes).map_err(|error| {
            EmulatorError::System { operation: OPERATION, source: io::Error::other(error) }
        })?;
        let [a, b] = &veths;
        let path = LocalPath {
            diversion: None,
            delivery: None,
            index: impaired.index,
            veths: [interface::interface(a)?.index, interface::interface(b)?.index],
            _lock: lock,
        };
        Ok((path, namespace))
    }

    /// Redirects the packets, whose emulator runs.
    ///
    /// # Errors
    /// The kernel refused the programs.
    pub(crate) fn divert(&mut self, local: &Local) -> Result<(), EmulatorError> {
        let interface = (&*local.interface, self.index);
        self.delivery = Some(Delivery::attach(interface, self.veths)?);
        let prefixes: Vec<_> = local.prefixes.iter().map(|p| (p.address, p.length)).collect();
        self.diversion = Some(Diversion::attach(interface, self.veths, &prefixes)?);
        Ok(())
    }

    /// The index of the impaired interface.
    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    /// Redirects no further packets. The emulator's queued ones are still delivered.
    pub(crate) fn release(&mut self) {
        self.diversion = None;
    }
}

const OPERATION: &str = "impair this host's own traffic";

/// Whether a kernel of this release has tcx. A release that is not a version is not refused here.
fn has_tcx(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(major), Some(minor)) => (major, minor) >= KERNEL,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::has_tcx;

    #[test]
    fn kernels_before_tcx_are_recognised_by_their_release() {
        for (release, wanted) in [
            ("6.1.0-18-amd64", false),
            ("5.15.0-91-generic", false),
            ("6.5.13", false),
            ("6.6.0", true),
            ("6.10-rc1", true),
            ("7.0.0", true),
            ("custom", true),
        ] {
            assert_eq!(has_tcx(release), wanted, "{release}");
        }
    }
}
