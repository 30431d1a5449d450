//! Thread placement, CPU time of a thread, and the CPUs this process may use.
