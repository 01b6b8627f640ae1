//! Where a key comes from, and what others can see of it.

use std::path::{Path, PathBuf};

use clap::Args;
use weir_jobs::KeySource;

use crate::engine::Key;
use crate::error::CliError;

/// The variable that may hold a key.
const VARIABLE: &str = "WEIR_KEY";
/// A key or passphrase file is read up to this many bytes.
const MAX_FILE_BYTES: u64 = 4096;

#[derive(Debug, Args)]
#[command(next_help_heading = "Key")]
pub(crate) struct KeyArgs {
    /// The shared key, as `weir keygen` prints it. Other users see it in the process list: prefer WEIR_KEY or a file
    #[arg(long, value_name = "KEY", conflicts_with_all = ["key_file", "passphrase_file"])]
    pub(crate) key: Option<String>,
    /// Read the shared key from this file [default: environment variable WEIR_KEY, else no key]
    #[arg(long, value_name = "FILE", conflicts_with = "passphrase_file")]
    pub(crate) key_file: Option<PathBuf>,
    /// Derive the key (Argon2id) from the first line of this file. Unlike a key, a passphrase can be guessed offline
    #[arg(long, value_name = "FILE")]
    pub(crate) passphrase_file: Option<PathBuf>,
}

impl KeyArgs {
    /// Where the key comes from.
    pub(crate) fn source(&self) -> KeySource {
        KeySource {
            key: self.key.clone(),
            key_file: self.key_file.clone(),
            passphrase_file: self.passphrase_file.clone(),
        }
    }

    /// The key, if one is given, with warnings to print.
    ///
    /// # Errors
    /// As [`resolve`].
    pub(crate) fn resolve(&self) -> Result<(Option<Key>, Vec<String>), CliError> {
        let (key, mut warnings) = resolve(&self.source())?;
        if self.key.is_some() {
            warnings.push(
                "--key can be read by every user of this host in the list of processes; use --key-file or WEIR_KEY".into(),
            );
        }
        Ok((key, warnings))
    }
}

/// The key of a source, if there is one, with warnings to print.
///
/// # Errors
/// [`CliError::Flag`] for what is no key, [`CliError::Io`] for a file that can't be read.
pub(crate) fn resolve(source: &KeySource) -> Result<(Option<Key>, Vec<String>), CliError> {
    let mut warnings = vec![];
    let key = if let Some(text) = &source.key {
        Some(from_text("--key", text)?)
    } else if let Some(path) = &source.key_file {
        warnings.extend(readable_by_others(path));
        Some(from_text("--key-file", &read(path, "--key-file: read")?)?)
    } else if let Some(path) = &source.passphrase_file {
        warnings.extend(readable_by_others(path));
        let text = read(path, "--passphrase-file: read")?;
        let phrase = text.lines().next().unwrap_or_default();
        if phrase.is_empty() {
            return Err(CliError::flag("--passphrase-file", "an empty first line", "a passphrase"));
        }
        Some(Key::from_passphrase(phrase)?)
    } else {
        match std::env::var(VARIABLE) {
            Ok(text) if !text.is_empty() => Some(from_text(VARIABLE, &text)?),
            Err(std::env::VarError::NotUnicode(_)) => {
                return Err(CliError::flag(VARIABLE, "not text", "a key of `weir keygen`"));
            }
            _ => None,
        }
    };
    Ok((key, warnings))
}

/// The key in a text; the text itself is never printed, since it is likely a mistyped secret.
fn from_text(origin: &str, text: &str) -> Result<Key, CliError> {
    text.trim()
        .parse()
        .map_err(|_| CliError::flag(origin, "not a key", "256 bits as `weir keygen` prints them"))
}

/// Reads a secret's file.
fn read(path: &Path, operation: &'static str) -> Result<String, CliError> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE_BYTES).read_to_string(&mut text))
        .map_err(CliError::io(operation, path))?;
    Ok(text)
}

/// A warning when users other than the owner can read a secret's file.
#[cfg(unix)]
fn readable_by_others(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let mode = std::fs::metadata(path).ok().filter(|m| m.is_file())?.mode();
    (mode & 0o077 != 0).then(|| {
        format!(
            "{} can be read or written by other users (mode {:03o}); run: chmod 600 {0}",
            path.display(),
            mode & 0o777
        )
    })
}

#[cfg(not(unix))]
fn readable_by_others(_: &Path) -> Option<String> {
    None
}
