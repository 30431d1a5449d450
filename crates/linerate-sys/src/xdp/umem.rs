//! Memory of one socket, divided into chunks for sending, which are numbered by slot, and chunks
//! for receiving.
//!
//! A *slot* has as many consecutive chunks as the longest frame needs; frames are sent from slots.
//! Receive chunks follow the last slot. Chunks are 2,048 or 4,096 B, the sizes that the kernel
//! accepts without huge pages.

use std::io;

use super::raw::Memory;

/// Bytes that the kernel reserves before a received frame (`XDP_PACKET_HEADROOM`).
const HEADROOM: u32 = 256;
const SMALL_CHUNK: u32 = 2048;
const LARGE_CHUNK: u32 = 4096;

/// Division of a socket's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) chunk_bytes: u32,
    pub(super) chunks_per_slot: u32,
    pub(super) n_slots: u32,
    pub(super) n_receive: u32,
}

impl Cut {
    /// Returns the division for frames of up to `frame_bytes`.
    pub(super) fn new(frame_bytes: u32, n_slots: u32, n_receive: u32) -> Self {
        let chunk_bytes =
            if frame_bytes <= SMALL_CHUNK - HEADROOM { SMALL_CHUNK } else { LARGE_CHUNK };
        Self {
            chunk_bytes,
            chunks_per_slot: frame_bytes.div_ceil(chunk_bytes).max(1),
            n_slots,
            n_receive,
        }
    }

    /// Returns true if the longest frame needs several buffers, for sending or receiving.
    pub(super) fn several_buffers(self, frame_bytes: u32) -> bool {
        frame_bytes > self.chunk_bytes - HEADROOM
    }

    fn n_chunks(self) -> u32 {
        self.n_slots * self.chunks_per_slot + self.n_receive
    }
}

/// Memory, and the slots that are not under way.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Memory,
    cut: Cut,
    /// Slots that are ours. The slot that returned last is used first: it is still in the cache.
    free: Vec<u32>,
}

impl Umem {
    pub(super) fn new(cut: Cut) -> io::Result<Self> {
        let memory = Memory::new(cut.n_chunks() as usize * cut.chunk_bytes as usize)?;
        Ok(Self { memory, cut, free: (0..cut.n_slots).rev().collect() })
    }

    pub(super) fn cut(&self) -> Cut {
        self.cut
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(super) fn bytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Returns the addresses of the receive chunks.
    pub(super) fn receive_chunks(&self) -> impl Iterator<Item = u64> + use<> {
        let cut = self.cut;
        let first = cut.n_slots * cut.chunks_per_slot;
        (first..first + cut.n_receive)
            .map(move |chunk| u64::from(chunk) * u64::from(cut.chunk_bytes))
    }

    /// Returns the chunk that contains `address`, without headroom.
    pub(super) fn chunk_of(&self, address: u64) -> u64 {
        address & !u64::from(self.cut.chunk_bytes - 1)
    }

    pub(super) fn n_free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Takes a slot to send from.
    pub(super) fn take(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Takes back the slot whose last chunk is at `address`; ignores other chunks of a slot.
    pub(super) fn give_back(&mut self, address: u64) {
        let chunk = (address / u64::from(self.cut.chunk_bytes)) as u32;
        if chunk.is_multiple_of(self.cut.chunks_per_slot)
            && self.free.len() < self.cut.n_slots as usize
        {
            self.free.push(chunk / self.cut.chunks_per_slot);
        }
    }

    pub(super) fn slot_address(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.slot_bytes())
    }

    pub(super) fn slot_bytes(&self) -> u32 {
        self.cut.chunks_per_slot * self.cut.chunk_bytes
    }

    /// Returns the bytes of a slot that was taken and not yet sent.
    pub(super) fn slot_mut(&mut self, slot: u32) -> &mut [u8] {
        let (address, bytes) = (self.slot_address(slot), self.slot_bytes());
        self.memory.slice_mut(address, bytes)
    }

    /// Returns a received part of a frame that was not given back yet.
    pub(super) fn received(&self, address: u64, bytes: u32) -> &[u8] {
        self.memory.slice(address, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_cut_into_as_many_chunks_as_they_need() {
        let cut = |frame_bytes| Cut::new(frame_bytes, 4, 2);
        assert_eq!((cut(60).chunk_bytes, cut(60).chunks_per_slot), (2048, 1));
        assert_eq!((cut(1514).chunk_bytes, cut(1793).chunk_bytes), (2048, 4096));
        assert_eq!((cut(9014).chunk_bytes, cut(9014).chunks_per_slot), (4096, 3));
        assert!(
            cut(9014).several_buffers(9014)
                && cut(3900).several_buffers(3900)
                && !cut(3840).several_buffers(3840)
        );
    }

    #[test]
    fn a_slot_comes_back_once_however_many_chunks_it_has() {
        let mut umem = Umem::new(Cut::new(9014, 2, 3)).expect("ten pages");
        let slot = umem.take().expect("two are free");
        assert_eq!((slot, umem.n_free(), umem.slot_mut(slot).len()), (0, 1, 12_288));
        [0, 4096, 8192].into_iter().for_each(|address| umem.give_back(address));
        assert_eq!((umem.n_free(), umem.take()), (2, Some(0)));
        assert_eq!(umem.receive_chunks().collect::<Vec<_>>(), [24_576, 28_672, 32_768]);
        assert_eq!(umem.chunk_of(28_672 + 256), 28_672);
    }
}
