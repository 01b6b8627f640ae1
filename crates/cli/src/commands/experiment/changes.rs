//! Detects that the file of a resumed experiment has changed since its start. The experiment still uses the original text,
//! which the user has to know.

use std::path::PathBuf;

use weir_experiment::scenario::checkpoint::CheckpointHeader;
use weir_model::experiment::{Action, Scenario, test_plan};
use weir_model::plan::Plan;
use weir_net::output::descriptor_of;

use super::read_text;
use crate::app::{ScenarioSource, file_of};

/// The file of the scenario or plan, by the experiment's command, if it exists and differs from the text used at the start.
pub(super) fn changed(head: &CheckpointHeader, scenario: &Scenario) -> Option<PathBuf> {
    match file_of(&head.command)? {
        // `head.directory` is the directory of the scenario's file.
        ScenarioSource::Scenario(file) => {
            let file = plain(head.directory.join(file.file_name()?))?;
            (read_text(&file).ok()? != head.scenario).then_some(file)
        }
        ScenarioSource::Plan(file) => {
            let file = plain(head.directory.join(file))?;
            let now = Plan::parse(&read_text(&file).ok()?);
            let Some(Action::Sweep(sweep)) = scenario.steps.first()?.action() else { return None };
            let before = test_plan(sweep.test.plan.as_ref()?).ok()?;
            // These fields are set by the command line.
            let own = |plan: Plan| Plan {
                host: None,
                port: before.port,
                title: before.title.clone(),
                ..plan
            };
            (now.ok().map(own).as_ref() != Some(&before)).then_some(file)
        }
    }
}

/// The path if it is a regular file. Standard input and pipes can't be read twice, and reading one would block.
fn plain(file: PathBuf) -> Option<PathBuf> {
    (descriptor_of(&file).is_none() && file.is_file()).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_compared() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.toml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(plain(file.clone()), Some(file));
        for other in ["/dev/stdin", "/dev/fd/0", "/dev/null", "/nowhere/s.toml"] {
            assert_eq!(plain(other.into()), None, "{other}");
        }
    }
}
