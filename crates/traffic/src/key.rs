//! The optional key of a server: 256 bits, made by `weir keygen` or derived from a passphrase.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::TrafficError;

/// Salt of the derivation from a passphrase. It is fixed and published, so that both sides need only the passphrase;
/// the price is that equal passphrases give equal keys everywhere, and that a passphrase can be guessed offline.
const PASSPHRASE_SALT: &[u8] = b"weir passphrase v1";
/// Argon2id memory, KiB (RFC 9106, second recommended option).
const PASSPHRASE_MEMORY_KIB: u32 = 64 * 1024;
/// Argon2id passes.
const PASSPHRASE_PASSES: u32 = 3;
/// Argon2id lanes.
const PASSPHRASE_LANES: u32 = 4;

/// A pre-shared key. Its bytes are never printed by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// A new random key.
    ///
    /// # Errors
    /// When the system's random generator fails.
    pub fn generate() -> Result<Key, TrafficError> {
        Ok(Key(random()?))
    }

    /// The key derived from a passphrase: Argon2id with the published salt and cost.
    ///
    /// # Errors
    /// When the passphrase is shorter than 8 bytes or memory is short.
    pub fn from_passphrase(passphrase: &str) -> Result<Key, TrafficError> {
        if passphrase.len() < 8 {
            return Err(TrafficError::Input {
                field: "passphrase",
                given: format!("{} bytes", passphrase.len()),
                accepted: "at least 8 bytes".into(),
            });
        }
        let failed = |e: String| TrafficError::Input {
            field: "passphrase",
            given: e,
            accepted: "memory for Argon2id (64 MiB)".into(),
        };
        let params = argon2::Params::new(
            PASSPHRASE_MEMORY_KIB,
            PASSPHRASE_PASSES,
            PASSPHRASE_LANES,
            Some(32),
        )
        .map_err(|e| failed(e.to_string()))?;
        let mut out = [0; 32];
        argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params)
            .hash_password_into(passphrase.as_bytes(), PASSPHRASE_SALT, &mut out)
            .map_err(|e| failed(e.to_string()))?;
        Ok(Key(out))
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for Key {
    type Err = TrafficError;
    /// 44 characters of base64 (as `weir keygen` prints it) or 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Key, TrafficError> {
        let text = text.trim();
        let bytes = if text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit()) {
            from_hex(text)
        } else {
            STANDARD.decode(text).ok()
        };
        // The given value is a secret: the message does not repeat it.
        bytes.and_then(|b| b.try_into().ok()).map(Key).ok_or_else(|| TrafficError::Input {
            field: "key",
            given: format!("{} characters", text.chars().count()),
            accepted:
                "44 characters of base64 as 'weir keygen' prints them, or 64 hexadecimal digits"
                    .into(),
        })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

/// Random bytes from the system.
///
/// # Errors
/// [`TrafficError::System`].
pub fn random<const N: usize>() -> Result<[u8; N], TrafficError> {
    let mut out = [0; N];
    getrandom::fill(&mut out).map_err(|e| {
        TrafficError::system("reading the system's randomness", std::io::Error::other(e))
    })?;
    Ok(out)
}

pub(crate) use weir_model::hex::{decode as from_hex, encode as to_hex};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_keys_parse_and_debug_hides() {
        let key = Key::generate().unwrap();
        assert_eq!(key.to_string().parse::<Key>().unwrap(), key);
        assert_eq!(to_hex(key.bytes()).parse::<Key>().unwrap(), key);
        assert!(!format!("{key:?}").contains(&key.to_string()));
    }

    #[test]
    fn bad_keys_are_refused_without_being_repeated() {
        let e = "not-a-key-but-secret".parse::<Key>().unwrap_err();
        assert!(!e.to_string().contains("secret") && e.exit_code() == 2, "{e}");
        assert!(Key::from_passphrase("short").is_err());
    }

    #[test]
    fn passphrases_are_stable() {
        let key = Key::from_passphrase("correct horse battery").unwrap();
        assert_eq!(key, Key::from_passphrase("correct horse battery").unwrap());
        assert_ne!(key, Key::from_passphrase("correct horse batterz").unwrap());
        // By argon2-cffi: hash_secret_raw(passphrase, salt, 3, 65536, 4, 32, Type.ID, 19).
        let known = "d7d3ace68f695a3c43e203e65fddd12fe060e07ed853630a75ee58046bf2af49";
        assert_eq!(to_hex(key.bytes()), known);
    }
}
