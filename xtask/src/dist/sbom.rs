//! A bill of materials (CycloneDX 1.5): the crates and the C library that a program is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::content::epoch;
use super::target::Target;
use crate::tools::printed;

/// Writes the bill of `package` for `target`; returns the file, in `out`.
pub(super) fn written(
    root: &Path,
    out: &Path,
    target: &Target,
    package: &str,
) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform"];
    let metadata =
        printed(Command::new(cargo).args(arguments).arg(target.triple).current_dir(root))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?;
    let library = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Version}", target.library])
        .output()
        .context("start dpkg-query")?;
    ensure!(library.status.success(), "package {} is not installed", target.library);
    let library = String::from_utf8_lossy(&library.stdout).into_owned();
    let date = format!("--date=@{}", epoch(root)?);
    let time = printed(Command::new("date").args(["--utc", &date, "+%FT%TZ"]))?;
    let bill = bill(&metadata, &sums(&lock)?, package, &library, time.trim())?;
    let file = out.join(format!("{package}-{}.cdx.json", target.triple));
    fs::write(&file, serde_json::to_string_pretty(&bill)?)?;
    Ok(file)
}

/// Returns the checksums of a `Cargo.lock`, by name and version.
fn sums(lock: &str) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock: Value = toml::from_str(lock).context("read Cargo.lock")?;
    let owned = |value: &Value| value.as_str().map(str::to_owned);
    let of = |one: &Value| {
        Some(((owned(&one["name"])?, owned(&one["version"])?), owned(&one["checksum"])?))
    };
    Ok(list(&lock["package"]).iter().filter_map(of).collect())
}

/// Returns the bill of `package`, with every crate that is linked into it.
fn bill(
    metadata: &Value,
    sums: &BTreeMap<(String, String), String>,
    package: &str,
    library: &str,
    time: &str,
) -> anyhow::Result<Value> {
    let packages = list(&metadata["packages"]);
    let by_id: BTreeMap<&str, &Value> =
        packages.iter().map(|one| (text(&one["id"]), one)).collect();
    let root = packages.iter().find(|one| text(&one["name"]) == package);
    let root = root.with_context(|| format!("no package {package}"))?;
    let needs: BTreeMap<&str, Vec<&str>> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), linked(node)))
        .collect();
    let (mut seen, mut ahead) = (BTreeSet::new(), vec![text(&root["id"])]);
    while let Some(id) = ahead.pop() {
        if seen.insert(id) {
            ahead.extend(needs.get(id).into_iter().flatten());
        }
    }
    let url = |id: &str| purl(by_id[id]);
    let mut components: Vec<Value> = seen
        .iter()
        .filter(|id| **id != text(&root["id"]))
        .map(|id| component(by_id[id], "library", sums))
        .collect();
    components.push(json!({
        "type": "library", "bom-ref": "glibc", "name": "glibc", "version": library,
        "licenses": [{ "license": { "id": "LGPL-2.1-or-later" } }],
    }));
    let mut dependencies: Vec<Value> = seen
        .iter()
        .map(|id| {
            let mut on: Vec<String> = needs[id].iter().map(|id| url(id)).collect();
            if *id == text(&root["id"]) {
                on.push("glibc".to_owned());
            }
            json!({ "ref": url(id), "dependsOn": on })
        })
        .collect();
    dependencies.push(json!({ "ref": "glibc", "dependsOn": [] }));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "component": component(root, "application", sums),
        },
        "components": components,
        "dependencies": dependencies,
    }))
}

/// Returns the packages that `node` of the graph links: not those of its tests and build scripts.
fn linked(node: &Value) -> Vec<&str> {
    let is_linked = |on: &&Value| list(&on["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
    list(&node["deps"]).iter().filter(is_linked).map(|on| text(&on["pkg"])).collect()
}

/// Returns the entry of `package`, with the checksum of its archive if it has one.
fn component(package: &Value, kind: &str, sums: &BTreeMap<(String, String), String>) -> Value {
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": package["name"],
        "version": package["version"],
        "purl": purl(package),
    });
    // Before SPDX, `/` stood between licenses to choose from.
    if let Some(license) = package["license"].as_str() {
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    let key = (text(&package["name"]).to_owned(), text(&package["version"]).to_owned());
    if let Some(sum) = sums.get(&key) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    component
}

/// Returns the package URL of a crate.
fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"own\"\nversion = \"0.1.0\"\n\n\
        [[package]]\nname = \"rtrb\"\nversion = \"0.4.1\"\nchecksum = \"ab12\"\n";

    fn metadata() -> Value {
        let package = |id: &str, name: &str, version: &str, license: &str| {
            let mut package = json!({ "id": id, "name": name, "version": version });
            package["license"] = license.into();
            package
        };
        let on = |id: &str, kind: Value| json!({ "pkg": id, "dep_kinds": [{ "kind": kind }] });
        json!({
            "packages": [
                package("o", "own", "0.1.0", "MIT"),
                package("r", "rtrb", "0.4.1", "MIT/Apache-2.0"),
                package("t", "tests", "1.0.0", "MIT"),
                package("d", "deep", "2.0.0", "ISC"),
            ],
            "resolve": { "nodes": [
                { "id": "o", "deps": [on("r", Value::Null), on("t", json!("dev"))] },
                { "id": "r", "deps": [on("d", Value::Null), on("o", json!("build"))] },
                { "id": "t", "deps": [] },
                { "id": "d", "deps": [] },
            ] },
        })
    }

    #[test]
    fn a_bill_has_every_crate_that_is_linked_and_no_other() {
        let bill =
            bill(&metadata(), &sums(LOCK).expect("TOML"), "own", "2.36", "then").expect("a bill");
        let names: Vec<&str> =
            list(&bill["components"]).iter().map(|one| text(&one["name"])).collect();
        assert_eq!(names, ["deep", "rtrb", "glibc"]);
        let rtrb = &bill["components"][1];
        assert_eq!(rtrb["purl"], "pkg:cargo/rtrb@0.4.1");
        assert_eq!(rtrb["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(rtrb["hashes"][0]["content"], "ab12");
        let own = &bill["metadata"]["component"];
        assert_eq!(own["version"], "0.1.0");
        assert!(own["hashes"].is_null(), "it is in no archive");
        let of = |name: &str| {
            let mut all = list(&bill["dependencies"]).iter();
            let found = all.find(|one| text(&one["ref"]).contains(name)).expect("in the graph");
            found["dependsOn"].clone()
        };
        assert_eq!(of("own"), json!(["pkg:cargo/rtrb@0.4.1", "glibc"]));
        assert_eq!(of("rtrb"), json!(["pkg:cargo/deep@2.0.0"]));
        let refused = super::bill(&metadata(), &sums(LOCK).expect("TOML"), "other", "2.36", "then");
        assert_eq!(refused.expect_err("unknown").to_string(), "no package other");
    }
}
