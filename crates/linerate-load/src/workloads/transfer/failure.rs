//! Failures of transfers.

use std::fmt;
use std::io;

use rustls::Error;

/// TransferStage of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferStage {
    /// Opening a connection.
    Connect,
    /// Waiting for an answer or the first byte.
    FirstByte,
    /// Moving the file.
    Transfer,
    /// Waiting for the end to be confirmed.
    Close,
}

/// Reason of a failure, in plain numbers, so that recording one in a step allocates nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A system call failed with this number.
    Io(i32),
    /// Nothing moved within the time allowed.
    TimedOut(TransferStage),
    /// The other end closed in this stage.
    Closed(TransferStage),
    /// The file ended early: bytes announced, bytes received.
    Short(u64, u64),
    /// The other end announced another size than it sends: bytes announced, bytes received.
    Size(u64, u64),
    /// The server refused with this status.
    Refused(u16),
    /// The server refused a request for TLS with this status.
    Unprotected(&'static str, u16),
    /// The request was for a part of the file, and the server sends the whole.
    Whole,
    /// The message of the other end is malformed.
    Syntax(&'static str),
    /// The file cannot be stored: the system's error number.
    Sink(i32),
    /// The file cannot be read.
    Source(i32),
    /// The budget of bytes written is used up.
    Budget,
    /// TLS failed.
    Tls(TlsFault),
}

/// Failure of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsFault {
    /// The server's certificate is not the expected one, or leads to no trusted root.
    Certificate,
    /// The other end refused, with this alert (RFC 8446 clause 6.2).
    Alert(u8),
    /// The bytes are not TLS, or of an unsupported version.
    Protocol,
    /// The connection ended without a close alert.
    Truncated,
}

impl TlsFault {
    /// Returns the failure that `error` of a connection describes, if it is about TLS.
    fn of(error: &io::Error) -> Option<Self> {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            return Some(Self::Truncated);
        }
        Some(match error.get_ref()?.downcast_ref::<Error>()? {
            Error::InvalidCertificate(_) | Error::NoCertificatesPresented => Self::Certificate,
            Error::AlertReceived(alert) => Self::Alert((*alert).into()),
            _ => Self::Protocol,
        })
    }
}

impl Failure {
    /// Returns the failure of a call on a connection.
    pub(crate) fn io(error: &io::Error) -> Self {
        match TlsFault::of(error) {
            Some(fault) => Self::Tls(fault),
            None => Self::Io(error.raw_os_error().unwrap_or(0)),
        }
    }

    /// Returns true if a retry cannot succeed.
    pub(crate) fn is_final(self) -> bool {
        let passing = Self::Tls(TlsFault::Truncated);
        !matches!(self, Self::Io(_) | Self::TimedOut(_) | Self::Closed(_) | Self::Short(..))
            && self != passing
    }
}

impl fmt::Display for TransferStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "while connecting",
            Self::FirstByte => "before the first byte",
            Self::Transfer => "in the middle of the file",
            Self::Close => "after the last byte, before confirming it",
        })
    }
}

/// Returns the kernel's text of an error code.
fn os(code: i32) -> String {
    match code {
        0 => "unknown cause".to_owned(),
        code => io::Error::from_raw_os_error(code).to_string(),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Io(code) => f.write_str(&os(code)),
            Self::TimedOut(stage) => write!(f, "nothing arrived {stage} (parameter `timeout`)"),
            Self::Closed(stage) => write!(f, "the other end closed the connection {stage}"),
            Self::Short(announced, came) => {
                write!(f, "{announced} bytes were announced and {came} arrived")
            }
            Self::Size(announced, came) => {
                write!(f, "the server announced a file of {announced} bytes and sent {came}")
            }
            // FTP uses this reply for both (RFC 959 clause 4.2.2, RFC 4217 clause 4).
            Self::Refused(530) => f.write_str(
                "the server answered 530: not logged in. Check user and password in the URL of \
                    `server`, or set tls = true if the server requires TLS",
            ),
            Self::Refused(status) => write!(
                f,
                "the server answered {status}: check that the file exists and may be read"
            ),
            Self::Unprotected(what, status) => write!(
                f,
                "the server answered {status} to {what}: it has no TLS there, or not for this \
                    login. Enable TLS on the server, or set tls = false"
            ),
            Self::Whole => f.write_str(
                "the server ignores `offset`: it does not support ranges. Set offset = \"0 B\"",
            ),
            Self::Syntax(what) => write!(f, "malformed answer of the other end: {what}"),
            Self::Sink(code) => write!(f, "store the file: {}", os(code)),
            Self::Source(code) => write!(f, "read the file: {}", os(code)),
            Self::Budget => {
                f.write_str("the budget of bytes written is used up (parameter `max_written`)")
            }
            Self::Tls(TlsFault::Certificate) => f.write_str(
                "the server's certificate is not accepted: it leads to none of the `roots`, names \
                    another host or has expired. Set verify = false to accept any",
            ),
            Self::Tls(TlsFault::Alert(alert)) => write!(
                f,
                "the other end refused TLS with alert {alert}: check its versions and ciphers"
            ),
            Self::Tls(TlsFault::Protocol) => f.write_str(
                "the other end does not use TLS, or no common version: check that it serves TLS \
                    at this port",
            ),
            Self::Tls(TlsFault::Truncated) => {
                f.write_str("the other end closed the connection in the middle of TLS")
            }
        }
    }
}
