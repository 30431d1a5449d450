//! The kernel's generic netlink family `NCSI` (linux/ncsi.h): its attributes and their meaning,
//! without I/O.
//!
//! Numbers are in host byte order, except in the control packets themselves. Nests carry no nesting
//! flag. The kernel reads only the header and payload of a command's data; it numbers, addresses,
//! pads and sums the packet itself. An answer runs to the end of the frame, so
//! [`Letter`] cuts it by its own length.
//!
//! The kernel does not deliver answers of a length that is not in its table: it returns `EINVAL`.
//! Many versions do not deliver answers to types that the kernel does not use itself: they send
//! nothing, or report a timeout after one second.

use linerate_packet::ncsi::{
    Answer, Checksum, Command, Letter, LinkStatus, Outcome, Reason, Version,
};
use linerate_sys::netlink::{attributes, push};

use super::exchange::Address;

/// The family's name.
pub(crate) const FAMILY: &str = "NCSI";
/// `NCSI_CMD_PKG_INFO`: packages and channels as the kernel knows them.
pub(crate) const PACKAGE_INFO: u8 = 1;
/// `NCSI_CMD_SEND_CMD`: a command to a controller.
pub(crate) const SEND_COMMAND: u8 = 4;

/// `NCSI_ATTR_*`.
const INTERFACE: u16 = 1;
const PACKAGE_LIST: u16 = 2;
const PACKAGE_ID: u16 = 3;
const CHANNEL_ID: u16 = 4;
const DATA: u16 = 5;
/// `NCSI_PKG_ATTR_*`.
const OF_PACKAGE: u16 = 1;
const OF_PACKAGE_ID: u16 = 2;
const OF_PACKAGE_FORCED: u16 = 3;
const OF_PACKAGE_CHANNELS: u16 = 4;
/// `NCSI_CHANNEL_ATTR_*`.
const OF_CHANNEL: u16 = 1;
const OF_CHANNEL_ID: u16 = 2;
const OF_CHANNEL_MAJOR: u16 = 3;
const OF_CHANNEL_MINOR: u16 = 4;
const OF_CHANNEL_FIRMWARE: u16 = 5;
const OF_CHANNEL_LINK: u16 = 6;
const OF_CHANNEL_ACTIVE: u16 = 7;
const OF_CHANNEL_FORCED: u16 = 8;
const OF_CHANNEL_VLANS: u16 = 9;
const OF_CHANNEL_VLAN: u16 = 10;

/// Characters of a firmware's name (DSP0222 Get Version ID). Old kernels run on behind a name that
/// fills them all.
const NAME_BYTES: usize = 12;

/// A package as the kernel knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// Its number.
    pub number: u8,
    /// True if a person restricted the kernel to this package.
    pub forced: bool,
    /// Its channels.
    pub channels: Vec<Channel>,
}

/// A channel as the kernel knows it: what it noted when it last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Channel {
    /// Its number in the package.
    pub number: u8,
    /// Version of the standard as this kernel reports it; see [`Channel::standard_text`].
    pub version: Option<[u32; 2]>,
    /// The firmware's name.
    pub firmware_name: String,
    /// The link status word; its bits are those of [`LinkStatus`].
    pub link: Option<u32>,
    /// True if the kernel's traffic goes through it.
    pub active: bool,
    /// True if a person made this channel the preferred one.
    pub forced: bool,
    /// VLAN identifiers it lets pass.
    pub vlans: Vec<u16>,
}

impl Channel {
    /// Returns the version of the standard as people write it. Newer kernels report major and minor
    /// as numbers; older ones the four bytes of the wire as the first and a letter as the second.
    #[must_use]
    pub fn standard_text(&self) -> Option<String> {
        let [major, minor] = self.version?;
        if major <= u32::from(u8::MAX) {
            return Some(format!("{major}.{minor}"));
        }
        let [major, minor_digits, update, first] = major.to_be_bytes();
        Some(Version::spelled([major, minor_digits, update, first, minor as u8]))
    }

    /// Returns the state and speed of its link. The kernel does not report whether the host's
    /// driver runs.
    #[must_use]
    pub fn link_status(&self) -> Option<LinkStatus> {
        self.link.map(|bits| LinkStatus { bits, other: 0, oem: 0 })
    }
}

/// Attributes that ask for the packages behind the interface with index `interface`.
#[must_use]
pub(crate) fn of_interface(interface: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, INTERFACE, &interface.to_ne_bytes());
    bytes
}

/// Attributes that send `command` to `address` behind the interface with index `interface`.
#[must_use]
pub(crate) fn to_send(interface: u32, address: Address, command: &Command) -> Vec<u8> {
    let payload = command.emit();
    let letter = Letter {
        kind: command.kind(),
        package: address.package,
        channel: address.channel,
        payload: &payload,
        checksum: Checksum::Absent,
        ..Letter::default()
    };
    let mut bytes = of_interface(interface);
    push(&mut bytes, PACKAGE_ID, &u32::from(address.package).to_ne_bytes());
    push(&mut bytes, CHANNEL_ID, &u32::from(address.channel).to_ne_bytes());
    push(&mut bytes, DATA, &letter.emit_unsealed());
    bytes
}

/// Returns the packages in one answer to `PACKAGE_INFO`, without those that have no number.
#[must_use]
pub fn packages(answer: &[u8]) -> Vec<Package> {
    let lists = attributes(answer).filter(|(kind, _)| *kind == PACKAGE_LIST);
    let elements =
        lists.flat_map(|(_, list)| attributes(list)).filter(|(kind, _)| *kind == OF_PACKAGE);
    elements.filter_map(|(_, element)| package(element)).collect()
}

fn package(element: &[u8]) -> Option<Package> {
    let mut package =
        Package { number: small(find(element, OF_PACKAGE_ID)?)?, ..Package::default() };
    for (kind, value) in attributes(element) {
        match kind {
            OF_PACKAGE_FORCED => package.forced = true,
            OF_PACKAGE_CHANNELS => {
                let elements = attributes(value).filter(|(kind, _)| *kind == OF_CHANNEL);
                package.channels.extend(elements.filter_map(|(_, element)| channel(element)));
            }
            _ => {}
        }
    }
    Some(package)
}

fn channel(element: &[u8]) -> Option<Channel> {
    let mut channel =
        Channel { number: small(find(element, OF_CHANNEL_ID)?)?, ..Channel::default() };
    let version =
        [OF_CHANNEL_MAJOR, OF_CHANNEL_MINOR].map(|kind| find(element, kind).and_then(number));
    channel.version = version[0].zip(version[1]).map(|(major, minor)| [major, minor]);
    for (kind, value) in attributes(element) {
        match kind {
            OF_CHANNEL_FIRMWARE => {
                let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
                // The name need not end with a zero byte.
                let name = &name[..name.len().min(NAME_BYTES)];
                channel.firmware_name = String::from_utf8_lossy(name).into_owned();
            }
            OF_CHANNEL_LINK => channel.link = number(value),
            OF_CHANNEL_ACTIVE => channel.active = true,
            OF_CHANNEL_FORCED => channel.forced = true,
            OF_CHANNEL_VLANS => {
                let tags = attributes(value).filter(|(kind, _)| *kind == OF_CHANNEL_VLAN);
                let tags = tags.filter_map(|(_, tag)| {
                    Some(u16::from_ne_bytes(tag.get(..2)?.try_into().ok()?))
                });
                channel.vlans.extend(tags);
            }
            _ => {}
        }
    }
    Some(channel)
}

/// The control packet in an answer to `SEND_COMMAND`; `None` if the kernel gave up waiting for
/// one, which it says by leaving it out.
#[must_use]
pub fn packet(answer: &[u8]) -> Option<&[u8]> {
    find(answer, DATA)
}

/// Returns the answer in `packet` to a command of type `kind` for `address`; `None` if it is no
/// answer to that.
#[must_use]
pub fn answer(address: Address, kind: u8, packet: &[u8]) -> Option<(Outcome, Reason, Answer)> {
    let letter = Letter::parse_packet(packet).ok()?;
    let ours = letter.is_response()
        && letter.checksum != Checksum::Wrong
        && letter.command() == kind
        && (letter.package, letter.channel) == (address.package, address.channel);
    ours.then(|| Answer::parse(kind, letter.payload))
}

fn find(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

fn number(value: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(value.get(..4)?.try_into().ok()?))
}

/// Packages and channels are numbered from 0 to 31.
fn small(value: &[u8]) -> Option<u8> {
    number(value).and_then(|number| u8::try_from(number).ok())
}

#[cfg(test)]
mod tests {
    use linerate_packet::ncsi::Speed;
    use proptest::prelude::*;

    use super::*;

    const CHANNEL: Address = Address { package: 0, channel: 1 };

    /// An answer to PKG_INFO for package 0 with two channels, attribute by attribute in the order
    /// in which the kernel writes them: channel 0 as an old kernel reports it (the version in four
    /// bytes and a letter), channel 1 as a newer one does.
    #[rustfmt::skip]
    const TWO_CHANNELS: [u8; 156] = [
        /* PACKAGE_LIST */ 156, 0, 2, 0, /* package */ 152, 0, 1, 0,
        /* number 0 */ 8, 0, 2, 0, 0, 0, 0, 0, /* forced */ 4, 0, 3, 0,
        /* CHANNEL_LIST */ 136, 0, 4, 0,
        /* channel */ 76, 0, 1, 0,
        /* number 0 */ 8, 0, 2, 0, 0, 0, 0, 0, /* link */ 8, 0, 6, 0, 0x6f, 0, 1, 0,
        /* active */ 4, 0, 7, 0, /* forced */ 4, 0, 8, 0,
        /* major */ 8, 0, 3, 0, 0, 0xf1, 0xf0, 0xf1, /* minor */ 8, 0, 4, 0, 0, 0, 0, 0,
        /* firmware */ 16, 0, 5, 0, b'l', b'i', b'n', b'e', b'r', b'a', b't', b'e', b'-', b'n',
        b'c', 0,
        /* VLAN_LIST */ 16, 0, 9, 0, /* 5 */ 6, 0, 10, 0, 5, 0, 0, 0, /* of a kind not known */ 4,
        0, 11, 0,
        /* channel */ 56, 0, 1, 0,
        /* number 1 */ 8, 0, 2, 0, 1, 0, 0, 0, /* link */ 8, 0, 6, 0, 0, 0, 0, 0,
        /* major */ 8, 0, 3, 0, 1, 0, 0, 0, /* minor */ 8, 0, 4, 0, 2, 0, 0, 0,
        /* firmware, unterminated */ 16, 0, 5, 0, b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h',
        b'i', b'j', b'k', b'l',
        /* VLAN_LIST */ 4, 0, 9, 0,
    ];

    #[test]
    #[cfg(target_endian = "little")]
    fn packages_are_read_as_the_kernel_writes_them() {
        let packages = packages(&TWO_CHANNELS);
        let [package] = &packages[..] else { panic!("one package: {packages:?}") };
        assert_eq!((package.number, package.forced, package.channels.len()), (0, true, 2));
        let [first, second] = &package.channels[..] else { panic!("two channels: {package:?}") };
        assert_eq!((first.number, first.active, first.forced), (0, true, true));
        assert_eq!(
            (first.standard_text().as_deref(), &*first.firmware_name),
            (Some("1.0.1"), "linerate-nc")
        );
        let link = first.link_status().expect("told");
        assert!(link.is_up());
        assert_eq!(link.speed(), Some(Speed { megabits: 1000, full_duplex: true }));
        assert_eq!(first.vlans, [5]);
        assert_eq!((second.number, second.active, second.forced), (1, false, false));
        assert_eq!(
            (second.standard_text().as_deref(), &*second.firmware_name),
            (Some("1.2"), "abcdefghijkl")
        );
        assert_eq!(second.link_status().map(|link| link.is_up()), Some(false));
        assert!(second.vlans.is_empty());
    }

    #[test]
    fn a_channel_that_says_little_has_gaps_and_no_zeros() {
        let (mut channel, mut channels, mut package, mut all) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        push(&mut channel, OF_CHANNEL_ID, &3_u32.to_ne_bytes());
        push(&mut channels, OF_CHANNEL, &channel);
        push(&mut channels, OF_CHANNEL, &[]);
        push(&mut package, OF_PACKAGE_ID, &2_u32.to_ne_bytes());
        push(&mut package, OF_PACKAGE_CHANNELS, &channels);
        push(&mut all, PACKAGE_LIST, &[]);
        let mut list = Vec::new();
        push(&mut list, OF_PACKAGE, &package);
        push(&mut list, OF_PACKAGE, &[]);
        push(&mut all, PACKAGE_LIST, &list);
        let told = packages(&all);
        let silent = Channel { number: 3, ..Channel::default() };
        assert_eq!(told, [Package { number: 2, forced: false, channels: vec![silent.clone()] }]);
        assert_eq!((silent.standard_text(), silent.link_status()), (None, None));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn a_command_is_sent_as_the_kernel_reads_it() {
        #[rustfmt::skip]
        let get_version = [
            /* IFINDEX 5 */ 8, 0, 1, 0, 5, 0, 0, 0, /* PACKAGE_ID 0 */ 8, 0, 3, 0, 0, 0, 0, 0,
            /* CHANNEL_ID 1 */ 8, 0, 4, 0, 1, 0, 0, 0,
            /* DATA */ 20, 0, 5, 0, /* header */ 0, 1, 0, 0, 0x15, 0x01, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0,
        ];
        assert_eq!(to_send(5, CHANNEL, &Command::GetVersion), get_version);
        // The header gives the payload's length big-endian; the payload has no checksum.
        let whole = Address { package: 2, channel: 0x1f };
        let flow_control = to_send(5, whole, &Command::SetFlowControl(3));
        #[rustfmt::skip]
        let data = [
            /* DATA */ 24, 0, 5, 0, /* header */ 0, 1, 0, 0, 0x14, 0x5f, 0, 4, 0, 0, 0, 0, 0, 0,
            0, 0, /* payload */ 0, 0, 0, 3,
        ];
        assert_eq!(flow_control[24..], data);
        assert_eq!(flow_control[8..24], [8, 0, 3, 0, 2, 0, 0, 0, 8, 0, 4, 0, 0x1f, 0, 0, 0]);
        assert_eq!(of_interface(5), [8, 0, 1, 0, 5, 0, 0, 0]);
    }

    /// An answer as the kernel hands it over: index, package, channel, and the golden frame from
    /// its NC-SI header to its end.
    fn handed_over(frame: &[u8]) -> Vec<u8> {
        const ETHERNET: usize = 14;
        let mut bytes = of_interface(5);
        push(&mut bytes, PACKAGE_ID, &0_u32.to_ne_bytes());
        push(&mut bytes, CHANNEL_ID, &0_u32.to_ne_bytes());
        push(&mut bytes, DATA, &frame[ETHERNET..]);
        bytes
    }

    fn golden(text: &str) -> Vec<u8> {
        let hex: Vec<u8> =
            text.lines().filter(|line| !line.starts_with('#')).flat_map(str::bytes).collect();
        let byte = |pair: &[u8]| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal")
        };
        hex.chunks(2).map(byte).collect()
    }

    #[test]
    fn an_answer_is_read_from_what_is_handed_over_with_padding_and_all() {
        let mut frame = golden(include_str!("../../fixtures/ncsi_pass_through.hex"));
        // A frame check sequence that the driver left in place.
        frame.extend([0xde, 0xad, 0xbe, 0xef]);
        let bytes = handed_over(&frame);
        let packet = packet(&bytes).expect("data");
        let asked = Address { package: 0, channel: 0 };
        let (outcome, reason, told) = answer(asked, 0x1a, packet).expect("the answer");
        assert_eq!((outcome, reason), (Outcome::Completed, Reason::NONE));
        let Answer::PassThroughStatistics(statistics) = told else { panic!("{told:?}") };
        assert_eq!(statistics.counters[5..7], [Some(50_000), Some(4321)]);
        assert_eq!(answer(CHANNEL, 0x1a, packet), None, "of another channel");
        assert_eq!(answer(asked, 0x19, packet), None, "to another command");
        assert_eq!(answer(asked, 0x1a, &packet[..40]), None, "cut off");
    }

    #[test]
    fn a_kernel_that_gave_up_hands_over_no_packet() {
        let mut bytes = of_interface(5);
        push(&mut bytes, PACKAGE_ID, &0_u32.to_ne_bytes());
        push(&mut bytes, CHANNEL_ID, &0_u32.to_ne_bytes());
        assert_eq!(packet(&bytes), None);
    }

    fn read_all(bytes: &[u8]) {
        for package in packages(bytes) {
            for channel in package.channels {
                assert!(channel.firmware_name.chars().count() <= NAME_BYTES);
                let _told =
                    (channel.standard_text(), channel.link_status().map(|link| link.speed()));
            }
        }
        let _answer = packet(bytes).and_then(|packet| answer(CHANNEL, 0x15, packet));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2048))]

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(),
            0..300)) {
            read_all(&bytes);
        }

        #[test]
        fn a_spoilt_answer_is_read_without_a_panic(
            at in 0_usize..TWO_CHANNELS.len(), with in any::<u8>(),
            end in 0_usize..=TWO_CHANNELS.len(),
        ) {
            let mut spoilt = TWO_CHANNELS;
            spoilt[at] = with;
            read_all(&spoilt[..end]);
        }

        #[test]
        fn every_command_carries_its_own_packet(package in 0_u8..8, channel in 0_u8..32,
            kind in any::<u8>(),
            payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let command = Command::parse(kind, &payload);
            let sent = to_send(9, Address { package, channel }, &command);
            let letter = Letter::parse_packet(packet(&sent).expect("data")).expect("a packet");
            prop_assert_eq!((letter.kind, letter.package, letter.channel),
                (command.kind(), package, channel));
            prop_assert_eq!(letter.payload, &command.emit()[..]);
            prop_assert_eq!(letter.checksum, Checksum::Absent);
        }
    }
}
