//! Jobs: the typed protocol between processes of Weir.
//!
//! A [`Job`] defines what one process does: serve, run a test, emulate a path, run a scenario. The command line makes a
//! job from its flags and runs it in its own process; `weir job` reads a job as one line of JSON from standard input and
//! runs the same code. Everything that starts Weir (scenarios, the demo, the web server's launcher) uses [`Process`], and
//! no code reads text that is meant for people.
//!
//! Standard input carries the job, then [`Command`]s, one a line; when it is closed, the job stops and cleans up.
//! Standard output carries [`Event`]s, one a line. The last one is [`Event::Error`] if the job failed.
//!
//! [`EmulatorRequest`] and [`EmulatorAnswer`] are what a client of another host and a server of emulators exchange.

mod child;
mod command;
mod control;
mod event;
mod job;
mod lines;
mod process;
mod running;
mod running_job;

#[doc(hidden)]
pub mod fuzz;

pub use child::{ChildGuard, Output, captured, collect, collect_last};
pub use command::Command;
pub use control::{EmulatorAnswer, EmulatorEnd, EmulatorEntry, EmulatorRequest};
pub use event::{Answer, Event, Listening, Notice, Ready, Reflected};
pub use job::{
    CalibrateJob, DemoJob, DitgManagers, EmulatorJob, EmulatorOnPath, Job, KeySource, LabDownJob,
    LabUpJob, PeerJob, ResumeJob, ScenarioJob, ServeJob, SpeedTestJob, TestJob,
};
pub use lines::{MAX_JOB_BYTES, parse_job};
pub use process::{NoEvent, Process};
pub use running::{MAX_OUTPUT_BYTES, Printed, RunningCommand};
pub use running_job::{RemoteHosts, RunningJob};
