//! How a workload's parameters are put together: its own and the groups it shares with others,
//! flattened into one table.
//!
//! A parameter is declared in exactly one struct: its workload's, or its group's (`arrivals`,
//! `exchange`, `placement`, `socket_options`, `tcp_options`). serde cannot refuse unknown fields of
//! a struct with flattened ones, so the documented names are the known ones: what is not documented
//! cannot be set.

use std::net::IpAddr;

use linerate_model::{Bytes, ParamError, Params, Side};
use serde::de::DeserializeOwned;

use crate::parameter::{self, ParamDoc, Takes};
use crate::{Listener, LoadError, Offer, Setup, Worker, Workload};

/// Which way data goes, seen from the active end.
pub(crate) const DIRECTION: Takes = Takes::Word(&["tx", "rx", "both"]);

/// The parameters of one workload.
pub(crate) trait Parameters: DeserializeOwned {
    /// Every parameter, once.
    fn docs() -> Vec<ParamDoc>;

    /// Fills in this workload's own defaults of shared parameters, and says whether all of them go
    /// together.
    ///
    /// # Errors
    /// The first parameter that does not go with the others.
    fn settle(&mut self) -> Result<(), ParamError>;
}

/// A workload whose parameters are of its own type: what it is given to start an end has been read
/// and checked.
pub(crate) trait Typed: Sync {
    /// Its parameters.
    type Params: Parameters;
    /// The name plans use.
    const NAME: &'static str;
    /// One sentence: what it does and what its figures mean.
    const SUMMARY: &'static str;

    /// See [`Workload::check_to`].
    fn fits(params: &Self::Params, address: IpAddr) -> Result<(), ParamError> {
        let _ = (params, address);
        Ok(())
    }

    /// See [`Workload::packet`].
    fn packet_of(params: &Self::Params, mtu: Bytes) -> Option<Bytes> {
        let _ = (params, mtu);
        None
    }

    /// What either end needs, see [`Workload::memory`].
    fn memory_of(params: &Self::Params) -> u64;

    /// Whether the passive end does anything: if not, it needs no memory.
    const HAS_TWO_ENDS: bool = true;

    /// See [`Workload::runs_on_loopback`].
    const ON_LOOPBACK: bool = true;

    /// Starts the passive end, see [`Workload::listen`].
    fn start_passive(
        params: Self::Params,
        setup: &Setup<'_>,
    ) -> Result<Box<dyn Listener>, LoadError>;

    /// Starts the active end, see [`Workload::connect`].
    fn start_active(
        params: Self::Params,
        setup: &Setup<'_>,
        offer: &Offer,
    ) -> Result<Vec<Box<dyn Worker>>, LoadError>;
}

impl<T: Typed> Workload for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn summary(&self) -> &'static str {
        T::SUMMARY
    }

    fn parameters(&self) -> Vec<ParamDoc> {
        T::Params::docs()
    }

    fn check(&self, params: &Params) -> Vec<ParamError> {
        read::<T::Params>(params).err().unwrap_or_default()
    }

    fn check_to(&self, params: &Params, address: IpAddr) -> Vec<ParamError> {
        let fits = |params: T::Params| T::fits(&params, address).err().into_iter().collect();
        read::<T::Params>(params).map(fits).unwrap_or_default()
    }

    fn packet(&self, params: &Params, mtu: Bytes) -> Option<Bytes> {
        T::packet_of(&read::<T::Params>(params).ok()?, mtu)
    }

    fn memory(&self, params: &Params, side: Side) -> Option<u64> {
        let has_workers = T::HAS_TWO_ENDS || side == Side::Active;
        read::<T::Params>(params)
            .ok()
            .map(|params| if has_workers { T::memory_of(&params) } else { 0 })
    }

    fn runs_on_loopback(&self) -> bool {
        T::ON_LOOPBACK
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>, LoadError> {
        T::start_passive(read(setup.params)?, setup)
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Vec<Box<dyn Worker>>, LoadError> {
        T::start_active(read(setup.params)?, setup, offer)
    }
}

/// Reads and checks `params`.
///
/// # Errors
/// Everything wrong with them.
pub(crate) fn read<P: Parameters>(params: &Params) -> Result<P, Vec<ParamError>> {
    parameter::read(params, &P::docs(), P::settle)
}

/// A workload's own documentation, then that of the groups. What a workload says of a shared
/// parameter, because its default or meaning is special, stands for what the group says.
pub(crate) fn documented(own: &[ParamDoc], groups: &[&[ParamDoc]]) -> Vec<ParamDoc> {
    let said = |name| own.iter().any(|parameter| parameter.name == name);
    let shared = groups.iter().copied().flatten().filter(|parameter| !said(parameter.name));
    own.iter().chain(shared).copied().collect()
}

/// A parameter that does not go with the others.
pub(crate) fn wrong(key: &str, cause: impl Into<String>) -> ParamError {
    ParamError { key: key.to_owned(), cause: cause.into(), expected: None, nearest: None }
}

/// What every workload's tests ask of its parameters: each is documented once and declared, each of
/// `mistakes` is named, and what is not documented is refused with the nearest name.
#[cfg(test)]
pub(crate) fn assert_sound<P: Parameters + std::fmt::Debug>(
    mistakes: &[(&str, serde_json::Value)],
) {
    let with = |key: &str, value: serde_json::Value| {
        Params(serde_json::Map::from_iter([(key.to_owned(), value)]))
    };
    let mut names = std::collections::BTreeSet::new();
    let without = format!("{:?}", read::<P>(&Params::default()).expect("defaults go together"));
    for ParamDoc { name, default, .. } in P::docs() {
        // A default written as in a plan is what a plan without it gets; others are told in words,
        // or left to the workload.
        let written =
            serde_json::from_str(default).ok().and_then(|value| read::<P>(&with(name, value)).ok());
        let agrees =
            |with: P| format!("{with:?}") == without || without.contains(&format!("{name}: None"));
        assert!(written.is_none_or(agrees), "{name}: {default} is not its default");
        assert!(names.insert(name), "{name} is documented twice");
        // Past the table of what is taken: the struct itself must know it.
        assert!(
            with(name, serde_json::json!({ "no": "such value" })).typed::<P>().is_err(),
            "{name} is not declared"
        );
    }
    for (key, value) in mistakes {
        assert_eq!(read::<P>(&with(key, value.clone())).expect_err(key)[0].key, *key, "{value}");
    }
    assert!(read::<P>(&Params::default()).is_ok());
    let errors = read::<P>(&with("devise", serde_json::json!("eth0"))).expect_err("unknown");
    assert_eq!((errors[0].key.as_str(), errors[0].cause.as_str()), ("devise", "unknown parameter"));
    assert_eq!(errors[0].nearest.as_deref(), Some("device"));
}
