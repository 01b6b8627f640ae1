//! The hash of a plan, by which equal plans are found.

use sha2::{Digest, Sha256};
use weir_model::hex;
use weir_model::plan::Plan;

/// SHA-256 of the plan's canonical JSON: keys sorted, no white space.
#[must_use]
pub fn plan_sha256(plan: &Plan) -> String {
    // Maps of serde_json are sorted by key. A plan has only string keys, so this can't fail.
    let canonical = serde_json::to_value(plan).map(|v| v.to_string()).unwrap_or_default();
    hex::encode(&Sha256::digest(canonical.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_plans_have_equal_hashes_and_different_plans_different_ones() {
        let plan = Plan { host: Some("h".into()), ..Plan::default() };
        assert_eq!(plan_sha256(&plan), plan_sha256(&plan.clone()));
        assert_eq!(plan_sha256(&plan).len(), 64);
        assert_ne!(plan_sha256(&plan), plan_sha256(&Plan { port: Some(1), ..plan }));
    }
}
