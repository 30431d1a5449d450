//! Whatever the bytes: reading the control protocol ends without a panic, takes no more than there
//! is, and what was read can be said again and is read as the same, to the last bit of its numbers.

use linerate_control::wire::{GREETING_LIMIT, decode, decode_within, encode, name, pieces};

/// The entry the fuzzer and the property test share.
pub fn wire(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(Some((message, taken))) = decode(rest) {
        assert!((1..=rest.len()).contains(&taken), "{taken} bytes taken of {}", rest.len());
        // Numbers may take more digits than they came with, so that a message near the limit may
        // exceed it.
        if let Ok(frame) = encode(&message) {
            let (again, taken) =
                decode(&frame).expect("what is said can be read").expect("it is whole");
            assert_eq!((name(&again), taken), (name(&message), frame.len()));
            assert!(again == message, "{message:?} became {again:?}");
        }
        assert!(!pieces(message).is_empty());
        rest = &rest[taken..];
    }
    if let Ok(Some((_, taken))) = decode_within(bytes, GREETING_LIMIT) {
        assert!(
            taken <= GREETING_LIMIT + size_of::<u32>(),
            "a stranger's {taken} bytes were taken"
        );
    }
}
