//! SNMP messages: literal bytes, and any bytes whatever.

use linerate_packet::snmp::{
    BerError, Community, Digest, Engine, Header, Keys, Oid, Pdu, PduKind, User, Value,
};
use proptest::prelude::*;

/// `snmpget -v2c -c public HOST 1.3.6.1.2.1.1.3.0`, request 305419896, as Net-SNMP 5.9.3 sends it.
const GET_UPTIME: [u8; 43] = [
    0x30, 0x29, 0x02, 0x01, 0x01, 0x04, 0x06, b'p', b'u', b'b', b'l', b'i', b'c', 0xa0, 0x1c, 0x02,
    0x04, 0x12, 0x34, 0x56, 0x78, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00, 0x30, 0x0e, 0x30, 0x0c, 0x06,
    0x08, 0x2b, 0x06, 0x01, 0x02, 0x01, 0x01, 0x03, 0x00, 0x05, 0x00,
];

#[test]
fn a_request_is_byte_for_byte_what_others_send() {
    let pdu = Pdu::get(0x1234_5678, &[Oid::new(&[1, 3, 6, 1, 2, 1, 1, 3, 0])]);
    let message = Community { name: b"public".to_vec(), pdu };
    assert_eq!(message.emit(), GET_UPTIME);
    assert_eq!(Community::parse(&GET_UPTIME), Ok(message));
}

#[test]
fn what_is_no_message_is_refused_by_name() {
    assert_eq!(Community::parse(&GET_UPTIME[..42]), Err(BerError::CutOff));
    assert_eq!(Community::parse(&[&GET_UPTIME[..], &[0]].concat()), Err(BerError::LeftOver));
    let mut version_1 = GET_UPTIME;
    version_1[4] = 0;
    assert_eq!(Community::parse(&version_1), Err(BerError::Version));
    let mut set = GET_UPTIME;
    set[13] = 0xa3;
    assert_eq!(Community::parse(&set), Err(BerError::Tag { expected: 0xa2, found: 0xa3 }));
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(Value::Absent),
        any::<i64>().prop_map(Value::Integer),
        proptest::collection::vec(any::<u8>(), 0..300).prop_map(Value::Octets),
        any::<u32>().prop_map(Value::Counter32),
        any::<u32>().prop_map(Value::Gauge32),
        any::<u32>().prop_map(Value::TimeTicks),
        any::<u64>().prop_map(Value::Counter64),
        oid().prop_map(Value::Oid),
    ]
}

fn oid() -> impl Strategy<Value = Oid> {
    (0_u32..3, 0_u32..40, proptest::collection::vec(any::<u32>(), 0..20))
        .prop_map(|(first, second, rest)| Oid::new(&[first, second]).with(&rest))
}

proptest! {
    #[test]
    fn what_is_emitted_reads_back(
        name in proptest::collection::vec(any::<u8>(), 0..40),
        request: i32,
        bindings in proptest::collection::vec((oid(), value()), 0..12),
    ) {
        let pdu = Pdu { kind: PduKind::Response, request, error_status: 3, error_index: 1,
            bindings };
        let message = Community { name, pdu };
        prop_assert_eq!(Community::parse(&message.emit()), Ok(message));
    }

    #[test]
    fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200),
        at in 0_usize..43, with: u8) {
        let _any = Community::parse(&bytes);
        let mut changed = GET_UPTIME;
        changed[at] = with;
        let _almost = Community::parse(&changed);
        let user = User { name: b"u".to_vec(), ..User::default() };
        let _any = user.parse(&Keys::default(), &Engine::default(), &bytes);
    }

    #[test]
    fn hostile_bytes_in_a_secure_message_never_panic(at in 0_usize..120, with: u8,
        cut in 0_usize..200) {
        let user = User { name: b"u".to_vec(), authentication: Some((Digest::Sha1, vec![7])),
            privacy: None };
        let engine = Engine { id: vec![1; 5], boots: 1, time: 1 };
        // Passwords take a million octets of digest; a case of this test does not.
        let keys = Keys::default();
        let mut bytes = user.emit(&keys, &engine, Header { id: 1, salt: 1 },
            &Pdu::get(1, &[Oid::new(&[1, 3])]));
        if let Some(octet) = bytes.get_mut(at) {
            *octet = with;
        }
        bytes.truncate(cut);
        let _read = user.parse(&keys, &engine, &bytes);
    }
}
