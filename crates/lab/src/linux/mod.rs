//! Labs made of network namespaces.

mod cables;
mod directory;
mod entry;
#[doc(hidden)]
pub mod fuzz;
mod holder;
mod lab;
mod netlink;
mod registry;
mod wiring;

pub use cables::{Cable, namespace_with_cables};
pub use directory::runtime_directory;
pub use holder::hold;
pub use lab::{Lab, place_of_this_program};
pub use registry::{JoinedLab, Registry};
