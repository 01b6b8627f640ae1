//! Previews and presets.

use axum::extract::State;
use weir_model::impairment::profiles::PROFILES;

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

pub(crate) async fn profiles() -> Json200<ProfileList> {
    let entry = |p: &weir_model::impairment::profiles::Profile| ProfileEntry {
        name: p.name.into(),
        title: p.title.into(),
        source: p.source.into(),
        a_to_b: p.up.into(),
        b_to_a: p.down.into(),
    };
    Json200(ProfileList { profiles: PROFILES.iter().map(entry).collect() })
}
