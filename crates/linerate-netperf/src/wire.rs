//! Messages of the control connection: 656 bytes in either direction, two words and 162 words of
//! data. Numbers are in network order; texts follow them as they are.

use std::io::{self, Read, Write};

/// Port of a netserver.
pub const PORT: u16 = 12_865;
/// Bytes of a message.
pub const MESSAGE_BYTES: usize = HEAD_BYTES + DATA_BYTES;
const HEAD_BYTES: usize = 8;
const DATA_BYTES: usize = 162 * WORD_BYTES;
const WORD_BYTES: usize = 4;
/// Time that an end which receives waits beyond the length of a test, seconds.
pub const PADDING_S: u64 = 4;

/// Kinds of messages.
pub mod kind {
    /// Begin to print what happens.
    pub const DEBUG_ON: u32 = 1;
    /// End that.
    pub const DEBUG_OFF: u32 = 2;
    /// Answer to both.
    pub const DEBUG_OK: u32 = 3;
    /// Calibrate the measurement of the CPU.
    pub const CPU_CALIBRATE: u32 = 5;
    /// Begin a test.
    pub const TEST: u32 = 97;
    /// Answer to it, and its results.
    pub const ANSWER: u32 = 98;
    /// Describe the host.
    pub const SYSTEM: u32 = 600;
    /// Answer to that.
    pub const SYSTEM_ANSWER: u32 = 601;
}

/// Error number of a request that a server does not know.
pub const UNKNOWN_REQUEST: u32 = 998;

/// Bits of [`Request::flags`] that are understood here.
pub mod flag {
    /// `TCP_NODELAY`.
    pub const NO_DELAY: u32 = 1;
    /// A connection for each transaction.
    pub const CONNECTIONS: u32 = 4;
    /// Measure the CPU.
    pub const CPU: u32 = 8;
    /// Datagrams may pass a router.
    pub const ROUTED: u32 = 0x20;
    /// Name the congestion control in the results. netperf uses the bit of [`ROUTED`] for it, which
    /// only UDP reads.
    pub const CONGESTION: u32 = 0x20;
    /// `SO_KEEPALIVE`.
    pub const KEEP_ALIVE: u32 = 0x8000_0000;
}

/// Bits of [`Request::direction`]: what the server does.
pub mod direction {
    /// It sends.
    pub const SENDS: u32 = 2;
    /// It receives.
    pub const RECEIVES: u32 = 4;
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it is.
    pub kind: u32,
    /// Of a request, the CPU to run on and -1; of an answer, an error number or 0.
    pub word: u32,
    data: [u8; DATA_BYTES],
}

impl Message {
    /// Creates a message without data.
    #[must_use]
    pub fn new(kind: u32, word: u32) -> Self {
        Self { kind, word, data: [0; DATA_BYTES] }
    }

    /// Creates a message with the data that `write` writes.
    #[must_use]
    pub fn with(kind: u32, write: impl FnOnce(&mut Writer<'_>)) -> Self {
        let mut message = Self::new(kind, 0);
        write(&mut Writer { left: &mut message.data });
        message
    }

    /// Returns a reader of the data.
    #[must_use]
    pub fn reader(&self) -> Reader<'_> {
        Reader { left: &self.data }
    }

    /// Reads a message.
    ///
    /// # Errors
    /// As of `from`; the connection may end.
    pub fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; MESSAGE_BYTES];
        from.read_exact(&mut bytes)?;
        let mut head = Reader { left: &bytes };
        let (kind, word) = (head.word(), head.word());
        let mut message = Self::new(kind, word);
        message.data.copy_from_slice(head.left);
        Ok(message)
    }

    /// Writes the message.
    ///
    /// # Errors
    /// As of `to`.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; MESSAGE_BYTES];
        let mut writer = Writer { left: &mut bytes };
        writer.word(self.kind);
        writer.word(self.word);
        writer.left.copy_from_slice(&self.data);
        to.write_all(&bytes)
    }
}

/// Writes fields, one after another. What does not fit is a fault of this module.
#[derive(Debug)]
pub struct Writer<'a> {
    left: &'a mut [u8],
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        let (part, left) = std::mem::take(&mut self.left).split_at_mut(bytes.len());
        part.copy_from_slice(bytes);
        self.left = left;
    }

    fn word(&mut self, word: u32) {
        self.bytes(&word.to_be_bytes());
    }

    fn signed(&mut self, word: i32) {
        self.bytes(&word.to_be_bytes());
    }

    /// A real number travels as the word that has its bits.
    fn real(&mut self, number: f32) {
        self.word(number.to_bits());
    }

    fn words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.word(*word));
    }

    /// Writes `text` into `n` bytes, of which the last is a zero.
    fn text(&mut self, text: &str, n: usize) {
        let mut bytes = text.as_bytes()[..text.len().min(n - 1)].to_vec();
        bytes.resize(n, 0);
        self.bytes(&bytes);
    }
}

/// Reads fields, one after another.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
}

impl Reader<'_> {
    fn word(&mut self) -> u32 {
        let (bytes, left) = self.left.split_first_chunk().unwrap_or((&[0; WORD_BYTES], &[]));
        self.left = left;
        u32::from_be_bytes(*bytes)
    }

    fn signed(&mut self) -> i32 {
        self.word().cast_signed()
    }

    fn real(&mut self) -> f32 {
        f32::from_bits(self.word())
    }

    fn skip(&mut self, n_words: usize) {
        for _ in 0..n_words {
            self.word();
        }
    }

    fn text(&mut self, n: usize) -> String {
        let (bytes, left) = self.left.split_at(n.min(self.left.len()));
        self.left = left;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    }
}

const CONGESTION_BYTES: usize = 16;
const FILE_BYTES: usize = 32;

/// What a client asks a server to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// `SO_SNDBUF` and `SO_RCVBUF`, bytes; -1 leaves them to the system.
    pub buffers: [i32; 2],
    /// Bytes of a sending and of a receiving call; 0 and -1 leave them to the server.
    pub sizes: [i32; 2],
    /// Bytes of a request and of its response; -1 in a test without them.
    pub exchange: [i32; 2],
    /// See [`flag`].
    pub flags: u32,
    /// Length: seconds, or bytes or transactions if negative; 0 is without end.
    pub length: i32,
    /// Port for the data; 0 leaves it to the server.
    pub port: u16,
    /// 4 or 6.
    pub family: u32,
    /// True for UDP, false for TCP.
    pub is_udp: bool,
    /// Protocol, if it is neither.
    pub other_protocol: Option<u32>,
    /// See [`direction`].
    pub direction: u32,
    /// The client's port for the data, of UDP.
    pub client_port: u16,
    /// Octet with the traffic class; 0 leaves it to the system.
    pub class: u8,
    /// Congestion control; empty leaves it to the system.
    pub congestion: String,
    /// File that fills the server's blocks.
    pub fill: String,
}

const TCP: u32 = 6;
const UDP: u32 = 17;
const STREAM: u32 = 1;
const DATAGRAM: u32 = 2;
/// netperf's usual alignment of blocks.
const ALIGNMENT: u32 = 8;

impl Request {
    /// Returns the message of the request for a server on `cpu`.
    #[must_use]
    pub fn message(&self, cpu: Option<u16>) -> Message {
        let mut message = Message::with(kind::TEST, |to| self.write(to));
        message.word = cpu.map_or(u32::MAX, u32::from);
        message
    }

    fn write(&self, to: &mut Writer<'_>) {
        for (idx, alignment) in [(0, ALIGNMENT), (1, ALIGNMENT)] {
            to.signed(self.buffers[idx]);
            to.signed(self.sizes[idx]);
            to.words(&[alignment, 0, 0]);
            to.signed(self.exchange[idx]);
        }
        to.word(self.flags);
        to.real(0.0);
        to.signed(self.length);
        to.words(&[0; 5]);
        to.word(self.port.into());
        to.word(self.family);
        to.words(match self.is_udp {
            false => &[STREAM, TCP],
            true => &[DATAGRAM, UDP],
        });
        to.word(self.direction);
        to.word(self.client_port.into());
        // No pauses, and addresses are those of the control connection.
        to.words(&[0; 2 + 8]);
        to.signed(-1);
        to.signed(if self.class == 0 { -1 } else { self.class.into() });
        to.text(&self.congestion, CONGESTION_BYTES);
        to.text(&self.fill, FILE_BYTES);
    }

    /// Returns the request of a message.
    #[must_use]
    pub fn read(message: &Message) -> Self {
        let mut from = message.reader();
        let mut request = Self::default();
        for idx in 0..2 {
            request.buffers[idx] = from.signed();
            request.sizes[idx] = from.signed();
            from.skip(3);
            request.exchange[idx] = from.signed();
        }
        request.flags = from.word();
        from.skip(1);
        request.length = from.signed();
        from.skip(5);
        let port = |word: u32| u16::try_from(word).unwrap_or(0);
        request.port = port(from.word());
        request.family = from.word();
        from.skip(1);
        let protocol = from.word();
        request.is_udp = protocol == UDP;
        request.other_protocol = Some(protocol).filter(|protocol| ![TCP, UDP].contains(protocol));
        request.direction = from.word();
        request.client_port = port(from.word());
        from.skip(2 + 8 + 1);
        request.class = u8::try_from(from.signed()).unwrap_or(0);
        request.congestion = from.text(CONGESTION_BYTES);
        request.fill = from.text(FILE_BYTES);
        request
    }

    /// Returns whether the test consists of transactions.
    #[must_use]
    pub fn is_exchange(&self) -> bool {
        let both = direction::SENDS | direction::RECEIVES;
        [0, both].contains(&(self.direction & both))
    }
}

/// A server's answer to a request: the test can begin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Buffers of the socket as granted, sending and receiving, bytes.
    pub buffers: [i32; 2],
    /// Bytes of a sending and of a receiving call.
    pub sizes: [i32; 2],
    /// See [`flag`].
    pub flags: u32,
    /// Port for the data.
    pub port: u16,
    /// Octet with the traffic class.
    pub class: i32,
}

impl Answer {
    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> Message {
        Message::with(kind::ANSWER, |to| {
            for idx in [1, 0] {
                to.signed(self.buffers[idx]);
                to.signed(self.sizes[idx]);
                to.word(1);
            }
            to.word(self.flags);
            to.words(&[0; 4]);
            to.word(self.port.into());
            to.words(&[0; 4]);
            to.signed(-1);
            to.signed(self.class);
        })
    }

    /// Returns the answer of a message.
    #[must_use]
    pub fn read(message: &Message) -> Self {
        let mut from = message.reader();
        let mut answer = Self::default();
        for idx in [1, 0] {
            answer.buffers[idx] = from.signed();
            answer.sizes[idx] = from.signed();
            from.skip(1);
        }
        answer.flags = from.word();
        from.skip(4);
        answer.port = u16::try_from(from.word()).unwrap_or(0);
        from.skip(5);
        answer.class = from.signed();
        answer
    }
}

/// Use of the CPUs of a host, percent of all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUse {
    /// All but idle.
    pub total: f32,
    /// Programs.
    pub user: f32,
    /// Kernel.
    pub system: f32,
    /// Idle while a disk was waited for.
    pub waiting: f32,
    /// Interrupts.
    pub interrupts: f32,
    /// Soft interrupts.
    pub soft: f32,
    /// Number of CPUs.
    pub n_cpus: u32,
    /// The busiest one, and its use in percent.
    pub busiest: (i32, f32),
}

/// A server's figures at the end of a test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    /// Bytes sent and received.
    pub bytes: [u64; 2],
    /// Sending and receiving calls; 32 bits of them.
    pub calls: [u32; 2],
    /// Buffers of the socket at the end, sending and receiving, bytes.
    pub buffers: [i32; 2],
    /// Sending calls that failed.
    pub failed: u32,
    /// Transactions.
    pub transactions: u32,
    /// Length, seconds.
    pub seconds: f32,
    /// CPUs, if they were measured.
    pub cpu: CpuUse,
    /// Segments sent again; -1 if unknown.
    pub retransmits: i32,
    /// Congestion control, if it was asked for.
    pub congestion: String,
}

/// Number of the method that reads /proc/stat.
const CPU_METHOD: u32 = 8;
const OTHER_TEXT_BYTES: usize = 16 + 4 * 32 + 16;

impl Results {
    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> Message {
        Message::with(kind::ANSWER, |to| {
            for idx in [1, 0] {
                to.word((self.bytes[idx] >> 32) as u32);
                to.word(self.bytes[idx] as u32);
                to.word(self.calls[idx]);
                to.signed(self.buffers[idx]);
            }
            to.words(&[self.failed, self.transactions]);
            let cpu = &self.cpu;
            let shares = [cpu.total, cpu.user, cpu.system, cpu.waiting, cpu.interrupts, cpu.soft];
            to.real(self.seconds);
            shares.iter().for_each(|share| to.real(*share));
            to.real(0.0);
            to.words(&[CPU_METHOD, cpu.n_cpus]);
            to.signed(cpu.busiest.0);
            to.real(cpu.busiest.1);
            to.words(&[0; 4]);
            to.signed(self.retransmits);
            to.bytes(&[0; OTHER_TEXT_BYTES]);
            to.text(&self.congestion, CONGESTION_BYTES);
        })
    }

    /// Returns the results of a message.
    #[must_use]
    pub fn read(message: &Message) -> Self {
        let mut from = message.reader();
        let mut results = Self::default();
        for idx in [1, 0] {
            results.bytes[idx] = u64::from(from.word()) << 32;
            results.bytes[idx] += u64::from(from.word());
            results.calls[idx] = from.word();
            results.buffers[idx] = from.signed();
        }
        results.failed = from.word();
        results.transactions = from.word();
        results.seconds = from.real();
        let mut shares = [0.0; 6];
        shares.iter_mut().for_each(|share| *share = from.real());
        let [total, user, system, waiting, interrupts, soft] = shares;
        from.skip(2);
        let n_cpus = from.word();
        let busiest = (from.signed(), from.real());
        results.cpu = CpuUse { total, user, system, waiting, interrupts, soft, n_cpus, busiest };
        from.skip(4);
        results.retransmits = from.signed();
        let _ = from.text(OTHER_TEXT_BYTES);
        results.congestion = from.text(CONGESTION_BYTES);
        results
    }
}

#[cfg(test)]
mod tests;
