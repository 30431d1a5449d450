//! What a network controller passes through to the host behind its sideband, as it says itself: Get NC-SI Pass-through
//! Statistics (DSP0222), asked over the sideband once a reading. Packets; `rx` comes from the network, `tx` from this host.
//!
//! Only on interfaces that a testbed names. A controller must answer within 50 ms; a sampler waits 5 ms, and a later answer
//! stands for the next reading. Not seen: other channels than the first, and counters the controller does not have.

use linerate_model::{SeriesSpec, Unit};
use linerate_packet::ncsi::{Answer, Checksum, Command, Letter, PassThroughStatistics};
use linerate_sys::packet::{PacketSocket, wait};

use crate::sampler::counter;
use crate::{Probe, Sampler, Scope, Unavailable};

const NAME: &str = "ncsi";
const ETHERTYPE: u16 = 0x88f8;
/// How long a reading waits for its answer.
const PATIENCE_NS: u64 = 5_000_000;
/// Offset of the instance number in a frame.
const INSTANCE_AT: usize = 17;
const LONGEST: usize = 1518;

/// Our name and the number of the counter, from 0.
const COLUMNS: [(&str, usize); 6] = [
    ("pass_through_received", 5),
    ("pass_through_dropped", 6),
    ("pass_through_refused", 7),
    ("pass_through_sent", 0),
    ("pass_through_sent_dropped", 1),
    ("pass_through_sent_refused", 2),
];

/// Pass-through statistics of controllers.
#[derive(Debug)]
pub(super) struct Ncsi;

impl Sampler for Ncsi {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "packets a network controller passed through its sideband and dropped, by its own statistics over NC-SI; first channel only"
    }

    fn open(&self, scope: &Scope) -> Result<Box<dyn Probe>, Unavailable> {
        if scope.controllers.is_empty() {
            return Err(Unavailable("the testbed names no interface behind an NC-SI controller".into()));
        }
        let open = |device: &String| {
            let socket = PacketSocket::open_for(device, ETHERTYPE).map_err(|error| Unavailable(error.to_string()))?;
            let mut request = Letter {
                management: 0,
                instance: 1,
                kind: Command::GetPassThroughStatistics.kind(),
                package: 0,
                channel: 0,
                payload: &[],
                // Absent, so that only the instance number changes from one request to the next.
                checksum: Checksum::Absent,
            }
            .emit();
            request[INSTANCE_AT] = 0;
            Ok(Asked { device: device.clone(), socket, request })
        };
        let asked = scope.controllers.iter().map(open).collect::<Result<Vec<_>, Unavailable>>()?;
        Ok(Box::new(Reader { asked, buffer: vec![0; LONGEST].into_boxed_slice() }))
    }
}

/// One controller and the request it is sent.
struct Asked {
    device: String,
    socket: PacketSocket,
    request: Vec<u8>,
}

struct Reader {
    asked: Vec<Asked>,
    buffer: Box<[u8]>,
}

impl Asked {
    /// Sends the request under a new number and takes the latest answer.
    fn read(&mut self, buffer: &mut [u8]) -> Option<PassThroughStatistics> {
        let instance = self.request[INSTANCE_AT].wrapping_add(1).max(1);
        self.request[INSTANCE_AT] = instance;
        // What cannot be sent or has gone away shows as a gap.
        let _sent = self.socket.send(&self.request);
        let _waited = wait([&self.socket], PATIENCE_NS);
        let mut latest = None;
        while let Ok(Some(length)) = self.socket.receive(buffer) {
            latest = statistics(&buffer[..length]).or(latest);
        }
        latest
    }
}

fn statistics(frame: &[u8]) -> Option<PassThroughStatistics> {
    let letter = Letter::parse(frame).ok()?;
    let ours = letter.is_response() && letter.command() == Command::GetPassThroughStatistics.kind();
    if !ours || letter.checksum == Checksum::Wrong {
        return None;
    }
    match Answer::parse(letter.command(), letter.payload) {
        (_, _, Answer::PassThroughStatistics(statistics)) => Some(statistics),
        _ => None,
    }
}

impl Probe for Reader {
    fn series(&self) -> Vec<SeriesSpec> {
        let of = |asked: &Asked| COLUMNS.map(|(name, _)| counter(NAME, name, &asked.device, Unit::Count));
        self.asked.iter().flat_map(of).collect()
    }

    fn read(&mut self, row: &mut [Option<f64>]) {
        for (asked, cells) in self.asked.iter_mut().zip(row.chunks_mut(COLUMNS.len())) {
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
        let hex: Vec<u8> = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::bytes).collect();
        let mut frame: Vec<u8> = hex
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal"))
            .collect();
        let read = statistics(&frame).expect("statistics");
        assert_eq!(read.received_and_dropped(), (Some(50_000), Some(4321)));
        frame[30] ^= 1;
        assert_eq!(statistics(&frame), None, "its checksum is wrong now");
        assert_eq!(statistics(&[0; 60]), None);
    }

    #[test]
    fn nothing_is_asked_of_an_interface_that_nobody_named() {
        let error = Ncsi.open(&Scope::default()).err().expect("nothing named");
        assert!(error.0.contains("names no interface"), "{error}");
    }
}
