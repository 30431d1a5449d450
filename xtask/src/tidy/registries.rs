//! The registries: alphabetical, complete, and each entry with what its family demands.

use super::Finding;
use super::repository::{File, Repository};

/// A registry: the static slice, where it is, and the traits or the structure of its entries.
struct Registry {
    name: &'static str,
    path: &'static str,
    contracts: &'static [&'static str],
}

const WORKLOADS: Registry = Registry {
    name: "WORKLOADS",
    path: "crates/linerate-load/src/workloads/mod.rs",
    // A protocol of file transfers is a workload with the code that protocols share.
    contracts: &["Typed", "Protocol"],
};
const SAMPLERS: Registry = Registry {
    name: "SAMPLERS",
    path: "crates/linerate-observe/src/samplers/mod.rs",
    contracts: &["Sampler"],
};

const LIMITS: Registry = Registry {
    name: "LIMITS",
    path: "crates/linerate-analysis/src/limits/mod.rs",
    contracts: &["Limit"],
};
const RULES: Registry = Registry {
    name: "RULES",
    path: "crates/linerate-analysis/src/diagnosis/rules/mod.rs",
    contracts: &["Rule"],
};

/// The five that grow.
const REGISTRIES: [Registry; 5] = [
    LIMITS,
    RULES,
    SAMPLERS,
    Registry {
        name: "SECTIONS",
        path: "crates/linerate-report/src/sections/mod.rs",
        contracts: &["Section"],
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
        let forms = self.contracts.iter().flat_map(|contract| {
            [format!("impl {contract} for "), format!(": {contract} = {contract} {{")]
        });
        let forms: Vec<String> = forms.collect();
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

/// Every slice exists, is alphabetical, and holds every implementation beside it and nothing else.
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
        let contracts = registry.contracts.join(" or ");
        let implementations = registry.implementations(repository);
        for (module, file) in &implementations {
            if !entries.contains(module) {
                let what = format!("implements {contracts} and is not in {}", registry.name);
                findings.push(Finding::new(&file.path, what, "add its line to the registry"));
            }
        }
        // The checks of families visit implementations: one that is not recognised is not checked.
        for entry in &entries {
            if !implementations.iter().any(|(module, _)| module == entry) {
                let what =
                    format!("{}: no file of `{entry}` implements {contracts}", registry.name);
                let how = "implement it beside the registry, or correct the contract in xtask";
                findings.push(Finding::new(registry.path, what, how));
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
            let what = "no name could be read: `const NAME: &'static str = \"...\";`";
            findings.push(Finding::new(&file.path, what, "write a literal"));
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

/// Returns the constant `NAME` of a workload.
fn own_name(text: &str) -> Option<&str> {
    let literal = text.split_once("const NAME: &'static str = \"")?.1;
    literal.split_once('"').map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: &str = "impl Typed for Null {\n    const NAME: &'static str = \"null\";\n}\n";
    const RR: &str = "impl Typed for UdpRr {\n    const NAME: &'static str = \"udp_rr\";\n}\n";
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
        let [file, other] = ["null", "udp_rr"].map(|name| format!("{FOLDER}/{name}.rs"));
        let files = |text| [(path.as_str(), text), (file.as_str(), NULL), (other.as_str(), RR)];
        let of = |text| findings_of(&files(text), registries);
        let unordered = "pub static WORKLOADS: &[&dyn Workload] = &[&udp_rr::UdpRr, &null::Null];";
        assert_eq!(of(unordered), ["WORKLOADS: `udp_rr` stands before `null`"]);
        let empty = "pub static WORKLOADS: &[&dyn Workload] = &[];";
        let forgotten = findings_of(&[(&path, empty), (&file, NULL)], registries);
        assert_eq!(forgotten, ["implements Typed or Protocol and is not in WORKLOADS"]);
        let good = "pub static WORKLOADS: &[&dyn Workload] = &[\n    &null::Null,\n    \
            &udp_rr::UdpRr,\n];";
        assert!(of(good).is_empty());
        let wrapped =
            "pub static WORKLOADS: &[&dyn Workload] =\n    &[&null::Null, &udp_rr::UdpRr];";
        assert!(of(wrapped).is_empty());
        let missing = registries(&Repository::of(&files(wrapped)));
        assert!(missing.iter().all(|finding| finding.place != path), "{missing:?}");
    }

    #[test]
    fn an_entry_that_no_check_would_visit_is_found() {
        let path = format!("{FOLDER}/mod.rs");
        let file = format!("{FOLDER}/null.rs");
        let slice = "pub static WORKLOADS: &[&dyn Workload] = &[&null::Null];";
        let renamed = NULL.replace("Typed", "Work");
        assert_eq!(
            findings_of(&[(&path, slice), (&file, &renamed)], registries),
            ["WORKLOADS: no file of `null` implements Typed or Protocol"]
        );
        let protocol = NULL.replace("Typed", "Protocol");
        assert!(findings_of(&[(&path, slice), (&file, &protocol)], registries).is_empty());
    }

    #[test]
    fn a_missing_registry_is_found() {
        assert_eq!(registries(&Repository::of(&[])).len(), REGISTRIES.len());
    }

    #[test]
    fn a_workload_needs_a_plan_and_a_known_answer() {
        let file = format!("{FOLDER}/null.rs");
        let plan = ("plans/null.toml", "workload = \"null\"");
        let answer = ("crates/linerate-load/tests/known_answers.rs", "run(\"null\")");
        for text in [NULL, &NULL.replace("Typed", "Protocol")] {
            let of = |files: &[(&str, &str)]| {
                findings_of(&[&[(file.as_str(), text)], files].concat(), workloads)
            };
            assert_eq!(of(&[answer]), ["no plan in plans/ has workload = \"null\""]);
            assert_eq!(of(&[plan]), ["no test in a tests/*known_answer* file names \"null\""]);
            assert!(of(&[plan, answer]).is_empty());
        }
        let nameless = NULL.replace("NAME", "LABEL");
        assert_eq!(findings_of(&[(&file, &nameless), plan, answer], workloads).len(), 1);
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
