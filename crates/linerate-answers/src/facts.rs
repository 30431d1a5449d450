//! Answer of `linerate facts`: hardware and kernel of this host, as a tree.

use serde_json::Value;

/// Returns every fact, a line each, indented below the group that it belongs to.
#[must_use]
pub fn tree(facts: &Value) -> String {
    let mut text = String::new();
    write_tree(facts, 0, &mut text);
    text
}

fn write_tree(value: &Value, depth: usize, text: &mut String) {
    let Value::Object(map) = value else { return };
    for (key, value) in map {
        let leaf = leaf(value);
        let shown = leaf.as_ref().map(|leaf| format!(" {leaf}")).unwrap_or_default();
        *text += &format!("{}{key}:{shown}\n", "  ".repeat(depth));
        if leaf.is_none() {
            write_tree(value, depth + 1, text);
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_group_has_its_facts_below_it_and_a_missing_fact_its_reason() {
        let facts = json!({
            "cpu": { "cores": [0, 1] },
            "dmi": { "unavailable": "not root" },
            "list": [{ "a": 1 }, { "a": 2 }],
        });
        let lines = ["cpu:", "  cores: 0, 1", "dmi: unavailable: not root"];
        assert_eq!(tree(&facts), lines.join("\n") + "\nlist: {\"a\":1}; {\"a\":2}\n");
    }
}
