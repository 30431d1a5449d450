//! `linerate serve`: what a client of its own makes is given the bytes of the file, and what was
//! served is said, also after an interrupt.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Child;

use crate::common::{Ended, PATIENCE, file, signal, start, wait};

/// A name that a URL must escape, and what the file holds.
const NAME: &str = "a b.txt";
const CONTENTS: &str = "thirty-two bytes, and no others.";

/// A server of `protocol` with its announcement read, and the address it serves at: of this process
/// alone, so that its port is free.
fn serve(
    folder: &Path,
    protocol: &str,
    last: u8,
) -> (Child, BufReader<std::process::ChildStdout>, String) {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = format!("127.{}.{low}.{last}", high | 1);
    let seconds = PATIENCE.as_secs().to_string();
    let root = folder.join("root");
    std::fs::create_dir(&root).expect("the folder is writable");
    file(&root, NAME, CONTENTS);
    let mut child = start(
        folder,
        &["serve", protocol, "--root", "root", "-B", &address, "-p", "8080", "-t", &seconds],
    );
    let mut output = BufReader::new(child.stdout.take().expect("it was asked for"));
    let announced = line(&mut output, "serving ");
    assert!(announced.starts_with(&format!("serving {protocol}://{address}:8080/")), "{announced}");
    (child, output, address)
}

/// The next line that holds `text`.
fn line(output: &mut impl BufRead, text: &str) -> String {
    output
        .lines()
        .map(|line| line.expect("UTF-8"))
        .find(|line| line.contains(text))
        .unwrap_or_default()
}

fn connect(address: &str, port: u16) -> TcpStream {
    let stream = TcpStream::connect((address, port)).expect("it was announced");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    stream
}

/// Interrupts the server once it has said that a file was taken.
fn end(child: Child, mut output: impl BufRead) -> (Ended, String) {
    let taken = line(&mut output, " 1 files");
    assert!(!taken.is_empty(), "a line of the second in which a file was taken");
    signal(child.id(), "INT");
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("UTF-8");
    (wait(child), rest)
}

#[test]
fn an_http_client_gets_the_file_and_the_transfer_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, output, address) = serve(folder.path(), "http", 1);
    let mut stream = connect(&address, 8080);
    write!(stream, "GET /a%20b.txt HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with(&format!("\r\n\r\n{CONTENTS}")),
        "{answer}"
    );
    let (ended, rest) = end(child, output);
    assert!(rest.contains("Ended before its time: 1 files, "), "{rest}\n{}", ended.stderr);
    assert!(rest.contains("bit/s goodput while files were in transfer"), "{rest}");
    ended.expect(130);
}

#[test]
fn an_ftp_client_gets_the_file_and_the_transfer_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let (child, output, address) = serve(folder.path(), "ftp", 2);
    let mut control = connect(&address, 8080);
    let mut replies = BufReader::new(control.try_clone().expect("a second handle"));
    let mut ask = |command: &str, code: &str| {
        control.write_all(command.as_bytes()).expect("it listens");
        let mut reply = String::new();
        replies.read_line(&mut reply).expect("a reply");
        assert!(reply.starts_with(code), "{command}: {reply}");
        reply
    };
    ask("", "220");
    ask("USER anonymous\r\n", "331");
    ask("PASS guest\r\n", "230");
    ask("TYPE I\r\n", "200");
    // RFC 2428 clause 3: 229 Entering Extended Passive Mode (|||PORT|).
    let passive = ask("EPSV\r\n", "229");
    let port = passive.split('|').nth(3).and_then(|port| port.parse().ok()).expect("a port");
    let mut data = connect(&address, port);
    ask(&format!("RETR {NAME}\r\n"), "150");
    let mut received = String::new();
    data.read_to_string(&mut received).expect("the file");
    assert_eq!(received, CONTENTS);
    ask("", "226");
    let (ended, rest) = end(child, output);
    assert!(rest.contains("Ended before its time: 1 files, "), "{rest}\n{}", ended.stderr);
    assert!(rest.contains("bit/s goodput while files were in transfer"), "{rest}");
    ended.expect(130);
}
