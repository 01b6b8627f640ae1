//! State shared by all handlers.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::Semaphore;
use weir_experiment::doctor::Diagnosis;
use weir_net::file::private;
pub(crate) use weir_net::thread::lock;

use crate::audit::Audit;
use crate::bodies::Bodies;
use crate::config::Config;
use crate::events::Hub;
use crate::guard::{KnownAddresses, Rates, Tokens};
use crate::supervise::{
    Calibrating, Clients, Demo, Emulators, Experiments, LabServers, Launcher, StoredExperiments,
    Tests,
};
use crate::types::DocumentChange;

/// Shared by all handlers.
pub(crate) type Shared = Arc<App>;

/// The server's state.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: Config,
    /// Changes at each start.
    pub(crate) instance: String,
    pub(crate) started_at: String,
    /// Directory of sockets and documents of running jobs; removed with the server.
    pub(crate) directory: tempfile::TempDir,
    pub(crate) hub: Hub,
    pub(crate) launcher: Launcher,
    pub(crate) tests: Tests,
    pub(crate) experiments: Experiments,
    /// Stored experiments of earlier servers and of the command line.
    pub(crate) stored: StoredExperiments,
    pub(crate) emulators: Emulators,
    pub(crate) clients: Arc<Clients>,
    pub(crate) calibrating: Calibrating,
    pub(crate) demo: Demo,
    /// Test servers in hosts of labs.
    pub(crate) lab_servers: LabServers,
    pub(crate) audit: Audit,
    pub(crate) rates: Rates,
    /// Number of failed authentications in the audit log.
    pub(crate) failures: Rates,
    pub(crate) tokens: Option<Tokens>,
    /// Serialises changes of documents, so that an entity tag still holds when the change is made.
    pub(crate) documents: tokio::sync::Mutex<()>,
    /// The last change of each document, for conflicting changes.
    pub(crate) edits: Mutex<std::collections::BTreeMap<String, DocumentChange>>,
    /// Limits CPU-intensive work: previews, reports, comparisons.
    pub(crate) heavy: Arc<Semaphore>,
    /// The latest diagnosis of this host, and when it was made; one runs at a time.
    pub(crate) doctor: tokio::sync::Mutex<Option<(Instant, Diagnosis)>>,
    /// Labs are made one at a time, so that their limit holds.
    pub(crate) labs: tokio::sync::Mutex<()>,
    /// Memory of bodies.
    pub(crate) bodies: Arc<Bodies>,
    /// Addresses that have shown a valid token.
    pub(crate) known: KnownAddresses,
    /// Readers of the event stream.
    pub(crate) readers: Arc<Semaphore>,
}

/// Maximum number of documents whose last change is stored.
const MAX_EDITS: usize = 1000;

impl App {
    /// A path in the server's private directory.
    pub(crate) fn private(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file there, readable by this user alone.
    pub(crate) fn write_private(&self, name: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
        use std::io::Write;
        let path = self.private(name);
        let mut file =
            private(std::fs::File::options().write(true).create_new(true)).open(&path)?;
        file.write_all(bytes)?;
        Ok(path)
    }

    /// Publishes that a document was changed.
    pub(crate) fn edited(&self, document: String, by: &str, etag: Option<String>) {
        let edited = DocumentChange { document, by: by.into(), etag, at: crate::clock::now() };
        self.hub.edited(&edited);
        let mut edits = lock(&self.edits);
        if edits.len() >= MAX_EDITS && !edits.contains_key(&edited.document) {
            let oldest = edits.values().min_by(|a, b| a.at.cmp(&b.at)).map(|e| e.document.clone());
            oldest.iter().for_each(|document| drop(edits.remove(document)));
        }
        edits.insert(edited.document.clone(), edited);
    }

    /// The last change of a document through this server.
    pub(crate) fn last_edit(&self, document: &str) -> Option<DocumentChange> {
        lock(&self.edits).get(document).cloned()
    }
}
