//! Documentation: citations and links resolve, pages are reachable, and each begins with what its
//! reader can do.

use std::collections::BTreeSet;

use super::{Finding, repository::Repository};

/// The page from which every other one is reachable.
const INDEX: &str = "docs/README.md";
/// Clicks from the index to any page.
const MOST_CLICKS: usize = 2;
/// Pages made from the program.
const MADE: &str = "docs/reference/";
/// First words of a page, in one of its first lines.
const OPENINGS: [&str; 2] = ["After reading", "From this page"];
/// Line by which the opening has to come: behind the title and an empty line.
const OPENING_BY: usize = 4;

/// A mention of a page: the page's path from the root, and a heading's anchor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Mention {
    line: usize,
    path: String,
    anchor: Option<String>,
}

/// Pages and headings that sources and pages cite exist.
pub(super) fn citations(repository: &Repository) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &repository.files {
        // The kind of file decides what a citation looks like.
        let cited = match file.path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("md") => links(&file.path, &file.text),
            // Taking a source apart is slow, and most cite nothing.
            Some("rs") if file.text.contains("docs/") => cited(&file.code().comments),
            Some("rs") => Vec::new(),
            Some("toml" | "service") => cited(&file.text),
            _ => continue,
        };
        for mention in cited {
            if let Some(missing) = missing(repository, &mention) {
                findings.push(Finding::new(
                    format!("{}:{}", file.path, mention.line),
                    missing,
                    "cite a page and heading that exist: docs/PAGE.md#HEADING",
                ));
            }
        }
        // The old methodology had numbers. Citations of them lead nowhere now.
        if file.path.ends_with(".rs") {
            let numbered = file.text.lines().enumerate().filter(|(_, line)| is_numbered(line));
            findings.extend(numbered.map(|(at, _)| {
                Finding::new(
                    format!("{}:{}", file.path, at + 1),
                    "cites a section number of the methodology, which has no numbers",
                    "cite docs/methodology/PAGE.md#HEADING",
                )
            }));
        }
    }
    findings
}

/// Every page is reachable from the index.
pub(super) fn reachable(repository: &Repository) -> Vec<Finding> {
    let mut reached = BTreeSet::from([INDEX.to_owned()]);
    // One round for each click.
    for _ in 0..MOST_CLICKS {
        let pages = repository.files.iter().filter(|file| reached.contains(&file.path));
        let next: Vec<String> =
            pages.flat_map(|file| links(&file.path, &file.text)).map(|link| link.path).collect();
        reached.extend(next);
    }
    let pages = pages(repository).filter(|file| !reached.contains(&file.path));
    pages
        .map(|file| {
            let what = format!("is more than {MOST_CLICKS} clicks from {INDEX}");
            Finding::new(&file.path, what, "link it from the index, or from a page linked there")
        })
        .collect()
}

/// A written page begins with what its reader can do.
pub(super) fn openings(repository: &Repository) -> Vec<Finding> {
    let written = pages(repository).filter(|file| !file.path.starts_with(MADE));
    fn opens(text: &str) -> bool {
        let mut first = text.lines().take(OPENING_BY);
        first.any(|line| OPENINGS.iter().any(|opening| line.starts_with(opening)))
    }
    written
        .filter(|file| !opens(&file.text))
        .map(|file| {
            Finding::new(
                &file.path,
                "does not begin with what its reader can do",
                "begin with `After reading this page you can ...`",
            )
        })
        .collect()
}

fn pages(repository: &Repository) -> impl Iterator<Item = &super::repository::File> {
    let is_page = |path: &str| path.starts_with("docs/") && path.ends_with(".md");
    repository.files.iter().filter(move |file| is_page(&file.path))
}

/// Returns the missing page or heading, or `None` if the mention resolves.
fn missing(repository: &Repository, mention: &Mention) -> Option<String> {
    let Some(file) = repository.file(&mention.path) else {
        return Some(format!("there is no {}", mention.path));
    };
    let anchor = mention.anchor.as_ref()?;
    // Without an anchor the page itself is enough.
    (!anchors(&file.text).contains(anchor))
        .then(|| format!("{} has no heading #{anchor}", mention.path))
}

/// Anchors of a page's headings, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    // A line with a hash inside a code block is no heading.
    let headings = outside_code(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = heading
                .chars()
                .filter(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' '));
            kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
        })
        .collect()
}

/// Lines outside of code blocks, numbered from 1.
fn outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        // Each fence switches between text and code.
        in_code ^= fence;
        (!in_code && !fence).then_some((at + 1, line))
    })
}

/// Relative links of the page at `path` to other pages and to headings.
fn links(path: &str, text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    for (line, content) in outside_code(text) {
        for target in content.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (page, anchor) = match target.split_once('#') {
                Some((page, anchor)) => (page, Some(anchor.to_owned())),
                None => (target, None),
            };
            let is_page = page.is_empty() || page.ends_with(".md");
            // Links to other sites are not ours to check.
            if is_page && !target.contains("://") {
                let path = if page.is_empty() { path.to_owned() } else { relative(path, page) };
                found.push(Mention { line, path, anchor });
            }
        }
    }
    found
}

/// The path of `target`, seen from the folder of `from`.
fn relative(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Pages that the text of a source names, with their anchors.
fn cited(text: &str) -> Vec<Mention> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        for (start, _) in line.match_indices("docs/") {
            // `docs/` may be the end of a longer path.
            let is_inside_path = line[..start].ends_with(['/', '_', '-'])
                || line[..start].ends_with(|letter: char| letter.is_alphanumeric());
            let rest = &line[start..];
            let end = rest.find(|letter: char| {
                !(letter.is_ascii_alphanumeric() || matches!(letter, '/' | '-' | '_' | '.' | '#'))
            });
            // A full stop ends the sentence, not the path.
            let word = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            let (page, anchor) = match word.split_once('#') {
                Some((page, anchor)) => (page, Some(anchor.to_owned())),
                None => (word, None),
            };
            if page.ends_with(".md") && !is_inside_path {
                found.push(Mention { line: at + 1, path: page.to_owned(), anchor });
            }
        }
    }
    found
}

/// Returns true if a line cites a numbered section of the methodology.
fn is_numbered(line: &str) -> bool {
    let lower = line.to_lowercase();
    lower.match_indices("methodology ").any(|(at, word)| {
        lower[at + word.len()..].starts_with(|letter: char| letter.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Losses\n\nAfter reading this page you can.\n\n```sh\n# Not a \
        heading\n```\n\n\
        ## Where a datagram, `lost`\n";

    fn whats(findings: &[Finding]) -> Vec<(&str, &str)> {
        findings.iter().map(|finding| (finding.place.as_str(), finding.what.as_str())).collect()
    }

    #[test]
    fn a_citation_of_a_page_or_heading_that_is_not_there_is_found() {
        let source = "//! See docs/losses.md#where-a-datagram-lost.\n//! And docs/losses.md.\n\
            //! (docs/losses.md#not-a-heading)\n//! docs/gone.md, x\n";
        let repository = Repository::of(&[("docs/losses.md", PAGE), ("crates/a/src/b.rs", source)]);
        assert_eq!(
            whats(&citations(&repository)),
            [
                ("crates/a/src/b.rs:3", "docs/losses.md has no heading #not-a-heading"),
                ("crates/a/src/b.rs:4", "there is no docs/gone.md"),
            ]
        );
    }

    #[test]
    fn a_numbered_citation_of_the_methodology_is_found() {
        let numbered =
            format!("//! ({} 5.3, D4)\n//! The methodology of 5 papers.\n", "Methodology");
        let repository = Repository::of(&[("crates/a/src/b.rs", &numbered)]);
        assert_eq!(citations(&repository).len(), 1);
        assert_eq!(citations(&repository)[0].place, "crates/a/src/b.rs:1");
    }

    #[test]
    fn links_of_pages_are_followed_from_their_folder() {
        let index = "[a](methodology/a.md#one) [b](../SECURITY.md) [c](https://a.md) [d](#one)\n";
        let page = "# One\n\n[up](../README.md#gone)\n";
        let repository = Repository::of(&[
            ("docs/README.md", index),
            ("docs/methodology/a.md", page),
            ("SECURITY.md", ""),
        ]);
        assert_eq!(
            whats(&citations(&repository)),
            [
                ("docs/README.md:1", "docs/README.md has no heading #one"),
                ("docs/methodology/a.md:3", "docs/README.md has no heading #gone"),
            ]
        );
    }

    #[test]
    fn a_page_that_is_three_clicks_away_is_found() {
        let repository = Repository::of(&[
            ("docs/README.md", "From this page [a](a.md)"),
            ("docs/a.md", "[b](b/b.md)"),
            ("docs/b/b.md", "[c](../c.md)"),
            ("docs/c.md", ""),
        ]);
        let found = reachable(&repository);
        assert_eq!(whats(&found), [("docs/c.md", "is more than 2 clicks from docs/README.md")]);
    }

    #[test]
    fn a_page_without_an_opening_is_found_and_a_made_one_needs_none() {
        let repository = Repository::of(&[
            ("docs/losses.md", PAGE),
            ("docs/bare.md", "# Bare\n\nThis page explains.\n"),
            ("docs/reference/rules.md", "# Rules\n"),
        ]);
        let found = openings(&repository);
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["docs/bare.md"]);
    }
}
