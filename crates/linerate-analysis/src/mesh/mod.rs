//! All pairs of a fleet: the rounds in which they are measured, and the host, pair or uplink that
//! differs from the rest.
//!
//! Hosts are numbered from 0. Nothing is assumed of their speed: the usual figure is the median of
//! the fleet, so a fleet of unequal hosts has its slow ones named. Fewer than [`FEWEST`] hosts
//! have no suspect, because each culprit has as many pairs as the rest.

mod again;
mod below;
mod cells;
mod changes;
#[cfg(test)]
mod fleet;
mod rounds;
mod suspects;

pub use again::{
    Confirmation, Neighbours, SecondLook, Status, confirm, neighbours, second_look, wider,
};
pub use below::{Below, USUAL_SHARE, below};
pub use cells::{Cells, Measure};
pub use changes::{Changes, changes};
pub use rounds::{Pairing, matchings, rounds, rounds_of_groups};
pub use suspects::{Culprit, Mesh, Sign, Suspect, suspects};

/// Fewest hosts of which one can be suspected.
pub const FEWEST: usize = 4;
