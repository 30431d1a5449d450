//! Texts of iperf3's error numbers.

/// Returns what error `number` of a server means (`iperf_api.h` of iperf3 3.21).
pub(crate) fn error_text(number: u32) -> &'static str {
    match number {
        5 | 37 => "the measurement is longer than the server allows",
        6 => "more streams than the server allows",
        7 | 20 => "the server does not allow this size of a block or datagram",
        8 | 124 | 130 => "the server cannot set this socket buffer",
        10 | 123 => "the server cannot set this largest segment",
        21 | 125 | 126 => "the server cannot set this type of service",
        27 => "more than the total rate that the server allows",
        34 => "a file over UDP",
        106 => "the server did not get the cookie",
        110 => "the server did not know a message",
        114 => "the server could not read the parameters",
        117 => "the server could not read the results",
        119 => "the client ended the test",
        120 => "the server was stopped",
        121 => "the server is busy",
        134 => "the server does not have this congestion control",
        142 => "the server wants a user and a password",
        144 => "no data arrived for two minutes",
        160 => "the measurement took longer than announced",
        202..=208 => "the server could not use a data stream",
        _ => "see iperf_api.h of iperf3",
    }
}
