//! Previews and presets.

use axum::extract::State;
use weir_model::impairment::profiles::PROFILES;
use weir_model::impairment::{Impairment, Laws, OTHER};
use weir_model::plan::{Direction, TrafficProfile};

use super::{Answer, Json200, heavy};
use crate::app::Shared;
use crate::extract::Json;
use crate::preview;
use crate::types::*;

pub(crate) async fn preview(
    State(app): State<Shared>,
    Json(request): Json<PreviewRequest>,
) -> Answer<Preview> {
    heavy(&app, move || preview::preview(&request)).await.map(Json200)
}

pub(crate) async fn profiles(State(app): State<Shared>) -> Answer<ProfileList> {
    heavy(&app, || Ok(profile_list())).await.map(Json200)
}

/// Links and traffic; the latter may be files of the user's.
fn profile_list() -> ProfileList {
    let entry = |p: &weir_model::impairment::profiles::Profile| ProfileEntry {
        name: p.name.into(),
        title: p.title.into(),
        source: p.source.into(),
        a_to_b: p.up.into(),
        b_to_a: p.down.into(),
    };
    let traffic = |p: &TrafficProfile| {
        let plan = p.plan().ok()?;
        Some(TrafficEntry {
            name: p.name.to_string(),
            title: plan.title.clone().unwrap_or_default(),
            source: p.source(),
            own: p.is_users,
            plan,
        })
    };
    ProfileList {
        profiles: PROFILES.iter().map(entry).collect(),
        traffic: TrafficProfile::all().iter().filter_map(traffic).collect(),
    }
}

/// The laws that flows have from a preset or an aggregate, in addition to their own.
pub(crate) fn inherited(impairment: &Impairment) -> Vec<InheritedLaws> {
    let own = |a_to_b, b_to_a| [(Direction::Forward, a_to_b), (Direction::Reverse, b_to_a)];
    let flows = impairment.flows.iter().flat_map(|flow| {
        let resolved = |direction| flow.laws(direction);
        own(&flow.a_to_b, &flow.b_to_a).map(|(direction, own)| {
            (&*flow.name, &flow.profile, direction, own, resolved(direction))
        })
    });
    let other = &impairment.other;
    let others = own(&other.a_to_b, &other.b_to_a)
        .map(|(direction, own)| (OTHER, &other.profile, direction, own, other.laws(direction)));
    let mut found = vec![];
    for (flow, profile, direction, own, resolved) in flows.chain(others) {
        let mut add = |origin, name: String, laws: Laws| {
            if laws != Laws::default() {
                found.push(InheritedLaws { flow: flow.into(), direction, origin, name, laws });
            }
        };
        add(LawOrigin::Preset, profile.clone().unwrap_or_default(), resolved.beyond(own));
        for aggregate in &impairment.aggregates {
            if !aggregate.flows.iter().any(|name| name == flow) {
                continue;
            }
            let shared = match direction {
                Direction::Forward => &aggregate.a_to_b,
                Direction::Reverse => &aggregate.b_to_a,
            };
            let with: Vec<&str> =
                aggregate.flows.iter().map(String::as_str).filter(|name| *name != flow).collect();
            add(LawOrigin::Aggregate, with.join(", "), shared.beyond(&resolved));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_of_presets_and_aggregates_fill_empty_slots() {
        let text = r#"
            schema = "weir.impair/1"
            [[flow]]
            name = "a"
            profile = "dsl"
            a_to_b = { delay = { constant = "7ms" } }
            [[flow]]
            name = "b"
            [[flow]]
            name = "c"
            [[aggregate]]
            flows = ["b", "c"]
            a_to_b = { rate = { bits = "1M" } }
        "#;
        let impairment = Impairment::parse(text).unwrap();
        let found = inherited(&impairment);
        let of = |flow: &str, direction, origin| {
            found
                .iter()
                .find(|one| (&*one.flow, one.direction, one.origin) == (flow, direction, origin))
        };
        let preset = of("a", Direction::Forward, LawOrigin::Preset).unwrap();
        assert_eq!(preset.name, "dsl");
        assert!(preset.laws.delay.is_none() && preset.laws.rate.is_some());
        assert!(of("a", Direction::Reverse, LawOrigin::Preset).unwrap().laws.delay.is_some());
        let shared = of("b", Direction::Forward, LawOrigin::Aggregate).unwrap();
        assert_eq!((&*shared.name, shared.laws.to_string()), ("c", "rate 1M".into()));
        assert!(found.iter().all(|one| one.flow != OTHER));
    }
}
