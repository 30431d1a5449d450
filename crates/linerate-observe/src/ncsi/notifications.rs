//! Notifications (AEN) of controllers, as they pass on the sideband. Listening changes nothing: the
//! kernel's own NC-SI stack gets them all the same.

use std::time::{Duration, Instant};

use linerate_packet::ncsi::{Checksum, Letter, Notification};
use linerate_sys::SysError;
use linerate_sys::packet::{PacketSocket, wait};

use super::controller::ETHERTYPE;
use super::exchange::Address;

/// Longest frame of the sideband, bytes.
const LONGEST: usize = 1518;

/// Notification and the channel that sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notified {
    /// The channel.
    pub address: Address,
    /// The notification.
    pub notification: Notification,
}

/// Listener on one interface.
#[derive(Debug)]
pub struct Notifications {
    socket: PacketSocket,
    buffer: Box<[u8]>,
}

impl Notifications {
    /// Opens a listener on the interface called `device`.
    ///
    /// # Errors
    /// If there is no such interface, or the process may not open packet sockets.
    pub fn open(device: &str) -> Result<Self, SysError> {
        let socket = PacketSocket::open_for(device, ETHERTYPE)?;
        Ok(Self { socket, buffer: vec![0; LONGEST].into_boxed_slice() })
    }

    /// Returns the next notification; `None` if none arrives within `patience`.
    pub fn next(&mut self, patience: Duration) -> Option<Notified> {
        let until = Instant::now() + patience;
        loop {
            while let Ok(Some(length)) = self.socket.receive(&mut self.buffer) {
                if let Some(found) = notified(&self.buffer[..length]) {
                    return Some(found);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let _ready = wait([&self.socket], left.as_nanos() as u64);
        }
    }
}

/// Returns the notification in `frame`; `None` for every other packet, and for a broken one.
fn notified(frame: &[u8]) -> Option<Notified> {
    let letter = Letter::parse(frame).ok()?;
    if !letter.is_notification() || letter.checksum == Checksum::Wrong {
        return None;
    }
    let address = Address { package: letter.package, channel: letter.channel };
    Some(Notified { address, notification: Notification::parse(letter.payload)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_notifications_are_taken() {
        let notification = Notification::HostDriver { runs: true };
        let payload = notification.emit();
        let letter = Letter { kind: 0xff, channel: 1, payload: &payload, ..Letter::default() };
        let mut frame = letter.emit();
        let address = Address { package: 0, channel: 1 };
        assert_eq!(notified(&frame), Some(Notified { address, notification }));
        frame[37] ^= 1;
        assert_eq!(notified(&frame), None, "its checksum is wrong now");
        let answer = Letter { kind: 0x8a, payload: &[0; 16], ..Letter::default() };
        assert_eq!(notified(&answer.emit()), None);
    }
}
