//! Whatever came from an agent: it is read as a message of either version without a panic, and one
//! that was read can be said again.

use linerate_packet::snmp::{
    BerError, Community, Digest, Engine, Header, Incoming, Keys, Oid, Pdu, PduKind, Refusal, User,
    Value,
};

/// The entry the fuzzer and the property test share.
pub(crate) fn snmp(bytes: &[u8]) -> (Result<Community, BerError>, Result<Incoming, Refusal>) {
    let read = Community::parse(bytes);
    if let Ok(message) = &read {
        // Values of a kind that is not known are said as none.
        let again = Community::parse(&message.emit());
        let is_same = |again: &Community| {
            (&again.name, again.pdu.request) == (&message.name, message.pdu.request)
        };
        assert!(again.as_ref().is_ok_and(is_same), "{message:?} became {again:?}");
        assert!(message.pdu.bindings.len() <= bytes.len(), "more bindings than bytes");
    }
    let user = User { name: b"u".to_vec(), ..User::default() };
    (read, user.parse(&Keys::default(), &Engine::default(), bytes))
}

/// Messages as agents send them.
pub(crate) fn corpus() -> Vec<Vec<u8>> {
    let oid = Oid::new(&[1, 3, 6, 1, 2, 1, 31, 1, 1, 1, 6]);
    let values = [
        Value::Null,
        Value::Absent,
        Value::Integer(-129),
        Value::Octets(vec![b'x'; 200]),
        Value::Counter32(u32::MAX),
        Value::Gauge32(1_000_000_000),
        Value::TimeTicks(7),
        Value::Counter64(u64::MAX),
        Value::Oid(oid.with(&[u32::MAX])),
    ];
    let bindings = (1..).zip(values).map(|(index, value)| (oid.with(&[index]), value)).collect();
    let response =
        Pdu { kind: PduKind::Response, request: 77, error_status: 0, error_index: 0, bindings };
    let requests = [Pdu::get(1, std::slice::from_ref(&oid)), Pdu::get_bulk(2, &oid, 40), response];
    let engine = Engine { id: vec![0x80, 0, 0, 9, 3], boots: 3, time: 4_711 };
    let users = [
        User { name: b"u".to_vec(), ..User::default() },
        User { name: b"u".to_vec(), authentication: Some((Digest::Sha1, vec![7])), privacy: None },
    ];
    let mut all: Vec<Vec<u8>> = Vec::new();
    for pdu in requests {
        for user in &users {
            all.push(user.emit(&Keys::default(), &engine, Header { id: 1, salt: 1 }, &pdu));
        }
        all.push(Community { name: b"public".to_vec(), pdu }.emit());
    }
    all
}
