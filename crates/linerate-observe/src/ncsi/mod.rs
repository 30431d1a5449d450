//! Talking NC-SI to a network controller, as the management controller behind its sideband does
//! (DSP0222).
//!
//! There are two ways to it. Where the kernel's own NC-SI stack owns the interface, commands go
//! through that, over its generic netlink family ([`kernel`]): raw frames beside it would collide
//! with its numbering. Everywhere else they go as raw frames over a packet socket. [`choose`]
//! decides between them, [`Transport`] has the reason, and [`Controller`] is either. Without I/O
//! are [`Exchange`] (raw: a command, its retries, and the meaning of each frame that arrives),
//! [`kernel`] (attributes) and [`choose`].

mod controller;
mod exchange;
pub mod kernel;
mod notifications;
mod stack;
mod transport;

pub(crate) use controller::ETHERTYPE;
pub use controller::{Controller, FoundChannel, survey};
pub use exchange::{Address, Exchange, Failure, Reply, Step, Strays};
pub use notifications::{Notifications, Notified};
pub(crate) use stack::Repeated;
pub use stack::statistics_for_another;
pub use transport::{Beside, Ownership, Preference, Transport, Why, choose, ownership};
