//! Diagnosis: rules over evidence.

pub mod rules;
