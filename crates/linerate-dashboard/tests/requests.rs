//! Requests as clients send them, friendly and hostile.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::time::Instant;

use linerate_dashboard::Access;
use linerate_model::{Event, Recorder};
use linerate_store::Ledger;

use crate::common::*;

const ID: &str = "20261121T000500Z-7f3a";

#[test]
fn the_list_names_every_campaign_and_links_its_report() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("older")).expect("made");
    record(&folder.path().join("a.ledger"), header(ID, "first"), "lab7");
    record(
        &folder.path().join("older/b.ledger"),
        header("20261120T000500Z-1111", "second"),
        "lab8",
    );
    fs::write(folder.path().join("broken.ledger"), "no ledger at all").expect("written");
    let address = served(folder.path(), Access::Loopback);
    let list = get_with(address, "/", "second");
    for text in
        ["first", "lab7", "lab8", "2026-11-21 00:05 UTC", "older&#x2f;b.ledger", "broken.ledger"]
    {
        assert!(list.body.contains(text), "{text}: {}", list.body);
    }
    assert!(list.body.contains(&format!("/report?campaign=a.ledger%23{ID}")), "{}", list.body);
    let report = get(address, &format!("/report?campaign=a.ledger%23{ID}"));
    assert_eq!((report.status, report.body.contains("<h1>first")), (200, true), "{report:?}");
    assert!(!report.body.contains("<style"), "styles come from a file of this host");
}

#[test]
fn every_answer_forbids_requests_to_other_hosts() {
    let folder = tempfile::tempdir().expect("a folder");
    record(&folder.path().join("a.ledger"), header(ID, "first"), "lab7");
    let address = served(folder.path(), Access::Loopback);
    get_with(address, "/", "first");
    let report = format!("/report?campaign=a.ledger%23{ID}");
    let files = ["/assets/report.css", "/assets/dashboard.css", "/assets/charts.js"];
    for path in ["/", "/nothing", &report].into_iter().chain(files) {
        let answer = get(address, path);
        let policy =
            answer.head.lines().find_map(|line| line.strip_prefix("content-security-policy: "));
        let parts: Vec<&str> = policy.expect("a policy").split("; ").collect();
        // Whole directives: what follows within one would allow more.
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "connect-src 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(parts.contains(&part), "{path}: {part}: {}", answer.head);
        }
        assert!(!answer.head.contains("http:") && !answer.head.contains("https:"));
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{path}");
        for source in ["src=\"http", "href=\"http", "src=\"//", "href=\"//", "@import", "url("] {
            // The bundle of charts names its namespaces and licences, and loads nothing.
            let is_bundle = path.ends_with(".js");
            assert!(is_bundle || !answer.body.contains(source), "{path}: {source}");
        }
    }
}

#[test]
fn a_name_in_a_ledger_is_text_and_never_markup() {
    let folder = tempfile::tempdir().expect("a folder");
    let evil = "<img src=x onerror=alert(1)>\"'&</title></script><script>alert(2)</script>";
    let name = "x\"><b>.ledger";
    record(&folder.path().join(name), header(ID, evil), evil);
    let address = served(folder.path(), Access::Loopback);
    let list = get_with(address, "/", "onerror");
    let key = format!("x%22%3E%3Cb%3E.ledger%23{ID}");
    let chosen = get(address, &format!("/?baseline={key}"));
    let report = get(address, &format!("/report?campaign={key}"));
    assert_eq!((chosen.status, report.status), (200, 200));
    for page in [list, chosen, report] {
        for markup in ["<img", "<b>", "<script>alert", "</script><script>"] {
            assert!(!page.body.contains(markup), "{markup}: {}", page.body);
        }
        assert!(page.body.contains("&lt;img"), "{}", page.body);
    }
}

#[test]
fn another_host_is_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    record(&folder.path().join("a.ledger"), header(ID, "secret"), "lab7");
    let address = served(folder.path(), Access::Loopback);
    get_with(address, "/", "secret");
    for path in ["/", "/assets/dashboard.js", &format!("/report?campaign=a.ledger%23{ID}")] {
        let rebound = get_as(address, path, &format!("evil.example:{}", address.port()));
        assert_eq!(rebound.status, 421, "{path}: {rebound:?}");
        assert!(!rebound.body.contains("secret"), "{path}");
    }
    let line = exchange(
        &mut connect(address),
        "GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    );
    assert_eq!(line.status, 421, "{line:?}");
    assert_eq!(get_as(address, "/", "localhost").status, 200);
}

#[test]
fn no_address_leads_out_of_the_folder() {
    let outside = tempfile::tempdir().expect("a folder");
    record(&outside.path().join("out.ledger"), header(ID, "outside"), "lab7");
    let folder = tempfile::tempdir_in(outside.path()).expect("a folder within it");
    record(&folder.path().join("a.ledger"), header("in", "inside"), "lab7");
    symlink(outside.path().join("out.ledger"), folder.path().join("link.ledger")).expect("linked");
    symlink(outside.path(), folder.path().join("linked")).expect("linked");
    let address = served(folder.path(), Access::Loopback);
    let list = get_with(address, "/", "inside");
    assert!(!list.body.contains("outside") && !list.body.contains("link.ledger"), "{}", list.body);
    let absolute = outside.path().join("out.ledger").display().to_string();
    for name in
        ["../out.ledger", "link.ledger", "linked/out.ledger", "%2E%2E/out.ledger", &absolute]
    {
        let name = name.replace('/', "%2F");
        for path in [
            format!("/report?campaign={name}%23{ID}"),
            format!("/compare?before=a.ledger%23in&after={name}%23{ID}"),
        ] {
            let answer = get(address, &path);
            assert_eq!(answer.status, 404, "{path}: {answer:?}");
            assert!(!answer.body.contains("outside"), "{path}");
        }
    }
    for path in ["/../etc/passwd", "/assets/../../out.ledger", "/assets/%2e%2e/Cargo.toml", "//"] {
        assert_eq!(get(address, path).status, 404, "{path}");
    }
}

#[test]
fn only_small_requests_that_read_are_answered() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = served(folder.path(), Access::Loopback);
    let host = format!("host: {address}\r\nconnection: close\r\n");
    let send = |request: String| exchange(&mut connect(address), &request).status;
    assert_eq!(send(format!("GET / HTTP/1.1\r\n{host}\r\n")), 200);
    assert_eq!(send(format!("POST / HTTP/1.1\r\n{host}\r\n")), 405);
    assert_eq!(send(format!("GET / HTTP/1.1\r\n{host}content-length: 5\r\n\r\nhello")), 405);
    assert_eq!(send(format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(15_000))), 404);
    let long = send(format!("GET /{} HTTP/1.1\r\n{host}\r\n", "x".repeat(40_000)));
    assert!([414, 431].contains(&long), "{long}");
    let many = "x: y\r\n".repeat(70);
    assert_eq!(send(format!("GET / HTTP/1.1\r\n{host}{many}\r\n")), 431);
    assert_eq!(send("GET / HTTP/1.0\r\n\r\n".to_owned()), 421, "without a host");
}

#[test]
fn silent_clients_are_left_after_a_while_and_do_not_keep_others_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = served(folder.path(), Access::Loopback);
    let began = Instant::now();
    // More than there are places, each with half a request.
    let mut silent: Vec<_> = (0..80).map(|_| connect(address)).collect();
    for stream in &mut silent {
        stream.write_all(b"GET / HTTP/1.1\r\n").expect("sent");
    }
    assert_eq!(get(address, "/").status, 200, "the next one has to wait at most");
    let waited = began.elapsed();
    assert!(waited.as_secs() >= 5, "all places were taken, and it came in {waited:?}");
    let mut left = Vec::new();
    silent[0].read_to_end(&mut left).expect("the server closes");
}

#[test]
fn a_ledger_that_is_recorded_is_closed_as_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.ledger");
    let mut ledger = Ledger::create(&path).expect("created");
    let start = Event::CampaignStarted(Box::new(header(ID, "first")));
    ledger.record(&start).expect("recorded");
    ledger.flush().expect("written");
    let address = served(folder.path(), Access::Loopback);
    get_with(address, "/", "running");
    assert!(folder.path().join("a.ledger-wal").exists(), "it is written beside a log");
    drop(ledger);
    assert!(!folder.path().join("a.ledger-wal").exists(), "no reader held the log back");
    get_with(address, "/", "interrupted");
}

#[test]
fn without_a_token_only_the_loopback_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let everywhere = std::net::TcpListener::bind("0.0.0.0:0").expect("a port");
    let refused = linerate_dashboard::serve(folder.path(), everywhere, Access::Loopback);
    let kind = refused.expect_err("refused").kind();
    assert_eq!(kind, std::io::ErrorKind::PermissionDenied);
}

#[test]
fn changes_of_the_list_are_sent_and_streams_leave_places_for_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = served(folder.path(), Access::Loopback);
    get_with(address, "/", "There is no ledger in this folder yet");
    let request = format!("GET /changes HTTP/1.1\r\nhost: {address}\r\n\r\n");
    let mut streams: Vec<_> = (0..40).map(|_| connect(address)).collect();
    for stream in &mut streams {
        stream.write_all(request.as_bytes()).expect("sent");
    }
    let head = |stream: &mut std::net::TcpStream| {
        let mut bytes = [0; 15];
        stream.read_exact(&mut bytes).expect("an answer");
        String::from_utf8_lossy(&bytes).into_owned()
    };
    // Any of them may be the ones that are refused, as several threads answer.
    streams.retain_mut(|stream| !head(stream).contains("503"));
    assert_eq!(streams.len(), 32, "32 of 40 follow");
    assert_eq!(get(address, "/").status, 200, "pages are still served");
    // A stream begins with the state at that moment. Another event has to follow.
    let mut told = Vec::new();
    let mut read = |stream: &mut std::net::TcpStream| {
        let mut bytes = [0; 1024];
        let n_bytes = stream.read(&mut bytes).expect("events");
        assert!(n_bytes > 0, "it ended without an event");
        told.extend_from_slice(&bytes[..n_bytes]);
        String::from_utf8_lossy(&told).matches("data: changed").count()
    };
    while read(&mut streams[0]) < 1 {}
    record(&folder.path().join("a.ledger"), header(ID, "first"), "lab7");
    get_with(address, "/", "first");
    while read(&mut streams[0]) < 2 {}
}

#[test]
fn clients_that_take_nothing_are_cut_off_and_do_not_keep_others_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let address = served(folder.path(), Access::Loopback);
    let began = Instant::now();
    // More than the buffers of a connection take, and as many as there are places.
    let request = format!("GET /assets/charts.js HTTP/1.1\r\nhost: {address}\r\n\r\n").repeat(8);
    let stuck: Vec<_> = (0..64)
        .map(|_| {
            let mut stream = connect(address);
            stream.write_all(request.as_bytes()).expect("sent");
            stream
        })
        .collect();
    assert_eq!(get(address, "/").status, 200, "the next one has to wait at most");
    let waited = began.elapsed();
    assert!(waited.as_secs() >= 5, "all places were taken, and it came in {waited:?}");
    drop(stuck);
}

#[test]
fn parts_of_the_folder_that_are_not_searched_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir_all(folder.path().join("1/2/3/4")).expect("made");
    record(&folder.path().join("a.ledger"), header(ID, "first"), "lab7");
    let address = served(folder.path(), Access::Loopback);
    let list = get_with(address, "/", "first");
    assert!(list.body.contains("Folders at level 5 and below were not searched: 1."), "{list:?}");
    fs::remove_dir(folder.path().join("1/2/3/4")).expect("removed");
    let began = Instant::now();
    while get(address, "/").body.contains("were not searched") {
        assert!(began.elapsed() < PATIENCE, "the folder is gone");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

/// Token that tests show.
const TOKEN: &str = "7ZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-ZZZZZ-Z";

/// Key pair of a server, and a client that trusts its certificate alone.
fn secured() -> (Arc<rustls::ServerConfig>, Arc<rustls::ClientConfig>) {
    let key = rcgen::generate_simple_self_signed(["linerate".to_owned()]).expect("a key pair");
    let certificate = key.cert.der().clone();
    let private = rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = &[&rustls::version::TLS13];
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .expect("TLS 1.3")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], private.into())
        .expect("a certificate of this key");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).expect("it is its own root");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .expect("TLS 1.3")
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Arc::new(server), Arc::new(client))
}

#[test]
fn over_tls_only_who_shows_the_token_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    record(&folder.path().join("a.ledger"), header(ID, "secret"), "lab7");
    let (tls, client) = secured();
    let access = Access::Token { token: TOKEN.to_owned(), tls, names: vec!["lab7".to_owned()] };
    let address = served(folder.path(), access);
    let get = |path: &str, cookie: &str| {
        let name = "linerate".try_into().expect("a name");
        let connection = rustls::ClientConnection::new(Arc::clone(&client), name).expect("ready");
        let mut stream = rustls::StreamOwned::new(connection, connect(address));
        let head = "host: lab7\r\nconnection: close";
        exchange(&mut stream, &format!("GET {path} HTTP/1.1\r\n{head}\r\ncookie: {cookie}\r\n\r\n"))
    };
    let others = ["/", "/?token=7ZZZZ", "/assets/charts.js", "/changes"];
    for path in others {
        let locked = get(path, "a=b");
        assert_eq!((locked.status, locked.body.contains("secret")), (401, false), "{path}");
    }
    let opened = get(&format!("/?token={TOKEN}"), "a=b");
    assert_eq!(opened.status, 303, "{opened:?}");
    let (_, cookie) = opened.head.split_once("set-cookie: ").expect("a cookie");
    // The head is in small letters; the name of the cookie is not.
    let cookie = cookie.split(';').next().expect("its value").replace("__host", "__Host");
    let began = Instant::now();
    while !get("/", &cookie).body.contains("secret") {
        assert!(began.elapsed() < PATIENCE, "the owner is served");
    }
    let plain = exchange(&mut connect(address), "GET / HTTP/1.1\r\nhost: lab7\r\n\r\n");
    assert!(!plain.body.contains("<html") && plain.status == 0, "{plain:?}");
}
