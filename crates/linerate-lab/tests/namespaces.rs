//! Labs on the real kernel: built, reachable, shaped as described, and gone afterwards.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use linerate_lab::{Description, Family, Lab};
use linerate_sys::netns::within;

use crate::host::ran;
use crate::privileged;

/// Returns every shipped lab: its name and its text.
fn shipped() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
    let files = std::fs::read_dir(folder).expect("there are some");
    let paths = files.map(|file| file.expect("readable").path());
    paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| (path.display().to_string(), std::fs::read_to_string(path).expect("text")))
        .collect()
}

fn describe(text: &str) -> Description {
    let (description, problems) = Description::parse(text);
    assert_eq!(problems, []);
    description.expect("no problem")
}

fn namespaces_of(instance: &str) -> usize {
    beginning(&format!("lr-{instance}-"))
}

/// Returns the number of namespaces whose names begin with `prefix`.
fn beginning(prefix: &str) -> usize {
    ran("ip netns list").lines().filter(|line| line.starts_with(prefix)).count()
}

#[test]
fn every_shipped_lab_stands_and_its_endpoints_reach_each_other() {
    let Some(()) = privileged() else { return };
    let labs = shipped();
    assert!(labs.len() > 20, "{}", labs.len());
    for ((name, text), family) in
        labs.iter().flat_map(|lab| [(lab, Family::Ipv4), (lab, Family::Ipv6)])
    {
        let instance = std::process::id().to_string();
        let lab = Lab::build(&Description { family, ..describe(text) }, &instance)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let [first, .., last] = &lab.testbed().endpoints[..] else {
            panic!("{name}: two endpoints at least")
        };
        let (from, to) = (first.address.expect("placed"), last.address.expect("placed"));
        let namespace = |host: &str| format!("lr-{instance}-{host}");
        let listener = within(&namespace(&last.host), || TcpListener::bind((to, 0)))
            .expect("entered")
            .expect("bound");
        let target = listener.local_addr().expect("bound");
        let reached = within(&namespace(&first.host), || {
            TcpStream::connect_timeout(&target, Duration::from_secs(30))
        });
        reached.expect("entered").unwrap_or_else(|e| panic!("{name}: {from} to {target}: {e}"));
        assert!(namespaces_of(&instance) >= 2);
        drop(lab);
        assert_eq!(namespaces_of(&instance), 0, "{name} left namespaces behind");
    }
}

#[test]
fn the_second_cable_carries_frames_while_the_first_is_down() {
    let Some(()) = privileged() else { return };
    let text = "[lab]\nname='f'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[failover]]\n\
        ends=['a','b']\nevery='20 s'\nlength='19 s'\n";
    let instance = format!("{}f", std::process::id());
    let lab = Lab::build(&describe(text), &instance).expect("built");
    let at = format!("ip -n lr-{instance}-a -o link show");
    let is_down = |port: &str| !ran(&format!("{at} {port}")).contains("LOWER_UP");
    eventually("the first cable fails", || is_down("b0f0"));
    assert!(!is_down("b0f1") && !is_down("b0"), "the bridge keeps its carrier");
    let [_, b] = &lab.testbed().endpoints[..] else { panic!("two endpoints") };
    // A datagram may be lost while the kernel resolves the address.
    let address = b.address.expect("placed");
    let command = format!("ip netns exec lr-{instance}-a ping -c 5 -W 2 {address}");
    assert!(ran(&command).contains(" bytes from "), "nothing came back");
}

/// Lab with everything that is visible from outside: namespaces, one of them of an emulated device,
/// and a control group if the host has any.
const EVERYTHING: &str = "[lab]\nname='k'\n[[host]]\nname='a'\ncpu='50 \
    %'\n[[host]]\nname='b'\n[[link]]\nends=['a','b']\ndelay='1 ms'\n";

/// Runs the test `name` as the victim: it builds a lab and waits to be killed.
fn victim(name: &str) -> Option<std::process::Child> {
    if std::env::var_os("LINERATE_LAB_VICTIM").is_some() {
        let without = EVERYTHING.replace("cpu='50 %'\n", "");
        let lab = Lab::build(&describe(EVERYTHING), &Lab::instance());
        let _lab =
            lab.or_else(|_| Lab::build(&describe(&without), &Lab::instance())).expect("built");
        println!("standing");
        loop {
            std::thread::park();
        }
    }
    let (_, module) = module_path!().split_once("::").expect("a module of the test program");
    // A test run in the background or behind `nohup` ignores these signals, and its children
    // inherit that.
    let mut victim = Command::new("env")
        .arg("--default-signal=HUP,QUIT")
        .arg(std::env::current_exe().expect("own path"))
        .args(["--exact", &format!("{module}::{name}"), "--nocapture"])
        .env("LINERATE_LAB_VICTIM", "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().expect("piped")));
    assert!(lines.any(|line| line.is_ok_and(|l| l.contains("standing"))));
    Some(victim)
}

/// Returns the names that begin like those of the labs of `process`.
fn names_of(process: u32) -> usize {
    beginning(&format!("lr-{process}."))
}

fn groups_of(process: u32) -> usize {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"];
    let entries =
        mounts.iter().filter_map(|mount| std::fs::read_dir(mount).ok()).flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&format!("lr-{process}.")))
        .count()
}

fn signal(pid: u32, name: &str) {
    ran(&format!("kill -{name} {pid}"));
}

fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_outlives_a_lab_whose_maker_is_killed() {
    const NAME: &str = "nothing_outlives_a_lab_whose_maker_is_killed";
    let Some(()) = privileged() else { return };
    for name in ["KILL", "HUP", "QUIT"] {
        let Some(mut victim) = victim(NAME) else { return };
        let pid = victim.id();
        // Two hosts, and the emulated device of the delayed link.
        assert_eq!(names_of(pid), 3);
        assert!(
            !linerate_lab::abandoned()
                .expect("ip runs")
                .iter()
                .any(|n| n.starts_with(&format!("lr-{pid}.")))
        );
        signal(pid, name);
        victim.wait().expect("our child");
        eventually("the supervisor removes all of it", || names_of(pid) + groups_of(pid) == 0);
    }
}

/// Like the end of a PID namespace: no supervisor is left, and only the lock shows that the lab has
/// no owner.
/// Returns true if `process` is gone, or a zombie, which holds no locks.
fn has_ended(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

#[test]
fn what_a_killed_supervisor_left_is_reaped() {
    const NAME: &str = "what_a_killed_supervisor_left_is_reaped";
    let Some(()) = privileged() else { return };
    let Some(mut victim) = victim(NAME) else { return };
    let pid = victim.id();
    let is_supervisor = |process: &String| {
        let read =
            |file: &str| std::fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
        let stat = String::from_utf8_lossy(&read("stat")).into_owned();
        stat.contains(&format!(") S {pid} "))
            && String::from_utf8_lossy(&read("cmdline")).contains("lab supervisor")
    };
    let processes = std::fs::read_dir("/proc").expect("it is mounted").flatten();
    let mut processes = processes.filter_map(|entry| entry.file_name().into_string().ok());
    let supervisor: u32 =
        processes.find(is_supervisor).and_then(|pid| pid.parse().ok()).expect("it runs");
    signal(supervisor, "KILL");
    victim.kill().expect("SIGKILL");
    victim.wait().expect("our child");
    // It is not our child, and holds its locks until it has ended.
    let killed = Instant::now();
    while !has_ended(supervisor) {
        assert!(killed.elapsed() < Duration::from_secs(30), "the supervisor outlives SIGKILL");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(names_of(pid), 3, "nobody has removed them");
    let reaped = linerate_lab::reap().expect("ip runs");
    assert_eq!(
        reaped.iter().filter(|name| name.starts_with(&format!("lr-{pid}."))).count(),
        3,
        "{reaped:?}"
    );
    assert_eq!(names_of(pid) + groups_of(pid), 0);
}

#[test]
fn a_delayed_link_holds_every_frame_for_its_time() {
    let Some(()) = privileged() else { return };
    let text = "[lab]\nname='d'\n[[host]]\nname='a'\n[[host]]\nname='b'\n[[link]]\n\
        ends=['a','b']\ndelay='20 ms'\n";
    let instance = format!("{}d", std::process::id());
    let lab = Lab::build(&describe(text), &instance).expect("built");
    let [a, b] = &lab.testbed().endpoints[..] else { panic!("two endpoints") };
    let open = |host: &str, at| {
        within(&format!("lr-{instance}-{host}"), || UdpSocket::bind((at, 0)))
            .expect("entered")
            .expect("bound")
    };
    let (near, far) =
        (open("a", a.address.expect("placed")), open("b", b.address.expect("placed")));
    far.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let target = far.local_addr().expect("bound");
    let mut byte = [0; 1];
    // The first datagram triggers address resolution, which crosses the wire too.
    near.send_to(&[0], target).expect("sent");
    far.recv(&mut byte).expect("arrived");
    let start = Instant::now();
    near.send_to(&[1], target).expect("sent");
    far.recv(&mut byte).expect("arrived");
    let taken = start.elapsed();
    assert!(taken >= Duration::from_millis(20), "{taken:?}");
    assert_eq!((byte[0], lab.emulation_losses()), (1, 0));
}

#[test]
fn a_host_has_its_settings_and_its_share_of_a_cpu() {
    let Some(()) = privileged() else { return };
    let text = "[lab]\nname='h'\n[[host]]\nname='a'\ncpu='25 %'\nmin_rto='300 ms'\n\
                sysctl={'net.ipv4.tcp_sack'='0'}\n[[host]]\nname='b'\n[[link]]\nends=['a','b']\n";
    let instance = format!("{}h", std::process::id());
    let lab = match Lab::build(&describe(text), &instance) {
        Ok(lab) => lab,
        Err(error) if error.to_string().contains("of a CPU") => {
            println!("skipped: a_host_has_its_settings_and_its_share_of_a_cpu: {error}");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let (_, address) = &lab.testbed().hosts[0];
    let linerate_model::HostAddress::Command(prefix) = address else { panic!("{address:?}") };
    let run = |command: &[&str]| {
        let output =
            Command::new(&prefix[0]).args(&prefix[1..]).args(command).output().expect("starts");
        assert!(
            output.status.success(),
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(run(&["sysctl", "-n", "net.ipv4.tcp_sack"]).trim(), "0");
    let routes = run(&["ip", "route"]) + &run(&["ip", "-6", "route"]);
    assert_eq!(routes.matches("rto_min lock 300ms").count(), 2, "{routes}");
    // CPU time of a busy loop in half a second: a quarter, and a little for the start before the
    // group was counted.
    let spin =
        "end=$(($(date +%s%N) + 500000000)); while [ $(date +%s%N) -lt $end ]; do :; done; times";
    let start = Instant::now();
    let times = run(&["bash", "-c", spin]);
    let seconds = |text: &str| {
        let (minutes, seconds) = text.trim_end_matches('s').split_once('m').expect("XmY.Zs");
        60.0 * minutes.parse::<f64>().expect("minutes") + seconds.parse::<f64>().expect("seconds")
    };
    let used: f64 = times.lines().rev().take(2).flat_map(str::split_whitespace).map(seconds).sum();
    let share = used / start.elapsed().as_secs_f64();
    // It gets less on a busy machine.
    assert!(share > 0.0 && share < 0.35, "{share} of a CPU: {times}");
    drop(lab);
    assert_eq!(namespaces_of(&instance), 0);
    for mount in ["/sys/fs/cgroup", "/sys/fs/cgroup/cpu"] {
        assert!(
            !std::path::Path::new(mount).join(format!("lr-{instance}-a")).exists(),
            "a group is left in {mount}"
        );
    }
}
