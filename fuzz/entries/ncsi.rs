use linerate_packet::ncsi::{Answer, Command, Letter, Notification};

/// Whatever came on a sideband: read as every kind of packet it may be.
pub(crate) fn ncsi(bytes: &[u8]) {
    for letter in [Letter::parse(bytes), Letter::parse_packet(bytes)].into_iter().flatten() {
        let (outcome, reason, answer) = Answer::parse(letter.command(), letter.payload);
        assert!(!reason.words().is_empty());
        let _payload = answer.emit(outcome, reason);
        let _command = Command::parse(letter.kind, letter.payload).emit();
        let _told = Notification::parse(letter.payload).map(|notification| notification.emit());
        assert_eq!(Letter::parse(&letter.emit()).map(|again| again.payload), Ok(letter.payload));
    }
}
