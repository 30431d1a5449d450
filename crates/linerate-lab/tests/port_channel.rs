//! Port channel on the real kernel: every flow uses the link of its hash, and no other.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};

use linerate_lab::{Description, Family, Hash, Lab, link_of};
use linerate_sys::netns::within;

use crate::host::ran;
use crate::privileged;

const LINKS: u32 = 4;
const FLOWS: usize = 40;

fn describe(family: Family, hash: &str) -> Description {
    let text = format!(
        "[lab]\nname='c'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[bus]]\nbetween=['a','b']\n\
         [[bus.edge]]\nname='slot'\nrate='300 Mbit/s'\n\
         [[bus.edge]]\nname='other'\nparent='slot'\nrate='50 Mbit/s'\nends=['a1','b1']\n\
         [[bus.edge]]\nname='channel'\nparent='slot'\nrate='100 \
         Mbit/s'\nlinks={LINKS}\nhash='{hash}'\nends=['a2','b2']\n"
    );
    let (description, problems) = Description::parse(&text);
    assert_eq!(problems, []);
    Description { family, ..description.expect("no problem") }
}

/// Returns the packets that each of `instances` has passed, as tc(8) prints them.
fn passed(namespace: &str, device: &str, instances: &[String]) -> BTreeMap<String, u64> {
    let text = ran(&format!("tc -n {namespace} -s qdisc show dev {device}"));
    let mut lines = text.lines();
    let mut found = BTreeMap::new();
    while let Some(line) = lines.next() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["qdisc", kind, handle, ..] = words[..] else { continue };
        let name = format!("{device} {kind} {handle}");
        let sent: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let packets = sent.get(3).and_then(|n| n.parse().ok()).expect("Sent N bytes N pkt");
        if instances.contains(&name) {
            found.insert(name, packets);
        }
    }
    found
}

#[test]
fn every_flow_goes_on_the_link_its_hash_says() {
    let Some(()) = privileged() else { return };
    let cases = [
        (Family::Ipv4, "ports", Hash::Ports),
        (Family::Ipv6, "ports", Hash::Ports),
        (Family::Ipv4, "addresses", Hash::Addresses),
        (Family::Ipv6, "addresses", Hash::Addresses),
    ];
    for (number, (family, name, hash)) in cases.into_iter().enumerate() {
        let instance = format!("{}p{number}", std::process::id());
        let lab = Lab::build(&describe(family, name), &instance).expect("built");
        let end = |name: &str| lab.testbed().endpoint(name).expect("placed").clone();
        let (near, far) = (end("a2"), end("b2"));
        let [from, to] = [&near, &far].map(|end| end.address.expect("placed"));
        let channel =
            lab.capacities().iter().find(|c| c.pairs == [("a2".to_owned(), "b2".to_owned())]);
        let members = channel.expect("the channel is known").members.clone();
        assert_eq!(members.len(), LINKS as usize);
        let open = |host: &str, at| {
            within(&format!("lr-{instance}-{host}"), || UdpSocket::bind((at, 0)))
                .expect("entered")
                .expect("bound")
        };
        let receiver = open("b", to);
        receiver.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("set");
        let target = receiver.local_addr().expect("bound");
        let namespace = format!("lr-{instance}-a");
        let device = near.device.as_deref().expect("an interface");
        // The first datagram triggers address resolution, which is hashed too.
        open("a", from).send_to(&[0; 100], target).expect("sent");
        receiver.recv_from(&mut [0; 100]).expect("arrived");
        let before = passed(&namespace, device, &members);
        let mut expected = vec![0; LINKS as usize];
        for _ in 0..FLOWS {
            let sender = open("a", from);
            expected[link_of(sender.local_addr().expect("bound"), target, hash, LINKS) as usize] +=
                1;
            sender.send_to(&[0; 100], target).expect("sent");
            receiver.recv_from(&mut [0; 100]).expect("arrived");
        }
        let counts = passed(&namespace, device, &members);
        let found: Vec<u64> =
            members.iter().map(|member| counts[member] - before[member]).collect();
        assert_eq!(found, expected, "{family:?} {name}: {counts:?} after {before:?}");
        let used = found.iter().filter(|n| **n > 0).count();
        assert_eq!(used, if hash == Hash::Addresses { 1 } else { LINKS as usize });
    }
}

#[test]
fn packets_without_ports_are_hashed_by_their_addresses() {
    // Fragments after the first have no ports, and all fragments of a datagram must use one link.
    let Some(()) = privileged() else { return };
    let instance = format!("{}pf", std::process::id());
    let lab = Lab::build(&describe(Family::Ipv4, "ports"), &instance).expect("built");
    let end = |name: &str| lab.testbed().endpoint(name).expect("placed").clone();
    let (near, far) = (end("a2"), end("b2"));
    let [from, to] = [&near, &far].map(|end| SocketAddr::new(end.address.expect("placed"), 0));
    let open = |host: &str, at: SocketAddr| {
        within(&format!("lr-{instance}-{host}"), || UdpSocket::bind(at))
            .expect("entered")
            .expect("bound")
    };
    let (sender, receiver) = (open("a", from), open("b", to));
    receiver.set_read_timeout(Some(std::time::Duration::from_secs(30))).expect("set");
    sender.send_to(&[0; 4000], receiver.local_addr().expect("bound")).expect("sent");
    assert_eq!(receiver.recv_from(&mut [0; 5000]).expect("arrived").0, 4000);
    let members =
        lab.capacities().iter().find(|c| !c.members.is_empty()).expect("a channel").members.clone();
    let counts = passed(
        &format!("lr-{instance}-a"),
        near.device.as_deref().expect("an interface"),
        &members,
    );
    let by_address = link_of(from, to, Hash::Addresses, LINKS) as usize;
    assert_eq!(counts[&members[by_address]], 3, "{counts:?}");
}
