//! Third host: it accepts every connection and answers as earlier versions did, or with an echo. It
//! knows no secret.

use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::attack::VICTIM_TCP;
use crate::{Outcome, wait_for_the_end};

pub(crate) fn run(address: &str) -> Outcome {
    let listener = TcpListener::bind((address.parse::<IpAddr>()?, VICTIM_TCP))?;
    let (most, connections) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    {
        let (most, connections) = (Arc::clone(&most), Arc::clone(&connections));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let most = Arc::clone(&most);
                std::thread::spawn(move || {
                    most.fetch_max(serve(stream, number), Ordering::Relaxed)
                });
            }
        });
    }
    println!("ready");
    wait_for_the_end()?;
    println!(
        "{} connections, at most {} bytes",
        connections.load(Ordering::Relaxed),
        most.load(Ordering::Relaxed)
    );
    Ok(())
}

/// Serves one connection. Returns the number of bytes that arrived.
fn serve(mut stream: TcpStream, number: u64) -> u64 {
    let mut bytes = vec![0; 1 << 16];
    let mut come = 0;
    while let Ok(n @ 1..) = stream.read(&mut bytes) {
        come += n as u64;
        let answer = if number.is_multiple_of(2) { vec![6; 64] } else { bytes[..n].to_vec() };
        // The peer may have closed the connection.
        let _ = stream.write_all(&answer);
    }
    come
}
