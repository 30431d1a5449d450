//! `linerate disk claim` and `release`.

use std::io::{BufRead, IsTerminal};
use std::path::Path;

use linerate_answers::disks;
use linerate_disk::{Claim, DiskError};
use serde_json::json;

use crate::exit::{Exit, Failure, Outcome};

/// Claims `device` for jobs that name its serial number.
pub(super) fn claim(device: &Path, serial: Option<String>, as_json: bool) -> Outcome {
    let serial = serial.map_or_else(|| ask(device), Ok)?;
    let claim = linerate_disk::claim(device, &serial).map_err(refused)?;
    print("claimed", device, &claim, as_json);
    if !as_json {
        println!("{}", disks::after_claim(&claim));
    }
    Ok(Exit::Done)
}

/// Ends the claim on `device`.
pub(super) fn release(device: &Path, as_json: bool) -> Outcome {
    let claim = linerate_disk::release(device).map_err(refused)?;
    print("released", device, &claim, as_json);
    if !as_json {
        println!("{}", disks::after_release());
    }
    Ok(Exit::Done)
}

/// A refusal has one line for each reason.
fn refused(error: DiskError) -> Failure {
    match &error {
        DiskError::Refused { device, refusals } => {
            let reasons: Vec<String> = refusals.iter().map(|one| format!("  {one}")).collect();
            Failure::missing(format!("write to {device}: refused:\n{}", reasons.join("\n")))
        }
        _ => Failure::missing(error),
    }
}

fn print(what: &str, device: &Path, claim: &Claim, as_json: bool) {
    match as_json {
        true => println!("{}", json!({ "device": device, what: claim })),
        false => println!("{}", disks::claim_line(what, device, claim)),
    }
}

/// Shows the disk and asks for its serial number.
fn ask(device: &Path) -> Result<String, Failure> {
    let disk = linerate_disk::inspect(device).map_err(refused)?;
    // Consent that nobody typed is none.
    if !std::io::stdin().is_terminal() {
        return Err(Failure::wrong(format!(
            "disk claim {}: name its serial number (--serial, see `linerate disk list`)",
            device.display()
        )));
    }
    print!("{}", linerate_report::text::whole(&disks::document(std::slice::from_ref(&disk))));
    // The question goes to standard error, because standard output may be piped.
    eprintln!("Consent lets loads overwrite everything on it. Type its serial number to continue:");
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failure::missing(format!("read the serial number: {error}")))?;
    // The line ends with its newline.
    Ok(line.trim().to_owned())
}
