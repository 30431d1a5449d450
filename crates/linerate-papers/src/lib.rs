//! Published measurements of others: their printed figures recomputed, and their results compared
//! in shape with campaigns of ours.
//!
//! [`replay`] needs no measurement: it recomputes printed figures from the paper's other figures.
//! [`reproduce`] judges campaigns that were run on emulated testbeds against the shapes of a
//! paper's results. Both are pure functions.

#![forbid(unsafe_code)]

pub mod document;
pub mod replay;
pub mod reproduce;
