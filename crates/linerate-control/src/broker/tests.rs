//! The broker decides by itself: it does not trust a request, and refuses everything that the
//! policy does not permit.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_disk::{Disks, FileLimits, Keeper, Permission, Writable};
use linerate_load::{Limits, Permits};
use linerate_sys::live::Shape;
use linerate_sys::privilege::{Helper, Sideband, SocketOption};
use serde_json::{Value, json};

use super::{Broker, BrokerKeeper, Duties, Request, keep};
use crate::{Consent, Keeping, Setting, TuneRequest};

/// EtherType of NC-SI.
const NCSI: u16 = 0x88f8;

fn duties(limits: Limits, files: FileLimits) -> Duties {
    Duties {
        permits: Permits::only(limits),
        files: Some(files),
        writable: Writable::default(),
        consent: Consent {
            keeping: Keeping::Refused { policy: "policy".into() },
            ..Consent::default()
        },
        memory: Some(1 << 30),
        keys: None,
        facts: || json!({ "kernel": "a fact" }),
    }
}

/// Starts a broker on a thread of this process.
fn begin(duties: Duties) -> (Arc<Broker>, JoinHandle<Result<(), String>>) {
    let (here, there) = UnixStream::pair().expect("a pair");
    let broker = std::thread::spawn(move || keep(OwnedFd::from(there), duties));
    (Arc::new(Broker::at(here)), broker)
}

fn usual() -> Duties {
    duties(Limits::new("policy"), FileLimits::new("policy"))
}

#[test]
fn what_the_policy_does_not_permit_is_refused_by_the_broker_with_the_line_that_would() {
    let (broker, _thread) = begin(usual());
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    let why = broker
        .bind(socket.as_fd(), "127.0.0.1:80".parse().expect("an address"))
        .expect_err("reserved")
        .to_string();
    assert!(why.contains("lowest_port = 80"), "{why}");
    let shape = Shape { header_bytes: 60, checksum_at: 40, stamp_at: 48, random_ports_at: None };
    let live = || broker.live_frames("lo", &[], shape).map(|live| live.program);
    for why in [broker.packet_socket("lo", 0x0800), broker.xdp_socket("lo"), live()] {
        let why = why.expect_err("not permitted").to_string();
        assert!(
            why.contains("raw frames at interface lo") && why.contains("raw_frames = true"),
            "{why}"
        );
    }
    let why = broker.packet_socket("lo", NCSI).expect_err("not permitted").to_string();
    assert!(why.contains("over NC-SI") && why.contains("ncsi = [\"lo\"]"), "{why}");
    let at = Sideband { device: "lo".into(), package: 0, channel: 0 };
    let why = broker.sideband_statistics(&at, Duration::ZERO).expect_err("not permitted");
    assert!(why.to_string().contains("ncsi = [\"lo\"]"), "{why}");
    let why = broker.run_first(1).expect_err("not permitted").to_string();
    assert!(why.contains("realtime = true"), "{why}");
    let keeper = BrokerKeeper::begin(Arc::clone(&broker));
    for (asked, line) in [
        (keeper.open(Path::new("/etc/shadow"), Permission::Read), "read = [\"/etc/shadow\"]"),
        (
            keeper.open(Path::new("/dev/vda"), Permission::Write { consent: Some("S1") }),
            "--allow-write",
        ),
        (keeper.scratch(Path::new("/root"), 1), "folders = [\"/root\"]"),
        (keeper.scratch(Path::new("/tmp"), u64::MAX), "disk_space"),
    ] {
        let why = asked.expect_err("not permitted").to_string();
        assert!(why.contains(line), "{why} lacks {line}");
    }
    assert!(!keeper.is_folder(Path::new("/root")) && keeper.is_folder(Path::new("/tmp")));
    let setting = Setting::Sysctl { name: "net.ipv4.tcp_rmem".into(), value: "1 2 3".into() };
    let why = broker.tune(TuneRequest::Apply(vec![setting])).expect_err("nobody agreed");
    assert!(why.contains("--allow-tune host"), "{why}");
    let why = broker.tune(TuneRequest::Keep).expect_err("nobody agreed");
    assert!(why.contains("keep = true"), "{why}");
    assert!(broker.peers().expect_err("there are no keys").contains("no keys"));
    assert_eq!(broker.facts(), json!({ "kernel": "a fact" }));
}

#[test]
fn only_sockets_of_the_internet_are_bound_and_buffers_stay_within_the_policy() {
    let (broker, _thread) = begin(usual());
    let any = "127.0.0.1:0".parse().expect("an address");
    let local = UnixStream::pair().expect("a pair").0;
    let why = broker
        .bind(local.as_fd(), any)
        .expect_err("it would make a name in the file system")
        .to_string();
    assert!(why.contains("no internet socket"), "{why}");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let why = broker
        .set_option(udp.as_fd(), SocketOption::ReceiveBuffer((1 << 30) + 1))
        .expect_err("too large")
        .to_string();
    assert!(why.contains("larger than the memory of a conductor"), "{why}");
    let tcp =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    broker.bind(tcp.as_fd(), any).expect("any free port");
    assert_ne!(
        tcp.local_addr().expect("bound").as_socket().expect("of the internet").port(),
        0,
        "it is this very socket"
    );
    let module = SocketOption::Congestion("lr-none".into());
    assert_eq!(
        broker.set_option(tcp.as_fd(), module).expect_err("no such module").kind(),
        std::io::ErrorKind::NotFound
    );
}

#[test]
fn a_session_has_its_files_by_descriptor_and_loses_them_with_its_end() {
    // In memory: a disk that is nearly full takes no scratch file.
    let ground = tempfile::tempdir_in("/dev/shm").expect("a folder");
    fs::write(ground.path().join("data"), vec![7; 8192]).expect("a file");
    let place = vec![ground.path().to_owned()];
    let files = FileLimits { read: place.clone(), folders: place, ..FileLimits::new("policy") };
    let (broker, thread) = begin(duties(Limits::new("policy"), files));
    let begin_session = || Arc::new(BrokerKeeper::begin(Arc::clone(&broker)));
    let keeper = begin_session();
    let disks =
        Disks::new(Writable::default()).kept_by(Some(Arc::clone(&keeper) as Arc<dyn Keeper>));
    let target =
        disks.open(&ground.path().join("data"), Permission::Read).expect("it is permitted");
    assert_eq!((target.range(), target.is_writable()), (0..8192, false));
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut target.open(false, false).expect("again"), &mut text)
        .expect("readable");
    assert_eq!(text, vec![7; 8192]);
    assert!(target.open(true, false).is_err(), "it was opened to read");
    let scratch = disks.scratch(ground.path(), 1 << 16).expect("it is permitted");
    assert!(Arc::ptr_eq(&scratch, &disks.scratch(ground.path(), 1 << 16).expect("the same")));
    assert!(!Arc::ptr_eq(&scratch, &disks.scratch(ground.path(), 1 << 17).expect("another size")));
    // Another session has neither target, under any number.
    let other = begin_session();
    for number in 0..8 {
        assert!(
            other.reopen(number, false, false, linerate_disk::Synchrony::None).is_err(),
            "{number}"
        );
    }
    drop((target, scratch, disks, keeper, other));
    drop(broker);
    thread.join().expect("no panic").expect("the agent has ended, and so does its broker");
}

#[test]
fn whoever_may_ask_a_controller_at_one_interface_may_not_send_other_frames_nor_elsewhere() {
    let (broker, _thread) = begin(duties(
        Limits { ncsi: vec!["lo".into()], ..Limits::new("policy") },
        FileLimits::new("policy"),
    ));
    // The kernel may still refuse what the policy permits: then the error is the kernel's.
    let why = |answer: std::io::Result<OwnedFd>| {
        answer.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(!why(broker.packet_socket("lo", NCSI)).contains("policy"));
    assert!(why(broker.packet_socket("lo", 0x0800)).contains("raw_frames = true"));
    assert!(why(broker.packet_socket("eth1", NCSI)).contains("ncsi = [\"eth1\"]"));
}

#[test]
fn only_threads_of_the_agent_are_given_a_priority() {
    let (broker, _thread) = begin(duties(
        Limits { realtime: true, ..Limits::new("policy") },
        FileLimits::new("policy"),
    ));
    // Process 1 does not belong to the agent.
    assert_eq!(
        broker.run_first(1).expect_err("a stranger's").kind(),
        std::io::ErrorKind::PermissionDenied
    );
}

#[test]
fn a_request_that_is_none_ends_the_broker_and_says_why() {
    let (here, there) = UnixStream::pair().expect("a pair");
    let broker = std::thread::spawn(move || keep(OwnedFd::from(there), usual()));
    super::channel::send(&here, &json!({ "run": "/bin/sh" }), &[]).expect("sent");
    let why = broker.join().expect("no panic").expect_err("there is no such request");
    assert!(why.contains("read a request of the agent: unknown variant `run`"), "{why}");
}

#[test]
fn a_broker_that_has_ended_is_said_to_have() {
    let (here, there) = UnixStream::pair().expect("a pair");
    drop(there);
    let why = Broker::at(here).ask::<Value>(&Request::Facts, &[]).expect_err("nobody answers").why;
    assert!(why.contains("restart the agent"), "{why}");
}

#[test]
fn descriptors_go_both_ways_with_their_message() {
    let (here, there) = UnixStream::pair().expect("a pair");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    super::channel::send(&here, &Request::Facts, &[listener.as_fd(), listener.as_fd()])
        .expect("sent");
    let (request, descriptors) =
        super::channel::receive::<Request>(&there).expect("whole").expect("one");
    let addresses =
        descriptors.into_iter().map(|one| TcpListener::from(one).local_addr().expect("a listener"));
    assert_eq!(
        (request, addresses.collect()),
        (Request::Facts, vec![listener.local_addr().expect("bound"); 2])
    );
}
