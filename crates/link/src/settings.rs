//! Disables an interface's offloads that would distort an emulator. A watchdog restores them however the
//! process ends.

use weir_net::interface;
use weir_net::watchdog::{RestoreAction, Watchdog};

use crate::error::Result;

/// Features that coalesce received frames, or strip VLAN tags, which AF_XDP would then lose.
pub const UNWANTED: [&str; 7] = [
    "rx-gro",
    "rx-gro-hw",
    "rx-gro-list",
    "rx-udp-gro-forwarding",
    "rx-lro",
    VLAN_FEATURES[0],
    VLAN_FEATURES[1],
];
/// Features that strip VLAN tags.
pub(crate) const VLAN_FEATURES: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// The changes of an interface's offloads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DisabledOffloads {
    /// Features that were disabled.
    pub switched_off: Vec<String>,
    /// Features that are on and cannot be disabled. Frames that they coalesce are segmented again by a
    /// packet socket and lost by AF_XDP; both are counted.
    pub still_on: Vec<String>,
}

/// Disables the unwanted offloads of `interface` in the calling thread's network namespace. Each is
/// registered with `watchdog` before it is changed. Call this before opening the link: some drivers reset
/// their queues for it.
///
/// # Errors
/// The features cannot be read, or the watchdog has exited. Every change made until then is registered with
/// the watchdog.
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
