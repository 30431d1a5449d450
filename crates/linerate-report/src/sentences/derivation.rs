//! Text of derivations: expressions, laws and statements in words.

use linerate_model::Ceiling;
use linerate_model::derivation::{
    Equation, Expression, Figure, Function, Law, Line, Measure, Operator, Remark, SlotLine,
    SlotLink, Statement,
};
use linerate_model::{BitRate, Bytes};

use crate::words::count;

/// Returns the derivation of a ceiling, line by line.
#[must_use]
pub fn derivation(ceiling: &Ceiling) -> Vec<String> {
    ceiling.derivation.iter().map(derivation_line).collect()
}

/// Returns a line of a derivation.
#[must_use]
pub fn derivation_line(line: &Line) -> String {
    match line {
        Line::Equation(line) => equation(line),
        Line::Distribution { of, outcomes } => {
            let outcomes: Vec<String> =
                outcomes.iter().map(|(outcome, chance)| format!("{outcome} {chance:.4}")).collect();
            format!("probability of each number of {}: {}", of.name(), outcomes.join(", "))
        }
        Line::Law(of) => law(of),
        Line::Statement(of) => statement(of),
        Line::Text(text) => text.clone(),
    }
}

fn equation(line: &Equation) -> String {
    let of = line.of.map_or_else(String::new, |of| format!("{}: ", of.name()));
    let results: Vec<String> = line.results.iter().map(figure).collect();
    let remark = line.remark.map_or_else(String::new, remark);
    format!("{of}{} = {}{remark}", expression(&line.expression), results.join(" = "))
}

/// Returns a number with as many digits as a pocket calculator shows, without trailing zeros.
fn plain(value: f64) -> String {
    const DIGITS: usize = 10;
    let whole_digits = format!("{:.0}", value.abs().trunc()).len();
    // Numbers of more than ten whole digits get no decimals.
    let text = format!("{value:.*}", DIGITS.saturating_sub(whole_digits));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn figure(figure: &Figure) -> String {
    let Figure { name, value, measure } = figure;
    let name = name.map_or_else(String::new, |name| format!("{} ", name.name()));
    match measure.name() {
        _ if *measure == Measure::ScaledBitsPerSecond => format!("{name}{}", BitRate(*value)),
        "" => format!("{name}{}", plain(*value)),
        unit if *value == 1.0 => format!("{name}1 {}", singular(unit)),
        unit => format!("{name}{} {unit}", plain(*value)),
    }
}

/// Returns the unit of one. Symbols of units have no plural.
fn singular(unit: &str) -> &str {
    let is_symbol = unit.contains('/') || matches!(unit, "s" | "ns");
    unit.strip_suffix('s').filter(|_| !is_symbol).unwrap_or(unit)
}

fn expression(of: &Expression) -> String {
    match of {
        Expression::Figure(of) => figure(of),
        Expression::Function(function, arguments) => {
            let name = match function {
                Function::SquareRoot => "sqrt",
                Function::Floor => "floor",
                Function::Minimum => "min",
            };
            let arguments: Vec<String> = arguments.iter().map(expression).collect();
            format!("{name}({})", arguments.join(", "))
        }
        Expression::Law(of) => law(of),
        Expression::Operation(operation) => {
            let (left, operator, right) = &**operation;
            let (sign, binding) = sign(*operator);
            let left = operand(left, |inner| inner >= binding);
            // Only sums and products may be written without the brackets of their right side.
            let is_free = matches!(operator, Operator::Add | Operator::Multiply);
            let right = operand(right, |inner| inner > binding || is_free && inner == binding);
            format!("{left}{sign}{right}")
        }
    }
}

/// Returns an operand, in brackets unless its own operator `binds` strongly enough.
fn operand(of: &Expression, binds: impl Fn(u8) -> bool) -> String {
    let text = expression(of);
    match of {
        Expression::Operation(inner) if !binds(sign(inner.1).1) => format!("({text})"),
        _ => text,
    }
}

/// Returns the sign of an operator and how strongly it binds.
fn sign(operator: Operator) -> (&'static str, u8) {
    match operator {
        Operator::Add => (" + ", 1),
        Operator::Subtract => (" - ", 1),
        Operator::Multiply => (" x ", 2),
        Operator::Divide => (" / ", 2),
        Operator::Power => ("^", 3),
    }
}

fn law(law: &Law) -> String {
    match law {
        Law::AtMost { links, flows } => format!(
            "P(max <= m) = {flows}! / {links}^{flows} x [x^{flows}] (sum over j <= m of x^j / \
                j!)^{links}"
        ),
        Law::MeanOfFullest => "sum over m of 1 - P(max <= m)".to_owned(),
        Law::EveryLinkUsed { links, flows } => {
            format!("sum over i of (-1)^i x C({links}, i) x (1 - i/{links})^{flows}")
        }
    }
}

fn remark(remark: Remark) -> String {
    match remark {
        Remark::AllDevices => ", all devices and directions added".to_owned(),
        Remark::EachWay => " each way".to_owned(),
        Remark::HoweverFast => ", however fast the link".to_owned(),
        Remark::OfGroup => " of the group's rate".to_owned(),
        Remark::OfWire => " of the wire is payload".to_owned(),
        Remark::OnAverage => " each way, on average over hashes".to_owned(),
        Remark::PaddedTo(Bytes(size)) => format!(", padded to {size} B"),
        Remark::Sampled => "; sampled once per interval, so this is no hard bound".to_owned(),
    }
}

fn statement(statement: &Statement) -> String {
    match statement {
        Statement::AcknowledgementsLeftOut { each, segments, data, share } => format!(
            "not subtracted: acknowledgements of the data the other way, {} B for every {segments} \
             of its packets of {} B ({:.1} % of its rate). Merged or carried by data they are \
             fewer, so their share is not certain",
            each.0,
            data.0,
            share * 100.0
        ),
        Statement::Crosses { element } => {
            format!("{element} crosses another element and is not used")
        }
        Statement::Datagram { payload, ip, packets, wire, at } => format!(
            "a datagram of {} B over {} is {}, {} B where {at} counts",
            payload.0,
            ip.name(),
            count(*packets, "packet"),
            wire.0
        ),
        Statement::FlowKeepsItsLink => "a flow never leaves its link".to_owned(),
        Statement::Fragments { payload, mtu, packets } => {
            format!("{} B do not fit into {} B: {packets} fragments", payload.0, mtu.0)
        }
        Statement::Full { element, capacity } => format!("{element} is full at {capacity}"),
        Statement::FullRate { is_possible: true, .. } => {
            "it fills the path: full rate and no loss are both possible".to_owned()
        }
        Statement::FullRate { path, .. } => {
            format!("the path holds {} B: full rate and no loss are not both possible", path.0)
        }
        Statement::HalfDuplex => {
            "shared by all devices on the bus, both directions added: the bus is half duplex"
                .to_owned()
        }
        Statement::IpHeaderOnly => {
            "no packet carries more than the MTU without its IP header".to_owned()
        }
        Statement::LinkLayer { symbol_times, share, left } => format!(
            "acknowledgements and credit updates every {symbol_times} symbol times, and skip \
                sets, take {}: {} left",
            plain(*share),
            figure(left)
        ),
        Statement::LongestBurst { frames } => {
            format!("counted in whole frames: a burst of {frames} passes")
        }
        Statement::LossFree { exists: true, least } => {
            format!("at least {} B (two segments each): a loss-free window exists", least.0)
        }
        Statement::LossFree { least, .. } => format!(
            "less than {} B (two segments each): no loss-free window exists; pace the sender, or \
                slow the fast link",
            least.0
        ),
        Statement::OneOfEach { up, down } => {
            format!("one of each: {} B up, {} B down", up.0, down.0)
        }
        Statement::RenoOnly => "for Reno-like congestion control under random loss only; not \
                                applicable to CUBIC and BBR"
            .to_owned(),
        Statement::Shared { flows, each, most } => {
            format!("for each of {flows}: {} B; at most {most} can share it", each.0)
        }
        Statement::Slot(of) => slot(of),
        Statement::Transaction { what, size, frames, up, down } => {
            let shared = if *frames > 1 { format!(" for {frames} frames") } else { String::new() };
            format!(
                "{}, {} B{shared}: {} B up, {} B down a frame",
                what.name(),
                size.0,
                plain(*up),
                plain(*down)
            )
        }
        Statement::Unbounded { flows } => {
            format!("{flows} flows cross no element of known capacity")
        }
        Statement::WindowFills { window, fills: true } => {
            format!("the window ({} B) is at least that: the path can be filled", window.0)
        }
        Statement::WindowFills { window, .. } => {
            format!("the window ({} B) is smaller: the path is not filled", window.0)
        }
        Statement::WindowSeen { window, rtt_seconds } => format!(
            "largest windows that the receivers advertised, all flows added: {} B; smallest \
             round-trip time that TCP saw: {:.1} us",
            window.0,
            rtt_seconds * 1e6
        ),
    }
}

fn slot(slot: &SlotLine) -> String {
    let indent = "  ".repeat(slot.depth);
    let link = slot
        .link
        .as_ref()
        .map_or_else(|| "no PCI Express link: its bus is not bounded here".to_owned(), slot_link);
    let full = if slot.full { ", full first" } else { "" };
    format!("{indent}{}, {link}{full}", slot.name)
}

fn slot_link(link: &SlotLink) -> String {
    let size = |size: Option<Bytes>| {
        size.map_or_else(|| "not readable".to_owned(), |size| format!("{} B", size.0))
    };
    let now = link.now.map(|now| format!("gen {now} now"));
    let wider = link.most_lanes.map(|lanes| format!("could be x{lanes}"));
    let remarks: Vec<String> = now.into_iter().chain(wider).collect();
    let remark =
        if remarks.is_empty() { String::new() } else { format!(" ({})", remarks.join(", ")) };
    format!(
        "gen {} x{}{remark}, mps {}, mrrs {}, writes {}, reads {}",
        link.generation,
        link.lanes,
        size(link.max_payload),
        size(link.max_read_request),
        link.writes,
        link.reads
    )
}
