//! Reflector: a socket, the clock, and the hosts that may use it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use linerate_sys::SysError;
use linerate_sys::clock::{monotonic, realtime};
use linerate_sys::socket::set_dscp;
use linerate_sys::udp::{
    ReceiveBatch, Wait, report_class, report_hops, set_receive_timeout, stamp_arrivals,
};

use crate::auth::Key;
use crate::reflector::{Arrival, Reflected, Reflector};
use crate::send::{clock_error, is_wait};
use crate::wire::MOST_BYTES;

/// Event of a reflector.
#[derive(Debug)]
pub enum ReflectEvent {
    /// It listens at this address.
    Listening(SocketAddr),
    /// A session has ended: nothing came for [`SILENT`].
    Ended(Reflected),
}

/// Time without packets behind which a session has ended.
pub const SILENT: Duration = Duration::from_secs(10);
/// Longest wait of one call, so that an interrupt is seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Time between two reads of the clock's error.
const ERROR_EVERY_NS: u64 = 10_000_000_000;

/// Answers packets at `address` until `is_stopped` returns true. Packets of hosts that
/// `is_permitted` refuses are dropped; with a key, so are those without its digest.
///
/// # Errors
/// If the address cannot be bound, or the socket fails.
pub fn reflect(
    address: SocketAddr,
    key: Option<&Key>,
    is_permitted: &dyn Fn(IpAddr) -> bool,
    on_event: &mut dyn FnMut(ReflectEvent),
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), SysError> {
    let error = |action: &'static str, cause| SysError::new(action, address.to_string(), cause);
    let socket = UdpSocket::bind(address).map_err(|cause| error("bind", cause))?;
    stamp_arrivals(&socket)?;
    report_hops(&socket)?;
    report_class(&socket)?;
    set_receive_timeout(&socket, LOOK_EVERY)?;
    let local = socket.local_addr().map_err(|cause| error("read the address of", cause))?;
    on_event(ReflectEvent::Listening(local));
    let mut reflector = Reflector::default();
    let mut code_point = None;
    let mut packet = ReceiveBatch::new(1, MOST_BYTES);
    let (mut clock, mut clock_at) = (clock_error(), monotonic());
    while !is_stopped() {
        let silent_since = realtime().saturating_sub(SILENT.as_nanos() as u64);
        reflector.ended(silent_since).into_iter().map(ReflectEvent::Ended).for_each(&mut *on_event);
        if monotonic().saturating_sub(clock_at) > ERROR_EVERY_NS {
            (clock, clock_at) = (clock_error(), monotonic());
        }
        // The batch has no addresses, so the sender is read first.
        let sender = match socket.peek_from(&mut [0]) {
            Ok((_, sender)) => sender,
            // Some earlier sender is gone.
            Err(cause) if is_wait(&cause) || is_refusal(&cause) => continue,
            Err(cause) => return Err(error("receive at", cause)),
        };
        if packet.receive(&socket, Wait::Never).is_err() {
            continue;
        }
        let message = packet.message(0);
        if !is_permitted(sender.ip().to_canonical()) {
            continue;
        }
        let arrival =
            Arrival { arrived_ns: message.stamp_ns.unwrap_or_else(realtime), hops: message.hops };
        let opened = key.map(|key| (key, key.open_test(message.visible)));
        let plain = match &opened {
            None => message.visible,
            Some((_, Some(opened))) => &opened.plain,
            // No test packet.
            Some((_, None)) => &[],
        };
        let reply = reflector.answer(sender, plain, arrival, clock, realtime());
        let reply = reply.map(|reply| match &opened {
            Some((key, Some(opened))) => key.seal_reply(&reply, opened),
            _ => reply,
        });
        if let Some(reply) = reply {
            // A round trip is of one class in both directions.
            if message.dscp != code_point {
                code_point = message.dscp;
                set_dscp(&socket, code_point.unwrap_or_default())?;
            }
            // A sender that cannot be reached has lost the reply, as on any other way.
            let _lost = socket.send_to(&reply, sender);
        }
    }
    reflector.ended(u64::MAX).into_iter().map(ReflectEvent::Ended).for_each(on_event);
    Ok(())
}

fn is_refusal(cause: &std::io::Error) -> bool {
    cause.kind() == std::io::ErrorKind::ConnectionRefused
}
