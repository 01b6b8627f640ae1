//! `weir man`: manual pages, generated from the definition of the flags.

use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;

use crate::app::command_line;
use crate::error::CliError;
use crate::output::print;
use crate::parsed::names_of;

/// Print the manual page, or write those of all commands
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The command whose page is printed, such as test or impair exec [default: weir itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
    /// Write weir.1, weir-test.1 and so on into this directory, which is created if missing
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
pub(crate) fn run(args: &ManArgs) -> Result<i32, CliError> {
    let render = |page: &Man| {
        let mut text = vec![];
        page.render(&mut text).map(|()| text)
    };
    let mut commands = command_line();
    commands.build();
    let Some(directory) = &args.out else {
        let page = Man::new(named(commands, &args.command)?);
        let text = render(&page).map_err(CliError::io("make page", page.get_filename()))?;
        return print(&String::from_utf8_lossy(&text));
    };
    std::fs::create_dir_all(directory).map_err(CliError::io("make directory", directory))?;
    let mut pages = vec![commands.clone()];
    pages.extend(
        commands.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help").cloned(),
    );
    for command in pages {
        let page = Man::new(command);
        let path = directory.join(page.get_filename());
        let text = render(&page).map_err(CliError::io("make page", &path))?;
        std::fs::write(&path, text).map_err(CliError::io("write page", &path))?;
    }
    Ok(0)
}

/// The command that a path of names selects.
fn named(root: clap::Command, path: &[String]) -> Result<clap::Command, CliError> {
    path.iter().try_fold(root, |command, name| match command.find_subcommand(name) {
        Some(found) => Ok(found.clone()),
        None => Err(CliError::flag("COMMAND", name, &names_of(&command))),
    })
}
