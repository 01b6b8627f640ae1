//! The control socket of a running emulator: each line of JSON is a request and gets one line of JSON as its answer.
//!
//! `{"verb":"show"}`, `stats`, `reset`, `save`, `start`, `stop`, `trigger`, `trace`, `record`, `end_recordings`, `set`, `acknowledge`, `clear`, `thresholds`,
//! `keepalive`; the answer is `{"ok":true,…}` or `{"ok":false,"error":"…","kind":"…"}`, with `field`, `given` and
//! `accepted` where a field was refused. `docs/formats.md` has the fields.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use weir_net::local::connect;

#[cfg(target_os = "linux")]
mod descriptors;
#[cfg(target_os = "linux")]
mod server;

#[cfg(target_os = "linux")]
pub use server::{ControlSocket, LastContact, MAX_REQUEST_BYTES, end};

/// Maximum length of an answer.
pub const MAX_ANSWER_BYTES: u64 = 256 << 20;
/// Default timeout of a client.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Names of control sockets in the runtime directory: prefix, id of the emulator, suffix.
const PREFIX: &str = "impair-";
const SUFFIX: &str = ".socket";

/// The name of an emulator's control socket in the runtime directory.
#[must_use]
pub fn socket_name(id: &str) -> String {
    format!("{PREFIX}{id}{SUFFIX}")
}

/// The id of an emulator, from its control socket in the runtime directory.
#[must_use]
pub fn socket_id(socket: &Path) -> Option<&str> {
    socket.file_name()?.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX).filter(|id| is_id(id))
}

/// Whether this can be the id of an emulator: 1 to 64 letters, digits, `-` and `_`, so that it is no path.
#[must_use]
pub fn is_id(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    (1..=64).contains(&text.len()) && text.chars().all(is_part)
}

/// A connection to the control socket of an emulator.
#[derive(Debug)]
pub struct Connection(TcpStream);

impl Connection {
    /// Connects to the emulator that listens at `path`.
    ///
    /// # Errors
    /// No emulator listens there, or access is denied.
    pub fn open(path: &Path) -> std::io::Result<Connection> {
        let connection = Connection(connect(path)?);
        connection.set_timeout(TIMEOUT)?;
        Ok(connection)
    }

    /// Sets the timeout of answers; default 15 s.
    ///
    /// # Errors
    /// A timeout of zero.
    pub fn set_timeout(&self, timeout: Duration) -> std::io::Result<()> {
        self.0.set_read_timeout(Some(timeout))?;
        self.0.set_write_timeout(Some(timeout))
    }

    /// Sends a request and returns the answer.
    ///
    /// # Errors
    /// No answer within the timeout, or one that is not JSON.
    pub fn ask(&mut self, request: &Value) -> std::io::Result<Value> {
        self.0.write_all(format!("{request}\n").as_bytes())?;
        self.answer()
    }

    /// Sends a request with an open file, and returns the answer.
    ///
    /// # Errors
    /// As [`Connection::ask`].
    #[cfg(target_os = "linux")]
    pub fn ask_with(&mut self, request: &Value, file: &std::fs::File) -> std::io::Result<Value> {
        descriptors::send(&self.0, format!("{request}\n").as_bytes(), file)?;
        self.answer()
    }

    fn answer(&mut self) -> std::io::Result<Value> {
        let mut line = Vec::new();
        // Each request has one line as its answer: nothing after it is lost with the buffer.
        BufReader::new((&self.0).take(MAX_ANSWER_BYTES)).read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }
}

/// Sends one request to the emulator that listens at `path`.
///
/// # Errors
/// Those of [`Connection::open`] and [`Connection::ask`].
pub fn ask(path: &Path, request: &Value) -> std::io::Result<Value> {
    Connection::open(path)?.ask(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_socket_holds_an_id_and_no_path() {
        let id_of = |name: &str| socket_id(Path::new(name)).map(ToOwned::to_owned);
        assert_eq!(id_of(&format!("/run/{}", socket_name("1234"))).as_deref(), Some("1234"));
        assert!(is_id(&"x".repeat(64)) && is_id("a-B_9"));
        for bad in ["", ".", "../x", "a/b", "a.b", &"x".repeat(65)] {
            assert!(!is_id(bad), "{bad}");
            // Of a path, only the last part is a name.
            assert!(bad.contains('/') || id_of(&socket_name(bad)).is_none(), "{bad}");
        }
        for other in ["impair-1.log", "1.socket", "impair-.socket"] {
            assert_eq!(id_of(other), None, "{other}");
        }
    }
}
