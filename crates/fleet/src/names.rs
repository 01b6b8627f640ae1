//! Names of agents, resources and jobs, the subjects made of them, and what an agent may do with which.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use weir_model::Refusal;

/// The bucket with each agent's facts.
pub const AGENTS: &str = "weir-agents";
/// The stream with jobs that are not finished.
pub const JOBS: &str = "weir-jobs";
/// The stream with outcomes of jobs.
pub const OUTCOMES: &str = "weir-outcomes";
/// The resource of jobs that name none: the whole host.
pub const HOST_RESOURCE: &str = "host";
/// The resource of a watch's probes and their servers, whose jobs run at the same time as each other and as those of any resource.
pub const PROBES_RESOURCE: &str = "probes";

const LONGEST: usize = 63;
const ACCEPTED: &str = "1 to 63 letters, digits and hyphens, a letter or digit first";

/// Whether a name can be one part of a subject, of a key and of a file's name.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// The name.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = Refusal;

            fn from_str(text: &str) -> Result<Self, Refusal> {
                match is_name(text) {
                    true => Ok($type(text.to_owned())),
                    false => Err(Refusal::of_field("usage", $field, text, ACCEPTED)),
                }
            }
        }

        impl TryFrom<String> for $type {
            type Error = Refusal;

            fn try_from(text: String) -> Result<Self, Refusal> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// The name of an agent: 1 to 63 letters, digits and hyphens.
    AgentName,
    "name"
);
name!(
    /// What a job needs for itself, such as an interface: jobs of one resource run one after the other.
    Resource,
    "resource"
);
name!(
    /// The number of a job, unique in the fleet.
    JobId,
    "job"
);

/// The resource of an interface: its name, with hyphens for what a resource's name can't have.
pub(crate) fn resource_of_interface(name: &str) -> String {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    name.chars().map(word).collect()
}

/// The subject of jobs of a resource.
pub(crate) fn jobs(agent: &AgentName, resource: &Resource) -> String {
    format!("weir.job.{agent}.{resource}")
}

/// The subjects of all jobs of an agent.
pub(crate) fn jobs_of(agent: &AgentName) -> String {
    format!("weir.job.{agent}.*")
}

/// The subject of a part of an outcome, from 0.
pub(crate) fn outcome(agent: &AgentName, job: &JobId, part: usize) -> String {
    format!("weir.outcome.{agent}.{job}.{part}")
}

/// The subjects of the outcome of a job at an agent.
pub(crate) fn outcome_of(agent: &AgentName, job: &JobId) -> String {
    format!("weir.outcome.{agent}.{job}.*")
}

/// The subject of a running job's events.
pub(crate) fn events(agent: &AgentName, job: &JobId) -> String {
    format!("weir.event.{agent}.{job}")
}

/// The subject of requests to an agent.
pub(crate) fn requests(agent: &AgentName) -> String {
    format!("weir.request.{agent}")
}

/// The subject of an agent's notices.
pub(crate) fn notices(agent: &AgentName) -> String {
    format!("weir.notice.{agent}")
}

/// The key of an agent's facts.
pub(crate) fn facts(agent: &str) -> String {
    format!("facts.{agent}")
}

/// The key that an agent renews while it is connected.
pub(crate) fn seen(agent: &str) -> String {
    format!("seen.{agent}")
}

/// The key by which a controller learns the server's time.
pub(crate) const NOW: &str = "now";

/// The subject of a key of [`AGENTS`].
pub(crate) fn subject_of_key(key: &str) -> String {
    format!("$KV.{AGENTS}.{key}")
}

/// The prefix of subjects for replies to an agent.
pub(crate) fn inbox(agent: &AgentName) -> String {
    format!("_INBOX.{agent}")
}

/// What an agent may do; all else is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permissions {
    /// Subjects that it may publish to.
    pub publish: Vec<String>,
    /// Subjects that it may subscribe to.
    pub subscribe: Vec<String>,
}

/// What an agent may do: state its facts, create its own consumer and take jobs from it, and publish events and outcomes
/// of its own. It can't read the bucket or the streams.
#[must_use]
pub fn permissions(agent: &AgentName) -> Permissions {
    Permissions {
        publish: vec![
            subject_of_key(&facts(agent.as_str())),
            subject_of_key(&seen(agent.as_str())),
            format!("weir.outcome.{agent}.>"),
            format!("weir.event.{agent}.>"),
            notices(agent),
            // The consumer's name and its filter are part of the subject: others can be neither made nor changed.
            format!("$JS.API.CONSUMER.CREATE.{JOBS}.{agent}.{}", jobs_of(agent)),
            format!("$JS.API.CONSUMER.MSG.NEXT.{JOBS}.{agent}"),
            format!("$JS.ACK.{JOBS}.{agent}.>"),
        ],
        subscribe: vec![requests(agent), format!("{}.>", inbox(agent))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_part_of_a_subject() {
        for good in ["paris-1", "A", "0", &"a".repeat(63)] {
            assert_eq!(good.parse::<AgentName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "a.b", "a b", "*", ">", "a/b", "a_b", "é", &"a".repeat(64)] {
            let refusal = bad.parse::<AgentName>().unwrap_err();
            assert_eq!((refusal.field.as_deref(), refusal.exit_code), (Some("name"), 2));
        }
        assert!(serde_json::from_str::<JobId>("\"../x\"").is_err());
    }

    #[test]
    fn permissions_name_no_other_agent() {
        let agent = "paris-1".parse().unwrap();
        let Permissions { publish, subscribe } = permissions(&agent);
        for subject in publish.iter().chain(&subscribe) {
            assert!(subject.split('.').any(|part| part == "paris-1"), "{subject}");
        }
    }
}
