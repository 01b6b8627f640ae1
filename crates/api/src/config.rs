//! Configuration of a server.

use std::net::SocketAddr;
use std::path::PathBuf;

use weir_model::Refusal;
use weir_model::plan::Plan;
use weir_model::record::Build;
use weir_runs::DataDirectory;

use crate::types::ServerLimits;

/// Parses flags of `weir test` into a plan, as the command line does: scenarios contain them.
pub type ParseTestFlags = fn(&[String]) -> Result<Plan, Box<Refusal>>;

/// Configuration of a server.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub address: SocketAddr,
    /// Accepted names in `Host`, in addition to `localhost` and addresses: prevents DNS rebinding.
    pub host_names: Vec<String>,
    /// Hashed tokens; required on any address but loopback.
    pub token_file: Option<PathBuf>,
    /// Version of Weir, as in `GET /system`.
    pub version: String,
    /// Build of Weir, for the records of imported files.
    pub build: Build,
    /// The store of runs, and directory of the audit log.
    pub data: DataDirectory,
    /// Directory of plans.
    pub plans: PathBuf,
    /// Directories of scenarios.
    pub scenarios: Vec<PathBuf>,
    /// Directory of key files: `NAME` or `NAME.key`.
    pub keys: PathBuf,
    /// Scripts that scenarios may run, by name.
    pub scripts: Option<PathBuf>,
    /// Parses a scenario's `args`.
    pub parse_flags: ParseTestFlags,
    /// Whether the launcher can start emulators.
    pub may_emulate: bool,
    /// Whether the launcher can create labs.
    pub may_make_labs: bool,
    /// Limits.
    pub limits: ServerLimits,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections: 512,
            connections_per_address: 128,
            stream_readers: 64,
            body_bytes: 8 << 20,
            head_seconds: 10,
            body_seconds: 30,
            write_seconds: 20,
            requests_per_second: 100,
            tests: 16,
            experiments: 4,
            emulators: 8,
            packet_trace_bytes: 1 << 30,
            labs: 16,
            ended_kept: 100,
        }
    }
}

/// Why a server can't start or continue.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The address is unavailable.
    #[error("listen on {address}: {source}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// The system's reason.
        source: std::io::Error,
    },
    /// An address that other hosts can reach, without a token.
    #[error("{0} is not a loopback address, and there is no file of tokens")]
    Open(SocketAddr),
    /// A file.
    #[error("{operation} {}: {source}", path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// An invalid token file.
    #[error("{}, line {line}: expected NAME:SHA256, the hash as 64 hexadecimal digits", path.display())]
    Tokens {
        /// The file.
        path: PathBuf,
        /// Which line.
        line: usize,
    },
    /// A token file that other users can write.
    #[error("{} has mode {mode:03o}: other users can write it; run: chmod 600 {}", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The launcher.
    #[error("start the launcher: {0}")]
    Launcher(std::io::Error),
    /// Capabilities could not be dropped.
    #[error("give up capabilities: {0}")]
    Capabilities(std::io::Error),
    /// A system call failed, such as reading random bytes.
    #[error("{operation}: {source}")]
    System {
        /// What was tried.
        operation: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
}
