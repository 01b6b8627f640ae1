//! The shared key: from a flag, a file or the environment.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use weir_jobs::KeySource;
use weir_net::secret::{READ, WRITE, exposed};
use weir_wire::hmac::HmacKey;

use crate::engine::Key;
use crate::error::CliError;

/// The variable that may hold a key.
const VARIABLE: &str = "WEIR_KEY";
/// Maximum length of a key or passphrase file, bytes.
const MAX_FILE_BYTES: u64 = 4096;

#[derive(Debug, Default, Args)]
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
    /// The source of the key.
    pub(crate) fn source(&self) -> KeySource {
        KeySource {
            key: self.key.clone(),
            key_file: self.key_file.clone(),
            passphrase_file: self.passphrase_file.clone(),
        }
    }

    /// The key, if one is given, and a warning about `--key`.
    ///
    /// # Errors
    /// As [`resolve`].
    pub(crate) fn resolve(&self) -> Result<(Option<Key>, Vec<String>), CliError> {
        let key = resolve(&self.source())?;
        let mut warnings = vec![];
        if self.key.is_some() {
            warnings.push(
                "--key is visible to every user of this host in the process list; use --key-file or WEIR_KEY".into(),
            );
        }
        Ok((key, warnings))
    }
}

/// The key of a source, if there is one.
///
/// # Errors
/// [`CliError::Flag`] for an invalid key and for a file that other users can access, [`CliError::Io`] for a file that
/// can't be read.
pub(crate) fn resolve(source: &KeySource) -> Result<Option<Key>, CliError> {
    let key = if let Some(text) = &source.key {
        Some(from_text("--key", text)?)
    } else if let Some(path) = &source.key_file {
        Some(from_text("--key-file", &read("--key-file", "--key-file: read", path)?)?)
    } else if let Some(path) = &source.passphrase_file {
        let text = read("--passphrase-file", "--passphrase-file: read", path)?;
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
    Ok(key)
}

/// The key of HMACs in a file: its first line, as text or as hex digits after `0x`.
///
/// # Errors
/// [`CliError::Flag`] for an empty or invalid line and for a file that other users can access, [`CliError::Io`] for a file that
/// can't be read.
pub(crate) fn hmac(path: Option<&Path>) -> Result<Option<HmacKey>, CliError> {
    const FLAG: &str = "--hmac-key-file";
    let Some(path) = path else { return Ok(None) };
    let text = read(FLAG, "--hmac-key-file: read", path)?;
    let line = text.lines().next().unwrap_or_default();
    let secret = match line.strip_prefix("0x") {
        Some(digits) => hex(digits),
        None => Some(line.as_bytes().to_vec()),
    };
    match secret.filter(|secret| !secret.is_empty()) {
        Some(secret) => Ok(Some(HmacKey::new(&secret))),
        // The line is not quoted: it is likely a mistyped secret.
        None => Err(CliError::flag(
            FLAG,
            "not a key",
            "a first line of text, or of 0x and pairs of hex digits",
        )),
    }
}

/// The bytes of pairs of hex digits.
fn hex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8)).collect()
}

/// Parses a key. The error never quotes the text, since it is likely a mistyped secret.
fn from_text(origin: &str, text: &str) -> Result<Key, CliError> {
    text.trim()
        .parse()
        .map_err(|_| CliError::flag(origin, "not a key", "256 bits as `weir keygen` prints them"))
}

/// Reads a file with a secret; refuses one that users other than its owner can read or write.
fn read(flag: &'static str, operation: &'static str, path: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::io(operation, path)(error);
    let file = File::open(path).map_err(failed)?;
    if let Some(mode) = exposed(&file.metadata().map_err(failed)?, READ | WRITE) {
        return Err(CliError::flag(
            flag,
            format!("{} with mode {mode:03o}, which other users can access", path.display()),
            &format!("a file that only its owner can access: chmod 600 {}", path.display()),
        ));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_that_other_users_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "secret").unwrap();
        let of_mode = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read("--key-file", "read", &path)
        };
        assert_eq!(of_mode(0o600).unwrap(), "secret");
        // A directory that others can write, and a link in it, are accepted.
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(read("--key-file", "read", &link).unwrap(), "secret");
        for mode in [0o604, 0o602, 0o644] {
            let error = of_mode(mode).unwrap_err();
            assert!(matches!(error, CliError::Flag { .. }), "{mode:o}: {error:?}");
        }
        assert_eq!(read("--key-file", "read", Path::new("/dev/null")).unwrap(), "");
    }

    #[test]
    fn keys_of_hmacs_are_text_or_hex_digits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let of = |text: &str| {
            std::fs::write(&path, text).unwrap();
            hmac(Some(&path))
        };
        let tag = |key: HmacKey| key.of(&[b"packet"]);
        let wanted = tag(HmacKey::new(b"key\x01"));
        for text in ["key\x01", "key\x01\nmore\n", "0x6b657901\n", "0x6B657901"] {
            assert_eq!(of(text).unwrap().map(tag), Some(wanted), "{text:?}");
        }
        for text in ["", "\n", "0x", "0x6", "0x6g", "0x6b 65"] {
            assert!(matches!(of(text), Err(CliError::Flag { .. })), "{text:?}");
        }
        assert!(hmac(None).unwrap().is_none());
    }
}
