//! Published measurements: their printed figures recomputed, and the shapes of their results looked
//! for in campaigns of linerate.
//!
//! [`replay`] needs no measurement: it recomputes a paper's figures from its other figures.
//! [`reproduce`] judges campaigns on emulated testbeds against the shapes of a paper's results.
//! Both are pure functions.
//!
//! # Examples
//! ```
//! use linerate_papers::replay::paper;
//!
//! let netframe = paper("sun-netframe").expect("a paper that can be replayed");
//! let replay = netframe.replay();
//! let wrong = replay.items.iter().filter(|item| !item.agrees).count();
//! assert!(wrong > 0, "the paper contradicts itself in at least one figure");
//! ```
//!
//! This crate does *not* measure: `linerate reproduce` runs the campaigns.

#![forbid(unsafe_code)]

pub mod document;
pub mod recipes;
pub mod replay;
pub mod reproduce;
