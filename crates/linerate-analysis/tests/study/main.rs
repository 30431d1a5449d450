//! Small campaigns made by hand, with answers known beforehand.

mod ceilings;
mod figures;
mod fixture;
mod losses;
mod members;
mod validity;
