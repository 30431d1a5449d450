use linerate_packet::ncsi::{Answer, Command, Letter, Notification};

/// Whatever came on a sideband: read as every kind of packet it may be; what was read can be said
/// again and means the same.
pub(crate) fn ncsi(bytes: &[u8]) {
    for letter in [Letter::parse(bytes), Letter::parse_packet(bytes)].into_iter().flatten() {
        let (outcome, reason, answer) = Answer::parse(letter.command(), letter.payload);
        assert!(!reason.words().is_empty());
        let again = Answer::parse(letter.command(), &answer.emit(outcome, reason));
        assert_eq!(again, (outcome, reason, answer));
        let command = Command::parse(letter.kind, letter.payload);
        assert_eq!(Command::parse(command.kind(), &command.emit()), command);
        if let Some(told) = Notification::parse(letter.payload) {
            assert_eq!(Notification::parse(&told.emit()), Some(told));
        }
        assert_eq!(Letter::parse(&letter.emit()).map(|again| again.payload), Ok(letter.payload));
    }
}
