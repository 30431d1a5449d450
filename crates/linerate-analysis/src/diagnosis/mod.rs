//! Diagnosis: rules over evidence.
//!
//! A rule reads the study of one point and claims at most one thing. Nothing here is `Proven`: that takes a counterfactual
//! and a placebo, which take further trials.

pub mod rules;
