//! Users and passwords, between our ends and those of iperf3.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeySize, PrivateDecryptingKey};
use base64::Engine;
use linerate_iperf3::auth::{Credentials, Padding, ServerKey, digest_of, unix_seconds};
use linerate_iperf3::serve::ServeOptions;
use linerate_iperf3::session::Ending;
use linerate_iperf3::wire::Parameters;

use crate::common::{Iperf3, LOOPBACK, Server, has_iperf3, json};
use crate::servers::{SHORT, asked, run};

/// Files of a server and its clients in PEM, and the padding of the iperf3 that is installed.
struct Files {
    folder: tempfile::TempDir,
    pem: [String; 2],
    users: String,
    padding: Padding,
}

impl Files {
    fn new() -> Self {
        let key = PrivateDecryptingKey::generate(KeySize::Rsa2048).expect("a key");
        let private: Pkcs8V1Der<'_> = key.as_der().expect("PKCS #8");
        let public: PublicKeyX509Der<'_> = key.public_key().as_der().expect("its public part");
        let pem = |label: &str, der: &[u8]| {
            let text = base64::engine::general_purpose::STANDARD.encode(der);
            format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
        };
        let pem = [pem("PRIVATE KEY", private.as_ref()), pem("PUBLIC KEY", public.as_ref())];
        let users = format!("ann,{}\n", digest_of("ann", "s3cret"));
        let help = Command::new("iperf3").arg("--help").output().expect("iperf3").stdout;
        let is_new = String::from_utf8_lossy(&help).contains("--use-pkcs1-padding");
        let padding = if is_new { Padding::Oaep } else { Padding::Pkcs1 };
        let files = Self { folder: tempfile::tempdir().expect("a folder"), pem, users, padding };
        for (name, text) in
            [("private", &files.pem[0]), ("public", &files.pem[1]), ("users", &files.users)]
        {
            std::fs::write(files.path(name), text).expect("a file");
        }
        files
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }
}

#[test]
fn unmodified_clients_are_admitted_by_their_passwords() {
    if !has_iperf3("unmodified_clients_are_admitted_by_their_passwords") {
        return;
    }
    let files = Files::new();
    let key = ServerKey::read(files.pem[0].as_bytes(), files.padding, Duration::from_secs(10));
    let (key, users) = (key.expect("a key"), files.users.clone());
    let server = Server::with(ServeOptions {
        address: Some(LOOPBACK),
        port: 0,
        admits: Some(Arc::new(move |token| {
            let user = key.user(token, &users, unix_seconds(SystemTime::now()));
            user.map_err(|denial| denial.to_string())
        })),
        ..ServeOptions::default()
    });
    let public = files.path("public");
    for (password, why) in
        [(Some("s3cret"), None), (Some("guessed"), Some("no user `ann`")), (None, Some("no user"))]
    {
        let mut client = server.client("-n 100K");
        if let Some(password) = password {
            client.args(["--username", "ann", "--rsa-public-key-path", &public]);
            client.env("IPERF3_PASSWORD", password);
        }
        let output = client.output().expect("iperf3");
        let ending = server.ended().ending;
        let Some(why) = why else {
            json(&output, "with the right password");
            assert_eq!(ending, Ending::Complete);
            continue;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("authorization failed"), "{password:?}: {text}");
        let Ending::Refused(142, said) = &ending else { panic!("{password:?}: {ending:?}") };
        assert!(said.contains(why), "{password:?}: {said}");
    }
}

#[test]
fn an_unmodified_server_admits_our_client_by_its_password() {
    if !has_iperf3("an_unmodified_server_admits_our_client_by_its_password") {
        return;
    }
    let files = Files::new();
    let [private, users] = ["private", "users"].map(|name| files.path(name));
    let arguments = ["--rsa-private-key-path", &private, "--authorized-users-path", &users];
    for (password, is_admitted) in [("s3cret", true), ("guessed", false)] {
        let server = Iperf3::start_with(&arguments);
        let parameters = Parameters { parallel: 1, ..Parameters::default() };
        let mut asked = asked(server.1, parameters, SHORT);
        let read = Credentials::read(files.pem[1].as_bytes(), files.padding, ["ann", password]);
        asked.credentials = Some(read.expect("short"));
        let measured = run(&asked);
        assert_eq!(measured.is_ok(), is_admitted, "{password}: {measured:?}");
    }
}
