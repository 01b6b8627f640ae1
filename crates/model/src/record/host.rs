//! Participants of a run: builds, hosts, interfaces and the relation of their clocks.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Latency, Status, Totals};

record! {
    /// The build of a program.
    Build {
        /// Commit, where known.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// Target triple.
        target: String,
    }
}

record! {
    /// Properties of one host.
    Host {
        /// Host name.
        host: String,
        /// Weir's version there.
        version: String,
        /// Operating system.
        os: String,
        /// Kernel release.
        kernel: String,
        /// Processor.
        cpu: CpuFacts,
        /// Memory, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        memory_bytes: Option<u64>,
        /// The hypervisor, if any.
        #[serde(rename = "virtual", skip_serializing_if = "Option::is_none")]
        virtual_machine: Option<String>,
        /// The kernel's clock source.
        #[serde(skip_serializing_if = "Option::is_none")]
        clocksource: Option<String>,
        /// Kernel settings that affect network tests.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        sysctls: BTreeMap<String, String>,
        /// The interfaces that carried the test.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        interfaces: Vec<Interface>,
        /// Host-wide protocol counters, after − before: `udp_receive_buffer_errors` and the like.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        counters: BTreeMap<String, u64>,
    }
}

record! {
    /// One of several servers of a test: what the record states once where there is one server.
    Server {
        /// Its name, as in the flows' `host`.
        name: String,
        /// How its part of the test ended.
        status: Status,
        /// Why it ended, in words.
        end_reason: String,
        /// Sums of its flows in each direction.
        total: Totals,
        /// The server's host; absent if it sent no report.
        #[serde(skip_serializing_if = "Option::is_none")]
        host: Option<Host>,
        /// Relation of its clock to this side's.
        #[serde(skip_serializing_if = "Option::is_none")]
        clock: Option<ClockRelation>,
        /// Round trips measured alongside the test.
        #[serde(skip_serializing_if = "Option::is_none")]
        latency: Option<Latency>,
        /// Its CPU use.
        #[serde(skip_serializing_if = "Option::is_none")]
        cpu: Option<CpuEnd>,
    }
}

record! {
    /// Properties of a processor.
    CpuFacts {
        /// Model name.
        model: String,
        /// Logical processors usable.
        cores: u32,
        /// Frequency governor.
        #[serde(skip_serializing_if = "Option::is_none")]
        governor: Option<String>,
        /// Size of each cache that the first processor uses, by its name: `L1d`, `L1i`, `L2`, `L3`.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        cache_bytes: BTreeMap<String, u64>,
    }
}

record! {
    /// Properties of one interface, with its counters before and after.
    Interface {
        /// Name.
        name: String,
        /// Kernel driver.
        #[serde(skip_serializing_if = "Option::is_none")]
        driver: Option<String>,
        /// The card: its name in the system's list of devices with its ids, such as
        /// `82574L Gigabit Network Connection (8086:10d3)`; absent for virtual interfaces.
        #[serde(skip_serializing_if = "Option::is_none")]
        card: Option<String>,
        /// The card's bus: kind, address, and speed and lanes of its link, such as
        /// `pci 0000:03:00.0, 2.5 GT/s PCIe x1`.
        #[serde(skip_serializing_if = "Option::is_none")]
        bus: Option<String>,
        /// Link speed, if the driver reports one.
        #[serde(skip_serializing_if = "Option::is_none")]
        speed_bits_per_second: Option<u64>,
        /// Maximum transmission unit, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtu_bytes: Option<u32>,
        /// Offloads by their ethtool names.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        offloads: BTreeMap<String, bool>,
        /// Queueing discipline at the root.
        #[serde(skip_serializing_if = "Option::is_none")]
        qdisc: Option<String>,
        /// Counters before the run, by the kernel's names. `xdp_xmit_errors` of a veth is the sum of its queues.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        counters_before: BTreeMap<String, u64>,
        /// Counters after the run.
        #[serde(skip_serializing_if = "BTreeMap::is_empty")]
        counters_after: BTreeMap<String, u64>,
        /// Counters of the outermost queueing disciplines during the run (RTM_GETQDISC).
        #[serde(skip_serializing_if = "Vec::is_empty")]
        qdiscs: Vec<QdiscUse>,
    }
}

record! {
    /// Counters of one queueing discipline, after − before. They include its children's drops.
    QdiscUse {
        /// Kind: `fq_codel`, `tbf`, `clsact`.
        kind: String,
        /// `egress`, or `filter` for the hooks of `ingress` and `clsact`.
        hook: String,
        /// Packets that left it.
        sent_packets: u64,
        /// Packets that it dropped.
        dropped_packets: u64,
    }
}

record! {
    /// Relation of the remote clock to the local one.
    ClockRelation {
        /// `shared`, `ntp` (by probes of ours, or by the ends' own NTP service) or `ptp`.
        method: String,
        /// Basis of the stated error: `probes`, or the time service of both ends if that was more precise:
        /// `chrony`, `ntp-kernel`, or this end's and the other's joined by ` and `. Absent when shared.
        #[serde(skip_serializing_if = "Option::is_none")]
        source: Option<String>,
        /// Remote minus local at the start.
        offset_seconds: f64,
        /// Relative rate error of the remote clock.
        skew_ratio: f64,
        /// Bound of the error of a mapped time.
        error_seconds: f64,
        /// Probes used for the fit.
        samples: u64,
        /// Minimum round trip of these probes.
        #[serde(skip_serializing_if = "Option::is_none")]
        min_round_trip_seconds: Option<f64>,
    }
}

record! {
    /// Sources of timestamps.
    TimeSource {
        /// Of sending: `user` or `kernel`.
        send: String,
        /// Of receiving: `user`, `kernel` or `card`; `kernel+user` if some messages came without a kernel
        /// timestamp (`receiver.user_timed_messages` tells how many).
        receive: String,
        /// Resolution of the coarser of the two.
        resolution_seconds: f64,
    }
}

record! {
    /// CPU use of both ends.
    CpuUse {
        /// This side.
        #[serde(skip_serializing_if = "Option::is_none")]
        local: Option<CpuEnd>,
        /// The other side.
        #[serde(skip_serializing_if = "Option::is_none")]
        remote: Option<CpuEnd>,
    }
}

record! {
    /// CPU use of one host and of Weir's process while, as far as this host knew, any flow was sending; as
    /// fractions of all its processors.
    CpuEnd {
        /// Time over which it was measured.
        seconds: f64,
        /// User mode.
        user_ratio: f64,
        /// Kernel mode.
        system_ratio: f64,
        /// Interrupts, hard and soft.
        irq_ratio: f64,
        /// Stolen by the hypervisor.
        steal_ratio: f64,
        /// This process, in processors (1.0 is one core), user.
        process_user_ratio: f64,
        /// This process, system.
        process_system_ratio: f64,
        /// The busiest processor.
        #[serde(skip_serializing_if = "Option::is_none")]
        busiest_core_ratio: Option<f64>,
        /// Each processor, if the system counts them one by one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        cores: Vec<CoreUse>,
        /// Time from then to the report: waiting for late packets, up to the loss threshold.
        #[serde(skip_serializing_if = "Option::is_none")]
        waiting_seconds: Option<f64>,
        /// This process during that time, in processors, user and system; absent below 0.1 s.
        #[serde(skip_serializing_if = "Option::is_none")]
        waiting_process_ratio: Option<f64>,
    }
}

record! {
    /// Use of one processor.
    CoreUse {
        /// Its number.
        core: u32,
        /// User mode.
        user_ratio: f64,
        /// Kernel mode.
        system_ratio: f64,
        /// Interrupts, hard and soft.
        irq_ratio: f64,
        /// Stolen by the hypervisor.
        steal_ratio: f64,
    }
}

record! {
    /// The noise floor for a result.
    CalibrationRef {
        /// Identifier of the calibration.
        id: String,
        /// Time of the calibration.
        at: String,
        /// Its figures by name; the names end in the unit, seconds or ratio.
        noise_floor: BTreeMap<String, f64>,
    }
}
