#![no_main]

#[path = "../entries/plan.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::plan(bytes));
