//! Measures the rate at which frames leave and arrive by AF_XDP and by live frames, without pacing,
//! accounting or workload.
//!
//! `frame_rate send xdp|live DEVICE FRAME_BYTES SECONDS [BATCH]` and `frame_rate receive
//! native|generic DEVICE SECONDS [spin]` run in the network namespace in which they are started.
//! Each prints one line of JSON-like fields. Frames are UDP over IPv4 to port 9. The receiver
//! accepts frames with this example's mark.

use std::error::Error;
use std::time::{Duration, Instant};

use linerate_sys::live::{LiveFrames, Row, Shape};
use linerate_sys::xdp::{Copying, Filter, Match, Options, Placement, XdpSocket};

const SHAPE: Shape =
    Shape { header_bytes: 60, checksum_at: 40, stamp_at: 48, random_ports_at: None };
/// Position and value of the mark.
const MARK_AT: usize = 42;
const MARK: [u8; 4] = *b"lrfr";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["send", "xdp", device, bytes, seconds] => {
            send(device, bytes.parse()?, seconds.parse()?, 64)
        }
        ["send", "xdp", device, bytes, seconds, batch] => {
            send(device, bytes.parse()?, seconds.parse()?, batch.parse()?)
        }
        ["send", "live", device, bytes, seconds] => {
            live(device, bytes.parse()?, seconds.parse()?, 64)
        }
        ["send", "live", device, bytes, seconds, batch] => {
            live(device, bytes.parse()?, seconds.parse()?, batch.parse()?)
        }
        ["receive", placement, device, seconds] => {
            receive(placement, device, seconds.parse()?, false)
        }
        ["receive", placement, device, seconds, "spin"] => {
            receive(placement, device, seconds.parse()?, true)
        }
        _ => Err("frame_rate send xdp|live DEVICE FRAME_BYTES SECONDS [BATCH] | receive \
            native|generic DEVICE SECONDS [spin]"
            .into()),
    }
}

fn frame(bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes.max(SHAPE.header_bytes)];
    let ip_bytes = (frame.len() as u16 - 14).to_be_bytes();
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]);
    frame[14..34].copy_from_slice(&[
        0x45,
        0,
        ip_bytes[0],
        ip_bytes[1],
        0,
        0,
        0x40,
        0,
        64,
        17,
        0,
        0,
        10,
        0,
        0,
        1,
        10,
        0,
        0,
        2,
    ]);
    frame[37] = 9;
    frame[MARK_AT..MARK_AT + MARK.len()].copy_from_slice(&MARK);
    frame
}

fn send(device: &str, bytes: usize, seconds: f64, batch: u32) -> Result<(), Box<dyn Error>> {
    let options = Options {
        queue: 0,
        copying: Copying::IfNeeded,
        frame_bytes: bytes as u32,
        n_transmit: 1024,
        n_receive: 0,
    };
    let mut socket = XdpSocket::open(device, options)?;
    let frame = frame(bytes);
    socket.prepare(|_, slot| slot[..frame.len()].copy_from_slice(&frame));
    let (began, mut number) = (Instant::now(), 0_u64);
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        for _ in 0..16 {
            socket.send(batch, |_, slot| {
                slot[SHAPE.stamp_at..SHAPE.stamp_at + 8].copy_from_slice(&number.to_be_bytes());
                number += 1;
                frame.len()
            })?;
        }
    }
    let sent = socket.flush()?;
    let rate = (sent.completed - sent.dropped) as f64 / began.elapsed().as_secs_f64();
    println!("mode=xdp {sent:?} rate={rate:.0}");
    Ok(())
}

fn live(device: &str, bytes: usize, seconds: f64, batch: u32) -> Result<(), Box<dyn Error>> {
    let row = Row { frame: frame(bytes), sum: 0, flow: 0 };
    let mut live = LiveFrames::open(device, &[row], SHAPE, batch)?;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        live.send(16_384)?;
    }
    let took = began.elapsed().as_secs_f64();
    let counts = live.counts()?;
    println!("mode=live {counts:?} rate={:.0}", counts.sent as f64 / took);
    Ok(())
}

fn receive(placement: &str, device: &str, seconds: f64, spin: bool) -> Result<(), Box<dyn Error>> {
    let placement = if placement == "generic" { Placement::Generic } else { Placement::Native };
    let filter = Filter::attach(
        device,
        &[&[Match::exactly(MARK_AT as u16, &MARK)]],
        Some(placement),
        false,
    )?;
    let options = Options {
        queue: 0,
        copying: Copying::IfNeeded,
        frame_bytes: 1514,
        n_transmit: 0,
        n_receive: 4096,
    };
    let mut socket = XdpSocket::open(device, options)?;
    filter.direct(&socket)?;
    println!("ready");
    let (began, mut first, mut last, mut n) = (Instant::now(), None, Instant::now(), 0_u64);
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        let got = socket.receive(256, |_| ());
        if got > 0 {
            n += u64::from(got);
            last = Instant::now();
            first.get_or_insert(last);
        } else if !spin {
            socket.wait(1_000_000)?;
        }
    }
    let took = first.map_or(0.0, |first| (last - first).as_secs_f64());
    println!(
        "placement={} received={n} {:?} rate={:.0}",
        filter.placement().name(),
        socket.statistics()?,
        n as f64 / took
    );
    Ok(())
}
