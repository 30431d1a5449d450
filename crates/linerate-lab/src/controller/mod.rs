//! Emulated network controller: a management controller (BMC) is connected to its sideband and
//! shares its port on the network (NC-SI, DSP0222).
//!
//! Frames from the network wait in a buffer for the sideband, and are dropped when it is full. This
//! loss is the purpose of the emulation. Control packets from the management controller are
//! answered: they use no buffer, but time on the sideband. One virtual core of a Xeon at 2.5 GHz
//! carries 600 Mbit/s of full frames each way at once without losing one (n = 5 of 2 s). A round
//! trip takes 24 us more than over a plain link (median, n = 20 000; 4 us of it serialisation). Not
//! modelled: cables at several ports, pause frames, and traffic between the host system and the
//! management controller.

mod channel;
mod control;
mod filters;
mod letter;
mod statistics;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use linerate_model::Nanos;

pub use crate::pass_through::PassThrough;
pub use control::Event;

use crate::description::Controller;
use crate::middle::{Departures, Passage};
use crate::pass_through::on_the_wire;
use control::{Control, Leaving, Room};

/// Sides of the network and of the management controller.
const NETWORK: usize = 0;
const SIDEBAND: usize = 1;

/// True counts of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Frames that came in, without control packets.
    pub received: u64,
    /// Frames of them that no channel lets pass: filtered, or the channel is not enabled.
    pub refused: u64,
    /// Frames of them that were dropped because the buffer was full.
    pub dropped: u64,
}

impl Passed {
    /// Frames that left or will leave.
    #[must_use]
    pub fn forwarded(&self) -> u64 {
        self.received - self.refused - self.dropped
    }
}

/// Shared counters.
#[derive(Debug, Default)]
struct Counts {
    received: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
}

impl Counts {
    fn read(&self) -> Passed {
        // `received` is read last, so that it is never below the sum of the others.
        let refused = self.refused.load(Ordering::Acquire);
        let dropped = self.dropped.load(Ordering::Acquire);
        Passed { received: self.received.load(Ordering::Acquire), refused, dropped }
    }
}

/// Running controller, as the lab sees it.
#[derive(Debug)]
pub struct Running {
    name: String,
    counts: Arc<[Counts; 2]>,
    events: Sender<Event>,
}

impl Running {
    /// Creates the controller of `description`. Returns its counters and its passage. `management`
    /// is the address of the management controller.
    pub(crate) fn new(description: &Controller, management: [u8; 6]) -> (Self, Device) {
        let counts = Arc::<[Counts; 2]>::default();
        let (events, ordered) = channel();
        let (network, sideband) = (description.network.rate, description.sideband.rate);
        // The port's rate feeds one buffer and the sideband's rate drains it, and the other way
        // round.
        let device = Device {
            ways: [
                PassThrough::new(network, sideband, description.buffer)
                    .overflowing(description.overflow),
                PassThrough::new(sideband, network, description.transmit_buffer),
            ],
            delay: description.delay,
            counts: Arc::clone(&counts),
            control: Control::new(description, management),
            events: ordered,
            leaving: BTreeMap::new(),
            n_left: 0,
        };
        (Self { name: description.name.clone(), counts, events }, device)
    }

    /// Returns its name in the lab.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the counts from the network to the management controller.
    #[must_use]
    pub fn from_network(&self) -> Passed {
        self.counts[NETWORK].read()
    }

    /// Returns the counts from the management controller to the network.
    #[must_use]
    pub fn from_management(&self) -> Passed {
        self.counts[SIDEBAND].read()
    }

    /// Triggers `event`, within some tens of milliseconds.
    pub fn order(&self, event: Event) {
        // The device lives as long as its lab. Events while the lab is removed do not matter.
        let _gone = self.events.send(event);
    }
}

/// Data path of the controller.
#[derive(Debug)]
pub(crate) struct Device {
    /// Buffers, by the side from which frames come.
    ways: [PassThrough; 2],
    delay: Nanos,
    counts: Arc<[Counts; 2]>,
    control: Control,
    events: Receiver<Event>,
    /// Control packets that wait for their time, by time and number: those of one time leave in
    /// order.
    leaving: BTreeMap<(Nanos, u64), Vec<u8>>,
    n_left: u64,
}

impl Passage for Device {
    fn enter(&mut self, end: usize, frame: &[u8], now: Nanos, departures: &mut Departures) {
        // What is due before this frame leaves first: order on the sideband decides the times.
        self.wake(now, departures);
        let size = on_the_wire(frame);
        let arrived = self.ways[end].arrive(size, now);
        if end == SIDEBAND && letter::is_control(frame) {
            let leaving = self.control.handle(frame, arrived);
            // Answers wait like frames: the delay of an answer is part of the emulation.
            self.prepare(leaving);
            self.wake(arrived, departures);
            return;
        }
        let counts = &self.counts[end];
        counts.received.fetch_add(1, Ordering::Release);
        let passes =
            if end == NETWORK { self.control.receive(frame) } else { self.control.send(frame) };
        if !passes {
            counts.refused.fetch_add(1, Ordering::Release);
            return;
        }
        let departed = self.ways[end].admit(size, arrived);
        match departed {
            Some(departed) => departures.hold(1 - end, frame, departed + self.delay),
            None => {
                // Counted twice on purpose: once as truth for tests, once in the counters that a
                // client reads.
                counts.dropped.fetch_add(1, Ordering::Release);
            }
        }
        match (end, departed) {
            (NETWORK, None) => self.control.drop_received(),
            (NETWORK, Some(_)) => {}
            (_, departed) => {
                self.control.sent(frame, if departed.is_some() { Room::Found } else { Room::None })
            }
        }
    }

    fn due(&self) -> Option<Nanos> {
        self.leaving.keys().next().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Nanos, departures: &mut Departures) {
        while let Ok(event) = self.events.try_recv() {
            let leaving = self.control.happen(event, now);
            self.prepare(leaving);
        }
        while let Some(first) = self.leaving.first_entry().filter(|first| first.key().0 <= now) {
            let ((at, _), frame) = first.remove_entry();
            // Answers and frames share the sideband, so an answer takes time that frames then wait
            // for.
            let departed = self.ways[NETWORK].occupy_drain(on_the_wire(&frame), at);
            departures.hold(SIDEBAND, &frame, departed + self.delay);
        }
    }
}

impl Device {
    fn prepare(&mut self, leaving: Vec<Leaving>) {
        for (at, frame) in leaving {
            self.n_left += 1;
            self.leaving.insert((at, self.n_left), frame);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;

    const MANAGEMENT: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn device(more: &str) -> (Running, Device) {
        let (lab, problems) = Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[controller]]\nname='nc'\n\
             network={{to='a',rate='1 Gbit/s'}}\nsideband={{to='b',rate='100 Mbit/s'}}\n{more}"
        ));
        assert_eq!(problems, []);
        Running::new(&lab.expect("no problem").controllers[0], MANAGEMENT)
    }

    fn full_frame() -> Vec<u8> {
        let mut frame = [&MANAGEMENT[..], &[2, 0, 0, 0, 0, 9, 0x08, 0]].concat();
        frame.resize(1514, 0);
        frame
    }

    #[test]
    fn answers_share_the_sideband_and_need_no_room() {
        let (running, mut device) = device("buffer='1514 B'\n");
        let mut departures = Departures::default();
        device.enter(NETWORK, &full_frame(), Nanos(0), &mut departures);
        device.enter(NETWORK, &full_frame(), Nanos(0), &mut departures);
        device.enter(SIDEBAND, &letter::command(1, 0, (0, 0), &[]), Nanos(1000), &mut departures);
        // Full: 12 304 ns in, 123 040 ns out; the answer, 60 bytes, follows for 6720 ns.
        let left: Vec<(u64, usize)> =
            departures.held(SIDEBAND).iter().map(|(at, frame)| (*at, frame.len())).collect();
        assert_eq!(left, [(135_344, 1514), (142_064, 60)]);
        assert_eq!(running.from_network(), Passed { received: 2, refused: 0, dropped: 1 });
        assert_eq!(
            (running.from_network().forwarded(), running.from_management()),
            (1, Passed::default())
        );
    }

    #[test]
    fn a_late_answer_holds_up_nothing() {
        let (_running, mut device) = device("faults={reply_delay='1 ms'}\n");
        let mut departures = Departures::default();
        device.enter(SIDEBAND, &letter::command(1, 0, (0, 0), &[]), Nanos(0), &mut departures);
        assert_eq!(
            (device.due(), departures.held(SIDEBAND)),
            (Some(Nanos(6720 + 1_000_000)), vec![])
        );
        device.enter(NETWORK, &full_frame(), Nanos(10_000), &mut departures);
        assert_eq!(departures.held(SIDEBAND)[0].0, 10_000 + 12_304 + 123_040);
        device.wake(Nanos(2_000_000), &mut departures);
        assert_eq!((departures.held(SIDEBAND)[1].0, device.due()), (1_006_720 + 6720, None));
    }

    #[test]
    fn a_triggered_event_happens_at_the_next_wake() {
        let (running, mut device) = device("");
        let mut departures = Departures::default();
        running.order(Event::LinkDown);
        device.wake(Nanos(0), &mut departures);
        device.enter(NETWORK, &full_frame(), Nanos(0), &mut departures);
        assert_eq!(running.from_network(), Passed { received: 1, refused: 1, dropped: 0 });
    }
}
