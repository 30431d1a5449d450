//! Any bytes whatever are read without a panic, and what is emitted reads back as what it was.

use linerate_packet::ncsi::{Answer, Checksum, Command, Letter, Notification, kind};
use proptest::prelude::*;

#[path = "../../../fuzz/driver.rs"]
mod driver;
#[path = "../../../fuzz/entries/ncsi.rs"]
mod entry;
#[path = "../../../fuzz/entries/snmp.rs"]
mod snmp;

/// Types whose answers have a body of their own.
const TOLD: [u8; 12] = [
    kind::GET_LINK_STATUS,
    kind::GET_VERSION,
    kind::GET_CAPABILITIES,
    kind::GET_PARAMETERS,
    kind::GET_PORT_STATISTICS,
    kind::GET_CONTROL_STATISTICS,
    kind::GET_PASS_THROUGH_STATISTICS,
    kind::GET_PACKAGE_STATUS,
    kind::GET_PACKAGE_UUID,
    kind::GET_MC_MAC_ADDRESS,
    kind::OEM,
    kind::SELECT_PACKAGE,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn rubbish_is_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        entry::ncsi(&bytes);
    }

    #[test]
    fn rubbish_in_an_envelope_is_read_without_a_panic(
        kind in any::<u8>(),
        payload in proptest::collection::vec(any::<u8>(), 0..260),
    ) {
        let letter = Letter { management: 0, instance: 1, kind, package: 0, channel: 0,
            payload: &payload, checksum: Checksum::Right };
        entry::ncsi(&letter.emit());
    }

    #[test]
    fn letters_read_back(
        instance in 1_u8..,
        kind in any::<u8>(),
        package in 0_u8..8,
        channel in 0_u8..32,
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let letter = Letter { management: 0, instance, kind, package, channel, payload: &payload,
            checksum: Checksum::Right };
        let frame = letter.emit();
        let read = Letter::parse(&frame).expect("ours");
        // A checksum of zero looks like an absent one.
        prop_assert_ne!(read.checksum, Checksum::Wrong);
        prop_assert_eq!(Letter { checksum: Checksum::Right, ..read }, letter);
    }

    #[test]
    fn what_was_read_is_emitted_so_that_it_reads_the_same(
        place in 0..TOLD.len(),
        body in proptest::collection::vec(any::<u8>(), 0..220),
    ) {
        let command = TOLD[place];
        let payload = [&[0, 0, 0, 0][..], &body].concat();
        let (outcome, reason, answer) = Answer::parse(command, &payload);
        prop_assert_eq!(Answer::parse(command, &answer.emit(outcome, reason)),
            (outcome, reason, answer));
        let command = Command::parse(command, &body);
        prop_assert_eq!(Command::parse(command.kind(), &command.emit()), command);
        if let Some(notification) = Notification::parse(&body) {
            prop_assert_eq!(Notification::parse(&notification.emit()), Some(notification));
        }
    }
}

/// Frames of other programs, from hexadecimal.
fn vectors() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let entries = std::fs::read_dir(folder).expect("there are some").flatten();
    let mut paths: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension() == Some("hex".as_ref()))
        .collect();
    paths.sort();
    let byte = |pair: &[u8]| {
        u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits")
    };
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("readable");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let digits: Vec<u8> = lines.flat_map(str::bytes).filter(u8::is_ascii_hexdigit).collect();
        digits.chunks_exact(2).map(byte).collect()
    };
    paths.iter().map(read).collect()
}

#[test]
fn fuzz_ncsi() {
    driver::fuzz("ncsi", vectors(), &[], |bytes| {
        entry::ncsi(bytes);
        // Inputs belong to one class if their results differ only in digits.
        let read = |letter: Letter<'_>| {
            ("k".repeat(letter.kind.into()), Answer::parse(letter.command(), letter.payload))
        };
        driver::class(
            &[Letter::parse(bytes), Letter::parse_packet(bytes)].map(|letter| letter.map(read)),
        )
    });
}

#[test]
fn fuzz_snmp() {
    driver::fuzz("snmp", snmp::corpus(), &[], |bytes| driver::class(&snmp::snmp(bytes)));
}
