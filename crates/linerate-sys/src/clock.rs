//! The monotonic clock and the wall clock, as nanoseconds.
