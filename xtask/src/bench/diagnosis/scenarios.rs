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
    /// Returns a scenario with hosts and parameters of no special kind.
    const fn in_place(
        name: &'static str,
        expected: &'static [&'static str],
        place: FaultPlace,
    ) -> Self {
        Self { name, expected, place, hosts: FREE, params: &[] }
    }

    /// Returns such a scenario of a lab with `between` its two hosts.
    const fn in_lab(
        name: &'static str,
        expected: &'static [&'static str],
        between: &'static str,
    ) -> Self {
        Self::in_place(name, expected, FaultPlace::Lab(between, ENDS))
    }

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

/// Four links, of which flows between two addresses use one.
const POLARISED: &str = "[[bus]]\nbetween = [\"a\", \"b\"]\nedge = [{ name = \"fabric\", rate \
    = \"20 Mbit/s\", links = 4, hash = \"addresses\", ends = [\"a1\", \"b1\"] }]\n";

/// The control first, then one cause each in the order of the rules, then two at once.
pub(super) const SCENARIOS: &[Scenario] = &[
    // A device whose rate nobody declared, with room for every frame: no rule has
    // evidence.
    Scenario::in_lab(
        "no fault (control)",
        &["unknown"],
        "[[element]]\nname = \"dut\"\nends = [\"a\", \"b\"]\npacket_rate = \"3 kpps\"\nbuffer \
                = \"16 MiB\"\ndelay = \"2 ms\"\n",
    ),
    // A capacity declared at a tenth of what passes: figures above it are impossible.
    Scenario {
        params: &["pacing_rate=100 Mbit/s"],
        ..Scenario::in_place(
            "false ceiling",
            &["not_valid"],
            FaultPlace::Testbed(
                "[[host]]\nname = \"local\"\nreach = \"local\"\n[[endpoint]]\nname = \"a\"\nhost \
                = \"local\"\naddress = \"127.0.0.1\"\n\
             [[endpoint]]\nname = \"b\"\nhost = \"local\"\naddress \
             = \"127.0.0.1\"\n[[capacity]]\nname = \"declared\"\nrate = \"10 Mbit/s\"\n\
             frame_overhead = \"38 B\"\nmtu = \"1500 B\"\npairs = [[\"a\", \"b\"]]\nsource \
             = \"wrong on purpose\"\n",
            ),
        )
    },
    Scenario::in_lab("link rate", &["link_ceiling"], LINK),
    Scenario::in_place(
        "bus rate",
        &["bus_ceiling"],
        FaultPlace::Lab(
            "[[bus]]\nbetween = [\"a\", \"b\"]\nedge = \
                [{ name = \"PCI slot\", rate = \"50 Mbit/s\" },\n\
             { name = \"port\", parent = \"PCI slot\", rate = \"100 Mbit/s\", ends = [\"a1\", \
             \"b1\"] }]\n",
            ["a1", "b1"],
        ),
    ),
    Scenario {
        hosts: [POOR_RECOVERY, ""],
        ..Scenario::in_lab(
            "shallow buffer",
            &["fire_hose"],
            "[[controller]]\nname = \"nc\"\nnetwork = { to = \"a\", rate = \"1 Gbit/s\" }\n\
             sideband = { to = \"b\", rate = \"100 Mbit/s\" }\nbuffer = \"4 KiB\"\ndelay = \"150 \
             us\"\n",
        )
    },
    Scenario::in_lab(
        "random loss",
        &["path_loss"],
        "[[element]]\nname = \"dut\"\nends = [\"a\", \"b\"]\nrate = \"60 Mbit/s\"\nbuffer \
                = \"256 KiB\"\ndelay = \"5 ms\"\n\
             faults = { drop_packets = \"1 %\", seed = SEED }\n",
    ),
    Scenario {
        hosts: ["", "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 16384 16384\" }\n"],
        ..Scenario::in_lab("receive window", &["receive_window"], LONG)
    },
    Scenario {
        hosts: ["", "sysctl = { \"net.ipv4.tcp_rmem\" = \"4096 131072 262144\" }\n"],
        params: &["sink_rate=10 Mbit/s"],
        ..Scenario::in_lab("slow sink", &["slow_receiver"], LINK)
    },
    Scenario {
        hosts: ["sysctl = { \"net.ipv4.tcp_wmem\" = \"4096 16384 16384\" }\n", ""],
        ..Scenario::in_lab("send buffer", &["send_buffer"], LONGER)
    },
    Scenario {
        params: &["source_rate=10 Mbit/s", "message_size=8 KiB"],
        ..Scenario::in_lab("slow source", &["slow_source"], LINK)
    },
    Scenario {
        hosts: [LITTLE_CPU, ""],
        params: &["message_size=64 B"],
        ..Scenario::in_lab("small messages", &["small_message"], FAST)
    },
    Scenario {
        hosts: [LITTLE_CPU, ""],
        ..Scenario::in_lab("sender without CPU", &["sender_cpu"], FAST)
    },
    Scenario {
        hosts: ["", LITTLE_CPU],
        ..Scenario::in_lab("receiver without CPU", &["receiver_cpu"], FAST)
    },
    // All packets are received on one CPU, where each is held against many rules; workers have the
    // other, and hardly use it.
    Scenario {
        hosts: [
            "cpus = [0]\nreceive_cpus = [1]\n",
            "cpus = [0]\nreceive_cpus = [1]\nfilters = 6000\n",
        ],
        params: &["streams=16"],
        ..Scenario::in_lab("misplaced softirq", &["softirq_core"], FRAMES)
    },
    Scenario {
        params: &["streams=16"],
        ..Scenario::in_place(
            "polarised hash",
            &["hash_polarised"],
            FaultPlace::Lab(POLARISED, ["a1", "b1"]),
        )
    },
    Scenario::in_place(
        "one flow on four links",
        &["single_flow"],
        FaultPlace::Lab(
            "[[bus]]\nbetween = [\"a\", \"b\"]\nedge = [{ name = \"fabric\", rate = \"20 Mbit/s\", \
                links = 4, hash = \"ports\", ends = [\"a1\", \"b1\"] }]\n",
            ["a1", "b1"],
        ),
    ),
    Scenario {
        params: &["pacing_rate=10 Mbit/s"],
        ..Scenario::in_lab("pacing", &["congestion_control"], LINK)
    },
    Scenario {
        hosts: ["", SMALL_WINDOW],
        ..Scenario::in_lab("receive window, then link", &["receive_window", "link_ceiling"], LONG)
    },
    Scenario {
        hosts: [SMALL_SEND_BUFFER, ""],
        params: &["source_rate=8 Mbit/s", "message_size=8 KiB"],
        ..Scenario::in_lab("slow source, then send buffer", &["slow_source", "send_buffer"], LONGER)
    },
];
