//! Bounds that crates have which do not know each other.

use std::collections::BTreeMap;

use weir_model::experiment::{HostSpec, Scenario, Variables};

/// A scenario names and makes as many hosts as a lab has, and no more.
#[test]
fn a_scenario_knows_the_hosts_that_a_lab_can_have() {
    let most = weir_lab::MAX_HOSTS;
    let of = |hosts: &str, given: Option<usize>| {
        let text = format!(
            "schema = \"weir.scenario/1\"\nname = \"s\"\n[variables]\nn = 2\n[lab]\nhosts = {hosts}\n[[step]]\nwait = {{ time = \"1s\" }}\n"
        );
        let named = |n: usize| char::from(b'a' + u8::try_from(n).unwrap()).to_string();
        let host = HostSpec { address: "192.0.2.1".into(), port: None, key_file: None };
        let hosts: BTreeMap<_, _> = given.map(|n| (named(n), host)).into_iter().collect();
        Scenario::parse(&text, false, &Variables::new(), &hosts)
    };
    // How many a variable gives is not known yet when hosts from elsewhere are given.
    for hosts in [most.to_string(), "\"{n}\"".into()] {
        assert!(of(&hosts, Some(most - 1)).is_ok(), "{hosts}");
        assert!(of(&hosts, Some(most)).is_err(), "{hosts}");
    }
    assert!(of(&most.to_string(), None).is_ok());
    assert!(of(&(most + 1).to_string(), None).is_err());
}
