//! Port channels: the classes of a bus, and the hash that puts each flow on one of several equal
//! links.
//!
//! The hash runs in the kernel, as a program of a traffic control filter (`bpf` of tc(8), classic
//! instructions), and here, so that the link of a flow is known beforehand. It mixes all bits of
//! addresses and ports (the finalizer of MurmurHash3), which is as close to an ideal hash as a
//! switch can be. Hashing addresses only is the worst case in use. Ports are read from TCP and UDP
//! packets that are not fragments, and for IPv6 without extension headers.

use std::net::{IpAddr, SocketAddr};

use crate::description::{Bus, BusEdge, Hash};

/// Class of the first edge of a bus. Smaller numbers could be confused with the tree's own.
const FIRST_CLASS: usize = 10;
/// Multipliers of the finalizer of MurmurHash3 (`fmix32`), and one that keeps the two addresses
/// apart (2^32 over the golden ratio).
const MIX: [u32; 2] = [0x85eb_ca6b, 0xc2b2_ae35];
const APART: u32 = 0x9e37_79b1;

/// Returns the class of `edge` itself.
pub(super) fn class_of(bus: &Bus, edge: &BusEdge) -> usize {
    FIRST_CLASS
        + bus
            .edges
            .iter()
            .position(|other| other.name == edge.name)
            .expect("it is an edge of this bus")
}

/// Returns the classes in which frames of the leaf `edge` wait: its own, or one for each of its
/// links.
pub(super) fn bus_classes(bus: &Bus, edge: &BusEdge) -> std::ops::Range<usize> {
    let Some(links) = edge.group() else {
        let own = class_of(bus, edge);
        return own..own + 1;
    };
    let before =
        bus.edges.iter().take_while(|other| other.name != edge.name).filter_map(BusEdge::group);
    let first = FIRST_CLASS + bus.edges.len() + before.sum::<u32>() as usize;
    first..first + links as usize
}

/// Returns the name of the queue of `class` on `device` in the sampler `qdisc`.
pub(super) fn queue_instance(device: &str, class: usize) -> String {
    format!("{device} pfifo {class:x}:")
}

/// Returns the link of a flow among `links`, counted from 0.
#[must_use]
pub fn link_of(from: SocketAddr, to: SocketAddr, hash: Hash, links: u32) -> u32 {
    let ports = match hash {
        Hash::Addresses => 0,
        Hash::Ports => (u32::from(from.port()) << 16) | u32::from(to.port()),
    };
    let mut mixed =
        // Multiplying between the addresses keeps a to b apart from b to a.
        (last_word(from.ip()).wrapping_mul(APART) ^ last_word(to.ip())).wrapping_mul(APART) ^ ports;
    mixed = (mixed ^ (mixed >> 16)).wrapping_mul(MIX[0]);
    mixed = (mixed ^ (mixed >> 13)).wrapping_mul(MIX[1]);
    // 64 links at most make the bias of the modulo negligible.
    (mixed ^ (mixed >> 16)) % links
}

/// Returns the last 32 bits of an address. The others are equal within a lab.
fn last_word(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => v6.to_bits() as u32,
    }
}

/// Instruction of classic BPF (linux/filter.h): code, jumps if true and if false, operand.
type Instruction = (u16, u8, u8, u32);

/// Codes as linux/bpf_common.h composes them.
mod code {
    pub(super) const LOAD_WORD: u16 = 0x20;
    pub(super) const LOAD_HALF: u16 = 0x28;
    pub(super) const LOAD_BYTE: u16 = 0x30;
    pub(super) const LOAD_WORD_AT_X: u16 = 0x40;
    pub(super) const LOAD_IMMEDIATE: u16 = 0x00;
    pub(super) const LOAD_X_MEMORY: u16 = 0x61;
    pub(super) const LOAD_X_IP_HEADER: u16 = 0xb1;
    pub(super) const STORE: u16 = 0x02;
    pub(super) const TO_X: u16 = 0x07;
    pub(super) const MULTIPLY: u16 = 0x24;
    pub(super) const MODULO: u16 = 0x94;
    pub(super) const ADD: u16 = 0x04;
    pub(super) const SHIFT_RIGHT: u16 = 0x74;
    pub(super) const XOR_X: u16 = 0xac;
    pub(super) const JUMP_EQUAL: u16 = 0x15;
    pub(super) const JUMP_ANY_BIT: u16 = 0x45;
    pub(super) const JUMP: u16 = 0x05;
    pub(super) const RETURN: u16 = 0x16;
}

/// Offsets into a frame: IEEE 802.3 clause 3.1, RFC 791 clause 3.1, RFC 8200 clause 3.
mod offset {
    pub(super) const ETHERTYPE: u32 = 12;
    pub(super) const PACKET: u32 = 14;
    pub(super) const V4_FRAGMENT: u32 = PACKET + 6;
    pub(super) const V4_PROTOCOL: u32 = PACKET + 9;
    pub(super) const V4_SOURCE: u32 = PACKET + 12;
    pub(super) const V4_DESTINATION: u32 = PACKET + 16;
    pub(super) const V6_NEXT_HEADER: u32 = PACKET + 6;
    /// Last words of the addresses.
    pub(super) const V6_SOURCE: u32 = PACKET + 20;
    pub(super) const V6_DESTINATION: u32 = PACKET + 36;
    pub(super) const V6_PAYLOAD: u32 = PACKET + 40;
}

/// Ethertype of IPv6; the numbers of TCP and UDP; more fragments, or an offset.
const IPV6: u32 = 0x86dd;
const TCP: u32 = 6;
const UDP: u32 = 17;
const IS_FRAGMENT: u32 = 0x3fff;

/// Returns the filter's program in the notation of tc(8). It returns class `1:first`, or one of the
/// `links - 1` after it.
pub(super) fn program(hash: Hash, first: usize, links: u32) -> String {
    const TREE: u32 = 1 << 16;
    let v4 = version(&V4, hash);
    let v6 = version(&V6, hash);
    let mut program: Vec<Instruction> = vec![
        (code::LOAD_HALF, 0, 0, offset::ETHERTYPE),
        // Jumps over the code for one version, and the jump at its end, to the code for the other.
        (code::JUMP_EQUAL, v4.len() as u8 + 1, 0, IPV6),
    ];
    program.extend(&v4);
    program.push((code::JUMP, 0, 0, v6.len() as u32));
    program.extend(&v6);
    // The same steps as in `link_of`, so that both always agree.
    for (shift, multiplier) in [(16, Some(MIX[0])), (13, Some(MIX[1])), (16, None)] {
        program.extend([(code::STORE, 0, 0, 0), (code::LOAD_X_MEMORY, 0, 0, 0)]);
        program.extend([(code::SHIFT_RIGHT, 0, 0, shift), (code::XOR_X, 0, 0, 0)]);
        program.extend(multiplier.map(|multiplier| (code::MULTIPLY, 0, 0, multiplier)));
    }
    program.extend([
        (code::MODULO, 0, 0, links),
        (code::ADD, 0, 0, TREE + first as u32),
        (code::RETURN, 0, 0, 0),
    ]);
    let text = program
        .iter()
        .map(|(code, if_true, if_false, operand)| format!("{code} {if_true} {if_false} {operand}"));
    format!("{},{}", program.len(), text.collect::<Vec<_>>().join(","))
}

/// Offsets of the hashed fields in a version of the Internet Protocol.
struct Version {
    source: u32,
    destination: u32,
    protocol: u32,
    /// Offset of the fragment field.
    fragment: Option<u32>,
}

const V4: Version = Version {
    source: offset::V4_SOURCE,
    destination: offset::V4_DESTINATION,
    protocol: offset::V4_PROTOCOL,
    fragment: Some(offset::V4_FRAGMENT),
};
const V6: Version = Version {
    source: offset::V6_SOURCE,
    destination: offset::V6_DESTINATION,
    protocol: offset::V6_NEXT_HEADER,
    fragment: None,
};

/// Returns code that leaves the unmixed hash of a packet of `version` in the accumulator.
fn version(version: &Version, hash: Hash) -> Vec<Instruction> {
    let mut program = vec![
        (code::LOAD_WORD, 0, 0, version.source),
        (code::MULTIPLY, 0, 0, APART),
        (code::TO_X, 0, 0, 0),
        (code::LOAD_WORD, 0, 0, version.destination),
        (code::XOR_X, 0, 0, 0),
        (code::MULTIPLY, 0, 0, APART),
        (code::STORE, 0, 0, 0),
    ];
    if hash == Hash::Ports {
        let at_ports = match version.fragment {
            Some(_) => {
                vec![
                    (code::LOAD_X_IP_HEADER, 0, 0, offset::PACKET),
                    (code::LOAD_WORD_AT_X, 0, 0, offset::PACKET),
                ]
            }
            None => vec![(code::LOAD_WORD, 0, 0, offset::V6_PAYLOAD)],
        };
        // Packets without ports load zero instead.
        let past = at_ports.len() as u8 + 1;
        program.extend([
            (code::LOAD_BYTE, 0, 0, version.protocol),
            (code::JUMP_EQUAL, 1, 0, TCP),
            // The jump passes over the loads, and over the test for fragments that IPv4 has.
            (code::JUMP_EQUAL, 0, past + if version.fragment.is_some() { 2 } else { 0 }, UDP),
        ]);
        if let Some(fragment) = version.fragment {
            program.extend([
                (code::LOAD_HALF, 0, 0, fragment),
                (code::JUMP_ANY_BIT, past, 0, IS_FRAGMENT),
            ]);
        }
        program.extend(at_ports);
        // The jump skips the zero that packets without ports load.
        program.extend([(code::JUMP, 0, 0, 1), (code::LOAD_IMMEDIATE, 0, 0, 0)]);
        program.extend([(code::LOAD_X_MEMORY, 0, 0, 0), (code::XOR_X, 0, 0, 0)]);
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_in_a_row_fill_four_links_evenly_and_addresses_alone_one() {
        let to: SocketAddr = "198.18.0.3:5001".parse().expect("an address");
        let counts = |hash| {
            let mut counts = [0_u32; 4];
            for port in 0..4000 {
                let from =
                    SocketAddr::new("198.18.0.1".parse().expect("an address"), 32_768 + port);
                counts[link_of(from, to, hash, 4) as usize] += 1;
            }
            counts
        };
        // Each link has 1000 of 4000 flows, within five standard deviations of 27.
        assert!(
            counts(Hash::Ports).iter().all(|n| n.abs_diff(1000) < 140),
            "{:?}",
            counts(Hash::Ports)
        );
        let mut alone = counts(Hash::Addresses);
        alone.sort_unstable();
        assert_eq!(alone, [0, 0, 0, 4000]);
    }

    #[test]
    fn a_program_says_how_long_it_is() {
        for hash in [Hash::Addresses, Hash::Ports] {
            let text = program(hash, 12, 4);
            let (length, rest) = text.split_once(',').expect("a length first");
            assert_eq!(length.parse(), Ok(rest.split(',').count()));
            assert!(rest.ends_with("148 0 0 4,4 0 0 65548,22 0 0 0"), "{rest}");
        }
    }
}
