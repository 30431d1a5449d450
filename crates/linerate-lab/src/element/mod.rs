//! Emulated device of two ports: frames come in at one, wait their turn and leave at the other.
//! Faults drop, copy, reorder or reflect some of them on purpose.
//!
//! A link with delay or faults is a device without limits: not every kernel has netem, and netem
//! does not drop exactly every n-th frame. The time of arrival in the kernel decides on a frame, so
//! that the capacity is exact however late the thread wakes. Frames that are lost because it wakes
//! too late are counted separately ([`crate::Lab::emulation_losses`]).
//!
//! Not modelled: a fabric with more ports, priorities, pause frames, and a control plane.

mod counts;
mod faults;

use std::collections::VecDeque;
use std::sync::Arc;

use linerate_model::Nanos;

pub use counts::{Class, Counted, Fate};

use crate::description::Element;
use crate::middle::{Departures, Passage};
use crate::pass_through::{PassThrough, on_the_wire};
use counts::Counts;
use faults::{Faulty, Verdict, is_udp};

/// Longest wait of a frame to be overtaken. After it, the frame goes on alone.
const OVERTAKING: Nanos = Nanos::from_millis(100);

/// Running device, as the lab sees it.
#[derive(Debug)]
pub struct Running {
    name: String,
    /// Nodes at its ports.
    nodes: [String; 2],
    counts: Arc<[Counts; 2]>,
}

impl Running {
    /// Creates the device of `description`, with stalls counted from `start`. Returns its counters
    /// and its passage.
    pub(crate) fn new(description: &Element, start: Nanos) -> (Self, Device) {
        let counts = Arc::<[Counts; 2]>::default();
        // Each direction counts alone: traffic back must not shift which frame is lost.
        let device = Device {
            ways: [0, 1].map(|_| ElementDirection::new(description, start)),
            delay: description.delay,
            overtakers: description.faults.reorder_by.map_or(1, std::num::NonZeroU32::get),
            counts: Arc::clone(&counts),
        };
        let nodes = [0, 1].map(|end| description.ends[end].endpoint.clone());
        (Self { name: description.name.clone(), nodes, counts }, device)
    }

    /// Returns its name in the lab.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the nodes at its ports: host endpoints, switches or routers.
    #[must_use]
    pub fn ends(&self) -> &[String; 2] {
        &self.nodes
    }

    /// Returns the counts of the frames that came in at port `end`, 0 or 1.
    #[must_use]
    pub fn counted(&self, end: usize) -> Counted {
        self.counts[end].read()
    }
}

impl ElementDirection {
    fn new(description: &Element, start: Nanos) -> Self {
        Self {
            path: PassThrough::of(description, start),
            faults: Faulty::new(description.faults),
            overtaken: VecDeque::new(),
        }
    }
}

/// Data path of the device.
#[derive(Debug)]
pub(crate) struct Device {
    /// Directions, by the port at which frames come in.
    ways: [ElementDirection; 2],
    delay: Nanos,
    /// Number of frames that overtake a reordered one.
    overtakers: u32,
    counts: Arc<[Counts; 2]>,
}

#[derive(Debug)]
struct ElementDirection {
    path: PassThrough,
    faults: Faulty,
    overtaken: VecDeque<Overtaken>,
}

/// Frame that waits to be overtaken.
#[derive(Debug)]
struct Overtaken {
    /// Number of frames that still have to overtake it.
    by: u32,
    /// Time at which it goes on alone.
    expires: Nanos,
    frame: Vec<u8>,
}

impl Passage for Device {
    fn enter(&mut self, end: usize, frame: &[u8], now: Nanos, departures: &mut Departures) {
        self.wake(now, departures);
        let udp = is_udp(frame);
        let class = if udp { Class::Datagram } else { Class::Other };
        let (way, size) = (&mut self.ways[end], on_the_wire(frame));
        let note = |fate: Fate| self.counts[end].note(class, fate);
        note(Fate::Received);
        let arrived = way.path.arrive(size, now);
        if way.faults.loses(frame) {
            note(Fate::DroppedAtRandom);
            return;
        }
        let verdict = if udp { way.faults.judge(frame) } else { Verdict::PASS };
        // Before drops: a device reflects what it received, whether or not it forwards it.
        if verdict.reflected {
            departures.hold(end, frame, arrived + self.delay);
            note(Fate::Reflected);
        }
        if let Some(fate) = verdict.dropped {
            note(fate);
            return;
        }
        // A copy takes room in the buffer and time on the wire like any frame.
        for copy in 0..=u32::from(verdict.duplicated) {
            let Some(departed) = way.path.admit(size, arrived) else {
                note(if copy == 0 { Fate::DroppedFull } else { Fate::CopyDropped });
                continue;
            };
            note(if copy == 0 { Fate::Forwarded } else { Fate::Duplicated });
            let at = departed + self.delay;
            if verdict.overtaken && copy == 0 {
                note(Fate::Overtaken);
                let (by, expires) = (self.overtakers, at + OVERTAKING);
                way.overtaken.push_back(Overtaken { by, expires, frame: frame.to_vec() });
                continue;
            }
            departures.hold(1 - end, frame, at);
            // Only frames that really leave can overtake.
            way.overtake(1 - end, at, departures);
        }
    }

    fn due(&self) -> Option<Nanos> {
        self.ways
            .iter()
            .filter_map(|way| way.overtaken.front())
            .map(|overtaken| overtaken.expires)
            .min()
    }

    fn wake(&mut self, now: Nanos, departures: &mut Departures) {
        for (end, way) in self.ways.iter_mut().enumerate() {
            while let Some(overtaken) = way.next_if(|overtaken| overtaken.expires <= now) {
                departures.hold(1 - end, &overtaken.frame, overtaken.expires);
            }
        }
    }
}

impl ElementDirection {
    /// Takes the first frame that waits to be overtaken, if it is ready.
    fn next_if(&mut self, ready: impl Fn(&Overtaken) -> bool) -> Option<Overtaken> {
        if self.overtaken.front().is_some_and(ready) { self.overtaken.pop_front() } else { None }
    }

    /// Handles a frame that leaves at `at`: waiting frames follow it once enough have overtaken
    /// them.
    fn overtake(&mut self, end: usize, at: Nanos, departures: &mut Departures) {
        // All wait for the same number of frames, so the counters fall together and the first is
        // due first.
        for overtaken in &mut self.overtaken {
            overtaken.by -= 1;
        }
        while let Some(overtaken) = self.next_if(|overtaken| overtaken.by == 0) {
            departures.hold(end, &overtaken.frame, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;

    fn device(more: &str) -> (Running, Device) {
        let (lab, problems) = Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[element]]\nname='dut'\n\
                ends=['a','b']\n{more}"
        ));
        assert_eq!(problems, []);
        Running::new(&lab.expect("no problem").elements[0], Nanos(0))
    }

    /// Returns datagram `number` of a stream; its last byte is the number.
    fn datagram(number: u8) -> Vec<u8> {
        let mut frame = vec![0; 64];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[14 + 9] = 17;
        frame[63] = number;
        frame
    }

    /// Sends datagrams 1 to `n`, a microsecond apart, into port 0. Returns the numbers that leave
    /// at port `end`, in order.
    fn leave(device: &mut Device, n: u8, end: usize) -> Vec<u8> {
        let mut departures = Departures::default();
        for number in 1..=n {
            device.enter(0, &datagram(number), Nanos(u64::from(number) * 1000), &mut departures);
        }
        departures.held(end).iter().map(|(_, frame)| frame[63]).collect()
    }

    #[test]
    fn each_fate_is_counted_and_received_is_forwarded_plus_dropped() {
        let (running, mut device) = device(
            "packet_rate='1 Mpps'\nbuffer_frames=4\nfaults={drop_one_in=4,duplicate_one_in=3}\n",
        );
        let left = leave(&mut device, 8, 1);
        assert_eq!(
            left,
            [1, 2, 3, 3, 5, 6, 6, 7],
            "every fourth is dropped, every third comes twice"
        );
        let counted = running.counted(0);
        let count = |fate| counted.of(Class::Datagram, fate);
        assert_eq!(
            [Fate::Received, Fate::Forwarded, Fate::DroppedByOrder, Fate::Duplicated].map(count),
            [8, 6, 2, 2]
        );
        assert_eq!(running.counted(1), Counted::default());
    }

    #[test]
    fn drops_of_a_full_buffer_are_counted_apart_from_those_on_purpose() {
        let (running, mut device) =
            device("packet_rate='1 kpps'\nbuffer_frames=2\nfaults={drop_one_in=5}\n");
        assert_eq!(leave(&mut device, 10, 1), [1, 2]);
        let counted = running.counted(0);
        let count = |fate| counted.of(Class::Datagram, fate);
        assert_eq!(
            [Fate::DroppedFull, Fate::DroppedByOrder, Fate::Forwarded].map(count),
            [6, 2, 2]
        );
        assert_eq!(counted.dropped(Class::Datagram), 8);
    }

    #[test]
    fn a_datagram_is_overtaken_by_the_given_number_and_the_last_one_goes_on_alone() {
        let (running, mut device) = device("faults={reorder_one_in=4,reorder_by=2}\n");
        assert_eq!(leave(&mut device, 8, 1), [1, 2, 3, 5, 6, 4, 7]);
        let mut departures = Departures::default();
        let due = device.due().expect("the eighth waits");
        assert_eq!(due, Nanos(8000) + OVERTAKING);
        device.wake(due, &mut departures);
        assert_eq!((departures.held(1).len(), device.due()), (1, None));
        assert_eq!(running.counted(0).of(Class::Datagram, Fate::Overtaken), 2);
    }

    #[test]
    fn a_reflected_datagram_goes_both_ways() {
        let (running, mut device) = device("faults={reflect_one_in=3}\n");
        let (back, on) = {
            let mut departures = Departures::default();
            for number in 1..=6 {
                device.enter(0, &datagram(number), Nanos(0), &mut departures);
            }
            (departures.held(0).len(), departures.held(1).len())
        };
        assert_eq!((back, on, running.counted(0).of(Class::Datagram, Fate::Reflected)), (2, 6, 2));
    }

    #[test]
    fn random_loss_has_the_given_ratio_and_is_the_same_with_the_same_seed() {
        let lost = |seed: u64| {
            let (running, mut device) =
                device(&format!("faults={{drop_ratio='10 %',seed={seed}}}\n"));
            let mut departures = Departures::default();
            let left: Vec<bool> = (0..10_000_u64)
                .map(|n| {
                    let before = running.counted(0).of(Class::Datagram, Fate::Forwarded);
                    device.enter(0, &datagram(0), Nanos(n), &mut departures);
                    running.counted(0).of(Class::Datagram, Fate::Forwarded) > before
                })
                .collect();
            assert_eq!(
                running.counted(0).of(Class::Datagram, Fate::DroppedAtRandom),
                left.iter().filter(|left| !**left).count() as u64
            );
            left
        };
        let dropped = lost(1).iter().filter(|left| !**left).count();
        // Mean 1000, deviation 30.
        assert!((880..1120).contains(&dropped), "{dropped}");
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
    }

    #[test]
    fn other_frames_than_datagrams_are_counted_apart_and_queue_like_them() {
        let (running, mut device) =
            device("packet_rate='1 kpps'\nbuffer_frames=1\nfaults={drop_one_in=1}\n");
        let mut departures = Departures::default();
        for _ in 0..2 {
            device.enter(0, &[0; 60], Nanos(0), &mut departures);
        }
        let counted = running.counted(0);
        assert_eq!(
            (counted.of(Class::Other, Fate::Forwarded), counted.dropped(Class::Other)),
            (1, 1)
        );
        assert_eq!(counted.of(Class::Datagram, Fate::Received), 0);
        assert_eq!(departures.held(1)[0].0, 1_000_000);
    }
}
