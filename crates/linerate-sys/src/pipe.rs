//! Pipes and splicing.
