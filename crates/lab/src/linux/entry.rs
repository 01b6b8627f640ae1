//! An entry of the registry: what another process needs to find a lab. Parsed as untrusted input.

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host::Host;
use crate::spec::{LabName, MAX_HOSTS, Topology, host_names};

const SCHEMA: &str = "weir.lab/1";
/// Maximum length of an entry.
pub(crate) const MAX_ENTRY_BYTES: usize = 64 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    schema: String,
    pub(crate) name: LabName,
    pub(crate) boot_id: String,
    pub(crate) holder: HolderId,
    /// Descriptor of the user namespace in the holder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user_descriptor: Option<u32>,
    pub(crate) nodes: Vec<EntryNode>,
}

/// Identifies a process uniquely within a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HolderId {
    pub(crate) pid: u32,
    /// Clock ticks since boot.
    pub(crate) start_time: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntryNode {
    pub(crate) name: String,
    /// Descriptor of the network namespace in the holder.
    pub(crate) net_descriptor: u32,
    /// Its inode number in nsfs, which identifies it.
    pub(crate) inode: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) host: Option<Host>,
}

impl Entry {
    pub(crate) fn new(
        name: LabName,
        boot_id: String,
        holder: HolderId,
        user_descriptor: Option<u32>,
        nodes: Vec<EntryNode>,
    ) -> Self {
        Self { schema: SCHEMA.to_owned(), name, boot_id, holder, user_descriptor, nodes }
    }

    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        serde_json::to_vec(self).map_err(|error| Error::Damaged { why: error.to_string() })
    }

    /// Parses and checks an entry; `file` is its file name, which must match its content.
    pub(crate) fn parse(bytes: &[u8], file: Option<&LabName>) -> Result<Self, Error> {
        let damaged = |why: String| Error::Damaged { why };
        if bytes.len() > MAX_ENTRY_BYTES {
            return Err(damaged(format!("longer than {MAX_ENTRY_BYTES} bytes")));
        }
        let entry: Self =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if entry.schema != SCHEMA {
            return Err(damaged(format!("schema {:?}, not {SCHEMA}", entry.schema)));
        }
        if file.is_some_and(|file| *file != entry.name) {
            return Err(damaged(format!("it names itself {}", entry.name)));
        }
        if entry.holder.pid == 0 || i32::try_from(entry.holder.pid).is_err() {
            return Err(damaged(format!("pid {}", entry.holder.pid)));
        }
        let hosts = entry.nodes.iter().take_while(|node| node.host.is_some()).count();
        // Hosts first, then the namespaces of the topology.
        let inner: Vec<&str> = entry.nodes[hosts..].iter().map(|node| node.name.as_str()).collect();
        let has_middle = inner.contains(&"m");
        let is_known = inner == ["switch"] || inner == Topology::of(hosts, has_middle).inner();
        if !(2..=MAX_HOSTS).contains(&hosts) || !is_known {
            return Err(damaged(format!("{hosts} hosts and nodes {inner:?}")));
        }
        let named = entry.nodes[..hosts].iter().zip(host_names(has_middle));
        for (index, (node, name)) in named.enumerate() {
            if node.name != name || node.host.as_ref().is_none_or(|host| host.name != name) {
                return Err(damaged(format!("node {index} is named {:?}", node.name)));
            }
        }
        if entry.nodes[hosts..].iter().any(|node| node.host.is_some()) {
            return Err(damaged("a host after other nodes".to_owned()));
        }
        Ok(entry)
    }

    pub(crate) fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.nodes.iter().filter_map(|node| node.host.as_ref())
    }
}
