//! Every engine behaves alike: data that was written is read back in any order, and errors are
//! reported.

use std::io::Write;

use super::*;

const SLOTS: u32 = 8;
const BYTES: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(5);

fn engines() -> [(Engine, u32); 5] {
    [
        (Engine::IoUring, SLOTS),
        (Engine::IoUringThread, SLOTS),
        (Engine::NativeAio, SLOTS),
        (Engine::Threads, SLOTS),
        (Engine::Calls, 1),
    ]
}

/// Returns `None` with a message if the kernel refuses the engine.
fn transfers(engine: Engine, file: File, slots: u32) -> Option<Transfers> {
    match Transfers::new(engine, file, slots, BYTES) {
        Ok(transfers) => Some(transfers),
        Err(error) => {
            println!("skipped: {}: {error}", engine.name());
            None
        }
    }
}

fn scratch(blocks: u64) -> File {
    let file = tempfile::tempfile().expect("a file");
    file.set_len(blocks * BYTES as u64).expect("sized");
    file
}

/// Reaps until nothing is under way.
fn finish(transfers: &mut Transfers) -> Vec<Completion> {
    let mut done = Vec::new();
    while transfers.in_flight() > 0 {
        transfers.reap(PATIENCE, |completion| done.push(completion)).expect("reaped");
    }
    done
}

fn request(slot: u32, operation: Operation, offset: u64, bytes: u32) -> Request {
    Request { slot, operation, offset, bytes, priority: Priority::NONE }
}

#[test]
fn every_engine_reads_back_what_it_wrote() {
    let held = [u32::MAX, 3, 1];
    for ((engine, slots), most) in
        engines().into_iter().flat_map(|engine| held.map(|most| (engine, most)))
    {
        let Some(mut transfers) = transfers(engine, scratch(64), slots) else { continue };
        transfers.hold_at_most(most);
        for block in 0..64_u64 {
            let slot = (block % u64::from(slots)) as u32;
            if slot == 0 {
                assert!(
                    finish(&mut transfers).iter().all(|done| done.result == BYTES as i32),
                    "{engine:?}"
                );
            }
            transfers.buffer(slot).fill(block as u8 + 1);
            let offset = block * BYTES as u64;
            transfers.queue(request(slot, Operation::Write, offset, BYTES as u32));
        }
        finish(&mut transfers);
        for block in (0..64_u64).rev() {
            let offset = block * BYTES as u64;
            transfers.buffer(0).fill(0);
            transfers.queue(request(0, Operation::Read, offset, BYTES as u32));
            assert_eq!(
                finish(&mut transfers),
                [Completion { slot: 0, result: BYTES as i32 }],
                "{engine:?}"
            );
            assert!(
                transfers.buffer(0).iter().all(|byte| *byte == block as u8 + 1),
                "{engine:?} block {block}"
            );
        }
        println!("{}", transfers.described());
    }
}

#[test]
fn requests_that_are_not_held_start_before_the_first_reap() {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let file = File::from(std::os::fd::OwnedFd::from(writer));
    let Some(mut transfers) = transfers(Engine::IoUring, file, SLOTS) else { return };
    assert!(!transfers.hands_over_early());
    transfers.hold_at_most(1);
    assert!(transfers.hands_over_early());
    transfers.reap(Duration::ZERO, |_| {}).expect("the ring is ours from now on");
    transfers.buffer(0)[..4].copy_from_slice(b"here");
    transfers.queue(request(0, Operation::Write, 0, 4));
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut read = [0; 4];
        let _ = tell.send(std::io::Read::read_exact(&mut reader, &mut read).map(|()| read));
    });
    let read = told.recv_timeout(PATIENCE).expect("written without being reaped").expect("whole");
    assert_eq!(&read, b"here");
    assert_eq!(finish(&mut transfers), [Completion { slot: 0, result: 4 }]);
}

/// An overloaded worker never waits: it polls, and must find transfers that have ended.
#[test]
fn a_reap_without_patience_finds_transfers_that_have_ended() {
    for engine in [Engine::IoUring, Engine::IoUringThread] {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let Some(mut transfers) = transfers(engine, file, SLOTS) else { continue };
        transfers.queue(request(0, Operation::Read, 0, 4));
        assert_eq!(
            transfers.reap(Duration::ZERO, |_| {}).expect("a look"),
            0,
            "{engine:?}: nothing was written yet"
        );
        writer.write_all(b"here").expect("written");
        let until = std::time::Instant::now() + PATIENCE;
        let mut found = Vec::new();
        while found.is_empty() && std::time::Instant::now() < until {
            transfers.reap(Duration::ZERO, |completion| found.push(completion)).expect("a look");
        }
        assert_eq!(
            found,
            [Completion { slot: 0, result: 4 }],
            "{engine:?}: the read ended and was not found"
        );
    }
}

#[test]
fn a_hole_is_punched_and_a_flush_moves_nothing() {
    for (engine, slots) in engines() {
        let mut file = scratch(4);
        file.write_all(&[7; 4 * BYTES]).expect("written");
        let seen = file.try_clone().expect("a second descriptor");
        let Some(mut transfers) = transfers(engine, file, slots) else { continue };
        for operation in [Operation::Fsync, Operation::Fdatasync, Operation::Trim] {
            if !Transfers::can(engine, operation, false) {
                continue;
            }
            transfers.queue(request(0, operation, BYTES as u64, BYTES as u32));
            let done = finish(&mut transfers);
            assert_eq!(
                done,
                [Completion { slot: 0, result: operation.expected(BYTES as u32) }],
                "{engine:?} {operation:?}"
            );
        }
        let mut found = vec![0; 4 * BYTES];
        std::os::unix::fs::FileExt::read_exact_at(&seen, &mut found, 0).expect("read back");
        let punched = if Transfers::can(engine, Operation::Trim, false) { 0 } else { 7 };
        assert!(found[BYTES..2 * BYTES].iter().all(|byte| *byte == punched), "{engine:?}");
        assert!(
            found[..BYTES].iter().chain(&found[2 * BYTES..]).all(|byte| *byte == 7),
            "{engine:?}: only the hole"
        );
    }
}

#[test]
fn a_short_read_and_an_error_are_reported() {
    for (engine, slots) in engines() {
        let mut file = scratch(1);
        file.write_all(b"x").expect("written");
        let Some(mut transfers) = transfers(engine, file, slots) else { continue };
        let read = |offset| request(0, Operation::Read, offset, BYTES as u32);
        transfers.queue(read(BYTES as u64 - 100));
        assert_eq!(finish(&mut transfers)[0].result, 100, "{engine:?}");
        transfers.queue(read(10 * BYTES as u64));
        assert_eq!(finish(&mut transfers)[0].result, 0, "{engine:?}");

        let (unreadable, _writer) = std::io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(unreadable));
        let mut transfers = Transfers::new(engine, file, slots, BYTES).expect("it worked above");
        transfers.queue(request(0, Operation::Write, 0, 8));
        assert!(finish_or_refused(&mut transfers) < 0, "{engine:?}");
    }
}

/// Returns the result of the only request. Native AIO refuses an obvious mistake already at
/// submission.
fn finish_or_refused(transfers: &mut Transfers) -> i32 {
    let mut result = 0;
    match transfers.reap(PATIENCE, |completion| result = completion.result) {
        Ok(_) => result,
        Err(_) => -1,
    }
}

#[test]
fn waiting_for_nothing_ends_in_time() {
    for (engine, slots) in engines() {
        let Some(mut transfers) = transfers(engine, scratch(1), slots) else { continue };
        let before = std::time::Instant::now();
        assert_eq!(transfers.reap(PATIENCE, |_| {}).expect("nothing to do"), 0);
        assert!(before.elapsed() < PATIENCE, "{engine:?}");
    }
}

#[test]
#[should_panic(expected = "slot 0 is under way")]
fn the_buffer_of_a_slot_under_way_is_inaccessible() {
    let Some(mut transfers) = transfers(Engine::IoUring, scratch(1), SLOTS) else {
        panic!("slot 0 is under way")
    };
    transfers.queue(request(0, Operation::Read, 0, BYTES as u32));
    let _ = transfers.buffer(0);
}

#[test]
fn an_engine_dropped_with_transfers_under_way_ends() {
    for (engine, slots) in engines() {
        let Some(mut transfers) = transfers(engine, scratch(64), slots) else { continue };
        for slot in 0..slots {
            transfers.queue(request(slot, Operation::Read, 0, BYTES as u32));
        }
        drop(transfers);
    }
}
