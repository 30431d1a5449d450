//! Small campaigns made by hand, with answers known beforehand.

mod ceilings;
mod clocks;
mod comparisons;
mod derivations;
mod figures;
mod fixture;
mod headline;
mod losses;
mod members;
mod mixes;
mod names;
mod observed;
mod path;
mod searches;
mod sources;
mod storage;
mod validity;
