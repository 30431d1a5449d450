//! Any bytes whatever are read without a panic, and what is emitted reads back as what it was.

use linerate_packet::ncsi::{Answer, Checksum, Command, Letter, Notification, kind};
use proptest::prelude::*;

#[path = "../../../fuzz/entries/ncsi.rs"]
mod entry;

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
        let letter = Letter { management: 0, instance: 1, kind, package: 0, channel: 0, payload: &payload, checksum: Checksum::Right };
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
        let letter = Letter { management: 0, instance, kind, package, channel, payload: &payload, checksum: Checksum::Right };
        let frame = letter.emit();
        let read = Letter::parse(&frame).expect("ours");
        // A sum of zero cannot be told from an absent one.
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
        prop_assert_eq!(Answer::parse(command, &answer.emit(outcome, reason)), (outcome, reason, answer));
        let command = Command::parse(command, &body);
        prop_assert_eq!(Command::parse(command.kind(), &command.emit()), command);
        if let Some(notification) = Notification::parse(&body) {
            prop_assert_eq!(Notification::parse(&notification.emit()), Some(notification));
        }
    }
}
