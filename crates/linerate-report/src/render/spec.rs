//! Charts as data for the script that draws them.

use serde_json::{Value, json};

use crate::document::{AxisScale, Cell, Chart, Plot, Role};

/// Returns `chart` as data, in the unit of its axis, for `assets/src/charts.ts`.
#[must_use]
pub fn chart_spec(chart: &Chart) -> Value {
    let table = &chart.table;
    let decimals = table.decimals();
    let x_column = &table.columns[0];
    let category = chart.x_scale == AxisScale::Category;
    // Coordinates of a plan have a text of their own, such as "64 KiB".
    let labelled =
        category || table.rows.iter().any(|row| matches!(row.cells[0], Cell::Coordinate { .. }));
    let labels: Vec<Value> = table
        .rows
        .iter()
        .enumerate()
        .filter(|_| labelled)
        .map(|(index, row)| {
            let cell = &row.cells[0];
            let label = cell.shown(&x_column.scale, decimals[0]);
            json!({ "x": x_of(chart, index, cell), "label": label,
                "major": is_major(chart.x_scale, cell) })
        })
        .collect();
    let marks: Vec<Value> = chart
        .marks
        .iter()
        .map(|mark| {
            let column = &table.columns[mark.column];
            let points = table.rows.iter().enumerate().map(|(index, row)| {
                let cell = &row.cells[mark.column];
                let factor = column.scale.factor;
                let mut point = json!({
                    "x": x_of(chart, index, &row.cells[0]),
                    "y": cell.value().filter(|value| value.is_finite()).map(|value| value / factor),
                    "shown": format!("{} \
                        {}", cell.shown(&column.scale, decimals[mark.column]),
                        column.scale.symbol).trim_end(),
                });
                if let Cell::Estimate(estimate) = cell {
                    point["low"] = json!(estimate.low.map(|low| low / factor));
                    point["high"] = json!(estimate.high.map(|high| high / factor));
                }
                point
            });
            let (role, partner) = match mark.role {
                Role::Line => ("line", None),
                Role::Ceiling(of) => ("ceiling", of),
                Role::Bar => ("bar", None),
                Role::Second => ("second", None),
            };
            json!({
                "name": mark.name, "role": role, "partner": partner, "unit": column.scale.symbol,
                "points": points.collect::<Vec<_>>(),
            })
        })
        .collect();
    let unit_of = |role: fn(&Role) -> bool| {
        chart.marks.iter().find(|mark| role(&mark.role)).map(|mark| &table.columns[mark.column])
    };
    let first = unit_of(|role| matches!(role, Role::Line | Role::Bar));
    let second = unit_of(|role| *role == Role::Second);
    let x_unit = if chart.x_scale == AxisScale::Percentile || !labelled {
        x_column.scale.symbol
    } else {
        ""
    };
    json!({
        "id": table.id,
        "title": chart.title,
        "summary": chart.summary,
        "plot": match chart.plot {
            Plot::Lines => "lines",
            Plot::Points => "points",
            Plot::StackedBars => "stacked",
            Plot::GroupedBars => "grouped",
            Plot::Percentiles => "percentiles",
            Plot::Series => "series",
            Plot::Heat => "heat",
        },
        "x": { "name": x_column.head, "unit": x_unit, "scale": scale_name(chart.x_scale) },
        "y": {
            "name": chart.y_name, "unit": first.map_or("", |column| column.scale.symbol),
            "scale": scale_name(chart.y_scale),
        },
        "second": second.map(|column| json!({ "name": column.head.to_lowercase(),
            "unit": column.scale.symbol, "scale": "linear" })),
        "labels": labels,
        "marks": marks,
        "measured_from": chart.measured_from,
    })
}

/// Returns the place of a row on the horizontal axis.
fn x_of(chart: &Chart, index: usize, cell: &Cell) -> f64 {
    match (chart.x_scale, cell.value()) {
        (AxisScale::Category, _) | (_, None) => index as f64,
        // The distance to all of it: 90 %, 99 % and 99.9 % become 10, 100 and 1000.
        (AxisScale::Percentile, Some(percent)) => 1.0 / (1.0 - percent / 100.0),
        (_, Some(value)) => value / chart.table.columns[0].scale.factor,
    }
}

/// Returns whether the label of a row is worth a line of the grid.
fn is_major(scale: AxisScale, cell: &Cell) -> bool {
    match (scale, cell.value()) {
        // Lines at other percentiles would be too close to each other.
        (AxisScale::Percentile, Some(value)) => {
            [0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999].contains(&value)
        }
        _ => true,
    }
}

const fn scale_name(scale: AxisScale) -> &'static str {
    match scale {
        AxisScale::Linear => "linear",
        AxisScale::Log2 => "log2",
        AxisScale::Log10 => "log10",
        AxisScale::Category => "category",
        AxisScale::Percentile => "percentile",
    }
}
