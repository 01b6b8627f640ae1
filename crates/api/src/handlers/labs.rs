//! Labs of network namespaces.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use weir_jobs::{Job, LabDownJob, LabUpJob};
use weir_lab::{LabName, LabSpec, Registry, Topology};
use weir_model::impairment::{Impairment, Laws};

use super::{Answer, Json200, answer, heavy, short};
use crate::app::Shared;
use crate::extract::{Json, PathSegment, PathSegments};
use crate::problem::{FieldError, Problem, field_of};
use crate::supervise::{self, LabNode, Order, lab_servers};
use crate::types::*;

pub(crate) async fn labs(app: &Shared) -> Result<Vec<LabEntry>, Problem> {
    let mut labs = heavy(app, || {
        let unavailable = |e: weir_lab::Error| Problem::unavailable(e.to_string());
        let labs = Registry::open().and_then(|r| r.list()).map_err(unavailable)?;
        let host = |h: &weir_lab::Host| LabHost {
            name: h.name.clone(),
            ipv4: h.ipv4.to_string(),
            ipv6: h.ipv6.to_string(),
            server: None,
        };
        let entry = |lab: &weir_lab::JoinedLab| LabEntry {
            name: lab.name().as_str().into(),
            hosts: lab.hosts().map(host).collect(),
            nodes: lab.node_names().map(Into::into).collect(),
        };
        Ok(labs.iter().map(entry).collect::<Vec<_>>())
    })
    .await?;
    for lab in &mut labs {
        for host in &mut lab.hosts {
            let at = LabNode { lab: lab.name.clone(), node: host.name.clone() };
            host.server = app.lab_servers.get(&at);
        }
    }
    Ok(labs)
}

pub(crate) async fn list(State(app): State<Shared>) -> Answer<LabList> {
    labs(&app).await.map(|labs| Json200(LabList { labs }))
}

pub(crate) async fn make(
    State(app): State<Shared>,
    Json(request): Json<LabRequest>,
) -> Result<Response, Problem> {
    check(&request)?;
    // Between the count and the new lab no other lab is made through this server.
    let _one = app.labs.lock().await;
    let most = app.config.limits.labs;
    let there = labs(&app).await?;
    if there.len() >= most {
        let words = format!("{} labs exist, the limit is {most}", there.len());
        return Err(Problem::conflict("limit", words));
    }
    if there.iter().any(|lab| lab.name == request.name) {
        let mut problem = Problem::field("/name", request.name, "an unused name")
            .with_status(StatusCode::CONFLICT);
        problem.detail = "a lab of that name exists".into();
        return Err(problem);
    }
    let name = request.name.clone();
    let impairment = match &request.impair {
        None => None,
        Some(laws) => Some(Box::new(impairment(laws)?)),
    };
    let job = LabUpJob {
        name: request.name,
        hosts: request.hosts,
        mtu_bytes: request.mtu_bytes,
        no_offload: request.no_offload,
        sysctls: request.sysctls,
        middle: request.middle,
        impairment,
    };
    let order = Order::job(Job::LabUp(Box::new(job)));
    supervise::finish(&app, order, |field| format!("/{field}")).await?;
    let made = labs(&app).await?.into_iter().find(|l| l.name == name);
    let made = made.ok_or_else(|| Problem::internal("the lab has disappeared"))?;
    Ok(answer(StatusCode::CREATED, &made, None))
}

/// Laws for both directions, with a seed of their own.
fn impairment(laws: &str) -> Result<Impairment, Problem> {
    let laws: Laws = laws.parse().map_err(|e| Problem::of_model("/impair", &e))?;
    Ok(Impairment { seed: crate::clock::new_seed(), ..Impairment::of_both(laws) })
}

/// Checks everything that can be checked before the lab exists.
fn check(request: &LabRequest) -> Result<(), Problem> {
    request.name.parse::<LabName>().map_err(refused)?;
    let has_middle = request.middle || request.impair.is_some();
    let spec = LabSpec {
        topology: Topology::of(request.hosts.unwrap_or(2) as usize, has_middle),
        mtu_bytes: request.mtu_bytes,
        sysctls: request.sysctls.clone(),
        ..LabSpec::default()
    };
    spec.check().map_err(refused)?;
    let Some(laws) = &request.impair else { return Ok(()) };
    short("/impair", laws)?;
    laws.parse::<Laws>().map(drop).map_err(|error| {
        let field = FieldError { field: "/impair".into(), ..field_of("/impair", &error) };
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, format!("impair: {error}")).with(field)
    })
}

/// A refusal of the lab itself.
fn refused(error: weir_lab::Error) -> Problem {
    match error {
        weir_lab::Error::Invalid { field, given, accepted } => {
            Problem::field(format!("/{field}"), given, accepted)
        }
        other => Problem::new(StatusCode::UNPROCESSABLE_ENTITY, other.to_string()),
    }
}

pub(crate) async fn remove(
    State(app): State<Shared>,
    PathSegment(name): PathSegment,
) -> Result<StatusCode, Problem> {
    if !labs(&app).await?.iter().any(|l| l.name == name) {
        return Err(Problem::missing("lab", &name));
    }
    supervise::finish(&app, Order::job(Job::LabDown(LabDownJob { name })), |_| String::new())
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A host of a lab; absent: 404.
async fn host(app: &Shared, lab: String, node: String) -> Result<LabNode, Problem> {
    let labs = labs(app).await?;
    let found = labs.iter().find(|l| l.name == lab).ok_or_else(|| Problem::missing("lab", &lab))?;
    match found.hosts.iter().any(|h| h.name == node) {
        true => Ok(LabNode { lab, node }),
        false => Err(Problem::missing("host", &format!("{lab}/{node}"))),
    }
}

pub(crate) async fn serve(
    State(app): State<Shared>,
    PathSegments(lab, node): PathSegments,
) -> Result<Response, Problem> {
    let at = host(&app, lab, node).await?;
    let server = lab_servers::start(&app, at).await?;
    Ok(answer(StatusCode::CREATED, &server, None))
}

pub(crate) async fn stop_server(
    State(app): State<Shared>,
    PathSegments(lab, node): PathSegments,
) -> Result<StatusCode, Problem> {
    let at = host(&app, lab, node).await?;
    lab_servers::stop(&app, &at).await?;
    Ok(StatusCode::NO_CONTENT)
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_lab_that_can_not_be_is_refused_by_its_fields() {
        for (body, field, given) in [
            (r#"{"name":"a b"}"#, "/name", "\"a b\""),
            (r#"{"name":"a.b"}"#, "/name", "\"a.b\""),
            (r#"{"name":"x","hosts":17}"#, "/hosts", "17"),
            (r#"{"name":"x","hosts":1}"#, "/hosts", "1"),
            (r#"{"name":"x","hosts":17,"middle":true}"#, "/hosts", "17"),
            (r#"{"name":"x","sysctls":{"kernel.pid_max":"9"}}"#, "/sysctls", "kernel.pid_max"),
            (r#"{"name":"x","sysctls":{"net.a":""}}"#, "/sysctls", "net.a"),
            (r#"{"name":"x","mtu_bytes":20}"#, "/mtu_bytes", "20"),
            (r#"{"name":"x","impair":"loss 300%"}"#, "/impair", "300"),
        ] {
            let problem = check(&serde_json::from_str(body).unwrap()).unwrap_err();
            let error = &problem.errors[0];
            assert_eq!((problem.status, error.field.as_str()), (422, field), "{body}");
            assert!(error.given.as_deref().unwrap().contains(given), "{body}: {error:?}");
            assert!(error.accepted.is_some(), "{body}: {error:?}");
            assert!(!problem.detail.contains("--"), "{body}: {problem:?}");
        }
        for body in [
            r#"{"name":"a_b","impair":"loss 1%, delay 20ms"}"#,
            r#"{"name":"x","hosts":16,"middle":true}"#,
            r#"{"name":"x","sysctls":{"net.ipv4.tcp_timestamps":"0"}}"#,
        ] {
            assert!(check(&serde_json::from_str(body).unwrap()).is_ok(), "{body}");
        }
    }
}
