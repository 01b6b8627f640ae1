//! `weir iperf`: iperf's flags and text (iperf2), so that what was written for it runs unchanged. The tests are those of
//! `weir test --peer iperf2` and `weir serve --peer iperf2`.

mod args;
mod output;
mod server;

use std::ffi::OsString;
use std::time::Duration;

use weir_report::Iperf2Options;

pub(crate) use args::IperfArgs;
pub(crate) use output::{IperfSettings, IperfText};

use super::test;
use super::tool::{self, Tool};
use crate::error::CliError;
use crate::output::print;
use crate::stamp::VERSION;
use crate::time::{Format, local_zone};

/// The version whose text is printed.
const SPOKEN: &str = "2.1.8";

/// Runs the command; prints errors itself. Returns 0, 2 after a wrong flag, or 1 after any other error.
pub(crate) fn run(args: &IperfArgs, words: &[OsString]) -> i32 {
    if args.wants_version() {
        let text = format!("iperf version {SPOKEN} (weir {VERSION})\n");
        return print(&text).map_or(tool::FAILED, |_| 0);
    }
    let done = match args.is_server() {
        true => server::run(args, words),
        false => client(args, words),
    };
    tool::exit_code(done, tool::printed("iperf"))
}

fn client(args: &IperfArgs, words: &[OsString]) -> Result<i32, CliError> {
    let settings = args.settings()?;
    let test = tool::test(args.test_words()?, Tool::Iperf(settings))?;
    let extras = args.extras()?;
    test::run_for(&test, words, |config, stop, observe| {
        weir_peers::run_iperf2(&config, &extras, &stop, observe)
    })
}

/// The time of a line of CSV, `seconds` after the start of a test: in milliseconds with `-e`, as iperf does.
fn stamp(options: Iperf2Options, started: Duration, seconds: f64) -> String {
    let at = started + Duration::from_secs_f64(seconds.max(0.0));
    let format = if options.enhanced { "%Y%m%d%H%M%S.%3f" } else { "%Y%m%d%H%M%S" };
    let format: Result<Format, _> = format.parse();
    format.map(|format| format.render(at, local_zone())).unwrap_or_default()
}
