//! Routes as the journal keeps them: messages of the kernel, hexadecimal.

use linerate_sys::SysError;
use linerate_sys::netlink::{Route, RouteSocket};

use super::Restored;

/// Writes a route of the journal into the kernel.
pub(super) fn replace(route: &str) -> Result<(), SysError> {
    RouteSocket::open()?.replace_route(&parsed(route)?)
}

fn parsed(text: &str) -> Result<Route, SysError> {
    let bytes = unhex(text).and_then(|bytes| Route::from_bytes(&bytes));
    let damaged =
        || SysError::new("read route", text, std::io::Error::other("the journal is damaged"));
    bytes.ok_or_else(damaged)
}

/// Puts the route `before` back, if the present one is `after`.
pub(super) fn put_back_route(
    device: &str,
    before: &str,
    after: &str,
) -> Result<Restored, SysError> {
    let (before, after) = (parsed(before)?, parsed(after)?);
    let spelled = before.spelled(device);
    let mut socket = RouteSocket::open()?;
    let mut present = None;
    socket.routes(|route| {
        if route.is_same_entry(&before) {
            present = Some(route);
        }
    })?;
    // Only the windows are compared: other attributes may have changed for good reasons.
    let windows = |route: &Route| (route.window(), route.initial_window());
    Ok(match present {
        None => Restored::Left(format!("put back route {spelled}: it is gone")),
        Some(now) if windows(&now) == windows(&before) => Restored::Untouched,
        Some(now) if windows(&now) == windows(&after) => {
            socket.replace_route(&before)?;
            Restored::PutBack(format!("route {spelled}"))
        }
        Some(now) => Restored::Left(format!(
            "put back route {spelled}: another program has set its window to {} since",
            now.window()
        )),
    })
}

/// Returns `bytes` in hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    digits.map(|pair| u8::from_str_radix(pair.filter(|pair| pair.len() == 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_round_trips_and_nonsense_is_refused() {
        assert_eq!(unhex(&hex(&[0, 171, 255])), Some(vec![0, 171, 255]));
        for text in ["0", "0g", "é1", "+1"] {
            assert!(unhex(text).is_none_or(|bytes| text == "+1" && bytes == [1]), "{text}");
        }
    }
}
