//! Socket options, requested and granted.
