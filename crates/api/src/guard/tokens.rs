//! Tokens: 256 random bits, stored as SHA-256. A fast hash suffices, since they can't be guessed.

use std::io::Write as _;
use std::path::Path;

use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use weir_model::hex;
use weir_net::file::private;
use weir_net::secret::{WRITE, exposed};

use crate::config::ApiError;

/// Longest token file.
const MAX_BYTES: u64 = 1 << 20;
/// Name of the cookie with a page's token.
const COOKIE: &str = "weir_token";

/// Names and hashes.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<(String, [u8; 32])>);

impl Tokens {
    /// Reads a file: a line `NAME:SHA256` for each token.
    pub(crate) fn read(path: &Path) -> Result<Tokens, ApiError> {
        let failed =
            |source| ApiError::File { operation: "read token file", path: path.into(), source };
        let found = path.metadata().map_err(failed)?;
        // The hashes are no secret: what matters is who can add one.
        if let Some(mode) = exposed(&found, WRITE) {
            return Err(ApiError::Exposed { path: path.into(), mode });
        }
        if found.len() > MAX_BYTES {
            return Err(ApiError::Tokens { path: path.into(), line: 0 });
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let mut tokens = vec![];
        for (line, number) in text.lines().zip(1..) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let parsed = line.split_once(':').and_then(|(name, hash)| {
                Some((name.trim().to_owned(), hex::decode(hash.trim())?.try_into().ok()?))
            });
            let token = parsed.filter(|(name, _)| !name.is_empty());
            tokens.push(token.ok_or_else(|| ApiError::Tokens { path: path.into(), line: number })?);
        }
        if tokens.is_empty() {
            return Err(ApiError::Tokens { path: path.into(), line: 1 });
        }
        Ok(Tokens(tokens))
    }

    /// The name of the token in a request.
    pub(crate) fn user_of(&self, headers: &HeaderMap) -> Option<String> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
        let given = match bearer {
            Some(value) => value.strip_prefix("Bearer ")?.trim(),
            None => cookie_of(headers)?,
        };
        self.user(given)
    }

    /// The name of a token.
    pub(crate) fn user(&self, token: &str) -> Option<String> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        // Timing reveals at most the hash, which does not lead to the token.
        self.0.iter().find(|(_, known)| *known == hash).map(|(name, _)| name.clone())
    }
}

/// The token in a page's cookie.
pub(crate) fn cookie_of(headers: &HeaderMap) -> Option<&str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|v| v.to_str().ok())
        .flat_map(|v| v.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The `Set-Cookie` that sets or deletes a page's token.
pub(crate) fn cookie(token: Option<&str>) -> String {
    match token {
        Some(token) => format!("{COOKIE}={token}; Path=/api; HttpOnly; SameSite=Strict"),
        None => format!("{COOKIE}=; Path=/api; HttpOnly; SameSite=Strict; Max-Age=0"),
    }
}

/// Creates a token file with one token; returns the token, which is stored nowhere.
///
/// # Errors
/// The file exists or can't be written; no random bytes.
pub fn make_token_file(path: &Path, name: &str) -> Result<String, ApiError> {
    let mut bits = [0u8; 32];
    getrandom::fill(&mut bits).map_err(|e| ApiError::System {
        operation: "get random bits",
        source: std::io::Error::other(e.to_string()),
    })?;
    let token = format!("weir_{}", hex::encode(&bits));
    let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
    let failed =
        |source| ApiError::File { operation: "write token file", path: path.into(), source };
    let mut file = private(std::fs::File::options().write(true).create_new(true))
        .open(path)
        .map_err(failed)?;
    writeln!(file, "{name}:{}", hex::encode(&hash)).map_err(failed)?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_as_its_hash_and_known_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        let token = make_token_file(&path, "anna").unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains(token.trim_start_matches("weir_")), "{text}");
        let tokens = Tokens::read(&path).unwrap();
        assert_eq!(tokens.user(&token).as_deref(), Some("anna"));
        assert_eq!(tokens.user(&token[..token.len() - 1]), None);
        assert_eq!(
            tokens.user(text.trim().split(':').nth(1).unwrap()),
            None,
            "the hash is no token"
        );
        assert!(make_token_file(&path, "b").is_err(), "a file that is there stays");
        let mut headers = HeaderMap::new();
        headers.insert("cookie", format!("a=b; weir_token={token}").parse().unwrap());
        assert_eq!(tokens.user_of(&headers).as_deref(), Some("anna"));
        headers.insert("authorization", "Bearer wrong".parse().unwrap());
        assert_eq!(tokens.user_of(&headers), None, "what is said first counts");
    }

    #[test]
    fn a_file_that_other_users_can_write_is_refused() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        // The directory is the user's business.
        mode(dir.path(), 0o777);
        let path = dir.path().join("tokens");
        make_token_file(&path, "anna").unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert!(Tokens::read(&path).is_ok());
        mode(&path, 0o644);
        assert!(Tokens::read(&path).is_ok());
        mode(&path, 0o602);
        let refused = Tokens::read(&path);
        assert!(matches!(refused, Err(ApiError::Exposed { mode: 0o602, .. })), "{refused:?}");
    }

    #[test]
    fn a_wrong_file_is_refused_by_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tokens");
        for (text, line) in [("# only words\n", 1), ("\nanna:1234\n", 2), ("anna\n", 1)] {
            std::fs::write(&path, text).unwrap();
            match Tokens::read(&path) {
                Err(ApiError::Tokens { line: found, .. }) => assert_eq!(found, line, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
