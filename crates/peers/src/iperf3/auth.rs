//! Authentication of a client: its name, its password and the time, encrypted with the server's public RSA key.
//!
//! iperf3 from 3.17 pads by OAEP (RFC 8017, section 7.1, with SHA-1); before that, and with `--use-pkcs1-padding`, by PKCS#1 v1.5.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::{DecodePrivateKey, DecodePublicKey};
use rsa::rand_core::{TryCryptoRng, TryRng};
use rsa::{Oaep, Pkcs1v15Encrypt, PrivateKey, PublicKey};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// Seconds since 1970, by this host's clock.
pub(super) fn now_seconds() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}

/// Random bytes of the system.
struct System;

impl TryRng for System {
    type Error = getrandom::Error;

    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        getrandom::u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        getrandom::u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        getrandom::fill(bytes)
    }
}

impl TryCryptoRng for System {}

/// How credentials are padded before they are encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Padding {
    /// OAEP with SHA-1, of iperf3 from 3.17.
    #[default]
    Oaep,
    /// PKCS#1 v1.5, of older versions.
    Pkcs1,
}

/// A key or a file of users that is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Not a public RSA key in PEM.
    #[error("it is not a public RSA key in PEM (BEGIN PUBLIC KEY)")]
    PublicKey,
    /// Not a private RSA key in PEM.
    #[error(
        "it is not an unencrypted private RSA key in PEM (BEGIN PRIVATE KEY or BEGIN RSA PRIVATE KEY)"
    )]
    PrivateKey,
    /// A line of the file of users.
    #[error("line {0} is not USER,HASH with the SHA-256 of {{USER}}PASSWORD in hexadecimal")]
    Users(usize),
    /// White space or a NUL in a name or a password, or none at all.
    #[error("a name and a password have at least one character, and neither white space nor NUL")]
    Characters,
    /// The credentials are longer than the key can encrypt.
    #[error("name and password are too long for the key")]
    Length,
}

/// The credentials of a client.
#[derive(Clone)]
pub struct Login {
    user: String,
    password: String,
    key: PublicKey,
    padding: Padding,
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Login {
    /// Credentials for a server with the public key `pem`.
    ///
    /// # Errors
    /// [`LoginError`].
    pub fn new(
        user: &str,
        password: &str,
        pem: &str,
        padding: Padding,
    ) -> Result<Login, LoginError> {
        let key = PublicKey::from_public_key_pem(pem).map_err(|_| LoginError::PublicKey)?;
        let is_word = |text: &str| {
            !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '\0')
        };
        if !is_word(user) || !is_word(password) {
            return Err(LoginError::Characters);
        }
        let login = Login { user: user.into(), password: password.into(), key, padding };
        login.token(i64::MAX).map(|_| login.clone())
    }

    /// The token that shows these credentials at a time, s since 1970.
    pub(super) fn token(&self, now_seconds: i64) -> Result<String, LoginError> {
        let text = format!("user: {}\npwd:  {}\nts:   {now_seconds}", self.user, self.password);
        let encrypted = match self.padding {
            Padding::Oaep => self.key.encrypt(&mut System, Oaep::<Sha1>::new(), text.as_bytes()),
            Padding::Pkcs1 => self.key.encrypt(&mut System, Pkcs1v15Encrypt, text.as_bytes()),
        };
        encrypted.map(|bytes| BASE64.encode(bytes)).map_err(|_| LoginError::Length)
    }
}

/// The users that a server accepts.
#[derive(Clone)]
pub struct Logins {
    key: PrivateKey,
    /// SHA-256 of `{USER}PASSWORD`, by user.
    users: HashMap<String, [u8; 32]>,
    skew_seconds: u32,
    padding: Padding,
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("users", &self.users.len()).finish_non_exhaustive()
    }
}

impl Logins {
    /// Users of a file with a line `USER,HASH` for each, for a server with the private key `pem`. Lines that begin with `#` are
    /// comments. `skew_seconds`: accepted difference between the clocks.
    ///
    /// # Errors
    /// [`LoginError`].
    pub fn new(
        pem: &str,
        users: &str,
        skew_seconds: u32,
        padding: Padding,
    ) -> Result<Logins, LoginError> {
        let key = PrivateKey::from_pkcs8_pem(pem)
            .or_else(|_| PrivateKey::from_pkcs1_pem(pem))
            .map_err(|_| LoginError::PrivateKey)?;
        let mut known = HashMap::new();
        for (index, line) in users.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parts = line.split_once(',');
            let parts = parts.and_then(|(user, hash)| Some((user, weir_model::hex::decode(hash)?)));
            let parts = parts.and_then(|(user, hash)| Some((user, hash.try_into().ok()?)));
            let (user, hash) = parts.ok_or(LoginError::Users(index + 1))?;
            known.insert(user.to_owned(), hash);
        }
        Ok(Logins { key, users: known, skew_seconds, padding })
    }

    /// The user whose credentials a token shows at a time, s since 1970. `None` for every reason alike, so that the answer does not
    /// help to guess. It takes some ms of CPU time.
    pub(super) fn user(&self, token: &str, now_seconds: i64) -> Option<String> {
        let encrypted = BASE64.decode(token).ok()?;
        let decrypted = match self.padding {
            Padding::Oaep => self.key.decrypt_blinded(&mut System, Oaep::<Sha1>::new(), &encrypted),
            Padding::Pkcs1 => self.key.decrypt_blinded(&mut System, Pkcs1v15Encrypt, &encrypted),
        };
        let text = String::from_utf8(decrypted.ok()?).ok()?;
        let mut lines = text.lines();
        let mut field = |name: &str| Some(lines.next()?.strip_prefix(name)?.trim());
        let (user, password) = (field("user:")?, field("pwd:")?);
        let at_seconds: i64 = field("ts:")?.parse().ok()?;
        let is_now = at_seconds.abs_diff(now_seconds) <= self.skew_seconds.into();
        let hash: [u8; 32] = Sha256::digest(format!("{{{user}}}{password}")).into();
        let is_known = self.users.get(user).is_some_and(|known| *known == hash);
        (is_now && is_known).then(|| user.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Made for these tests by `openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048` and `openssl pkey -pubout`.
    const PRIVATE: &str = include_str!("../../tests/data/iperf3-private.pem");
    const PUBLIC: &str = include_str!("../../tests/data/iperf3-public.pem");
    /// The password is "secret".
    const USERS: &str = "# users\n\nada,4a3d8b\n";
    const NOW: i64 = 1_795_000_000;

    fn users() -> String {
        let hash: [u8; 32] = Sha256::digest("{ada}secret").into();
        let hash: String = hash.iter().map(|byte| format!("{byte:02X}")).collect();
        format!("# users\n\nada,{hash}\r\n")
    }

    #[test]
    fn a_known_user_is_accepted_with_either_padding() {
        for padding in [Padding::Oaep, Padding::Pkcs1] {
            let token = Login::new("ada", "secret", PUBLIC, padding).unwrap().token(NOW).unwrap();
            let logins = Logins::new(PRIVATE, &users(), 10, padding).unwrap();
            assert_eq!(logins.user(&token, NOW + 10).as_deref(), Some("ada"));
            assert_eq!(logins.user(&token, NOW - 10).as_deref(), Some("ada"));
            assert_eq!(logins.user(&token, NOW + 11), None);
            let other = if padding == Padding::Oaep { Padding::Pkcs1 } else { Padding::Oaep };
            let logins = Logins::new(PRIVATE, &users(), 10, other).unwrap();
            assert_eq!(logins.user(&token, NOW), None);
        }
    }

    #[test]
    fn others_are_not() {
        let logins = Logins::new(PRIVATE, &users(), 10, Padding::Oaep).unwrap();
        for (user, password) in [("ada", "Secret"), ("eve", "secret"), ("ada", "{ada}secret")] {
            let login = Login::new(user, password, PUBLIC, Padding::Oaep).unwrap();
            assert_eq!(logins.user(&login.token(NOW).unwrap(), NOW), None, "{user}");
        }
        for token in ["", "AAAA", "not base64!", &"A".repeat(344), &"A".repeat(8000)] {
            assert_eq!(logins.user(token, NOW), None);
        }
    }

    #[test]
    fn what_is_no_key_or_user_is_refused() {
        let login = |user, password, pem| Login::new(user, password, pem, Padding::Oaep).err();
        assert_eq!(login("ada", "secret", PRIVATE), Some(LoginError::PublicKey));
        assert_eq!(login("a da", "secret", PUBLIC), Some(LoginError::Characters));
        assert_eq!(login("ada", "", PUBLIC), Some(LoginError::Characters));
        assert_eq!(login("ada", &"x".repeat(300), PUBLIC), Some(LoginError::Length));
        let logins = |pem, users| Logins::new(pem, users, 10, Padding::Oaep).err();
        assert_eq!(logins(PUBLIC, ""), Some(LoginError::PrivateKey));
        assert_eq!(logins(PRIVATE, USERS), Some(LoginError::Users(3)));
        assert_eq!(logins(PRIVATE, "ada"), Some(LoginError::Users(1)));
    }
}
