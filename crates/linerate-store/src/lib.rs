//! The memory: the SQLite ledger. It holds observations, never conclusions.

#![forbid(unsafe_code)]
