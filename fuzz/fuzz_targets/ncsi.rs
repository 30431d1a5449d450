#![no_main]

#[path = "../entries/ncsi.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::ncsi(bytes));
