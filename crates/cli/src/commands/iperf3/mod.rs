//! `weir iperf3`: iperf3's flags, text and JSON, so that what was written for iperf3 runs unchanged. The tests are those of
//! `weir test --peer iperf3` and `weir serve --peer iperf3`.
//!
//! Each flag becomes a flag of `weir test` ([`args`]), so both accept the same values and refuse the same combinations.

mod args;
mod output;
mod server;

use std::ffi::OsString;

pub(crate) use args::Iperf3Args;
pub(crate) use output::{Iperf3Output, Iperf3Settings};
pub(crate) use server::describe;

use super::test;
use super::tool::{self, Tool};
use crate::app::note;
use crate::error::CliError;
use crate::stamp::VERSION;

/// The newest version that was tried.
const SPOKEN: &str = "3.21";
/// Runs the command; prints errors itself, as iperf3 does. Returns 0, 2 after a wrong flag, or 1 after any other error.
pub(crate) fn run(args: &Iperf3Args, words: &[OsString]) -> i32 {
    if args.wants_version() {
        let text = format!("iperf {SPOKEN} (weir {VERSION})\n");
        return crate::output::print(&text).map_or(tool::FAILED, |_| 0);
    }
    let form = args.form();
    let done = match args.is_server() {
        true => server::run(args, words),
        false => client(args, words),
    };
    tool::exit_code(done, |text| output::print_error(text, form))
}

fn client(args: &Iperf3Args, words: &[OsString]) -> Result<i32, CliError> {
    let test = tool::test(args.test_words()?, Tool::Iperf3(args.output()))?;
    let extras = args.extras()?;
    test::run_for(&test, words, |config, stop, observe| {
        weir_peers::run_with(&config, &extras, &stop, observe)
    })
}

/// Prints an error as iperf3 does.
fn tell(text: &str) {
    note(&format!("iperf3: error - {text}"));
}
