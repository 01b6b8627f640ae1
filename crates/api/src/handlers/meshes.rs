//! Continuous measurement between agents: figures that `weir fleet watch` stores on this host.

use std::collections::BTreeMap;
use std::ops::Range;

use axum::extract::State;
use weir_model::watch::{AgentLine, Minute, PairFigures};
use weir_runs::{Edge, LatestBurst, LatestPair, Store, Watches, moment_of};

use super::runs::of_store;
use super::{Answer, Json200, heavy};
use crate::app::Shared;
use crate::clock;
use crate::extract::{PathSegment, Query, ThreeSegments};
use crate::problem::Problem;
use crate::types::*;

/// Maximum number of points of a pair.
const MAX_POINTS: i64 = 1500;
/// Maximum number of bursts of a direction, and of changes.
const MAX_EVENTS: u32 = 1000;
const DAY_MS: i64 = 86_400_000;

fn now_unix_seconds() -> f64 {
    clock::unix_ms() as f64 / 1e3
}

/// Reads the file of watches on another thread; `None` if there is none.
async fn with_watches<T: Send + 'static>(
    app: &Shared,
    work: impl FnOnce(Option<Watches>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let data = app.config.data.clone();
    heavy(app, move || work(Watches::open_existing(&data).map_err(of_store)?)).await
}

pub(crate) async fn list(State(app): State<Shared>) -> Answer<MeshList> {
    with_watches(&app, |watches| {
        let meshes = match watches {
            Some(watches) => watches.meshes().map_err(of_store)?,
            None => vec![],
        };
        let entry = |mesh: weir_runs::MeshSummary| MeshEntry {
            name: mesh.name,
            measured_at_unix_seconds: mesh.at_unix_seconds,
            agents: mesh.agents,
            connected_agents: mesh.connected_agents,
            pairs: mesh.pairs,
        };
        let meshes = meshes.into_iter().map(entry).collect();
        Ok(MeshList { now_unix_seconds: now_unix_seconds(), meshes })
    })
    .await
    .map(Json200)
}

pub(crate) async fn get(
    State(app): State<Shared>,
    PathSegment(name): PathSegment,
) -> Answer<MeshState> {
    with_watches(&app, move |watches| {
        let watches = watches.ok_or_else(|| Problem::missing("mesh", &name))?;
        let agents = watches.agents(&name).map_err(of_store)?;
        let pairs = watches.latest(&name).map_err(of_store)?;
        let bursts = watches.latest_bursts(&name).map_err(of_store)?;
        if agents.is_empty() && pairs.is_empty() && bursts.is_empty() {
            return Err(Problem::missing("mesh", &name));
        }
        Ok(state(name, agents, &pairs, &bursts))
    })
    .await
    .map(Json200)
}

/// The state of a mesh of what is stored.
fn state(
    name: String,
    agents: Vec<AgentLine>,
    pairs: &[LatestPair],
    bursts: &[LatestBurst],
) -> MeshState {
    let mut known: BTreeMap<String, Option<AgentLine>> = BTreeMap::new();
    for name in pairs.iter().flat_map(|pair| [&pair.from, &pair.to]) {
        known.entry(name.clone()).or_default();
    }
    for name in bursts.iter().flat_map(|burst| [&burst.from, &burst.to]) {
        known.entry(name.clone()).or_default();
    }
    known.extend(agents.into_iter().map(|agent| (agent.agent.clone(), Some(agent))));
    let indices: BTreeMap<&str, u32> = known.keys().map(String::as_str).zip(0..).collect();
    let index = |name: &String| indices.get(name.as_str()).copied().unwrap_or_default();
    let mut columns = MeshPairs::default();
    for pair in pairs {
        columns.push(pair, index(&pair.from), index(&pair.to));
    }
    let latest_bursts = MeshBursts {
        from: bursts.iter().map(|burst| index(&burst.from)).collect(),
        to: bursts.iter().map(|burst| index(&burst.to)).collect(),
        at_unix_seconds: bursts.iter().map(|burst| milliseconds(burst.at_unix_seconds)).collect(),
        bits_per_second: bursts.iter().map(|burst| burst.bits_per_second.map(f64::round)).collect(),
    };
    let agent = |(name, line): (String, Option<AgentLine>)| MeshAgent {
        name,
        state: line.as_ref().map(|line| line.state),
        since_unix_seconds: line.as_ref().map(|line| line.at_unix_seconds),
        address: line.as_ref().and_then(|line| line.address.clone()),
        reason: line.and_then(|line| line.reason),
    };
    MeshState {
        name,
        now_unix_seconds: now_unix_seconds(),
        measured_at_unix_seconds: columns.at_unix_seconds.iter().copied().reduce(f64::max),
        agents: known.into_iter().map(agent).collect(),
        pairs: columns,
        bursts: latest_bursts,
    }
}

fn milliseconds(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// Rounded to nanoseconds, which is the resolution of the clocks: a mesh has many of them.
fn nanoseconds(seconds: Option<f64>) -> Option<f64> {
    seconds.map(|seconds| (seconds * 1e9).round() / 1e9)
}

impl MeshPairs {
    fn push(&mut self, pair: &LatestPair, from: u32, to: u32) {
        self.from.push(from);
        self.to.push(to);
        self.at_unix_seconds.push(milliseconds(pair.at_unix_seconds));
        self.window_seconds.push(pair.window_seconds);
        self.sent_packets.push(pair.sent_packets);
        self.loss_ratio.push(nanoseconds(pair.loss_ratio));
        self.round_trip_p50_seconds.push(nanoseconds(pair.round_trip_p50_seconds));
        self.round_trip_mean_seconds.push(nanoseconds(pair.round_trip_mean_seconds));
        self.forward_delay_seconds.push(nanoseconds(pair.forward_delay_seconds));
        self.return_delay_seconds.push(nanoseconds(pair.return_delay_seconds));
        self.one_way_error_seconds.push(nanoseconds(pair.one_way_error_seconds));
        self.last_sent_packets.push(pair.last_sent_packets);
        self.last_lost_packets.push(pair.last_lost_packets);
    }
}

pub(crate) async fn pair(
    State(app): State<Shared>,
    ThreeSegments(mesh, one, other): ThreeSegments,
    Query(query): Query<PairQuery>,
) -> Answer<PairHistory> {
    let during = during(&query)?;
    let data = app.config.data.clone();
    with_watches(&app, move |watches| {
        let watches = watches.ok_or_else(|| Problem::missing("mesh", &mesh))?;
        let probing = watches.probing(&mesh, (&one, &other)).map_err(of_store)?;
        let Some(from) = probing.map(str::to_owned) else {
            let is_known = !watches.agents(&mesh).map_err(of_store)?.is_empty()
                || !watches.latest(&mesh).map_err(of_store)?.is_empty();
            let pair = format!("{one} to {other}");
            return Err(match is_known {
                true => Problem::missing("pair", &pair),
                false => Problem::missing("mesh", &mesh),
            });
        };
        let to = if from == one { other } else { one };
        let point_seconds = point_seconds(&during);
        let mut points = Points::new(point_seconds);
        watches
            .each_minute(&mesh, (&from, &to), during.clone(), |minute| points.add(minute))
            .map_err(of_store)?;
        let mut bursts = vec![];
        for direction in [(from.as_str(), to.as_str()), (to.as_str(), from.as_str())] {
            let found = watches.bursts(&mesh, direction, during.clone(), MAX_EVENTS);
            bursts.extend(found.map_err(of_store)?);
        }
        bursts.sort_by(|a, b| a.at_unix_seconds.total_cmp(&b.at_unix_seconds));
        let runs = Store::open_at(&data).map_err(of_store)?;
        let stored = |burst: weir_model::watch::BurstLine| {
            let is_stored_here = burst.run.as_ref().is_some_and(|run| {
                // A prefix of an id is not this run.
                runs.resolve(run).is_ok_and(|id| id == *run)
            });
            MeshBurst { burst, is_stored_here }
        };
        let changes = watches.changes(&mesh, (&from, &to), during.clone(), MAX_EVENTS);
        Ok(PairHistory {
            points: points.finish(),
            bursts: bursts.into_iter().map(stored).collect(),
            changes: changes.map_err(of_store)?,
            since_unix_seconds: during.start,
            until_unix_seconds: during.end,
            point_seconds,
            mesh,
            from,
            to,
        })
    })
    .await
    .map(Json200)
}

/// The time of a query, s since 1970.
fn during(query: &PairQuery) -> Result<Range<i64>, Problem> {
    let now = clock::unix_ms() as i64;
    let moment = |field: &str, text: &Option<String>, edge| {
        let moment = text.as_ref().map(|text| moment_of(text, now, edge)).transpose();
        moment.map_err(|e| Problem::of_model(field, &e))
    };
    let until = moment("?until", &query.until, Edge::Until)?.unwrap_or(now);
    let since = moment("?since", &query.since, Edge::Since)?;
    let since = since.unwrap_or(until.saturating_sub(DAY_MS));
    if since >= until {
        let given = query.since.clone().or_else(|| query.until.clone()).unwrap_or_default();
        return Err(Problem::field("?since", given, "a time before `until`"));
    }
    // A second that has begun is included.
    Ok(since.div_euclid(1000)..until.saturating_add(999).div_euclid(1000))
}

/// Length of the points of a time: whole minutes, so that there are not too many.
fn point_seconds(during: &Range<i64>) -> i64 {
    let minutes = during.end.saturating_sub(during.start) / 60;
    60 * (minutes.saturating_add(MAX_POINTS - 1) / MAX_POINTS).max(1)
}

/// Points of minutes that are added in order of time.
struct Points {
    seconds: i64,
    points: Vec<PairPoint>,
    /// The start of the current point, and its minutes.
    current: Option<(i64, Vec<PairFigures>)>,
}

impl Points {
    fn new(seconds: i64) -> Points {
        Points { seconds, points: vec![], current: None }
    }

    fn add(&mut self, minute: Minute) {
        let at = i64::try_from(minute.at_unix_seconds).unwrap_or(i64::MAX);
        let at = at - at.rem_euclid(self.seconds);
        match &mut self.current {
            Some((start, minutes)) if *start == at => minutes.push(minute.figures),
            _ => {
                self.end();
                self.current = Some((at, vec![minute.figures]));
            }
        }
    }

    fn end(&mut self) {
        if let Some((at_unix_seconds, minutes)) = self.current.take() {
            let figures = PairFigures::together(&minutes);
            self.points.push(PairPoint { at_unix_seconds, figures });
        }
    }

    fn finish(mut self) -> Vec<PairPoint> {
        self.end();
        self.points
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_long_time_has_longer_points() {
        let day = 86_400;
        for (length, seconds) in [
            (1, 60),
            (day, 60),
            (1500 * 60, 60),
            (1501 * 60, 120),
            (30 * day, 29 * 60),
            (i64::MAX, i64::MAX / 60 / 1500 * 60 + 60),
        ] {
            assert_eq!(point_seconds(&(0..length)), seconds, "{length}");
        }
    }

    #[test]
    fn minutes_of_a_point_are_added_up() {
        let minute = |at_unix_seconds, sent_packets| Minute {
            at_unix_seconds,
            figures: PairFigures { sent_packets, ..PairFigures::default() },
            ..Minute::default()
        };
        let mut points = Points::new(120);
        for (at, sent) in [(60, 1), (120, 2), (180, 3), (600, 4)] {
            points.add(minute(at, sent));
        }
        let found = points.finish();
        let found: Vec<_> =
            found.iter().map(|one| (one.at_unix_seconds, one.figures.sent_packets)).collect();
        assert_eq!(found, [(0, 1), (120, 5), (600, 4)]);
    }
}
