//! `weir netperf` and `weir netserver`: netperf's flags and text, so that what was written for netperf runs unchanged. The
//! tests are those of `weir test --peer netperf` and `weir serve --peer netperf`.

mod args;
mod ends;
mod output;
mod server;
mod values;

use std::ffi::OsString;

use weir_report::{NetperfFigures, NetperfSummary};

pub(crate) use args::NetperfArgs;
pub(crate) use output::{NetperfSettings, NetperfText};
pub(crate) use server::{NetserverArgs, serve};

use super::test;
use super::tool::{self, FAILED, Tool};
use crate::error::CliError;
use crate::output::print;
use crate::stamp::VERSION;

/// The version whose text is printed.
const SPOKEN: &str = "2.7.1";

/// Runs the command; prints errors itself. Returns 0, 2 after a wrong flag, or 1 after any other error.
pub(crate) fn run(args: &NetperfArgs, words: &[OsString]) -> i32 {
    if args.wants_version() {
        let text = format!("Netperf version {SPOKEN} (weir {VERSION})\n");
        return print(&text).map_or(FAILED, |_| 0);
    }
    tool::exit_code(client(args, words), tool::printed("netperf"))
}

fn client(args: &NetperfArgs, words: &[OsString]) -> Result<i32, CliError> {
    let Some(asked) = args.asked(words)? else {
        // The names that can be selected.
        print(&args.names()?)?;
        return Ok(FAILED);
    };
    let mut runs: Vec<NetperfFigures> = vec![];
    let [least, most] = asked.options.confidence.map_or([1, 1], |confidence| confidence.runs);
    std::thread::sleep(asked.wait);
    loop {
        let settings = NetperfSettings {
            options: asked.options.clone(),
            local: asked.local.clone(),
            is_first: runs.is_empty(),
            has_interim: asked.has_interim,
        };
        let test = tool::test(asked.words.clone(), Tool::Netperf(Box::new(settings)))?;
        let code = test::run_for(&test, words, |config, stop, observe| {
            let (outcome, stated) = weir_peers::run_netperf(&config, &asked.wanted, &stop, observe);
            if let Ok(record) = &outcome {
                runs.extend(ends::figures(record, &asked, &stated));
            }
            outcome
        })?;
        let count = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        let Some(summary) = NetperfSummary::of(&asked.options, &runs).filter(|_| code == 0) else {
            return Ok(FAILED);
        };
        if count >= most || count >= least && summary.is_confident(&asked.options) {
            print(&asked.options.results(&summary))?;
            return Ok(0);
        }
    }
}
