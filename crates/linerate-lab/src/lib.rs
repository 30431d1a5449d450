//! The sandbox: testbeds from network namespaces.

#![forbid(unsafe_code)]
