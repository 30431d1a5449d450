//! Live frames: the kernel itself creates frames from a template and hands them to a driver
//! (`BPF_PROG_RUN` with `BPF_F_TEST_XDP_LIVE_FRAMES`, since Linux 5.18). This is the fastest way to
//! send on an ordinary interface.
//!
//! The kernel keeps a pool of pages, runs an XDP program on each page and obeys its verdict. Our
//! program writes the frame's header anew every time, because a router on the path may have changed
//! the page that comes back. It inserts sequence number and time, updates the checksum for them
//! (RFC 1624), and redirects the frame to the device. The rows of a table take turns. Each row has
//! its own header, length and flow.
//!
//! A driver that does not accept such frames drops them silently. Programs at two kernel
//! tracepoints therefore count how many frames the driver accepted. [`Counts::sent`] is that
//! number, not the number of frames created.
//!
//! The fate of an accepted frame is not visible here. A veth accepts 256 frames at a time, and only
//! if its peer has an XDP program or GRO. The receiver must count what arrives.

mod anchor;
mod departures;
mod program;
mod template;

use std::os::fd::{AsFd, OwnedFd};

use crate::ebpf::map::{Map, SharedWords};
use crate::ebpf::program::{Kind, Program};
use crate::ebpf::raw;
use crate::packet::interface_index;
use crate::privilege::{LiveParts, helped};
use crate::xdp;
use crate::{Result, SysError};
use departures::Departures;
use template::Layout;

pub use template::{Row, Shape};

/// Longest frame: a page of 4,096 B less the headroom, the kernel's metadata and the end of a
/// socket buffer.
pub const MOST_BYTES: usize = 3_200;
/// Most frames per hand-over to the device (`TEST_XDP_MAX_BATCH` of net/bpf/test_run.c).
pub const MOST_BATCH: u32 = 256;
/// Most frames per call: only a signal ends a call early.
const MOST_PER_CALL: u32 = 1 << 16;

/// Counts of frames so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Created and redirected to the device.
    pub made: u64,
    /// Created frames that the driver accepted.
    pub sent: u64,
    /// Created frames that the driver refused.
    pub dropped: u64,
}

/// Generator of live frames on one device.
#[derive(Debug)]
pub struct LiveFrames {
    program: Program,
    state: SharedWords,
    departures: Departures,
    layout: Layout,
    device: String,
    /// Frame that pages are filled with.
    pattern: Vec<u8>,
    batch: u32,
    /// Without the anchor every call takes 20 ms longer.
    anchor: Option<[OwnedFd; 2]>,
}

impl LiveFrames {
    /// Opens a generator on `device` of the calling thread's network namespace; later calls may
    /// come from any thread. `rows` take turns frame by frame. Each hand-over to the device has
    /// `batch` frames.
    ///
    /// # Errors
    /// If the interface is down or cannot carry such frames, its driver does not accept redirected
    /// frames, the kernel does not report what it accepted, the rows are inconsistent, or a
    /// privilege is missing.
    pub fn open(device: &str, rows: &[Row], shape: Shape, batch: u32) -> Result<Self> {
        let layout = laid_out(device, rows, shape)?;
        let parts = match Self::build(device, rows, &layout) {
            // If no helper can do it, the kernel's error says which privilege is missing.
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

    /// Creates the parts of a generator with the privileges of this process, for a helper of
    /// another process.
    ///
    /// # Errors
    /// As [`LiveFrames::open`].
    pub fn parts(device: &str, rows: &[Row], shape: Shape) -> Result<LiveParts> {
        Self::build(device, rows, &laid_out(device, rows, shape)?)
    }

    fn build(device: &str, rows: &[Row], layout: &Layout) -> Result<LiveParts> {
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
        // A loaded program keeps its maps alive.
        let code = program::code(layout, &state, &devices, departures.counters());
        let program = Program::load(Kind::Xdp, "lr_live", &code)?;
        // Without the anchor only speed is lost, and a user without the privilege for it may still
        // send.
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

    /// Creates `n` frames and hands them to the device. Returns the number created, which is less
    /// than `n` after a signal or if `n` exceeds the limit of a call (65,536).
    ///
    /// # Errors
    /// If the kernel refuses: no CAP_NET_ADMIN, no memory, or a kernel before Linux 5.18.
    pub fn send(&mut self, n: u32) -> Result<u32> {
        if n == 0 {
            return Ok(0);
        }
        let before = self.made();
        // A clock reading from another call is out of date.
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

    /// Seeds the generator of random ports: the same seed gives the same ports in the same order.
    pub fn seed(&mut self, seed: u64) {
        self.state.set(template::CHANCE_WORD, seed);
    }

    /// Schedules the next frame for `start_ns` on the monotonic clock, and each frame after it
    /// `gap_ns` later. Frames carry these times, whenever they are created. Without a schedule a
    /// frame carries the time at which it, or one of the seven frames before it, was created.
    pub fn schedule(&mut self, start_ns: u64, gap_ns: u64) {
        self.state.set(template::GAP_WORD, gap_ns);
        self.state.set(template::SCHEDULED_WORD, start_ns);
    }

    /// Returns the number of frames of `flow` so far, which is the next frame's number.
    ///
    /// # Panics
    /// If there is no such flow.
    #[must_use]
    pub fn next(&self, flow: usize) -> u64 {
        self.state.get(self.layout.flow_word(flow))
    }

    /// Returns the counts of frames so far.
    ///
    /// # Errors
    /// If the kernel does not report them.
    pub fn counts(&mut self) -> Result<Counts> {
        let made = self.made();
        let (sent, dropped) = self.departures.read()?;
        Ok(Counts { made, sent, dropped })
    }

    /// Returns true if short calls are cheap. Without CAP_SYS_ADMIN each call takes 20 ms longer.
    #[must_use]
    pub fn is_swift(&self) -> bool {
        self.anchor.is_some()
    }

    fn made(&self) -> u64 {
        self.state.get(template::MADE_WORD)
    }
}

fn laid_out(device: &str, rows: &[Row], shape: Shape) -> Result<Layout> {
    Layout::new(rows, shape).map_err(|why| {
        let cause = std::io::Error::new(std::io::ErrorKind::InvalidInput, why);
        SysError::new("make live frames for", device, cause)
    })
}

/// Refuses a device whose driver reports that it does not accept redirected frames now.
fn takes_frames(device: &str) -> Result<()> {
    // A kernel before 6.3 does not report it; the counts then show what the driver accepted.
    let Some(features) = xdp::features(device)? else { return Ok(()) };
    if features.takes_frames() {
        return Ok(());
    }
    let why = "its driver does not accept XDP frames now; the peer of a veth needs an XDP program \
        or GRO first: start a receiver in mode xdp there, or `ethtool -K PEER gro on`; elsewhere \
        use mode xdp or packet";
    Err(SysError::new(
        "send live frames on",
        format!("{device} ({why})"),
        rustix::io::Errno::OPNOTSUPP,
    ))
}
