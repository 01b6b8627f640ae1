//! The two ends of a test, as netperf's names have them.

use weir_model::record::Record;
use weir_peers::{NetperfCpu, NetperfStated};
use weir_report::{NetperfEnd, NetperfFigures, NetperfHostCpu};

use super::args::Asked;

/// The figures of a test; absent where the record has no flow.
pub(super) fn figures(
    record: &Record,
    asked: &Asked,
    stated: &NetperfStated,
) -> Option<NetperfFigures> {
    let size = |bytes: u32| Some(u64::from(bytes));
    let local = NetperfEnd {
        requested_buffers: asked.requested_buffers,
        buffers: asked.buffers,
        cpu: stated.local_cpu.as_ref().map(host_cpu),
        priority: asked.priority,
        cork: asked.cork,
        ..NetperfEnd::default()
    };
    let mut remote = NetperfEnd::default();
    if let Some(server) = &asked.wanted.server {
        remote.requested_buffers =
            [server.send_buffer, server.receive_buffer].map(|bytes| bytes.map(u64::from));
    }
    if let Some(accepted) = &stated.accepted {
        remote.buffers = accepted.buffers.map(size);
        remote.sizes = accepted.sizes.map(|bytes| bytes.map(u64::from));
        remote.tos = accepted.tos;
        remote.priority = accepted.priority;
        remote.no_delay = accepted.no_delay;
    }
    if let Some(results) = &stated.results {
        remote.bytes = results.bytes.map(Some);
        remote.calls = results.calls.map(size);
        remote.final_buffers = results.buffers.map(|bytes| bytes.map(u64::from));
        remote.retransmits = results.retransmits.map(u64::from);
        remote.congestion.clone_from(&results.congestion);
        remote.cpu = results.cpu.as_ref().filter(|_| asked.wanted.cpu[1]).map(host_cpu);
    }
    NetperfFigures::of(record, local, remote)
}

fn host_cpu(cpu: &NetperfCpu) -> NetperfHostCpu {
    NetperfHostCpu {
        busy: cpu.busy.into(),
        user: cpu.user.into(),
        system: cpu.system.into(),
        iowait: cpu.iowait.into(),
        irq: cpu.irq.into(),
        softirq: cpu.softirq.into(),
        processors: cpu.processors,
        peak_id: cpu.peak_id,
        peak: cpu.peak.into(),
    }
}
