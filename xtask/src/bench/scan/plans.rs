//! Short plans that differ in everything a plan may say: workload, direction, streams, sizes,
//! places. Drawn by a seed.

use std::fmt::Write as _;

use crate::bench::truth::ground::{Between, Family, PLAIN};

/// Sweeps of a plan.
const SWEEPS: usize = 4;
/// One choice of each row is taken; an empty one leaves the parameter out.
type Choices = &'static [&'static [&'static str]];

/// A workload and what its parameters may be.
struct Load {
    workload: &'static str,
    choices: Choices,
    /// True if it has streams.
    streams: bool,
}

const DIRECTION: &[&str] = &["direction = \"tx\"", "direction = \"rx\"", "direction = \"both\""];
const ONE_DIRECTION: &[&str] = &["direction = \"tx\"", "direction = \"rx\""];
const SIZES: &[&str] = &["", "request_size = \"1400 B\"", "response_size = \"16 KiB\""];
const PACE: &[&str] =
    &["", "rate = \"500 pps\"", "rate = \"2000 pps\", poisson = true", "rate = \"60 kpps\""];
const FILES: Choices = &[
    ONE_DIRECTION,
    &["file_size = \"1 KiB\"", "file_size = \"256 KiB\"", "file_size = \"4 MiB\"", ""],
    &["", "send = \"copy\"", "send = \"zerocopy\"", "send = \"splice\""],
    &["", "sink = \"memory\"", "sink = \"throttled\", sink_rate = \"40 Mbit/s\""],
    &["", "tls = true"],
];

static LOADS: &[Load] = &[
    Load {
        workload: "tcp_stream",
        choices: &[
            DIRECTION,
            &["", "message_size = \"64 B\"", "message_size = \"1 MiB\""],
            &[
                "",
                "send = \"batch\", receive = \"discard\"",
                "send = \"zerocopy\"",
                "send = \"sendfile\"",
                "send = \"splice\"",
            ],
            &[
                "",
                "socket_buffer = \"24 KiB\"",
                "pacing_rate = \"20 Mbit/s\"",
                "sink_rate = \"30 Mbit/s\"",
                "source_rate = \"30 Mbit/s\"",
            ],
            &["", "congestion = \"reno\"", "mss = \"536 B\"", "window_clamp = \"64 KiB\""],
        ],
        streams: true,
    },
    Load {
        workload: "udp_stream",
        choices: &[
            DIRECTION,
            &["", "datagram_size = \"64 B\"", "datagram_size = \"8 KiB\""],
            &[
                "",
                "rate = \"5 Mbit/s\"",
                "rate = \"40 Mbit/s\", poisson = true",
                "rate = \"2 Gbit/s\"",
                "rate = \"10 kpps\", burst = 8",
            ],
            &["", "gso = 0, gro = false", "receive = \"discard\"", "receive_buffer = \"16 KiB\""],
        ],
        streams: true,
    },
    Load { workload: "tcp_rr", choices: &[&["", "depth = 8"], SIZES, PACE], streams: true },
    Load {
        workload: "udp_rr",
        choices: &[&["", "depth = 8"], SIZES, PACE, &["", "timeout = \"20 ms\""]],
        streams: true,
    },
    Load {
        workload: "tcp_crr",
        choices: &[SIZES, &["", "rate = \"300 pps\""], &["", "close = \"reset\""]],
        streams: true,
    },
    Load { workload: "http", choices: FILES, streams: true },
    Load { workload: "ftp", choices: FILES, streams: true },
    Load {
        workload: "frames",
        choices: &[
            DIRECTION,
            &["frame_size = \"128 B\"", "frame_size = \"512 B\"", "frame_size = \"1024 B\""],
            &[
                "",
                "rate = \"5 kpps\"",
                "rate = \"20 Mbit/s\", poisson = true",
                "rate = \"20 kpps\", burst = 16",
            ],
            &["mode = \"udp\"", "mode = \"packet\"", "mode = \"live\"", ""],
            &["allow_outside_lab = true"],
        ],
        streams: false,
    },
    Load {
        workload: "storage",
        choices: &[
            &["size = \"16 MiB\""],
            &["", "block_size = \"128 KiB\"", "block_size = \"512 B\""],
            &["", "read = \"50 %\"", "read = \"0 %\", flush = \"fdatasync\", flush_every = 16"],
            &[
                "depth = 1",
                "depth = 8",
                "engine = \"pread\", depth = 1",
                "engine = \"threads\", depth = 4",
            ],
            &["", "rate = \"500 pps\"", "cache = \"buffered\""],
        ],
        streams: false,
    },
    Load { workload: "null", choices: &[], streams: false },
];

/// Where a campaign runs.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LabPlace {
    Loopback,
    /// A lab that comes with linerate.
    Lab(&'static str),
    /// A lab's link of this rate, Mbit/s.
    Link(u32),
    /// Two hosts over the referee's bridge; with another clock where `true`.
    Hosts(Between, bool),
}

impl LabPlace {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Lab(_) | Self::Link(_) => "lab",
            Self::Hosts(_, false) => "hosts",
            Self::Hosts(_, true) => "hosts, clocks a day apart",
        }
    }
}

/// Numbers drawn by a seed (SplitMix64).
pub(super) struct Draw(pub(super) u64);

impl Draw {
    fn next(&mut self) -> u64 {
        // The increment is the golden ratio in 64 bits; both multipliers are those of SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// One of `all`, which must not be empty.
    pub(super) fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        // The modulo's bias does not matter for lists of a few entries.
        &all[(self.next() % all.len() as u64) as usize]
    }

    /// Where the next campaign runs.
    pub(super) fn place(&mut self) -> LabPlace {
        let between = Between {
            // Values that appear twice are drawn twice as often.
            family: *self.one_of(&[Family::V4, Family::V4, Family::V6, Family::Vxlan]),
            mtu: *self.one_of(&[1500, 1500, 1280, 9000]),
            bits_per_second: *self.one_of(&[0, 0, 10_000_000, 100_000_000, 1_000_000_000]),
            offloads: *self.one_of(&[true, false]),
        };
        let places = [
            LabPlace::Loopback,
            LabPlace::Lab(self.one_of::<&str>(&["pair", "pair-100m", "lossy", "router"])),
            LabPlace::Link(*self.one_of(&[3, 34, 100, 500])),
            LabPlace::Hosts(between, false),
            LabPlace::Hosts(PLAIN, true),
        ];
        self.one_of(&places).clone()
    }

    /// A campaign of a few sweeps.
    pub(super) fn plan(&mut self) -> String {
        let (seed, repeats) = (self.next() % 1000, *self.one_of(&[1, 2, 3, 6]));
        let mut text = format!("[campaign]\nname = \"scan\"\nseed = {seed}\nrepeats = {repeats}\n");
        for number in 0..SWEEPS {
            let load = self.one_of(LOADS);
            let params: Vec<&str> = load
                .choices
                .iter()
                .map(|choices| *self.one_of(choices))
                // An empty choice means the default.
                .filter(|chosen| !chosen.is_empty())
                .collect();
            let _infallible = write!(
                text,
                "[[sweep]]\nname = \"{number}\"\nduration = \"{}\"\nwarmup = \"{}\"\ninterval \
                    = \"{}\"\ndrain = \"100 ms\"\nrest = \"0 s\"\n\
                 [[sweep.job]]\nworkload = \"{}\"\nfrom = \"a\"\nto = \"b\"\nparams = {{ {} }}\n",
                self.one_of(&["150 ms", "300 ms", "520 ms"]),
                self.one_of(&["0 s", "100 ms"]),
                self.one_of(&["50 ms", "100 ms"]),
                load.workload,
                params.join(", ")
            );
            let axis = self.one_of(&["", "[1, 3]", "[2, 8]"]);
            // Some workloads have no streams, and refuse the parameter.
            if load.streams && !axis.is_empty() {
                let _infallible = write!(text, "[sweep.axis]\n\"params.streams\" = {axis}\n");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_plans_and_all_workloads_and_places_come_up() {
        let drawn = |seed| {
            let mut draw = Draw(seed);
            (0..60).map(|_| (draw.place(), draw.plan())).collect::<Vec<_>>()
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
        let all = drawn(1);
        for load in LOADS {
            let named = format!("workload = \"{}\"", load.workload);
            assert!(all.iter().any(|(_, plan)| plan.contains(&named)), "{named}");
        }
        for name in ["loopback", "lab", "hosts", "hosts, clocks a day apart"] {
            assert!(all.iter().any(|(place, _)| place.name() == name), "{name}");
        }
    }
}
