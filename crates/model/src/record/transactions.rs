//! Results of the transactions of a flow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Delay, SizeDraws, TimeDraws};
use crate::plan::{Shape, Size, Spacing};

record! {
    /// Transactions of a flow, measured by the client. Those whose request was sent in an omitted start are left out.
    Transactions {
        /// Shape of the traffic.
        shape: Shape,
        /// Bytes of a request; absent if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        request_bytes: Option<u64>,
        /// Bytes of a response; absent if there is none.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_bytes: Option<u64>,
        /// Maximum number of transactions in progress; absent if requests were sent at a rate.
        #[serde(skip_serializing_if = "Option::is_none")]
        outstanding: Option<u32>,
        /// Transactions that were completed: the whole response arrived, or the connection was closed.
        completed: u64,
        /// Transactions that failed, those included whose request was due but not sent.
        failed: u64,
        /// These by reason: `timeout`, `refused`, `reset`, `closed`, `invalid`, `no-port`, `unsent`, `unreachable`, `prohibited`,
        /// `ttl-exceeded`, `too-big`, `lost`, `error`.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        failures: BTreeMap<String, u64>,
        /// Failed transactions whose connection was not established.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed_connections: Option<u64>,
        /// Responses in datagrams that arrived after the timeout; their transactions failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        late_responses: Option<u64>,
        /// Responses in datagrams to requests that had been answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        duplicate_responses: Option<u64>,
        /// Responses in datagrams that arrived after that to a later request (RFC 4737: type-P-reordered).
        #[serde(skip_serializing_if = "Option::is_none")]
        reordered_responses: Option<u64>,
        /// Datagrams that are no response: of another size, or with a number that was not used.
        #[serde(skip_serializing_if = "Option::is_none")]
        invalid_responses: Option<u64>,
        /// Time after which a transaction without a response failed; absent for requests on one stream, whose responses
        /// can't be lost: those that are missing at the end are awaited for longer, and have then failed by `timeout`.
        #[serde(skip_serializing_if = "Option::is_none")]
        timeout_seconds: Option<f64>,
        /// From the first request to the end of sending or the last response, whichever is later.
        seconds: f64,
        /// Completed transactions over this time.
        #[serde(skip_serializing_if = "Option::is_none")]
        transactions_per_second: Option<f64>,
        /// Response time: from sending the request to the last byte of the response. With a connection for each
        /// transaction: from the start of connecting to the close of the connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_time: Option<Delay>,
        /// Standard deviation of the response time.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_time_deviation_seconds: Option<f64>,
        /// Response time from the scheduled time of the request, if requests were sent at a rate.
        #[serde(skip_serializing_if = "Option::is_none")]
        response_time_from_scheduled: Option<Delay>,
        /// Time from the start of connecting to an established connection, if each transaction has one.
        #[serde(skip_serializing_if = "Option::is_none")]
        setup_time: Option<Delay>,
        /// Volumes and concurrency, if the transactions are transfers. The response time is then the completion time.
        #[serde(skip_serializing_if = "Option::is_none")]
        transfers: Option<Transfers>,
    }
}

record! {
    /// Transfers of a flow in addition to what they have as transactions.
    Transfers {
        /// Volume of the completed transfers, bytes; of datagrams, what arrived of it.
        completed_bytes: u64,
        /// This volume over the time of the transactions, bit/s.
        #[serde(skip_serializing_if = "Option::is_none")]
        goodput_bits_per_second: Option<f64>,
        /// Starts per second that the plan states; absent where users start transfers one after the other.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_starts_per_second: Option<f64>,
        /// The law of volumes, if they vary. Of pages: that of all objects but the first.
        #[serde(skip_serializing_if = "Option::is_none")]
        volume_law: Option<Size>,
        /// What this law gives.
        #[serde(skip_serializing_if = "Option::is_none")]
        volume_draws: Option<SizeDraws>,
        /// Actual mean volume of the transfers of this law that were started.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_volume_bytes: Option<f64>,
        /// The law of the users' pauses, if they vary.
        #[serde(skip_serializing_if = "Option::is_none")]
        pause_law: Option<Spacing>,
        /// What this law gives.
        #[serde(skip_serializing_if = "Option::is_none")]
        pause_draws: Option<TimeDraws>,
        /// Actual mean of the pauses that were started.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_pause_seconds: Option<f64>,
        /// Transfers that were started.
        started: u64,
        /// Transfers that were due while the maximum number of concurrent ones was running, and were not started.
        not_started: u64,
        /// Transfers that were still running at the end, and were ended.
        unfinished: u64,
        /// Bytes of these that were moved.
        unfinished_bytes: u64,
        /// Rate at which each transfer is sent, payload bit/s, where they are sent as datagrams.
        #[serde(skip_serializing_if = "Option::is_none")]
        asked_bits_per_second: Option<u64>,
        /// Completed transfers of which datagrams were lost, where they are sent as datagrams.
        #[serde(skip_serializing_if = "Option::is_none")]
        with_loss: Option<u64>,
        /// Maximum number of transfers at the same time.
        max_concurrent: u64,
        /// Mean number of transfers at the same time, from the first start to the end of the last one. Those that an omitted
        /// start has left running are counted.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_concurrent: Option<f64>,
        /// Completed transfers by volume, from the smallest class.
        classes: Vec<TransferClass>,
        /// Pages, if users load these: the transfers are their objects.
        #[serde(skip_serializing_if = "Option::is_none")]
        pages: Option<Pages>,
    }
}

record! {
    /// Pages of several objects. Those that were started in an omitted start are left out.
    Pages {
        /// Pages of which all objects arrived.
        loaded: u64,
        /// Pages of which an object failed.
        failed: u64,
        /// Pages that were still loading at the end of the test.
        unfinished: u64,
        /// Loaded pages over the time of the transactions.
        #[serde(skip_serializing_if = "Option::is_none")]
        pages_per_second: Option<f64>,
        /// Mean number of objects of the loaded pages, the first ones included.
        #[serde(skip_serializing_if = "Option::is_none")]
        mean_objects: Option<f64>,
        /// Page load time: from the start of connecting for the first object to the end of the last one.
        #[serde(skip_serializing_if = "Option::is_none")]
        load_time: Option<Delay>,
    }
}

record! {
    /// Completed transfers of a range of volumes.
    TransferClass {
        /// They carry at least this many bytes.
        from_bytes: u64,
        /// They carry fewer bytes than this; absent: no limit.
        #[serde(skip_serializing_if = "Option::is_none")]
        below_bytes: Option<u64>,
        /// Their number.
        completed: u64,
        /// Their completion time: from the scheduled start where starts are scheduled, else from the actual one.
        #[serde(skip_serializing_if = "Option::is_none")]
        completion_time: Option<Delay>,
    }
}
