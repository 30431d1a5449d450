//! `frames` on loopback: every sent frame is accounted for, whatever the mode, size, direction and
//! family.

use std::sync::{Mutex, MutexGuard, PoisonError};

use Counter::{
    DatagramsReceived, DatagramsSent, Foreign, MessagesSent, PayloadReceived, PayloadSent,
    Reflected, SocketDrops, Started,
};
use linerate_load::engine::EngineReport;
use linerate_model::{Counter, LossLedger};
use serde_json::{Value, json};

use crate::ground::root;
use crate::shared::{self, V4, V6, flows_sum, ledgers, open, run_lossy_until, service, sum, ways};

/// Makes tests measure one after the other: on two CPUs a flood would leave no CPU for a paced
/// sender.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads both ends until every flow has carried something in each requested direction.
fn carried(ip: &str, table: &Value) -> [EngineReport; 2] {
    let all = |ends: &[EngineReport; 2]| {
        let mut ways = ways(table, ends).into_iter();
        ways.all(|[sender, receiver]| {
            ledgers(sender, receiver).iter().all(|ledger| ledger.unique > 0)
        })
    };
    run_lossy_until(|| open("frames", ip, table, |offer| offer), all)
}

/// Returns the frames that were lost, and those that the receiver's kernel dropped for lack of
/// room.
fn lost_and_dropped(sender: &EngineReport, receiver: &EngineReport) -> (u64, u64) {
    let lost = ledgers(sender, receiver).iter().map(LossLedger::lost).sum();
    (lost, flows_sum(receiver, SocketDrops))
}

/// Loads both ends until the receiver has read all waiting frames in the drain.
fn drained(table: &Value) -> [EngineReport; 2] {
    run_lossy_until(
        || open("frames", V4, table, |offer| offer),
        |[active, passive]| {
            let (lost, dropped) = lost_and_dropped(active, passive);
            sum(passive, DatagramsReceived) > 0 && lost == dropped
        },
    )
}

#[test]
fn every_frame_is_accounted_in_every_shape_direction_and_family() {
    let Some(()) = root("needs CAP_NET_RAW") else { return };
    let _turn = alone();
    for (ip, table) in [
        (V4, json!({ "rate": "4 kpps" })),
        (
            V4,
            json!({ "rate": "4 kpps", "mode": "packet_bypass", "direction": "rx",
                "poisson": true, "header": "tcp", "frame_size": "80 B" }),
        ),
        (
            V4,
            json!({ "rate": "8 kpps", "mode": "packet_ring", "direction": "both", "streams": 3,
                "frame_size": "imix" }),
        ),
        (
            V6,
            json!({ "rate": "4 kpps", "mode": "packet_ring_bypass", "frame_size": "9018 B",
                "burst": 20 }),
        ),
        (
            V4,
            json!({ "rate": "8 kpps", "direction": "both", "streams": 5, "workers": 2,
                "frame_size": "imix" }),
        ),
        (
            V4,
            json!({ "rate": "4 kpps", "vlan": 7, "frame_size": "68 B", "receive": "copy",
                "wait": "spin" }),
        ),
        (V4, json!({ "rate": "4 kpps", "vlan": 7, "outer_vlan": 8, "frame_size": "9018 B" })),
        (V4, json!({ "rate": "4 kpps", "mode": "udp", "frame_size": "imix", "streams": 2 })),
        (
            V6,
            json!({ "rate": "4 kpps", "mode": "udp", "frame_size": "84 B", "direction": "both",
                "burst": 4 }),
        ),
        (V4, json!({ "rate": "4 kpps", "ports": "random", "streams": 3, "burst": 10 })),
        (V4, json!({ "rate": "4 kpps", "frame_size": "rfc2544" })),
        (V6, json!({ "rate": "4 kpps", "frame_size": "128 B", "dscp": 46, "header": "tcp" })),
        (V6, json!({ "rate": "4 kpps", "frame_size": "84 B", "direction": "both" })),
    ] {
        let begun = std::time::Instant::now();
        let ends = carried(ip, &table);
        let span = begun.elapsed();
        for [sender, receiver] in ways(&table, &ends) {
            // On a busy machine a worker may get no CPU for longer than a ring can buffer. Frames
            // must then be lost there and nowhere else.
            let (lost, dropped) = lost_and_dropped(sender, receiver);
            assert_eq!(lost, dropped, "{table}");
            for ledger in ledgers(sender, receiver) {
                assert!(ledger.unique > 0, "{table} {ledger:?}");
                assert_eq!(ledger.sent, ledger.unique + ledger.lost() + ledger.late, "{table}");
                assert_eq!(
                    (ledger.duplicates, ledger.late, ledger.reordered),
                    (0, 0, 0),
                    "{table}"
                );
            }
            assert_eq!(sum(sender, DatagramsSent), flows_sum(sender, DatagramsSent), "{table}");
            assert_eq!(sum(sender, PayloadSent), flows_sum(sender, PayloadSent), "{table}");
            assert_eq!(sum(receiver, DatagramsReceived), flows_sum(receiver, DatagramsReceived));
            if lost == 0 {
                assert_eq!(sum(sender, PayloadSent), sum(receiver, PayloadReceived), "{table}");
            }
            assert_eq!((sum(receiver, Foreign), sum(receiver, Reflected)), (0, 0), "{table}");
            assert_eq!(sum(sender, Started), sum(sender, DatagramsSent), "{table}");
            // Both ends are on this host: every frame's time is known, and no frame took longer
            // than the whole run.
            let times = service(receiver);
            assert_eq!(times.count(), sum(receiver, DatagramsReceived), "{table}");
            assert!(
                times.max().flatten().is_some_and(|ns| u128::from(ns) <= span.as_nanos()),
                "{table}: {:?} in {span:?}",
                times.max()
            );
        }
    }
}

#[test]
fn as_fast_as_possible_missing_frames_were_dropped_by_the_ring() {
    let Some(()) = root("needs CAP_NET_RAW") else { return };
    let _turn = alone();
    // A ring of 4 MiB for frames that are copied whole. It overflows whenever the receiver has to
    // wait.
    let table = json!({ "frame_size": "1518 B", "receive": "copy", "receive_buffer": "4 MiB",
        "streams": 2 });
    let [active, passive] = drained(&table);
    let (lost, dropped) = lost_and_dropped(&active, &passive);
    println!(
        "{} sent, {lost} lost, {dropped} dropped at the ring",
        flows_sum(&active, DatagramsSent)
    );
    assert_eq!(lost, dropped);
}

#[test]
fn segments_of_udp_messages_are_frames_of_their_own() {
    let _turn = alone();
    let table = json!({ "mode": "udp", "frame_size": "64 B", "streams": 2 });
    let [active, passive] = carried(V4, &table);
    let (sent, messages) = (sum(&active, DatagramsSent), sum(&active, MessagesSent));
    for ledger in ledgers(&active, &passive) {
        assert!(ledger.unique > 0, "{ledger:?}");
        assert_eq!((ledger.duplicates, ledger.reordered, ledger.late), (0, 0, 0), "{ledger:?}");
    }
    assert_eq!(sum(&active, PayloadSent), sent * 18);
    assert!(messages * 32 < sent, "{sent} frames in {messages} messages");
    assert!(active.flows[0].modes["send"].starts_with("udp: gso"), "{:?}", active.flows[0].modes);
}

/// A socket of 64 KiB has room for a few coalesced messages. Its drops are counted in frames,
/// although the kernel counts messages.
#[test]
fn drops_of_a_small_udp_socket_are_counted_in_frames() {
    let _turn = alone();
    let table = json!({ "mode": "udp", "frame_size": "256 B", "receive_buffer": "64 KiB" });
    let [active, passive] = drained(&table);
    let (lost, dropped) = lost_and_dropped(&active, &passive);
    println!("{} sent, {lost} lost, {dropped} dropped", flows_sum(&active, DatagramsSent));
    assert_eq!(lost, dropped);
}

/// Runs this program once more without any privilege.
#[test]
fn without_privilege_only_udp_works_and_other_modes_name_the_missing_privilege() {
    const NAME: &str =
        "without_privilege_only_udp_works_and_other_modes_name_the_missing_privilege";
    const AS_NOBODY: &str = "LINERATE_TEST_AS_NOBODY";
    const NOBODY: u32 = 65_534;
    if std::env::var_os(AS_NOBODY).is_some() {
        return as_nobody();
    }
    let Some(()) = root("needs CAP_NET_RAW") else { return };
    let _turn = alone();
    // An unprivileged user may not be able to read the folder of this program.
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("frames");
    // Another program copies: a child that another test starts meanwhile would inherit a file open
    // for writing, and the kernel executes no such file (ETXTBSY).
    let this = std::env::current_exe().expect("it has a path");
    let copied = std::process::Command::new("cp").arg(this).arg(&program).status();
    assert!(copied.expect("cp starts").success());
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open_to_all).expect("the folder is ours");
    let (_, module) = module_path!().split_once("::").expect("a module of the test program");
    let mut command = std::process::Command::new(&program);
    let command = std::os::unix::process::CommandExt::uid(
        command.args(["--exact", &format!("{module}::{NAME}"), "--nocapture"]),
        NOBODY,
    );
    let ended = command.env(AS_NOBODY, "1").current_dir("/").output().expect("it starts");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    assert!(ended.status.success() && said.contains("1 passed"), "{said}");
}

fn as_nobody() {
    let [active, passive] = carried(V4, &json!({ "rate": "2 kpps" }));
    assert!(active.flows[0].modes["send"].starts_with("udp:"), "{:?}", active.flows[0].modes);
    assert!(ledgers(&active, &passive).iter().all(|ledger| ledger.unique > 0));
    for mode in [
        "packet",
        "packet_bypass",
        "packet_ring",
        "packet_ring_bypass",
        "xdp",
        "xdp_copy",
        "xdp_generic",
        "xdp_zero_copy",
        "live",
    ] {
        let (params, local) = (shared::params(json!({ "mode": mode })), shared::endpoint(V4));
        let workload = linerate_load::workload("frames").expect("registered");
        let said =
            workload.listen(&shared::setup(&params, &local)).err().expect("refused").to_string();
        assert!(said.contains("CAP_NET_RAW"), "{mode}: {said}");
    }
}

#[test]
fn a_size_without_room_is_refused_before_anything_is_sent() {
    let Some(()) = root("needs CAP_NET_RAW") else { return };
    let _turn = alone();
    // A size that IPv4 can carry is refused here, where the addresses are known. A size that
    // neither family can carry is refused when the plan is read.
    for (ip, table, least) in [
        (V6, json!({}), 84),
        (V6, json!({ "vlan": 1, "frame_size": "68 B" }), 88),
        (V6, json!({ "header": "tcp", "frame_size": "76 B" }), 96),
    ] {
        let listener = shared::listen("frames", ip, &table);
        let offer = listener.offer();
        let accepting =
            std::thread::spawn(move || listener.accept(shared::PATIENCE.into()).map(drop));
        let (params, local) = (shared::params(table), shared::endpoint(ip));
        let workload = linerate_load::workload("frames").expect("registered");
        let error = workload
            .connect(&shared::setup(&params, &local), &offer)
            .err()
            .expect("too small")
            .to_string();
        assert!(error.contains(&format!("at least {least} B")), "{error}");
        drop(accepting.join().expect("no panic"));
    }
}
