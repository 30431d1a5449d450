//! One command and its answer, without I/O: time is an argument.
//!
//! A command that is not answered is sent again with the *same* instance number, so that a
//! controller that did carry it out repeats its answer instead of the command (NC-SI reference 2).
//! Answers to others, late or double ones and broken ones are counted and passed over.

use linerate_model::Nanos;
use linerate_packet::ncsi::{Answer, Checksum, Command, Letter, Malformed, Outcome, Reason, kind};

/// A controller must answer within 50 ms (NC-SI reference 2); twice that is allowed before it is
/// asked again.
const PATIENCE: Nanos = Nanos::from_millis(100);
/// Tries before it fails, the standard's recommendation for a package that may be absent.
const TRIES: u32 = 3;

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Package, 0 to 7.
    pub package: u8,
    /// Channel, or the package itself.
    pub channel: u8,
}

/// Frames that arrived and were not the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Strays {
    /// Answers to other commands, other instances or other channels.
    pub foreign: u32,
    /// Packets that end too early or have another revision.
    pub malformed: u32,
    /// Packets with a wrong checksum.
    pub checksum: u32,
    /// Our own command, come back.
    pub echoes: u32,
    /// Notifications.
    pub notifications: u32,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Result of the command.
    pub outcome: Outcome,
    /// Why not.
    pub reason: Reason,
    /// The answer.
    pub answer: Answer,
    /// How often it was asked.
    pub tries: u32,
    /// Other frames that arrived.
    pub strays: Strays,
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing came.
    #[error("no answer after {0} tries")]
    Silent(u32),
    /// Only our own command came back.
    #[error("our own command comes back: the sideband is looped (unplug the loopback)")]
    Loopback,
    /// Only broken answers came.
    #[error(
        "only broken answers came: {malformed} cut off or of another revision, {checksum} with a \
            wrong checksum"
    )]
    Broken {
        /// Cut off or of another revision.
        malformed: u32,
        /// With a wrong checksum.
        checksum: u32,
    },
    /// The kernel's stack had an answer to a command of this type and did not hand it over.
    #[error("{}", withheld(*.0))]
    Withheld(u8),
    /// The kernel's stack takes no commands.
    #[error("this kernel's NC-SI stack takes no commands over netlink (--force-raw goes past it)")]
    NoCommands,
}

/// Why the kernel keeps the answer to a command of type `kind` to itself.
fn withheld(kind: u8) -> String {
    let cause = match kind {
        kind::GET_PORT_STATISTICS
        | kind::GET_CONTROL_STATISTICS
        | kind::GET_PASS_THROUGH_STATISTICS => {
            "since Linux 5.4 this table has the standard's 204, 32 and 48 bytes for 0x18, 0x19 \
                and 0x1a, and firmware before the standard answers with others, such as 172 and 44"
        }
        _ => "a refusal, which is shorter than an answer, is one of these",
    };
    format!(
        "the kernel's NC-SI stack did not hand over the answer to command 0x{kind:02x}: it keeps \
            those with a wrong checksum or \
         of another length than its table says, and {cause} (--force-raw goes past it)"
    )
}

/// Next action of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send the frame, then ask again.
    Send,
    /// Wait for a frame until then.
    Wait(Nanos),
    /// Nothing more: there will be no answer.
    Failed(Failure),
}

/// One command under way.
#[derive(Debug)]
pub struct Exchange {
    frame: Vec<u8>,
    address: Address,
    kind: u8,
    instance: u8,
    tries: u32,
    /// When it is sent again.
    again: Nanos,
    strays: Strays,
}

impl Exchange {
    /// `command` for `address`; `instance` is from 1 to 255 and was not used for the command
    /// before.
    #[must_use]
    pub fn new(address: Address, command: &Command, instance: u8) -> Self {
        let payload = command.emit();
        let letter = Letter {
            instance,
            kind: command.kind(),
            package: address.package,
            channel: address.channel,
            payload: &payload,
            ..Letter::default()
        };
        let frame = letter.emit();
        Self {
            frame,
            address,
            kind: command.kind(),
            instance,
            tries: 0,
            again: Nanos(0),
            strays: Strays::default(),
        }
    }

    /// The frame to send.
    #[must_use]
    pub fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Returns the next action at `now`.
    pub fn step(&mut self, now: Nanos) -> Step {
        if now < self.again {
            return Step::Wait(self.again);
        }
        // The last try has had its time as well when this is reached.
        if self.tries == TRIES {
            return Step::Failed(self.failure());
        }
        self.tries += 1;
        self.again = now + PATIENCE;
        Step::Send
    }

    fn failure(&self) -> Failure {
        // Broken answers say more than an echo: somebody did answer.
        let Strays { malformed, checksum, echoes, .. } = self.strays;
        match (malformed + checksum, echoes) {
            (0, 0) => Failure::Silent(self.tries),
            (0, _) => Failure::Loopback,
            _ => Failure::Broken { malformed, checksum },
        }
    }

    /// Looks at a frame; the answer, if it is that.
    pub fn receive(&mut self, frame: &[u8]) -> Option<Reply> {
        let letter = match Letter::parse(frame) {
            Ok(letter) => letter,
            Err(Malformed::NotNcsi) => return None,
            Err(_) => {
                self.strays.malformed += 1;
                return None;
            }
        };
        let to_us = letter.instance == self.instance
            && letter.command() == self.kind
            && (letter.package, letter.channel) == (self.address.package, self.address.channel);
        let stray = match (&letter, to_us) {
            // Checked first: a frame with a wrong checksum may have any header.
            (letter, _) if letter.checksum == Checksum::Wrong => &mut self.strays.checksum,
            (letter, _) if letter.is_notification() => &mut self.strays.notifications,
            (letter, true) if !letter.is_response() => &mut self.strays.echoes,
            (_, false) => &mut self.strays.foreign,
            (_, true) => {
                let (outcome, reason, answer) = Answer::parse(self.kind, letter.payload);
                return Some(Reply {
                    outcome,
                    reason,
                    answer,
                    tries: self.tries,
                    strays: self.strays,
                });
            }
        };
        *stray += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: Address = Address { package: 0, channel: 0 };

    fn asked() -> Exchange {
        let mut exchange = Exchange::new(CHANNEL, &Command::GetVersion, 7);
        assert_eq!(exchange.step(Nanos(1)), Step::Send);
        exchange
    }

    fn answer(instance: u8, kind: u8, checksum: Checksum) -> Vec<u8> {
        let payload = [0, 0, 0, 0];
        Letter { instance, kind, payload: &payload, checksum, ..Letter::default() }.emit()
    }

    #[test]
    fn a_silent_controller_is_asked_three_times_and_given_up() {
        let mut exchange = asked();
        assert_eq!(exchange.step(Nanos(2)), Step::Wait(Nanos(100_000_001)));
        let first = exchange.frame().to_vec();
        for time in [100_000_001, 200_000_001] {
            assert_eq!(exchange.step(Nanos(time)), Step::Send);
            assert_eq!(exchange.frame(), first, "a retry is the same packet");
        }
        assert_eq!(exchange.step(Nanos(300_000_001)), Step::Failed(Failure::Silent(3)));
    }

    #[test]
    fn strays_are_counted_and_the_answer_is_taken() {
        let mut exchange = asked();
        for stray in [
            answer(6, 0x95, Checksum::Right),
            answer(7, 0x96, Checksum::Right),
            answer(7, 0x95, Checksum::Wrong),
            answer(7, 0x15, Checksum::Right),
            answer(7, 0x95, Checksum::Right)[..33].to_vec(),
            vec![0; 60],
        ] {
            assert_eq!(exchange.receive(&stray), None);
        }
        let reply = exchange.receive(&answer(7, 0x95, Checksum::Absent)).expect("the answer");
        let strays = Strays { foreign: 2, malformed: 1, checksum: 1, echoes: 1, notifications: 0 };
        assert_eq!((reply.outcome, reply.tries, reply.strays), (Outcome::Completed, 1, strays));
    }

    #[test]
    fn broken_answers_and_a_loop_are_told_from_silence() {
        let give_up = |stray: &[u8]| {
            let mut exchange = asked();
            exchange.receive(stray);
            (1..=3).map(|try_idx| exchange.step(Nanos(try_idx * 100_000_001))).last()
        };
        let broken = Failure::Broken { malformed: 0, checksum: 1 };
        assert_eq!(give_up(&answer(7, 0x95, Checksum::Wrong)), Some(Step::Failed(broken)));
        assert_eq!(
            give_up(&answer(7, 0x15, Checksum::Right)),
            Some(Step::Failed(Failure::Loopback))
        );
    }
}
