//! A job as one line of JSON: reading it strictly.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use weir_model::{Refusal, nearest};

use crate::Job;

/// Longest line of a job.
pub const MAX_JOB_BYTES: u64 = 32 << 20;

/// The code of a line that is no job.
const CODE: &str = "job";
/// The kinds of jobs.
const KINDS: [&str; 10] = [
    "serve",
    "test",
    "emulator",
    "scenario",
    "resume",
    "lab-up",
    "lab-down",
    "calibrate",
    "demo",
    "doctor",
];

/// Reads a job.
///
/// # Errors
/// A line that is no JSON object, an unknown kind or field (with the nearest known one), or a value that a field does not
/// take.
pub fn parse_job(line: &str) -> Result<Job, Box<Refusal>> {
    let value: Value =
        serde_json::from_str(line).map_err(|e| refuse("job", e.to_string(), "one line of JSON"))?;
    let Value::Object(mut fields) = value else {
        return Err(refuse("job", "no JSON object", "an object with the field job"));
    };
    let kind = match fields.remove("job") {
        Some(Value::String(kind)) => kind,
        Some(other) => return Err(unknown_kind(&other.to_string())),
        None => return Err(refuse("job", "missing", KINDS.join(", "))),
    };
    Ok(match kind.as_str() {
        "serve" => Job::Serve(read(fields)?),
        "test" => Job::Test(read(fields)?),
        "emulator" => Job::Emulator(read(fields)?),
        "scenario" => Job::Scenario(read(fields)?),
        "resume" => Job::Resume(read(fields)?),
        "lab-up" => Job::LabUp(read(fields)?),
        "lab-down" => Job::LabDown(read(fields)?),
        "calibrate" => Job::Calibrate(read(fields)?),
        "demo" => Job::Demo(read(fields)?),
        "doctor" if fields.is_empty() => Job::Doctor {},
        "doctor" => {
            let field = fields.keys().next().cloned().unwrap_or_default();
            return Err(refuse(field, "an unknown field", "no field but job"));
        }
        other => return Err(unknown_kind(other)),
    })
}

fn refuse(
    field: impl Into<String>,
    given: impl Into<String>,
    accepted: impl Into<String>,
) -> Box<Refusal> {
    Box::new(Refusal::of_field(CODE, field, given, accepted))
}

fn unknown_kind(given: &str) -> Box<Refusal> {
    let accepted = match nearest(given, KINDS) {
        Some(near) => format!("{near} (or {})", KINDS.join(", ")),
        None => KINDS.join(", "),
    };
    refuse("job", given, accepted)
}

fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Box<Refusal>> {
    let value = Value::Object(fields);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = error.path().to_string();
        refused(&path, &error.inner().to_string())
    })
}

/// A refusal of serde as one of a field.
fn refused(path: &str, message: &str) -> Box<Refusal> {
    let path = path.trim_end_matches('?').trim_end_matches('.');
    let quoted = |text: &str| text.split('`').next().unwrap_or_default().to_owned();
    let inside = |name: &str| match path {
        "" => name.to_owned(),
        // The path may name the field already.
        _ if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        _ => format!("{path}.{name}"),
    };
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let name = quoted(rest);
        let known: Vec<&str> = rest.split('`').skip(2).step_by(2).collect();
        let accepted = match nearest(&name, known.iter().copied()) {
            Some(near) => near.to_owned(),
            None => known.join(", "),
        };
        return refuse(inside(&name), "an unknown field", accepted);
    }
    if let Some(rest) = message.strip_prefix("missing field `") {
        return refuse(inside(&quoted(rest)), "missing", "a value");
    }
    match message.split_once(", expected ") {
        Some((given, accepted)) => {
            let given = given.split_once(": ").map_or(given, |(_, given)| given);
            refuse(path, given, accepted)
        }
        None => Box::new(Refusal {
            field: Some(path.to_owned()),
            ..Refusal::new(CODE, format!("{path}: {message}"), 2)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CalibrateJob, EmulatorJob, ResumeJob, TestJob};

    #[test]
    fn each_kind_reads_back() {
        for job in [
            Job::Serve(Box::default()),
            Job::Test(Box::new(TestJob { host: Some("h".into()), ..TestJob::default() })),
            Job::Emulator(Box::new(EmulatorJob::new(["a".into(), "b".into()], Default::default()))),
            Job::Scenario(Box::default()),
            Job::Resume(ResumeJob { id: "x".into() }),
            Job::LabUp(Box::default()),
            Job::LabDown(Default::default()),
            Job::Calibrate(CalibrateJob::default()),
            Job::Demo(crate::DemoJob { seconds: 1, simulate: true }),
            Job::Doctor {},
        ] {
            let line = serde_json::to_string(&job).unwrap();
            assert_eq!(parse_job(&line), Ok(job.clone()), "{line}");
            assert!(KINDS.contains(&job.kind()), "{line}");
        }
        assert_eq!(parse_job(r#"{"job":"serve"}"#), Ok(Job::Serve(Box::default())));
    }

    #[test]
    fn results_are_stored_by_default() {
        let job = |line: &str| parse_job(line).unwrap();
        assert!(matches!(job(r#"{"job":"test"}"#), Job::Test(test) if test.store));
        let scenario = job(r#"{"job":"scenario","text":""}"#);
        assert!(matches!(scenario, Job::Scenario(scenario) if scenario.store));
    }

    #[test]
    fn what_is_refused_is_named() {
        for (line, field, accepted) in [
            (r#"{"job":"serve","prot":1}"#, "prot", "port"),
            (r#"{"job":"tset"}"#, "job", "test"),
            (r#"{"port":1}"#, "job", "serve"),
            (r#"{"job":"emulator"}"#, "interfaces", "a value"),
            (r#"{"job":"doctor","x":1}"#, "x", "no field"),
            (r#"{"job":"serve","port":"x"}"#, "port", "u16"),
            (r#"{"job":"serve","port":70000}"#, "port", "u16"),
            (r#"{"job":"serve","threads":{"afinity":"0"}}"#, "threads.afinity", "affinity"),
            (
                r#"{"job":"test","plan":{"schema":"weir.plan/1","connection":[{"rat":"1M"}]}}"#,
                "plan.connection[0].rat",
                "rate",
            ),
            ("[]", "job", "object"),
            ("{", "job", "JSON"),
        ] {
            let refusal = parse_job(line).unwrap_err();
            assert_eq!(refusal.code, CODE);
            assert_eq!(refusal.field.as_deref(), Some(field), "{line}: {refusal:?}");
            let given = refusal.accepted.clone().unwrap_or_default();
            assert!(given.starts_with(accepted) || given.contains(accepted), "{line}: {refusal:?}");
            assert_eq!(refusal.exit_code, 2);
        }
    }
}
