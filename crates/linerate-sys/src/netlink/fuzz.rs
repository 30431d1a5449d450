//! Fuzzing: any bytes as the kernel's answer are read without a panic, and nothing beyond them is
//! read.

use super::{Route, attributes, links, push, qdiscs};

#[path = "../../../../fuzz/driver.rs"]
mod driver;

/// Returns a header of `bytes` bytes with numbers in it, followed by nested attributes.
fn message(bytes: usize) -> Vec<u8> {
    let mut message: Vec<u8> = (0..bytes).map(|at| (at % 5) as u8).collect();
    let mut inner = Vec::new();
    for kind in 0..60 {
        push(&mut inner, kind, &u64::from(kind).to_ne_bytes());
        push(&mut inner, kind, b"eth0\0");
    }
    for kind in 0..60 {
        push(&mut message, kind, &[192, 0, 2, 7]);
        push(&mut message, kind, &[0x20; 16]);
        push(&mut message, kind, b"tbf\0");
        push(&mut message, kind, &inner);
    }
    message
}

#[test]
fn fuzz_netlink() {
    // struct ifinfomsg, ifaddrmsg, ndmsg, tcmsg and rtmsg have 8 to 20 bytes.
    let corpus = [8, 12, 16, 20].map(message).into();
    driver::fuzz("netlink", corpus, &["eth0\0", "htb\0", "tbf\0", "fq_codel\0"], |bytes| {
        let n_attributes = attributes(bytes).count();
        assert!(
            n_attributes <= bytes.len() / 4,
            "{n_attributes} attributes in {} bytes",
            bytes.len()
        );
        let route = Route::from_bytes(bytes);
        if let Some(route) = &route {
            let changed = route.with_windows(7_300, 5);
            assert!(changed.is_same_entry(route) && changed.window() == 7_300, "{changed:?}");
            let _words = (route.spelled("eth0"), route.gateway(), route.device(), route.is_local());
        }
        // Classes are distinguished by any characters but digits.
        let found = ["+".repeat(n_attributes.min(99)), "l".repeat(links::read_any(bytes))];
        driver::class(&(found, qdiscs::read_any(bytes), route.is_some()))
    });
}
