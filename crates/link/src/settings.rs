//! Offloads of an interface that would spoil an emulator: switched off while it works, put back by a watchdog however
//! it ends.

use weir_net::interface;
use weir_net::watchdog::{RestoreAction, Watchdog};

use crate::error::Result;

/// Features that coalesce frames on their way in, or take their VLAN tag off where AF_XDP does not see it.
pub const UNWANTED: [&str; 7] = [
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-lro",
    VLAN_FEATURES[0],
    VLAN_FEATURES[1],
];
/// Those that take a VLAN tag off.
pub(crate) const VLAN_FEATURES: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// What was changed on an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisabledOffloads {
    /// Features that were on and are now off.
    pub switched_off: Vec<String>,
    /// Features that are on and cannot be switched off. Frames they coalesce are segmented again by a packet socket and lost to
    /// AF_XDP: counted in either case.
    pub still_on: Vec<String>,
}

/// Switches the unwanted offloads of `interface` (of the calling thread's network namespace) off. Each is handed to
/// `watchdog` before it is changed. Do this before the link is opened: some drivers reset their queues for it.
///
/// # Errors
/// The features cannot be read, or the watchdog is gone; nothing that is not guarded has been changed.
pub fn disable_offloads(interface: &str, watchdog: &mut Watchdog) -> Result<DisabledOffloads> {
    let mut done = DisabledOffloads::default();
    let features = interface::offloads(interface)?;
    for feature in features.iter().filter(|f| f.active && UNWANTED.contains(&f.name.as_str())) {
        let name = feature.name.clone();
        if !feature.changeable {
            done.still_on.push(name);
            continue;
        }
        watchdog.add(&RestoreAction::Feature {
            interface: interface.to_owned(),
            feature: name.clone(),
            on: true,
        })?;
        match interface::set_offload(interface, &name, false) {
            Ok(()) => done.switched_off.push(name),
            Err(_) => done.still_on.push(name),
        }
    }
    Ok(done)
}
