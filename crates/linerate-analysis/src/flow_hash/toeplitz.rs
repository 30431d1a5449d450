//! Receive side scaling: the Toeplitz hash, and the queue it chooses.
//!
//! Source: Microsoft, *RSS hashing functions* and *Verifying the RSS hash calculation*, whose
//! vectors are the tests here. The hash covers source address, destination address, source port and
//! destination port, in packet order, as the receiver sees them.
//!
//! Not covered: cards that hash UDP by address alone (the default of most; `ethtool -n DEV
//! rx-flow-hash udp4` shows it, `-N ... sdfn` changes it), symmetric or other functions than
//! Toeplitz, flow steering rules, which take precedence, and receive packet steering in software.

use super::{Flow, octets};

/// The key of Microsoft's verification suite, the default of many drivers; Linux draws a random one
/// where a driver asks it to.
pub const DEFAULT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];
/// Entries of an indirection table where none is known: what most cards have.
pub(crate) const DEFAULT_ENTRIES: u32 = 128;

/// Fields of a packet that are hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fields {
    /// Both addresses.
    Addresses,
    /// Both addresses and both ports.
    AddressesAndPorts,
}

/// Returns the hash of `flow` under `key`; a key shorter than what is hashed and 32 bits more
/// counts as followed by zeros.
#[must_use]
pub fn hash(flow: &Flow, fields: Fields, key: &[u8]) -> u32 {
    let mut input = octets(flow.from.ip());
    input.extend(octets(flow.to.ip()));
    if fields == Fields::AddressesAndPorts {
        input.extend(flow.from.port().to_be_bytes());
        input.extend(flow.to.port().to_be_bytes());
    }
    let at = |index: usize| key.get(index).copied().unwrap_or(0);
    let mut window = u32::from_be_bytes([at(0), at(1), at(2), at(3)]);
    let mut hash = 0;
    for (index, byte) in input.iter().enumerate() {
        let next = at(index + 4);
        for bit in (0..8).rev() {
            if byte >> bit & 1 == 1 {
                hash ^= window;
            }
            // The hash slides a window of 32 bits over the key, one bit for each bit of the input.
            window = window << 1 | u32::from(next >> bit & 1);
        }
    }
    hash
}

/// Returns the queue of a packet with `hash`: the lowest bits choose an entry of `table`, whose
/// length is a power of two.
///
/// # Panics If the table is empty.
#[must_use]
pub fn queue(hash: u32, table: &[u32]) -> u32 {
    table[hash as usize % table.len()]
}

/// Returns the table drivers set up by themselves: queue after queue in turn.
#[must_use]
pub fn default_table(queues: u32) -> Vec<u32> {
    (0..DEFAULT_ENTRIES).map(|entry| entry % queues.max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microsofts_verification_suite_is_reproduced() {
        // Destination, source, hash by addresses, hash by addresses and ports.
        let suite = [
            ("161.142.100.80:1766", "66.9.149.187:2794", 0x323e_8fc2_u32, 0x51cc_c178_u32),
            ("65.69.140.83:4739", "199.92.111.2:14230", 0xd718_262a, 0xc626_b0ea),
            ("12.22.207.184:38024", "24.19.198.95:12898", 0xd2d0_a5de, 0x5c2b_394a),
            ("209.142.163.6:2217", "38.27.205.30:48228", 0x8298_9176, 0xafc7_327f),
            ("202.188.127.2:1303", "153.39.163.191:44251", 0x5d18_09c5, 0x10e8_28a2),
            ("[3ffe:2501:200:3::1]:1766", "[3ffe:2501:200:1fff::7]:2794", 0x2cc1_8cd5, 0x4020_7d3d),
            ("[ff02::1]:4739", "[3ffe:501:8::260:97ff:fe40:efab]:14230", 0x0f0c_461c, 0xdde5_1bbf),
            (
                "[fe80::200:f8ff:fe21:67cf]:38024",
                "[3ffe:1900:4545:3:200:f8ff:fe21:67cf]:44251",
                0x4b61_e985,
                0x02d1_feef,
            ),
        ];
        for (to, from, addresses, ports) in suite {
            let flow = Flow {
                from: from.parse().expect("an address"),
                to: to.parse().expect("an address"),
            };
            assert_eq!(hash(&flow, Fields::Addresses, &DEFAULT_KEY), addresses, "{from}");
            assert_eq!(hash(&flow, Fields::AddressesAndPorts, &DEFAULT_KEY), ports, "{from}");
        }
    }

    #[test]
    fn the_lowest_bits_choose_a_queue_of_the_table() {
        let table = default_table(6);
        assert_eq!(table.len(), 128);
        assert_eq!((queue(0x51cc_c178, &table), queue(0xc626_b0ea, &table)), (0x78 % 6, 0x6a % 6));
    }
}
