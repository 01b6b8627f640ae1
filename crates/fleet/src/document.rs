//! What passes through the bus: facts of agents, submitted jobs, and their outcomes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_jobs::Job;
use weir_model::Refusal;

use crate::names::{AgentName, JobId, Resource};

/// What an agent states about itself and its host when it connects.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentFacts {
    /// The version of its program. Jobs are submitted to agents of the same version only.
    pub version: String,
    /// Labels by which it is selected.
    pub labels: BTreeMap<String, String>,
    /// Its resources, each with a queue of its own.
    pub resources: Vec<String>,
    /// The host's name.
    pub host: String,
    /// Operating system.
    pub os: String,
    /// Kernel release.
    pub kernel: String,
    /// Machine architecture.
    pub architecture: String,
    /// CPUs online.
    pub cpus: u32,
    /// Interfaces that are up, except loopback.
    pub interfaces: Vec<InterfaceFacts>,
    /// The service that sets its clock; absent: none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_source: Option<String>,
    /// Largest error of its clock that this service states, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_bound_ns: Option<u64>,
    /// 99th percentile of the lateness of wake-ups that `weir calibrate` measured there, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake_up_p99_ns: Option<u64>,
}

/// An interface of an agent's host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfaceFacts {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<String>,
}

/// A job for an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Submission {
    /// Its number.
    pub id: JobId,
    /// What it needs for itself.
    pub resource: Resource,
    /// Time on the wall clock at which a test starts, ns since 1970; absent: when both ends are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_at_unix_ns: Option<u64>,
    /// It is stopped after this time, s: a job whose controller is gone does not keep its resource.
    pub longest_seconds: u64,
    /// What to do.
    pub job: Job,
}

/// How a job ended. What a job did not have is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The job.
    pub id: JobId,
    /// Where it ran.
    pub agent: AgentName,
    /// The kind of the job, such as `test`; empty if it could not be read.
    pub kind: String,
    /// How many times it was started: more than once if the agent ended while it ran.
    pub starts: u64,
    /// When it was started, by the agent's clock, ns since 1970; absent: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_ns: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_unix_ns: Option<u64>,
    /// Its exit code; absent if it was killed or not started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it failed, or was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
    /// The record of a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Value>,
    /// The document that another kind of job ended with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Warnings of the job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Outcome {
    /// The outcome of a job that was not started.
    pub(crate) fn refused(id: JobId, agent: AgentName, starts: u64, error: Refusal) -> Outcome {
        Outcome {
            id,
            agent,
            kind: String::new(),
            starts,
            started_unix_ns: None,
            ended_unix_ns: None,
            exit_code: None,
            error: Some(error),
            record: None,
            result: None,
            warnings: vec![],
        }
    }
}

/// A request to an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Stop a job, or remove it from its queue.
    Stop {
        /// The job.
        job: JobId,
    },
}
