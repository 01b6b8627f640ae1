//! Which jobs an agent runs: none that names a file or a socket of its host, and none that runs commands.

use weir_jobs::{Job, KeySource, TestJob};
use weir_model::Refusal;
use weir_model::names::UNIX;

/// The kinds of jobs that an agent runs.
const KINDS: &str = "test, serve, emulator, doctor or calibrate";
const NO_FILE: &str = "none: a controller names no file of an agent's host";

/// The job as the agent runs it.
///
/// # Errors
/// Its kind, or the field that names a file.
pub(super) fn accepted(job: Job) -> Result<Job, Box<Refusal>> {
    let refused = |field: &str, given: &str, accepted: &str| {
        Err(Box::new(Refusal::of_field("job", field, given, accepted)))
    };
    let files: Vec<(&str, bool)> = match &job {
        Job::Test(test) => vec![
            ("control_socket", test.control_socket.is_some()),
            ("emulator", test.emulator.is_some()),
            ("packet_log", test.packet_log.is_some()),
            ("fetch", test.fetch.is_some()),
            ("hmac_key_file", test.hmac_key_file.is_some()),
            ("key", names_file(&test.key)),
            ("host", names_socket(test)),
        ],
        Job::Serve(serve) => vec![
            ("unix", serve.unix.is_some()),
            ("packet_log", serve.packet_log.is_some()),
            ("file_dir", serve.file_dir.is_some()),
            ("hmac_key_file", serve.hmac_key_file.is_some()),
            ("key", names_file(&serve.key)),
        ],
        Job::Emulator(_) | Job::Doctor {} | Job::Calibrate(_) => vec![],
        other => return refused("job", other.kind(), KINDS),
    };
    if let Some((field, _)) = files.into_iter().find(|(_, is_named)| *is_named) {
        return refused(field, "given", NO_FILE);
    }
    match job {
        Job::Emulator(emulator) => Ok(Job::Emulator(Box::new(emulator.of_client()?))),
        other => Ok(other),
    }
}

/// Whether a server of a test is a Unix socket of the agent's host.
fn names_socket(test: &TestJob) -> bool {
    let of_connections = test.plan.connections.iter().map(|connection| &connection.host);
    let mut hosts = of_connections.chain([&test.host, &test.plan.host]).flatten();
    hosts.any(|host| host.starts_with(UNIX))
}

fn names_file(key: &KeySource) -> bool {
    key.key_file.is_some() || key.passphrase_file.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_jobs::parse_job;

    #[test]
    fn jobs_that_name_files_are_refused_by_the_field() {
        for (job, field) in [
            (r#"{"job":"test","host":"a"}"#, None),
            (r#"{"job":"test","host":"a","key":{"key":"x"}}"#, None),
            (r#"{"job":"test","host":"unix:/run/x"}"#, Some("host")),
            (
                r#"{"job":"test","plan":{"schema":"weir.plan/1","host":"unix:/run/x","connection":[{}]}}"#,
                Some("host"),
            ),
            (
                r#"{"job":"test","host":"a","plan":{"schema":"weir.plan/1","connection":[{"host":"unix:/x"}]}}"#,
                Some("host"),
            ),
            (r#"{"job":"serve","port":5000}"#, None),
            (r#"{"job":"doctor"}"#, None),
            (r#"{"job":"calibrate"}"#, None),
            (r#"{"job":"test","host":"a","packet_log":"/etc/x"}"#, Some("packet_log")),
            (r#"{"job":"test","host":"a","fetch":"/etc/x"}"#, Some("fetch")),
            (r#"{"job":"test","host":"a","control_socket":"/x"}"#, Some("control_socket")),
            (r#"{"job":"test","host":"a","hmac_key_file":"/x"}"#, Some("hmac_key_file")),
            (r#"{"job":"test","host":"a","key":{"key_file":"/etc/shadow"}}"#, Some("key")),
            (r#"{"job":"serve","key":{"passphrase_file":"/etc/shadow"}}"#, Some("key")),
            (r#"{"job":"serve","file_dir":"/etc"}"#, Some("file_dir")),
            (r#"{"job":"serve","packet_log":"/etc/x"}"#, Some("packet_log")),
            (r#"{"job":"serve","unix":"/x"}"#, Some("unix")),
            (
                r#"{"job":"emulator","interfaces":["a","b"],"packet_trace":"/x"}"#,
                Some("packet_trace"),
            ),
            (r#"{"job":"demo"}"#, Some("job")),
            (r#"{"job":"peer","protocol":"ttcp"}"#, Some("job")),
        ] {
            let result = parse_job(job).and_then(accepted);
            let refused = result.err().and_then(|refusal| refusal.field);
            assert_eq!(refused.as_deref(), field, "{job}");
        }
    }
}
