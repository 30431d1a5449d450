#![no_main]

#[path = "../entries/wire.rs"]
mod entry;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| entry::wire(bytes));
