//! Lists of CPUs and NUMA nodes as the kernel writes them.

/// Returns the members of a kernel list such as `0-3,8`; `None` if it is not one, or is longer than
/// any kernel writes. Hosts report such lists, so a hostile one must not exhaust the memory.
#[must_use]
pub fn cpu_list(text: &str) -> Option<Vec<usize>> {
    /// More CPUs than Linux can be built for (8192).
    const MOST: usize = 65_536;
    let mut members = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= MOST {
            return None;
        }
        members.extend(first..=last);
        // A list such as `0-65535,0-65535` would otherwise grow without bound.
        if members.len() > MOST {
            return None;
        }
    }
    Some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lists_are_expanded_and_absurd_ones_are_refused() {
        assert_eq!(cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for absurd in ["0-x", "0-4294967295", "0-65536", "0-18446744073709551615"] {
            assert_eq!(cpu_list(absurd), None, "{absurd}");
        }
        let twice = "0-65535,".repeat(2);
        assert_eq!(cpu_list(&twice), None, "no kernel lists a CPU twice, and memory is finite");
    }

    proptest::proptest! {
        #[test]
        fn hostile_lists_never_panic(text in "[0-9,x-]{0,24}") {
            let _ = cpu_list(&text);
        }
    }
}
