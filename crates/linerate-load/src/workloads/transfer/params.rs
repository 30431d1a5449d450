//! Parameters of file transfers, the same at both ends and for every protocol.

use linerate_model::{BitRate, Bytes, Nanos, ParamError};
use serde::Deserialize;

use super::names::NUMBER;
use crate::parameter::{ParamDoc, Takes};
use crate::workloads::exchange::TIMEOUT;
use crate::workloads::footprint;
use crate::workloads::parameters::wrong;
use crate::workloads::placement::Placement;

/// Which way files go, seen from the active end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum FileDirection {
    /// The client sends them: an upload.
    #[serde(rename = "tx")]
    Upload,
    /// The client fetches them: a download.
    #[serde(rename = "rx")]
    Download,
}

/// Where the sending end has a file's bytes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// Memory; no disk has a part in it.
    #[default]
    Memory,
    /// A file that the page cache holds.
    Warm,
    /// A file that the page cache is made to forget before each transfer.
    Cold,
    /// The files of a folder, in the page cache or not: `root`.
    #[serde(skip)]
    Folder,
}

impl Origin {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Warm => "warm",
            Self::Cold => "cold",
            Self::Folder => "folder",
        }
    }
}

/// Where the receiving end puts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Sink {
    #[default]
    Discard,
    Memory,
    PageCache,
    Direct,
    Fsync,
    Throttled,
}

impl Sink {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Discard => "discard",
            Self::Memory => "memory",
            Self::PageCache => "page_cache",
            Self::Direct => "direct",
            Self::Fsync => "fsync",
            Self::Throttled => "throttled",
        }
    }

    /// Whether it stores them.
    pub(crate) fn is_file(self) -> bool {
        matches!(self, Self::PageCache | Self::Direct | Self::Fsync)
    }
}

/// How the sending end hands bytes to its socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SendBy {
    Copy,
    Zerocopy,
    #[default]
    Sendfile,
    Splice,
}

impl SendBy {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Zerocopy => "zerocopy",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
        }
    }
}

/// How the receiving end takes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TakeBy {
    #[default]
    Copy,
    Splice,
}

/// Whose clients come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clients {
    /// The active end's.
    #[default]
    Own,
    /// Other programs; the active end has no part in it.
    Foreign,
}

/// What every file transfer can be told.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(crate) struct Files {
    pub(crate) direction: FileDirection,
    pub(crate) file_size: Bytes,
    pub(crate) source: Origin,
    pub(crate) send: SendBy,
    pub(crate) sink: Sink,
    pub(crate) sink_rate: Option<BitRate>,
    pub(crate) receive: TakeBy,
    pub(crate) folder: String,
    pub(crate) max_written: Option<Bytes>,
    pub(crate) timeout: Nanos,
    pub(crate) server: Option<linerate_model::ServerAddress>,
    pub(crate) clients: Clients,
    pub(crate) port: Option<u16>,
    pub(crate) root: Option<String>,
    pub(crate) files: u64,
    pub(crate) offset: Bytes,
    pub(crate) checksum: bool,
}

impl Default for Files {
    fn default() -> Self {
        Self {
            // What file servers mostly do.
            direction: FileDirection::Download,
            // Long against the handshakes, and it fits every page cache.
            file_size: Bytes(64 << 20),
            source: Origin::default(),
            send: SendBy::default(),
            sink: Sink::default(),
            sink_rate: None,
            receive: TakeBy::default(),
            // On a disk nearly everywhere, and not for keeping.
            folder: "/var/tmp".into(),
            max_written: None,
            timeout: Nanos::from_secs(10),
            server: None,
            clients: Clients::default(),
            port: None,
            root: None,
            // One file, again and again.
            files: 1,
            offset: Bytes(0),
            checksum: false,
        }
    }
}

/// Files: from one that fits a segment to one that no disk holds.
const FILE: Takes = Takes::Size { least: Bytes(1), most: Bytes(1 << 50) };
/// Where a download resumes: anywhere in such a file.
const PLACE: Takes = Takes::Size { least: Bytes(0), most: Bytes(1 << 50) };
const AMOUNT: Takes = Takes::Size { least: Bytes(1 << 20), most: Bytes(1 << 60) };

impl Files {
    /// Memory that one end needs, bytes.
    pub(crate) fn memory(&self, placement: &Placement) -> u64 {
        // What of a flow is on its way: 32 buffers of 128 KiB for MSG_ZEROCOPY, 8 of 256 KiB for
        // O_DIRECT, records of TLS.
        let on_its_way = if self.send == SendBy::Zerocopy { 4 << 20 } else { 128 << 10 };
        let to_disk = if self.sink == Sink::Direct { 2 << 20 } else { 0 };
        footprint::of(placement, crate::Times::FILES, 6 << 20, on_its_way + to_disk + (256 << 10))
    }

    /// As documented; `server` stands with its protocol.
    pub(crate) const DOCS: &[ParamDoc] = &[
        ParamDoc {
            name: "direction",
            takes: Takes::Word(&["tx", "rx"]),
            default: "\"rx\"",
            meaning: "rx: the active end downloads; tx: it uploads",
        },
        ParamDoc { name: "file_size", takes: FILE, default: "\"64 MiB\"", meaning: "of each file" },
        ParamDoc {
            name: "source",
            takes: Takes::Word(&["memory", "warm", "cold"]),
            default: "\"memory\"",
            meaning: "memory; a file in the page cache; a file that the page cache forgets before \
                each transfer",
        },
        ParamDoc {
            name: "send",
            takes: Takes::Word(&["copy", "zerocopy", "sendfile", "splice"]),
            default: "\"sendfile\"",
            meaning: "how bytes reach the socket: copy (read and write), zerocopy (MSG_ZEROCOPY), \
                sendfile, splice",
        },
        ParamDoc {
            name: "sink",
            takes: Takes::Word(&[
                "discard",
                "memory",
                "page_cache",
                "direct",
                "fsync",
                "throttled",
            ]),
            default: "\"discard\"",
            meaning: "never copied out; copied to memory; a file through the page cache, past it, \
                or on its disk before \
                      the transfer is over; memory at sink_rate",
        },
        ParamDoc {
            name: "sink_rate",
            takes: Takes::BitRate,
            default: "none",
            meaning: "of each stream, for sink throttled: a disk whose rate is known",
        },
        ParamDoc {
            name: "receive",
            takes: Takes::Word(&["copy", "splice"]),
            default: "\"copy\"",
            meaning: "how bytes reach a file through the page cache",
        },
        ParamDoc {
            name: "folder",
            takes: Takes::Text { example: "/var/tmp" },
            default: "\"/var/tmp\"",
            meaning: "where files without a name are made, for sources and sinks that are files",
        },
        ParamDoc {
            name: "max_written",
            takes: AMOUNT,
            default: "64 GiB",
            meaning: "budget of bytes written to files in a campaign",
        },
        ParamDoc {
            name: "timeout",
            takes: TIMEOUT,
            default: "\"10 s\"",
            meaning: "a transfer in which nothing moves for this long has failed",
        },
        ParamDoc {
            name: "clients",
            takes: Takes::Word(&["own", "foreign"]),
            default: "\"own\"",
            meaning: "foreign: the passive end serves whatever comes, without a password, and the \
                active end does nothing",
        },
        ParamDoc {
            name: "port",
            takes: Takes::Count { least: 1, most: 65_535 },
            default: "any",
            meaning: "port that the passive end serves at",
        },
        ParamDoc {
            name: "root",
            takes: Takes::Text { example: "/srv/files" },
            default: "none",
            meaning: "with clients = \"foreign\": serve the files of this folder instead of one of \
                file_size; the passive end's host \
                      must allow it (linerate serve --root, linerate agent --allow-serve)",
        },
        ParamDoc {
            name: "files",
            takes: Takes::Count { least: 1, most: 1_000_000_000 },
            default: "1",
            meaning: "with `{n}` in the path of `server`: files 0 to files - 1, one after the \
                other, shared by the streams",
        },
        ParamDoc {
            name: "offset",
            takes: PLACE,
            default: "\"0 B\"",
            meaning: "resume each download at this byte (`http`: Range, `ftp`: REST)",
        },
        ParamDoc {
            name: "checksum",
            takes: Takes::Flag,
            default: "false",
            meaning: "SHA-256 of the last file received and of all of them in order, in the \
                report; it costs CPU",
        },
    ];

    /// Says whether all of them go together.
    pub(crate) fn check(&self) -> Result<(), ParamError> {
        match (self.sink, self.sink_rate) {
            (Sink::Throttled, None) => {
                return Err(wrong("sink", "`throttled` needs sink_rate, such as \"25 Mbit/s\""));
            }
            (Sink::Throttled, Some(rate)) if rate.0 < f64::from(u8::BITS) => {
                return Err(wrong("sink_rate", "less than a byte per second takes nothing"));
            }
            (Sink::Throttled, Some(_)) | (_, None) => {}
            (_, Some(_)) => return Err(wrong("sink_rate", "is that of sink = \"throttled\"")),
        }
        if self.receive == TakeBy::Splice && !matches!(self.sink, Sink::PageCache | Sink::Fsync) {
            return Err(wrong(
                "receive",
                "`splice` leads to a file: set sink = \"page_cache\" or \"fsync\"",
            ));
        }
        if self.checksum
            && (matches!(self.sink, Sink::Discard | Sink::Direct) || self.receive == TakeBy::Splice)
        {
            return Err(wrong(
                "checksum",
                "needs what is received in memory: set sink = \"memory\" (or page_cache, by copy)",
            ));
        }
        if self.offset.0 > 0 && self.is_upload() {
            return Err(wrong("offset", "resumes downloads (direction = \"rx\")"));
        }
        if self.root.is_some() && (self.clients == Clients::Own || self.is_upload()) {
            return Err(wrong(
                "root",
                "is for foreign clients that download: set clients = \"foreign\" and direction \
                    = \"rx\"",
            ));
        }
        if self.files > 1
            && !self.server.as_ref().is_some_and(|server| server.reveal().contains(NUMBER))
        {
            return Err(wrong(
                "files",
                "needs `{n}` in the path of `server`, where the number of a file goes",
            ));
        }
        if self.server.is_some() && self.clients == Clients::Foreign {
            return Err(wrong("clients", "with a foreign server the clients are our own"));
        }
        Ok(())
    }

    /// Whether one end of it is not linerate.
    pub(crate) fn has_foreign_peer(&self) -> bool {
        self.server.is_some() || self.clients == Clients::Foreign
    }

    /// Whether the client sends.
    pub(crate) fn is_upload(&self) -> bool {
        self.direction == FileDirection::Upload
    }
}
