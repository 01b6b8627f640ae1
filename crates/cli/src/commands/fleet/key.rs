//! `weir fleet key` and `weir fleet config`: who may do what on the NATS server.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use weir_fleet::{AgentName, new_key, server_configuration};

use super::refused;
use crate::commands::keygen;
use crate::error::CliError;
use crate::output::print;

/// The public key is printed; the seed is the file
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// New file for the secret seed, with mode 0600
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

/// The text is for the NATS server's configuration
#[derive(Debug, Args)]
#[command(
    after_help = "Include it in the server's configuration, or add --store for a complete one on loopback:\n  \
                  weir fleet config --controller UA… --agent paris-1=UB… --store /var/lib/nats >nats.conf"
)]
pub(crate) struct ConfigArgs {
    /// Public key of a controller, which may do everything (may be repeated)
    #[arg(long, value_name = "KEY", required = true)]
    controller: Vec<PublicKey>,
    /// Name and public key of an agent (may be repeated)
    #[arg(long, value_name = "NAME=KEY")]
    agent: Vec<AgentKey>,
    /// Directory for the data of a server on loopback
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Port of that server
    #[arg(long, value_name = "PORT", default_value_t = 4222, requires = "store", value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
}

/// A public key of a user.
#[derive(Debug, Clone)]
struct PublicKey(String);

impl FromStr for PublicKey {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<PublicKey, Self::Err> {
        let is_key = text.len() == 56
            && text.starts_with('U')
            && text.bytes().all(|b| b.is_ascii_uppercase() || (b'2'..=b'7').contains(&b));
        is_key.then(|| PublicKey(text.into())).ok_or("a public key: U and 55 letters and digits")
    }
}

#[derive(Debug, Clone)]
struct AgentKey(AgentName, PublicKey);

impl FromStr for AgentKey {
    type Err = String;

    fn from_str(text: &str) -> Result<AgentKey, String> {
        let (name, key) = text.split_once('=').ok_or("NAME=KEY")?;
        let name = name.parse().map_err(|e: weir_model::Refusal| e.message)?;
        Ok(AgentKey(name, key.parse()?))
    }
}

pub(super) fn key(args: &KeyArgs) -> Result<i32, CliError> {
    let key = new_key().map_err(refused)?;
    keygen::write(&args.output, &format!("{}\n", key.seed))?;
    print(&format!("{}\n", key.public))
}

pub(super) fn config(args: &ConfigArgs) -> Result<i32, CliError> {
    let controllers: Vec<String> = args.controller.iter().map(|key| key.0.clone()).collect();
    let agents: Vec<_> =
        args.agent.iter().map(|AgentKey(name, key)| (name.clone(), key.0.clone())).collect();
    let store = args.store.as_deref().map(|store| (store, args.port));
    print(&server_configuration(&controllers, &agents, store))
}
