//! `http` and `ftp` over TLS with foreign servers and clients.

use std::process::Command;

use linerate_model::Counter;
use serde_json::json;

use crate::peers::{Peer, contents, is_there};
use crate::shared::sum;
use crate::transfers_peers::{FILE, Own, assert_acknowledged, assert_fetched, call, drive, files};

#[test]
fn our_client_and_nginx_speak_tls_and_the_row_says_how() {
    let test = "our_client_and_nginx_speak_tls_and_the_row_says_how";
    let Some(nginx) = Peer::nginx(test, FILE) else { return };
    let [get, put] = ["file", "in/tls"].map(|path| format!("https://{}/{path}", nginx.secure()));
    let roots = nginx.path("certificate").display().to_string();
    for (verify, known_by) in [(true, "roots"), (false, "nothing: not verified")] {
        for reuse in [true, false] {
            let table =
                json!({ "roots": roots, "verify": verify, "reuse": reuse, "sink": "memory" });
            let report = drive("http", &get, table);
            let files = files(&report, "GET over TLS");
            assert!(sum(&report, Counter::PayloadReceived) >= files * FILE as u64);
            let modes = &report.flows[0].modes;
            assert!(
                modes["tls"].starts_with("TLS 1.3, ") && modes["tls"].contains("in user space"),
                "{modes:?}"
            );
            assert_eq!(modes["server_known_by"], known_by);
            let logged = nginx.logged(files, |line| {
                line.contains(&format!(" {FILE} ")) && line.ends_with("TLSv1.3.")
            });
            assert!(logged >= files, "{files} by us, {logged} by nginx:\n{}", nginx.text("log"));
        }
    }
    for send in ["sendfile", "copy"] {
        let report =
            drive("http", &put, json!({ "roots": roots, "direction": "tx", "send": send }));
        let files = files(&report, "PUT over TLS");
        assert_acknowledged(&report, files, send);
        let stored = std::fs::read(nginx.path("public/in/tls")).expect("it was sent");
        assert!(stored == contents(FILE), "{} bytes, or others than those sent", stored.len());
        let obtained = &report.flows[0].modes["send"];
        assert_eq!(obtained.contains("sendfile cannot pass TLS"), send == "sendfile", "{obtained}");
    }
    // Roots that do not vouch for it, and a server without TLS.
    let stranger = tempfile::NamedTempFile::new().expect("a file");
    let own =
        rcgen::generate_simple_self_signed([nginx.at.ip().to_string()]).expect("a certificate");
    std::fs::write(stranger.path(), own.cert.pem()).expect("it is writable");
    let plain = format!("https://{}/file", nginx.at);
    for (url, roots, word) in [
        (&get, stranger.path().display().to_string(), "the server's certificate is not accepted"),
        (&plain, roots.clone(), "does not use TLS"),
    ] {
        let report = drive("http", url, json!({ "roots": roots }));
        let context: Vec<_> =
            report.incidents.iter().map(|incident| incident.message.as_str()).collect();
        assert!(context.iter().any(|context| context.contains(word)), "{url}: {context:?}");
        assert_eq!(sum(&report, Counter::Transactions), 0, "{url}");
    }
}

#[test]
fn our_ftp_client_and_vsftpd_speak_tls_and_the_row_says_how() {
    let test = "our_ftp_client_and_vsftpd_speak_tls_and_the_row_says_how";
    let Some(vsftpd) = Peer::vsftpd_over_tls(test, FILE, "") else { return };
    let [get, put] = ["file", "in/tls"].map(|path| format!("ftp://{}/{path}", vsftpd.at));
    let roots = vsftpd.path("certificate").display().to_string();
    let whole = format!("\", {FILE} bytes");
    for (url, verify, known_by, direction, word) in [
        (&get, true, "roots", "rx", "OK DOWNLOAD"),
        (&get, false, "nothing: not verified", "rx", "OK DOWNLOAD"),
        (&put, true, "roots", "tx", "OK UPLOAD"),
    ] {
        // One stream only: two vsftpd processes would write to the same file.
        let table = json!({ "tls": true, "roots": roots, "verify": verify, "direction": direction,
            "sink": "memory",
            "streams": 1 });
        let before = vsftpd.logged(0, |line| line.contains(word) && line.contains(&whole));
        let report = drive("ftp", url, table);
        let files = files(&report, direction);
        let modes = &report.flows[0].modes;
        assert!(
            modes["tls"].starts_with("TLS 1.") && modes["tls"].contains("in user space"),
            "{modes:?}"
        );
        assert_eq!(modes["server_known_by"], known_by);
        // vsftpd serves no data connection without session resumption (require_ssl_reuse).
        let context = &modes["tls_data_connections"];
        let (resumed, all) = context.split_once(" of ").expect("two counts");
        let all = all.split(' ').next().expect("a number").parse::<u64>().expect("a number");
        assert!(resumed.parse() == Ok(all) && all >= files, "{files} files, {context}");
        let logged =
            vsftpd.logged(before + files, |line| line.contains(word) && line.contains(&whole));
        assert!(
            logged >= before + files,
            "{files} by us, {logged} by vsftpd:\n{}",
            vsftpd.text("log")
        );
    }
    let stored = std::fs::read(vsftpd.path("public/in/tls")).expect("it was sent");
    assert!(contents(FILE).starts_with(&stored), "other bytes than those sent");
}

#[test]
fn ftp_servers_without_tls_are_reported_and_nothing_is_sent_in_the_clear() {
    let test = "ftp_servers_without_tls_are_reported_and_nothing_is_sent_in_the_clear";
    let Some(plain) = Peer::vsftpd(test, FILE) else { return };
    let Some(secure) = Peer::vsftpd_over_tls(test, FILE, "") else { return };
    let Some(unwilling) =
        Peer::vsftpd_over_tls(test, FILE, "allow_anon_ssl=NO\nforce_anon_logins_ssl=NO\n")
    else {
        return;
    };
    let roots = |peer: &Peer| peer.path("certificate").display().to_string();
    for (peer, roots, tls, word) in [
        (&plain, roots(&plain), true, "to AUTH TLS: it has no TLS there"),
        (&secure, roots(&plain), true, "the server's certificate is not accepted"),
        (&secure, roots(&secure), false, "the server answered 530"),
        (&unwilling, roots(&unwilling), true, "the server answered 530"),
    ] {
        let url = format!("ftp://{}/file", peer.at);
        let report = drive("ftp", &url, json!({ "tls": tls, "roots": roots, "timeout": "2 s" }));
        let context: Vec<_> =
            report.incidents.iter().map(|incident| incident.message.as_str()).collect();
        assert!(context.iter().any(|context| context.contains(word)), "{word}: {context:?}");
        assert_eq!(sum(&report, Counter::Transactions), 0, "{word}");
    }
}

#[test]
fn curl_speaks_tls_to_our_ftp_server() {
    let test = "curl_speaks_tls_to_our_ftp_server";
    if !is_there("curl", test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, contents(FILE)).expect("it is writable");
    for (version, name) in [(&["--tlsv1.3"][..], "TLS 1.3"), (&["--tls-max", "1.2"], "TLS 1.2")] {
        let fixed = [&["-s", "-S", "-k", "--ssl-reqd"], version].concat();
        let own = Own::start("ftp", json!({ "tls": true }));
        let url = format!("ftp://anybody:anything@{}/file", own.address);
        assert_fetched(
            &call("curl", &[&fixed[..], &[&url, &url]].concat()),
            &format!("{url} {name}"),
        );
        let clear =
            Command::new("curl").args(["-s", "-S", &url]).output().expect("it is installed");
        assert!(!clear.status.success(), "a trial over TLS serves in the clear");
        let report = own.stop();
        assert_eq!(sum(&report, Counter::PayloadSent), 2 * FILE as u64, "{:?}", report.flows);
        let modes =
            &report.flows.iter().find(|flow| flow.modes.contains_key("tls")).expect("a flow").modes;
        assert!(modes["tls"].contains(name), "{modes:?}");
        let own = Own::start("ftp", json!({ "tls": true, "direction": "tx" }));
        let url = format!("ftp://anybody:anything@{}/file", own.address);
        call("curl", &[&fixed[..], &["-T", &file.display().to_string(), &url]].concat());
        let report = own.stop();
        assert_eq!(sum(&report, Counter::PayloadReceived), FILE as u64, "{:?}", report.flows);
    }
}

#[test]
fn curl_speaks_tls_to_our_server() {
    let test = "curl_speaks_tls_to_our_server";
    if !is_there("curl", test) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, contents(FILE)).expect("it is writable");
    for version in ["--tlsv1.3", "--tls-max"] {
        let mut fixed = vec!["-s", "-S", "-k", version];
        if version == "--tls-max" {
            fixed.push("1.2");
        }
        let own = Own::start("http", json!({ "tls": true }));
        let url = format!("https://{}/file", own.address);
        assert_fetched(
            &call("curl", &[&fixed[..], &[&url, &url]].concat()),
            &format!("{url} {version}"),
        );
        let strict =
            Command::new("curl").args(["-s", "-S", &url]).output().expect("it is installed");
        assert!(!strict.status.success(), "curl trusts whom it does not know");
        let report = own.stop();
        assert_eq!(sum(&report, Counter::PayloadSent), 2 * FILE as u64, "{:?}", report.flows);
        let modes =
            &report.flows.iter().find(|flow| flow.modes.contains_key("tls")).expect("a flow").modes;
        assert!(
            modes["tls"].contains(if version == "--tlsv1.3" { "TLS 1.3" } else { "TLS 1.2" }),
            "{modes:?}"
        );
        let own = Own::start("http", json!({ "tls": true, "direction": "tx" }));
        let url = format!("https://{}/file", own.address);
        call("curl", &[&fixed[..], &["-f", "-T", &file.display().to_string(), &url]].concat());
        let report = own.stop();
        assert_eq!(sum(&report, Counter::PayloadReceived), FILE as u64, "{:?}", report.flows);
    }
}
