//! Parts of a record that most records do not have.

use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Something that may be empty, with one empty value for all.
pub trait Emptiable: PartialEq + Sized + 'static {
    /// The empty value.
    const EMPTY: &'static Self;
}

/// A part that is seldom there. It reads like the part itself; while that is empty, it takes the
/// memory of a pointer. A long campaign has millions of intervals, and each uses few of its parts.
#[derive(Clone)]
pub struct Rare<T>(Option<Box<T>>);

impl<T: Emptiable> Rare<T> {
    /// Returns true if it is not there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        **self == *T::EMPTY
    }
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Emptiable> From<T> for Rare<T> {
    fn from(part: T) -> Self {
        Self((part != *T::EMPTY).then(|| Box::new(part)))
    }
}

impl<T: Emptiable> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Emptiable + Default> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

impl<T: Emptiable> PartialEq for Rare<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Emptiable + std::fmt::Debug> std::fmt::Debug for Rare<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Emptiable + Serialize> Serialize for Rare<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Emptiable + Deserialize<'de>> Deserialize<'de> for Rare<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Distribution;

    #[test]
    fn a_part_that_is_not_there_reads_as_empty_and_takes_a_pointer() {
        let mut part = Rare::<Distribution>::default();
        assert_eq!(size_of_val(&part), size_of::<usize>());
        assert_eq!((part.count(), part.is_empty()), (0, true));
        assert_eq!(part, Rare::from(Distribution::NOTHING));
        part.buckets.push((7, 2));
        assert_eq!((part.count(), part.is_empty()), (2, false));
        part.buckets.clear();
        // It was made and emptied again, and is equal to one that was never made.
        assert_eq!(part, Rare::default());
        assert!(part.is_empty());
    }
}
