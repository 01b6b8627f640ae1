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
    // A `help` command would be in the lists of subcommands without a page of its own.
    let mut commands = without_help(command_line());
    commands.build();
    let Some(directory) = &args.out else {
        let (_, text) = page(&named(commands, &args.command)?)?;
        return print(&text);
    };
    std::fs::create_dir_all(directory).map_err(CliError::io("make directory", directory))?;
    for (name, text) in pages(&commands)? {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(CliError::io("write page", &path))?;
    }
    Ok(0)
}

fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// The pages of a command and of all its subcommands: file names and texts.
fn pages(command: &clap::Command) -> Result<Vec<(String, String)>, CliError> {
    let mut out = vec![page(command)?];
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        out.extend(pages(sub)?);
    }
    Ok(out)
}

/// The file name and the text of a command's page.
fn page(command: &clap::Command) -> Result<(String, String), CliError> {
    let notes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    // Rendered below: the generator would join all lines into one paragraph.
    let page = Man::new(command.clone().after_help(None::<&str>));
    let mut text = vec![];
    page.render(&mut text).map_err(CliError::io("make page", page.get_filename()))?;
    let text = String::from_utf8_lossy(&text).into_owned() + &sections(&notes);
    Ok((page.get_filename(), text))
}

/// Maximum length of a heading: a longer line that ends in a colon is a sentence.
const MAX_HEADING: usize = 20;
/// The line of a help text that lists exit codes.
const EXIT_CODES: &str = "Exit codes: ";

/// The text below a command's flags as sections of a manual page. A short line with a colon before indented lines is a
/// heading; indented lines are printed as they are; the line of exit codes and the other lines get sections of their own.
fn sections(help: &str) -> String {
    let mut out = String::new();
    let mut current = String::new();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let is_table = |line: &&str| line.starts_with("  ");
        let heading = line.strip_suffix(':').filter(|text| text.len() <= MAX_HEADING);
        let heading = heading.filter(|_| lines.peek().is_some_and(is_table));
        let (section, text) = match (heading, line.strip_prefix(EXIT_CODES)) {
            (Some(heading), _) => (heading.to_uppercase(), ""),
            (None, Some(codes)) => ("EXIT STATUS".to_owned(), codes),
            (None, None) if line.is_empty() || is_table(&line) => (current.clone(), line),
            (None, None) => ("NOTES".to_owned(), line),
        };
        if section != current {
            out += &format!(".SH {section}\n");
            current = section;
        }
        if is_table(&line) {
            // Near the margin: a table of help is as wide as a terminal.
            out += &format!(".RS -4\n.nf\n{}\n", escaped(text.strip_prefix("  ").unwrap_or(text)));
            while let Some(line) = lines.next_if(is_table) {
                out += &format!("{}\n", escaped(line.strip_prefix("  ").unwrap_or(line)));
            }
            out += ".fi\n.RE\n";
        } else if !text.is_empty() {
            out += &format!(".PP\n{}\n", escaped(text));
        }
    }
    out
}

/// A line of text for roff.
fn escaped(line: &str) -> String {
    let line = line.replace('\\', "\\e").replace('-', "\\-");
    // A line that starts with one of these is a request.
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line }
}

/// The command that a path of names selects.
fn named(root: clap::Command, path: &[String]) -> Result<clap::Command, CliError> {
    path.iter().try_fold(root, |command, name| match command.find_subcommand(name) {
        Some(found) => Ok(found.clone()),
        None => Err(CliError::flag("COMMAND", name, &names_of(&command))),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all() -> Vec<(String, String)> {
        let mut commands = without_help(command_line());
        commands.build();
        pages(&commands).unwrap()
    }

    #[test]
    fn every_page_that_a_page_names_is_there() {
        let pages = all();
        let names: BTreeSet<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), pages.len());
        assert!(names.contains("weir-impair-set.1"));
        let mut named = 0;
        for (page, text) in &pages {
            let text = text.replace('\\', "");
            for (before, _) in text.match_indices("(1)").map(|(at, _)| text.split_at(at)) {
                let start = before.rfind(|c: char| !(c.is_alphanumeric() || c == '-'));
                let name = &before[start.map_or(0, |at| at + 1)..];
                assert!(names.contains(format!("{name}.1").as_str()), "{page}: {name}(1)");
                named += 1;
            }
        }
        assert!(named > 40, "{named}");
    }

    #[test]
    fn tables_and_exit_codes_have_sections() {
        let text = sections(
            "First.\nLaws:\n  loss P%   one\n  .x\n\nExit codes: 0 done.\nA sentence that ends so:\n  weir -x",
        );
        let wanted = ".SH NOTES\n.PP\nFirst.\n.SH LAWS\n.RS -4\n.nf\nloss P%   one\n\\&.x\n.fi\n.RE\n\
                      .SH EXIT STATUS\n.PP\n0 done.\n\
                      .SH NOTES\n.PP\nA sentence that ends so:\n.RS -4\n.nf\nweir \\-x\n.fi\n.RE\n";
        assert_eq!(text, wanted);
        assert_eq!(escaped(".so x\\y"), "\\&.so x\\ey");
        let pages = all();
        let impair = &pages.iter().find(|(name, _)| name == "weir-impair.1").unwrap().1;
        assert!(
            impair.contains(".SH LAWS\n.RS -4\n.nf\n") && !impair.contains("EXTRA"),
            "{impair}"
        );
    }
}
