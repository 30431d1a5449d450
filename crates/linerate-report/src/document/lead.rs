//! First screen of a report: headline figure, cost, ceiling, bottleneck with its status, and next
//! step.

/// First screen of a report. Its parts stay apart and keep their places in every format.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lead {
    /// Certainty of the answer as a stable word of the JSON: `proven`, `suspected`, `inconclusive`,
    /// `located` or `not diagnosed`; for a comparison `changed`, `equivalent` or `inconclusive`.
    pub surety: &'static str,
    /// Headline figure with its unit.
    pub figure: String,
    /// Subject of the figure: quantity, ends, parameters.
    pub context: String,
    /// Basis of the figure: layer, sample size, interval, share of the ceiling.
    pub basis: Vec<String>,
    /// CPU cost of both ends, or why it is not known; `None` where the question does not arise.
    pub cost: Option<String>,
    /// Lowest ceiling of the figure, or why none is known; `None` where the question does not
    /// arise.
    pub ceiling: Option<String>,
    /// Share of the ceiling that the figure reached.
    pub reached: Option<f64>,
    /// Heading of the last part: `Bottleneck`.
    pub label: &'static str,
    /// Status word for people, as docs/glossary.md defines it.
    pub status: &'static str,
    /// Claim as a clause without a full stop.
    pub claim: Option<String>,
    /// Observations behind the claim, the most important first.
    pub evidence: Vec<String>,
    /// Next steps, the first one first.
    pub next: Vec<NextStep>,
}

/// Recommended step with the command that takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// Step as an imperative clause, with its expected effect.
    pub text: String,
    /// Command line that can be pasted into a shell.
    pub command: Option<String>,
}

impl Lead {
    /// Returns the headline in one line: figure, subject and basis.
    #[must_use]
    pub fn headline(&self) -> String {
        let basis = self.basis();
        let basis = if basis.is_empty() { basis } else { format!(" ({basis})") };
        format!("{} {}{basis}", self.figure, self.context)
    }

    /// Returns the basis of the figure in one line.
    #[must_use]
    pub fn basis(&self) -> String {
        self.basis.join(", ")
    }

    /// Returns cost and ceiling with their headings; the ceiling with the share that was reached.
    pub fn measures(&self) -> impl Iterator<Item = (&'static str, &str, Option<f64>)> {
        let measures = [("Cost", &self.cost, None), ("Ceiling", &self.ceiling, self.reached)];
        let known = measures.into_iter();
        known.filter_map(|(label, text, reached)| Some((label, text.as_deref()?, reached)))
    }

    /// Returns the answer in one line, for formats without layout.
    #[must_use]
    pub fn text(&self) -> String {
        // Formats of one line need no placeholder for a part that is missing.
        let claim = self.claim.as_ref().map_or(String::new(), |claim| format!("; {claim}"));
        let next = self.next.first().map_or(String::new(), |next| {
            let command = next.command.as_ref();
            let command = command.map_or(String::new(), |command| format!(": `{command}`"));
            format!(" Next: {}{command}.", next.text)
        });
        let measures: String =
            self.measures().map(|(label, text, _)| format!(" {label}: {text}.")).collect();
        let (headline, label, status) = (self.headline(), self.label, self.status);
        format!("{headline}.{measures} {label}: {status}{claim}.{next}")
    }
}
