//! Stored plans (files of `weir.plan/1`), and checks of documents.

use std::fs::{File, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;
use weir_model::impairment::{Impairment, Timeline};
use weir_model::plan::{Family, Plan};
use weir_model::units::Seed;

use super::{Answer, Json200, answer, file_name, fresh, heavy};
use crate::app::Shared;
use crate::clock;
use crate::extract::{ApiClient, Condition, Json, JsonText, PathSegment, etag_of, parse};
use crate::problem::{FieldError, Problem};
use crate::types::*;

/// Maximum length of a plan.
const MAX_BYTES: u64 = 16 << 20;
/// Maximum number of plans in a list.
const MAX_PLANS: usize = 1000;
/// Path MTU assumed for counting flows.
const MTU_BYTES: u32 = 1500;

/// The file of a plan, in the directory of plans.
fn file(name: &str) -> String {
    format!("{name}.toml")
}

fn path(app: &Shared, name: &str) -> Result<PathBuf, Problem> {
    Ok(app.config.plans.join(file(file_name(name)?)))
}

/// The text of a plan's file; absent if there is none.
fn read(path: &Path) -> Result<Option<String>, Problem> {
    let failed = |e: std::io::Error| Problem::internal(format!("read {}: {e}", path.display()));
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed)?,
    };
    let mut text = String::new();
    let length = file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if length as u64 > MAX_BYTES {
        return Err(Problem::internal(format!("{} is longer than 16 MiB", path.display())));
    }
    Ok(Some(text))
}

fn entry(name: &str, path: &Path, text: &str) -> PlanEntry {
    let modified = path.metadata().and_then(|m| m.modified()).map(clock::of);
    let parsed = Plan::parse(text);
    let (plan, error) = match parsed {
        Ok(plan) => (Some(plan), None),
        Err(e) => (None, Some(e.to_string())),
    };
    PlanEntry {
        name: name.into(),
        etag: etag_of(text.as_bytes()),
        modified_at: modified.unwrap_or_default(),
        title: plan.as_ref().and_then(|p| p.title.clone()),
        host: plan.as_ref().and_then(|p| p.host.clone()),
        connections: plan.map_or(0, |p| p.connections.len()),
        error,
    }
}

pub(crate) async fn list(State(app): State<Shared>) -> Answer<PlanList> {
    let directory = app.config.plans.clone();
    let look = move || {
        let mut plans = vec![];
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => entries.flatten().collect(),
            Err(e) if e.kind() == ErrorKind::NotFound => vec![],
            Err(e) => {
                return Err(Problem::internal(format!("read {}: {e}", directory.display())));
            }
        };
        for file in entries.iter().take(MAX_PLANS) {
            let path = file.path();
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            let Some(name) = name.strip_suffix(".toml").filter(|n| file_name(n).is_ok()) else {
                continue;
            };
            if let Ok(Some(text)) = read(&path) {
                plans.push(entry(name, &path, &text));
            }
        }
        plans.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(PlanList { plans, directory: directory.display().to_string() })
    };
    heavy(&app, look).await.map(Json200)
}

pub(crate) async fn get(
    State(app): State<Shared>,
    PathSegment(name): PathSegment,
) -> Result<Response, Problem> {
    let path = path(&app, &name)?;
    let text = heavy(&app, move || read(&path)).await?;
    let text = text.ok_or_else(|| Problem::missing("plan", &name))?;
    let plan = Plan::parse(&text).map_err(|e| Problem::of_model("", &e))?;
    Ok(answer(StatusCode::OK, &plan, Some(&etag_of(text.as_bytes()))))
}

pub(crate) async fn put(
    State(app): State<Shared>,
    PathSegment(name): PathSegment,
    client: ApiClient,
    wanted: Condition,
    Json(plan): Json<Plan>,
) -> Result<Response, Problem> {
    let path = path(&app, &name)?;
    plan.check().map_err(|e| Problem::of_model("", &e))?;
    let text = plan.to_toml().map_err(|e| Problem::of_model("", &e))?;
    // Between the check of the tag and the change, neither this server nor another one changes the plan.
    let _one = app.documents.lock().await;
    let document = format!("plans/{name}");
    let etag = etag_of(text.as_bytes());
    let work = {
        let (app, document) = (app.clone(), document.clone());
        move || {
            let failed =
                |e: std::io::Error| Problem::internal(format!("write {}: {e}", path.display()));
            std::fs::create_dir_all(&app.config.plans).map_err(failed)?;
            let _lock = locked(&app.config.plans)?;
            let before = read(&path)?.map(|t| etag_of(t.as_bytes()));
            fresh(&app, &document, &wanted, before.as_deref())?;
            let is_new = before.is_none();
            write(&path, &text).map_err(failed)?;
            Ok((is_new, entry(&name, &path, &text)))
        }
    };
    let (made, entry) = heavy(&app, work).await?;
    app.edited(document, &client.name(), Some(etag.clone()));
    let status = if made { StatusCode::CREATED } else { StatusCode::OK };
    Ok(answer(status, &entry, Some(&etag)))
}

/// How long a change waits for that of another program.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Locks the directory of plans against other servers until the returned file is dropped.
fn locked(directory: &Path) -> Result<File, Problem> {
    let failed = |e: std::io::Error| Problem::internal(format!("lock the directory of plans: {e}"));
    let how = File::options().write(true).create(true).truncate(false).clone();
    let file = how.open(directory.join(".lock")).map_err(failed)?;
    let end = Instant::now() + TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(Problem::unavailable("another program is changing the plans"));
            }
            Err(TryLockError::Error(e)) => return Err(failed(e)),
        }
    }
}

/// Replaces a plan's file atomically, so that a full disk leaves the earlier one.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

pub(crate) async fn remove(
    State(app): State<Shared>,
    PathSegment(name): PathSegment,
    client: ApiClient,
    wanted: Condition,
) -> Result<StatusCode, Problem> {
    let path = path(&app, &name)?;
    let _one = app.documents.lock().await;
    let document = format!("plans/{name}");
    let work = {
        let (app, document) = (app.clone(), document.clone());
        move || {
            let missing = || Problem::missing("plan", &name);
            let failed = |e: std::io::Error| match e.kind() {
                ErrorKind::NotFound => missing(),
                _ => Problem::internal(format!("remove {}: {e}", path.display())),
            };
            if !app.config.plans.exists() {
                return Err(missing());
            }
            let _lock = locked(&app.config.plans)?;
            let before = read(&path)?.ok_or_else(missing)?;
            fresh(&app, &document, &wanted, Some(&etag_of(before.as_bytes())))?;
            std::fs::remove_file(&path).map_err(failed)
        }
    };
    heavy(&app, work).await?;
    app.edited(document, &client.name(), None);
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn validate(
    State(app): State<Shared>,
    PathSegment(what): PathSegment,
    JsonText(document, text): JsonText<Value>,
) -> Answer<Validation> {
    if !matches!(what.as_str(), "plan" | "impairment" | "timeline" | "scenario") {
        return Err(Problem::field("what", what, "plan, impairment, timeline, scenario"));
    }
    let config = app.config.clone();
    heavy(&app, move || Ok(looked_at(&what, &document, &text, &config))).await.map(Json200)
}

/// Maximum length of a file that is checked.
const MAX_FILE_BYTES: usize = 512 << 10;

/// What a check finds in a valid document.
#[derive(Default)]
struct Checked {
    toml: Option<String>,
    document: Option<Value>,
    inherited: Vec<InheritedLaws>,
    notes: Vec<String>,
}

/// The text of a file that was given as a string.
fn file_of(document: &Value) -> Result<Option<&str>, Problem> {
    match document.as_str() {
        Some(file) if file.len() > MAX_FILE_BYTES => {
            let given = format!("{} bytes", file.len());
            Err(Problem::field("", given, "a file of at most 512 KiB"))
        }
        file => Ok(file),
    }
}

/// A plan: an object, or a string with the text of a TOML file.
fn plan(document: &Value, text: &[u8]) -> Result<Checked, Problem> {
    let file = file_of(document)?;
    let plan = match file {
        Some(file) => Plan::parse(file).map_err(|e| Problem::of_model("", &e))?,
        None => {
            let plan = parse::<Plan>(text)?;
            plan.check().map_err(|e| Problem::of_model("", &e))?;
            plan
        }
    };
    let json = || serde_json::to_value(&plan);
    let document = file.map(|_| json()).transpose();
    let flows = plan.flows(plan.family.unwrap_or(Family::Ipv4), MTU_BYTES).len();
    Ok(Checked {
        toml: plan.to_toml().ok(),
        document: document.map_err(|e| Problem::internal(e.to_string()))?,
        notes: vec![format!("{flows} flows")],
        ..Checked::default()
    })
}

/// An impairment: an object, or a string with the text of a TOML file.
fn impairment(document: &Value, text: &[u8]) -> Result<Checked, Problem> {
    let file = file_of(document)?;
    let impairment = match file {
        Some(file) => Impairment::parse(file).map_err(|e| Problem::of_model("", &e))?,
        None => {
            let impairment = parse::<Impairment>(text)?;
            impairment.check().map_err(|e| Problem::of_model("", &e))?;
            impairment
        }
    };
    weir_emulator::compile_filters(&impairment).map_err(|e| Problem::of_model("", &e))?;
    let json = || serde_json::to_value(&impairment);
    let mut document =
        file.map(|_| json()).transpose().map_err(|e| Problem::internal(e.to_string()))?;
    // The seed 0 of a file without one is not the file's.
    if let (Some(Value::Object(fields)), false) =
        (&mut document, file.is_none_or(Seed::is_named_in))
    {
        fields.remove("seed");
    }
    Ok(Checked {
        toml: impairment.to_toml().ok(),
        document,
        inherited: super::laws::inherited(&impairment),
        notes: weir_emulator::predictions(&impairment),
    })
}

/// A timeline: an object, or a string with the text of a file.
fn timeline(document: &Value, text: &[u8]) -> Result<Checked, Problem> {
    let file = file_of(document)?;
    let timeline = match file {
        Some(file) => Timeline::parse(file).map_err(|e| Problem::of_model("", &e))?,
        None => parse::<Timeline>(text)?,
    };
    let json = || serde_json::to_value(&timeline);
    let document = file.map(|_| json()).transpose();
    Ok(Checked {
        toml: Some(timeline.to_lines()),
        document: document.map_err(|e| Problem::internal(e.to_string()))?,
        ..Checked::default()
    })
}

fn looked_at(
    what: &str,
    document: &Value,
    text: &[u8],
    config: &crate::config::Config,
) -> Validation {
    let looked = match what {
        "plan" => plan(document, text),
        "impairment" => impairment(document, text),
        "timeline" => timeline(document, text),
        _ => super::experiments::looked_at(&String::from_utf8_lossy(text), config)
            .map(|notes| Checked { notes, ..Checked::default() }),
    };
    match looked {
        Ok(Checked { toml, document, inherited, notes }) => {
            Validation { valid: true, errors: vec![], toml, document, inherited, notes }
        }
        Err(problem) => {
            let mut errors = problem.errors;
            if errors.is_empty() {
                errors.push(FieldError {
                    field: String::new(),
                    given: None,
                    accepted: None,
                    message: problem.detail,
                });
            }
            Validation {
                valid: false,
                errors,
                toml: None,
                document: None,
                inherited: vec![],
                notes: vec![],
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_may_be_the_text_of_its_file() {
        let checked = |document: Value| {
            plan(&document, document.to_string().as_bytes())
                .map(|checked| checked.document)
                .map_err(|problem| problem.errors.first().map(|error| error.field.clone()))
        };
        let file = "schema = \"weir.plan/1\"\n[[connection]]\nname = \"a\"\nrate = \"1M\"\n";
        let document = checked(Value::from(file)).unwrap().unwrap();
        assert_eq!(document["connection"][0]["name"], "a");
        // An object is not repeated.
        assert_eq!(checked(document), Ok(None));
        assert!(checked(Value::from(file.replace("1M", "fast"))).is_err());
        assert!(checked(Value::from("#".repeat(MAX_FILE_BYTES + 1))).is_err());
    }

    #[test]
    fn an_impairment_may_be_the_text_of_its_file() {
        let checked = |document: Value| {
            impairment(&document, document.to_string().as_bytes())
                .map(|checked| checked.document)
                .map_err(|problem| problem.errors.first().map(|error| error.field.clone()))
        };
        let file = "schema = \"weir.impair/1\"\n[[flow]]\nname = \"a\"\nprofile = \"dsl\"\n";
        let document = checked(Value::from(file)).unwrap().unwrap();
        assert_eq!(document["flow"][0]["name"], "a");
        assert!(document.get("seed").is_none());
        let seeded = checked(Value::from(format!("seed = 7\n{file}"))).unwrap().unwrap();
        assert_eq!(seeded["seed"], "0x7");
        // What was given as an object is not repeated.
        assert_eq!(checked(document), Ok(None));
        let wrong = file.replace("dsl", "no such preset");
        assert_eq!(checked(Value::from(wrong)), Err(Some("/flow/0/profile".into())));
        // libpcap refuses it, or is missing.
        let expression = file.replace("profile", "filter.pcap = \"ip and\"\nprofile");
        assert_eq!(checked(Value::from(expression)), Err(Some("/flow/0/filter/pcap".into())));
        let long = "#".repeat(MAX_FILE_BYTES + 1);
        assert!(checked(Value::from(long)).is_err());
    }
}
