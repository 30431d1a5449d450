//! Sentences on ends of flows that have no bound.

use linerate_analysis::{NoRate, Rateless, Unbounded};

/// Returns the reason why packets that leave an end have no bound.
#[must_use]
pub fn unbounded(why: &Unbounded) -> String {
    match why {
        Unbounded::NoSingleDevice { end } => format!(
            "{end}: its host names no single device towards the other end (several routes, or an \
             agent that does not report it)"
        ),
        Unbounded::Devices(devices) => devices.iter().map(rateless).collect::<Vec<_>>().join("; "),
    }
}

fn rateless(found: &Rateless) -> String {
    let Rateless { host, device, below, cause } = found;
    let below =
        below.as_ref().map_or_else(String::new, |last| format!("its packets leave by {last}: "));
    format!("{device} of {host}: {below}{}", no_rate(cause))
}

fn no_rate(cause: &NoRate) -> String {
    let text = match cause {
        NoRate::Bridge(ports) => {
            let ports = ports.as_ref().map_or_else(String::new, |ports| format!(" ({ports})"));
            return format!(
                "a bridge that has not learned which of its ports{ports} leads to the other end"
            );
        }
        NoRate::Tunnel(kind) => {
            return format!(
                "a tunnel ({kind}) without a single route to its other end: declare a capacity of \
                 the path below it in a testbed file"
            );
        }
        NoRate::OnAnother(kind) => {
            return format!(
                "a {kind} that may reach the other end, which is on the same machine, without the \
                 device below: declare a capacity in a testbed file"
            );
        }
        NoRate::VirtualDriver(driver) => {
            return format!(
                "its driver ({driver}) reports a name for a speed, or none: declare a capacity in \
                 a testbed file"
            );
        }
        NoRate::ShapedInPart => {
            "packets that no filter of its htb discipline picks are not shaped: give it a default \
             class, or declare a capacity in a testbed file"
        }
        NoRate::Group => "a group of links, not all of which report a line rate",
        NoRate::Loopback => "loopback has no line rate",
        NoRate::NoFacts => "its host reports no facts of it",
        NoRate::NotReported => {
            "it reports no line rate (no link, or a virtual device): declare a capacity in a \
             testbed file"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_without_a_rate_are_named_with_their_host_and_the_device_below() {
        let of = |device: &str, below: Option<&str>, cause| Rateless {
            host: "left".to_owned(),
            device: device.to_owned(),
            below: below.map(str::to_owned),
            cause,
        };
        let devices = vec![
            of("br0", None, NoRate::Bridge(Some("eth0".to_owned()))),
            of("vlan5", Some("lo"), NoRate::Loopback),
        ];
        assert_eq!(
            unbounded(&Unbounded::Devices(devices)),
            "br0 of left: a bridge that has not learned which of its ports (eth0) leads to the \
             other end; vlan5 of left: its packets leave by lo: loopback has no line rate"
        );
    }
}
