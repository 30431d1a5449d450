//! The ladder of `diagnose`, in virtual time.
