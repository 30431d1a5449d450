//! Pacing of connections by the kernel (`SO_MAX_PACING_RATE`), the same in every workload.

use linerate_model::{BitRate, ParamError};

use crate::parameter::{Reader, wrong};

/// Name of the parameter.
const NAME: &str = "pacing_rate";

/// Declares the rate of each connection.
pub(crate) fn declare(reader: &mut Reader<'_>) -> Option<BitRate> {
    reader.bit_rate(NAME, "kernel pacing per connection, payload and TCP/IP headers")
}

/// Checks that `rate` ever sends.
pub(crate) fn check(rate: Option<BitRate>) -> Result<(), ParamError> {
    if rate.is_some_and(|rate| rate.0 < f64::from(u8::BITS)) {
        return Err(wrong(NAME, "less than a byte per second never sends"));
    }
    Ok(())
}
