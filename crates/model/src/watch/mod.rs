//! Continuous measurement between the agents of a fleet.
//!
//! - [`Mesh`]: `weir.mesh/1`, which agents and pairs are measured, and how.
//! - [`Line`]: `weir.watch/1`, what `weir fleet watch --json` prints, one object a line.
//! - [`PairFigures`]: what was measured between two agents in some time: a second, a minute, a window.

mod figures;
mod line;
mod mesh;

pub use figures::PairFigures;
pub use line::{
    AgentLine, AgentState, BurstLine, ChangeLine, ChangedFigure, Line, Minute, SecondLine,
    StartLine, WATCH_SCHEMA, WindowFigures,
};
pub use mesh::{Bursts, Changes, MESH_SCHEMA, Mesh, Probes};
