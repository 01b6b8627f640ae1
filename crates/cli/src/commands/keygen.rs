//! `weir keygen`: a new key for `--key-file` and WEIR_KEY on both sides.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use weir_net::file::private;
use weir_net::secret::exposed_stdout;

use crate::engine::Key;
use crate::error::CliError;
use crate::job::warn;
use crate::output::print;

/// Print a new 256-bit key
#[derive(Debug, Args)]
#[command(
    after_help = "Store it in a file that only you can read:\n  weir keygen --output key\n  weir serve --key-file key"
)]
pub(crate) struct KeygenArgs {
    /// Write it to this new file with mode 0600 instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Prints or writes the key.
pub(crate) fn run(args: &KeygenArgs) -> Result<i32, CliError> {
    let line = format!("{}\n", Key::generate()?);
    if let Some(path) = args.output.as_deref().filter(|path| path.as_os_str() != "-") {
        return write(path, &line).map(|()| 0);
    }
    let code = print(&line)?;
    if let Some(mode) = exposed_stdout() {
        warn(
            "key-exposed",
            &format!(
                "other users can read the key file (mode {mode:03o}); run chmod 600 on it, \
                or use weir keygen --output FILE"
            ),
        );
    }
    Ok(code)
}

/// Writes a new file: an existing key is not overwritten.
///
/// # Errors
/// [`CliError::Io`].
pub(crate) fn write(path: &Path, line: &str) -> Result<(), CliError> {
    write_new(path, line).map_err(CliError::io("write key file", path))
}

fn write_new(path: &Path, line: &str) -> std::io::Result<()> {
    let mut file = private(std::fs::File::options().write(true).create_new(true)).open(path)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()
}
