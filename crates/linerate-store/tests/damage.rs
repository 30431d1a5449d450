//! Damaged ledgers: each damage is found, named, and costs as little as possible.

use linerate_model::{Event, Nanos, TrialId, TrialOutcome};
use linerate_store::{Ledger, StoreError, Which, examine, salvage};

use crate::common::{fold, golden_events};
use crate::ledger::{completed, damage, directory, golden_id, record, recorded};

#[test]
fn a_damaged_record_is_named_and_costs_its_trial() {
    for (sql, trial, part) in [
        (
            "UPDATE record SET body = substr(body, 1, 9) WHERE kind = 'intervals'",
            Some(1),
            "(intervals) is damaged: trial 1",
        ),
        (
            "UPDATE record SET digest = zeroblob(16) WHERE kind = 'flows_ended'",
            Some(1),
            "(flows ended) is damaged",
        ),
        ("UPDATE record SET trial = 0 WHERE kind = 'samples'", Some(1), "is damaged"),
        ("DELETE FROM record WHERE kind = 'trial_ended'", Some(1), "is missing"),
        (
            "UPDATE record SET body = x'00' WHERE kind = 'host_joined'",
            None,
            "(host joined) is damaged",
        ),
        ("UPDATE head SET digest = zeroblob(16)", None, "the mark of the last record is damaged"),
        ("DELETE FROM record WHERE kind = 'campaign_ended'", None, "is missing"),
    ] {
        let directory = directory();
        let path = recorded(&directory);
        damage(&path, sql);
        let ledger = Ledger::open_read_only(&path).expect("the structure is well");
        let loaded = ledger.load_with_damage(Which::Latest).expect("the rest can be read");
        assert!(
            loaded.damage.iter().any(|damage| damage.contains(part)),
            "{sql}: {:?}",
            loaded.damage
        );
        assert!(
            loaded.campaign.incidents.iter().any(|incident| incident.message.contains(part)),
            "{sql}"
        );
        let failed = loaded
            .campaign
            .trials
            .iter()
            .filter(|trial| trial.outcome == Some(TrialOutcome::Failed));
        let failed: Vec<u32> = failed.map(|trial| trial.spec.id.0).collect();
        assert_eq!(failed, trial.into_iter().collect::<Vec<_>>(), "{sql}");
    }
    let directory = directory();
    let path = recorded(&directory);
    damage(&path, "UPDATE record SET body = x'00' WHERE kind = 'campaign_started'");
    let error = Ledger::open_read_only(&path)
        .and_then(|ledger| ledger.load(Which::Latest))
        .expect_err("no header");
    assert!(error.to_string().contains("record 1 (campaign started) is damaged"), "{error}");
}

#[test]
fn a_trial_that_damage_has_taken_is_run_again() {
    let directory = directory();
    let path = recorded(&directory);
    let id = golden_id();
    damage(&path, "UPDATE record SET body = x'00' WHERE kind = 'intervals'");
    let mut ledger = Ledger::open(&path).expect("its structure is well");
    assert_eq!(completed(&ledger, &id), []);
    let again = [
        &golden_events()[..1],
        &[
            Event::TrialStarted { trial: TrialId(1), at: Nanos(9) },
            Event::TrialEnded { trial: TrialId(1), outcome: TrialOutcome::Completed },
        ],
    ];
    record(&mut ledger, &again.concat());
    assert_eq!(completed(&ledger, &id), [TrialId(1)]);
}

/// A copy of `whole` with one bit changed.
fn flipped(whole: &[u8], bit: usize) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    bytes[bit / 8] ^= 1 << (bit % 8);
    bytes
}

/// Reads the file `bytes`, and reports whether the damage was detected.
fn read_bytes(
    directory: &tempfile::TempDir,
    bytes: &[u8],
) -> Result<linerate_store::Loaded, StoreError> {
    let path = directory.path().join("flipped.ledger");
    std::fs::write(&path, bytes).expect("room");
    Ledger::open_read_only(&path).and_then(|ledger| ledger.load_with_damage(Which::Latest))
}

#[test]
fn no_flipped_bit_changes_a_campaign_silently() {
    /// Bytes of the seal.
    const SEAL: usize = 40;
    let directory = directory();
    let whole = std::fs::read(recorded(&directory)).expect("it is a file");
    let expected = fold(&golden_events());
    // Odd, so that every bit of a byte and every part of a page has its turn.
    for bit in (0..whole.len() * 8).step_by(2_473) {
        if let Ok(loaded) = read_bytes(&directory, &flipped(&whole, bit)) {
            assert!(!loaded.damage.is_empty(), "bit {bit} of a sealed ledger");
        }
    }
    let unsealed = &whole[..whole.len() - SEAL];
    for bit in (0..unsealed.len() * 8).step_by(2_473) {
        if let Ok(loaded) = read_bytes(&directory, &flipped(unsealed, bit)) {
            assert!(
                !loaded.damage.is_empty() || loaded.campaign == expected,
                "bit {bit} of a killed ledger"
            );
        }
    }
}

#[test]
fn what_can_be_read_of_a_damaged_ledger_is_saved() {
    let directory = directory();
    let path = recorded(&directory);
    let saved = directory.path().join("saved.ledger");
    damage(&path, "UPDATE record SET body = x'00' WHERE kind = 'host_joined'");
    let health = examine(&path).expect("the structure is well");
    assert_eq!((health.sealed, health.damage.len(), health.campaigns.len()), (Some(false), 1, 1));
    let salvaged = salvage(&path, &saved).expect("there is room");
    assert_eq!((salvaged.n_campaigns, salvaged.n_trials, salvaged.damage.len()), (1, 1, 1));
    let campaign = Ledger::open_read_only(&saved)
        .and_then(|ledger| ledger.load(Which::Latest))
        .expect("it is whole");
    let expected = fold(&golden_events());
    assert_eq!((campaign.trials, campaign.hosts.len()), (expected.trials, 0));
    let health = examine(&saved).expect("it is a ledger");
    assert_eq!(
        (health.version, health.sealed, health.held_by, health.damage.len()),
        (3, Some(true), None, 0)
    );
    assert!(matches!(salvage(&path, &saved), Err(StoreError::Exists { .. })));
    // A page of records that SQLite refuses: structure is damaged, and the rest is saved.
    let mut bytes = std::fs::read(&path).expect("it is a file");
    let page = bytes.len() / 4096 - 1;
    bytes[page * 4096] = 0xff;
    let broken = directory.path().join("broken.ledger");
    std::fs::write(&broken, bytes).expect("room");
    match examine(&broken) {
        Err(error) => assert!(error.to_string().contains("linerate ledger salvage"), "{error}"),
        Ok(health) => {
            assert!(!health.damage.is_empty() || health.sealed == Some(false), "{health:?}")
        }
    }
    let saved =
        salvage(&broken, &directory.path().join("rest.ledger")).expect("what can be read is saved");
    assert!(!saved.damage.is_empty());
}
