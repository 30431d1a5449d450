//! A ledger returns the records that were written, whatever happens to the process, the file or the
//! disk.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use linerate_model::{
    Campaign, Counter, Event, Interval, Nanos, Recorder, Side, TestbedKind, TrialId, TrialOutcome,
};
use linerate_store::{CampaignSummary, Ledger, StoreError, Which, examine};
use proptest::prelude::*;

use crate::common::{event, fold, golden_events, header, spec};

pub(crate) fn record(ledger: &mut Ledger, events: &[Event]) {
    for event in events {
        ledger.record(event).expect("it fits the plan");
    }
    ledger.flush().expect("there is room");
}

pub(crate) fn recorded(directory: &tempfile::TempDir) -> PathBuf {
    let path = directory.path().join("golden.ledger");
    record(&mut Ledger::create(&path).expect("it is new"), &golden_events());
    path
}

pub(crate) fn golden_id() -> String {
    fold(&golden_events()).header.id
}

pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory can be made")
}

fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a file");
    let target =
        test.parent().and_then(Path::parent).expect("tests are built into target/PROFILE/deps");
    let path = target.join("examples").join(name);
    assert!(
        path.exists(),
        "build the examples first, as `cargo test -p linerate-store` does: {}",
        path.display()
    );
    path
}

pub(crate) fn damage(path: &Path, sql: &str) {
    let connection = rusqlite::Connection::open(path).expect("it is a database");
    assert_eq!(connection.execute(sql, []).expect("it is valid SQL"), 1);
}

/// Returns the latest campaign of the ledger at `path`, which must be whole.
fn latest(path: &Path) -> Campaign {
    let ledger = Ledger::open_read_only(path).expect("it is a ledger");
    ledger.load(Which::Latest).expect("it is whole")
}

/// Returns the trials of campaign `id` that a resumed campaign would not run again.
pub(crate) fn completed(ledger: &Ledger, id: &str) -> Vec<TrialId> {
    let campaign = ledger.load(Which::Id(id)).expect("the campaign can be read");
    let trials = campaign.trials.iter();
    let done = trials.filter(|trial| trial.outcome == Some(TrialOutcome::Completed));
    done.map(|trial| trial.spec.id).collect()
}

#[test]
fn a_campaign_is_loaded_as_it_was_recorded() {
    let directory = directory();
    let path = recorded(&directory);
    let ledger = Ledger::open(&path).expect("it is a ledger");
    let expected = fold(&golden_events());
    assert_eq!(ledger.load(Which::Latest).expect("it is whole"), expected);
    assert_eq!(ledger.load(Which::Id(&expected.header.id)).expect("it is whole"), expected);
    let summary = CampaignSummary {
        id: "20261121T000500Z-7f3a".into(),
        name: "golden".into(),
        started: Nanos(1_795_219_500_000_000_000),
        ended: Some(Nanos(1_795_219_503_000_000_000)),
        testbed: TestbedKind::Lab,
        n_trials: 2,
        n_completed: 1,
    };
    assert_eq!(ledger.campaigns().expect("it is whole"), [summary]);
    assert_eq!(completed(&ledger, &expected.header.id), [TrialId(1)]);
}

#[test]
fn a_long_campaign_is_loaded_as_it_was_recorded() {
    // More records than are decoded together, and trials that are run in another order than they
    // are numbered.
    const TRIALS: u32 = 300;
    let order = || (0..TRIALS).map(|n| n * 7 % TRIALS);
    let trials = order().map(|number| spec(number, 1, f64::from(number))).collect();
    let mut events =
        vec![Event::CampaignStarted(Box::new(header("long"))), Event::Planned { trials }];
    let run = |number: u32| {
        let (trial, end) = (TrialId(number), Nanos(u64::from(number) + 1));
        let mut interval = Interval { end, ..Interval::default() };
        interval.counters[Counter::PayloadSent] = u64::from(number);
        [
            Event::TrialStarted { trial, at: end },
            Event::Intervals { trial, job: 0, side: Side::Active, intervals: vec![interval] },
            Event::TrialEnded { trial, outcome: TrialOutcome::Completed },
        ]
    };
    events.extend(order().flat_map(run));
    let directory = directory();
    let path = directory.path().join("long.ledger");
    record(&mut Ledger::create(&path).expect("it is new"), &events);
    assert!(latest(&path) == fold(&events));
}

#[test]
fn several_campaigns_live_in_one_file() {
    let directory = directory();
    let path = recorded(&directory);
    let mut later = header("later");
    later.started = Nanos(later.started.0 + 1);
    let events =
        [Event::CampaignStarted(Box::new(later)), Event::Planned { trials: vec![spec(0, 1, 1.0)] }];
    record(&mut Ledger::open(&path).expect("it is a ledger"), &events);
    let ledger = Ledger::open_read_only(&path).expect("it is a ledger");
    assert_eq!(ledger.load(Which::Latest).expect("it is whole"), fold(&events));
    let first = ledger.load(Which::Id("20261121T000500Z-7f3a")).expect("it is whole");
    assert_eq!(first, fold(&golden_events()));
    let error = ledger.load(Which::Id("lator")).expect_err("there is no such campaign").to_string();
    assert!(error.contains("no such campaign (it has 20261121T000500Z-7f3a, later)"), "{error}");
}

#[test]
fn a_resumed_campaign_keeps_completed_trials_and_replaces_the_broken_one() {
    let directory = directory();
    let path = recorded(&directory);
    let events = golden_events();
    let again: Vec<Event> =
        [&events[..3], &[Event::TrialStarted { trial: TrialId(0), at: Nanos(7) }]].concat();
    record(&mut Ledger::open(&path).expect("it is a ledger"), &again);
    let broken: Vec<Event> = [&events[..], &again].concat();
    let campaign = latest(&path);
    assert_eq!(campaign, fold(&broken));
    assert_eq!((campaign.ended, campaign.trials[0].jobs[0].1.intervals.len()), (None, 1));
    assert_eq!((campaign.trials[1].started, campaign.trials[1].outcome), (Some(Nanos(7)), None));
    let rerun = [&again[..], &[Event::TrialStarted { trial: TrialId(1), at: Nanos(8) }]].concat();
    record(&mut Ledger::open(&path).expect("it is a ledger"), &rerun);
    let campaign = latest(&path);
    assert_eq!(campaign, fold(&[&broken[..], &rerun].concat()));
    let trial = &campaign.trials[0];
    assert!(trial.jobs[0].1.intervals.is_empty() && trial.samples.is_empty());
}

#[test]
fn events_that_belong_nowhere_are_refused_by_name() {
    let directory = directory();
    let path = directory.path().join("new.ledger");
    let mut ledger = Ledger::create(&path).expect("it is new");
    let started = Event::TrialStarted { trial: TrialId(5), at: Nanos(1) };
    let error = ledger.record(&started).expect_err("no campaign").to_string();
    assert!(error.contains("new.ledger") && error.contains("no campaign was started"), "{error}");
    record(&mut ledger, &golden_events()[..3]);
    let error = ledger.record(&started).expect_err("no such trial").to_string();
    for part in ["an event of trial 5", "no such trial was planned"] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_process_killed_at_any_moment_leaves_everything_it_flushed() {
    let directory = directory();
    for n_flushed in [1, 2, 17, 120] {
        let path = directory.path().join(format!("killed-{n_flushed}.ledger"));
        let mut child = Command::new(example("record_forever"))
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example can be run");
        let mut output = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let said = output.nth(n_flushed - 1).expect("it goes on for ever");
        assert_eq!(said.expect("it speaks UTF-8"), n_flushed.to_string());
        child.kill().expect("it runs");
        child.wait().expect("it was started here");
        assert!(latest(&path).trials[0].jobs[0].0.intervals.len() >= n_flushed);
        assert!(!path.with_extension("ledger-wal").exists(), "and then it is one file");
        let ledger = Ledger::open(&path).expect("a killed writer leaves a ledger");
        let campaign = ledger.load(Which::Latest).expect("it is whole");
        let intervals = &campaign.trials[0].jobs[0].0.intervals;
        assert!(intervals.len() >= n_flushed, "{} of {n_flushed}", intervals.len());
        let steps = intervals.iter().map(|interval| interval.counters[Counter::Steps]);
        assert!(steps.eq(0..intervals.len() as u64), "a gap or half a record: {intervals:?}");
        assert_eq!((campaign.trials[0].outcome, campaign.ended), (None, None));
    }
}

#[test]
fn a_reader_sees_a_campaign_while_it_is_recorded() {
    let directory = directory();
    let path = directory.path().join("live.ledger");
    let mut writer = Ledger::create(&path).expect("it is new");
    let events = golden_events();
    record(&mut writer, &events[..6]);
    writer.record(&events[6]).expect("it fits");
    let reader = Ledger::open_read_only(&path).expect("reading does not wait");
    assert_eq!(reader.load(Which::Latest).expect("it is whole"), fold(&events[..6]));
    writer.flush().expect("there is room");
    assert_eq!(reader.load(Which::Latest).expect("it is whole"), fold(&events[..7]));
}

/// Returns the names of the files in `directory`.
fn files_in(directory: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(directory.path()).expect("it is a directory");
    let mut names: Vec<String> = entries
        .map(|entry| entry.expect("readable").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_ledger_at_rest_is_one_file_and_stays_so_when_it_is_read() {
    let directory = directory();
    let path = recorded(&directory);
    assert_eq!(files_in(&directory), ["golden.ledger"]);
    let before = std::fs::read(&path).expect("it is a file");
    assert_eq!(latest(&path), fold(&golden_events()));
    assert_eq!(files_in(&directory), ["golden.ledger"]);
    assert!(before == std::fs::read(&path).expect("it is a file"), "reading changes nothing");
    record(&mut Ledger::open(&path).expect("it is a ledger"), &golden_events()[..3]);
    assert_eq!(files_in(&directory), ["golden.ledger"], "a resumed campaign, too");
}

#[test]
fn the_last_to_leave_a_ledger_takes_its_log_along() {
    let directory = directory();
    let path = directory.path().join("live.ledger");
    let mut writer = Ledger::create(&path).expect("it is new");
    record(&mut writer, &golden_events());
    let reader = Ledger::open_read_only(&path).expect("reading does not wait");
    assert_eq!(reader.load(Which::Latest).expect("it is whole"), fold(&golden_events()));
    drop(writer);
    assert_eq!(reader.load(Which::Latest).expect("it is still whole"), fold(&golden_events()));
    drop(reader);
    assert_eq!(files_in(&directory), ["live.ledger"]);
}

#[test]
fn there_is_one_writer_and_the_second_is_told_who_it_is() {
    let directory = directory();
    let path = directory.path().join("held.ledger");
    let first = Ledger::create(&path).expect("it is new");
    let error = Ledger::open(&path).expect_err("it is held").to_string();
    assert!(error.contains(&format!("recorded by process {} on ", std::process::id())), "{error}");
    assert!(Ledger::open_read_only(&path).is_ok(), "reading is free");
    drop(first);
    drop(Ledger::open(&path).expect("it is free"));
    // Left behind by a process that was killed.
    let dead = concat!(
        r#"{"host":"h","boot":"b","namespace":1,"pid":1,"#,
        r#""started_ticks":1,"since_s":1,"opened":0}"#
    );
    damage(&path, &format!("INSERT INTO lease VALUES (1, '{dead}', 1)"));
    drop(Ledger::open(&path).expect("a stale lease is taken over"));
}

#[test]
fn a_writer_whose_lease_is_gone_writes_no_more() {
    let directory = directory();
    let path = directory.path().join("taken.ledger");
    let mut ledger = Ledger::create(&path).expect("it is new");
    record(&mut ledger, &golden_events()[..3]);
    damage(&path, "UPDATE lease SET holder = 'another'");
    ledger.record(&golden_events()[3]).expect("it is only queued");
    let error = ledger.flush().expect_err("another has it").to_string();
    assert!(error.contains("another process has taken it over"), "{error}");
}

#[test]
fn a_ledger_is_made_with_its_campaign_in_it() {
    let directory = directory();
    let path = directory.path().join("made.ledger");
    let events = &golden_events()[..3];
    let mut ledger = Ledger::create_with(&path, events).expect("it is new");
    // It is whole from the beginning.
    assert_eq!(latest(&path), fold(events));
    record(&mut ledger, &golden_events());
    drop(ledger);
    assert_eq!(latest(&path), fold(&[events, &golden_events()].concat()));
    assert_eq!(files_in(&directory), ["made.ledger"]);
}

#[test]
fn only_our_own_tables_are_believed() {
    for (sql, part) in [
        ("CREATE VIEW v AS SELECT 1", "the view `v` in it is not one that linerate makes"),
        ("CREATE TRIGGER t AFTER INSERT ON record BEGIN DELETE FROM head; END", "the trigger `t`"),
        ("CREATE TABLE more (x)", "the table `more`"),
        ("ALTER TABLE head ADD COLUMN y INTEGER GENERATED ALWAYS AS (1)", "the table `head`"),
        ("CREATE INDEX i ON record (kind)", "the index `i`"),
        ("CREATE VIRTUAL TABLE f USING fts5(x)", "not one that linerate makes"),
        ("DROP TABLE lease", "a table is missing"),
        (
            "ALTER TABLE record RENAME TO r; CREATE VIEW record AS WITH RECURSIVE n(x) AS (SELECT \
                1 UNION ALL SELECT x+1 FROM n) SELECT x AS sequence, 1 AS campaign, NULL AS trial, \
                '' AS kind, x'' AS body, x'' AS label, x'' AS digest FROM n",
            "not one that linerate makes",
        ),
    ] {
        let directory = directory();
        let path = recorded(&directory);
        let connection = rusqlite::Connection::open(&path).expect("it is a database");
        connection.execute_batch(sql).expect("it is valid SQL");
        drop(connection);
        for error in
            [Ledger::open(&path).expect_err(sql), Ledger::open_read_only(&path).expect_err(sql)]
        {
            assert!(error.to_string().contains(part), "{sql}: {error}");
        }
    }
}

#[test]
fn passwords_of_addresses_are_not_recorded() {
    let directory = directory();
    let path = directory.path().join("ftp.ledger");
    let mut with_password = header("ftp");
    with_password.plan = "params = { server = \"ftp://me:s3cret@host/file\" }\n".into();
    with_password.argv =
        vec!["linerate".into(), "--set".into(), "params.server=ftp://me:s3cret@host/file".into()];
    let mut trial = spec(0, 1, 1.0);
    trial.jobs[0].params.set("server", "ftp://me:s3cret@host/file");
    let events =
        [Event::CampaignStarted(Box::new(with_password)), Event::Planned { trials: vec![trial] }];
    record(&mut Ledger::create(&path).expect("it is new"), &events);
    let text = serde_json::to_string(&latest(&path)).expect("a tree");
    assert!(!text.contains("s3cret") && text.matches("ftp://me:***@host").count() == 3, "{text}");
}

#[test]
fn what_is_no_ledger_is_refused_with_its_cause() {
    let directory = directory();
    let refuse = |name: &str, part: &str| {
        let path = directory.path().join(name);
        for error in
            [Ledger::open(&path).expect_err(name), Ledger::open_read_only(&path).expect_err(name)]
        {
            let error = error.to_string();
            assert!(error.contains(part) && error.contains(name), "{name}: {error}");
        }
    };
    refuse("missing.ledger", "No such file or directory");
    let at = |name: &str| directory.path().join(name);
    let text = "hello, this is not a database, ".repeat(40);
    std::fs::write(at("text.ledger"), text).expect("room");
    refuse("text.ledger", "it is not an SQLite database");
    std::fs::write(at("empty.ledger"), "").expect("room");
    refuse("empty.ledger", "it is empty: linerate or the disk stopped");
    std::fs::create_dir(at("folder.ledger")).expect("room");
    refuse("folder.ledger", "not a regular file");
    let pipe = Command::new("mkfifo").arg(at("pipe.ledger")).status().expect("mkfifo runs");
    assert!(pipe.success());
    refuse("pipe.ledger", "not a regular file");
    let foreign = rusqlite::Connection::open(at("foreign.ledger")).expect("it is new");
    foreign.execute_batch("CREATE TABLE t (x)").expect("it is valid SQL");
    refuse("foreign.ledger", "another application");
    let path = recorded(&directory);
    rusqlite::Connection::open(&path)
        .and_then(|c| c.pragma_update(None, "user_version", 99))
        .expect("it is a database");
    refuse("golden.ledger", "its schema is version 99, this linerate knows up to 3");
    assert!(matches!(Ledger::create(&path), Err(StoreError::Exists { .. })));
    let error = Ledger::create(&at("no/such/directory")).expect_err("it has no directory");
    assert!(error.to_string().contains("create ledger"), "{error}");
}

#[test]
fn a_ledger_cut_short_is_an_error_and_no_panic() {
    let directory = directory();
    let whole = std::fs::read(recorded(&directory)).expect("it is a file");
    let mut n_refused = 0;
    let lengths = (0..whole.len()).step_by(997);
    let n_lengths = lengths.len();
    for length in lengths {
        let path = directory.path().join("cut.ledger");
        std::fs::write(&path, &whole[..length]).expect("room");
        match Ledger::open_read_only(&path).and_then(|ledger| ledger.load(Which::Latest)) {
            Ok(campaign) => {
                assert!(!campaign.incidents.is_empty(), "{length} bytes were taken for whole")
            }
            Err(error) => {
                assert!(error.to_string().contains("cut.ledger"), "{error}");
                n_refused += 1;
            }
        }
    }
    assert!(n_refused > n_lengths / 2, "{n_refused} of {n_lengths} were refused");
}

#[test]
fn a_ledger_is_read_from_a_read_only_medium() {
    let directory = directory();
    let path = recorded(&directory);
    let script = "mkdir \"$1/ro\" && mount -t tmpfs tmpfs \"$1/ro\" || { echo skip; exit 0; }
        cp \"$2\" \"$1/ro/l\" && mount -o remount,ro \"$1/ro\" && exec \"$3\" \"$1/ro/l\"";
    let shell = ["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"];
    let command = Command::new("unshare")
        .args(shell)
        .args([directory.path(), &path, &example("list_campaigns")])
        .output();
    let Ok(output) = command else {
        return println!("skipped: there is no `unshare` to make a read-only medium with");
    };
    let (said, complained) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if said.trim() == "skip" || complained.contains("unshare") {
        return println!("skipped: no read-only medium can be made here: {complained}");
    }
    assert_eq!(said.trim(), "20261121T000500Z-7f3a golden 1/2", "{complained}");
}

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/v{version}.ledger"))
}

/// The files were written by the first version of each schema and are never written again.
#[test]
fn a_ledger_of_each_schema_opens_for_ever() {
    let expected = fold(&golden_events());
    for version in [1, 3] {
        let ledger = Ledger::open_read_only(&fixture(version)).expect("old ledgers open for ever");
        let loaded = ledger.load_with_damage(Which::Latest).expect("it is whole");
        assert_eq!(loaded.campaign, expected, "version {version}");
        assert_eq!(loaded.damage.len(), 0, "version {version}");
        assert_eq!(ledger.campaigns().expect("it is whole").len(), 1);
        let directory = directory();
        let path = directory.path().join("old.ledger");
        std::fs::copy(fixture(version), &path).expect("room");
        drop(Ledger::open(&path).expect("old ledgers can be written to"));
        assert_eq!(latest(&path), expected, "version {version}");
        record(&mut Ledger::open(&path).expect("it is a ledger"), &golden_events()[..3]);
        let ledger = Ledger::open_read_only(&path).expect("it is a ledger");
        assert_eq!(completed(&ledger, &golden_id()), [TrialId(1)]);
        let health = examine(&path).expect("a ledger");
        assert_eq!((health.version, health.sealed), (3, Some(true)));
    }
}

#[test]
fn a_record_of_schema_1_that_does_not_read_back_is_named() {
    for (sql, part) in [
        (
            "UPDATE chunk SET intervals = substr(intervals, 1, 9)",
            "intervals of trial 1, job 0, passive side",
        ),
        ("UPDATE chunk SET intervals = x''", "it is cut off"),
        ("UPDATE chunk SET job = 7", "the trial has no such job"),
        ("UPDATE flow SET reports = x'01ffff'", "flows of trial 1, job 0, passive side"),
        ("UPDATE sample SET block = x'09'", "its format is version 9"),
        ("UPDATE trial SET spec = '{}' WHERE number = 0", "specification of trial 0"),
        ("UPDATE host SET record = ''", "host lab of campaign 20261121T000500Z-7f3a"),
    ] {
        let directory = directory();
        let path = directory.path().join("golden.ledger");
        std::fs::copy(fixture(1), &path).expect("room");
        damage(&path, sql);
        let read = Ledger::open_read_only(&path).and_then(|ledger| ledger.load(Which::Latest));
        let error = read.expect_err("a record is damaged").to_string();
        assert!(error.contains(part) && error.contains("golden.ledger"), "{sql}: {error}");
    }
}

#[test]
#[ignore = "writes the fixture of a new schema version; run once for each"]
fn write_fixture() {
    let directory = directory();
    std::fs::copy(recorded(&directory), fixture(3)).expect("room");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_events_load_as_they_fold(events in prop::collection::vec((event(), 0..4_u32), 0..40)) {
        let directory = directory();
        let path = directory.path().join("random.ledger");
        let start = Event::CampaignStarted(Box::new(header("random")));
        let plan = Event::Planned { trials: vec![spec(0, 1, 0.5), spec(1, 2, 0.1)] };
        let mut ledger = Ledger::create(&path).expect("it is new");
        record(&mut ledger, &[start.clone(), plan.clone()]);
        let mut expected = fold(&[start, plan]);
        for (event, flush) in &events {
            let before = expected.clone();
            expected.apply(event);
            if ledger.record(event).is_err() {
                prop_assert_eq!(&before, &expected, "what the ledger refuses, the fold ignores");
            }
            if *flush == 0 {
                ledger.flush().expect("there is room");
            }
        }
        drop(ledger);
        prop_assert_eq!(latest(&path), expected);
    }
}
