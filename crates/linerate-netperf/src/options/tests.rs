use super::*;

fn asked(line: &str) -> Result<Options> {
    match parse(line.split_whitespace().map(OsString::from))? {
        Asked::Test(options) => Ok(*options),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_command_lines_of_flent_are_understood() {
    let options = asked(
        "-P 0 -v 0 -D -0.20 -4 -Y 0xb8,0xb8 -H 192.0.2.1 -p 12866 -t TCP_MAERTS -l 60 \
         -F /dev/urandom -f m -- -H 192.0.2.2 -k THROUGHPUT,DIRECTION -K cubic",
    )
    .expect("understood");
    assert!(!options.has_headings && options.is_brief && options.is_ipv6 == Some(false));
    assert_eq!(options.interim, Some(Duration::from_millis(200)));
    assert_eq!((options.classes, options.port), ([0xb8; 2], 12_866));
    assert_eq!((options.test.name, options.test.flow), ("TCP_MAERTS", Flow::Receive));
    assert_eq!(options.length, Length::Time(Duration::from_secs(60)));
    assert_eq!(options.fill, ["/dev/urandom".to_owned(), String::new()]);
    assert_eq!(options.unit, UNITS[0]);
    assert_eq!(
        (options.host.as_str(), options.data_host.as_deref()),
        ("192.0.2.1", Some("192.0.2.2"))
    );
    assert_eq!(
        (options.format, options.selection.as_deref()),
        (Format::Pairs, Some("THROUGHPUT,DIRECTION"))
    );
    assert_eq!(options.congestion, ["cubic"; 2]);
    // Its question whether UDP_RR has a timeout and -D takes a negative time.
    let options = asked("-l 1 -D -0.2 -t UDP_RR -- -e 1").expect("understood");
    assert_eq!(options.timeout, Some(Duration::from_secs(1)));
    let probe = asked("-l 1 -D -0.2 -- -e 1").expect_err("a stream has no timeout").to_string();
    assert!(!probe.contains("invalid option -- '"), "{probe}");
}

#[test]
fn pairs_are_split_as_netperf_does() {
    let options = asked("-- -m 1K,2k -M ,3M -s 4 -S 5, -r ,7 -P 8,9").expect("understood");
    assert_eq!(options.send_sizes, [Some(1_024), Some(2_000)]);
    assert_eq!(options.receive_sizes, [Some(3 << 20), None], "the first is the server's");
    assert_eq!(options.buffers, [[Some(4); 2], [Some(5), None]]);
    assert_eq!((options.exchange, options.data_ports), ([1, 7], [8, 9]));
    let options = asked("-- -m 1 -M 2 -r 3").expect("understood");
    assert_eq!((options.send_sizes, options.receive_sizes), ([Some(1), None], [None, Some(2)]));
    assert_eq!(options.exchange, [3; 2]);
}

#[test]
fn a_list_of_selectors_may_be_missing() {
    let selection = |line| asked(line).expect("understood").selection;
    assert_eq!(selection("-- -k"), None);
    assert_eq!(selection("-- -k -D"), None);
    assert_eq!(selection("-- -o ? -D").as_deref(), Some("?"));
}

#[test]
fn a_test_is_chosen_by_name_or_by_its_parts() {
    let test = |line| asked(line).map(|options| options.test.name);
    assert_eq!(test("-t udp_rr"), Ok("UDP_RR"));
    assert_eq!(test("-t omni -- -d rr -T udp"), Ok("UDP_RR"));
    assert_eq!(test("-t omni -- -c -d rr"), Ok("TCP_CRR"));
    assert_eq!(test("-t omni -- -d rr -c"), Ok("TCP_CRR"));
    assert_eq!(test("-t TCP_RR -- -c"), Ok("TCP_CRR"));
    assert_eq!(test("-t omni -- -t dgram"), Ok("UDP_STREAM"));
    assert!(test("-t SCTP_STREAM").is_err());
    for none in ["-t omni -- -c", "-t UDP_RR -- -c", "-t omni -- -d recv -T udp"] {
        assert_eq!(test(none), Err(WrongOption::NoTest), "{none}");
    }
}

#[test]
fn what_is_not_understood_is_refused_with_its_reason() {
    let refused = |line| asked(line).expect_err(line).to_string();
    assert_eq!(refused("-x"), "invalid option -- 'x'");
    assert_eq!(refused("-H"), "option requires an argument -- 'H'");
    assert_eq!(refused("-- -C"), "-C is not supported: TCP_CORK is not used");
    assert!(refused("-N").contains("a test needs a server"));
    assert!(refused("-Y 0x1ff").contains("a traffic class"));
    assert!(refused("-v 2").contains("percentiles"));
    assert!(refused("host").contains("is not an option"));
    assert!(refused("-f q").contains("one of b k m g"));
    assert!(refused("-t UDP_STREAM -l -5").contains("in seconds"));
    assert!(refused("-- -m 4G").contains("a number of bytes"));
    assert!(refused("-- -r 0x").contains("a number of bytes"));
    assert!(refused("-- -r 1,0").contains("at least one byte"));
}

#[test]
fn a_stream_of_datagrams_stays_in_the_network_unless_told_otherwise() {
    let is_routed = |line| asked(line).expect("understood").is_routed;
    assert!(!is_routed("-t UDP_STREAM") && !is_routed("-t UDP_STREAM -- -R 0"));
    assert!(is_routed("-t UDP_STREAM -- -R 1") && is_routed("-t UDP_RR") && is_routed(""));
}

#[test]
fn every_letter_of_netperf_works_or_is_refused() {
    // Its own lists, for getopt(3).
    let lists = [
        ("", "A:a:b:B:CcdD:f:F:H:hi:I:jk:K:l:L:n:NO:o:P:p:rSs:t:T:v:VW:w:y:Y:Z:46"),
        ("--", "aBb:cCd:De:fFgG:hH:i:Ij:kK:l:L:m:M:nNoOp:P:q:r:R:s:S:t:T:u:UVw:W:46"),
    ];
    for (before, list) in lists {
        let letters = list.chars().filter(|letter| letter.is_alphanumeric());
        for letter in letters {
            let takes_value = list.contains(&format!("{letter}:"));
            let words = [before, &format!("-{letter}"), if takes_value { "1" } else { "" }];
            let words = words.into_iter().filter(|word| !word.is_empty()).map(OsString::from);
            let outcome = parse(words);
            // netperf has the letter k in its list, and no use for it.
            let is_unused = before.is_empty() && letter == 'k';
            let is_unknown =
                matches!(outcome, Err(WrongOption::Unknown(_) | WrongOption::NoValue(_)));
            assert_eq!(is_unknown, is_unused, "{before} -{letter}: {outcome:?}");
        }
    }
}

#[test]
fn a_server_has_a_port_and_an_address() {
    let server = |line: &str| parse_server(line.split_whitespace().map(OsString::from));
    assert_eq!(server("-D -p 12999 -L 192.0.2.1"), Ok((12_999, Some([192, 0, 2, 1].into()))));
    assert_eq!(server("-4"), Ok((wire::PORT, Some([0; 4].into()))));
    assert!(server("-Z secret").is_err() && server("-p x").is_err());
}
