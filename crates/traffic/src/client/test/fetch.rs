//! Files in which the server stored what it received: whether they are whole, and fetching one back.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use weir_flow::StreamPool;
use weir_model::record::ReceivedFile;

use super::*;

/// Bytes of content that are hashed at a time.
const STEP: usize = 64 << 10;

/// The file into which a stored one is fetched.
pub(super) fn open(path: &Path, plan: &Plan) -> Result<File, TrafficError> {
    let stores = |c: &&Connection| c.transport.stream().is_some_and(|stream| stream.to_file);
    let flows: u64 = plan.connections.iter().filter(stores).map(|c| u64::from(c.count)).sum();
    if flows != 1 {
        return Err(super::super::fetch_refused(path, &format!("{flows} flows of `to_file`")));
    }
    let failed = |source| TrafficError::File { field: "fetch", path: path.into(), source };
    weir_net::output::begin(path).map_err(failed)
}

/// SHA-256 of the first `bytes` that a sender of `spec` sends, hexadecimal.
fn sent_digest(spec: &FlowSpec, seed: u64, supply: Option<&Supply>, bytes: u64) -> String {
    let pool = StreamPool::new(spec.connection.content, seed, STEP);
    let mut hasher = Sha256::new();
    let mut position = 0;
    while position < bytes {
        let most = (bytes - position).min(STEP as u64) as usize;
        let part = match supply {
            Some(supply) => supply.at(position, most),
            None => pool.at(position, most),
        };
        hasher.update(part);
        position += part.len() as u64;
    }
    crate::key::to_hex(&hasher.finalize())
}

impl Test<'_> {
    /// Compares stored files with what was sent, and fetches one back if asked to. The error is that of fetching.
    pub(super) async fn stored_files(
        &mut self,
        reader: &mut crate::channel::Reader,
        record: &mut Record,
    ) -> Result<(), TrafficError> {
        for flow in &mut record.flows {
            let Some(file) = &mut flow.received_file else { continue };
            let total = self.sender_done.get(&flow.id).copied();
            let spec = self.specs.iter().find(|spec| spec.id == flow.id);
            let (Some(total), Some(spec)) = (total, spec) else { continue };
            file.is_whole =
                Some(file.bytes == total.bytes && self.is_sent(spec, total, file).await);
            if file.is_whole == Some(false) {
                let reason = file.error.as_deref().unwrap_or("its content differs");
                let text = format!(
                    "the server's file {} has {} of the {} bytes sent: {}",
                    clean(&file.name),
                    file.bytes,
                    total.bytes,
                    clean(reason)
                );
                let warning = Warning::new("file-incomplete", Severity::Warning, text);
                record.warnings.push(warning.for_flow(flow.id));
            }
        }
        let Some(into) = self.fetched.take() else { return Ok(()) };
        let stored = record.flows.iter_mut().find_map(|f| Some((f.id, f.received_file.as_mut()?)));
        let Some((flow, file)) = stored else {
            return Err(self.not_fetched("the server has reported no file".into()));
        };
        // A server that states more would fill this host's disk.
        if self.sender_done.get(&flow).is_none_or(|total| file.bytes > total.bytes) {
            return Err(self.not_fetched("it has more bytes than were sent".into()));
        }
        self.fetch(reader, flow, file, into).await
    }

    /// Whether a file has the bytes that were sent, of which it has the number.
    async fn is_sent(&self, spec: &FlowSpec, total: SenderTotal, file: &ReceivedFile) -> bool {
        let is_file = spec.connection.content == Content::File;
        let supply = self.config.supply.clone().filter(|_| is_file);
        let (spec, seed) = (spec.clone(), self.facts.seed);
        // It takes as long as at the server, which has hashed while it received.
        let hashing = tokio::task::spawn_blocking(move || {
            sent_digest(&spec, seed, supply.as_deref(), total.bytes)
        });
        hashing.await.is_ok_and(|sha256| sha256 == file.sha256)
    }

    fn not_fetched(&self, reason: String) -> TrafficError {
        TrafficError::Protocol {
            address: self.remote,
            reason: format!("fetching the file: {reason}"),
        }
    }

    /// Fetches a file part by part, each when the one before it was written.
    async fn fetch(
        &mut self,
        reader: &mut crate::channel::Reader,
        flow: u32,
        file: &mut ReceivedFile,
        mut into: File,
    ) -> Result<(), TrafficError> {
        let path = self.config.fetch.clone().unwrap_or_default();
        let failed = |source| TrafficError::File { field: "fetch", path: path.clone(), source };
        let mut hasher = Sha256::new();
        let mut offset = 0;
        while offset < file.bytes {
            self.send(&ClientMessage::Fetch { flow, offset }).await?;
            let part = self.part(reader, flow, offset).await?;
            if part.is_empty() || part.len() as u64 > file.bytes - offset {
                return Err(self.not_fetched(format!("{} bytes at {offset}", part.len())));
            }
            hasher.update(&part);
            into.write_all(&part).map_err(failed)?;
            offset += part.len() as u64;
        }
        if crate::key::to_hex(&hasher.finalize()) != file.sha256 {
            return Err(self.not_fetched("its content differs from the server's SHA-256".into()));
        }
        file.fetched_bytes = Some(offset);
        Ok(())
    }

    /// The part of a file at `offset`.
    async fn part(
        &self,
        reader: &mut crate::channel::Reader,
        flow: u32,
        offset: u64,
    ) -> Result<Vec<u8>, TrafficError> {
        let during = "fetching the file";
        let until = Instant::now() + self.config.silence;
        loop {
            let reading = reader.read::<ServerMessage>();
            let Ok(message) = tokio::time::timeout_at(until, reading).await else {
                return Err(self.silent(during, self.config.silence));
            };
            match message {
                Ok(ServerMessage::Part { flow: f, offset: at, data })
                    if (f, at) == (flow, offset) =>
                {
                    return STANDARD.decode(data).map_err(|e| self.not_fetched(e.to_string()));
                }
                Ok(ServerMessage::Refused { code, text }) => {
                    return Err(refused(self.remote, &code, &text));
                }
                Ok(_) => {}
                Err(e) => return Err(broken(self.remote, during, &e)),
            }
        }
    }
}
