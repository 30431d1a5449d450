#![no_main]

#[path = "../entries/frame.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::frame(bytes));
