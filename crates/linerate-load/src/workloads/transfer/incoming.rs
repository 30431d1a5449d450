//! Flow that receives files and discards, copies, throttles or stores them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use linerate_model::{Counter, Nanos};
use linerate_sys::SysError;
use linerate_sys::file::Splice;

use super::course::Account;
use super::digest::Checksum;
use super::direct::{DirectSink, Taken};
use super::failure::Failure;
use super::flusher::Flusher;
use super::params::{Sink, TakeBy};
use super::store::{FlowRegions, Store};
use super::watched::Watched;
use super::{Bench, Turn};
use crate::Result;
use crate::workloads::rendezvous::would_wait;

/// Bytes taken by one call that copies nothing.
const TAKE_BYTES: u64 = 1 << 20;
/// Calls in one turn.
const CALLS: u32 = 8;
/// Pause before a full sink is tried again.
const FULL_REST: Nanos = Nanos(200_000);
/// Most that a throttled sink catches up after it was idle or late.
const CATCH_UP: Nanos = Nanos::from_millis(100);
/// Time whose bytes a throttled sink takes at once, but at least a page.
const GULP: Nanos = Nanos::from_millis(2);
const LEAST_GULP: f64 = 4096.0;
const BITS: f64 = 8.0;

/// The receiving side of one flow.
#[derive(Debug)]
pub(crate) struct Incoming {
    into: Into,
    place: Option<FlowRegions>,
    base: u64,
    at: u64,
    name: &'static str,
    checksum: Option<Box<Checksum>>,
}

#[derive(Debug)]
enum Into {
    Nothing,
    Memory,
    /// Bytes per second, and the time from which more may be taken.
    Throttled {
        rate: f64,
        next: Nanos,
    },
    File {
        file: File,
        splice: Option<Splice>,
        flusher: Option<Flusher>,
        is_flushing: bool,
    },
    Direct(Box<DirectSink>),
}

/// Outcome of a turn.
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) ended: bool,
    pub(crate) turn: Turn,
}

impl Incoming {
    /// Creates flow `number` of this end.
    pub(crate) fn new(store: &Store, number: u32) -> Result<Self> {
        let params = &store.params;
        let base = store.place.as_ref().map_or(0, |place| place.region * u64::from(number));
        let file = || target_file(store);
        let flusher = |file: File| {
            Flusher::new(file).map_err(|cause| SysError::new("start", "a flushing thread", cause))
        };
        let splice = || (params.receive == TakeBy::Splice).then(Splice::new).transpose();
        let into = match params.sink {
            Sink::Discard => Into::Nothing,
            Sink::Memory => Into::Memory,
            Sink::Throttled => {
                let rate = params.sink_rate.expect("checked with the parameters").0 / BITS;
                Into::Throttled { rate, next: Nanos(0) }
            }
            Sink::PageCache => {
                Into::File { file: file()?, splice: splice()?, flusher: None, is_flushing: false }
            }
            Sink::Fsync => Into::File {
                file: file()?,
                splice: splice()?,
                flusher: Some(flusher(file()?)?),
                is_flushing: false,
            },
            Sink::Direct => {
                let place = store.place.as_ref().expect("an end that stores has a place");
                Into::Direct(Box::new(DirectSink::new(&place.target, base, place.region)?))
            }
        };
        let checksum = params.checksum.then(Box::default);
        Ok(Self {
            into,
            place: store.place.clone(),
            base,
            at: 0,
            name: params.sink.name(),
            checksum,
        })
    }

    /// Begins the next file, of `size` bytes if that is known.
    pub(crate) fn begin(&mut self, size: Option<u64>) -> Result<(), Failure> {
        self.at = 0;
        self.checksum.iter_mut().for_each(|checksum| checksum.begin());
        match &mut self.into {
            Into::Direct(direct) => direct.begin(),
            Into::File { splice: Some(splice), is_flushing, .. } => {
                splice.clear();
                *is_flushing = false;
            }
            Into::File { is_flushing, .. } => *is_flushing = false,
            Into::Nothing | Into::Memory | Into::Throttled { .. } => {}
        }
        match &self.place {
            Some(place) if !place.target.spend(size.unwrap_or(place.region), place.most) => {
                Err(Failure::Budget)
            }
            _ => Ok(()),
        }
    }

    /// Takes a part of the file, at most `left` bytes.
    pub(crate) fn take(
        &mut self,
        connection: &mut Watched,
        left: u64,
        account: &mut Account,
        bench: &mut Bench<'_>,
    ) -> Result<Received, Failure> {
        let mut received = Received { bytes: 0, ended: false, turn: Turn::Moved };
        let (mut calls, mut failed) = (0, None);
        while received.bytes < left && calls < CALLS && received.turn == Turn::Moved {
            calls += 1;
            // Bytes received before a failure still count.
            match self.take_once(connection, left - received.bytes, bench) {
                Ok(Ok(Some(0))) => received.ended = true,
                Ok(Ok(Some(n))) => {
                    received.bytes += n as u64;
                    self.at += n as u64;
                }
                Ok(Ok(None)) => received.turn = Turn::Until(self.resume_at(bench.now)),
                Ok(Err(error)) if would_wait(&error) => received.turn = Turn::Network,
                Ok(Err(error)) => failed = Some(Failure::io(&error)),
                Err(failure) => failed = Some(failure),
            }
            if received.ended || failed.is_some() {
                break;
            }
        }
        account.count(bench.tally, Counter::CallsReceived, calls.into());
        account.count(bench.tally, Counter::PayloadReceived, received.bytes);
        account.count(bench.tally, Counter::WouldBlock, u64::from(received.turn == Turn::Network));
        if self.place.is_some() {
            account.count(bench.tally, Counter::BytesWritten, received.bytes);
        }
        failed.map_or(Ok(received), Err)
    }

    /// Makes one call; returns `None` if the sink is full.
    #[inline]
    fn take_once(
        &mut self,
        connection: &mut Watched,
        left: u64,
        bench: &mut Bench<'_>,
    ) -> Result<io::Result<Option<usize>>, Failure> {
        let buffer_bytes = (bench.buffer.len() as u64).min(left) as usize;
        let answer = match &mut self.into {
            Into::Nothing => connection.discard(left.min(TAKE_BYTES) as usize, bench.buffer),
            Into::Memory => connection.receive(&mut bench.buffer[..buffer_bytes]),
            Into::Throttled { rate, next } => {
                let now = Nanos(linerate_sys::clock::monotonic());
                if now < *next {
                    return Ok(Ok(None));
                }
                let gulp = (*rate * GULP.as_secs_f64()).max(LEAST_GULP) as usize;
                let answer = connection.receive(&mut bench.buffer[..buffer_bytes.min(gulp)]);
                let lasts = Nanos::from_secs_f64(*answer.as_ref().unwrap_or(&0) as f64 / *rate);
                *next = Nanos(now.0.saturating_sub(CATCH_UP.0)).max(*next) + lasts;
                answer
            }
            Into::File { file, splice, .. } => {
                let region = self.place.as_ref().map_or(u64::MAX, |place| place.region);
                let within = self.at % region;
                let (offset, left) = (self.base + within, left.min(region - within));
                match splice {
                    Some(splice) => splice.receive(
                        &connection.socket,
                        file,
                        offset,
                        left.min(TAKE_BYTES) as usize,
                    ),
                    None => {
                        let bytes = (left as usize).min(buffer_bytes);
                        let answer = connection.receive(&mut bench.buffer[..bytes]);
                        store(file, &bench.buffer[..*answer.as_ref().unwrap_or(&0)], offset)?;
                        answer
                    }
                }
            }
            Into::Direct(direct) => {
                return Ok(direct.take(connection, left)?.map(|taken| match taken {
                    Taken::Bytes(n) => Some(n),
                    Taken::Full => None,
                }));
            }
        };
        if let Some(checksum) = &mut self.checksum {
            // Discarded or spliced bytes are not in memory: the parameters exclude a checksum of
            // them.
            checksum.add(&bench.buffer[..*answer.as_ref().unwrap_or(&0)]);
        }
        Ok(answer.map(Some))
    }

    fn resume_at(&self, now: Nanos) -> Nanos {
        match self.into {
            Into::Throttled { next, .. } => next,
            _ => now + FULL_REST,
        }
    }

    /// Finishes a file after its last byte; returns true once it is stored.
    pub(crate) fn finish(&mut self) -> Result<bool, Failure> {
        let is_there = self.is_stored()?;
        if is_there {
            self.checksum.iter_mut().for_each(|checksum| checksum.end());
        }
        Ok(is_there)
    }

    fn is_stored(&mut self) -> Result<bool, Failure> {
        match &mut self.into {
            Into::Nothing | Into::Memory | Into::Throttled { .. } => Ok(true),
            Into::File { flusher: None, .. } => Ok(true),
            Into::File { flusher: Some(flusher), is_flushing, .. } => {
                if !std::mem::replace(is_flushing, true) {
                    flusher.start();
                }
                match flusher.result() {
                    None => Ok(false),
                    Some(0) => Ok(true),
                    Some(code) => Err(Failure::Sink(code)),
                }
            }
            Into::Direct(direct) => direct.finish(),
        }
    }

    /// Adds this flow's modes to reports.
    pub(crate) fn modes(&self, modes: &mut BTreeMap<String, String>) {
        modes.insert("sink".into(), self.name.into());
        self.checksum.iter().for_each(|checksum| checksum.modes(modes));
        match &self.into {
            Into::Direct(direct) => {
                modes.insert("engine".into(), direct.described());
            }
            Into::File { splice, .. } => {
                modes.insert(
                    "receive".into(),
                    if splice.is_some() { "splice" } else { "copy" }.into(),
                );
            }
            Into::Nothing | Into::Memory | Into::Throttled { .. } => {}
        }
        let device = self.place.as_ref().and_then(|place| place.target.device_name());
        modes.extend(device.map(|device| ("sink_device".into(), device)));
    }
}

/// Opens the file that the flows of `store` write.
fn target_file(store: &Store) -> Result<File> {
    let place = store.place.as_ref().expect("an end that stores has a place");
    Ok(place.target.open(true, false)?)
}

fn store(file: &File, bytes: &[u8], offset: u64) -> Result<(), Failure> {
    file.write_all_at(bytes, offset)
        .map_err(|error| Failure::Sink(error.raw_os_error().unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_filesystem_is_named() {
        let full =
            std::fs::OpenOptions::new().write(true).open("/dev/full").expect("every Linux has it");
        let failure = store(&full, b"bytes", 0).expect_err("no room");
        assert!(failure.is_final());
        assert_eq!(failure.to_string(), "store the file: No space left on device (os error 28)");
    }
}
