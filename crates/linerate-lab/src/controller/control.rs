//! Control plane of the controller: packages and their channels, the answer to each command, and
//! the frames that the channels let pass (DSP0222 clauses 6 to 8).
//!
//! Pure: frames and times in, frames and times out. The first channel of the first package has the
//! port on the network; other channels have a port without a cable, so their link is down. A
//! command with the instance number of the one before is a retry and gets the same answer. Faults
//! on purpose affect answers before they are sent. Not supported: arbitration in hardware, delayed
//! responses, OEM and PLDM commands.

use std::num::NonZeroU32;

use linerate_model::Nanos;

use super::channel::{
    CLEAR_INITIAL_STATE, COMPLETED, CONFIGURATION_REQUIRED, Channel, DESELECT_PACKAGE, Equipment,
    GET_CONTROL_STATISTICS, GET_PASS_THROUGH_STATISTICS, GET_PORT_STATISTICS, HOST_DRIVER_CHANGE,
    INVALID_LENGTH, INVALID_PARAMETER, LINK_STATUS_CHANGE, RESET_CHANNEL, SELECT_PACKAGE,
    SET_MAC_ADDRESS, Said, UNKNOWN_COMMAND,
};
use super::letter::{self, Command, PACKAGE_ITSELF, Unreadable};
use super::statistics::{ControlStatistics, PortStatistics, WayStatistics};
use crate::description::{Controller, ControllerFaults};

const GET_PACKAGE_STATUS: u8 = 0x1b;
const GET_PACKAGE_UUID: u8 = 0x52;
/// UUID of all emulated packages (RFC 4122, version 4).
const UUID: [u8; 16] = [
    0x6c, 0x69, 0x6e, 0x65, 0x72, 0x61, 0x44, 0x65, 0x80, 0x6e, 0x63, 0x73, 0x69, 0x00, 0x00, 0x01,
];
/// Length of truncated answers: the Ethernet and NC-SI headers and half of the codes.
const CUT_OFF: usize = 32;
/// Largest frame on the wire beside the IP packet: header and one VLAN tag, without FCS (IEEE 802.3
/// clause 3.2.7).
const FRAME_OVERHEAD: usize = 18;

/// Event of a controller, of which it may notify the management controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The port's link comes up.
    LinkUp,
    /// The port's link goes down: no frame passes.
    LinkDown,
    /// The host's driver starts.
    DriverStarted,
    /// The host's driver stops: from now on Set Link is allowed.
    DriverStopped,
    /// The controller needs a new configuration.
    ConfigurationRequired,
}

impl Event {
    /// Every event with its name.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("link-up", Self::LinkUp),
        ("link-down", Self::LinkDown),
        ("driver-started", Self::DriverStarted),
        ("driver-stopped", Self::DriverStopped),
        ("configuration-required", Self::ConfigurationRequired),
    ];

    /// Returns the event of this name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::NAMES.into_iter().find(|(known, _)| *known == name).map(|(_, event)| event)
    }
}

/// Result of queueing a frame for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Found,
    None,
}

/// Control packet that will be sent, and the time at which it is ready.
pub(super) type Leaving = (Nanos, Vec<u8>);

#[derive(Debug)]
struct Package {
    selected: bool,
    channels: Vec<Channel>,
    /// Type, channel and instance of the last answered command, and the answer's payload.
    last: Option<((u8, u8, u8), Vec<u8>)>,
    /// Notifications that wait for the package to be selected.
    waiting: Vec<Vec<u8>>,
}

/// Control plane of one controller.
#[derive(Debug)]
pub(super) struct Control {
    packages: Vec<Package>,
    equipment: Equipment,
    faults: ControllerFaults,
    statistics: ControlStatistics,
    largest: usize,
    deaf_until: Nanos,
    n_answers: u64,
}

impl Control {
    /// Creates the control plane of `description`. `management` is the address of the management
    /// controller.
    pub(super) fn new(description: &Controller, management: [u8; 6]) -> Self {
        let mut packages: Vec<Package> = (0..description.packages)
            .map(|package| Package::new(package, description.channels))
            .collect();
        if description.configured {
            packages[0].selected = true;
            packages[0].channels[0].configure(management);
        }
        Self {
            packages,
            equipment: Equipment {
                // A frame with a VLAN tag is four bytes longer than the MTU and header alone.
                rate: description.network.rate,
                reported_buffer: description.reported_buffer,
                n_channels: description.channels,
                management,
                legacy: description.faults.legacy_statistics,
            },
            faults: description.faults.clone(),
            statistics: ControlStatistics::default(),
            largest: description.mtu.0 as usize + FRAME_OVERHEAD,
            deaf_until: Nanos(0),
            n_answers: 0,
        }
    }

    /// Handles the control packet `frame`, which arrived at `now`. Returns the packets that follow.
    pub(super) fn handle(&mut self, frame: &[u8], now: Nanos) -> Vec<Leaving> {
        // Counted before anything is dropped, so that a client can compare both numbers.
        self.statistics.received += 1;
        if self.faults.silent || now < self.deaf_until {
            self.statistics.dropped += 1;
            return Vec::new();
        }
        let command = match letter::read(frame) {
            Ok(command) => command,
            Err(Unreadable::Checksum) => {
                self.statistics.checksum_errors += 1;
                return Vec::new();
            }
            Err(Unreadable::Malformed) => {
                self.statistics.dropped += 1;
                return Vec::new();
            }
        };
        // No controller answers for a package that does not exist: the client must time out.
        let Some(package) = self.packages.get(usize::from(command.package)) else {
            return Vec::new();
        };
        self.statistics.commands += 1;
        // A retry repeats type, channel and instance. Executing it twice would clear counters
        // twice.
        let key = (command.kind, command.channel, command.instance);
        let payload = match &package.last {
            Some((last, payload)) if *last == key => payload.clone(),
            _ => {
                let Some(said) = self.execute(&command, now) else { return Vec::new() };
                let payload = self.compose(&command, &said);
                self.packages[usize::from(command.package)].last = Some((key, payload.clone()));
                payload
            }
        };
        let mut leaving = self.send_answer(&command, &payload, now);
        leaving.extend(self.release_notifications(command.package, now));
        leaving
    }

    /// Carries out a command to one of its packages. `None` if there must be no answer.
    fn execute(&mut self, command: &Command<'_>, now: Nanos) -> Option<Said> {
        let package = &mut self.packages[usize::from(command.package)];
        // Any command but Deselect selects its package.
        package.selected = (command.kind, command.channel) != (DESELECT_PACKAGE, PACKAGE_ITSELF);
        if command.channel == PACKAGE_ITSELF {
            return Some(package_command(command));
        }
        if usize::from(command.channel) >= package.channels.len() {
            // Clear Initial State to a missing channel is the probe by which a client counts
            // channels. It must stay unanswered.
            return (command.kind != CLEAR_INITIAL_STATE).then(|| INVALID_PARAMETER.into());
        }
        if command.kind == SET_MAC_ADDRESS && self.address_is_taken(command) {
            return Some(INVALID_PARAMETER.into());
        }
        let package = &mut self.packages[usize::from(command.package)];
        let channel = &mut package.channels[usize::from(command.channel)];
        let was_enabled = channel.enabled;
        let said = channel.execute(command, &self.equipment, &self.statistics);
        // Notifications from before the channel was enabled are stale.
        if channel.enabled && !was_enabled {
            package.waiting.clear();
        }
        // The silence begins after the answer: the client knows that its reset was accepted.
        if command.kind == RESET_CHANNEL && said.codes == COMPLETED {
            self.deaf_until = now + self.faults.deaf_after_reset;
        }
        Some(said)
    }

    /// Returns whether the address in the command is enabled at another channel that may send.
    fn address_is_taken(&self, command: &Command<'_>) -> bool {
        let Some(address) =
            command.payload.get(..6).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok())
        else {
            return false;
        };
        let packages = self.packages.iter().enumerate();
        packages
            .flat_map(|(p, package)| {
                package.channels.iter().enumerate().map(move |(c, channel)| (p, c, channel))
            })
            .any(|(p, c, channel)| {
                (p, c) != (usize::from(command.package), usize::from(command.channel))
                    && channel.network_tx
                    && channel.filters.is_own(address)
            })
    }

    /// Returns the payload of an answer, with the faults of statistics.
    fn compose(&mut self, command: &Command<'_>, said: &Said) -> Vec<u8> {
        self.statistics.unknown += u64::from(said.codes == UNKNOWN_COMMAND);
        let mut payload = [&said.codes.to_be_bytes()[..], &said.content].concat();
        let is_statistics = matches!(
            command.kind,
            GET_PORT_STATISTICS | GET_CONTROL_STATISTICS | GET_PASS_THROUGH_STATISTICS
        );
        if !is_statistics || said.codes != COMPLETED {
            return payload;
        }
        if self.faults.all_ones {
            // The codes stay: only counters read all-ones.
            payload[4..].fill(0xff);
        }
        if command.kind == GET_PORT_STATISTICS {
            if self.faults.legacy_statistics {
                PortStatistics::shorten(&mut payload);
            }
            if self.faults.clear_on_read {
                self.channel_mut(command).port.clear();
            }
        }
        payload
    }

    fn channel_mut(&mut self, command: &Command<'_>) -> &mut Channel {
        &mut self.packages[usize::from(command.package)].channels[usize::from(command.channel)]
    }

    /// Returns the frames of an answer, with the faults of answers.
    fn send_answer(&mut self, command: &Command<'_>, payload: &[u8], now: Nanos) -> Vec<Leaving> {
        // Counted before faults decide, so that "every n-th" does not depend on other faults.
        self.n_answers += 1;
        let (n_answers, faults) = (self.n_answers, &self.faults);
        let due = |one_in: Option<NonZeroU32>| {
            one_in.is_some_and(|n| n_answers.is_multiple_of(u64::from(n.get())))
        };
        if due(faults.lose_reply_one_in) {
            return Vec::new();
        }
        let mut command = *command;
        if due(faults.mistake_reply_one_in) {
            // Not the command's number, and not that of notifications (0).
            command.instance = command.instance % u8::MAX + 1;
        }
        let mut frame = letter::answer(&command, payload, faults.checksum);
        if due(faults.truncate_reply_one_in) {
            frame.truncate(CUT_OFF);
        }
        let n_copies = if due(faults.duplicate_reply_one_in) { 2 } else { 1 };
        // The copies are sent as well, so the counter includes them.
        self.statistics.sent += n_copies as u64;
        vec![(now + faults.reply_delay, frame); n_copies]
    }

    /// Handles `event` at `now`. Returns the notifications that follow.
    pub(super) fn happen(&mut self, event: Event, now: Nanos) -> Vec<Leaving> {
        let port = &mut self.packages[0].channels[0];
        match event {
            Event::LinkUp => port.link_up = true,
            Event::LinkDown => port.link_up = false,
            Event::DriverStarted => port.driver_running = true,
            Event::DriverStopped => port.driver_running = false,
            Event::ConfigurationRequired => {}
        }
        let (kind, content) = match event {
            Event::LinkUp | Event::LinkDown => {
                let status = port.link_status(self.equipment.rate);
                // A notification has the standard and the OEM status, but not the word between
                // them.
                (LINK_STATUS_CHANGE, [&status[..4], &status[8..]].concat())
            }
            Event::DriverStarted | Event::DriverStopped => {
                (HOST_DRIVER_CHANGE, u32::from(port.driver_running).to_be_bytes().to_vec())
            }
            Event::ConfigurationRequired => (CONFIGURATION_REQUIRED, Vec::new()),
        };
        if !port.wants(kind) || self.faults.silent {
            return Vec::new();
        }
        let frame = letter::notification(port.management, (0, 0), kind, &content);
        self.packages[0].waiting.push(frame);
        self.release_notifications(0, now)
    }

    /// Returns the waiting notifications of selected packages.
    fn release_notifications(&mut self, package: u8, now: Nanos) -> Vec<Leaving> {
        let package = &mut self.packages[usize::from(package)];
        if !package.selected {
            return Vec::new();
        }
        let leaving: Vec<Leaving> = package.waiting.drain(..).map(|frame| (now, frame)).collect();
        self.statistics.sent += leaving.len() as u64;
        self.statistics.notifications += leaving.len() as u64;
        leaving
    }

    /// Counts a frame from the network. Returns whether it is for the management controller and may
    /// pass.
    pub(super) fn receive(&mut self, frame: &[u8]) -> bool {
        let selected = self.packages[0].selected;
        let channel = &mut self.packages[0].channels[0];
        if !channel.link_up {
            // Without a link a real port receives nothing, so nothing is counted.
            return false;
        }
        channel.port.received.count(frame);
        let counters = &mut channel.pass_through.received;
        if frame.len() > self.largest {
            counters.oversize += 1;
            return false;
        }
        if !channel.filters.admit(frame) {
            return false;
        }
        counters.frames += 1;
        // A package that is not selected may not drive the sideband.
        if !channel.enabled || !selected {
            refuse(counters);
            return false;
        }
        true
    }

    /// Counts a frame to the management controller that was dropped because the buffer was full.
    pub(super) fn drop_received(&mut self) {
        self.packages[0].channels[0].pass_through.received.dropped += 1;
    }

    /// Counts a frame from the management controller. Returns whether it may pass to the network.
    /// It belongs to the channel with its sender's address, if there is one.
    pub(super) fn send(&mut self, frame: &[u8]) -> bool {
        // The sender's address chooses the channel: pass-through frames carry no channel number.
        let Some(sender) = frame.get(6..12).and_then(|bytes| <[u8; 6]>::try_from(bytes).ok())
        else {
            return false;
        };
        let mut channels = self.packages.iter_mut().flat_map(|package| &mut package.channels);
        let Some(channel) = channels.find(|channel| channel.filters.is_own(sender)) else {
            return false;
        };
        let counters = &mut channel.pass_through.sent;
        counters.frames += 1;
        if frame.len() > self.largest {
            counters.oversize += 1;
            counters.dropped += 1;
            return false;
        }
        if !channel.network_tx || !channel.initialised {
            refuse(counters);
            return false;
        }
        // The frame has passed the filters, so it is a loss and not an error of state.
        if !channel.link_up {
            counters.dropped += 1;
            return false;
        }
        true
    }

    /// Counts a frame that leaves by the network port, or that was dropped because the buffer was
    /// full.
    pub(super) fn sent(&mut self, frame: &[u8], room: Room) {
        let channel = &mut self.packages[0].channels[0];
        match room {
            Room::Found => channel.port.sent.count(frame),
            Room::None => channel.pass_through.sent.dropped += 1,
        }
    }
}

impl Package {
    /// Creates the package with this number. Only the first channel of the first one has a link.
    fn new(number: u8, n_channels: u8) -> Self {
        Self {
            selected: false,
            channels: (0..n_channels)
                .map(|channel| Channel::new((number, channel) == (0, 0)))
                .collect(),
            last: None,
            waiting: Vec::new(),
        }
    }
}

fn refuse(counters: &mut WayStatistics) {
    counters.dropped += 1;
    counters.state_errors += 1;
}

fn package_command(command: &Command<'_>) -> Said {
    /// Returns the payload of Select Package.
    const FEATURES_LENGTH: usize = 4;
    match command.kind {
        SELECT_PACKAGE if command.payload.len() < FEATURES_LENGTH => INVALID_LENGTH.into(),
        SELECT_PACKAGE | DESELECT_PACKAGE => COMPLETED.into(),
        // No arbitration in hardware.
        GET_PACKAGE_STATUS => vec![0; 4].into(),
        GET_PACKAGE_UUID => UUID.to_vec().into(),
        _ => UNKNOWN_COMMAND.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Description;

    const MANAGEMENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const CONSOLE: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const NOW: Nanos = Nanos(1_000_000_000);

    fn control(more: &str) -> Control {
        let (lab, problems) = Description::parse(&format!(
            "[lab]\nname='x'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[controller]]\nname='nc'\n\
             network={{to='a',rate='1 Gbit/s'}}\nsideband={{to='b',rate='100 Mbit/s'}}\n{more}"
        ));
        assert_eq!(problems, []);
        Control::new(&lab.expect("no problem").controllers[0], MANAGEMENT)
    }

    /// Returns the codes of the answer to a command, if there is one.
    fn codes(
        control: &mut Control,
        instance: u8,
        kind: u8,
        address: (u8, u8),
        payload: &[u8],
    ) -> Option<u32> {
        let leaving = control.handle(&letter::command(instance, kind, address, payload), NOW);
        let (_, frame) = leaving.first()?;
        Some(u32::from_be_bytes(frame[30..34].try_into().expect("four bytes")))
    }

    /// Returns the answer to a command without payload to the first channel.
    fn answer(control: &mut Control, instance: u8, kind: u8) -> Vec<u8> {
        control.handle(&letter::command(instance, kind, (0, 0), &[]), NOW).remove(0).1
    }

    fn word(frame: &[u8], at: usize) -> u32 {
        u32::from_be_bytes(frame[14 + at..18 + at].try_into().expect("four bytes"))
    }

    fn frame(to: [u8; 6], from: [u8; 6], length: usize) -> Vec<u8> {
        let mut frame = [&to[..], &from, &[0x08, 0]].concat();
        frame.resize(length, 0);
        frame
    }

    /// The commands of a Linux management controller.
    #[test]
    fn a_controller_in_initial_state_is_set_up_step_by_step() {
        let mut control = control("configured=false\nchannels=2\n");
        let incoming = frame(MANAGEMENT, CONSOLE, 100);
        assert!(!control.receive(&incoming), "nothing passes before");
        let early = codes(&mut control, 1, 0x16, (0, 0), &[]);
        assert_eq!(early, Some(0x0001_0001), "initialisation required");
        for (instance, kind, channel, payload) in [
            (2, SELECT_PACKAGE, PACKAGE_ITSELF, &[0, 0, 0, 1][..]),
            (3, CLEAR_INITIAL_STATE, 0, &[]),
            (4, 0x0d, 0, &[]),
            (5, SET_MAC_ADDRESS, 0, &[2, 0, 0, 0, 0, 1, 1, 1]),
            (6, 0x10, 0, &[0, 0, 0, 0xf]),
            (7, 0x06, 0, &[]),
            (8, 0x03, 0, &[]),
            (9, 0x08, 0, &[0, 0, 0, 0, 0, 0, 0, 7]),
        ] {
            let told = codes(&mut control, instance, kind, (0, channel), payload);
            assert_eq!(told, Some(COMPLETED), "{kind:#x}");
        }
        assert!(control.receive(&incoming) && control.send(&frame(CONSOLE, MANAGEMENT, 100)));
        assert!(!control.send(&frame(CONSOLE, CONSOLE, 100)), "a sender that no channel knows");
        assert_eq!(codes(&mut control, 10, CLEAR_INITIAL_STATE, (0, 1), &[]), Some(COMPLETED));
        let taken = codes(&mut control, 11, SET_MAC_ADDRESS, (0, 1), &[2, 0, 0, 0, 0, 1, 1, 1]);
        assert_eq!(taken, Some(INVALID_PARAMETER), "another channel sends from that address");
    }

    #[test]
    fn others_packages_and_missing_channels_are_treated_as_seen_in_real_ones() {
        let mut control = control("packages=2\n");
        for (instance, kind, address, payload, expected) in [
            // Another's package.
            (1, 0x15, (2, 0), &[][..], None),
            (2, CLEAR_INITIAL_STATE, (0, 5), &[], None),
            (3, 0x15, (0, 5), &[], Some(INVALID_PARAMETER)),
            (4, CLEAR_INITIAL_STATE, (1, 0), &[], Some(COMPLETED)),
            (5, 0x50, (0, 0), &[0, 0, 1, 0x57], Some(UNKNOWN_COMMAND)),
            (6, GET_PACKAGE_STATUS, (0, PACKAGE_ITSELF), &[], Some(COMPLETED)),
            (7, SELECT_PACKAGE, (0, PACKAGE_ITSELF), &[], Some(INVALID_LENGTH)),
        ] {
            let told = codes(&mut control, instance, kind, address, payload);
            assert_eq!(told, expected, "command {instance}");
        }
    }

    #[test]
    fn a_deselected_package_lets_nothing_in_until_it_is_spoken_to() {
        let mut control = control("");
        let incoming = frame(MANAGEMENT, CONSOLE, 100);
        assert!(control.receive(&incoming));
        let deselected = codes(&mut control, 1, DESELECT_PACKAGE, (0, PACKAGE_ITSELF), &[]);
        assert_eq!(deselected, Some(COMPLETED));
        assert!(!control.receive(&incoming));
        assert_eq!(codes(&mut control, 2, 0x15, (0, 0), &[]), Some(COMPLETED));
        assert!(control.receive(&incoming));
    }

    #[test]
    fn statistics_tell_what_passed() {
        let mut control = control("");
        for _ in 0..7 {
            assert!(control.receive(&frame(MANAGEMENT, CONSOLE, 1514)));
        }
        control.drop_received();
        assert!(!control.receive(&frame(CONSOLE, MANAGEMENT, 1514)), "not for us");
        assert!(!control.receive(&frame(MANAGEMENT, CONSOLE, 1519)), "too long");
        let outgoing = frame(CONSOLE, MANAGEMENT, 60);
        assert!(control.send(&outgoing));
        control.sent(&outgoing, Room::Found);
        let told = answer(&mut control, 1, GET_PASS_THROUGH_STATISTICS);
        assert_eq!([20, 24, 28, 44, 48, 52, 60].map(|at| word(&told, at)), [0, 1, 0, 7, 1, 0, 1]);
        assert_eq!(codes(&mut control, 2, 0x07, (0, 0), &[]), Some(COMPLETED), "network TX off");
        assert_eq!(codes(&mut control, 3, 0x04, (0, 0), &[0; 4]), Some(COMPLETED), "channel off");
        assert!(!control.send(&outgoing) && !control.receive(&frame(MANAGEMENT, CONSOLE, 100)));
        let told = answer(&mut control, 4, GET_PASS_THROUGH_STATISTICS);
        let words = [24, 28, 32, 44, 48, 52].map(|at| word(&told, at));
        assert_eq!(words, [2, 1, 1, 8, 2, 1], "dropped for the channel's state");
        let told = answer(&mut control, 5, GET_PORT_STATISTICS);
        let over_the_port = (word(&told, 48), word(&told, 72));
        assert_eq!(over_the_port, (10, 1), "stations' frames, in and out");
    }

    #[test]
    fn a_retry_gets_the_answer_of_before() {
        let mut control = control("faults={clear_on_read=true}\n");
        assert!(control.receive(&frame(MANAGEMENT, CONSOLE, 1514)));
        let first = answer(&mut control, 1, GET_PORT_STATISTICS);
        assert_eq!((word(&first, 20), word(&first, 32)), (0, 1518));
        let again = answer(&mut control, 1, GET_PORT_STATISTICS);
        assert_eq!(again, first, "the same command again");
        let next = answer(&mut control, 2, GET_PORT_STATISTICS);
        let words = [20, 24, 32].map(|at| word(&next, at));
        assert_eq!(words, [0x7f, u32::MAX, 0], "cleared, and says so");
    }

    #[test]
    fn statistics_come_in_old_sizes_and_all_ones_by_order() {
        let length = |control: &mut Control, instance, kind| {
            let told = answer(control, instance, kind);
            let are_ones = told[14 + 20..14 + 44].iter().all(|byte| *byte == 0xff);
            (u16::from_be_bytes([told[20], told[21]]), are_ones)
        };
        let mut legacy = control("faults={legacy_statistics=true}\n");
        assert_eq!(length(&mut legacy, 1, GET_PORT_STATISTICS), (172, false));
        assert_eq!(length(&mut legacy, 2, GET_PASS_THROUGH_STATISTICS), (44, false));
        let mut ones = control("faults={all_ones=true}\n");
        assert_eq!(length(&mut ones, 1, GET_PORT_STATISTICS), (204, true));
        assert_eq!(length(&mut ones, 2, GET_PASS_THROUGH_STATISTICS), (48, true));
    }

    #[test]
    fn answers_go_wrong_every_nth_time() {
        let sizes = |control: &mut Control| -> Vec<Vec<(u64, u8, usize)>> {
            let ask = |instance| control.handle(&letter::command(instance, 0x15, (0, 0), &[]), NOW);
            let leaving = (1..=3).map(ask);
            leaving
                .map(|all| {
                    all.iter().map(|(at, frame)| (at.0 - NOW.0, frame[17], frame.len())).collect()
                })
                .collect()
        };
        let whole = 14 + 16 + 40 + 4;
        for (fault, third) in [
            ("lose_reply_one_in=3", vec![]),
            ("duplicate_reply_one_in=3", vec![(0, 3, whole); 2]),
            ("mistake_reply_one_in=3", vec![(0, 4, whole)]),
            ("truncate_reply_one_in=3", vec![(0, 3, CUT_OFF)]),
        ] {
            let expected = [vec![(0, 1, whole)], vec![(0, 2, whole)], third];
            assert_eq!(sizes(&mut control(&format!("faults={{{fault}}}\n"))), expected, "{fault}");
        }
        let late = sizes(&mut control("faults={reply_delay='30 ms'}\n"));
        assert_eq!(late[0], [(30_000_000, 1, whole)]);
        assert_eq!(sizes(&mut control("faults={silent=true}\n")), [vec![], vec![], vec![]]);
    }

    #[test]
    fn checksums_are_wrong_or_absent_by_order() {
        let stated = |more: &str| word(&answer(&mut control(more), 1, CLEAR_INITIAL_STATE), 20);
        let right = stated("");
        assert_eq!(stated("faults={checksum='wrong'}\n"), !right);
        assert_eq!(stated("faults={checksum='none'}\n"), 0);
    }

    #[test]
    fn after_reset_a_channel_is_deaf_for_its_time() {
        let mut control = control("faults={deaf_after_reset='2 s'}\n");
        assert_eq!(codes(&mut control, 1, RESET_CHANNEL, (0, 0), &[0; 4]), Some(COMPLETED));
        let clear = letter::command(2, CLEAR_INITIAL_STATE, (0, 0), &[]);
        assert_eq!(control.handle(&clear, NOW + Nanos(1_999_999_999)), []);
        assert_eq!(control.handle(&clear, NOW + Nanos(2_000_000_000)).len(), 1);
    }

    #[test]
    fn notifications_come_if_wanted_and_wait_for_selection() {
        let mut control = control("");
        assert_eq!(control.happen(Event::LinkDown, NOW), [], "not enabled");
        assert!(!control.receive(&frame(MANAGEMENT, CONSOLE, 100)), "no link");
        let enabled = codes(&mut control, 1, 0x08, (0, 0), &[0, 0, 0, 0x21, 0, 0, 0, 7]);
        assert_eq!(enabled, Some(COMPLETED));
        let up = control.happen(Event::LinkUp, NOW);
        let up = &up[0].1;
        assert_eq!((up[14], up[17], word(up, 16), word(up, 20)), (0x21, 0, 0, 0x6f));
        assert_eq!(word(&control.happen(Event::ConfigurationRequired, NOW)[0].1, 16), 1);
        assert_eq!(word(&control.happen(Event::DriverStopped, NOW)[0].1, 20), 0);
        let deselected = codes(&mut control, 2, DESELECT_PACKAGE, (0, PACKAGE_ITSELF), &[]);
        assert_eq!(deselected, Some(COMPLETED));
        let started = control.happen(Event::DriverStarted, NOW);
        assert_eq!(started, [], "a deselected package sends nothing");
        let leaving =
            control.handle(&letter::command(3, SELECT_PACKAGE, (0, PACKAGE_ITSELF), &[0; 4]), NOW);
        assert_eq!(leaving.iter().map(|(_, frame)| frame[18]).collect::<Vec<_>>(), [0x81, 0xff]);
        let told = answer(&mut control, 4, GET_CONTROL_STATISTICS);
        let words = [20, 40, 44].map(|at| word(&told, at));
        assert_eq!(words, [4, 7, 4], "commands, sent, notifications");
    }

    #[test]
    fn bad_control_packets_are_counted_and_not_answered() {
        let mut control = control("");
        let mut wrong = letter::command(1, 0x15, (0, 0), &[]);
        wrong[33] ^= 1;
        assert_eq!(control.handle(&wrong, NOW), []);
        assert_eq!(control.handle(&wrong[..20], NOW), []);
        let told = answer(&mut control, 2, GET_CONTROL_STATISTICS);
        let words = [20, 24, 28, 32, 36].map(|at| word(&told, at));
        assert_eq!(words, [1, 1, 0, 1, 3], "commands, dropped, unknown, checksum errors, received");
    }
}
