//! The plan that an imported file becomes.

use super::Imported;

/// Jobs that run side by side.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sweep {
    pub(super) name: String,
    /// Seconds.
    pub(super) warmup: f64,
    pub(super) seconds: f64,
    pub(super) jobs: Vec<Job>,
    /// Depths to go through; empty: each job's own.
    pub(super) depths: Vec<u32>,
}

/// What a job does: the workload `storage` unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Workload {
    #[default]
    Storage,
    TcpStream,
    TcpRr,
    TcpCrr,
}

impl Workload {
    const fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::TcpStream => "tcp_stream",
            Self::TcpRr => "tcp_rr",
            Self::TcpCrr => "tcp_crr",
        }
    }
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Job {
    /// Parameters by name, as TOML values.
    pub(super) params: Vec<(&'static str, String)>,
    pub(super) workload: Workload,
    /// It runs from `b` to `a`.
    pub(super) is_reversed: bool,
}

impl Job {
    /// Sets a parameter to text.
    pub(super) fn text(&mut self, name: &'static str, value: &str) {
        self.value(name, quoted(value));
    }

    /// Sets a parameter to a number or flag.
    pub(super) fn value(&mut self, name: &'static str, value: String) {
        self.params.retain(|(known, _)| *known != name);
        self.params.push((name, value));
    }
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", c as u32)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// The plan `imported` amounts to, named `name`, of the file `origin`.
pub(super) fn text(name: &str, origin: &str, imported: &Imported) -> String {
    let origin: String = origin.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let mut text = format!(
        "# Imported from {origin}. It carries no consent to write: a device needs `consent`, as of linerate disk claim.\n\n\
         [campaign]\nname = {}\n",
        quoted(name)
    );
    for (number, sweep) in imported.sweeps.iter().enumerate() {
        // Names of sweeps are distinct; those of foreign files need not be.
        let taken = imported.sweeps[..number].iter().any(|other| other.name == sweep.name);
        let name = if taken { format!("{} ({})", sweep.name, number + 1) } else { sweep.name.clone() };
        text.push_str(&format!(
            "\n[[sweep]]\nname = {}\nduration = \"{} ms\"\nwarmup = \"{} ms\"\ndrain = \"1 s\"\n",
            quoted(&name),
            (sweep.seconds * 1e3).round(),
            (sweep.warmup * 1e3).round()
        ));
        for job in &sweep.jobs {
            let params: Vec<String> = job.params.iter().map(|(name, value)| format!("{name} = {value}")).collect();
            let (from, to) = if job.is_reversed { ("b", "a") } else { ("a", "b") };
            text.push_str(&format!(
                "[[sweep.job]]\nworkload = \"{}\"\nfrom = \"{from}\"\nto = \"{to}\"\nparams = {{ {} }}\n",
                job.workload.name(),
                params.join(", ")
            ));
        }
        if !sweep.depths.is_empty() {
            let depths: Vec<String> = sweep.depths.iter().map(u32::to_string).collect();
            text.push_str(&format!("[sweep.axis]\n\"params.depth\" = [{}]\n", depths.join(", ")));
        }
    }
    text
}
