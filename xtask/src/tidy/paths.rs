//! Paths that exist on one machine only have no place in a repository.

use super::{Finding, repository::Repository};

/// Where homes are; a person's folder under one of them is nobody else's.
const HOMES: [&str; 2] = ["/home/", "/Users/"];
/// A folder that stands for anybody's.
const ANYBODY: [&str; 4] = ["user", "you", "me", "USER"];

/// No text names this checkout, this user's home, or any person's.
pub(super) fn machine_paths(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &repository.files {
        for (line_idx, line) in file.text.lines().enumerate() {
            if let Some(path) =
                personal(line).or_else(|| this_machine(line, &repository.machine_folders))
            {
                let place = format!("{}:{}", file.path, line_idx + 1);
                findings.push(Finding::new(
                    place,
                    format!("names {path}"),
                    "write a path from the repository's root",
                ));
            }
        }
    }
    findings
}

fn this_machine<'a>(line: &str, folders: &'a [String]) -> Option<&'a str> {
    folders.iter().map(String::as_str).find(|folder| line.contains(folder))
}

/// A folder of a person in `line`.
fn personal(line: &str) -> Option<&str> {
    HOMES.iter().find_map(|homes| {
        // A path of the machine's own owner is found by the other check.
        let at = line.find(homes)?;
        let tail = &line[at + homes.len()..];
        let person =
            tail.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').next()?;
        let named = !person.is_empty() && !ANYBODY.contains(&person);
        named.then(|| &line[at..at + homes.len() + person.len()])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_persons_folder_and_this_checkout_are_found_and_anybodys_is_not() {
        let homes = HOMES[0];
        let text = format!(
            "cd {homes}ada/src\ncd {homes}user/src\ncd /srv/checkout/linerate/plans\ncd plans\n"
        );
        let mut repository = Repository::of(&[("README.md", &text)]);
        repository.machine_folders = vec!["/srv/checkout/linerate".into()];
        let places: Vec<String> =
            machine_paths(&repository).into_iter().map(|finding| finding.place).collect();
        assert_eq!(places, ["README.md:1", "README.md:3"]);
    }
}
