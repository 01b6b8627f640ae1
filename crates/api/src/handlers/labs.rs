//! Labs of network namespaces.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use weir_lab::Registry;

use super::{Answer, Json200, answer, heavy, short};
use crate::app::Shared;
use crate::extract::{Json, Part};
use crate::problem::{FieldError, Problem};
use crate::supervise::{self, Order};
use crate::types::*;

/// Longest name of a lab.
const MOST_NAME: usize = 32;

async fn labs(app: &Shared) -> Result<Vec<LabEntry>, Problem> {
    heavy(app, || {
        let unavailable = |e: weir_lab::Error| Problem::unavailable(e.to_string());
        let labs = Registry::open().and_then(|r| r.list()).map_err(unavailable)?;
        let host = |h: &weir_lab::Host| LabHost {
            name: h.name.clone(),
            ipv4: h.ipv4.to_string(),
            ipv6: h.ipv6.to_string(),
        };
        let entry = |lab: &weir_lab::JoinedLab| LabEntry {
            name: lab.name().as_str().into(),
            hosts: lab.hosts().map(host).collect(),
            nodes: lab.node_names().map(Into::into).collect(),
        };
        Ok(labs.iter().map(entry).collect())
    })
    .await
}

pub(crate) async fn list(State(app): State<Shared>) -> Answer<LabList> {
    labs(&app).await.map(|labs| Json200(LabList { labs }))
}

pub(crate) async fn make(
    State(app): State<Shared>,
    Json(request): Json<LabRequest>,
) -> Result<Response, Problem> {
    lab_name(&request.name)?;
    request.impair.as_deref().map_or(Ok(()), |laws| short("/impair", laws))?;
    // From the count to the new lab nobody else makes one through this server.
    let _one = app.labs.lock().await;
    let most = app.config.limits.labs;
    let there = labs(&app).await?.len();
    if there >= most {
        return Err(Problem::conflict(format!("{there} labs are there, the limit is {most}")));
    }
    let name = request.name.clone();
    let order = Order::LabUp {
        name: request.name,
        hosts: request.hosts,
        mtu_bytes: request.mtu_bytes,
        cut: request.cut,
        middle: request.middle,
        impair: request.impair,
    };
    supervise::finish(&app, order).await.map_err(named)?;
    let made = labs(&app).await?.into_iter().find(|l| l.name == name);
    let made = made.ok_or_else(|| Problem::internal("the lab is gone again"))?;
    Ok(answer(StatusCode::CREATED, &made, None))
}

/// A lab's name, as the launcher takes it.
fn lab_name(name: &str) -> Result<(), Problem> {
    supervise::word(name, MOST_NAME)
        .map(drop)
        .map_err(|_| Problem::field("/name", name, "1 to 32 letters, digits, '-', '_' and '.'"))
}

/// The program's words name a flag; the field has its name.
fn named(mut problem: Problem) -> Problem {
    for (flag, field) in [
        ("--lab", "/name"),
        ("--hosts", "/hosts"),
        ("--mtu", "/mtu_bytes"),
        ("--impair", "/impair"),
        ("--middle", "/middle"),
    ] {
        if problem.status == 422 && problem.detail.contains(flag) {
            let message = problem.detail.clone();
            problem = problem.with(FieldError {
                field: field.into(),
                given: None,
                accepted: None,
                message,
            });
        }
    }
    problem
}

pub(crate) async fn remove(
    State(app): State<Shared>,
    Part(name): Part,
) -> Result<StatusCode, Problem> {
    if !labs(&app).await?.iter().any(|l| l.name == name) {
        return Err(Problem::missing("lab", &name));
    }
    supervise::finish(&app, Order::LabDown { name }).await?;
    Ok(StatusCode::NO_CONTENT)
}
