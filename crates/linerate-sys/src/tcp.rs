//! TCP sockets: `TCP_INFO`, discarding and mapping receives, window clamp.
