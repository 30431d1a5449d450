//! Parameters of file transfers, the same at both ends and for every protocol.

use std::ops::RangeInclusive;

use linerate_model::{BitRate, Bytes, Nanos, ParamError, ServerAddress};

use super::names::NUMBER;
use crate::parameter::{Reader, Words, word, wrong};
use crate::workloads::exchange::TIMEOUT;
use crate::workloads::footprint;
use crate::workloads::placement::Placement;
use crate::workloads::ports::PORT;

/// Direction of files, seen from the active end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileDirection {
    /// The client sends them: an upload.
    Upload,
    /// The client fetches them: a download.
    Download,
}

impl FileDirection {
    const WORDS: Words<Self> = &[("tx", Self::Upload), ("rx", Self::Download)];
}

/// Source of a file's bytes at the sending end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Memory, without any disk.
    Memory,
    /// A file in the page cache.
    Warm,
    /// A file that is dropped from the page cache before each transfer.
    Cold,
    /// The files of the folder `root`, in the page cache or not. No plan chooses it by a word.
    Folder,
}

impl Origin {
    const WORDS: Words<Self> =
        &[("memory", Self::Memory), ("warm", Self::Warm), ("cold", Self::Cold)];

    pub(crate) fn name(self) -> &'static str {
        if self == Self::Folder { "folder" } else { word(Self::WORDS, &self) }
    }
}

/// Destination of a file's bytes at the receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sink {
    Discard,
    Memory,
    PageCache,
    Direct,
    Fsync,
    Throttled,
}

impl Sink {
    const WORDS: Words<Self> = &[
        ("discard", Self::Discard),
        ("memory", Self::Memory),
        ("page_cache", Self::PageCache),
        ("direct", Self::Direct),
        ("fsync", Self::Fsync),
        ("throttled", Self::Throttled),
    ];

    pub(crate) fn name(self) -> &'static str {
        word(Self::WORDS, &self)
    }

    /// Returns true for sinks that are files.
    pub(crate) fn is_file(self) -> bool {
        matches!(self, Self::PageCache | Self::Direct | Self::Fsync)
    }
}

/// How the sending end hands bytes to its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendBy {
    Copy,
    Zerocopy,
    Sendfile,
    Splice,
}

impl SendBy {
    const WORDS: Words<Self> = &[
        ("copy", Self::Copy),
        ("zerocopy", Self::Zerocopy),
        ("sendfile", Self::Sendfile),
        ("splice", Self::Splice),
    ];

    pub(crate) fn name(self) -> &'static str {
        word(Self::WORDS, &self)
    }
}

/// How the receiving end takes bytes from its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakeBy {
    Copy,
    Splice,
}

impl TakeBy {
    const WORDS: Words<Self> = &[("copy", Self::Copy), ("splice", Self::Splice)];
}

/// Clients of the passive end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clients {
    /// The active end's.
    Own,
    /// Other programs, while the active end does nothing.
    Foreign,
}

impl Clients {
    const WORDS: Words<Self> = &[("own", Self::Own), ("foreign", Self::Foreign)];
}

/// Parameters of every file transfer.
#[derive(Clone, Debug)]
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
    pub(crate) server: Option<ServerAddress>,
    pub(crate) clients: Clients,
    pub(crate) port: Option<u16>,
    pub(crate) root: Option<String>,
    pub(crate) files: u64,
    pub(crate) offset: Bytes,
    pub(crate) checksum: bool,
}

/// Files: from one that fits a segment to one that no disk holds.
const FILE: RangeInclusive<Bytes> = Bytes(1)..=Bytes(1 << 50);
/// Start of a resumed download.
const PLACE: RangeInclusive<Bytes> = Bytes(0)..=Bytes(1 << 50);
const AMOUNT: RangeInclusive<Bytes> = Bytes(1 << 20)..=Bytes(1 << 60);

impl Files {
    /// Returns the memory that one end needs, bytes.
    pub(crate) fn memory(&self, placement: &Placement) -> u64 {
        // Data of a flow in flight: 32 buffers of 128 KiB for MSG_ZEROCOPY, 8 of 256 KiB for
        // O_DIRECT, records of TLS.
        let on_its_way = if self.send == SendBy::Zerocopy { 4 << 20 } else { 128 << 10 };
        let to_disk = if self.sink == Sink::Direct { 2 << 20 } else { 0 };
        footprint::of(placement, crate::Times::FILES, 6 << 20, on_its_way + to_disk + (256 << 10))
    }

    /// Declares the parameters. `server` is declared by the protocol, which knows its URLs.
    pub(crate) fn declare(reader: &mut Reader<'_>, server: Option<ServerAddress>) -> Self {
        Self {
            server,
            // File servers mostly serve downloads.
            direction: reader.choice(
                "direction",
                FileDirection::WORDS,
                FileDirection::Download,
                "rx: the active end downloads; tx: it uploads",
            ),
            // Long compared with the handshakes, and it fits every page cache.
            file_size: reader.size("file_size", FILE, Bytes(64 << 20), "size of each file"),
            source: reader.choice(
                "source",
                Origin::WORDS,
                Origin::Memory,
                "memory; a file in the page cache; a file that is dropped from the page cache \
                    before each transfer",
            ),
            send: reader.choice(
                "send",
                SendBy::WORDS,
                SendBy::Sendfile,
                "how bytes reach the socket: copy (read and write), zerocopy (MSG_ZEROCOPY), \
                    sendfile, splice",
            ),
            sink: reader.choice(
                "sink",
                Sink::WORDS,
                Sink::Discard,
                "never copied out; copied to memory; a file through the page cache, past it, or on \
                    its disk before the transfer ends; memory at sink_rate",
            ),
            sink_rate: reader.bit_rate(
                "sink_rate",
                "rate of each stream, for sink throttled: a disk whose rate is known",
            ),
            receive: reader.choice(
                "receive",
                TakeBy::WORDS,
                TakeBy::Copy,
                "how bytes reach a file through the page cache",
            ),
            // On a disk nearly everywhere, and not for keeping.
            folder: reader.path(
                "folder",
                "/var/tmp",
                "/var/tmp",
                "folder of unnamed files, for sources and sinks that are files",
            ),
            max_written: reader.optional_size(
                "max_written",
                AMOUNT,
                "64 GiB",
                "budget of bytes written to files in a campaign",
            ),
            timeout: reader.time(
                "timeout",
                TIMEOUT,
                Nanos::from_secs(10),
                "a transfer in which nothing moves for this long has failed",
            ),
            clients: reader.choice(
                "clients",
                Clients::WORDS,
                Clients::Own,
                "foreign: the passive end serves any client, without a password, and the active \
                    end does nothing",
            ),
            port: reader.optional_count("port", PORT, "any", "port that the passive end serves at"),
            root: reader.optional_path(
                "root",
                "/srv/files",
                "none",
                "with clients = \"foreign\": serve the files of this folder instead of one of \
                    file_size; the passive end's host must allow it (linerate serve --root, \
                    linerate agent --allow-serve)",
            ),
            // One file, again and again.
            files: reader.count(
                "files",
                1..=1_000_000_000,
                1,
                "with `{n}` in the path of `server`: files 0 to files - 1 in turn, shared by the \
                    streams",
            ),
            offset: reader.size(
                "offset",
                PLACE,
                Bytes(0),
                "resume each download at this byte (`http`: Range, `ftp`: REST)",
            ),
            checksum: reader.flag(
                "checksum",
                false,
                "report the SHA-256 of the last file received and of all of them in order; it \
                    costs CPU",
            ),
        }
    }

    /// Checks that all of them go together.
    pub(crate) fn check(&self) -> Result<(), ParamError> {
        match (self.sink, self.sink_rate) {
            (Sink::Throttled, None) => {
                return Err(wrong("sink", "`throttled` needs sink_rate, such as \"25 Mbit/s\""));
            }
            (Sink::Throttled, Some(rate)) if rate.0 < f64::from(u8::BITS) => {
                return Err(wrong("sink_rate", "less than a byte per second takes nothing"));
            }
            (Sink::Throttled, Some(_)) | (_, None) => {}
            (_, Some(_)) => return Err(wrong("sink_rate", "applies to sink = \"throttled\" only")),
        }
        if self.receive == TakeBy::Splice && !matches!(self.sink, Sink::PageCache | Sink::Fsync) {
            return Err(wrong(
                "receive",
                "`splice` needs a file: set sink = \"page_cache\" or \"fsync\"",
            ));
        }
        if self.checksum
            && (matches!(self.sink, Sink::Discard | Sink::Direct) || self.receive == TakeBy::Splice)
        {
            return Err(wrong(
                "checksum",
                "needs the received bytes in memory: set sink = \"memory\" (or page_cache, by \
                    copy)",
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
            return Err(wrong(
                "clients",
                "excludes `server`: the clients of a foreign server are our own",
            ));
        }
        Ok(())
    }

    /// Returns true if one end is not linerate.
    pub(crate) fn has_foreign_peer(&self) -> bool {
        self.server.is_some() || self.clients == Clients::Foreign
    }

    /// Returns true if the client sends.
    pub(crate) fn is_upload(&self) -> bool {
        self.direction == FileDirection::Upload
    }
}
