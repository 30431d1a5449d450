use linerate_packet::frame::{FrameView, Signature};

/// Whatever a device may deliver: it is read without a panic, and what is said of it stays inside
/// of it.
pub(crate) fn frame(bytes: &[u8]) {
    if let Some(view) = FrameView::read(bytes) {
        assert!(view.payload_at <= bytes.len());
        assert_eq!(view.payload().len(), bytes.len() - view.payload_at);
        assert_eq!(view.signature(), Signature::read(view.payload()));
        if let Some(found) = view.signature() {
            for near in [0, 1, u64::MAX / 2, u64::MAX] {
                assert_eq!(found.sequence(near) & 0xff_ffff_ffff, found.sequence_low);
                assert_eq!(found.scheduled_ns(near) & 0xff_ffff_ffff, found.scheduled_low);
            }
        }
    }
}
