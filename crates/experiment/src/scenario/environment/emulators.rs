//! The emulators of a scenario: those that it starts, and running ones that it controls.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};
use weir_jobs::{Command, EmulatorJob, Process, RunningJob};
use weir_model::experiment::EmulatorSpec;
use weir_model::impairment::{Impairment, Laws};
use weir_net::thread::lock;

use super::{END, Environment, failed, not_started, refused};
use crate::scenario::ScenarioError;

/// A running emulator.
pub(super) struct Emulator {
    control: Control,
    /// The configuration to restore, for an emulator that was already running.
    former: Option<Impairment>,
    /// Its current laws, if they lose packets.
    loses: Mutex<Option<String>>,
}

/// How an emulator is controlled.
enum Control {
    /// By its control socket; with its process, which ends with this, if this experiment started it.
    Socket(PathBuf, #[expect(dead_code, reason = "it is only dropped")] Option<Process>),
    /// One at an agent.
    Remote(Mutex<Box<dyn RunningJob>>),
}

impl Emulator {
    /// Its control socket, if it has one on this machine.
    fn socket(&self) -> Option<&Path> {
        match &self.control {
            Control::Socket(socket, _) => Some(socket),
            Control::Remote(_) => None,
        }
    }

    fn set(&self, to: &Impairment) -> Result<(), ScenarioError> {
        match &self.control {
            Control::Socket(socket, _) => set(socket, to),
            Control::Remote(job) => {
                let impairment = Box::new(to.clone());
                let done = lock(job).command(&Command::Set { impairment });
                done.map_err(refused("emulator"))
            }
        }
    }

    /// Restores the former configuration of an emulator that was already running.
    fn restore(&mut self) -> Result<(), ScenarioError> {
        self.former.take().map_or(Ok(()), |former| self.set(&former))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // Where a failure matters, it has been restored before.
        let _ = self.restore();
    }
}

impl Environment<'_> {
    /// Starts an emulator or finds a running one, and sets its initial laws.
    pub(super) fn emulator_of(
        &self,
        name: &str,
        spec: &EmulatorSpec,
    ) -> Result<Emulator, ScenarioError> {
        let initial = self.options.files.impairment(&spec.initial, &format!("emulator.{name}"))?;
        if let Some(agent) = &spec.agent {
            let interfaces = spec.interfaces.clone().unwrap_or_default();
            return self.start_at_agent(name, agent, interfaces, &initial);
        }
        let Some(socket) = &spec.control_socket else {
            return self.start_emulator(name, spec.interfaces.clone(), &initial);
        };
        let socket = PathBuf::from(socket);
        let found = ask(&socket, &json!({ "verb": "show" }))?["impairment"].take();
        let former =
            weir_model::document::read(&found).map_err(failed("understand", &at(&socket)))?;
        let loses = Mutex::new(losing(&initial));
        let control = Control::Socket(socket, None);
        let emulator = Emulator { control, former: Some(former), loses };
        if !spec.initial.is_empty() {
            emulator.set(&initial)?;
        }
        Ok(emulator)
    }

    fn start_emulator(
        &self,
        name: &str,
        interfaces: Option<[String; 2]>,
        initial: &Impairment,
    ) -> Result<Emulator, ScenarioError> {
        let what = format!("emulator {name}");
        let socket = self.socket();
        let (host, interfaces) = match interfaces {
            Some(own) => ("local", own),
            None => ("m", ["to-a".to_owned(), "to-b".to_owned()]),
        };
        let command = self.command(Some(host), &self.options.program)?;
        let job = EmulatorJob {
            control_socket: Some(socket.clone()),
            // In the middle of the lab, its interfaces disappear with the lab.
            disposable: host == "m",
            ..EmulatorJob::new(interfaces, initial.clone())
        };
        let job = weir_jobs::Job::Emulator(Box::new(job));
        let mut program = Process::start(command, &job, END).map_err(not_started(&what))?;
        program.wait_ready().map_err(refused(&what))?;
        program.ignore_events();
        let loses = Mutex::new(losing(initial));
        Ok(Emulator { control: Control::Socket(socket, Some(program)), former: None, loses })
    }

    /// Starts an emulator at the one agent of this name.
    fn start_at_agent(
        &self,
        name: &str,
        agent: &str,
        interfaces: [String; 2],
        initial: &Impairment,
    ) -> Result<Emulator, ScenarioError> {
        let what = format!("emulator {name}");
        let Some(remote) = self.options.remote else {
            return Err(ScenarioError::program(&what, "there is no fleet"));
        };
        let [agent] = &remote.members(agent)[..] else {
            return Err(ScenarioError::program(&what, "its agent stands for several"));
        };
        let job = EmulatorJob::new(interfaces, initial.clone());
        let job = weir_jobs::Job::Emulator(Box::new(job));
        let mut job = remote.start(agent, job).map_err(refused(&what))?;
        job.wait_until_up().map_err(refused(&what))?;
        job.ignore_events();
        let loses = Mutex::new(losing(initial));
        Ok(Emulator { control: Control::Remote(Mutex::new(job)), former: None, loses })
    }

    /// Sets the laws of an emulator.
    pub(in crate::scenario) fn impair(
        &self,
        name: Option<&str>,
        to: &Impairment,
    ) -> Result<(), ScenarioError> {
        let emulator = self.emulator(name)?;
        emulator.set(to)?;
        *emulator.loses.lock().unwrap_or_else(|e| e.into_inner()) = losing(to);
        Ok(())
    }

    /// The laws of the emulator in front of a host of the lab if they lose many packets while the host's server is
    /// running: then an unreachable peer is the path's fault.
    pub(in crate::scenario) fn path_that_loses(&self, to: Option<&str>) -> Option<String> {
        if !self.lab_server_is_there(self.answering(to)) {
            return None;
        }
        let in_middle =
            |name: &&String| self.scenario.emulators.get(*name).is_some_and(is_in_middle);
        self.emulators.iter().filter(|(name, _)| in_middle(name)).find_map(|(name, emulator)| {
            let loses = emulator.loses.lock().unwrap_or_else(|e| e.into_inner()).clone()?;
            Some(format!("emulator {name}: {loses}"))
        })
    }

    /// The emulator on the path of a test: the one in the middle of the lab, with the client's side of it, if the two
    /// hosts are on different sides; else the only one. With several elsewhere it is unknown.
    pub(in crate::scenario) fn emulator_of_test(
        &self,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Option<(&Path, Option<&'static str>)> {
        let socket = |name: &String| self.emulators.get(name)?.socket();
        let specs = &self.scenario.emulators;
        if let Some((name, _)) = specs.iter().find(|(_, spec)| is_in_middle(spec)) {
            // Traffic from this machine or to another one does not cross the lab's middle.
            let side = self.side(from.unwrap_or("a"))?;
            let is_across = self.side(self.answering(to))? != side;
            return Some((socket(name)?, Some(side))).filter(|_| is_across);
        }
        match specs.keys().collect::<Vec<_>>()[..] {
            [name] => Some((socket(name)?, None)),
            _ => None,
        }
    }

    /// The side of the lab's middle on which a host is.
    fn side(&self, host: &str) -> Option<&'static str> {
        self.lab.as_ref()?.host(host).ok()?;
        weir_lab::side_of(host)
    }

    /// The counters of an emulator.
    pub(in crate::scenario) fn stats(&self, name: &str) -> Result<Value, ScenarioError> {
        let Some(socket) = self.emulator(Some(name))?.socket() else {
            return Err(ScenarioError::program(name, "it has no control socket here"));
        };
        Ok(ask(socket, &json!({ "verb": "stats" }))?["report"].take())
    }

    /// Restores every emulator that was already running. Tries all; returns the first failure.
    pub(in crate::scenario) fn restore(&mut self) -> Result<(), ScenarioError> {
        let mut first = Ok(());
        for (name, emulator) in &mut self.emulators {
            let done = emulator.restore().map_err(|error| {
                let what = format!("emulator {name}");
                ScenarioError::program(
                    &what,
                    &format!("its former laws were not restored: {error}"),
                )
            });
            first = first.and(done);
        }
        first
    }

    fn emulator(&self, name: Option<&str>) -> Result<&Emulator, ScenarioError> {
        match name {
            Some(name) => self.emulators.get(name),
            None => self.emulators.values().next(),
        }
        .ok_or_else(|| {
            ScenarioError::program(name.unwrap_or("emulator"), "there is no such emulator")
        })
    }
}

/// Whether an emulator is between the hosts of the lab.
fn is_in_middle(spec: &EmulatorSpec) -> bool {
    spec.interfaces.is_none() && spec.control_socket.is_none()
}

/// Loss ratio from which connections fail.
const MUCH_LOSS: f64 = 0.1;

/// The laws of an emulator if they lose many packets.
fn losing(impairment: &Impairment) -> Option<String> {
    let flows = impairment.flows.iter().flat_map(|flow| [&flow.a_to_b, &flow.b_to_a]);
    let all = flows.chain([&impairment.other.a_to_b, &impairment.other.b_to_a]);
    all.filter_map(|laws| laws.loss.as_ref()).find_map(|loss| {
        let is_much = !loss.ecn && loss.mean().is_some_and(|mean| mean >= MUCH_LOSS);
        is_much.then(|| Laws { loss: Some(loss.clone()), ..Laws::default() }.to_string())
    })
}

fn at(socket: &Path) -> String {
    format!("emulator at {}", socket.display())
}

/// No emulator listens, or this user has no access to its socket.
fn not_reached(socket: &Path, error: &io::Error) -> ScenarioError {
    let reason = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            format!("no emulator listens there ({error})")
        }
        _ => error.to_string(),
    };
    ScenarioError::Program {
        what: at(socket),
        reason,
        is_unavailable: error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// Sends a request to an emulator; a refusal is an error.
fn ask(socket: &Path, request: &Value) -> Result<Value, ScenarioError> {
    let answer =
        weir_emulator::control::ask(socket, request).map_err(|e| not_reached(socket, &e))?;
    match answer["ok"].as_bool() {
        Some(true) => Ok(answer),
        _ => {
            let reason = answer["error"].as_str().unwrap_or("no answer");
            Err(ScenarioError::program(&at(socket), reason))
        }
    }
}

fn set(socket: &Path, impairment: &Impairment) -> Result<(), ScenarioError> {
    let impairment =
        serde_json::to_value(impairment).map_err(failed("write laws for", &at(socket)))?;
    ask(socket, &json!({ "verb": "set", "impairment": impairment })).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_loss_is_reported_by_its_law() {
        let of = |laws: &str| losing(&Impairment::of_both(laws.parse().unwrap()));
        assert_eq!(of("loss 95%, delay 5ms").as_deref(), Some("loss 95%"));
        assert_eq!(of("loss every 2, duplicate 1%").as_deref(), Some("loss every 2"));
        assert_eq!(of("loss 40% run 4").as_deref(), Some("loss 40% run 4"));
        for little in ["loss 1%", "delay 5ms", "rate 1M", "loss every 100", "loss 1% run 4"] {
            assert_eq!(of(little), None, "{little}");
        }
    }

    /// A missing permission and a missing emulator have different exit codes.
    #[test]
    fn an_emulator_of_another_user_is_not_permitted() {
        for (kind, wanted) in [
            (io::ErrorKind::PermissionDenied, true),
            (io::ErrorKind::NotFound, false),
            (io::ErrorKind::ConnectionRefused, false),
            (io::ErrorKind::TimedOut, false),
        ] {
            let error = not_reached(Path::new("/x"), &kind.into());
            let ScenarioError::Program { is_unavailable, what, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!((*is_unavailable, what.as_str()), (wanted, "emulator at /x"), "{kind}");
        }
    }
}
