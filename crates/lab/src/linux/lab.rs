//! A lab that lasts as long as a value.

use std::ffi::OsStr;
use std::process::Command;
use std::time::Duration;

use weir_net::namespace::{ChildSetup, NetNamespace, end_processes_in};
use weir_net::watchdog::{RestoreAction, Watchdog};

use super::wiring::{Node, wire};
use crate::error::Error;
use crate::host::Host;
use crate::spec::{LabName, LabSpec};

/// Time for a process inside between SIGTERM and SIGKILL when the lab is removed.
const GRACE: Duration = Duration::from_secs(1);

/// A running lab. Dropping it ends the processes inside and removes everything; so does the death
/// of the process, even by SIGKILL.
#[derive(Debug)]
pub struct Lab {
    nodes: Vec<Node>,
    watchdog: Option<Watchdog>,
}

impl Lab {
    /// Creates a lab and waits until its links forward packets.
    ///
    /// # Errors
    /// An invalid specification, by field; errors of the system. Nothing is left then.
    pub fn up(spec: &LabSpec) -> Result<Self, Error> {
        spec.check()?;
        let nodes = wire(spec)?;
        let mut watchdog = Watchdog::spawn()?;
        for node in &nodes {
            watchdog.add(&RestoreAction::EndProcesses { namespace: node.namespace.clone() })?;
        }
        Ok(Self { nodes, watchdog: Some(watchdog) })
    }

    /// The hosts, `a` first.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.nodes.iter().filter_map(|node| node.host.as_ref())
    }

    /// A host by name.
    pub fn host(&self, name: &str) -> Result<&Host, Error> {
        self.hosts().find(|host| host.name == name).ok_or_else(|| self.no_such(name))
    }

    /// Names of all namespaces: hosts, and `m` (the middle) or `switch` where the topology has one.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }

    /// Network namespace of a host, the middle or the switch.
    pub fn namespace(&self, node: &str) -> Result<&NetNamespace, Error> {
        let found = self.nodes.iter().find(|n| n.name == node);
        found.map(|node| &node.namespace).ok_or_else(|| self.no_such(node))
    }

    /// A command prepared to run inside `node`. The command keeps the namespace alive while it lives.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command, Error> {
        command_inside(self.namespace(node)?, None, program.as_ref())
    }

    /// Runs `work` on a new thread inside `node`; see [`NetNamespace::run_in`], also for what an ordinary user must
    /// do first.
    pub fn run_in<T: Send>(&self, node: &str, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        Ok(self.namespace(node)?.run_in(work)?)
    }

    /// Whether the lab is inside a user namespace, where some operations are forbidden; see [`Self::limits`].
    pub fn is_in_user_namespace(&self) -> bool {
        self.nodes.first().is_some_and(|node| node.namespace.user_fd().is_some())
    }

    /// What programs inside cannot do, one sentence each for the user.
    pub fn limits(&self) -> Vec<String> {
        limits(self.is_in_user_namespace())
    }

    fn no_such(&self, name: &str) -> Error {
        let known: Vec<_> = self.node_names().collect();
        Error::NoSuchHost { host: name.to_owned(), known: known.join(", ") }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let namespaces: Vec<_> = self.nodes.iter().map(|node| node.namespace.clone()).collect();
        match end_processes_in(&namespaces, GRACE) {
            Ok(_) => {
                if let Some(watchdog) = self.watchdog.take() {
                    watchdog.disarm();
                }
            }
            // Dropped without disarming, the watchdog does it instead.
            Err(_) => drop(self.watchdog.take()),
        }
    }
}

/// The environment variable with the namespace and lab of a program, `LAB/NODE`. A lab without a name has none.
const PLACE: &str = "WEIR_LAB_NODE";

/// The lab in which this program was started: `LAB/NODE`, from the environment. For display only, since any parent
/// process can set it. `None` if it has another form.
#[must_use]
pub fn place_of_this_program() -> Option<String> {
    std::env::var(PLACE).ok().filter(|place| is_place(place))
}

/// `LAB/NODE`, both of the letters that a lab's name has.
fn is_place(text: &str) -> bool {
    let is_name = |text: &str| text.parse::<LabName>().is_ok();
    text.split_once('/').is_some_and(|(lab, node)| is_name(lab) && is_name(node))
}

/// A command inside a namespace, with its `place` in the environment, if it has one.
pub(crate) fn command_inside(
    namespace: &NetNamespace,
    place: Option<&str>,
    program: &OsStr,
) -> Result<Command, Error> {
    let mut command = Command::new(program);
    match place {
        Some(place) => command.env(PLACE, place),
        None => command.env_remove(PLACE),
    };
    ChildSetup::new().namespace(namespace).apply(&mut command)?;
    Ok(command)
}

pub(crate) fn limits(in_user_namespace: bool) -> Vec<String> {
    if !in_user_namespace {
        return Vec::new();
    }
    vec![
        "created in a user namespace: BPF is not permitted, so neither AF_XDP nor XDP programs \
        work (packet links fall back to AF_PACKET); run as root for these"
            .to_owned(),
        "created in a user namespace: real-time scheduling and changes to the host's settings \
        are not permitted"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_place_is_shown_as_one() {
        assert!(is_place("default/m") && is_place("a-b_C/switch"));
        for text in ["", "a", "a/", "/m", "a/b/c", "a b/m", "a/\u{1b}[2J", "../m"] {
            assert!(!is_place(text), "{text:?}");
        }
        assert!(!is_place(&format!("{}/m", "x".repeat(33))));
    }
}
