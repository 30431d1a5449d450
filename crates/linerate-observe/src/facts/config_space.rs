//! The configuration space of a PCI function: what its bytes say.
//!
//! Sizes are bytes, speeds 10^9 transfers per second and lane. Layouts: PCI Local Bus 3.0 chapter
//! 6, PCI Express Base 6.0 7.5.3 (the capability), 7.8.4 (error reporting), PCI-X 2.0 7.2.
//! Multi-byte fields are little-endian. Pure: nothing is read here.
//!
//! Only the first 64 bytes are given to everybody, and the capabilities lie behind them: a caller
//! without CAP_SYS_ADMIN gets [`Express`] of nothing and has to say so. Not seen: what a switch
//! does between its ports, and settings that a hypervisor answers for a device it owns.

use serde_json::{Value, json};

use super::root::unavailable;

/// The part of configuration space everybody may read.
pub(super) const HEADER: usize = 64;
/// Where extended capabilities begin, PCI Express 7.6.
const EXTENDED: usize = 0x100;
const STATUS: usize = 0x06;

fn half(config: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(config.get(at..at + 2)?.try_into().ok()?))
}

fn word(config: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(config.get(at..at + 4)?.try_into().ok()?))
}

/// Where the capability with `id` stands (PCI 3.0 6.7); a list longer than configuration space can
/// hold is a loop.
fn capability(config: &[u8], id: u8) -> Option<usize> {
    const CAPABILITY_LIST: u16 = 1 << 4;
    const FIRST: usize = 0x34;
    const MOST: usize = 48;
    // Without this bit the pointer below is undefined.
    if half(config, STATUS)? & CAPABILITY_LIST == 0 {
        return None;
    }
    // The two low bits of a pointer are reserved and must be masked (PCI 3.0 6.7).
    let mut at = usize::from(*config.get(FIRST)? & !3);
    for _ in 0..MOST {
        if at < HEADER {
            return None;
        }
        if *config.get(at)? == id {
            return Some(at);
        }
        at = usize::from(*config.get(at + 1)? & !3);
    }
    None
}

/// Where the extended capability with `id` stands: id in bits 15:0, the next one's place in 31:20
/// (PCI Express 7.6.3).
fn extended_capability(config: &[u8], id: u16) -> Option<usize> {
    const MOST: usize = 960;
    const PLACE: u32 = 20;
    let mut at = EXTENDED;
    for _ in 0..MOST {
        let header = word(config, at).filter(|header| *header != 0)?;
        if header as u16 == id {
            return Some(at);
        }
        at = (header >> PLACE) as usize & !3;
        if at < EXTENDED {
            return None;
        }
    }
    None
}

/// Where the PCI Express capability stands; `None` for a conventional function, or where it may not
/// be read.
pub(super) fn express_capability(config: &[u8]) -> Option<usize> {
    const EXPRESS: u8 = 0x10;
    capability(config, EXPRESS)
}

/// Returns the facts of the PCI Express capability at `at`. Facts beyond the bytes given are
/// unavailable.
pub(super) fn express(config: &[u8], at: usize) -> Value {
    const SMALLEST: u32 = 128;
    const ASPM: [&str; 4] = ["off", "L0s", "L1", "L0s L1"];
    let missing = || unavailable("configuration space is cut short");
    let half_at = |offset: usize| half(config, at + offset);
    // Sizes are powers of two from 128 bytes, in three bits.
    let size = |register: Option<u16>, shift: u16| {
        register.map_or_else(missing, |register| json!(SMALLEST << (register >> shift & 7)))
    };
    let flag = |register: Option<u16>, bit: u16| {
        register.map_or_else(missing, |register| json!(register >> bit & 1 == 1))
    };
    // Offsets of 7.5.3: capabilities +2, device +4, +8; link +12, +16, +18; device 2 +40; link 2
    // +50.
    let (device, control, link_control, link_status) =
        (half_at(4), half_at(8), half_at(16), half_at(18));
    json!({
        "port": half_at(2).map_or_else(missing, port),
        // Payload size in bits 7:5, largest read request in 14:12 of device control.
        "mps_supported_bytes": size(device, 0),
        "mps_bytes": size(control, 5),
        "mrrs_bytes": size(control, 12),
        "tags": control.map_or_else(missing,
            |control| json!(tags(control, half_at(40).unwrap_or(0)))),
        "aspm": link_control.map_or_else(missing, |link| json!(ASPM[usize::from(link & 3)])),
        "read_completion_boundary_bytes": link_control.map_or_else(missing,
            |link| json!(64 << (link >> 3 & 1))),
        "link_capability": half_at(12).map_or_else(missing, link),
        "link_status": link_status.map_or_else(missing, link),
        "flit_mode": flag(half_at(50), 10),
        "ecrc": end_to_end_check(config),
    })
}

/// Device or port type, bits 7:4.
fn port(capabilities: u16) -> Value {
    const TYPES: [&str; 11] = [
        "endpoint",
        "legacy endpoint",
        "",
        "",
        "root port",
        "upstream switch port",
        "downstream switch port",
        "bridge to pci",
        "bridge from pci",
        "integrated endpoint",
        "event collector",
    ];
    let number = capabilities >> 4 & 15;
    let known = TYPES.get(usize::from(number)).filter(|name| !name.is_empty());
    known
        .map_or_else(|| unavailable(format!("port type {number} is not known")), |name| json!(name))
}

/// Requests that may be under way: 10-bit tags by bit 12 of device control 2 (768, 2.2.6.2), 8-bit
/// ones by bit 8 of device control, else 5 bits.
fn tags(control: u16, control_2: u16) -> u32 {
    match (control_2 >> 12 & 1, control >> 8 & 1) {
        (1, _) => 768,
        (_, 1) => 256,
        _ => 32,
    }
}

/// Speed code in bits 3:0 and width in 9:4, of link capabilities (the fastest) and link status
/// (now) alike.
fn link(register: u16) -> Value {
    const SPEEDS: [f64; 6] = [2.5, 5.0, 8.0, 16.0, 32.0, 64.0];
    let (code, width) = (usize::from(register & 15), register >> 4 & 63);
    // Code 0 is not defined; subtracting with wrap makes it fall out of the table.
    match SPEEDS.get(code.wrapping_sub(1)) {
        Some(speed) if width > 0 => json!({ "speed": speed, "width": width }),
        _ => unavailable("no link"),
    }
}

/// Returns whether packets carry an end-to-end check: bit 6 of the control register of the error
/// reporting capability, 7.8.4.7.
fn end_to_end_check(config: &[u8]) -> Value {
    const ERROR_REPORTING: u16 = 1;
    const CONTROL: usize = 0x18;
    // A device without extended space ends here.
    if config.len() <= EXTENDED {
        return unavailable("configuration space ends before the extended capabilities");
    }
    let control =
        extended_capability(config, ERROR_REPORTING).and_then(|at| word(config, at + CONTROL));
    control.map_or(json!(false), |control| json!(control >> 6 & 1 == 1))
}

/// A conventional function: whether it can run at 66 MHz (status bit 5), and as PCI-X (capability
/// 7, status at +4) whether it is 64 bits wide (bit 16) and can run at 133 MHz (bit 17).
pub(super) fn conventional(config: &[u8]) -> Value {
    const PCI_X: u8 = 0x07;
    const CAPABLE_66: u16 = 1 << 5;
    let capable_66 = half(config, STATUS).is_some_and(|status| status & CAPABLE_66 != 0);
    // The status word is the upper half of the register at offset 4.
    let pci_x = capability(config, PCI_X).and_then(|at| half(config, at + 6)).map_or(
        json!(false),
        |status| {
            json!({ "bits": if status & 1 != 0 { 64 } else { 32 },
            "capable_133_mhz": status & 2 != 0 })
        },
    );
    json!({ "capable_66_mhz": capable_66, "pci_x": pci_x })
}

/// Reads `config` as a device's configuration space.
pub(super) fn read_any(config: &[u8]) {
    let _express = express_capability(config).map(|at| express(config, at));
    let _conventional = conventional(config);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Configuration space of a PCI Express function as the standard lays it out: a
    /// message-signalled interrupt capability first, then the one that counts, then error
    /// reporting.
    pub(in super::super) struct Layout {
        /// Device or port type.
        pub(in super::super) port: u16,
        /// Encodings of sizes: 128 B shifted.
        pub(in super::super) supported: u16,
        pub(in super::super) payload: u16,
        pub(in super::super) request: u16,
        /// Codes of speeds, widths: able, now.
        pub(in super::super) able: (u16, u16),
        pub(in super::super) now: (u16, u16),
    }

    impl Layout {
        pub(in super::super) fn bytes(&self) -> Vec<u8> {
            let mut config = vec![0; 4096];
            let mut put =
                |at: usize, value: u16| config[at..at + 2].copy_from_slice(&value.to_le_bytes());
            put(STATUS, 1 << 4);
            put(0x34, 0x40);
            put(0x40, 0x5005);
            put(0x50, 0x0010);
            put(0x52, self.port << 4 | 2);
            put(0x54, self.supported);
            put(0x58, self.payload << 5 | self.request << 12 | 1 << 8);
            put(0x5c, self.able.1 << 4 | self.able.0);
            put(0x60, 1 << 3 | 2);
            put(0x62, self.now.1 << 4 | self.now.0);
            // Error reporting behind a vendor's own capability; the check is on.
            put(0x100, 0x000b);
            put(0x102, 0x1401);
            put(0x140, 0x0001);
            put(0x142, 0x0002);
            put(0x158, 1 << 6);
            config
        }
    }

    #[test]
    fn an_endpoint_says_how_it_is_set() {
        let layout =
            Layout { port: 0, supported: 2, payload: 1, request: 2, able: (4, 16), now: (3, 8) };
        let config = layout.bytes();
        let express = express(&config, express_capability(&config).expect("it is laid out"));
        let expected = json!({
            "port": "endpoint", "mps_supported_bytes": 512, "mps_bytes": 256, "mrrs_bytes": 512,
            "tags": 256, "aspm": "L1",
            "read_completion_boundary_bytes": 128,
            "link_capability": { "speed": 16.0, "width": 16 },
            "link_status": { "speed": 8.0, "width": 8 }, "flit_mode": false, "ecrc": true,
        });
        assert_eq!(express, expected);
    }

    #[test]
    fn what_is_cut_off_is_unavailable_and_a_list_that_points_at_itself_ends() {
        let layout =
            Layout { port: 4, supported: 1, payload: 0, request: 2, able: (3, 8), now: (3, 8) };
        let mut config = layout.bytes();
        config.truncate(0x5a);
        let facts = express(&config, express_capability(&config).expect("it is laid out"));
        assert_eq!((&facts["port"], &facts["mps_bytes"]), (&json!("root port"), &json!(128)));
        for cut in ["aspm", "link_status", "flit_mode", "ecrc"] {
            assert!(facts[cut]["unavailable"].is_string(), "{cut}");
        }
        config[0x41] = 0x40;
        assert_eq!(express_capability(&config), None);
        config.truncate(HEADER);
        assert_eq!(express_capability(&config), None);
    }

    #[test]
    fn tags_flits_and_switch_ports_are_told_apart() {
        let layout =
            Layout { port: 5, supported: 3, payload: 2, request: 5, able: (6, 16), now: (6, 16) };
        let mut config = layout.bytes();
        config[0x79] = 1 << 4;
        config[0x83] = 1 << 2;
        let facts = express(&config, express_capability(&config).expect("it is laid out"));
        assert_eq!((&facts["port"], &facts["tags"]), (&json!("upstream switch port"), &json!(768)));
        assert_eq!((&facts["flit_mode"], &facts["mrrs_bytes"]), (&json!(true), &json!(4096)));
        assert_eq!(facts["link_status"], json!({ "speed": 64.0, "width": 16 }));
    }

    #[test]
    fn a_conventional_function_says_what_bus_it_can_use() {
        let mut config = vec![0; 256];
        config[STATUS] = 1 << 4 | 1 << 5;
        config[0x34] = 0x40;
        config[0x40] = 0x07;
        config[0x46] = 0b11;
        assert_eq!(
            conventional(&config),
            json!({ "capable_66_mhz": true, "pci_x": { "bits": 64, "capable_133_mhz": true } })
        );
        assert_eq!(express_capability(&config), None);
    }

    proptest::proptest! {
        #[test]
        fn hostile_configuration_space_never_panics(config in proptest::collection::vec(0_u8..,
            0..600)) {
            read_any(&config);
        }
    }
}
