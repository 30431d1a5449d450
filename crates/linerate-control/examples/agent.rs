//! Agent on standard input and output, like `linerate agent --stdio`: for tests that put it into
//! namespaces, or kill it.
//!
//! `agent [JOURNALS DEVICE|host]`: it may change settings of DEVICE or of the host. First it
//! puts back the changes that an earlier agent has left in JOURNALS.

use linerate_control::{Agent, AgentOptions, Consent, restore};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut options = AgentOptions::default();
    if let Some(journals) = arguments.next() {
        let words: Vec<String> = arguments.collect();
        let consent = Consent { journals: journals.into(), ..Consent::to(&words) };
        for restored in restore(&consent.journals).expect("journals that are there can be read") {
            eprintln!("{restored:?}");
        }
        options.consent = consent;
    }
    Agent::new(options).serve_stdio();
}
