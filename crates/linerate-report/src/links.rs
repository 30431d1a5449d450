//! Figures of a PCI Express link: bandwidth over the payload of a packet, as IDT drew it (paper S5,
//! figures 2 to 4), and the share of a network card beside its port (paper S3, figures 9 and 10).
//!
//! Nothing is measured: every curve comes from the model `pcie` of [`linerate_analysis::limits`].
//! Bandwidths are bit/s of payload, as the sum of both directions, which the paper leaves unsaid;
//! one direction has half. A packet carries the whole payload of its axis, and curves end at the
//! maximum payload setting.

use linerate_analysis::limits::ethernet;
use linerate_analysis::limits::pcie::nic::{Nic, frame_bytes, frame_rate};
use linerate_analysis::limits::pcie::{Addressing, EndToEndCheck, LANES, Link, LinkLayerPackets};
use linerate_model::{BitRate, Bytes, Direction, Layer, Nanos, metric};
use serde_json::{Value, json};

use crate::document::{
    AxisScale, Block, Cell, Chart, Column, Document, Origin, Plot, Role, Section, Sheet, Table,
};
use crate::document_json;
use crate::number::Scale;

/// Payloads of a packet: those of PCI Express 2.2.2, and smaller ones that occur.
const PAYLOADS: [u64; 11] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Frame sizes of RFC 2544, and the jumbo frame.
const FRAMES: [u64; 8] = [64, 128, 256, 512, 1024, 1280, 1518, 9018];
/// Most lines of one chart.
const MOST_LINES: usize = 5;
/// Largest payload of a packet, which curves over payload permit.
const LARGEST: Bytes = Bytes(4096);

/// Returns the figures of `link`, and with `ports` those of a card whose ports have that total
/// rate.
pub fn link_figures(link: &Link, ports: Option<BitRate>, version: &str) -> Document {
    // The packet carries the payload of the axis, so the setting must not cut it.
    let open = Link { max_payload: LARGEST, completion: LARGEST, ..*link };
    let mut sections = vec![
        Section {
            id: "bandwidth",
            title: "Payload bandwidth by payload",
            blocks: vec![by_width(&open), link_layer(&open)],
        },
        Section {
            id: "efficiency",
            title: "Efficiency by payload",
            blocks: vec![efficiency(&open)],
        },
    ];
    let (packets, bits) = card(link, ports);
    sections.push(Section {
        id: "card",
        title: "Frames of a card in this slot",
        blocks: vec![packets, bits],
    });
    let mut study = figures_json(&sections);
    study["linerate"] = json!(version);
    study["report"] = document_json::sections(&sections);
    Document {
        title: format!("PCI Express generation {} x{}", link.generation, link.lanes),
        subtitle: "computed, not measured: packets, their framing and headers".to_owned(),
        origin: Origin::Computed,
        started: Nanos(0),
        version: version.to_owned(),
        sections,
        study,
    }
}

/// JSON pointer to the figures of all tables.
const FIGURES: &str = "/figures";

/// Returns the tables of the charts in base units, sizes first.
fn figures_json(sections: &[Section]) -> Value {
    let tables =
        sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
            Block::Chart(chart) => Some(&chart.table),
            _ => None,
        });
    fn figure(table: &Table) -> Value {
        let heads: Vec<&str> = table.columns.iter().map(|column| column.head.as_str()).collect();
        let units: Vec<&str> = table.columns.iter().map(|column| column.scale.base).collect();
        let rows: Vec<Vec<Option<f64>>> =
            table.rows.iter().map(|row| row.cells.iter().map(Cell::value).collect()).collect();
        json!({
            "id": table.id, "caption": table.caption,
            "columns": heads, "units": units, "rows": rows,
        })
    }
    json!({ "figures": tables.map(figure).collect::<Vec<_>>() })
}

/// Curve: name, form, and value at each place.
struct Curve {
    name: String,
    role: Role,
    values: Vec<f64>,
}

/// Common parts of all charts of this file: sizes on a horizontal axis by powers of two.
struct Frame<'a> {
    id: &'a str,
    title: String,
    summary: String,
    axis: &'a str,
    sizes: &'a [u64],
    scale: Scale,
    y_name: &'a str,
    y_scale: AxisScale,
    layer: Option<Layer>,
    direction: Option<Direction>,
    note: &'a str,
}

fn chart(frame: Frame<'_>, curves: &[Curve]) -> Block {
    let sizes = Scale { base: "B", ..Scale::COUNT };
    let mut sheet = Sheet::new(frame.sizes.iter().enumerate());
    sheet.column(Column::number(frame.axis, sizes), |(_, size)| Cell::Coordinate {
        value: **size as f64,
        label: format!("{size} B"),
    });
    for curve in curves {
        let column = Column::number(curve.name.clone(), frame.scale);
        let column = Column { layer: frame.layer, direction: frame.direction, ..column };
        sheet.drawn(curve.role, column, |(place, _)| Cell::Number(curve.values[*place]));
    }
    let marks = sheet.marks();
    let mut table = sheet.plain(frame.id, frame.title);
    table.note = Some(frame.note.to_owned());
    table.folded = true;
    // The values are in the JSON under this pointer, in base units.
    table.figures_at = Some(FIGURES.to_owned());
    Block::Chart(Chart {
        summary: frame.summary,
        x_scale: AxisScale::Log2,
        y_scale: frame.y_scale,
        ..Chart::of(Plot::Lines, frame.y_name, marks, table)
    })
}

/// Returns the payload bandwidth of both directions for each packet size.
fn bandwidths(link: &Link) -> Vec<f64> {
    // IDT added both directions, and the figures are compared with the paper's.
    PAYLOADS.iter().map(|payload| 2.0 * link.write(Bytes(*payload)).0).collect()
}

fn same_with(link: &Link, lanes: u32) -> Option<Link> {
    let other = Link::new(link.generation, lanes, link.max_payload, link.max_read_request)?;
    Some(Link { rate: other.rate, lanes, ..*link })
}

/// Returns IDT's figure 2: links up to this width.
fn by_width(link: &Link) -> Block {
    let widths: Vec<u32> =
        // Widths such as x12 exist but make a crowded legend.
        LANES.into_iter().filter(|lanes| *lanes <= link.lanes && lanes.is_power_of_two()).collect();
    // The widest links are kept: the narrow ones are of less interest to the reader of this slot.
    let narrowest = widths.len().saturating_sub(MOST_LINES);
    let curves: Vec<Curve> = widths[narrowest..]
        .iter()
        .filter_map(|lanes| {
            let link = same_with(link, *lanes)?;
            Some(Curve { name: format!("x{lanes}"), role: Role::Line, values: bandwidths(&link) })
        })
        .chain([ceiling(
            format!("line rate of x{}", link.lanes),
            2.0 * link.rate.0,
            PAYLOADS.len(),
        )])
        .collect();
    let frame = Frame {
        id: "pcie-bandwidth",
        title: format!("Payload bandwidth, generation {}, both directions added", link.generation),
        summary: format!(
            "Bandwidth rises with the payload of a packet: x{} carries {:.2} Gbit/s at 64 B and \
                {:.2} at 4096 B, both directions added.",
            link.lanes,
            2.0 * link.write(Bytes(64)).0 / 1e9,
            2.0 * link.write(LARGEST).0 / 1e9
        ),
        note: "IDT's figure 2. Each packet has its framing and header; a direction has half. \
            Nothing for the link layer: upper bounds.",
        ..bandwidth_frame(link)
    };
    chart(frame, &curves)
}

fn bandwidth_frame(link: &Link) -> Frame<'static> {
    Frame {
        id: "",
        title: String::new(),
        summary: String::new(),
        axis: "payload",
        sizes: &PAYLOADS,
        scale: Scale::of(metric::BANDWIDTH, [2.0 * link.rate.0]),
        y_name: "payload bandwidth, both directions",
        y_scale: AxisScale::Linear,
        layer: None,
        direction: Some(Direction::Sum),
        note: "",
    }
}

fn ceiling(name: String, value: f64, places: usize) -> Curve {
    Curve { name, role: Role::Ceiling(None), values: vec![value; places] }
}

/// Variants of the link layer, with their names in a legend.
fn link_layers(link: &Link) -> Vec<(LinkLayerPackets, &'static str)> {
    const FLITS: u32 = 6;
    let bare = [(LinkLayerPackets::None, "no link-layer packets")];
    let counted = [
        (LinkLayerPackets::Idt, "2 for 4 packets (IDT)"),
        (LinkLayerPackets::Realistic, "by the standard's limits"),
    ];
    // From generation 6 on the flit contains the link layer, so there is nothing to count.
    bare.into_iter().chain(counted.into_iter().filter(|_| link.generation < FLITS)).collect()
}

/// Returns IDT's figure 4: the same with the packets of the link layer.
fn link_layer(link: &Link) -> Block {
    let curves: Vec<Curve> = link_layers(link)
        .into_iter()
        .map(|(dllp, name)| Curve {
            name: name.to_owned(),
            role: Role::Line,
            values: bandwidths(&Link { dllp, ..*link }),
        })
        .collect();
    let idt = Link { dllp: LinkLayerPackets::Idt, ..*link };
    let frame = Frame {
        id: "pcie-link-layer",
        title: format!("Payload bandwidth with link-layer packets, x{}", link.lanes),
        summary: format!(
            "Acknowledgements and credit updates take little: at 64 B, {:.2} Gbit/s are left of \
                {:.2} as IDT counts them.",
            2.0 * idt.write(Bytes(64)).0 / 1e9,
            2.0 * link.write(Bytes(64)).0 / 1e9
        ),
        note: "IDT's figure 4. Two of 8 B for every four packets, as IDT counted; or one of each \
            kind as often as the standard's limits \
               ask for at this maximum payload, with skip sets. Expectations, no bounds.",
        ..bandwidth_frame(link)
    };
    chart(frame, &curves)
}

/// Returns IDT's figure 3: the share of payload on the line, for any width.
fn efficiency(link: &Link) -> Block {
    let share = |link: Link| {
        PAYLOADS.iter().map(|payload| link.write(Bytes(*payload)).0 / link.rate.0).collect()
    };
    let of = |addressing, check, dllp| share(Link { addressing, check, dllp, ..*link });
    let (short, long) = (Addressing::Bits32, Addressing::Bits64);
    let mut curves = vec![
        ("32-bit addresses", of(short, EndToEndCheck::Absent, LinkLayerPackets::None)),
        ("64-bit addresses", of(long, EndToEndCheck::Absent, LinkLayerPackets::None)),
        ("64-bit, end-to-end check", of(long, EndToEndCheck::Present, LinkLayerPackets::None)),
    ];
    if link_layers(link).len() > 1 {
        curves.push((
            "32-bit, IDT's link layer",
            of(short, EndToEndCheck::Absent, LinkLayerPackets::Idt),
        ));
    }
    let curves: Vec<Curve> = curves
        .into_iter()
        .map(|(name, values)| Curve { name: name.to_owned(), role: Role::Line, values })
        .collect();
    let at_64 = curves[0].values
        [PAYLOADS.iter().position(|payload| *payload == 64).expect("64 B is on the axis")];
    let frame = Frame {
        id: "pcie-efficiency",
        title: format!("Share of the line that is payload, generation {}", link.generation),
        summary: format!(
            "The share rises from {:.1} % at 64 B towards the whole line.",
            at_64 * 100.0
        ),
        axis: "payload",
        sizes: &PAYLOADS,
        scale: Scale::PERCENT,
        y_name: "payload of the line after its code",
        y_scale: AxisScale::Linear,
        layer: None,
        direction: None,
        note: "IDT's figure 3. The line code is taken off before; it is the same whatever the \
            width.",
    };
    chart(frame, &curves)
}

/// Returns the frames per direction that a card moves while it sends and receives: for each model
/// of a card, below the ceilings of the slot and the port.
fn card(link: &Link, ports: Option<BitRate>) -> (Block, Block) {
    let models = [Nic::Simple, Nic::Kernel, Nic::PollMode].map(|nic| {
        let rates = FRAMES.iter().map(|size| card_rate(nic, link, Bytes(*size)));
        (format!("{} card", nic.name()), rates.collect::<Vec<f64>>())
    });
    let mut rates: Vec<Curve> =
        models.into_iter().map(|(name, values)| Curve { name, role: Role::Line, values }).collect();
    rates.push(Curve {
        name: "slot".to_owned(),
        role: Role::Ceiling(None),
        values: FRAMES.iter().map(|size| slot_rate(link, Bytes(*size))).collect(),
    });
    if let Some(ports) = ports {
        let values =
            FRAMES.iter().map(|size| ethernet::packet_rate(ports, Bytes(*size)).0).collect();
        rates.push(Curve { name: format!("ports of {ports}"), role: Role::Ceiling(None), values });
    }
    fn as_bits(curve: &Curve) -> Curve {
        Curve {
            name: curve.name.clone(),
            role: curve.role,
            values: curve
                .values
                .iter()
                .zip(FRAMES)
                .map(|(rate, size)| rate * Bytes(size).bits())
                .collect(),
        }
    }
    let bits: Vec<Curve> = rates.iter().map(as_bits).collect();
    let most =
        |curves: &[Curve]| curves.iter().flat_map(|c| &c.values).copied().fold(0.0, f64::max);
    let summary = format!(
        "Of the ceilings, {} is the lower at 64 B and {} at {} B.",
        lowest_ceiling(&rates, 0),
        lowest_ceiling(&rates, FRAMES.len() - 1),
        FRAMES[FRAMES.len() - 1]
    );
    const NOTE: &str = "As Cisco's figures 9 and 10, with the slot counted in packets. Cards are \
        models (pcie-bench) and expectations: doorbells, descriptors and interrupts cross beside \
        the frames. Sent and received at once, each way.";
    let packets = Frame {
        id: "card-packet-rate",
        title: "Frames a second, each way".to_owned(),
        summary,
        axis: "frame",
        sizes: &FRAMES,
        scale: Scale::of(metric::PACKET_RATE, [most(&rates)]),
        y_name: "frames, each way",
        y_scale: AxisScale::Log10,
        layer: None,
        direction: None,
        note: NOTE,
    };
    let throughput = Frame {
        id: "card-throughput",
        title: "Frame bits a second, each way".to_owned(),
        summary: packets.summary.clone(),
        scale: Scale::of(metric::THROUGHPUT_L2, [most(&bits)]),
        y_name: "frame bits, each way",
        y_scale: AxisScale::Linear,
        layer: Some(Layer::L2),
        ..packets
    };
    (chart(packets, &rates), chart(throughput, &bits))
}

/// Returns the name of the lowest ceiling among `rates` at the frame size with index `place`.
fn lowest_ceiling(rates: &[Curve], place: usize) -> &str {
    let bounds = rates.iter().filter(|curve| matches!(curve.role, Role::Ceiling(_)));
    bounds
        .min_by(|a, b| a.values[place].total_cmp(&b.values[place]))
        .map_or("slot", |curve| curve.name.as_str())
}

/// Returns the frames per second, each way, that a card with interface `nic` can move.
fn card_rate(nic: Nic, link: &Link, frame: Bytes) -> f64 {
    let bytes = frame_bytes(nic.transmit(), link, frame) + frame_bytes(nic.receive(), link, frame);
    frame_rate(link, bytes).0
}

/// Returns the frames per second, each way, that the slot alone can move.
fn slot_rate(link: &Link, frame: Bytes) -> f64 {
    // Frames cross the slot without their check sequence.
    let data = Bytes(frame.0 - ethernet::CHECK_SEQUENCE.0);
    // `both` adds the two directions.
    link.both(data).0 / 2.0 / data.bits()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, render};

    fn idt() -> Document {
        let link = Link::new(2, 8, Bytes(128), Bytes(512)).expect("known");
        link_figures(&link, Some(BitRate(20e9)), "0.0.0")
    }

    fn cell(document: &Document, table: &str, row: &str, column: &str) -> f64 {
        let table = document.tables().find(|t| t.id == table).expect(table);
        let at = table.columns.iter().position(|c| c.head == column).expect(column);
        let row = table
            .rows
            .iter()
            .find(|r| matches!(&r.cells[0], Cell::Coordinate { label, .. } if label == row));
        row.expect("a row").cells[at].value().expect("a number")
    }

    #[test]
    fn idts_figures_show_its_printed_values() {
        let document = idt();
        let near = |value: f64, expected: f64, tolerance: f64| {
            assert!((value - expected).abs() < tolerance, "{value}")
        };
        near(cell(&document, "pcie-bandwidth", "64 B", "x8") / 1e9, 48.76, 0.005);
        near(cell(&document, "pcie-bandwidth", "64 B", "x1") / 1e9, 6.095, 0.001);
        near(
            cell(&document, "pcie-link-layer", "64 B", "2 for 4 packets (IDT)") / 1e9,
            46.55,
            0.005,
        );
        near(cell(&document, "pcie-efficiency", "64 B", "32-bit addresses"), 0.762, 0.0005);
        near(cell(&document, "pcie-efficiency", "64 B", "32-bit, IDT's link layer"), 0.727, 0.0005);
        near(cell(&document, "pcie-efficiency", "4096 B", "32-bit addresses"), 0.9951, 0.0001);
    }

    #[test]
    fn a_card_stands_under_both_its_ceilings() {
        let document = idt();
        for size in ["64 B", "512 B", "1518 B", "9018 B"] {
            let slot = cell(&document, "card-packet-rate", size, "slot");
            let cards = ["simple card", "kernel card", "poll-mode card"];
            let rates = cards.map(|card| cell(&document, "card-packet-rate", size, card));
            assert!(rates.is_sorted() && rates[2] < slot, "{size}: {rates:?} {slot}");
        }
        let port = cell(&document, "card-throughput", "1518 B", "ports of 20 Gbit/s");
        assert!((port / 1e9 - 20.0 * 1518.0 / 1538.0).abs() < 1e-6);
    }

    #[test]
    fn every_format_takes_figures_without_a_campaign_and_says_that_nothing_was_measured() {
        let document = idt();
        for format in Format::ALL {
            assert!(!render(&document, format).expect("rendered").is_empty());
        }
        let page = render(&document, Format::Html).expect("rendered").remove(0).bytes;
        let page = String::from_utf8(page).expect("text");
        assert!(page.contains("nothing was measured") && !page.contains("median over trials"));
    }

    #[test]
    fn flits_have_no_link_layer_packets_to_draw() {
        let link = Link::new(6, 16, Bytes(512), Bytes(512)).expect("known");
        let document = link_figures(&link, None, "0.0.0");
        let table = document.tables().find(|table| table.id == "pcie-link-layer").expect("drawn");
        assert_eq!(table.columns.len(), 2);
    }
}
