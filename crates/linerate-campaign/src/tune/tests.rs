//! The ladders of `tune`, in virtual time.
