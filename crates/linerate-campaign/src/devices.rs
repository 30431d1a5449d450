//! Fates of the frames at a lab's devices under test, as readings of their trial.
//!
//! The devices run in this process, not on a host: their readings are recorded under the empty host
//! name. A series stands for one direction of one device; its instance is `NAME FROM>TO`, where
//! FROM and TO are what the two ports lead to.

use std::time::Instant;

use linerate_lab::element::{Class, Fate, Running};
use linerate_model::series::device;
use linerate_model::{Event, Nanos, SampleBlock, SeriesSpec, TrialId};

/// Readings at the start of the present trial.
#[derive(Debug)]
pub(crate) struct Devices {
    before: Vec<f64>,
    since: Instant,
}

impl Devices {
    /// Reads the counters at the start of a trial.
    pub(crate) fn note(running: &[Running]) -> Self {
        Self { before: readings(running), since: Instant::now() }
    }

    /// Returns the counts since then; `None` if the lab has no devices.
    pub(crate) fn samples(&self, trial: TrialId, running: &[Running]) -> Option<Event> {
        let series = series(running);
        if series.is_empty() {
            return None;
        }
        let after = readings(running);
        let columns = self
            .before
            .iter()
            .zip(&after)
            // Two readings are enough: the study uses the change over the whole trial.
            .map(|(before, after)| vec![Some(*before), Some(*after)].into())
            .collect();
        let elapsed = Nanos(u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let times = vec![Nanos(0), elapsed];
        let block = SampleBlock { series: series.into(), times, columns, ..SampleBlock::default() };
        Some(Event::Samples { trial, host: String::new(), block })
    }
}

/// Returns every counter of every direction of every device, in a fixed order.
fn counters(running: &[Running]) -> impl Iterator<Item = (&Running, usize, Class, Fate)> {
    let ways = running.iter().flat_map(|device| [(device, 0), (device, 1)]);
    let classes = ways.flat_map(|(device, end)| Class::ALL.map(|class| (device, end, class)));
    classes.flat_map(|(device, end, class)| Fate::ALL.map(|fate| (device, end, class, fate)))
}

/// Returns a series for each counter: the columns are declared in the order of [`counters`].
fn series(running: &[Running]) -> Vec<SeriesSpec> {
    let ways = running.iter().flat_map(|device| [(device, 0), (device, 1)]);
    ways.flat_map(|(device, end)| {
        // Each direction is named after what its two ports lead to, as a device has no names for
        // them.
        let instance =
            format!("{} {}>{}", device.name(), device.ends()[end], device.ends()[1 - end]);
        device::ALL.iter().map(move |column| column.of(&instance))
    })
    .collect()
}

fn readings(running: &[Running]) -> Vec<f64> {
    counters(running)
        .map(|(device, end, class, fate)| device.counted(end).of(class, fate) as f64)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_declared_for_each_fate_of_each_class_in_the_order_of_the_counters() {
        let named = Class::ALL.iter().flat_map(|class| {
            Fate::ALL.iter().map(move |fate| format!("{}_{}", class.name(), fate.name()))
        });
        assert!(named.eq(device::ALL.iter().map(|column| column.name)));
    }
}
