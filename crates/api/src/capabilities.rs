//! Drops capabilities that the web server does not need. Call it before other threads exist: capabilities are per
//! thread.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::config::ApiError;

fn failed(source: rustix::io::Errno) -> ApiError {
    ApiError::Capabilities(source.into())
}

/// Capabilities that root needs to write files for the user who ran sudo.
const OF_FILES: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::CHOWN).union(CapabilitySet::FOWNER);

/// Drops all capabilities, for this process and its children; except those that root needs to write another user's
/// files if `for_another` says that the runs belong to another user (under sudo).
///
/// # Errors
/// The kernel refused.
pub fn drop_capabilities(for_another: bool) -> Result<(), ApiError> {
    // A program started by root would regain them: they leave the bounding set first, which itself needs one of them.
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
