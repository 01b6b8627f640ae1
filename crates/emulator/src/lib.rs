//! The running emulator: two links, one thread for each direction, the laws of `weir.impair/1` between them.
//!
//! You meet [`Emulator`], which is started from an [`EmulatorConfig`] and controlled while it runs (also through a
//! [`control`] socket); [`Report`], its report; [`Refusal`], why an interface is refused; and
//! [`replay`], the same engine from capture to capture on the captures' own clock.
//!
//! What happens to a packet is decided by [`weir_impair::Engine`], which knows neither bytes nor clocks; frames come
//! and go by [`weir_link`]. In between, here: a frame is kept in its direction's slabs until its last copy has left,
//! changes of content are applied, departures are timed, verdicts are written down.
//!
//! ```
//! use weir_emulator::{Emulator, EmulatorConfig};
//! use weir_link::memory;
//! use weir_model::impairment::Impairment;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (a, cable_a) = memory::link("A", 64)?;
//! let (b, cable_b) = memory::link("B", 64)?;
//! let config = EmulatorConfig::new("A", "B", Impairment::of_both("loss every 2".parse()?));
//! let emulator = Emulator::between([a, b], config)?;
//! for _ in 0..4 {
//!     cable_a.put(1_000, &[0xff; 60]);
//! }
//! while emulator.report()?.directions[0].received_packets < 4 {}
//! let report = emulator.finish("example").report;
//! assert_eq!(report.impairment.flows[0].counters.lost_packets, 2);
//! assert!(cable_b.take().is_some() && cable_b.take().is_some() && cable_b.take().is_none());
//! # Ok(())
//! # }
//! ```

#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod alarm;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod batches;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod config;
pub mod control;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod datapath;
#[cfg(target_os = "linux")]
mod direction;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod drops;
#[cfg(target_os = "linux")]
mod emulator;
mod error;
mod expressions;
mod fidelity;
mod frames;
#[cfg(target_os = "linux")]
mod interface_lock;
mod lateness;
#[cfg(target_os = "linux")]
mod local;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod packet_trace;
mod prediction;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod recording;
mod refusal;
#[cfg(target_os = "linux")]
mod remote;
pub mod replay;
mod report;
mod result;
#[cfg(target_os = "linux")]
mod rights;
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "for running emulators"))]
mod sharing;
mod snapshot;
#[cfg(target_os = "linux")]
mod supervisor;
#[cfg(target_os = "linux")]
mod wanted;

pub use alarm::{Alarm, AlarmKind, AlarmSelection, AlarmThresholds};
pub use config::{EmulatorConfig, LinkMode, Local, PacketTraceFiles, Scheduling};
#[cfg(target_os = "linux")]
pub use emulator::Emulator;
pub use error::{EmulatorError, Refusal};
pub use expressions::compile_filters;
pub use fidelity::{Fidelity, FidelityFigure, FidelityVerdict, JudgedFigure};
pub use lateness::late_limit_ns;
pub use prediction::{Prediction, predictions};
pub use recording::{
    CapturePoint, MAX_RECORDINGS, Recording, RecordingKind, RecordingReport, RecordingSelection,
    RecordingState,
};
pub use refusal::refusals;
#[cfg(target_os = "linux")]
pub use remote::{Remote, Watch};
pub use report::{
    AppliedConfiguration, AskedFigures, CurrentReport, DirectionReport, DropCounts, DropsReport,
    DropsRow, FlowReport, FlowTrigger, ImpairmentReport, LatenessReport, LinkReport,
    PacketTraceReport, PeriodReason, REPORT_SCHEMA, Realised, Report, TimelineReport,
    TriggerReport,
};
pub use result::EmulatorResult;
#[cfg(target_os = "linux")]
pub use rights::keep_for_setting_up;
#[cfg(target_os = "linux")]
pub use wanted::Change;
