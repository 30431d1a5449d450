//! Arbitrary bytes on a control connection, at either end: they are read without a panic, and no
//! command leads out of the served folder.

use std::io::Write;
use std::os::unix::net::UnixStream;

use socket2::Socket;

use super::commands::{self, Command};
use super::lines::{self, Lines};
use crate::fuzz_driver::{class, fuzz};
use crate::workloads::transfer::{TransferStage, Url, Watched, resolve};

/// Returns a connection on which `bytes` have arrived, and its other end.
pub(crate) fn heard(bytes: &[u8]) -> (Watched, UnixStream) {
    let (mut near, far) = UnixStream::pair().expect("sockets");
    far.set_nonblocking(true).expect("possible");
    near.set_nonblocking(true).expect("possible");
    // Bytes that do not fit the queue do not arrive.
    let _sent = near.write(bytes);
    (Watched::new(Socket::from(std::os::fd::OwnedFd::from(far)), 0), near)
}

#[test]
fn fuzz_ftp_replies() {
    let corpus: Vec<Vec<u8>> = [
        "220-Welcome\r\n 220 not yet\r\n220 Ready\r\n331 Name\r\n230 In\r\n200 I\r\n213 \
            1048576\r\n",
        "229 Entering Extended Passive Mode (|||6446|)\r\n150 Here it comes\r\n226 Done\r\n",
        "227 Entering Passive Mode (127,0,0,1,18,52).\r\n227 =198,18,0,9,18,52\r\n",
        "350 Restart\r\n234 AUTH\r\n425 No\r\n550 No such file\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let words = [
        "\r\n", "\n", "220-", "220 ", "(|||", "|", ")", "229 ", "227 ", "213 ", "\u{e9}", "\0",
        ",,,,,,",
    ];
    fuzz("ftp_replies", corpus, &words, |bytes| {
        let (mut control, _near) = heard(bytes);
        let mut lines = Lines::new();
        let mut said = Vec::new();
        while said.len() < 4096 {
            match lines.reply() {
                Ok(Some(reply)) => {
                    let text = lines.text(reply);
                    assert!(text.len() <= bytes.len());
                    let port = lines::extended_port(text).or_else(|| lines::passive_port(text));
                    said.push((
                        reply.code / 100,
                        port.is_some(),
                        lines::size(text).is_some(),
                        None,
                    ));
                }
                Err(failure) => {
                    said.push((0, false, false, Some(failure)));
                    break;
                }
                Ok(None) => match lines.read(&mut control, TransferStage::FirstByte) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(failure) => {
                        said.push((0, false, false, Some(failure)));
                        break;
                    }
                },
            }
        }
        class(
            &said
                .iter()
                .map(|(kind, port, size, failure)| {
                    format!("{}{port}{size}{failure:?}", "c".repeat(*kind as usize % 10))
                })
                .collect::<Vec<_>>(),
        )
    });
}

#[test]
fn fuzz_ftp_commands() {
    let corpus: Vec<Vec<u8>> = [
        "USER anonymous\r\nPASS linerate@\r\nTYPE I\r\nSIZE a/b\r\nEPSV\r\nRETR a/b\r\nQUIT\r\n",
        "AUTH TLS\r\nPBSZ 0\r\nPROT P\r\nREST 5368709120\r\nSTOR ../../x\r\nMLSD .\r\nNLST -la \
            /\r\n",
        "CWD a//../../b\r\nCDUP\r\nPWD\r\nMKD x\r\nMLST a\r\nMDTM a\r\nOPTS UTF8 \
            ON\r\nFEAT\r\nSYST\r\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let words = [
        "\r\n", "../", "..", "/", "//", "\0", "%2e%2e", " ", "REST ", "PASS ", "CWD ", "STOR ",
        "\u{202e}",
    ];
    fuzz("ftp_commands", corpus, &words, |bytes| {
        let (mut control, _near) = heard(bytes);
        let mut lines = Lines::new();
        let (mut argument, mut folder, mut resolved) =
            (Vec::with_capacity(512), Vec::with_capacity(1024), Vec::with_capacity(1024));
        let mut said: Vec<Command> = Vec::new();
        loop {
            while let Some(line) = lines.line() {
                let command = commands::parse(line, Some("secret"), &mut argument);
                assert!(!argument.iter().any(u8::is_ascii_control), "{}", argument.escape_ascii());
                if resolve(&folder, &argument, &mut resolved) {
                    let leaves = resolved.split(|byte| *byte == b'/').any(|part| part == b"..");
                    assert!(
                        !leaves && resolved.first() != Some(&b'/'),
                        "{}",
                        resolved.escape_ascii()
                    );
                    if command == Command::ChangeFolder {
                        folder.clone_from(&resolved);
                        folder.reserve(1024);
                    }
                }
                said.push(command);
            }
            if !lines.read(&mut control, TransferStage::FirstByte).unwrap_or(false) {
                break;
            }
        }
        class(&said)
    });
}

#[test]
fn fuzz_urls() {
    let corpus: Vec<Vec<u8>> = [
        "ftp://me:pass%20word@[2001:db8::1]:2121/a/b%2fc",
        "http://192.0.2.7/",
        "ftp://host",
        "https://host:443/a?b#c",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    let words = ["://", "@", ":", "%0d%0a", "%", "%00", "[", "]", "/", "..", "\u{e9}"];
    fuzz("urls", corpus, &words, |bytes| {
        let text = String::from_utf8_lossy(bytes);
        let parsed = ["ftp", "http"]
            .map(|scheme| Url::parse(&text, scheme, 21).map(|url| url.ftp_path().is_ok()));
        for refused in parsed.iter().filter_map(|parsed| parsed.as_ref().err()) {
            assert!(!refused.contains('\n') || text.contains('\n'), "{refused}");
        }
        class(&parsed)
    });
}
