//! Answer of `linerate limit`: upper bounds with their derivation and source.

use linerate_model::Ceiling;
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::sentences::derivation;
use linerate_report::{Document, uncapitalised};
use serde_json::{Value, json};

use crate::figures::quantity;

/// Returns the ceilings, below `tree`, the devices they were computed for.
pub fn document(tree: &[String], ceilings: &[Ceiling], json: Value) -> Document {
    let listing = || Block::Listing { caption: "Devices".into(), text: tree.join("\n") };
    // Only some models compute for devices; an empty listing would look like a failure.
    let tree = (!tree.is_empty()).then(listing);
    let blocks = tree.into_iter().chain(bounds(ceilings)).collect();
    let section = Section { id: "answer", title: "Upper bounds", blocks };
    Document::answer("Upper bounds", "by calculation", Origin::Computed, vec![section], json)
}

/// Returns the ceilings below the `tree` of their devices, with derivations as text in the JSON.
pub fn of_devices(tree: &[String], ceilings: &[Ceiling]) -> Document {
    let shown = ceilings.iter().map(|ceiling| {
        let mut data = json!(ceiling);
        data["derivation"] = json!(derivation(ceiling));
        data
    });
    let json = json!({ "tree": tree, "ceilings": shown.collect::<Vec<_>>() });
    document(tree, ceilings, json)
}

/// Returns the bounds in a table, where there are several, then the derivation of each.
fn bounds(ceilings: &[Ceiling]) -> Vec<Block> {
    let derivations: Vec<Vec<String>> = ceilings.iter().map(steps).collect();
    let [first, _, ..] = derivations.as_slice() else {
        let only = std::iter::zip(ceilings, derivations);
        return only.flat_map(|(ceiling, steps)| derived(ceiling, steps)).collect();
    };
    // A link's rate and overheads are the same in all its bounds, so they are printed once.
    let is_common = |step: &&String| derivations.iter().all(|steps| steps.contains(step));
    let common: Vec<String> = first.iter().filter(is_common).cloned().collect();
    let rows: Vec<Vec<String>> = ceilings.iter().map(|one| vec![one.name(), value(one)]).collect();
    let mut blocks =
        vec![Block::Table(Table::of_words("bounds", "All bounds", &["bound", "value"], &rows))];
    if !common.is_empty() {
        blocks.push(Block::Paragraph("In the derivation of every bound:".into()));
        blocks.push(Block::List(common.clone()));
    }
    for (ceiling, mut steps) in std::iter::zip(ceilings, derivations) {
        steps.retain(|step| !common.contains(step));
        blocks.extend(derived(ceiling, steps));
    }
    blocks
}

fn derived(ceiling: &Ceiling, steps: Vec<String>) -> [Block; 2] {
    let title = uncapitalised(ceiling.metric.title);
    let heading = format!("{title}: {}, {}", value(ceiling), ceiling.name());
    [Block::Paragraph(heading), Block::List(steps)]
}

/// Returns the value with its unit and layer.
fn value(ceiling: &Ceiling) -> String {
    let layer = ceiling.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
    format!("{}{layer}", quantity(ceiling.metric, ceiling.value))
}

/// Returns the lines of the derivation, and its source.
fn steps(ceiling: &Ceiling) -> Vec<String> {
    let source = format!("source: {}", ceiling.source);
    derivation(ceiling).into_iter().chain([source]).collect()
}

#[cfg(test)]
mod tests {
    use linerate_analysis::limits::limit;
    use linerate_model::Params;
    use linerate_report::text;

    use super::*;

    #[test]
    fn common_steps_of_several_bounds_are_printed_once_and_no_step_is_lost() {
        let mut options = Params::default();
        options.set("gen", 3);
        options.set("lanes", 8);
        let pcie = limit("pcie").expect("a known model");
        let ceilings = (pcie.ceilings)(&options).expect("all options fit");
        let document = document(&[], &ceilings, Value::Null);
        // The width of a terminal decides where a line ends.
        let text = text::whole(&document).split_whitespace().collect::<Vec<_>>().join(" ");
        for step in ceilings.iter().flat_map(steps) {
            assert!(text.contains(&step), "{step}");
        }
        let rate = "8 GT/s x 8 lanes x 128 / 130";
        assert_eq!(text.matches(rate).count(), 1, "{text}");
        assert_eq!(document.tables().next().map(|table| table.rows.len()), Some(ceilings.len()));
    }
}
