//! The transmit hash of Linux bonding with `xmit_hash_policy=layer3+4` (balance-xor and 802.3ad).
//!
//! Source: Documentation/networking/bonding.rst, *xmit_hash_policy*. The hash starts from the ports
//! as in the header, XORed with both addresses. The result is XORed with itself shifted right by
//! 16, then by 8. Since Linux 5.5 it is shifted right by 1, because `connect` assigns even ports
//! first and the lowest bit would carry no information. The member is the result modulo the number
//! of active members. Fields are read in the host's byte order. IPv6 addresses enter as the XOR of
//! their four words.
//!
//! Members count in the order in which they joined the bond, as in `bonding/slaves` in sysfs, those
//! without a link left out: a member that goes down and up again keeps its place.
//!
//! Not covered: fragments and other protocols (hashed by address), and `vlan+srcmac`.

use super::{Flow, octets};

/// The two forms of the hash, by kernel version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Linux 5.5 and later.
    LowestBitDropped,
    /// Linux before 5.5.
    Whole,
}

/// Returns the hash of `flow` on a host of this byte order.
#[must_use]
pub fn hash(flow: &Flow, form: Form) -> u32 {
    let [from, to] = [flow.from.port(), flow.to.port()].map(u16::to_be_bytes);
    // The kernel reads the header as one native word, so the result depends on the byte order of
    // the host.
    let ports = u32::from_ne_bytes([from[0], from[1], to[0], to[1]]);
    let hash = ports ^ word(flow.from.ip()) ^ word(flow.to.ip());
    let hash = hash ^ (hash >> 16);
    let hash = hash ^ (hash >> 8);
    if form == Form::LowestBitDropped { hash >> 1 } else { hash }
}

/// On which of `members` active members it goes out.
///
/// # Panics
/// If there are none.
#[must_use]
pub fn member(flow: &Flow, form: Form, members: u32) -> u32 {
    hash(flow, form) % members
}

fn word(address: core::net::IpAddr) -> u32 {
    let words = octets(address);
    words
        .chunks_exact(4)
        .map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]))
        .fold(0, |a, b| a ^ b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(from: &str, to: &str) -> Flow {
        Flow { from: from.parse().expect("an address"), to: to.parse().expect("an address") }
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn the_documented_steps_give_the_hash_worked_out_by_hand() {
        // Ports 0x1234 and 0x0050 as bytes 12 34 00 50, addresses 0a 00 00 01 and 0a 00 00 02:
        // 12 34 00 53 or 0x53003412; ^ >> 16 is 0x53006712; ^ >> 8 is 0x53536775.
        let flow = flow("10.0.0.1:4660", "10.0.0.2:80");
        assert_eq!(hash(&flow, Form::Whole), 0x5353_6775);
        assert_eq!(hash(&flow, Form::LowestBitDropped), 0x29a9_b3ba);
        assert_eq!(
            (member(&flow, Form::Whole, 2), member(&flow, Form::LowestBitDropped, 4)),
            (1, 2)
        );
    }

    #[test]
    fn even_ports_alone_leave_an_old_kernel_one_member_of_two_and_a_new_one_both() {
        let spread = |form| {
            let ports =
                (0..64).map(|i| flow(&format!("10.0.0.1:{}", 40_000 + 2 * i), "10.0.0.2:5201"));
            let mut counts = [0; 2];
            ports.for_each(|flow| counts[member(&flow, form, 2) as usize] += 1);
            counts
        };
        assert!(spread(Form::Whole).contains(&0), "{:?}", spread(Form::Whole));
        assert_eq!(spread(Form::LowestBitDropped), [32, 32]);
    }

    #[test]
    fn both_families_count_their_addresses() {
        let (a, b) = (
            flow("[2001:db8::1]:1000", "[2001:db8::2]:80"),
            flow("[2001:db8::1]:1000", "[2001:db8::3]:80"),
        );
        assert_ne!(hash(&a, Form::Whole), hash(&b, Form::Whole));
    }
}
