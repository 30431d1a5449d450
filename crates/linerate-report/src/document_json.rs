//! Sections of a report as JSON: every block, with unrounded numbers in base units and their unit,
//! layer and direction.
//!
//! A cell of a table is a string, a number, `null`, or an object: `value` with `low`, `high`, `n`
//! and `confidence` for an estimate, `value` with `label` for a coordinate, `missing` with the
//! reason where there is no figure. A chart is drawn from its `table`. A table without rows has its
//! figures elsewhere in the document: `figures_at` is a JSON pointer (RFC 6901) to them.

use linerate_model::Estimate;
use serde_json::{Value, json};

use crate::document::{Block, Cell, Column, ColumnKind, KeyFigure, Lead, Section, Table};

/// Returns `sections` in their order.
pub(crate) fn sections(sections: &[Section]) -> Value {
    sections
        .iter()
        .map(|section| {
            let blocks: Vec<Value> = section.blocks.iter().map(block).collect();
            json!({ "id": section.id, "title": section.title, "blocks": blocks })
        })
        .collect()
}

fn block(block: &Block) -> Value {
    match block {
        Block::Lead(lead) => lead_json(lead),
        Block::Path(picture) => json!({
            "kind": "path", "title": picture.title, "summary": picture.summary,
            "table": table(&picture.table),
        }),
        Block::Paragraph(text) => json!({ "kind": "paragraph", "text": text }),
        Block::List(items) => json!({ "kind": "list", "items": items }),
        Block::KeyFigures(figures) => {
            json!({ "kind": "figures", "figures": figures.iter().map(figure).collect::<Vec<_>>() })
        }
        Block::Table(of) => json!({ "kind": "table", "table": table(of) }),
        Block::Chart(chart) => json!({
            "kind": "chart", "title": chart.title, "summary": chart.summary,
            "measured_from_s": chart.measured_from,
            "marks": chart.marks.iter().map(|mark| json!({ "column": mark.column,
                "name": mark.name })).collect::<Vec<_>>(),
            "table": table(&chart.table),
        }),
        Block::Claim(claim) => json!({
            "kind": "claim", "verdict": claim.verdict, "subject": claim.subject,
            "claim": claim.claim, "rule": claim.rule,
            "parts": claim.parts.iter().map(|(label,
                lines)| json!({ "label": label, "lines": lines })).collect::<Vec<_>>(),
        }),
        Block::Listing { caption, text } => {
            json!({ "kind": "listing", "caption": caption, "text": text })
        }
    }
}

fn lead_json(lead: &Lead) -> Value {
    let steps = lead.next.iter().map(|step| json!({ "text": step.text, "command": step.command }));
    json!({
        "kind": "lead",
        "surety": lead.surety,
        "text": lead.text(),
        "figure": lead.figure,
        "context": lead.context,
        "basis": lead.basis,
        "cost": lead.cost,
        "ceiling": lead.ceiling,
        "reached": lead.reached,
        "label": lead.label,
        "status": lead.status,
        "claim": lead.claim,
        "evidence": lead.evidence,
        "next": steps.collect::<Vec<_>>(),
    })
}

fn figure(figure: &KeyFigure) -> Value {
    let mut told = estimate(&figure.estimate);
    told["label"] = json!(figure.label);
    told["unit"] = json!(figure.scale.base);
    told["layer"] = json!(figure.layer);
    told["direction"] = json!(figure.direction);
    told["ceiling"] =
        json!(figure.ceiling.as_ref().map(|(share, name)| json!({ "share": share, "name": name })));
    told["beside"] = json!(figure.beside);
    told["at"] = json!(figure.at);
    told["validity"] = json!(figure.validity);
    told
}

fn table(table: &Table) -> Value {
    let row = |cells: &[Cell]| cells.iter().map(cell).collect::<Value>();
    let mut told = json!({
        "id": table.id,
        "caption": table.caption,
        "note": table.note,
        "columns": table.columns.iter().map(column).collect::<Vec<_>>(),
    });
    match &table.figures_at {
        // The figures are stored once; the pointer leads to them.
        Some(place) => told["figures_at"] = json!(place),
        None => told["rows"] = table.rows.iter().map(|one| row(&one.cells)).collect(),
    }
    told
}

fn column(column: &Column) -> Value {
    let kind = match column.kind {
        ColumnKind::Text => "text",
        ColumnKind::Number => "number",
        ColumnKind::Estimate => "estimate",
    };
    json!({
        "head": column.head, "kind": kind, "unit": column.scale.base, "layer": column.layer,
        "direction": column.direction,
    })
}

fn cell(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => json!(text),
        // Not finite: null.
        Cell::Number(value) => json!(value),
        Cell::Coordinate { value, label } => json!({ "value": value, "label": label }),
        Cell::Estimate(of) => estimate(of),
        Cell::AtLeast(bound) => json!({ "at_least": bound }),
        Cell::Missing(why) => json!({ "missing": why }),
    }
}

fn estimate(estimate: &Estimate) -> Value {
    let Estimate { value, low, high, confidence, n } = estimate;
    json!({ "value": value, "low": low, "high": high, "confidence": confidence, "n": n })
}
