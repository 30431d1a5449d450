//! Checks of parameters that exclude each other: planned ports, and frames without room for their
//! headers.

use std::net::IpAddr;

use linerate_model::ParamError;
use linerate_packet::frame::{Addresses, Headers, MacAddress, Ports, Transport};

use super::FramesParams;
use crate::parameter::wrong;

impl FramesParams {
    /// Checks that planned ports suffice for the flows and have a destination.
    pub(super) fn check_planned(&self) -> Result<(), ParamError> {
        let Some(ports) = &self.source_ports else { return Ok(()) };
        ports.check(self.placement.streams(), self.destination_port)?;
        if self.source_port.is_some() {
            return Err(wrong(
                "source_ports",
                "excludes source_port, which counts up from one port",
            ));
        }
        Ok(())
    }

    /// Checks that every frame has room for its headers and signature, between addresses of the
    /// family of `address`.
    pub(super) fn check_size(&self, address: IpAddr) -> Result<(), ParamError> {
        let (addresses, family) = match address.to_canonical() {
            IpAddr::V4(any) => (Addresses::V4 { source: any, destination: any }, "IPv4"),
            IpAddr::V6(any) => (Addresses::V6 { source: any, destination: any }, "IPv6"),
        };
        let headers = Headers {
            destination: MacAddress::default(),
            source: MacAddress::default(),
            tags: self.tags(),
            addresses,
            transport: self.header,
            ports: Ports { source: 0, destination: 0 },
            dscp: 0,
            hops: 0,
        };
        let (smallest, least) = (self.frame_size.sizes().smallest(), headers.least_frame_size());
        if smallest >= least {
            return Ok(());
        }
        let (n_tags, name) = (headers.tags.len(), self.frame_size.name());
        let header = if self.header == Transport::Tcp { "a TCP header" } else { "a UDP header" };
        Err(wrong(
            "frame_size",
            format!(
                "{name}: {header}, {n_tags} VLAN tags and the signature need {least} B over \
                    {family}, and {smallest} B are too few"
            ),
        ))
    }
}
