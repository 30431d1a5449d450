//! `linerate facts`: hardware and kernel of this host.

use serde_json::Value;

use crate::exit::{Exit, Outcome};

/// Prints every fact, as a tree or as JSON.
pub(crate) fn run(as_json: bool) -> Outcome {
    let facts = linerate_observe::facts();
    if as_json {
        println!("{facts}");
    } else {
        print_tree(&facts, 0);
    }
    Ok(Exit::Done)
}

fn print_tree(value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        match leaf(value) {
            Some(text) => println!("{indent}{key}: {text}"),
            None => {
                println!("{indent}{key}:");
                print_tree(value, depth + 1);
            }
        }
    }
}

/// Returns a value that fits on a line; `None` for a subtree.
fn leaf(value: &Value) -> Option<String> {
    match value {
        Value::Object(map) => {
            // An unreadable fact keeps its place and shows its reason.
            map.get("unavailable").and_then(Value::as_str).map(|why| format!("unavailable: {why}"))
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            // Lists of objects, such as processors, would make the tree too deep to read.
            Some(items.iter().map(Value::to_string).collect::<Vec<_>>().join("; "))
        }
        Value::Array(items) => Some(items.iter().filter_map(leaf).collect::<Vec<_>>().join(", ")),
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
