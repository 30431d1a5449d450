//! Properties of a network driver: identity, link, rings, channels, offloads, coalescing, pause and
//! private statistics, through the SIOCETHTOOL ioctl (linux/ethtool.h).
//!
//! Some properties can also be set. The device belongs to the network namespace of the thread that
//! opened the socket. The driver chooses the unit of each counter; the name shows it.
//!
//! Not available: counters that a driver does not publish, and standard MAC statistics that newer
//! kernels offer only over netlink.

use std::io;
use std::net::UdpSocket;

use crate::{Result, SysError};

#[allow(unsafe_code)]
mod raw;

const GET_DRIVER: u32 = 0x03;
const GET_COALESCE: u32 = 0x0e;
const SET_COALESCE: u32 = 0x0f;
const GET_RINGS: u32 = 0x10;
const SET_RINGS: u32 = 0x11;
const GET_PAUSE: u32 = 0x12;
const GET_TSO: u32 = 0x1e;
const SET_TSO: u32 = 0x1f;
const GET_GSO: u32 = 0x23;
const SET_GSO: u32 = 0x24;
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;
const GET_STRINGS: u32 = 0x1b;
const GET_STATS: u32 = 0x1d;
const GET_SET_INFO: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
const GET_RSS: u32 = 0x46;
const GET_LINK_SETTINGS: u32 = 0x4c;

/// `ETH_GSTRING_LEN`.
const STRING_LENGTH: usize = 32;
/// Limit for the number of statistics or features of one driver. The largest known drivers
/// (per-queue counters of 100 Gbit/s cards) have a few thousand.
const MOST_STRINGS: usize = 16 * 1024;

/// Set of names that a driver publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringSet {
    Statistics = 1,
    Features = 4,
}

/// Identity of a device's driver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driver {
    /// Driver name.
    pub name: String,
    /// Driver version; the kernel's for drivers in its tree.
    pub version: String,
    /// Firmware version; empty if there is none.
    pub firmware: String,
    /// Bus address, e.g. a PCI address; empty for a virtual device.
    pub bus: String,
}

/// Negotiated link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSettings {
    /// Mbit/s at the MAC; `None` if unknown (no link, or a virtual device without a speed).
    pub speed_mbit_per_s: Option<u32>,
    /// Full duplex; `None` if unknown.
    pub full_duplex: Option<bool>,
    /// True if the link was negotiated.
    pub autonegotiation: bool,
}

/// Ring sizes in descriptors: `(in use, largest)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rings {
    /// Receive.
    pub rx: (u32, u32),
    /// Transmit.
    pub tx: (u32, u32),
}

/// Channels (queue and interrupt pairs): `(in use, largest)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Receive only.
    pub rx: (u32, u32),
    /// Transmit only.
    pub tx: (u32, u32),
    /// Both.
    pub combined: (u32, u32),
}

/// Interrupt coalescing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Delay after a received packet, microseconds.
    pub rx_usecs: u32,
    /// Received packets per interrupt.
    pub rx_frames: u32,
    /// Delay after a sent packet, microseconds.
    pub tx_usecs: u32,
    /// Sent packets per interrupt.
    pub tx_frames: u32,
    /// True if the driver adapts the receive side.
    pub adaptive_rx: bool,
    /// True if the driver adapts the transmit side.
    pub adaptive_tx: bool,
}

/// Ethernet flow control (IEEE 802.3 annex 31B).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Negotiated with the peer.
    pub autonegotiation: bool,
    /// Obeys received pause frames.
    pub rx: bool,
    /// Sends pause frames.
    pub tx: bool,
}

/// Receive side scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rss {
    /// Entries of the indirection table.
    pub indirection_size: u32,
    /// Bytes of the hash key; 0 if the device has none.
    pub key_bytes: u32,
}

/// Distribution of packets to queues by receive side scaling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssSpread {
    /// Queues, indexed by the lowest bits of the hash.
    pub indirection: Vec<u32>,
    /// Hash key; empty if the device does not reveal it.
    pub key: Vec<u8>,
    /// True for the Toeplitz hash: bit 0 of the functions (`ETH_RSS_HASH_TOP`).
    pub toeplitz: bool,
}

/// Size of `struct ethtool_coalesce`, bytes.
const COALESCE_SIZE: usize = 92;
const RINGS_SIZE: usize = 36;
/// `struct ethtool_value`: command and value.
const VALUE_SIZE: usize = 8;

/// Offload that can be switched on and off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offload {
    /// Received segments are merged (generic receive offload).
    Gro,
    /// Segments are split after the queueing discipline (generic segmentation offload).
    Gso,
    /// The device splits TCP segments.
    Tso,
}

impl Offload {
    /// Returns the commands that read and set it (Linux `include/uapi/linux/ethtool.h`).
    const fn commands(self) -> (u32, u32) {
        match self {
            Self::Gro => (GET_GRO, SET_GRO),
            Self::Gso => (GET_GSO, SET_GSO),
            Self::Tso => (GET_TSO, SET_TSO),
        }
    }
}

/// Driver setting that is one word of a larger structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunable {
    /// 1 if the driver adapts receive coalescing, otherwise 0.
    AdaptiveRx,
    /// Received packets per interrupt.
    RxFrames,
    /// Delay after a received packet, microseconds.
    RxUsecs,
    /// Descriptors of the receive ring.
    RxRing,
    /// Descriptors of the transmit ring.
    TxRing,
}

impl Tunable {
    /// Returns the name of the command that reads its structure, from `linux/ethtool.h`.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::RxUsecs | Self::RxFrames | Self::AdaptiveRx => "ETHTOOL_GCOALESCE",
            Self::RxRing | Self::TxRing => "ETHTOOL_GRINGPARAM",
        }
    }

    /// Returns the commands that read and set its structure, the structure's size in bytes, and the
    /// index of its word (`struct ethtool_coalesce`, `struct ethtool_ringparam`).
    const fn place(self) -> (u32, u32, usize, usize) {
        match self {
            Self::RxUsecs => (GET_COALESCE, SET_COALESCE, COALESCE_SIZE, 1),
            Self::RxFrames => (GET_COALESCE, SET_COALESCE, COALESCE_SIZE, 2),
            Self::AdaptiveRx => (GET_COALESCE, SET_COALESCE, COALESCE_SIZE, 10),
            Self::RxRing => (GET_RINGS, SET_RINGS, RINGS_SIZE, 5),
            Self::TxRing => (GET_RINGS, SET_RINGS, RINGS_SIZE, 8),
        }
    }
}

/// Socket for requests to drivers.
#[derive(Debug)]
pub struct Ethtool {
    socket: UdpSocket,
}

impl Ethtool {
    /// Opens a socket in the calling thread's network namespace.
    ///
    /// # Errors
    /// If neither an IPv4 nor an IPv6 socket can be opened.
    pub fn open() -> Result<Self> {
        let socket = UdpSocket::bind("0.0.0.0:0").or_else(|_| UdpSocket::bind("[::]:0"));
        let socket = socket.map_err(|cause| SysError::new("open", "ethtool socket", cause))?;
        Ok(Self { socket })
    }

    /// Returns the driver of `device`.
    ///
    /// # Errors
    /// As every call of this type: `ENODEV` if the device does not exist, `EOPNOTSUPP` if its
    /// driver does not support the request.
    pub fn driver(&self, device: &str) -> Result<Driver> {
        /// `struct ethtool_drvinfo`: command, five strings of 32 bytes, 12 reserved, five words.
        const SIZE: usize = 196;
        let answer = self.ask(device, "read the driver of", SIZE, &[GET_DRIVER])?;
        let string = |idx: usize| {
            text(&answer.bytes()[4 + idx * STRING_LENGTH..4 + (idx + 1) * STRING_LENGTH])
        };
        Ok(Driver { name: string(0), version: string(1), firmware: string(2), bus: string(3) })
    }

    /// Returns the negotiated link of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn link_settings(&self, device: &str) -> Result<LinkSettings> {
        const HEAD_WORDS: usize = 12;
        const UNKNOWN_DUPLEX: u8 = 0xff;
        let operation = "read the link settings of";
        // The first call fails and returns the size of the mask as a negative number. The second
        // call passes that size.
        let answer = self.ask(device, operation, HEAD_WORDS * 4, &[GET_LINK_SETTINGS])?;
        let n_words = answer.bytes()[15].cast_signed().unsigned_abs();
        let mut request = [0; HEAD_WORDS];
        request[0] = GET_LINK_SETTINGS;
        request[3] = u32::from_ne_bytes([0, 0, 0, n_words]);
        let answer =
            self.ask(device, operation, (HEAD_WORDS + 3 * usize::from(n_words)) * 4, &request)?;
        let speed = answer.word(1);
        let duplex = answer.bytes()[8];
        Ok(LinkSettings {
            speed_mbit_per_s: (speed != 0 && speed != u32::MAX).then_some(speed),
            full_duplex: (duplex != UNKNOWN_DUPLEX).then_some(duplex == 1),
            autonegotiation: answer.bytes()[11] == 1,
        })
    }

    /// Returns the ring sizes of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn rings(&self, device: &str) -> Result<Rings> {
        let answer = self.ask(device, "read the ring sizes of", RINGS_SIZE, &[GET_RINGS])?;
        Ok(Rings { rx: (answer.word(5), answer.word(1)), tx: (answer.word(8), answer.word(4)) })
    }

    /// Returns the channels of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn channels(&self, device: &str) -> Result<Channels> {
        let answer = self.ask(device, "read the channels of", 36, &[GET_CHANNELS])?;
        Ok(Channels {
            rx: (answer.word(5), answer.word(1)),
            tx: (answer.word(6), answer.word(2)),
            combined: (answer.word(8), answer.word(4)),
        })
    }

    /// Returns the interrupt coalescing of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn coalescing(&self, device: &str) -> Result<Coalescing> {
        let answer = self.ask(device, "read the coalescing of", COALESCE_SIZE, &[GET_COALESCE])?;
        Ok(Coalescing {
            rx_usecs: answer.word(1),
            rx_frames: answer.word(2),
            tx_usecs: answer.word(5),
            tx_frames: answer.word(6),
            adaptive_rx: answer.word(10) != 0,
            adaptive_tx: answer.word(11) != 0,
        })
    }

    /// Returns the pause parameters of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn pause(&self, device: &str) -> Result<Pause> {
        let answer = self.ask(device, "read the pause parameters of", 16, &[GET_PAUSE])?;
        let flag = |idx| answer.word(idx) != 0;
        Ok(Pause { autonegotiation: flag(1), rx: flag(2), tx: flag(3) })
    }

    /// Returns the receive side scaling of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn rss(&self, device: &str) -> Result<Rss> {
        // For sizes of zero the kernel returns only the sizes.
        let answer = self.ask(device, "read the receive side scaling of", 24, &[GET_RSS])?;
        Ok(Rss { indirection_size: answer.word(2), key_bytes: answer.word(3) })
    }

    /// Returns the indirection table and key of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn rss_spread(&self, device: &str) -> Result<RssSpread> {
        /// `struct ethtool_rxfh`: command, context, both sizes, function and flags, one reserved
        /// word.
        const HEAD_WORDS: usize = 6;
        const TOEPLITZ: u8 = 1;
        let Rss { indirection_size, key_bytes } = self.rss(device)?;
        let n_entries = indirection_size as usize;
        let size = (HEAD_WORDS + n_entries) * 4 + key_bytes as usize;
        let request = [GET_RSS, 0, indirection_size, key_bytes, 0, 0];
        let answer = self.ask(device, "read the receive side scaling of", size, &request)?;
        let key = (HEAD_WORDS + n_entries) * 4;
        Ok(RssSpread {
            indirection: (0..n_entries).map(|entry| answer.word(HEAD_WORDS + entry)).collect(),
            key: answer.bytes()[key..key + key_bytes as usize].to_vec(),
            toeplitz: answer.bytes()[16] & TOEPLITZ != 0,
        })
    }

    /// Returns the offload features of `device` and true for each that is on.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn features(&self, device: &str) -> Result<Vec<(String, bool)>> {
        const BITS: usize = 32;
        const BLOCK_WORDS: usize = 4;
        const HEAD_WORDS: usize = 2;
        const ACTIVE: usize = 2;
        let names = self.strings(device, StringSet::Features)?;
        let n_blocks = names.len().div_ceil(BITS);
        let size = (HEAD_WORDS + n_blocks * BLOCK_WORDS) * 4;
        let answer =
            self.ask(device, "read the offloads of", size, &[GET_FEATURES, n_blocks as u32])?;
        let active = |bit: usize| {
            answer.word(HEAD_WORDS + bit / BITS * BLOCK_WORDS + ACTIVE) >> (bit % BITS) & 1 == 1
        };
        Ok(names.into_iter().enumerate().map(|(bit, name)| (name, active(bit))).collect())
    }

    /// Returns true if `offload` of `device` is on.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn offload(&self, device: &str, offload: Offload) -> Result<bool> {
        let (get, _) = offload.commands();
        Ok(self.ask(device, "read an offload of", VALUE_SIZE, &[get, 0])?.word(1) != 0)
    }

    /// Switches `offload` of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`]; `EPERM` without CAP_NET_ADMIN.
    pub(crate) fn set_offload(&self, device: &str, offload: Offload, on: bool) -> Result<()> {
        let (_, set) = offload.commands();
        self.ask(device, "switch an offload of", VALUE_SIZE, &[set, u32::from(on)]).map(drop)
    }

    /// Returns the value of `tunable` of `device`.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub(crate) fn tunable(&self, device: &str, tunable: Tunable) -> Result<u32> {
        let (get, _, size, word) = tunable.place();
        Ok(self.ask(device, "read a setting of the driver of", size, &[get])?.word(word))
    }

    /// Sets `tunable` of `device`. The other words of the structure keep their values.
    ///
    /// # Errors
    /// As [`Ethtool::driver`]; `EPERM` without CAP_NET_ADMIN, `EINVAL` if the driver refuses the
    /// value.
    pub(crate) fn set_tunable(&self, device: &str, tunable: Tunable, value: u32) -> Result<()> {
        let (get, set, size, word) = tunable.place();
        let present = self.ask(device, "read a setting of the driver of", size, &[get])?;
        let mut wanted: Vec<u32> = (0..size / 4).map(|idx| present.word(idx)).collect();
        wanted[0] = set;
        wanted[word] = value;
        self.ask(device, "change a setting of the driver of", size, &wanted).map(drop)
    }

    /// Prepares to read the private statistics of `device` repeatedly. Empty if the driver has
    /// none.
    ///
    /// # Errors
    /// As [`Ethtool::driver`].
    pub fn statistics(&self, device: &str) -> Result<Statistics> {
        let names = self.strings(device, StringSet::Statistics)?;
        let socket = self
            .socket
            .try_clone()
            .map_err(|cause| SysError::new("clone", "ethtool socket", cause))?;
        let operation = "read the statistics of";
        let buffer = raw::Buffer::new(Statistics::HEAD + names.len() * 8);
        let buffer = buffer.map_err(|cause| SysError::new(operation, device, cause))?;
        Ok(Statistics { socket, device: device.to_owned(), names, buffer })
    }

    fn strings(&self, device: &str, set: StringSet) -> Result<Vec<String>> {
        let operation = "read the names of";
        const HEAD: usize = 12;
        // The request's mask of sets has 64 bits. The mask in the answer shows if the driver has
        // the set.
        let mask = (1_u64 << set as u32).to_ne_bytes();
        let half = |at: usize| {
            u32::from_ne_bytes(mask[at..at + 4].try_into().expect("four of eight bytes"))
        };
        let info = self.ask(device, operation, 20, &[GET_SET_INFO, 0, half(0), half(4)])?;
        let count = if info.word(2) | info.word(3) == 0 { 0 } else { info.word(4) as usize };
        if count == 0 || count > MOST_STRINGS {
            return Ok(Vec::new());
        }
        let answer = self.ask(
            device,
            operation,
            HEAD + count * STRING_LENGTH,
            &[GET_STRINGS, set as u32, count as u32],
        )?;
        let count = count.min(answer.word(2) as usize);
        Ok(answer.bytes()[HEAD..].chunks_exact(STRING_LENGTH).take(count).map(text).collect())
    }

    /// Sends `request` in a buffer of at least `size` bytes and returns the buffer with the answer.
    fn ask(
        &self,
        device: &str,
        operation: &'static str,
        size: usize,
        request: &[u32],
    ) -> Result<raw::Buffer> {
        let wrap = |cause: io::Error| SysError::new(operation, device, cause);
        let mut buffer = raw::Buffer::new(size.max(size_of_val(request))).map_err(wrap)?;
        for (word_idx, &word) in request.iter().enumerate() {
            buffer.set_word(word_idx, word);
        }
        raw::ethtool(&self.socket, device, &mut buffer).map_err(wrap)?;
        Ok(buffer)
    }
}

/// Private statistics of a driver: names, fixed at opening, and values that can be read repeatedly.
#[derive(Debug)]
pub struct Statistics {
    socket: UdpSocket,
    device: String,
    names: Vec<String>,
    buffer: raw::Buffer,
}

impl Statistics {
    const HEAD: usize = 8;

    /// Returns the names, in the order of the values.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads all values. Does not allocate. Some drivers query their firmware, which takes about a
    /// millisecond.
    ///
    /// # Errors
    /// If the device is gone, or the driver has changed its set of statistics.
    pub fn read(&mut self) -> Result<impl Iterator<Item = u64> + '_> {
        let count = self.names.len();
        self.buffer.set_word(0, GET_STATS);
        self.buffer.set_word(1, count as u32);
        let operation = "read the statistics of";
        if let Err(cause) = raw::ethtool(&self.socket, &self.device, &mut self.buffer) {
            return Err(SysError::new(operation, self.device.as_str(), cause));
        }
        if self.buffer.word(1) as usize != count {
            return Err(SysError::new(operation, self.device.as_str(), io::ErrorKind::InvalidData));
        }
        let values = self.buffer.bytes()[Self::HEAD..].chunks_exact(8).take(count);
        Ok(values
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().expect("chunks_exact gives 8 bytes"))))
    }
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).trim().to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_features_and_no_bus() {
        let ethtool = Ethtool::open().unwrap();
        let features = ethtool.features("lo").unwrap();
        assert!(features.iter().any(|(name, _)| name == "tx-checksum-ip-generic"), "{features:?}");
        assert!(ethtool.driver("lo").map_or(true, |driver| driver.bus.is_empty()));
    }

    #[test]
    fn a_device_that_is_not_there_is_an_error_with_its_name() {
        let error = Ethtool::open().unwrap().driver("lr-none").unwrap_err();
        assert!(error.to_string().contains("lr-none"), "{error}");
        assert!(Ethtool::open().unwrap().driver("a-name-longer-than-allowed").is_err());
    }

    #[test]
    fn statistics_have_as_many_values_as_names() {
        let ethtool = Ethtool::open().unwrap();
        let mut n_devices = 0;
        for device in std::fs::read_dir("/sys/class/net").unwrap() {
            let device = device.unwrap().file_name().into_string().unwrap();
            let Ok(mut statistics) = ethtool.statistics(&device) else { continue };
            if statistics.names().is_empty() {
                continue;
            }
            n_devices += 1;
            let count = statistics.names().len();
            assert_eq!(statistics.read().unwrap().count(), count);
        }
        if n_devices == 0 {
            println!("skipped: no driver here has private statistics");
        }
    }
}
