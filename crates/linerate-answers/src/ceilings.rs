//! Answer of `linerate limit`: upper bounds with their derivation and source.

use linerate_model::Ceiling;
use linerate_report::Document;
use linerate_report::document::{Block, Origin, Section};
use linerate_report::sentences::derivation;
use serde_json::Value;

use crate::figures::quantity;

/// Returns the ceilings, below `tree`, the devices they were computed for.
#[must_use]
pub fn document(tree: &[String], ceilings: &[Ceiling], json: Value) -> Document {
    let listing = || Block::Listing { caption: "Devices".into(), text: tree.join("\n") };
    // Only some models compute for devices; an empty listing would look like a failure.
    let tree = (!tree.is_empty()).then(listing);
    let blocks = tree.into_iter().chain(ceilings.iter().flat_map(blocks)).collect();
    let section = Section { id: "answer", title: "Upper bounds", blocks };
    Document::answer("Upper bounds", "by calculation", Origin::Computed, vec![section], json)
}

fn blocks(ceiling: &Ceiling) -> [Block; 2] {
    let layer = ceiling.layer.map(|layer| format!(" {layer}")).unwrap_or_default();
    let bound = quantity(ceiling.metric, ceiling.value);
    let heading = format!("{}: {bound}{layer}, {}", ceiling.metric, ceiling.name());
    let source = format!("source: {}", ceiling.source);
    let derivation = derivation(ceiling).into_iter().chain([source]).collect();
    [Block::Paragraph(heading), Block::List(derivation)]
}
