//! `MSG_ZEROCOPY` and its completions.
