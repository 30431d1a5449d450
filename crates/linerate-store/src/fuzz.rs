//! Any bytes as the body of a record whose digest is right: it is decoded and taken into a campaign
//! without a panic, within its budget.

use linerate_model::{Campaign, Event, TrialId};

use crate::blob::KnownSeries;
use crate::budget::Budget;
use crate::fuzz_driver::{class, fuzz};
use crate::{blob, codec};

/// Bytes of job and side before the blob of a job's end.
const END_BYTES: usize = 5;
/// In front of an input: which kind of record it is, and whether its rest is compressed first.
const FRONT_BYTES: usize = 2;
const KINDS: [&str; 13] = [
    codec::INTERVALS,
    codec::FLOWS,
    codec::SAMPLES,
    codec::CAMPAIGN,
    codec::PLAN,
    codec::TRIAL,
    "host_joined",
    "trial_chosen",
    "barrier_passed",
    "clocks_compared",
    "incident",
    "trial_ended",
    "campaign_ended",
];

/// Records of the ledger in `fixtures`, uncompressed, and the events in it.
fn recorded() -> (Vec<Vec<u8>>, Vec<Event>) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/v3.ledger");
    let connection =
        rusqlite::Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .expect("it opens");
    let mut records = connection
        .prepare("SELECT kind, trial, body FROM record ORDER BY sequence")
        .expect("its schema");
    let rows =
        records.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).expect("its rows");
    let (mut inputs, mut events, mut known) = (Vec::new(), Vec::new(), KnownSeries::default());
    for row in rows {
        let (kind, trial, body): (String, Option<u32>, Vec<u8>) = row.expect("a record");
        events.push(
            codec::decode(&kind, trial.map(TrialId), &body, &Budget::plenty(), &mut known)
                .expect("it is sound"),
        );
        let number = KINDS.iter().position(|known| *known == kind).expect("a known kind") as u8;
        let head = match kind.as_str() {
            codec::INTERVALS | codec::FLOWS => END_BYTES,
            codec::SAMPLES => 4 + body[0] as usize,
            _ => 1,
        };
        let is_packed = head > 1 || body[0] == 1;
        let rest = if is_packed {
            blob::unpack(&body[head..], &Budget::plenty()).expect("it inflates")
        } else {
            body[head..].to_vec()
        };
        inputs.push([&[number, 1][..], &body[..head], &rest].concat());
        inputs.push([&[number, 0][..], &body].concat());
    }
    (inputs, events)
}

/// The record that an input stands for: its kind and its body.
fn record(input: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    let (front, rest) = input.split_at_checked(FRONT_BYTES)?;
    let kind = KINDS[front[0] as usize % KINDS.len()];
    let head = match kind {
        codec::INTERVALS | codec::FLOWS => END_BYTES,
        codec::SAMPLES => 4 + *rest.first()? as usize,
        _ => 1,
    };
    if front[1] % 2 == 0 {
        return Some((kind, rest.to_vec()));
    }
    let (head, rest) = rest.split_at_checked(head)?;
    // Text behind the mark of compressed text.
    let head = if head.len() == 1 { &[1][..] } else { head };
    Some((kind, [head, &blob::pack(rest)].concat()))
}

#[test]
fn fuzz_records() {
    let (corpus, events) = recorded();
    let Some(Event::CampaignStarted(header)) = events.first() else {
        panic!("a campaign begins with its header")
    };
    let mut campaign = Campaign::new((**header).clone());
    events.iter().for_each(|event| campaign.apply(event));
    let words = [
        "null",
        "[",
        "]",
        "{",
        "}",
        "[[[[[[[[",
        "\"",
        "\\u0000",
        "-1",
        "1e999",
        "18446744073709551615",
        ",",
        "{\"a\":",
    ];
    fuzz("records", corpus, &words, |input| {
        let Some((kind, body)) = record(input) else { return 0 };
        let budget = Budget::of_file(body.len() as u64);
        let before = budget.left();
        let mut said = Vec::new();
        for trial in [None, Some(TrialId(0))] {
            let decoded = codec::decode(kind, trial, &body, &budget, &mut KnownSeries::default());
            if let Ok(event) = &decoded {
                let mut campaign = campaign.clone();
                campaign.apply(event);
            }
            said.push(decoded.map(|event| codec::kind_of(&event)));
        }
        assert!(budget.left() <= before);
        class(&said)
    });
}
