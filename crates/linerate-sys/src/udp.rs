//! UDP sockets: many datagrams a call, segmentation offload (GSO) and coalescing (GRO).
