//! Maps: data that a program and its user share, and targets that a program may redirect to. Keys
//! are indices.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::raw;
use crate::memory::Mapping;
use crate::{Result, SysError};

/// `BPF_MAP_TYPE_*` of linux/bpf.h.
const ARRAY: u32 = 2;
const PER_CPU_ARRAY: u32 = 6;
const DEVICES: u32 = 14;
const XDP_SOCKETS: u32 = 17;
const MAPPABLE: u32 = 1 << 10;

const KEY_BYTES: u32 = 4;
const WORD_BYTES: usize = 8;

/// Map of any kind.
#[derive(Debug)]
pub(crate) struct Map {
    fd: OwnedFd,
    value_bytes: u32,
}

impl Map {
    fn create(kind: u32, name: &str, value_bytes: u32, n_entries: u32, flags: u32) -> Result<Self> {
        raw::create_map(kind, name, KEY_BYTES, value_bytes, n_entries, flags)
            .map(|fd| Self { fd, value_bytes })
            .map_err(|cause| SysError::new("create BPF map (needs CAP_BPF or root)", name, cause))
    }

    /// Creates a map of `n_entries` network devices, as targets of redirects.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN.
    pub(crate) fn devices(name: &str, n_entries: u32) -> Result<Self> {
        Self::create(DEVICES, name, 4, n_entries, 0)
    }

    /// Creates a map of `n_entries` AF_XDP sockets, indexed by receive queue.
    ///
    /// # Errors
    /// Without CAP_BPF and CAP_NET_ADMIN.
    pub(crate) fn xdp_sockets(name: &str, n_entries: u32) -> Result<Self> {
        Self::create(XDP_SOCKETS, name, 4, n_entries, 0)
    }

    /// Sets entry `idx` to the number of a device or the descriptor of a socket.
    ///
    /// # Errors
    /// If there is no such entry, device or socket, or the device accepts no redirected frames.
    pub(crate) fn set(&self, idx: u32, number: u32) -> Result<()> {
        raw::update(self.fd.as_fd(), self.value_bytes as usize, idx, &number.to_ne_bytes())
            .map_err(|cause| SysError::new("write to BPF map, entry", idx.to_string(), cause))
    }

    /// Returns the descriptor, which names the map in instructions until they are loaded.
    pub(super) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl Map {
    /// Wraps a map of AF_XDP sockets that another process created.
    pub(crate) const fn of_sockets(fd: OwnedFd) -> Self {
        Self { fd, value_bytes: 4 }
    }
}

impl From<Map> for OwnedFd {
    fn from(map: Map) -> Self {
        map.fd
    }
}

impl AsFd for Map {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// 64-bit words that a program and this process both read and write, without system calls.
#[derive(Debug)]
pub(crate) struct SharedWords {
    map: Map,
    mapping: Mapping,
    n_words: usize,
}

impl SharedWords {
    /// Creates `n_words` words, all zero.
    ///
    /// # Errors
    /// Without CAP_BPF, or before Linux 5.5.
    ///
    /// # Panics
    /// If there are more than 2^28 words.
    pub(crate) fn new(name: &str, n_words: usize) -> Result<Self> {
        Self::in_map(Map::create(ARRAY, name, value_bytes(n_words), 1, MAPPABLE)?, n_words)
    }

    /// Maps the words of a map that [`Self::new`] has created, perhaps in another process.
    ///
    /// # Errors
    /// If the map's memory cannot be shared.
    ///
    /// # Panics
    /// If there are more than 2^28 words.
    pub(crate) fn of(fd: OwnedFd, n_words: usize) -> Result<Self> {
        Self::in_map(Map { fd, value_bytes: value_bytes(n_words) }, n_words)
    }

    fn in_map(map: Map, n_words: usize) -> Result<Self> {
        let mapping = Mapping::shared(&map, n_words * WORD_BYTES, 0)
            .map_err(|cause| SysError::new("map the memory of", "a BPF map", cause))?;
        Ok(Self { map, mapping, n_words })
    }

    /// Returns the map: one entry, whose value is all words.
    #[must_use]
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Returns word `idx`. A running program may have changed other words since.
    ///
    /// # Panics
    /// If `idx` is out of range.
    #[inline]
    #[must_use]
    pub(crate) fn get(&self, idx: usize) -> u64 {
        self.word(idx).load(Ordering::Relaxed)
    }

    /// Sets word `idx`.
    ///
    /// # Panics
    /// If `idx` is out of range.
    #[inline]
    pub(crate) fn set(&self, idx: usize, value: u64) {
        self.word(idx).store(value, Ordering::Relaxed);
    }

    fn word(&self, idx: usize) -> &AtomicU64 {
        assert!(idx < self.n_words, "word {idx} of {}", self.n_words);
        self.mapping.word(idx)
    }
}

impl From<SharedWords> for OwnedFd {
    fn from(words: SharedWords) -> Self {
        words.map.fd
    }
}

fn value_bytes(n_words: usize) -> u32 {
    u32::try_from(n_words * WORD_BYTES).expect("at most 2 GiB of state")
}

/// Counters that exist once per CPU.
#[derive(Debug)]
pub(crate) struct PerCpuCounters {
    map: Map,
    n_counters: usize,
    /// Buffer for a look-up: the counters of every possible CPU.
    scratch: Vec<u8>,
}

impl PerCpuCounters {
    /// Creates `n_counters` counters per CPU, all zero.
    ///
    /// # Errors
    /// Without CAP_BPF, or if the number of possible CPUs cannot be read.
    pub(crate) fn new(name: &str, n_counters: usize) -> Result<Self> {
        let map = Map::create(PER_CPU_ARRAY, name, value_bytes(n_counters), 1, 0)?;
        Self::of(map.fd, n_counters)
    }

    /// Uses the counters of a map that [`Self::new`] has created, perhaps in another process.
    ///
    /// # Errors
    /// If the number of possible CPUs cannot be read.
    pub(crate) fn of(fd: OwnedFd, n_counters: usize) -> Result<Self> {
        let value_bytes = value_bytes(n_counters);
        let scratch = vec![0; value_bytes as usize * possible_cpus()?];
        Ok(Self { map: Map { fd, value_bytes }, n_counters, scratch })
    }

    /// Returns the map: one entry per CPU, whose value is that CPU's counters.
    #[must_use]
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the first `N` counters, summed over all CPUs.
    ///
    /// # Errors
    /// If the kernel refuses.
    ///
    /// # Panics
    /// If there are fewer than `N` counters.
    pub(crate) fn totals<const N: usize>(&mut self) -> Result<[u64; N]> {
        assert!(N <= self.n_counters, "{N} of {} counters", self.n_counters);
        let value_bytes = self.scratch.len();
        raw::look_up(self.map.as_fd(), value_bytes, 0, &mut self.scratch)
            .map_err(|cause| SysError::new("read", "per-CPU counters of a BPF map", cause))?;
        let mut totals = [0; N];
        for cpu in self.scratch.chunks_exact(self.n_counters * WORD_BYTES) {
            for (total, word) in totals.iter_mut().zip(cpu.chunks_exact(WORD_BYTES)) {
                *total += u64::from_ne_bytes(word.try_into().expect("a word has eight bytes"));
            }
        }
        Ok(totals)
    }
}

impl From<PerCpuCounters> for OwnedFd {
    fn from(counters: PerCpuCounters) -> Self {
        counters.map.fd
    }
}

/// Returns the number of possible CPUs, for which the kernel reserves per-CPU memory.
fn possible_cpus() -> Result<usize> {
    const FILE: &str = "/sys/devices/system/cpu/possible";
    let text = std::fs::read_to_string(FILE).map_err(|cause| SysError::new("read", FILE, cause))?;
    count(&text)
        .ok_or_else(|| SysError::new("read a list of CPUs in", FILE, io::ErrorKind::InvalidData))
}

/// Returns the number of CPUs in a list like `0-3,5`, counted up to the highest, as the kernel
/// does.
fn count(list: &str) -> Option<usize> {
    let last = list.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok().map(|last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_to_the_highest() {
        assert_eq!(
            (count("0-1\n"), count("0"), count("0-3,8-11\n"), count("")),
            (Some(2), Some(1), Some(12), None)
        );
    }
}
