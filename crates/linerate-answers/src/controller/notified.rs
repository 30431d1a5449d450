//! Notifications (AEN) in words.

use linerate_observe::ncsi::Notified;
use linerate_packet::ncsi::{LinkStatus, Notification};
use serde_json::{Value, json};

use super::Source;
use super::fields::{json_of_link, link_text};

/// Returns a notification as a line and as JSON.
#[must_use]
pub fn notified(source: Source<'_>, one: &Notified) -> (String, Value) {
    let address = one.address;
    let (words, kind, more) = match &one.notification {
        Notification::LinkStatus { bits, oem } => {
            let link = LinkStatus { bits: *bits, other: 0, oem: *oem };
            (format!("link {}", link_text(&link)), "link_status", json_of_link(&link))
        }
        Notification::ConfigurationRequired => (
            "the channel lost its configuration and needs a new one".to_owned(),
            "configuration_required",
            Value::Null,
        ),
        Notification::HostDriver { runs } => (
            format!("the host's driver {}", if *runs { "runs" } else { "stopped" }),
            "host_driver",
            json!({ "runs": runs }),
        ),
        Notification::DelayedResponse { kind, instance } => (
            format!("the answer to command 0x{kind:02x}, number {instance}, is ready"),
            "delayed_response",
            json!({ "command": kind, "instance": instance }),
        ),
        Notification::Other { kind, data } => (
            format!("type 0x{kind:02x}, {} bytes of its own", data.len()),
            "other",
            json!({ "type": kind, "data": data }),
        ),
    };
    let (package, channel) = (address.package, address.channel);
    let line = format!("notification of package {package} channel {channel}: {words}");
    let told = json!({ "package": package, "channel": channel, "kind": kind, "of": more });
    (line, source.named_in(json!({ "notification": told })))
}

#[cfg(test)]
mod tests {
    use linerate_observe::ncsi::{Address, Transport};

    use super::*;

    #[test]
    fn each_kind_has_words_of_its_own() {
        let source = Source { device: "eth0", transport: Transport::GenericNetlink };
        let of = |notification| {
            let address = Address { package: 0, channel: 1 };
            notified(source, &Notified { address, notification })
        };
        let (line, json) = of(Notification::LinkStatus { bits: 0x0f, oem: 0 });
        assert_eq!(line, "notification of package 0 channel 1: link up, 1000 Mbit/s, full duplex");
        assert_eq!(json["notification"]["of"]["up"], true);
        let (line, _) = of(Notification::LinkStatus { bits: 0, oem: 0 });
        assert!(line.ends_with("link down"), "{line}");
        let (line, json) = of(Notification::HostDriver { runs: false });
        assert!(line.ends_with("the host's driver stopped"), "{line}");
        assert_eq!(
            (&json["notification"]["kind"], &json["interface"]),
            (&json!("host_driver"), &json!("eth0"))
        );
        let (line, _) = of(Notification::Other { kind: 0x80, data: vec![1, 2] });
        assert!(line.ends_with("type 0x80, 2 bytes of its own"), "{line}");
    }
}
