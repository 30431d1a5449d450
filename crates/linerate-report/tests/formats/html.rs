//! The page: one file, well-formed, safe.

use linerate_report::{Format, compose, render};

use crate::{document, fixture, one};

#[test]
fn html_is_one_page_that_fetches_nothing() {
    let page = one(Format::Html);
    let script = page.rfind("<script>").expect("the bundle");
    let markup = &page[..script];
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link", "<iframe", "<img"] {
        assert!(!markup.contains(outside), "{outside}");
    }
    assert!(markup.contains("default-src 'none'"), "and the policy forbids it");
    assert_eq!(page.matches("<html").count(), 1);
    assert_eq!(page.matches("</script>").count(), page.matches("<script").count());
}

#[test]
fn html_is_well_formed_and_ordered() {
    let page = one(Format::Html);
    let markup = &page[..page.rfind("<script>").expect("the bundle")];
    let mut open: Vec<&str> = Vec::new();
    let mut ids: Vec<&str> = Vec::new();
    let mut heading = 0;
    let mut rest = markup;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = rest.find('>').expect("every tag ends");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '\n']).next().expect("a name");
        if let Some(id) = tag.split("id=\"").nth(1).filter(|_| tag.contains(" id=\"")) {
            ids.push(id.split('"').next().expect("a value"));
        }
        if let Some(level) = name
            .strip_prefix('h')
            .and_then(|level| level.parse::<u32>().ok())
            .filter(|_| !tag.starts_with('/'))
        {
            assert!(level <= heading + 1, "h{level} after h{heading}");
            heading = level;
        }
        match name {
            "!doctype" | "meta" => {}
            // Elements of SVG close themselves.
            _ if tag.ends_with('/') => {}
            _ if tag.starts_with('/') => {
                assert_eq!(open.pop(), Some(name), "closes what was opened last")
            }
            "style" | "script" => {
                let close = format!("</{name}>");
                rest = &rest[rest.find(&close).expect("closed") + close.len()..];
            }
            _ => open.push(name),
        }
    }
    assert_eq!(open, ["html", "body"], "only the bundle and the end of the page follow");
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "ids are unique");
}

#[test]
fn a_long_table_scrolls_in_its_box_and_a_short_one_stands_in_the_page() {
    let page = one(Format::Html);
    for table in document().tables() {
        let before = page.split(&format!("id=\"{}\">", table.id)).next().expect("the table");
        let open = before.rfind("<div class=\"").expect("its box");
        assert_eq!(before[open..].contains(" tall\""), table.rows.len() > 40, "{}", table.id);
    }
    assert!(document().tables().any(|table| table.rows.len() > 40), "or nothing was shown");
}

#[test]
fn names_from_outside_are_escaped_everywhere() {
    let (mut campaign, mut study) = fixture::fixture();
    let hostile = "</script><script>alert(1)</script>|=1+1";
    campaign.header.name = hostile.into();
    for point in &mut study.points {
        point.sweep = format!("={hostile}");
    }
    let document = compose(&campaign, &study);
    let text = |format| -> Vec<String> {
        let artifacts = render(&document, format).expect("renders");
        artifacts
            .into_iter()
            .map(|artifact| String::from_utf8_lossy(&artifact.bytes).into_owned())
            .collect()
    };
    assert!(!text(Format::Html)[0].contains("<script>alert"));
    assert!(!text(Format::Md)[0].contains("<script>"));
    for file in text(Format::Csv) {
        assert!(
            !file
                .lines()
                .flat_map(|line| line.split(','))
                .any(|field| field.trim_matches('"').starts_with('='))
        );
    }
}
