//! Integration tests of this crate as one program.

mod common;
mod requests;
