//! Page-aligned memory for payload, on huge pages if the kernel has them.

use std::ops::{Deref, DerefMut};

use crate::{Result, SysError};

#[allow(unsafe_code)]
mod raw;

/// Anonymous, zeroed memory of this process, freed when dropped.
#[derive(Debug)]
pub struct Region {
    mapping: raw::Mapping,
}

impl Region {
    /// Maps `bytes` of memory (rounded up to whole pages) and touches every page, so that no page
    /// fault remains for later. Requests huge pages (`MADV_HUGEPAGE`); the kernel uses small pages
    /// if it has none.
    ///
    /// # Errors
    /// If not enough memory is available.
    pub fn new(bytes: usize) -> Result<Self> {
        let mapping = raw::Mapping::anonymous(bytes.max(1))
            .map_err(|cause| SysError::new("map", format!("{bytes} bytes of memory"), cause))?;
        let mut region = Self { mapping };
        region.fill(0);
        Ok(region)
    }
}

impl Deref for Region {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.mapping.bytes()
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mapping.bytes_mut()
    }
}

pub(crate) use raw::Mapping;

#[cfg(test)]
mod tests {
    use super::raw::PAGE_BYTES;
    use super::*;

    #[test]
    fn a_region_is_zeroed_writable_and_made_of_whole_pages() {
        let mut region = Region::new(5_000).expect("two pages");
        assert_eq!(region.len() % PAGE_BYTES, 0);
        assert!(region.len() >= 5_000 && region.iter().all(|byte| *byte == 0));
        region[4_999] = 7;
        assert_eq!(region[4_999], 7);
    }

    #[test]
    fn more_memory_than_there_can_be_is_an_error() {
        assert!(Region::new(usize::MAX / 2).is_err());
    }
}
