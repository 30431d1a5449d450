//! Scenarios: one injected cause each, and the expected rule.
//!
//! Every lab has two hosts, `a` and `b`, and no more than what makes the cause. Rates are low, so
//! that two cores carry every lab with time to spare: a scenario that its host cannot carry would
//! have another cause.

/// One scenario.
pub(super) struct Scenario {
    /// Its name.
    pub(super) name: &'static str,
    /// The limits that should be found, from the one that shows on.
    pub(super) expected: &'static [&'static str],
    /// Where it is.
    pub(super) place: FaultPlace,
    /// Settings of each host.
    pub(super) hosts: [&'static str; 2],
    /// Parameters of the load.
    pub(super) params: &'static [&'static str],
}

impl Scenario {
    /// True if a second scenario at the same time would add another cause: its links have no rate,
    /// or a high one, so that CPUs are the limit.
    pub(super) fn wants_cpus(&self) -> bool {
        match &self.place {
            FaultPlace::Lab(between, _) => {
                [FAST, FRAMES].contains(between) || between.contains("[[controller]]")
            }
            FaultPlace::Testbed(_) => true,
        }
    }
}

/// Where a scenario is.
pub(super) enum FaultPlace {
    /// A lab: what lies between its hosts, and which endpoints are used.
    Lab(&'static str, [&'static str; 2]),
    /// A testbed file.
    Testbed(&'static str),
}

const ENDS: [&str; 2] = ["a", "b"];
const FREE: [&str; 2] = ["", ""];
const FAST: &str = "[[link]]\nends = [\"a\", \"b\"]\n";
/// As fast as the CPUs go, but frame by frame.
const FRAMES: &str = "[[link]]\nends = [\"a\", \"b\"]\noffloads = false\n";
const LINK: &str = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"50 Mbit/s\"\ndelay = \"1 \
    ms\"\nbuffer = \"128 KiB\"\n";
const LONG: &str = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"50 Mbit/s\"\ndelay = \"5 \
    ms\"\nbuffer = \"256 KiB\"\n";
/// Long enough for a send buffer of one packet, which holds 64 KiB, to be less than what the path
/// holds.
const LONGER: &str = "[[link]]\nends = [\"a\", \"b\"]\nrate = \"50 Mbit/s\"\ndelay = \"15 \
    ms\"\nbuffer = \"512 KiB\"\n";
const LITTLE_CPU: &str = "cpu = \"10 %\"\n";
/// A sender that recovers by timeouts, as in the paper on the fire hose, but short ones: a run
/// holds many collapses, and runs are alike.
const POOR_RECOVERY: &str = "min_rto = \"20 ms\"\nsysctl = { \"net.ipv4.tcp_sack\" = \"0\", \
    \"net.ipv4.tcp_recovery\" = \"0\", \"net.ipv4.tcp_early_retrans\" = \"0\" }\n";
const SMALL_WINDOW: &str = "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 32768 32768\" }\n";
const SMALL_SEND_BUFFER: &str = "sysctl = { \"net.ipv4.tcp_wmem\" = \"4096 32768 32768\" }\n";

/// The control first, then one cause each in the order of the rules, then two at once.
pub(super) const SCENARIOS: &[Scenario] = &[
    // A device whose rate nobody declared, with room for every frame: no rule has
    // evidence.
    Scenario {
        name: "no fault (control)",
        expected: &["unknown"],
        place: FaultPlace::Lab(
            "[[element]]\nname = \"dut\"\nends = [\"a\", \"b\"]\npacket_rate = \"3 kpps\"\nbuffer \
                = \"16 MiB\"\ndelay = \"2 ms\"\n",
            ENDS,
        ),
        hosts: FREE,
        params: &[],
    },
    // A capacity declared at a tenth of what passes: figures above it are impossible.
    Scenario {
        name: "false ceiling",
        expected: &["not_valid"],
        place: FaultPlace::Testbed(
            "[[host]]\nname = \"local\"\nreach = \"local\"\n[[endpoint]]\nname = \"a\"\nhost \
                = \"local\"\naddress = \"127.0.0.1\"\n\
             [[endpoint]]\nname = \"b\"\nhost = \"local\"\naddress \
             = \"127.0.0.1\"\n[[capacity]]\nname = \"declared\"\nrate = \"10 Mbit/s\"\n\
             frame_overhead = \"38 B\"\nmtu = \"1500 B\"\npairs = [[\"a\", \"b\"]]\nsource \
             = \"wrong on purpose\"\n",
        ),
        hosts: FREE,
        params: &["pacing_rate=100 Mbit/s"],
    },
    Scenario {
        name: "link rate",
        expected: &["link_ceiling"],
        place: FaultPlace::Lab(LINK, ENDS),
        hosts: FREE,
        params: &[],
    },
    Scenario {
        name: "bus rate",
        expected: &["bus_ceiling"],
        place: FaultPlace::Lab(
            "[[bus]]\nbetween = [\"a\", \"b\"]\nedge = \
                [{ name = \"PCI slot\", rate = \"50 Mbit/s\" },\n\
             { name = \"port\", parent = \"PCI slot\", rate = \"100 Mbit/s\", ends = [\"a1\", \
             \"b1\"] }]\n",
            ["a1", "b1"],
        ),
        hosts: FREE,
        params: &[],
    },
    Scenario {
        name: "shallow buffer",
        expected: &["fire_hose"],
        place: FaultPlace::Lab(
            "[[controller]]\nname = \"nc\"\nnetwork = { to = \"a\", rate = \"1 Gbit/s\" }\n\
             sideband = { to = \"b\", rate = \"100 Mbit/s\" }\nbuffer = \"4 KiB\"\ndelay = \"150 \
             us\"\n",
            ENDS,
        ),
        hosts: [POOR_RECOVERY, ""],
        params: &[],
    },
    Scenario {
        name: "random loss",
        expected: &["path_loss"],
        place: FaultPlace::Lab(
            "[[element]]\nname = \"dut\"\nends = [\"a\", \"b\"]\nrate = \"60 Mbit/s\"\nbuffer \
                = \"256 KiB\"\ndelay = \"5 ms\"\n\
             faults = { drop_packets = \"1 %\", seed = SEED }\n",
            ENDS,
        ),
        hosts: FREE,
        params: &[],
    },
    Scenario {
        name: "receive window",
        expected: &["receive_window"],
        place: FaultPlace::Lab(LONG, ENDS),
        hosts: ["", "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 16384 16384\" }\n"],
        params: &[],
    },
    Scenario {
        name: "slow sink",
        expected: &["slow_receiver"],
        place: FaultPlace::Lab(LINK, ENDS),
        hosts: ["", "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 262144\" }\n"],
        params: &["sink_rate=10 Mbit/s"],
    },
    Scenario {
        name: "send buffer",
        expected: &["send_buffer"],
        place: FaultPlace::Lab(LONGER, ENDS),
        hosts: ["sysctl = { \"net.ipv4.tcp_wmem\" = \"4096 16384 16384\" }\n", ""],
        params: &[],
    },
    Scenario {
        name: "slow source",
        expected: &["slow_source"],
        place: FaultPlace::Lab(LINK, ENDS),
        hosts: FREE,
        params: &["source_rate=10 Mbit/s", "message_size=8 KiB"],
    },
    Scenario {
        name: "small messages",
        expected: &["small_message"],
        place: FaultPlace::Lab(FAST, ENDS),
        hosts: [LITTLE_CPU, ""],
        params: &["message_size=64 B"],
    },
    Scenario {
        name: "sender without CPU",
        expected: &["sender_cpu"],
        place: FaultPlace::Lab(FAST, ENDS),
        hosts: [LITTLE_CPU, ""],
        params: &[],
    },
    Scenario {
        name: "receiver without CPU",
        expected: &["receiver_cpu"],
        place: FaultPlace::Lab(FAST, ENDS),
        hosts: ["", LITTLE_CPU],
        params: &[],
    },
    // All packets are received on one CPU, where each is held against many rules; workers have the
    // other, and hardly use it.
    Scenario {
        name: "misplaced softirq",
        expected: &["softirq_core"],
        place: FaultPlace::Lab(FRAMES, ENDS),
        hosts: [
            "cpus = [0]\nreceive_cpus = [1]\n",
            "cpus = [0]\nreceive_cpus = [1]\nfilters = 6000\n",
        ],
        params: &["streams=16"],
    },
    Scenario {
        name: "polarised hash",
        expected: &["hash_polarised"],
        place: FaultPlace::Lab(
            "[[bus]]\nbetween = [\"a\", \"b\"]\nedge = [{ name = \"fabric\", rate = \"20 Mbit/s\", \
                links = 4, hash = \"addresses\", ends = [\"a1\", \"b1\"] }]\n",
            ["a1", "b1"],
        ),
        hosts: FREE,
        params: &["streams=16"],
    },
    Scenario {
        name: "one flow on four links",
        expected: &["single_flow"],
        place: FaultPlace::Lab(
            "[[bus]]\nbetween = [\"a\", \"b\"]\nedge = [{ name = \"fabric\", rate = \"20 Mbit/s\", \
                links = 4, hash = \"ports\", ends = [\"a1\", \"b1\"] }]\n",
            ["a1", "b1"],
        ),
        hosts: FREE,
        params: &[],
    },
    Scenario {
        name: "pacing",
        expected: &["congestion_control"],
        place: FaultPlace::Lab(LINK, ENDS),
        hosts: FREE,
        params: &["pacing_rate=10 Mbit/s"],
    },
    Scenario {
        name: "receive window, then link",
        expected: &["receive_window", "link_ceiling"],
        place: FaultPlace::Lab(LONG, ENDS),
        hosts: ["", SMALL_WINDOW],
        params: &[],
    },
    Scenario {
        name: "slow source, then send buffer",
        expected: &["slow_source", "send_buffer"],
        place: FaultPlace::Lab(LONGER, ENDS),
        hosts: [SMALL_SEND_BUFFER, ""],
        params: &["source_rate=8 Mbit/s", "message_size=8 KiB"],
    },
];
