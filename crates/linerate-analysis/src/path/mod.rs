//! Facts of a path from the record of a probe: capacity, queue, token bucket, loss, delay, MTU
//! (docs/methodology/path-probe.md).
//!
//! Pure functions over the datagrams that both ends recorded one by one. Only changes of the
//! one-way delay are used, so the clocks of the two ends need no common zero. Not seen: cross
//! traffic that has the same effect as a lower capacity, and a drift of the clocks during the few
//! seconds of a probe (50 ppm are 0.25 ms in 5 s).

mod datagrams;
mod estimate;
mod flood;
#[cfg(test)]
mod tests;

pub(crate) use estimate::{REAL_LOSS, is_probe};
pub use estimate::{facts, recorded};
pub use linerate_model::path::{
    ClockOffset, Fact, Limiter, LocalQueue, Method, PathFacts, TokenBucket,
};
