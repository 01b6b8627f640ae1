//! `weir man`: manual pages, generated from the definition of the flags.

use std::path::PathBuf;

use clap::Args;
use clap_mangen::Man;

use crate::app::command_line;
use crate::error::CliError;
use crate::output::print;

/// Print the manual page, or write those of all commands
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Write weir.1, weir-test.1 and so on into this directory, which is created if missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints or writes the pages.
pub(crate) fn run(args: &ManArgs) -> Result<i32, CliError> {
    let render = |page: &Man| {
        let mut text = vec![];
        page.render(&mut text).map(|()| text)
    };
    let Some(directory) = &args.out else {
        let text =
            render(&Man::new(command_line())).map_err(CliError::io("make page", "weir.1"))?;
        return print(&String::from_utf8_lossy(&text));
    };
    std::fs::create_dir_all(directory).map_err(CliError::io("make directory", directory))?;
    let mut commands = command_line();
    commands.build();
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
