//! I/O priorities: class, level and hint of a transfer (ioprio_set(2);
//! include/uapi/linux/ioprio.h). The scheduler and the device decide what they mean: `none` passes
//! them to the device, `mq-deadline` and `bfq` order requests by them.

use std::fmt;
use std::str::FromStr;

use super::raw;
use crate::{Result, SysError};

/// First bit of the class; the lower bits are level and hint.
const CLASS_SHIFT: u16 = 13;
const HINT_SHIFT: u16 = 3;
/// Levels and hints (duration limits of a device) are 0 to 7.
const MOST_LEVEL: u16 = 7;
const MOST_HINT: u16 = 7;
/// Legal texts, for refusals.
const LEGAL: &str = "`none`, `idle`, or `realtime` or `best-effort` with a level of 0 to 7";
/// Classes by name, with the numbers of ionice(1).
const CLASSES: [(&str, u16); 3] = [("realtime", 1), ("best-effort", 2), ("idle", 3)];

/// I/O priority of a transfer, packed as in the kernel. The default is none: the kernel then
/// derives one from the thread's nice value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priority(u16);

impl Priority {
    /// No priority of its own.
    pub const NONE: Self = Self(0);

    /// Returns the priority of class 1 (realtime), 2 (best-effort) or 3 (idle), level 0 (first) to
    /// 7, and hint 0 (none) to 7; `None` for other numbers.
    #[must_use]
    pub fn new(class: u16, level: u16, hint: u16) -> Option<Self> {
        let is_one = CLASSES.iter().any(|(_, number)| *number == class)
            && level <= MOST_LEVEL
            && hint <= MOST_HINT;
        is_one.then_some(Self(class << CLASS_SHIFT | hint << HINT_SHIFT | level))
    }

    /// Returns the kernel's number for it.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Sets it for the calling thread, for all transfers without a priority of their own.
    ///
    /// # Errors
    /// If the kernel refuses: `realtime` needs `CAP_SYS_NICE` or `CAP_SYS_ADMIN`.
    pub fn apply(self) -> Result<()> {
        raw::set_priority(self)
            .map_err(|cause| SysError::new("set I/O priority", self.to_string(), cause))
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let class = self.0 >> CLASS_SHIFT;
        let Some((name, _)) = CLASSES.iter().find(|(_, number)| *number == class) else {
            return f.write_str("none");
        };
        match (self.0 & MOST_LEVEL, self.0 >> HINT_SHIFT & MOST_HINT) {
            (level, 0) => write!(f, "{name} {level}"),
            (level, hint) => write!(f, "{name} {level} hint {hint}"),
        }
    }
}

impl FromStr for Priority {
    type Err = String;

    /// Parses `none`, `idle`, `best-effort 4` or `realtime 0 hint 2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("`{text}` is not {LEGAL}");
        let words: Vec<&str> = text.split_whitespace().collect();
        let (name, level, hint) = match words[..] {
            ["none"] => return Ok(Self::NONE),
            [name] => (name, "0", "0"),
            [name, level] => (name, level, "0"),
            [name, level, "hint", hint] => (name, level, hint),
            _ => return Err(refused()),
        };
        let class = CLASSES.iter().find(|(known, _)| *known == name).ok_or_else(refused)?.1;
        let number = |text: &str| text.parse().map_err(|_| refused());
        Self::new(class, number(level)?, number(hint)?).ok_or_else(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `IOPRIO_PRIO_VALUE_HINT` of include/uapi/linux/ioprio.h.
    #[test]
    fn priorities_are_packed_as_the_kernel_does_and_read_back_as_written() {
        for (text, bits) in [
            ("none", 0),
            ("realtime 0", 0x2000),
            ("best-effort 7", 0x4007),
            ("idle 0", 0x6000),
            ("realtime 1 hint 3", 0x2019),
        ] {
            let read: Priority = text.parse().expect(text);
            assert_eq!((read.bits(), read.to_string()), (bits, text.to_owned()));
        }
        for text in
            ["", "urgent 1", "realtime 8", "realtime 0 hint 8", "best-effort x", "realtime 0 hint"]
        {
            assert!(text.parse::<Priority>().is_err(), "{text}");
        }
    }
}
