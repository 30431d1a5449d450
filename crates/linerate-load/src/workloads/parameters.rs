//! Parameters of one workload, as its own type: read, checked and documented in one place.
//!
//! [`Parameters::declare`] is the only place where a parameter of a workload appears. Groups that
//! several workloads share (`arrivals`, `exchange`, `placement`, `socket_options`, `tcp_options`)
//! have a `declare` of their own, which the workload's calls.

use std::net::IpAddr;

use linerate_model::{Bytes, ParamError, Params, Side};

use crate::parameter::{Parameter, Reader, Words};
use crate::{JobPorts, Listener, Offer, Result, Setup, Workers, Workload};

/// Directions of data, seen from the active end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the active to the passive end.
    Tx,
    /// From the passive to the active end.
    Rx,
    /// Both ways at once.
    Both,
}

impl Direction {
    /// Words of plans.
    pub(crate) const WORDS: Words<Self> =
        &[("tx", Self::Tx), ("rx", Self::Rx), ("both", Self::Both)];
}

/// The parameters of one workload.
pub(crate) trait Parameters: Sized {
    /// Declares every parameter and returns their values.
    fn declare(reader: &mut Reader<'_>) -> Self;

    /// Fills in defaults that depend on other parameters, and checks that all go together.
    ///
    /// # Errors
    /// The first parameter that does not go with the others.
    fn settle(&mut self) -> Result<(), ParamError>;
}

/// A workload whose parameters have a type of their own. Both ends start with checked values.
pub(crate) trait Typed: Sync {
    /// Its parameters.
    type Params: Parameters;
    /// The name plans use.
    const NAME: &'static str;
    /// One sentence: the load, and the meaning of its figures.
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

    /// See [`Workload::ports`].
    fn ports_of(params: &Self::Params) -> JobPorts {
        let _ = params;
        if Self::HAS_TWO_ENDS { JobPorts::AGENT } else { JobPorts::NONE }
    }

    /// Memory of either end, see [`Workload::memory`].
    fn memory_of(params: &Self::Params) -> u64;

    /// False if the passive end does nothing: then it needs no memory.
    const HAS_TWO_ENDS: bool = true;

    /// See [`Workload::runs_on_loopback`].
    const ON_LOOPBACK: bool = true;

    /// Starts the passive end, see [`Workload::listen`].
    fn start_passive(params: Self::Params, setup: &Setup<'_>) -> Result<Box<dyn Listener>>;

    /// Starts the active end, see [`Workload::connect`].
    fn start_active(params: Self::Params, setup: &Setup<'_>, offer: &Offer) -> Result<Workers>;
}

impl<T: Typed> Workload for T {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn summary(&self) -> &'static str {
        T::SUMMARY
    }

    fn parameters(&self) -> Vec<Parameter> {
        declared::<T::Params>()
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
        // The passive end of a workload with one end does nothing.
        let has_workers = T::HAS_TWO_ENDS || side == Side::Active;
        read::<T::Params>(params)
            .ok()
            .map(|params| if has_workers { T::memory_of(&params) } else { 0 })
    }

    fn ports(&self, params: &Params) -> Option<JobPorts> {
        Some(T::ports_of(&read::<T::Params>(params).ok()?))
    }

    fn runs_on_loopback(&self) -> bool {
        T::ON_LOOPBACK
    }

    fn listen(&self, setup: &Setup<'_>) -> Result<Box<dyn Listener>> {
        T::start_passive(read(setup.params)?, setup)
    }

    fn connect(&self, setup: &Setup<'_>, offer: &Offer) -> Result<Workers> {
        T::start_active(read(setup.params)?, setup, offer)
    }
}

/// Reads and checks `params`.
///
/// # Errors
/// Everything wrong with single parameters; if nothing is, the first that does not go with the
/// others.
pub(crate) fn read<P: Parameters>(params: &Params) -> Result<P, Vec<ParamError>> {
    let mut reader = Reader::new(params);
    let mut typed = P::declare(&mut reader);
    let errors = reader.errors();
    // Checks of combinations need valid single values.
    if !errors.is_empty() {
        return Err(errors);
    }
    typed.settle().map_err(|error| vec![error])?;
    Ok(typed)
}

/// Returns every parameter that `P` declares.
fn declared<P: Parameters>() -> Vec<Parameter> {
    let none = Params::default();
    let mut reader = Reader::new(&none);
    P::declare(&mut reader);
    reader.declared()
}

/// Checks what every workload promises of its parameters: a printed default is what a plan without
/// the parameter runs with, each of `mistakes` is refused by name, and an unknown name is refused
/// with the nearest known one.
#[cfg(test)]
pub(crate) fn assert_sound<P: Parameters + std::fmt::Debug>(
    mistakes: &[(&str, serde_json::Value)],
) {
    let with = |key: &str, value: serde_json::Value| {
        Params(serde_json::Map::from_iter([(key.to_owned(), value)]))
    };
    let without = format!("{:?}", read::<P>(&Params::default()).expect("defaults go together"));
    for parameter in declared::<P>() {
        let Some(default) = parameter.default_value() else { continue };
        let same = read::<P>(&with(parameter.name, default.clone())).expect(parameter.name);
        assert_eq!(format!("{same:?}"), without, "{} = {default}", parameter.name);
    }
    for (key, value) in mistakes {
        let errors = read::<P>(&with(key, value.clone())).expect_err(key);
        assert_eq!(errors[0].key, *key, "{value}");
    }
    let known = declared::<P>()[0].name;
    let misspelt = format!("{known}x");
    let errors = read::<P>(&with(&misspelt, serde_json::json!("eth0"))).expect_err("unknown");
    assert_eq!(
        (errors[0].key.as_str(), errors[0].cause.as_str()),
        (&*misspelt, "unknown parameter")
    );
    assert_eq!(errors[0].nearest.as_deref(), Some(known));
}

/// Reads `table`, which is right.
#[cfg(test)]
pub(crate) fn from_table<P: Parameters>(table: serde_json::Value) -> P {
    read(&serde_json::from_value(table).expect("a table")).expect("the parameters go together")
}
