//! Commands of a control connection: RFC 959 clause 5.3.1, and those that RFCs 2228, 2389, 2428,
//! 3659 and 4217 add.
//!
//! `PORT` and `EPRT` are not supported: no client can make this server connect elsewhere.

use crate::workloads::rendezvous::same_secret;
use crate::workloads::transfer::Form;

/// Supported features beyond RFC 959 (RFC 2389).
pub(super) const FEATURES: &str = "211-Features:\r\n EPSV\r\n MDTM\r\n MLST \
    type*;size*;modify*;\r\n PASV\r\n REST STREAM\r\n SIZE\r\n TVFS\r\n UTF8\r\n211 End\r\n";

/// Command with the arguments that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// RFC 4217: TLS by its own name.
    Security {
        is_tls: bool,
    },
    BufferSize,
    Protection {
        is_private: bool,
    },
    User,
    Password {
        is_right: bool,
    },
    Passive,
    ExtendedPassive,
    /// RFC 2389.
    Features,
    Size,
    /// Modification time of a file, RFC 3659 clause 3.
    Modified,
    /// Facts of one file, RFC 3659 clause 7.
    Facts,
    /// Start of the next file, RFC 3659 clause 5; `None` if it is not a number.
    Restart(Option<u64>),
    File {
        is_upload: bool,
    },
    List(Form),
    ChangeFolder,
    ToParent,
    Folder,
    /// A folder for uploads, whose names have no meaning here.
    MakeFolder,
    /// Abort of a transfer, which is over already: commands are read between transfers.
    Abort,
    /// A command without effect, which succeeds.
    Harmless,
    /// TYPE, MODE or STRU: true if the form is supported.
    Representation {
        is_spoken: bool,
    },
    System,
    Quit,
    Unknown,
}

/// Parses `line`; `password` is the right one, if there is one. Puts the rest of the line into
/// `argument`, without control characters: a reader that ends texts at NUL would see another path.
pub(super) fn parse(line: &[u8], password: Option<&str>, argument: &mut Vec<u8>) -> Command {
    let at = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
    let (verb, rest) = line.split_at(at);
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    argument.clear();
    if rest.len() > argument.capacity() || rest.iter().any(u8::is_ascii_control) {
        return Command::Unknown;
    }
    argument.extend(rest);
    let rest = rest.trim_ascii();
    let is = |name: &str| verb.eq_ignore_ascii_case(name.as_bytes());
    let is_any = |names: &[&str]| names.iter().any(|name| is(name));
    let says = |word: &str| rest.eq_ignore_ascii_case(word.as_bytes());
    if is("AUTH") {
        Command::Security { is_tls: says("TLS") || says("TLS-C") }
    } else if is("PBSZ") {
        Command::BufferSize
    } else if is("PROT") {
        Command::Protection { is_private: says("P") }
    } else if is("USER") {
        Command::User
    } else if is("PASS") {
        Command::Password {
            is_right: password.is_none_or(|password| same_secret(rest, password.as_bytes())),
        }
    } else if is("PASV") {
        Command::Passive
    } else if is("EPSV") {
        Command::ExtendedPassive
    } else if is("FEAT") {
        Command::Features
    } else if is("SIZE") {
        Command::Size
    } else if is("MDTM") {
        Command::Modified
    } else if is("MLST") {
        Command::Facts
    } else if is("REST") {
        let digits = std::str::from_utf8(rest)
            .ok()
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        Command::Restart(digits.and_then(|text| text.parse().ok()))
    } else if is("RETR") {
        Command::File { is_upload: false }
    } else if is("STOR") {
        Command::File { is_upload: true }
    } else if is("LIST") {
        Command::List(Form::List)
    } else if is("NLST") {
        Command::List(Form::Names)
    } else if is("MLSD") {
        Command::List(Form::Facts)
    } else if is_any(&["CWD", "XCWD"]) {
        Command::ChangeFolder
    } else if is_any(&["CDUP", "XCUP"]) {
        Command::ToParent
    } else if is_any(&["PWD", "XPWD"]) {
        Command::Folder
    } else if is_any(&["MKD", "XMKD"]) {
        Command::MakeFolder
    } else if is("TYPE") {
        // Listings are text, and files have no other form here.
        let is_spoken = ["I", "L 8", "A", "A N"].into_iter().any(says);
        Command::Representation { is_spoken }
    } else if is("MODE") {
        Command::Representation { is_spoken: says("S") }
    } else if is("STRU") {
        Command::Representation { is_spoken: says("F") }
    } else if is("ABOR") {
        Command::Abort
    } else if is_any(&["NOOP", "ALLO", "OPTS", "CLNT"]) {
        Command::Harmless
    } else if is("SYST") {
        Command::System
    } else if is("QUIT") {
        Command::Quit
    } else {
        Command::Unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_known_in_any_case_and_the_password_counts() {
        let mut argument = Vec::with_capacity(64);
        let mut parse = |line: &[u8], password| super::parse(line, password, &mut argument);
        assert_eq!(parse(b"retr a file", None), Command::File { is_upload: false });
        assert_eq!(parse(b"PASS abc", Some("abc")), Command::Password { is_right: true });
        assert_eq!(parse(b"PASS abcd", Some("abc")), Command::Password { is_right: false });
        assert_eq!(parse(b"PASS", None), Command::Password { is_right: true });
        assert_eq!(parse(b"auth tls", None), Command::Security { is_tls: true });
        assert_eq!(parse(b"AUTH SSL", None), Command::Security { is_tls: false });
        assert_eq!(parse(b"PROT C", None), Command::Protection { is_private: false });
        // No client can make this server connect elsewhere.
        assert_eq!(parse(b"PORT 1,2,3,4,5,6", None), Command::Unknown);
        assert_eq!(parse(b"EPRT |1|198.18.0.9|80|", None), Command::Unknown);
        assert_eq!(parse(b"REST 5368709120", None), Command::Restart(Some(5 << 30)));
        assert_eq!(parse(b"REST -1", None), Command::Restart(None));
        assert_eq!(parse(b"MLSD", None), Command::List(Form::Facts));
        assert_eq!(parse(b"type e", None), Command::Representation { is_spoken: false });
        assert_eq!(parse(b"RETR a\0b", None), Command::Unknown);
        assert_eq!(parse(b"RETR a\rb", None), Command::Unknown);
        parse(b"RETR  a file ", None);
        assert_eq!(argument, b" a file ");
    }
}
