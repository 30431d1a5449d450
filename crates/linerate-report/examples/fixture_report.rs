//! Writes the report of the tests' made-up campaign in every format, to look at it: `cargo run -p
//! linerate-report --example fixture_report -- DIRECTORY`.

#[path = "../tests/fixture/mod.rs"]
mod fixture;

use linerate_report::{Format, compose, render, text};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).ok_or("which directory?")?;
    std::fs::create_dir_all(&directory)?;
    let (campaign, study) = fixture::fixture();
    let document = compose(&campaign, &study);
    for artifact in Format::ALL
        .into_iter()
        .map(|format| render(&document, format))
        .collect::<Result<Vec<_>, _>>()?
        .concat()
    {
        std::fs::write(format!("{directory}/{}", artifact.file_name), artifact.bytes)?;
    }
    println!("{}", text::summary(&document));
    Ok(())
}
