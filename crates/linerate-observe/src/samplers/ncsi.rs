//! Packets that a network controller passes through to the host behind its sideband, by its own
//! counters: Get NC-SI Pass-through Statistics (DSP0222), requested over the sideband once a
//! reading. `rx` comes from the network, `tx` from this host.
//!
//! The sampler reads only interfaces that a testbed names and that the kernel's own NC-SI stack
//! does not own. Raw frames beside that stack would collide with its numbering, and through the
//! stack a silent controller would delay a reading by a second. A controller must answer within 50
//! ms. A sampler waits 5 ms and uses a later answer for the next reading. The size of the receive
//! buffer (Get Capabilities) is requested once, when the sampler is opened, and recorded as
//! reported: the analysis decides whether it can be true. Not seen: other channels than the first,
//! and counters that the controller does not have.

use linerate_model::series::ncsi;
use linerate_model::{Series, SeriesSpec};
use linerate_packet::ncsi::{
    Answer, Capabilities, Checksum, Command, Letter, PassThroughStatistics,
};
use linerate_sys::packet::{PacketSocket, wait};

use crate::ncsi::{Ownership, ownership};
use crate::{Probe, Sampler, Scope, Unavailable};

const ETHERTYPE: u16 = 0x88f8;
/// How long a reading waits for its answer.
const PATIENCE_NS: u64 = 5_000_000;
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
        statistics over NC-SI; first channel only",
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

/// Opens `device` and asks its controller for the size of the receive buffer.
fn asked(device: &str, buffer: &mut [u8]) -> Result<Asked, Unavailable> {
    // If the kernel does not know the owner, the testbed decides.
    if let Ok(Ownership::Stack(_)) = ownership(device) {
        return Err(Unavailable(format!(
            "the kernel's NC-SI stack owns {device}, and raw frames beside it could take its \
                    answers (linerate ncsi watch asks through it)"
        )));
    }
    let socket = PacketSocket::open_for(device, ETHERTYPE)
        .map_err(|error| Unavailable(error.to_string()))?;
    let mut asked = Asked {
        device: device.to_owned(),
        socket,
        request: request(Command::GetPassThroughStatistics),
        instance: 0,
        receive_buffer: None,
    };
    asked.receive_buffer = asked.ask_for_buffer(buffer);
    Ok(asked)
}

/// One controller and the request it is sent.
struct Asked {
    device: String,
    socket: PacketSocket,
    request: Vec<u8>,
    /// Number of the last request.
    instance: u8,
    /// Reported size of its receive buffer, bytes.
    receive_buffer: Option<u32>,
}

struct Reader {
    asked: Vec<Asked>,
    buffer: Box<[u8]>,
}

impl Asked {
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
    match answer(frame, Command::GetPassThroughStatistics)? {
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
            let Some(statistics) = asked.read(&mut self.buffer) else { continue };
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
}
