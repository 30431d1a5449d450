//! The registries: alphabetical, complete, and each entry with what its family demands.

use super::Finding;
use super::repository::{File, Repository};

/// A registry: the static slice, where it is, and the trait or structure of its entries.
struct Registry {
    name: &'static str,
    path: &'static str,
    contract: &'static str,
}

const WORKLOADS: Registry = Registry {
    name: "WORKLOADS",
    path: "crates/linerate-load/src/workloads/mod.rs",
    contract: "Workload",
};
const SAMPLERS: Registry = Registry {
    name: "SAMPLERS",
    path: "crates/linerate-observe/src/samplers/mod.rs",
    contract: "Sampler",
};

const LIMITS: Registry = Registry {
    name: "LIMITS",
    path: "crates/linerate-analysis/src/limits/mod.rs",
    contract: "Limit",
};
const RULES: Registry = Registry {
    name: "RULES",
    path: "crates/linerate-analysis/src/diagnosis/rules/mod.rs",
    contract: "Rule",
};

/// The five that grow.
const REGISTRIES: [Registry; 5] = [
    LIMITS,
    RULES,
    SAMPLERS,
    Registry {
        name: "SECTIONS",
        path: "crates/linerate-report/src/sections/mod.rs",
        contract: "Section",
    },
    WORKLOADS,
];

impl Registry {
    /// The modules in the slice, in its order; `None` if there is no slice.
    fn entries(&self, repository: &Repository) -> Option<Vec<String>> {
        let code = &repository.file(self.path)?.code().product;
        let slice = code.split_once(&format!("pub static {}:", self.name))?.1;
        let slice = slice.split_once('=')?.1.trim_start().strip_prefix("&[")?.split_once(']')?.0;
        Some(
            slice
                .split(',')
                .filter(|entry| !entry.trim().is_empty())
                .map(|entry| {
                    let path = entry.trim().trim_start_matches('&');
                    path.split("::").next().unwrap_or_default().to_lowercase()
                })
                .collect(),
        )
    }

    /// The files beside the slice that fulfil the contract, by module name.
    fn implementations<'a>(&self, repository: &'a Repository) -> Vec<(String, &'a File)> {
        let folder = self.path.trim_end_matches("mod.rs");
        // A family is a trait, or a structure of constants and functions.
        let contract = self.contract;
        let forms = [format!("impl {contract} for "), format!(": {contract} = {contract} {{")];
        repository
            .rust()
            .filter_map(|file| {
                let tail = file.path.strip_prefix(folder)?.strip_suffix(".rs")?;
                let name = tail.split('/').next().unwrap_or_default();
                let product = &file.code().product;
                let own = name != "mod" && forms.iter().any(|form| product.contains(form));
                own.then(|| (name.to_owned(), file))
            })
            .collect()
    }
}

/// Every slice exists, is alphabetical, and holds every implementation beside it.
pub(super) fn registries(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for registry in &REGISTRIES {
        let Some(entries) = registry.entries(repository) else {
            let what = format!("there is no `pub static {}: ... = &[...]`", registry.name);
            findings.push(Finding::new(
                registry.path,
                what,
                "keep the registry in its family's mod.rs",
            ));
            continue;
        };
        if let Some(pair) = entries.windows(2).find(|pair| pair[0] >= pair[1]) {
            let what = format!("{}: `{}` stands before `{}`", registry.name, pair[0], pair[1]);
            findings.push(Finding::new(registry.path, what, "order the entries alphabetically"));
        }
        for (module, file) in registry.implementations(repository) {
            if !entries.contains(&module) {
                let what =
                    format!("implements {} and is not in {}", registry.contract, registry.name);
                findings.push(Finding::new(&file.path, what, "add its line to the registry"));
            }
        }
    }
    findings
}

/// Every workload has a plan and a test with a known answer.
pub(super) fn workloads(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, file) in WORKLOADS.implementations(repository) {
        let Some(name) = own_name(&file.text) else {
            let what = "no name could be read: `fn name(&self) -> &'static str { \"...\" }`";
            findings.push(Finding::new(&file.path, what, "return a literal"));
            continue;
        };
        let plan = format!("workload = \"{name}\"");
        if !repository
            .files
            .iter()
            .any(|file| file.path.starts_with("plans/") && file.text.contains(&plan))
        {
            findings.push(Finding::new(
                &file.path,
                format!("no plan in plans/ has {plan}"),
                "write one",
            ));
        }
        let quoted = format!("\"{name}\"");
        let known =
            |file: &&File| file.path.contains("/tests/") && file.path.contains("known_answer");
        if !repository.rust().filter(known).any(|file| file.text.contains(&quoted)) {
            let what = format!("no test in a tests/*known_answer* file names {quoted}");
            findings.push(Finding::new(
                &file.path,
                what,
                "measure something whose result is known, and compare",
            ));
        }
    }
    findings
}

/// Every sampler that reads text is tested on captured text. Netlink and perf events are binary
/// interfaces; their decoding is tested in linerate-sys.
pub(super) fn samplers(repository: &Repository) -> Vec<Finding> {
    const BINARY: [&str; 2] = ["linerate_sys::netlink", "linerate_sys::perf"];
    SAMPLERS
        .implementations(repository)
        .into_iter()
        .filter(|(_, file)| {
            !file.text.contains("fixtures/")
                && !BINARY.iter().any(|module| file.text.contains(module))
        })
        .map(|(_, file)| {
            let what = "no test reads captured text from fixtures/";
            Finding::new(
                &file.path,
                what,
                "capture what the kernel says, from two versions if it changed",
            )
        })
        .collect()
}

/// Every limit model is tested against values that somebody else published, and says whose.
pub(super) fn limits(repository: &Repository) -> Vec<Finding> {
    const AUTHORITIES: [&str; 5] = ["RFC", "IEEE", "PCI-SIG", "docs/methodology", "paper"];
    LIMITS
        .implementations(repository)
        .into_iter()
        .filter(|(_, file)| {
            let comments = &file.code().test_comments;
            !AUTHORITIES.iter().any(|authority| comments.contains(authority))
        })
        .map(|(_, file)| {
            let what = "no test cites where its expected values come from";
            Finding::new(
                &file.path,
                what,
                "compare with at least three published values, and name the source",
            )
        })
        .collect()
}

/// Every rule is seen to fire and to stay silent.
pub(super) fn rules(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (_, file) in RULES.implementations(repository) {
        let tests = &file.code().tests;
        for case in ["fire", "silent"] {
            if !tests
                .lines()
                .any(|line| line.trim_start().starts_with("fn ") && line.contains(case))
            {
                let what = format!("no test has `{case}` in its name");
                findings.push(Finding::new(
                    &file.path,
                    what,
                    "write a case where it fires and one where it is silent",
                ));
            }
        }
    }
    findings
}

/// Returns the result of `fn name`: a literal, or a constant of the same file.
fn own_name(text: &str) -> Option<&str> {
    let body = text.split_once("fn name(&self)")?.1.split_once('{')?.1;
    let value = body.split_once('}')?.0.trim();
    let literal = match value.strip_prefix('"') {
        Some(literal) => literal,
        None => text.split_once(&format!("const {value}: &str = \""))?.1,
    };
    literal.split_once('"').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: &str = "impl Workload for Null \
        {\n    fn name(&self) -> &'static str {\n        \"null\"\n    }\n}\n";
    const FOLDER: &str = "crates/linerate-load/src/workloads";

    fn findings_of(files: &[(&str, &str)], check: fn(&Repository) -> Vec<Finding>) -> Vec<String> {
        let findings = check(&Repository::of(files));
        findings
            .into_iter()
            .map(|finding| finding.what)
            .filter(|what| !what.contains("there is no `pub static"))
            .collect()
    }

    #[test]
    fn a_registry_out_of_order_and_a_forgotten_entry_are_found() {
        let path = format!("{FOLDER}/mod.rs");
        let unordered = "pub static WORKLOADS: &[&dyn Workload] = &[&udp_rr::UdpRr, &null::Null];";
        assert_eq!(
            findings_of(&[(&path, unordered)], registries),
            ["WORKLOADS: `udp_rr` stands before `null`"]
        );
        let file = format!("{FOLDER}/null.rs");
        let empty = "pub static WORKLOADS: &[&dyn Workload] = &[];";
        let forgotten = findings_of(&[(&path, empty), (&file, NULL)], registries);
        assert_eq!(forgotten, ["implements Workload and is not in WORKLOADS"]);
        let good = "pub static WORKLOADS: &[&dyn Workload] = &[\n    &null::Null,\n    \
            &udp_rr::UdpRr,\n];";
        assert!(findings_of(&[(&path, good), (&file, NULL)], registries).is_empty());
        let wrapped =
            "pub static WORKLOADS: &[&dyn Workload] =\n    &[&null::Null, &udp_rr::UdpRr];";
        assert!(findings_of(&[(&path, wrapped), (&file, NULL)], registries).is_empty());
        let missing = registries(&Repository::of(&[(&path, wrapped)]));
        assert!(missing.iter().all(|finding| finding.place != path), "{missing:?}");
    }

    #[test]
    fn a_missing_registry_is_found() {
        assert_eq!(registries(&Repository::of(&[])).len(), REGISTRIES.len());
    }

    #[test]
    fn a_workload_needs_a_plan_and_a_known_answer() {
        let file = format!("{FOLDER}/null.rs");
        assert_eq!(findings_of(&[(&file, NULL)], workloads).len(), 2);
        let complete = [
            (file.as_str(), NULL),
            ("plans/null.toml", "workload = \"null\""),
            ("crates/linerate-load/tests/known_answers.rs", "run(\"null\")"),
        ];
        assert!(findings_of(&complete, workloads).is_empty());
    }

    #[test]
    fn a_limit_needs_cited_values_and_a_rule_both_cases() {
        let limit = "crates/linerate-analysis/src/limits/ip.rs";
        let bare = "// RFC 791\nconst LIMIT: Limit = Limit {};\n#[cfg(test)]\nmod tests \
            {\n    fn a() {}\n}\n";
        assert_eq!(findings_of(&[(limit, bare)], limits).len(), 1);
        let cited = "const LIMIT: Limit = Limit {};\n#[cfg(test)]\nmod tests \
            {\n    // RFC 791 3.1.\n    fn a() {}\n}\n";
        assert!(findings_of(&[(limit, cited)], limits).is_empty());
        let rule = "crates/linerate-analysis/src/diagnosis/rules/loss.rs";
        let half =
            "impl Rule for Loss {}\n#[cfg(test)]\nmod tests {\n    fn it_fires_on_loss() {}\n}\n";
        assert_eq!(findings_of(&[(rule, half)], rules), ["no test has `silent` in its name"]);
    }

    #[test]
    fn a_name_is_read_from_a_literal_or_a_constant() {
        assert_eq!(own_name(NULL), Some("null"));
        let constant =
            "const NAME: &str = \"udp_rr\";\nfn name(&self) -> &'static str {\n    NAME\n}\n";
        assert_eq!(own_name(constant), Some("udp_rr"));
        assert_eq!(own_name("fn a() {}"), None);
    }

    #[test]
    fn a_sampler_needs_fixtures() {
        let path = "crates/linerate-observe/src/samplers/cpu.rs";
        let bare = "const SAMPLER: Sampler = Sampler {};\n";
        assert_eq!(findings_of(&[(path, bare)], samplers).len(), 1);
        let tested = "const SAMPLER: Sampler = Sampler {};\nconst STAT: &str = \
            include_str!(\"../../fixtures/stat\");\n";
        assert!(findings_of(&[(path, tested)], samplers).is_empty());
        let binary =
            "use linerate_sys::netlink::RouteSocket;\nconst SAMPLER: Sampler = Sampler {};\n";
        assert!(findings_of(&[(path, binary)], samplers).is_empty());
    }
}
