//! Answers of `linerate flows`: how flows are spread over members, and the ports of each member.

use std::net::SocketAddr;

use linerate_analysis::flow_hash::planner::{self, Plan};
use linerate_analysis::flow_hash::polarisation::{Spread, Verdict};
use linerate_campaign::flows::{FlowPlan, Probed};
use linerate_report::document::{Block, Origin, Section, Table};
use linerate_report::{Document, sentences};
use serde_json::{Value, json};

/// Returns the answer of `flows judge`.
pub fn judged(spread: &Spread) -> Document {
    let table = spreads(&[("as given", Some(spread.clone()))]);
    answer(
        "Spread of flows",
        Origin::Computed,
        vec![table],
        json!({ "spread": spread_json(spread) }),
    )
}

/// Returns the answer of `flows plan`, for flows to `to`.
pub fn planned(plan: &FlowPlan, to: SocketAddr) -> Document {
    let params = params(&plan.ports, to);
    let json = json!({ "ports": plan.ports, "basis": plan.basis, "params": params });
    let mut blocks = vec![Block::Paragraph(format!("Basis: {}.", plan.basis))];
    blocks.extend(ports(&plan.ports, &params, |member| member.to_string()));
    answer("Ports of each member", Origin::Computed, blocks, json)
}

/// Returns the answer of `flows probe` on `members`, for flows to `to`.
pub fn probed(probed: &Probed, members: &[String], to: SocketAddr) -> Document {
    let params = params(&probed.ports, to);
    let by_order: Vec<Value> = probed
        .spreads
        .iter()
        .map(|(name, spread)| json!({ "ports": name, "spread": spread.as_ref().map(spread_json) }))
        .collect();
    let json = json!({
        "members": members, "spreads": by_order, "unknown": probed.n_unknown,
        "ports": probed.ports, "params": params,
    });
    let mut blocks = vec![spreads(&probed.spreads)];
    if probed.n_unknown > 0 {
        blocks.push(Block::Paragraph(format!(
            "{} ports are left out: in use, or not counted by one member alone.",
            probed.n_unknown
        )));
    }
    blocks.extend(ports(&probed.ports, &params, |member| members[member as usize].clone()));
    answer("Spread of flows, and ports of each member", Origin::Read, blocks, json)
}

fn answer(title: &str, origin: Origin, blocks: Vec<Block>, json: Value) -> Document {
    let section = Section { id: "answer", title: "Flows", blocks };
    Document::answer(title, "flows by member", origin, vec![section], json)
}

fn spreads(spreads: &[(&str, Option<Spread>)]) -> Block {
    let heads = [
        "ports",
        "flows by member",
        "verdict",
        "meaning",
        "chance of a less even spread",
        "chance of a more even spread",
        "test",
    ];
    let rows: Vec<Vec<String>> = spreads.iter().map(spread_row).collect();
    Block::Table(Table::of_words("spread", "Spread over the members", &heads, &rows))
}

fn spread_row((name, spread): &(&str, Option<Spread>)) -> Vec<String> {
    let Some(spread) = spread else {
        // Without a single known port there is no spread to judge.
        let none = "no port was seen to leave by a member".to_owned();
        let mut cells = vec![String::new(); 7];
        (cells[0], cells[2]) = ((*name).to_owned(), none);
        return cells;
    };
    let counts = spread.counts.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let [uneven, even] = [spread.uneven, spread.even].map(|chance| format!("{chance:.4}"));
    let test = sentences::spread_test(spread.test);
    let verdict = word(spread.verdict).to_owned();
    vec![(*name).to_owned(), counts, verdict, sentences::spread(spread), uneven, even, test]
}

/// Returns a spread as JSON, with its texts.
fn spread_json(spread: &Spread) -> Value {
    let mut json = json!(spread);
    json["method"] = sentences::spread_test(spread.test).into();
    json["meaning"] = sentences::spread(spread).into();
    json
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Even => "even",
        Verdict::Polarised => "polarised",
        Verdict::TooEven => "too even",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// Returns the parameters of `frames`, `tcp_stream` and `udp_stream` for a flow on each port, dealt
/// out in turn.
fn params(plan: &Plan, to: SocketAddr) -> Value {
    // In turn, so that any number of flows from the beginning of the list is balanced.
    let ports = planner::in_turn(plan);
    let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
    json!({ "streams": ports.len(), "source_ports": list, "destination_port": to.port() })
}

fn ports(plan: &Plan, params: &Value, name: impl Fn(u32) -> String) -> Vec<Block> {
    let mut rows = Vec::new();
    for (member, ports) in plan {
        let list = ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        rows.push(vec![
            name(*member),
            if list.is_empty() { "none found".to_owned() } else { list },
        ]);
    }
    let table = Table::of_words("ports", "Source ports", &["member", "ports"], &rows);
    // Parameters without ports would be a plan without flows.
    let has_ports = params["streams"] != 0;
    std::iter::once(Block::Table(table)).chain(has_ports.then(|| listing(params))).collect()
}

fn listing(params: &Value) -> Block {
    let keys = ["streams", "source_ports", "destination_port"];
    let lines: Vec<String> = keys.iter().map(|key| format!("{key} = {}", params[*key])).collect();
    Block::Listing {
        caption: "In a plan, as params of `frames`, `tcp_stream` or `udp_stream`".into(),
        text: lines.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use linerate_campaign::flows::judge;
    use linerate_report::text;

    use super::*;

    #[test]
    fn a_plan_is_shown_with_the_parameters_that_use_it() {
        let plan = FlowPlan {
            ports: [(0, vec![40_000]), (1, vec![40_001])].into_iter().collect(),
            basis: "a known hash".into(),
        };
        let answer = planned(&plan, "198.18.0.2:4000".parse().expect("literal"));
        let text = text::whole(&answer);
        let line = "streams = 2, source_ports = \"40000,40001\", destination_port = 4000";
        assert!(text.contains(line), "{text}");
        assert_eq!(answer.study["params"]["source_ports"], "40000,40001");
        let lacking =
            FlowPlan { ports: [(0, vec![40_000]), (1, Vec::new())].into_iter().collect(), ..plan };
        let text = text::whole(&planned(&lacking, "198.18.0.2:4000".parse().expect("literal")));
        assert!(text.contains("none found") && !text.contains("streams ="), "{text}");
    }

    #[test]
    fn a_spread_is_shown_with_its_verdict_and_probabilities() {
        let spread = judge(&[64, 0]).expect("two members");
        let answer = judged(&spread);
        let text = text::whole(&answer);
        assert!(text.contains("64, 0") && text.contains("polarised"), "{text}");
        assert_eq!(answer.study["spread"]["counts"][0], 64);
    }
}
