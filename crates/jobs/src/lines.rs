//! Parses a job from one line of JSON, strictly.

use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::{Map, Value};
use weir_model::document::{self, DocumentError};
use weir_model::{Refusal, nearest};

use crate::Job;

/// Longest line of a job.
pub const MAX_JOB_BYTES: u64 = 32 << 20;

/// The error code of a line that is not a valid job.
const CODE: &str = "job";
/// The kinds of jobs.
const KINDS: [&str; 11] = [
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
    "peer",
];

/// Reads a job.
///
/// # Errors
/// A line that is not a JSON object, an unknown kind or field (with the nearest known one), or a value that a field does not
/// accept.
pub fn parse_job(line: &str) -> Result<Job, Box<Refusal>> {
    let value = document::json(line.as_bytes()).map_err(|error| match error.field.as_str() {
        "" => Refusal { field: Some("job".into()), ..refused(&error) },
        _ => refused(&error),
    })?;
    of_tree(value)
}

/// Through a tree, like [`parse_job`]: a derived implementation would compile every job a second time, for lines with the
/// tag after the fields.
impl<'de> Deserialize<'de> for Job {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        of_tree(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn of_tree(value: Value) -> Result<Job, Box<Refusal>> {
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
        "peer" => Job::Peer(read(fields)?),
        "doctor" if fields.is_empty() => Job::Doctor {},
        "doctor" => {
            let field = fields.keys().next().cloned().unwrap_or_default();
            return Err(refuse(field.as_str(), field.as_str(), "no field but job"));
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
    let nearest = nearest(given, KINDS).map(Into::into);
    Box::new(Refusal { nearest, ..*refuse("job", given, KINDS.join(", ")) })
}

fn read<T: DeserializeOwned>(fields: Map<String, Value>) -> Result<T, Box<Refusal>> {
    document::read(&Value::Object(fields)).map_err(|error| Box::new(refused(&error)))
}

/// Converts a document's error into the refusal of a job.
fn refused(error: &DocumentError) -> Refusal {
    Refusal { code: CODE.into(), ..Refusal::from(error) }
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
            Job::Peer(Box::default()),
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
    fn refusals_name_the_field() {
        const WHOLE: &str = "a whole number, 0 to 65535";
        for (line, field, given, accepted, nearest) in [
            (r#"{"job":"serve","prot":1}"#, "prot", Some("prot"), None, Some("port")),
            (r#"{"job":"tset"}"#, "job", Some("tset"), None, Some("test")),
            (r#"{"port":1}"#, "job", Some("missing"), None, None),
            (r#"{"job":"emulator"}"#, "interfaces", None, Some("a value"), None),
            (r#"{"job":"doctor","x":1}"#, "x", Some("x"), Some("no field but job"), None),
            (r#"{"job":"serve","port":"x"}"#, "port", Some("x"), Some(WHOLE), None),
            (r#"{"job":"serve","port":70000}"#, "port", Some("70000"), Some(WHOLE), None),
            (r#"{"job":"serve","port":1,"port":2}"#, "port", Some("port"), None, None),
            (
                r#"{"job":"serve","threads":{"afinity":"0"}}"#,
                "threads.afinity",
                Some("afinity"),
                None,
                Some("affinity"),
            ),
            (
                r#"{"job":"test","plan":{"schema":"weir.plan/1","connection":[{"rat":"1M"}]}}"#,
                "plan.connection[0].rat",
                Some("rat"),
                None,
                Some("rate"),
            ),
            ("[]", "job", Some("no JSON object"), None, None),
            ("{", "job", None, Some("JSON"), None),
        ] {
            let refusal = parse_job(line).unwrap_err();
            assert_eq!(refusal.code, CODE);
            assert_eq!(refusal.field.as_deref(), Some(field), "{line}: {refusal:?}");
            assert_eq!(refusal.nearest.as_deref(), nearest, "{line}: {refusal:?}");
            for (expected, found) in [(given, &refusal.given), (accepted, &refusal.accepted)] {
                if expected.is_some() {
                    assert_eq!(found.as_deref(), expected, "{line}: {refusal:?}");
                }
            }
            assert_eq!(refusal.exit_code, 2);
        }
    }
}
