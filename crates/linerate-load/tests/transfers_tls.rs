//! `http` and `ftp` over TLS with foreign servers and clients.

use std::process::Command;

use linerate_model::Counter;
use serde_json::json;

use crate::peers::{Peer, contents, installed};
use crate::shared::sum;
use crate::transfers_peers::{
    FILE, Own, assert_acknowledged, assert_fetched, assert_refused, call, drive, file_to_send,
    files,
};

#[test]
fn our_client_and_nginx_speak_tls_and_the_row_says_how() {
    let Some(nginx) = Peer::nginx(FILE) else { return };
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
        assert_refused(&report, word, url);
    }
}

#[test]
fn our_ftp_client_and_vsftpd_speak_tls_and_the_row_says_how() {
    let Some(vsftpd) = Peer::vsftpd_over_tls(FILE, "") else { return };
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
    let Some(plain) = Peer::vsftpd(FILE) else { return };
    let Some(secure) = Peer::vsftpd_over_tls(FILE, "") else { return };
    let Some(unwilling) =
        Peer::vsftpd_over_tls(FILE, "allow_anon_ssl=NO\nforce_anon_logins_ssl=NO\n")
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
        assert_refused(&report, word, &url);
    }
}

#[test]
fn curl_speaks_tls_to_our_servers() {
    let Some(()) = installed("curl") else { return };
    let (_kept, file) = file_to_send();
    let versions = [(&["--tlsv1.3"][..], "TLS 1.3"), (&["--tls-max", "1.2"], "TLS 1.2")];
    for (protocol, scheme, user, more) in
        [("ftp", "ftp", "anybody:anything@", &["--ssl-reqd"]), ("http", "https", "", &["-f"])]
    {
        for (version, name) in versions {
            let fixed = [&["-s", "-S", "-k"][..], more, version].concat();
            let own = Own::start(protocol, json!({ "tls": true }));
            let url = format!("{scheme}://{user}{}/file", own.address);
            let fetched = call("curl", &[&fixed[..], &[&url, &url]].concat());
            assert_fetched(&fetched, &format!("{url} {name}"));
            // FTP in the clear is refused, and curl refuses a certificate that it does not know.
            let refused = Command::new("curl").args(["-s", "-S", &url]).output();
            assert!(!refused.expect("it is installed").status.success(), "{url} {name}");
            let report = own.stop();
            assert_eq!(sum(&report, Counter::PayloadSent), 2 * FILE as u64, "{:?}", report.flows);
            let mut modes = report.flows.iter().filter_map(|flow| flow.modes.get("tls"));
            assert!(modes.next().expect("a flow").contains(name), "{:?}", report.flows);
            let own = Own::start(protocol, json!({ "tls": true, "direction": "tx" }));
            let url = format!("{scheme}://{user}{}/file", own.address);
            call("curl", &[&fixed[..], &["-T", &file, &url]].concat());
            let report = own.stop();
            assert_eq!(sum(&report, Counter::PayloadReceived), FILE as u64, "{:?}", report.flows);
        }
    }
}
