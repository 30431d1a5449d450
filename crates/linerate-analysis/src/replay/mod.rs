//! The papers' printed arithmetic, recomputed, and where it disagrees with itself.
