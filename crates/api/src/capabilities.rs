//! Giving up what a process does not need. To be called before there are other threads: each has capabilities of its own.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::config::ApiError;

fn failed(source: rustix::io::Errno) -> ApiError {
    ApiError::Capabilities(source.into())
}

/// What root needs to keep files for the user who called it by sudo.
const OF_FILES: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::CHOWN).union(CapabilitySet::FOWNER);

/// Gives up all capabilities, for this process and whatever it starts; but for those that root needs to write another
/// user's files, where `for_another` says that the runs are another's (under sudo).
///
/// # Errors
/// The kernel refused.
pub fn drop_capabilities(for_another: bool) -> Result<(), ApiError> {
    // A program started by root would get them back: they leave the bounding set first, which needs one of them.
    let now = capabilities(None).map_err(failed)?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().iter() {
            if capability_is_in_bounding_set(capability).unwrap_or(false) {
                remove_capability_from_bounding_set(capability).map_err(failed)?;
            }
        }
    }
    set_no_new_privs(true).map_err(failed)?;
    let kept = if for_another { now.permitted & OF_FILES } else { CapabilitySet::empty() };
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).map_err(failed)
}
