//! Keys by which agents and controllers prove who they are (nkeys: Ed25519).

use std::path::Path;

use nkeys::{KeyPair, KeyPairType};
use weir_model::Refusal;

use crate::error::Error;

/// A new key.
pub struct NewKey {
    /// The secret seed, `SU…`.
    pub seed: String,
    /// The public key, `U…`, for the server's configuration.
    pub public: String,
}

/// A new key of a user of NATS.
///
/// # Errors
/// The system has no random numbers.
pub fn new_key() -> Result<NewKey, Error> {
    let failed = |error: nkeys::error::Error| Error::Bus {
        operation: "make",
        object: "a key".into(),
        reason: error.to_string(),
    };
    let pair = KeyPair::new(KeyPairType::User);
    Ok(NewKey { seed: pair.seed().map_err(failed)?, public: pair.public_key() })
}

/// The seed in a file: its first line that is not empty.
pub(crate) fn read_seed(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(Error::file("read", path))?;
    let seed = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    match KeyPair::from_seed(seed) {
        Ok(_) if seed.starts_with("SU") => Ok(seed.to_owned()),
        _ => {
            let accepted = "a file with the seed of a user's nkey (SU…), as weir fleet key makes";
            Err(Refusal::of_field("usage", "nkey", path.display().to_string(), accepted).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_read_and_others_are_refused() {
        let key = new_key().unwrap();
        assert!(key.seed.starts_with("SU") && key.public.starts_with('U'));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("\n {}\n", key.seed)).unwrap();
        assert_eq!(read_seed(file.path()).unwrap(), key.seed);
        for bad in ["", &key.public, &key.seed[..50]] {
            std::fs::write(file.path(), bad).unwrap();
            let Error::Refused(refusal) = read_seed(file.path()).unwrap_err() else { panic!() };
            assert_eq!(refusal.field.as_deref(), Some("nkey"));
        }
    }
}
