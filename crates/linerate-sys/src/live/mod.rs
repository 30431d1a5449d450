//! Live frames: the kernel itself makes frames from a template and hands them to a driver
//! (`BPF_PROG_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`, since Linux 5.18). The fastest way out of an
//! ordinary interface.
//!
//! The kernel keeps a pool of pages, runs an XDP program on each and does with it what the program
//! says. Ours writes a frame's header anew every time (a router on the way has written into the
//! very page that comes back), puts number and time into it, completes the checksum by what these
//! add to it (RFC 1624), and redirects it to the device. Rows of a table take turns: each has its
//! own header and length, and the numbers of its flow.
//!
//! A driver that takes no such frames drops them without an answer to anybody, so programs at two
//! of the kernel's tracepoints count what the driver took and what not: [`Counts::sent`] is that,
//! not what was made.
//!
//! Not seen: what becomes of a frame that the driver took. A veth takes 256 frames at a time and
//! only if its peer has a program or GRO; what its peer does with them is the receiver's to count.

mod anchor;
mod departures;
mod program;
mod template;

use std::os::fd::{AsFd, OwnedFd};

use crate::SysError;
use crate::ebpf::map::{Map, SharedWords};
use crate::ebpf::program::{Kind, Program};
use crate::ebpf::raw;
use crate::packet::interface_index;
use crate::privilege::{LiveParts, helped};
use crate::xdp;
use departures::Departures;
use template::Layout;

pub use template::{Row, Shape};

/// The longest frame: a page of 4,096 B, less the headroom, the kernel's own notes and what a
/// socket buffer needs at its end.
pub const MOST_BYTES: usize = 3_200;
/// The most frames between two looks at the device (`TEST_XDP_MAX_BATCH` of net/bpf/test_run.c).
pub const MOST_BATCH: u32 = 256;
/// The most frames a call makes: it ends early only by a signal.
const MOST_PER_CALL: u32 = 1 << 16;

/// What came of the frames made so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Made and redirected to the device.
    pub made: u64,
    /// Of these, what the driver took.
    pub sent: u64,
    /// Of these, what the driver did not take.
    pub dropped: u64,
}

/// A generator of live frames on one device.
#[derive(Debug)]
pub struct LiveFrames {
    program: Program,
    state: SharedWords,
    departures: Departures,
    layout: Layout,
    device: String,
    /// The frame that pages are filled with.
    pattern: Vec<u8>,
    batch: u32,
    /// Without it every call costs 20 ms more.
    anchor: Option<[OwnedFd; 2]>,
}

impl LiveFrames {
    /// A generator on `device` of the calling thread's network namespace; later calls may come from
    /// any thread. `rows` take turns frame by frame. `batch` frames are handed to the device at a
    /// time.
    ///
    /// # Errors
    /// If the interface is down or does not carry such frames, its driver takes no redirected
    /// frames, the kernel does not tell what it took, the rows make no sense, or privilege is
    /// missing.
    pub fn open(device: &str, rows: &[Row], shape: Shape, batch: u32) -> Result<Self, SysError> {
        let layout = laid_out(device, rows, shape)?;
        let parts = match Self::build(device, rows, &layout) {
            // The kernel's words say what privilege is missing, if nobody can help.
            Err(error) if error.is_refused() => {
                match helped(|helper| helper.live_frames(device, rows, shape)) {
                    Some(parts) => parts
                        .map_err(|cause| SysError::new("make live frames for", device, cause))?,
                    None => return Err(error),
                }
            }
            parts => parts?,
        };
        let LiveParts { program, state, departures, tracepoints, anchor } = parts;
        Ok(Self {
            program: Program::from(program),
            state: SharedWords::of(state, layout.n_words())?,
            departures: Departures::of(departures, tracepoints)?,
            pattern: layout.pattern(rows),
            layout,
            device: device.to_owned(),
            batch: batch.clamp(1, MOST_BATCH),
            anchor,
        })
    }

    /// What a generator consists of, made with this process's own rights: for a helper of another
    /// one.
    ///
    /// # Errors
    /// As [`LiveFrames::open`].
    pub fn parts(device: &str, rows: &[Row], shape: Shape) -> Result<LiveParts, SysError> {
        Self::build(device, rows, &laid_out(device, rows, shape)?)
    }

    fn build(device: &str, rows: &[Row], layout: &Layout) -> Result<LiveParts, SysError> {
        xdp::ready(device, layout.longest as u32)?;
        takes_frames(device)?;
        let state = SharedWords::new("lr_live", layout.n_words())?;
        layout.write(rows, |word, value| state.set(word, value));
        let devices = Map::devices("lr_device", 1)?;
        devices.set(0, interface_index(device)?).map_err(|error| {
            SysError::new(
                "send live frames on (does its driver take XDP frames?)",
                device,
                error.cause,
            )
        })?;
        let departures = Departures::watch()?;
        // Once it is loaded it holds its maps by itself.
        let code = program::code(layout, &state, &devices, departures.counters());
        let program = Program::load(Kind::Xdp, "lr_live", &code)?;
        // Only speed is lost without it, and whoever lacks the privilege for it may still send.
        let anchor = anchor::hold(&program).ok();
        let (departures, tracepoints) = departures.into_parts();
        Ok(LiveParts {
            program: program.into(),
            state: state.into(),
            departures,
            tracepoints,
            anchor,
        })
    }

    /// Makes `n` frames and hands them to the device; returns how many were made: fewer than `n` if
    /// a signal came, or `n` is more than a call makes (65,536).
    ///
    /// # Errors
    /// If the kernel refuses: no CAP_NET_ADMIN, no memory, or a kernel before Linux 5.18.
    pub fn send(&mut self, n: u32) -> Result<u32, SysError> {
        if n == 0 {
            return Ok(0);
        }
        let before = self.made();
        // What was read in another call is long ago.
        self.state.set(template::CLOCK_WORD, 0);
        match raw::run_live(
            self.program.as_fd(),
            &self.pattern,
            n.min(MOST_PER_CALL),
            self.batch.min(n),
        ) {
            Err(cause) if cause.kind() != std::io::ErrorKind::Interrupted => Err(SysError::new(
                "send live frames (needs Linux 5.18 and CAP_NET_ADMIN) on",
                &*self.device,
                cause,
            )),
            _ => Ok((self.made() - before) as u32),
        }
    }

    /// What random ports are drawn from: the same seed gives the same ports in the same order.
    pub fn seed(&mut self, seed: u64) {
        self.state.set(template::CHANCE_WORD, seed);
    }

    /// From now on the next frame is scheduled for `start_ns` on the monotonic clock, each after it
    /// `gap_ns` later: that is what they carry, whenever they are made. Without a schedule they
    /// carry the time at which they, or one of the seven before them, were made.
    pub fn schedule(&mut self, start_ns: u64, gap_ns: u64) {
        self.state.set(template::GAP_WORD, gap_ns);
        self.state.set(template::SCHEDULED_WORD, start_ns);
    }

    /// How many frames of `flow` were made: the next one's number.
    ///
    /// # Panics
    /// If there is no such flow.
    #[must_use]
    pub fn next(&self, flow: usize) -> u64 {
        self.state.get(self.layout.flow_word(flow))
    }

    /// What came of the frames made so far.
    ///
    /// # Errors
    /// If the kernel does not tell.
    pub fn counts(&mut self) -> Result<Counts, SysError> {
        let made = self.made();
        let (sent, dropped) = self.departures.read()?;
        Ok(Counts { made, sent, dropped })
    }

    /// Whether calls may be short; if not (no CAP_SYS_ADMIN), each takes 20 ms beside its frames.
    #[must_use]
    pub fn is_swift(&self) -> bool {
        self.anchor.is_some()
    }

    fn made(&self) -> u64 {
        self.state.get(template::MADE_WORD)
    }
}

fn laid_out(device: &str, rows: &[Row], shape: Shape) -> Result<Layout, SysError> {
    Layout::new(rows, shape).map_err(|why| {
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        SysError::new("make live frames for", device, cause)
    })
}

/// Refuses a device whose driver says that it takes no redirected frames now.
fn takes_frames(device: &str) -> Result<(), SysError> {
    // A kernel that does not tell (before 6.3) is found out about by what it takes.
    let Some(features) = xdp::features(device)? else { return Ok(()) };
    if features.takes_frames() {
        return Ok(());
    }
    let why = "its driver takes no XDP frames now; the peer of a veth needs an XDP program or GRO \
        first: start a receiver in mode xdp \
               there, or `ethtool -K PEER gro on`; elsewhere use mode xdp or packet";
    Err(SysError::new(
        "send live frames on",
        format!("{device} ({why})"),
        rustix::io::Errno::OPNOTSUPP,
    ))
}
