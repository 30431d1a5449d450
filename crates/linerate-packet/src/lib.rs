//! Wire formats as views and values: test frames ([`frame`], RFC 2544 appendix C.2 and RFC 4814),
//! NC-SI control packets over Ethernet ([`ncsi`], DMTF DSP0222), SNMP messages ([`snmp`]), capture
//! files ([`pcap`]) and numbers of datagrams ([`sequence`]).
//!
//! Every reader accepts any bytes without a panic. A value that is written reads back as the same
//! value.
//!
//! # Examples
//! ```
//! use linerate_packet::frame::{
//!     Addresses, FrameView, Headers, MacAddress, Ports, Stamp, Template, Transport,
//! };
//!
//! let headers = Headers {
//!     destination: MacAddress([2, 0, 0, 0, 0, 2]),
//!     source: MacAddress([2, 0, 0, 0, 0, 1]),
//!     tags: Vec::new(),
//!     addresses: Addresses::V4 {
//!         source: [192, 0, 2, 1].into(),
//!         destination: [192, 0, 2, 2].into(),
//!     },
//!     transport: Transport::Udp,
//!     ports: Ports { source: 49_152, destination: 7 },
//!     dscp: 0,
//!     hops: 64,
//! };
//! let template = Template::new(&headers, 64, 0xcafe, 3, &[]).expect("64 B have room");
//! let mut frame = template.bytes().to_vec();
//! template.patch(&mut frame, &Stamp { sequence: 42, ..Stamp::default() });
//!
//! // 64 bytes less the 4 of the check sequence, which the device adds.
//! assert_eq!(frame.len(), 60);
//! let read = FrameView::read(&frame).expect("a UDP frame");
//! assert_eq!(read.ports.destination, 7);
//! let signature = read.signature().expect("a signature");
//! assert_eq!((signature.tag, signature.flow, signature.sequence(40)), (0xcafe, 3, 42));
//! ```
//!
//! This crate does *not* send or receive: it has no sockets and no clock.

#![forbid(unsafe_code)]

pub mod frame;
pub mod ncsi;
pub mod pcap;
pub mod sequence;
pub mod snmp;

mod bytes;
