//! Whatever the bytes: reading the control protocol ends without a panic, takes no more than there is, and what was read
//! can be said again.

use linerate_control::wire::{GREETING_LIMIT, decode, decode_within, encode, name, pieces};

/// The entry the fuzzer and the property test share.
pub fn wire(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((message, taken))) = decode(rest) {
        assert!((1..=rest.len()).contains(&taken), "{taken} bytes taken of {}", rest.len());
        // Numbers may take more digits than they came with, so that a message near the limit may exceed it.
        if let Ok(frame) = encode(&message) {
            let again = decode(&frame).expect("what is said can be read");
            let again = again.map(|(message, taken)| (name(&message), taken));
            assert_eq!(again, Some((name(&message), frame.len())));
        }
        assert!(!pieces(message).is_empty());
        rest = &rest[taken..];
    }
    if let Ok(Some((_, taken))) = decode_within(bytes, GREETING_LIMIT) {
        assert!(taken <= GREETING_LIMIT + size_of::<u32>(), "a stranger's {taken} bytes were taken");
    }
}
