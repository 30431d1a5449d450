//! The golden frames: each decodes to what its note says and is emitted again byte for byte; and an
//! analyser reads ours as we do.

use std::path::Path;
use std::process::Command as Process;

use linerate_packet::ncsi::{
    Answer, BufferReport, Checksum, Command, Letter, Notification, Outcome, PACKAGE_ITSELF, Reason,
    Speed, kind,
};
use linerate_packet::pcap::capture;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");

/// The frame of the file whose name begins with `number`.
fn frame(name: &str) -> Vec<u8> {
    let text = std::fs::read_to_string(Path::new(FOLDER).join(name)).expect(name);
    let hex: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    hex.as_bytes()
        .chunks(2)
        .map(|pair| {
            u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("hexadecimal")
        })
        .collect()
}

fn names() -> Vec<String> {
    let entries = std::fs::read_dir(FOLDER).expect("vectors").flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| name.ends_with(".hex"));
    names.sort();
    names
}

#[test]
fn every_golden_frame_is_emitted_again_byte_for_byte() {
    let names = names();
    assert_eq!(names.len(), 53);
    for name in names {
        let golden = frame(&name);
        let letter = Letter::parse(&golden).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        assert_ne!(letter.checksum, Checksum::Wrong, "{name}");
        let payload = if letter.is_notification() {
            Notification::parse(letter.payload).expect("a type").emit()
        } else if letter.is_response() {
            let (outcome, reason, answer) = Answer::parse(letter.command(), letter.payload);
            assert!(!matches!(answer, Answer::Other(_)), "{name}: {answer:?}");
            answer.emit(outcome, reason)
        } else {
            let command = Command::parse(letter.kind, letter.payload);
            assert!(!matches!(command, Command::Other { .. }), "{name}: {command:?}");
            assert_eq!(command.kind(), letter.kind);
            command.emit()
        };
        assert_eq!(Letter { payload: &payload, ..letter }.emit(), golden, "{name}");
    }
}

fn answer(name: &str) -> (Outcome, Reason, Answer) {
    let golden = frame(name);
    let letter = Letter::parse(&golden).expect("golden");
    Answer::parse(letter.command(), letter.payload)
}

#[test]
fn golden_commands_mean_what_their_notes_say() {
    let command = |name: &str| {
        let golden = frame(name);
        let letter = Letter::parse(&golden).expect("golden");
        (letter.package, letter.channel, Command::parse(letter.kind, letter.payload))
    };
    let expected = [
        (
            "02_req_select_package_p2_hwa.hex",
            (2, PACKAGE_ITSELF, Command::SelectPackage { arbitration: true }),
        ),
        ("05_req_disable_channel.hex", (0, 0, Command::DisableChannel { link_down: true })),
        ("09_req_aen_enable.hex", (0, 0, Command::AenEnable { management: 0, control: 7 })),
        (
            "12_req_set_vlan_filter.hex",
            (0, 0, Command::SetVlanFilter { tag: 100, index: 1, enable: true }),
        ),
        ("13_req_enable_vlan_mode2.hex", (0, 0, Command::EnableVlan { mode: 2 })),
        ("21_req_set_flow_control.hex", (0, PACKAGE_ITSELF, Command::SetFlowControl(3))),
    ];
    for (name, meaning) in expected {
        assert_eq!(command(name), meaning, "{name}");
    }
    let (.., mac) = command("16_req_set_mac_mcast.hex");
    assert!(
        matches!(mac, Command::SetMacAddress { index: 3, multicast: true, enable: true, .. }),
        "{mac:?}"
    );
    assert_eq!(
        Letter::parse(&frame("33_req_no_checksum.hex")).map(|letter| letter.checksum),
        Ok(Checksum::Absent)
    );
}

#[test]
fn golden_answers_mean_what_their_notes_say() {
    let refused = |name: &str| {
        let (outcome, reason, _) = answer(name);
        (outcome, reason)
    };
    assert_eq!(
        refused("35_rsp_init_required.hex"),
        (Outcome::Failed, Reason::INITIALIZATION_REQUIRED)
    );
    assert_eq!(refused("36_rsp_unsupported.hex"), (Outcome::Unsupported, Reason::UNKNOWN_COMMAND));
    assert_eq!(refused("37_rsp_bad_length.hex").1, Reason(5));
    assert_eq!(refused("38_rsp_mac_zero.hex").1, Reason(0x0e08));
    let Answer::LinkStatus(link) = answer("39_rsp_link_up_1g.hex").2 else { panic!("link status") };
    assert!(link.is_up() && link.host_driver_runs());
    assert_eq!(link.speed(), Some(Speed { megabits: 1000, full_duplex: true }));
    assert_eq!(link.flow_control(), (true, true));
    let Answer::Version(version) = answer("40_rsp_version.hex").2 else { panic!("version") };
    assert_eq!(
        (version.standard_text(), version.firmware_name_text()),
        ("1.0.1".into(), "linerate-nc".into())
    );
    assert_eq!(
        (version.firmware_text(), version.pci, version.enterprise),
        ("01.02.03.04".into(), [0x1521, 0x8086, 1, 0x8086], 0x157)
    );
    let Answer::Capabilities(capabilities) = answer("41_rsp_capabilities_8k.hex").2 else {
        panic!("capabilities")
    };
    assert_eq!(capabilities.buffer_report(), BufferReport::Bytes(8192));
    assert_eq!(
        (capabilities.filters, capabilities.vlan_modes, capabilities.channels),
        ([8, 0, 2, 2], 5, 1)
    );
    let Answer::Parameters(parameters) = answer("42_rsp_parameters.hex").2 else {
        panic!("parameters")
    };
    assert_eq!((parameters.macs.len(), parameters.macs_enabled), (2, 1));
    assert_eq!((parameters.vlan_tags, parameters.vlan_tags_enabled), (vec![100, 0, 200], 5));
    let Answer::PassThroughStatistics(passed) = answer("45_rsp_passthru_stats.hex").2 else {
        panic!("statistics")
    };
    assert_eq!((passed.legacy, &passed.counters[5..7]), (false, &[Some(50_000), Some(4321)][..]));
    let Answer::PassThroughStatistics(legacy) = answer("46_rsp_passthru_stats_legacy32.hex").2
    else {
        panic!("older")
    };
    assert!(legacy.legacy);
    let Answer::PortStatistics(port) = answer("43_rsp_ctrl_pkt_stats.hex").2 else {
        panic!("port statistics")
    };
    assert!(port.counters.iter().all(Option::is_some));
}

#[test]
fn golden_notifications_mean_what_their_notes_say() {
    let told =
        |name: &str| Notification::parse(Letter::parse(&frame(name)).expect("golden").payload);
    assert!(matches!(told("50_aen_link_down.hex"),
            Some(Notification::LinkStatus { bits, .. }) if bits & 1 == 0));
    assert_eq!(told("51_aen_config_required.hex"), Some(Notification::ConfigurationRequired));
    assert_eq!(told("52_aen_host_driver.hex"), Some(Notification::HostDriver { runs: true }));
}

/// tshark reads each frame as we do, for the fields that the index names (those it decodes
/// correctly).
#[test]
fn an_analyser_reads_our_frames_as_we_do() {
    if Process::new("tshark").arg("--version").output().is_err() {
        println!("skipped: an_analyser_reads_our_frames_as_we_do: tshark is not installed");
        return;
    }
    let index = std::fs::read_to_string(Path::new(FOLDER).join("index.json")).expect("index");
    let index: Vec<serde_json::Value> = serde_json::from_str(&index).expect("JSON");
    // Ours, not the golden ones: decoded and encoded again.
    let frames: Vec<Vec<u8>> = names()
        .iter()
        .map(|name| {
            let golden = frame(name);
            let letter = Letter::parse(&golden).expect("golden");
            Letter { payload: letter.payload, ..letter }.emit()
        })
        .collect();
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), capture(frames.iter().map(Vec::as_slice))).expect("written");
    let mut compared = 0;
    for (number, entry) in index.iter().enumerate() {
        let fields = entry["tshark"].as_object().expect("fields");
        let mut wanted = vec![("ncsi.iid".to_owned(), format!("0x{:02x}", frames[number][17]))];
        wanted.extend(
            fields
                .iter()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned())),
        );
        let mut tshark = Process::new("tshark");
        tshark.arg("-r").arg(file.path()).args([
            "-Y",
            &format!("frame.number == {}", number + 1),
            "-T",
            "fields",
        ]);
        tshark.args(["-E", "separator=|", "-E", "occurrence=f"]);
        for (field, _) in &wanted {
            tshark.args(["-e", field]);
        }
        let output = tshark.output().expect("tshark runs");
        let line = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        let expected: Vec<&str> = wanted.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(line.split('|').collect::<Vec<_>>(), expected, "{} {wanted:?}", entry["file"]);
        compared += wanted.len();
    }
    println!("{compared} fields of {} frames agree", frames.len());
    assert!(compared > 80, "{compared}");
    assert_eq!(kind::GET_CAPABILITIES, 0x16);
}
