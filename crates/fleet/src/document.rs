//! What passes through the bus: facts of agents, submitted jobs, and their outcomes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_jobs::Job;
use weir_model::Refusal;
use weir_model::impairment::Impairment;

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
    /// Identifies its clock: hosts with the same one share it, such as network namespaces of one machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_id: Option<String>,
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
    /// The hold of the agent under which it runs, beside what else runs under it; absent: it takes its turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<JobId>,
    /// Its outcome has no record: the controller takes the figures from its events.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_record: bool,
    /// What to do.
    pub work: Work,
}

/// What an agent is given to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// To run a job.
    Job(Box<Job>),
    /// To keep the resource for the jobs of one controller, until it is stopped or has not been renewed for a time.
    Hold {
        /// That time, s.
        lapse_seconds: u64,
    },
}

impl Work {
    /// Its kind, such as `test` or `hold`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Work::Job(job) => job.kind(),
            Work::Hold { .. } => "hold",
        }
    }
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

/// A request to an agent. It replies with an [`AgentState`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub(crate) enum Request {
    /// Stop a job, end a hold, or remove either from its queue.
    Stop {
        /// The job.
        job: JobId,
    },
    /// Keep a hold.
    Renew {
        /// The hold.
        job: JobId,
    },
    /// Start a test that waits for its start.
    Start {
        /// The job.
        job: JobId,
        /// Time on the wall clock, ns since 1970.
        at_unix_ns: u64,
    },
    /// Start a waiting connection of a test, or all.
    StartConnection {
        /// The job.
        job: JobId,
        /// The connection.
        connection: Option<String>,
    },
    /// Stop a connection of a test, or all.
    StopConnection {
        /// The job.
        job: JobId,
        /// The connection.
        connection: Option<String>,
    },
    /// Change the laws of an emulator.
    Set {
        /// The job.
        job: JobId,
        /// The whole configuration.
        impairment: Box<Impairment>,
    },
    /// Say what runs and waits.
    State,
}

/// What an agent does now.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentState {
    /// Jobs that run, then jobs that wait, each in the order in which they came.
    pub jobs: Vec<JobState>,
    /// Largest error of its clock now, ns; absent: unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_bound_ns: Option<u64>,
}

/// A job that runs or waits at an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    /// The job.
    pub id: JobId,
    /// Its kind.
    pub kind: String,
    /// What it needs for itself.
    pub resource: Resource,
    /// The hold under which it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<JobId>,
    /// Jobs that are to end before it starts; 0 for one that runs.
    pub before: u64,
    /// For how long it has run, s; absent for one that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub running_seconds: Option<u64>,
}
