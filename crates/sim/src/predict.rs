//! Predicts the emulator's decisions: the same laws, seed and arrivals on the virtual clock.

use weir_impair::{Disposition, Engine, Meta, Role};
use weir_laws::Direction;
use weir_model::impairment::{Filter, FlowDirection, Impairment, OTHER};

use crate::SimError;

/// A packet that arrives at the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ingress {
    /// Time of arrival, ns.
    pub at_ns: u64,
    /// Bytes of its frame, without check sequence.
    pub length_bytes: u32,
    /// Whether it is control traffic of a Weir test, which has draws of its own.
    pub is_control: bool,
}

/// Dispositions of one flow's packets in one direction, in the order of departure. `ingress` contains *all*
/// packets of that flow and direction from the first on, in the order of arrival. Ordinary packet k draws
/// the numbers of index k; control packets have an index and draws of their own.
///
/// Draws depend on a packet's position alone, so that other flows do not matter. Changes of content are not
/// predicted, because they depend on the bytes: no disposition is marked as modified.
///
/// # Errors
/// [`SimError::Predict`] for a flow that does not exist or shares its link with others; [`SimError::Impair`].
pub fn predict(
    impairment: &Impairment,
    flow: &str,
    direction: Direction,
    ingress: impl IntoIterator<Item = Ingress>,
) -> Result<Vec<Disposition>, SimError> {
    let refuse = |given, accepted| SimError::Predict { flow: flow.into(), given, accepted };
    if impairment.timeline.is_some() || impairment.has_triggers() || impairment.has_traces() {
        let accepted =
            "laws without a timeline, a trigger or a trace, which count from the emulator's start";
        return Err(refuse("changes with time", accepted));
    }
    let mut alone = impairment.clone();
    alone.aggregates = vec![];
    alone.flows = vec![];
    alone.filter_groups = vec![];
    if flow != OTHER {
        if impairment.aggregates.iter().any(|a| a.flows.iter().any(|f| f == flow)) {
            return Err(refuse("shares a link", "a flow that is in no aggregate"));
        }
        let found = impairment.flows.iter().find(|f| f.name == flow);
        let mut own =
            found.cloned().ok_or_else(|| refuse("is not there", "\"other\" or a name"))?;
        own.direction = FlowDirection::Both;
        own.filter = Some(Filter::default());
        own.filter_a = None;
        own.filter_b = None;
        own.filter_groups = vec![];
        own.hop = None;
        alone.flows.push(own);
    }
    let mut engine = Engine::new(&alone, direction)?;
    let mut dispositions = vec![];
    for (packet, index) in ingress.into_iter().zip(0u64..) {
        // The handle is unused; dispositions are identified by their index.
        let mut meta = Meta::opaque(index as u32, packet.at_ns, packet.length_bytes);
        if packet.is_control {
            meta.role = Role::Control;
        }
        engine.step(packet.at_ns, &[meta], &mut dispositions);
    }
    while let Some(next) = engine.next_deadline_ns() {
        engine.step(next, &[], &mut dispositions);
    }
    Ok(dispositions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_impair::Verdict;

    fn every_ms(count: u64) -> Vec<Ingress> {
        let packet = |i| Ingress { at_ns: i * 1_000_000, length_bytes: 200, is_control: false };
        (0..count).map(packet).collect()
    }

    #[test]
    fn a_named_flow_draws_its_own_numbers() {
        let text = r#"
            schema = "weir.impair/1"
            seed = "0x7"
            [[flow]]
            name = "voice"
            filter = { destination_port = "5060" }
            a_to_b = { loss = { percentage = 20.0 } }
            [other]
            a_to_b = { loss = { percentage = 20.0 } }
        "#;
        let impairment = Impairment::parse(text).unwrap();
        let lost = |flow: &str, direction| {
            let dispositions = predict(&impairment, flow, direction, every_ms(1000)).unwrap();
            let lost = dispositions.iter().filter(|f| f.verdict == Verdict::Lost);
            lost.map(|f| f.index).collect::<Vec<_>>()
        };
        let voice = lost("voice", Direction::Forward);
        assert!((150..250).contains(&voice.len()));
        assert_ne!(voice, lost("other", Direction::Forward));
        assert_eq!(lost("voice", Direction::Reverse), Vec::<u64>::new());
        let error = predict(&impairment, "video", Direction::Forward, every_ms(1)).unwrap_err();
        assert!(matches!(&error, SimError::Predict { flow, .. } if flow == "video"), "{error:?}");
    }

    #[test]
    fn filters_need_not_be_compiled() {
        let text = r#"
            schema = "weir.impair/1"
            [[filter_group]]
            name = "g"
            filters = [{ pcap = "tcp" }]
            [[flow]]
            name = "f"
            filter = { pcap = "udp" }
            filter_groups = ["g"]
            both = "loss every 2"
        "#;
        let impairment = Impairment::parse(text).unwrap();
        for (flow, lost) in [("f", 5), (OTHER, 0)] {
            let all = predict(&impairment, flow, Direction::Forward, every_ms(10)).unwrap();
            assert_eq!(all.iter().filter(|f| f.verdict == Verdict::Lost).count(), lost, "{flow}");
        }
    }

    #[test]
    fn control_packets_do_not_change_the_prediction() {
        let laws = "loss 10% run 4, duplicate 5%, delay 5ms ±1ms normal allow".parse().unwrap();
        let impairment = Impairment { seed: "0x7".parse().unwrap(), ..Impairment::of_both(laws) };
        // Arrival, copy, verdict and time of the flow's own packets, with `probes` of 7 followed by a
        // control packet.
        let dispositions = |probes: u64| {
            let probe = |at_ns| Ingress { at_ns, length_bytes: 106, is_control: true };
            let mut ingress = vec![];
            for (i, packet) in every_ms(1000).into_iter().enumerate() {
                ingress.push(packet);
                if i as u64 % 7 < probes {
                    ingress.push(probe(packet.at_ns + 10));
                }
            }
            let is_own: Vec<bool> = ingress.iter().map(|i| !i.is_control).collect();
            let all = predict(&impairment, OTHER, Direction::Forward, ingress).unwrap();
            let mut own: Vec<_> = all
                .iter()
                .filter(|f| is_own[f.index as usize])
                .map(|f| (f.arrived_ns, f.copy, f.verdict as u8, f.at_ns))
                .collect();
            own.sort_unstable();
            own
        };
        let alone = dispositions(0);
        assert!(alone.iter().any(|f| f.2 == Verdict::Lost as u8));
        for probes in 1..7 {
            assert_eq!(dispositions(probes), alone, "{probes}");
        }
    }

    #[test]
    fn flows_of_an_aggregate_are_refused() {
        let text = r#"
            schema = "weir.impair/1"
            [[flow]]
            name = "a"
            [[flow]]
            name = "b"
            [[aggregate]]
            flows = ["a", "b"]
            a_to_b = { rate = { bits = "1M" } }
        "#;
        let impairment = Impairment::parse(text).unwrap();
        let error = predict(&impairment, "a", Direction::Forward, every_ms(1)).unwrap_err();
        assert!(error.to_string().contains("shares a link"), "{error}");
    }

    #[test]
    fn what_counts_from_the_start_is_refused() {
        for laws in ["loss 5%, trigger after 1s", "rate trace(1 2)"] {
            let impairment = Impairment::of_both(laws.parse().unwrap());
            let refused = predict(&impairment, OTHER, Direction::Forward, every_ms(1));
            assert!(refused.is_err(), "{laws}");
        }
    }
}
