//! Packets that a network controller passes through to the host behind its sideband, by its own
//! counters: Get NC-SI Pass-through Statistics (DSP0222), requested over the sideband once a
//! reading. `rx` comes from the network, `tx` from this host.
//!
//! The sampler reads only interfaces that a testbed names. Where the kernel's own NC-SI stack owns
//! the interface, it asks through that, over generic netlink (CAP_NET_ADMIN; an agent's broker asks
//! for it), the channel that the kernel uses; elsewhere it asks the first channel in raw frames. A
//! controller must answer within 50 ms. In raw frames a reading waits 5 ms and uses a later answer for the next reading; through
//! the stack it waits the 50 ms, and asks a silent channel less often. The size of the receive
//! buffer (Get Capabilities) is requested once, when the sampler is opened, and recorded as
//! reported: the analysis decides whether it can be true. It is not requested through the stack,
//! because many kernels take that answer for one to a question of their own. Not seen: other
//! channels, and counters that the controller does not have.

use std::time::Duration;

use linerate_model::series::ncsi;
use linerate_model::{Series, SeriesSpec};
use linerate_packet::ncsi::{
    Answer, Capabilities, Checksum, Command, Letter, PassThroughStatistics,
};
use linerate_sys::packet::{PacketSocket, wait};
use linerate_sys::privilege::{self, Sideband};

use crate::ncsi::kernel::Package;
use crate::ncsi::{ETHERTYPE, Ownership, Repeated, ownership};
use crate::{Probe, Sampler, Scope, Unavailable};

/// How long a reading in raw frames waits for its answer.
const PATIENCE_NS: u64 = 5_000_000;
/// How long a reading through the kernel's stack waits: a controller must answer within 50 ms
/// (NC-SI reference 2), and the kernel matches no answer to a later question.
const STACK_PATIENCE: Duration = Duration::from_millis(50);
/// How long the question for the buffer waits, and how often it is asked: a controller must answer
/// within 50 ms.
const BUFFER_PATIENCE_NS: u64 = 50_000_000;
const BUFFER_TRIES: u8 = 3;
/// Offset of the instance number in a frame.
const INSTANCE_AT: usize = 17;
const LONGEST: usize = 1518;

/// Our column and the number of the counter, from 0.
const COLUMNS: [(Series, usize); 6] = [
    (ncsi::PASS_THROUGH_RECEIVED, 5),
    (ncsi::PASS_THROUGH_DROPPED, 6),
    (ncsi::PASS_THROUGH_REFUSED, 7),
    (ncsi::PASS_THROUGH_SENT, 0),
    (ncsi::PASS_THROUGH_SENT_DROPPED, 1),
    (ncsi::PASS_THROUGH_SENT_REFUSED, 2),
];

/// Pass-through statistics of controllers.
pub(super) const SAMPLER: Sampler = Sampler {
    name: ncsi::SAMPLER.text(),
    summary: "packets a network controller passed through its sideband and dropped, by its own \
        statistics over NC-SI; one channel only",
    open,
};

fn open(scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
    if scope.controllers.is_empty() {
        return Err(Unavailable(
            "the testbed names no interface behind an NC-SI controller".into(),
        ));
    }
    let mut buffer = vec![0; LONGEST].into_boxed_slice();
    let devices = scope.controllers.iter();
    let asked = devices
        .map(|device| asked(device, &mut buffer))
        .collect::<Result<Vec<_>, Unavailable>>()?;
    Ok(Box::new(Reader { asked, buffer }))
}

/// Opens `device`, by the way that is safe.
fn asked(device: &str, buffer: &mut [u8]) -> Result<Asked, Unavailable> {
    let (way, receive_buffer) = match ownership(device) {
        Ok(Ownership::Stack(packages)) => (Way::Stack(Stacked::open(device, &packages)?), None),
        // If the kernel does not know the owner, the testbed decides.
        _ => {
            let mut wire = Wire::open(device)?;
            let receive_buffer = wire.ask_for_buffer(buffer);
            (Way::Wire(wire), receive_buffer)
        }
    };
    Ok(Asked { device: device.to_owned(), way, receive_buffer })
}

/// One controller.
struct Asked {
    device: String,
    way: Way,
    /// Reported size of its receive buffer, bytes.
    receive_buffer: Option<u32>,
}

/// How a controller is asked.
enum Way {
    Wire(Wire),
    Stack(Stacked),
}

struct Reader {
    asked: Vec<Asked>,
    buffer: Box<[u8]>,
}

/// Questions through the kernel's stack.
struct Stacked {
    question: Repeated,
    silence: Silence,
}

impl Stacked {
    /// Opens the stack, which owns `device`, and asks once.
    fn open(device: &str, packages: &[Package]) -> Result<Self, Unavailable> {
        let at = in_use(device, packages).ok_or_else(|| {
            Unavailable(format!(
                "the kernel's NC-SI stack owns {device} and knows no channel (it searches when \
                    the interface comes up)"
            ))
        })?;
        let mut question = Repeated::open(at).map_err(|error| refused(device, error))?;
        match question.ask_first().map_err(|error| refused(device, error))? {
            Err(failure) => Err(refused(device, failure)),
            Ok(None) => Err(refused(device, "no answer")),
            Ok(Some(_)) => Ok(Self { question, silence: Silence::default() }),
        }
    }

    fn read(&mut self) -> Option<PassThroughStatistics> {
        if !self.silence.is_over() {
            return None;
        }
        let answer = self.question.ask(STACK_PATIENCE).ok().flatten();
        self.silence.noted(answer.is_some());
        answer.and_then(pass_through)
    }
}

/// Returns the reason why `device` is not read through the stack, with the remedy.
fn refused(device: &str, why: impl std::fmt::Display) -> Unavailable {
    let remedy = privilege::remedy().unwrap_or("linerate ncsi stats shows how it answers");
    Unavailable(format!(
        "pass-through statistics of {device} through the kernel's NC-SI stack: {why} ({remedy})"
    ))
}

/// Returns the channel that the kernel's traffic goes through, or the first one.
fn in_use(device: &str, packages: &[Package]) -> Option<Sideband> {
    let mut first = None;
    for package in packages {
        for channel in &package.channels {
            let (package, number) = (package.number, channel.number);
            let at = || Sideband { device: device.to_owned(), package, channel: number };
            if channel.active {
                return Some(at());
            }
            first = first.or_else(|| Some(at()));
        }
    }
    first
}

/// Readings that a channel did not answer. Each would delay the other samplers, so after a few of
/// them only some are asked.
#[derive(Debug, Default)]
struct Silence {
    n_silent: u32,
    /// Readings left without a question.
    rest: u32,
}

impl Silence {
    /// Silent readings before a rest, and the readings that it lasts.
    const BEFORE: u32 = 3;
    const REST: u32 = 9;

    /// Returns true if this reading asks.
    fn is_over(&mut self) -> bool {
        let asks = self.rest == 0;
        self.rest = self.rest.saturating_sub(1);
        asks
    }

    fn noted(&mut self, answered: bool) {
        self.n_silent = if answered { 0 } else { self.n_silent + 1 };
        if self.n_silent >= Self::BEFORE {
            self.rest = Self::REST;
        }
    }
}

/// Questions in raw frames.
struct Wire {
    socket: PacketSocket,
    request: Vec<u8>,
    /// Number of the last request.
    instance: u8,
}

impl Wire {
    fn open(device: &str) -> Result<Self, Unavailable> {
        let socket = PacketSocket::open_for(device, ETHERTYPE)
            .map_err(|error| Unavailable(error.to_string()))?;
        Ok(Self { socket, request: request(Command::GetPassThroughStatistics), instance: 0 })
    }

    /// Sends the request under a new number and takes the latest answer.
    fn read(&mut self, buffer: &mut [u8]) -> Option<PassThroughStatistics> {
        // 0 belongs to notifications. The number changes for each request, because a repeated one
        // would get the old answer.
        self.instance = self.instance.wrapping_add(1).max(1);
        self.request[INSTANCE_AT] = self.instance;
        // What cannot be sent or has gone away shows as a gap.
        let _sent = self.socket.send(&self.request);
        let _waited = wait([&self.socket], PATIENCE_NS);
        // The newest answer counts: an earlier one that came late is older than the load.
        let mut latest = None;
        while let Ok(Some(length)) = self.socket.receive(buffer) {
            latest = statistics(&buffer[..length]).or(latest);
        }
        latest
    }

    /// Asks what the controller can do; `None` if it does not say.
    fn ask_for_buffer(&mut self, buffer: &mut [u8]) -> Option<u32> {
        let mut question = request(Command::GetCapabilities);
        for _ in 0..BUFFER_TRIES {
            self.instance = self.instance.wrapping_add(1).max(1);
            question[INSTANCE_AT] = self.instance;
            let _sent = self.socket.send(&question);
            let _waited = wait([&self.socket], BUFFER_PATIENCE_NS);
            while let Ok(Some(length)) = self.socket.receive(buffer) {
                if let Some(capabilities) = capabilities(&buffer[..length]) {
                    return Some(capabilities.buffer);
                }
            }
        }
        None
    }
}

/// A request to the first channel, whose instance number is still to be set. Its checksum is
/// absent, so that nothing else changes from one to the next.
fn request(command: Command) -> Vec<u8> {
    let kind = command.kind();
    // The instance is written at its offset for each request, so the frame is built once.
    let letter = Letter { kind, checksum: Checksum::Absent, ..Letter::default() };
    letter.emit()
}

/// Returns the answer of `frame` to `command`.
fn answer(frame: &[u8], command: Command) -> Option<Answer> {
    let letter = Letter::parse(frame).ok()?;
    let ours = letter.is_response() && letter.command() == command.kind();
    (ours && letter.checksum != Checksum::Wrong)
        .then(|| Answer::parse(letter.command(), letter.payload).2)
}

fn statistics(frame: &[u8]) -> Option<PassThroughStatistics> {
    pass_through(answer(frame, Command::GetPassThroughStatistics)?)
}

fn pass_through(answer: Answer) -> Option<PassThroughStatistics> {
    match answer {
        Answer::PassThroughStatistics(statistics) => Some(statistics),
        _ => None,
    }
}

fn capabilities(frame: &[u8]) -> Option<Capabilities> {
    match answer(frame, Command::GetCapabilities)? {
        Answer::Capabilities(capabilities) => Some(capabilities),
        _ => None,
    }
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        self.asked
            .iter()
            .flat_map(|asked| {
                let counters = COLUMNS.map(|(column, _)| column.of(&asked.device));
                counters.into_iter().chain([ncsi::RECEIVE_BUFFER.of(&asked.device)])
            })
            .collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        for (asked, cells) in self.asked.iter_mut().zip(row.chunks_mut(COLUMNS.len() + 1)) {
            cells[COLUMNS.len()] = asked.receive_buffer.map(f64::from);
            let statistics = match &mut asked.way {
                Way::Wire(wire) => wire.read(&mut self.buffer),
                Way::Stack(stacked) => stacked.read(),
            };
            let Some(statistics) = statistics else { continue };
            for (cell, (_, counter)) in cells.iter_mut().zip(COLUMNS) {
                *cell = statistics.counters[counter].map(|value| value as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_standard_is_read_and_others_are_passed_over() {
        let text = include_str!("../../fixtures/ncsi_pass_through.hex");
        let hex: Vec<u8> =
            text.lines().filter(|line| !line.starts_with('#')).flat_map(str::bytes).collect();
        let mut frame: Vec<u8> = hex
            .chunks(2)
            .map(|pair| {
                u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16)
                    .expect("hexadecimal")
            })
            .collect();
        let read = statistics(&frame).expect("statistics");
        assert_eq!(read.counters[5..7], [Some(50_000), Some(4321)]);
        frame[30] ^= 1;
        assert_eq!(statistics(&frame), None, "its checksum is wrong now");
        assert_eq!(statistics(&[0; 60]), None);
    }

    #[test]
    fn nothing_is_asked_of_an_interface_that_nobody_named() {
        let error = super::open(&Scope::default()).err().expect("nothing named");
        assert!(error.0.contains("names no interface"), "{error}");
    }

    #[test]
    fn the_channel_that_the_kernel_uses_is_read_else_the_first_one() {
        use crate::ncsi::kernel::Channel;
        let package = |number, actives: &[bool]| {
            let channel = |(number, active)| Channel { number, active, ..Channel::default() };
            let channels = (0..).zip(actives.iter().copied()).map(channel).collect();
            Package { number, forced: false, channels }
        };
        let read =
            |packages: &[Package]| in_use("eth0", packages).map(|at| (at.package, at.channel));
        let active = [package(0, &[false, false]), package(2, &[false, true])];
        assert_eq!(read(&active), Some((2, 1)));
        assert_eq!(read(&[package(0, &[]), package(1, &[false])]), Some((1, 0)));
        assert_eq!(read(&[package(0, &[])]), None);
    }

    #[test]
    fn a_silent_channel_is_asked_less_often_until_it_answers() {
        let mut silence = Silence::default();
        let mut asked = |readings: u32, answers: bool| {
            let mut n_asked = 0;
            for _ in 0..readings {
                if silence.is_over() {
                    silence.noted(answers);
                    n_asked += 1;
                }
            }
            n_asked
        };
        assert_eq!(asked(10, true), 10);
        assert_eq!(asked(33, false), 6, "three in a row, then one in ten");
        assert_eq!(asked(20, true), 11, "after the rest each reading asks again");
    }
}
