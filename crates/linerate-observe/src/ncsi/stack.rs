//! Commands through the kernel's own NC-SI stack, over generic netlink.
//!
//! The kernel waits a second for an answer and never asks again. We do, for commands that may be
//! carried out twice: a repeat goes under a new number, so the controller carries it out instead of
//! repeating its answer, and port statistics, which some controllers clear when they are read,
//! would be lost.

use std::time::Duration;

use linerate_packet::ncsi::{Answer, Command, Outcome};
use linerate_sys::SysError;
use linerate_sys::netlink::{Family, GenericSocket};
use linerate_sys::packet::interface_index;
use linerate_sys::privilege::{self, Sideband};
use rustix::io::Errno;

use super::exchange::{Address, Failure, Reply, Strays};
use super::kernel;

/// How long the kernel is waited for: its own second, and room for it to say that it is over. For a
/// package it does not know it says nothing at all.
const PATIENCE: Duration = Duration::from_millis(1500);
/// Tries of a command that may be carried out twice, the standard's recommendation for a package
/// that may be absent.
const TRIES: u32 = 3;

/// The stack, as the owner of one interface.
#[derive(Debug)]
pub(super) struct Stack {
    socket: GenericSocket,
    family: Family,
    interface: u32,
}

impl Stack {
    /// Opens the stack for the interface called `device`, which it owns.
    pub(super) fn open(device: &str) -> Result<Self, SysError> {
        let interface = interface_index(device)?;
        let mut socket = GenericSocket::open()?;
        let gone = || SysError::new("look up generic netlink family", kernel::FAMILY, Errno::NOENT);
        let family = socket.family(kernel::FAMILY)?.ok_or_else(gone)?;
        Ok(Self { socket, family, interface })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(
        &mut self,
        address: Address,
        command: &Command,
    ) -> Result<Result<Reply, Failure>, SysError> {
        let request = kernel::to_send(self.interface, address, command);
        let what = format!(
            "the answer to command 0x{:02x} of package {}",
            command.kind(),
            address.package
        );
        // Each call makes a new request with a number of its own; the kernel gives that number.
        let mut ask =
            || self.socket.ask(&self.family, kernel::SEND_COMMAND, &request, PATIENCE, &what);
        pursue(address, command, &mut ask)
    }
}

/// Question for the pass-through statistics of one channel, asked again and again: its message is
/// made once.
#[derive(Debug)]
pub(crate) struct Repeated {
    stack: Stack,
    at: Sideband,
    request: Vec<u8>,
    asks: Asks,
}

/// Process that asks: the kernel takes commands from one with CAP_NET_ADMIN only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Here,
    Helper,
}

impl Repeated {
    /// Prepares the question for the channel `at`, whose interface the stack owns.
    pub(crate) fn open(at: Sideband) -> Result<Self, SysError> {
        let stack = Stack::open(&at.device)?;
        let request = kernel::to_send(stack.interface, address(&at), &QUESTION);
        Ok(Self { stack, at, request, asks: Asks::Here })
    }

    /// Asks once, and waits at most `patience`; `None` if no answer came. Allocates only for an
    /// error, unless the helper asks.
    pub(crate) fn ask(&mut self, patience: Duration) -> Result<Option<Answer>, SysError> {
        let mut answer = None;
        let at = address(&self.at);
        self.look(patience, |attributes| answer = answered(at, attributes))?;
        Ok(answer)
    }

    /// Asks for the first time, with the kernel's full second. `None` if the channel is silent.
    pub(crate) fn ask_first(&mut self) -> Result<Result<Option<Answer>, Failure>, SysError> {
        match self.ask(PATIENCE) {
            Ok(answer) => Ok(Ok(answer)),
            Err(error) => withheld(QUESTION.kind(), error).map(Err),
        }
    }

    /// Visits the attributes of the kernel's answer.
    fn look(&mut self, patience: Duration, mut visit: impl FnMut(&[u8])) -> Result<(), SysError> {
        let Self { stack, at, request, asks } = self;
        if *asks == Asks::Here {
            let (family, command) = (&stack.family, kernel::SEND_COMMAND);
            match stack.socket.look(family, command, request, patience, &mut visit) {
                Err(error) if error.is_refused() => {}
                told => return told.map(drop),
            }
        }
        let Some(told) = privilege::sideband_statistics(at, patience) else {
            let cause = Errno::PERM;
            return Err(SysError::new("ask through the NC-SI stack of", &at.device, cause));
        };
        *asks = Asks::Helper;
        let told = told.map_err(|cause| {
            SysError::new("ask the broker for statistics of", at.device.clone(), cause)
        })?;
        visit(&told);
        Ok(())
    }
}

/// Asks for the pass-through statistics of `at` once, for a process that may not. Returns the
/// attributes of the kernel's answer; none if none came.
///
/// # Errors
/// If the stack does not own the interface, or the kernel refuses.
pub fn statistics_for_another(at: Sideband, patience: Duration) -> Result<Vec<u8>, SysError> {
    let mut attributes = Vec::new();
    let visit = |told: &[u8]| attributes = told.to_vec();
    Repeated::open(at)?.look(patience.min(PATIENCE), visit)?;
    Ok(attributes)
}

const QUESTION: Command = Command::GetPassThroughStatistics;

const fn address(at: &Sideband) -> Address {
    Address { package: at.package, channel: at.channel }
}

/// Returns the completed answer in the attributes that the kernel sent.
fn answered(address: Address, attributes: &[u8]) -> Option<Answer> {
    let packet = kernel::packet(attributes)?;
    let (outcome, _, answer) = kernel::answer(address, QUESTION.kind(), packet)?;
    (outcome == Outcome::Completed).then_some(answer)
}

/// Returns true if a second execution has the same result and effect as the first.
const fn may_repeat(command: &Command) -> bool {
    matches!(
        command,
        Command::GetVersion
            | Command::GetCapabilities
            | Command::GetParameters
            | Command::GetLinkStatus
            | Command::GetPackageStatus
            | Command::GetPackageUuid
            | Command::GetMcMacAddress
    )
}

/// Asks by `ask` until there is an answer or a final failure.
fn pursue(
    address: Address,
    command: &Command,
    ask: &mut dyn FnMut() -> Result<Option<Vec<u8>>, SysError>,
) -> Result<Result<Reply, Failure>, SysError> {
    let most = if may_repeat(command) { TRIES } else { 1 };
    let mut strays = Strays::default();
    for tries in 1..=most {
        let handed_over = match ask() {
            Ok(handed_over) => handed_over,
            Err(error) => return withheld(command.kind(), error).map(Err),
        };
        // The kernel's second is over, so the controller can be asked again.
        let Some(packet) = handed_over.as_deref().and_then(kernel::packet) else { continue };
        if let Some((outcome, reason, answer)) = kernel::answer(address, command.kind(), packet) {
            return Ok(Ok(Reply { outcome, reason, answer, tries, strays }));
        }
        strays.malformed += 1;
    }
    let Strays { malformed, checksum, .. } = strays;
    Ok(Err(if malformed == 0 {
        Failure::Silent(most)
    } else {
        Failure::Broken { malformed, checksum }
    }))
}

/// Returns the meaning of a refusal. Our requests are complete, so an invalid request cannot be the
/// cause.
fn withheld(kind: u8, error: SysError) -> Result<Failure, SysError> {
    match error.errno().map(Errno::from_raw_os_error) {
        Some(Errno::INVAL) => Ok(Failure::Withheld(kind)),
        Some(Errno::OPNOTSUPP) => Ok(Failure::NoCommands),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use linerate_packet::ncsi::{Letter, Reason};
    use linerate_sys::netlink::push;

    use super::*;

    const CHANNEL: Address = Address { package: 0, channel: 0 };
    const DATA: u16 = 5;

    /// Returns the packet that the kernel hands over when the controller answers `kind` with
    /// `payload`.
    fn handed_over(kind: u8, payload: &[u8]) -> Vec<u8> {
        let letter = Letter { instance: 200, kind, payload, ..Letter::default() };
        let mut bytes = kernel::of_interface(5);
        push(&mut bytes, DATA, &letter.emit_packet());
        bytes
    }

    /// Asks a kernel that does what `script` says, in order; what came of it, and how often it was
    /// asked.
    fn asked(
        command: &Command,
        script: Vec<Result<Option<Vec<u8>>, Errno>>,
    ) -> (Result<Reply, Failure>, usize) {
        let mut script = script.into_iter();
        let mut n_asked = 0;
        let mut ask = || {
            n_asked += 1;
            let next = script.next().expect("asked more often than the script is long");
            next.map_err(|cause| SysError::new("ask for", "an answer", cause))
        };
        let answered = pursue(CHANNEL, command, &mut ask).expect("the kernel's own stack is there");
        (answered, n_asked)
    }

    /// The kernel's second is over: its message without a packet.
    fn given_up() -> Result<Option<Vec<u8>>, Errno> {
        Ok(Some(kernel::of_interface(5)))
    }

    #[test]
    fn an_answer_and_a_refusal_by_the_controller_are_replies() {
        let (reply, _) =
            asked(&Command::EnableChannel, vec![Ok(Some(handed_over(0x83, &[0, 0, 0, 0])))]);
        assert_eq!(reply.map(|reply| (reply.outcome, reply.tries)), Ok((Outcome::Completed, 1)));
        let (reply, _) =
            asked(&Command::EnableChannel, vec![Ok(Some(handed_over(0x83, &[0, 1, 0, 1])))]);
        let refused = (Outcome::Failed, Reason::INITIALIZATION_REQUIRED);
        assert_eq!(reply.map(|reply| (reply.outcome, reply.reason)), Ok(refused));
    }

    #[test]
    fn what_may_be_carried_out_twice_is_asked_three_times_and_the_rest_once() {
        let silent = |n| (0..n).map(|_| given_up()).collect::<Vec<_>>();
        assert_eq!(asked(&Command::GetVersion, silent(3)), (Err(Failure::Silent(3)), 3));
        for once in
            [Command::GetPortStatistics, Command::GetPassThroughStatistics, Command::EnableChannel]
        {
            assert_eq!(asked(&once, silent(1)), (Err(Failure::Silent(1)), 1), "{once:?}");
        }
        // Nothing at all, as for a package the kernel does not know, then the answer.
        let script = vec![Ok(None), Ok(Some(handed_over(0x8a, &[0; 16])))];
        let (reply, n_asked) = asked(&Command::GetLinkStatus, script);
        assert_eq!((reply.map(|reply| reply.tries), n_asked), (Ok(2), 2));
    }

    #[test]
    fn an_answer_that_the_kernel_withholds_is_told_with_its_cause_and_its_remedy() {
        let (withheld, n_asked) =
            asked(&Command::GetPassThroughStatistics, vec![Err(Errno::INVAL)]);
        let text = withheld.expect_err("withheld").to_string();
        for part in ["0x1a", "Linux 5.4", "204, 32 and 48", "172", "--force-raw"] {
            assert!(text.contains(part), "no {part} in: {text}");
        }
        assert_eq!(n_asked, 1, "it would refuse again");
        let text = asked(&Command::GetCapabilities, vec![Err(Errno::INVAL)])
            .0
            .expect_err("withheld")
            .to_string();
        assert!(!text.contains("172") && text.contains("--force-raw"), "{text}");
        let (none, _) = asked(&Command::GetVersion, vec![Err(Errno::OPNOTSUPP)]);
        assert_eq!(none, Err(Failure::NoCommands));
    }

    #[test]
    fn answers_to_something_else_are_broken_and_other_refusals_are_the_kernels() {
        let (broken, _) =
            asked(&Command::GetPortStatistics, vec![Ok(Some(handed_over(0x99, &[0; 32])))]);
        assert_eq!(broken, Err(Failure::Broken { malformed: 1, checksum: 0 }));
        let mut ask = || Err(SysError::new("ask for", "an answer", Errno::PERM));
        let error = pursue(CHANNEL, &Command::GetVersion, &mut ask).expect_err("not allowed");
        assert_eq!(error.errno(), Some(Errno::PERM.raw_os_error()));
    }

    #[test]
    fn a_repeated_question_takes_its_own_completed_answer_and_nothing_else() {
        let mut counted = vec![0; 48];
        // Counter 7 of the standard: drops of what came from the network.
        counted[35] = 9;
        let read = answered(CHANNEL, &handed_over(0x9a, &counted));
        let Some(Answer::PassThroughStatistics(read)) = read else { panic!("{read:?}") };
        assert_eq!(read.counters[6], Some(9));
        let refused = handed_over(0x9a, &[0, 1, 0, 1]);
        assert_eq!(answered(CHANNEL, &refused), None, "a refusal");
        assert_eq!(answered(CHANNEL, &kernel::of_interface(5)), None, "the kernel gave up");
        let other = Address { package: 0, channel: 1 };
        assert_eq!(answered(other, &handed_over(0x9a, &counted)), None, "another channel");
    }
}
