//! Test frames: literal bytes made by other means, checksums against whole sums, and any bytes read
//! without a panic.

use std::net::{Ipv4Addr, Ipv6Addr};

use linerate_packet::frame::{
    Addresses, FrameView, Headers, MacAddress, Ports, Stamp, Template, TemplateError, Transport,
    VlanTag, internet_checksum, mtu_for, signature_offset,
};
use proptest::prelude::*;

#[path = "../../../fuzz/entries/frame.rs"]
mod entry;

const TAG: u32 = 0xa1a2_a3a4;
const FLOW: u16 = 7;
const STAMP: Stamp = Stamp { sequence: 5, scheduled_ns: 0x01_0203_0405, lateness_ns: 0x345 };

fn headers(addresses: Addresses, transport: Transport, tags: &[VlanTag], dscp: u8) -> Headers {
    Headers {
        destination: MacAddress([2, 0, 0, 0, 0, 2]),
        source: MacAddress([2, 0, 0, 0, 0, 1]),
        tags: tags.to_vec(),
        addresses,
        transport,
        ports: Ports { source: 1024, destination: 7 },
        dscp,
        hops: 64,
    }
}

fn v4() -> Addresses {
    Addresses::V4 {
        source: Ipv4Addr::new(198, 18, 0, 1),
        destination: Ipv4Addr::new(198, 18, 0, 2),
    }
}

fn v6() -> Addresses {
    let address = |last| Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, last);
    Addresses::V6 { source: address(1), destination: address(2) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn frame(headers: &Headers, size: usize) -> Vec<u8> {
    let template = Template::new(headers, size, TAG, FLOW, &[0x6c]).expect("it fits");
    let mut frame = template.bytes().to_vec();
    template.patch(&mut frame, &STAMP);
    frame
}

/// Made by a Python script from the RFCs' own layouts, checksums summed up whole.
#[test]
fn frames_are_these_bytes() {
    let udp4 = headers(v4(), Transport::Udp, &[], 46);
    assert_eq!(
        hex(&frame(&udp4, 64)),
        "020000000002020000000001080045b8002e000040004011addfc6120001c612000204000007001a1\
         befa1a2a3a4000700000000050102\
         0304050345"
            .replace(' ', "")
    );
    let tags = [VlanTag { id: 100, priority: 0 }, VlanTag { id: 101, priority: 5 }];
    let udp6 = headers(v6(), Transport::Udp, &tags, 46);
    assert_eq!(
        hex(&frame(&udp6, 95)),
        "02000000000202000000000188a800648100a06586dd6b800000001d1140200100020000000000000\
         000000000012001000200000000\
         000000000000000204000007001d8f9ba1a2a3a400070000000005010203040503456c6c6c"
            .replace(' ', "")
    );
    let tcp4 = headers(v4(), Transport::Tcp, &[], 0);
    assert_eq!(
        hex(&frame(&tcp4, 76)),
        "02000000000202000000000108004500003a000040004006ae96c6120001c61200020400000700000\
         0000000000050140000cbf30000a1\
         a2a3a40007000000000501020304050345"
            .replace(' ', "")
    );
}

#[test]
fn the_smallest_sizes_are_those_documented_and_smaller_ones_are_refused_with_it() {
    let tag = [VlanTag { id: 1, priority: 0 }];
    for (headers, least) in [
        (headers(v4(), Transport::Udp, &[], 0), 64),
        (headers(v4(), Transport::Udp, &tag, 0), 68),
        (headers(v6(), Transport::Udp, &[], 0), 84),
        (headers(v4(), Transport::Tcp, &[], 0), 76),
    ] {
        assert_eq!(headers.least_frame_size(), least);
        assert_eq!(frame(&headers, least).len(), least - 4);
        let refused =
            Template::new(&headers, least - 1, TAG, FLOW, &[]).expect_err("one byte too small");
        assert_eq!(refused, TemplateError::TooSmall { size: least - 1, least });
        assert!(refused.to_string().contains(&format!("at least {least} B")), "{refused}");
        assert_eq!(
            headers.signature_at(),
            signature_offset(headers.tags.len(), headers.is_ipv6(), headers.transport)
        );
    }
    assert!(
        Template::new(&headers(v4(), Transport::Udp, &[], 0), 1 << 20, TAG, FLOW, &[]).is_err()
    );
    assert_eq!((mtu_for(1518, 0), mtu_for(1522, 1), mtu_for(9018, 0)), (1500, 1500, 9000));
}

/// The sum over pseudo header and segment of any frame: zero if its checksum is right.
fn whole_sum(frame: &[u8]) -> u16 {
    let view = FrameView::read(frame).expect("a test frame");
    let ip = 14 + 4 * view.n_tags;
    let (addresses, transport_at) =
        if view.is_ipv6 { (ip + 8..ip + 40, ip + 40) } else { (ip + 12..ip + 20, ip + 20) };
    let segment = &frame[transport_at..];
    let protocol = if view.transport == Transport::Tcp { 6 } else { 17 };
    let mut bytes = frame[addresses].to_vec();
    bytes.extend((segment.len() as u32).to_be_bytes());
    bytes.extend([0, 0, 0, protocol]);
    bytes.extend(segment);
    internet_checksum(&bytes)
}

fn any_headers() -> impl Strategy<Value = Headers> {
    let tag = (1_u16..4095, 0_u8..8).prop_map(|(id, priority)| VlanTag { id, priority });
    let addresses = prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(source, destination)| Addresses::V4 {
            source: source.into(),
            destination: destination.into()
        }),
        (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(source, destination)| Addresses::V6 {
            source: source.into(),
            destination: destination.into()
        }),
    ];
    let transport = prop_oneof![Just(Transport::Udp), Just(Transport::Tcp)];
    (proptest::collection::vec(tag, 0..3), addresses, transport, any::<[u16; 2]>(), 0_u8..64)
        .prop_map(|(tags, addresses, transport, [source, destination], dscp)| Headers {
            ports: Ports { source, destination },
            ..headers(addresses, transport, &tags, dscp)
        })
}

proptest! {
    #[test]
    fn the_checksum_made_by_increment_is_the_whole_one_and_what_is_patched_reads_back(
        headers in any_headers(),
        more in 0_usize..1500,
        tag in any::<u32>(),
        flow in any::<u16>(),
        filling in proptest::collection::vec(any::<u8>(), 0..5),
        stamps in proptest::collection::vec((0_u64..u64::MAX / 2, 0_u64..u64::MAX / 2,
            0_u64..4096, any::<Option<[u16; 2]>>()), 1..8),
    ) {
        let template = Template::new(&headers, headers.least_frame_size() + more, tag, flow,
            &filling).expect("it fits");
        prop_assert_eq!(whole_sum(template.bytes()), 0);
        let mut frame = template.bytes().to_vec();
        for (sequence, scheduled_ns, lateness_ns, ports) in stamps {
            let stamp = Stamp { sequence, scheduled_ns, lateness_ns };
            // A frame that was given other ports gets its own back with the head of its template.
            frame[..template.head().len()].copy_from_slice(template.head());
            match ports {
                None => template.patch(&mut frame, &stamp),
                Some([source, destination]) => {
                    template.patch_with_ports(&mut frame, &stamp, Ports { source, destination });
                }
            }
            prop_assert_eq!(whole_sum(&frame), 0);
            let view = FrameView::read(&frame).expect("it is a test frame");
            let expected = ports.map_or(headers.ports,
                |[source, destination]| Ports { source, destination });
            prop_assert_eq!(view.ports, expected);
            prop_assert_eq!(view.payload_at, headers.signature_at());
            let found = view.signature().expect("it carries one");
            prop_assert_eq!((found.tag, found.flow, found.lateness_ns), (tag, flow, lateness_ns));
            prop_assert_eq!(found.sequence(sequence.saturating_sub(1000)), sequence);
            prop_assert_eq!(found.scheduled_ns(scheduled_ns + 5_000_000_000), scheduled_ns);
            let ip = 14 + 4 * headers.tags.len();
            if !headers.is_ipv6() {
                prop_assert_eq!(internet_checksum(&frame[ip..ip + 20]), 0);
            }
            if headers.transport == Transport::Udp {
                let at = headers.signature_at() - 2;
                prop_assert_ne!(&frame[at..at + 2], &[0, 0], "zero would mean no checksum");
            }
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        entry::frame(&bytes);
    }

    #[test]
    fn a_frame_cut_or_changed_anywhere_is_read_without_a_panic(
        headers in any_headers(),
        cut in 0_usize..140,
        changes in proptest::collection::vec((0_usize..120, any::<u8>()), 0..4),
    ) {
        let mut frame = Template::new(&headers, 140, TAG, FLOW, &[]).expect("it \
            fits").bytes().to_vec();
        for (at, byte) in changes {
            frame[at] = byte;
        }
        frame.truncate(cut);
        entry::frame(&frame);
    }
}
