//! One number under judgement: what arithmetic expects, what linerate printed, what another
//! instrument counted.

/// How far a printed number may be from a reference, and why that far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Tolerance {
    /// In the unit of the quantity.
    pub(super) absolute: f64,
    /// As a share of the reference; the wider of the two counts.
    pub(super) relative: f64,
    pub(super) why: &'static str,
}

impl Tolerance {
    pub(super) const fn absolute(absolute: f64, why: &'static str) -> Self {
        Self { absolute, relative: 0.0, why }
    }

    pub(super) const fn relative(relative: f64, why: &'static str) -> Self {
        Self { absolute: 0.0, relative, why }
    }
}

/// For counts of packets: nothing excuses a difference.
pub(super) const EXACT: Tolerance =
    Tolerance { absolute: 0.0, relative: 0.0, why: "counts are exact" };

/// Unit of a quantity, for the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Unit {
    Count,
    BitRate,
    PerSecond,
    Seconds,
    Ratio,
    Bytes,
}

/// Condition of a claim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Relation {
    /// Equal to every reference, within the tolerance.
    Equal(Tolerance),
    /// No larger than any reference, within the tolerance.
    AtMost(Tolerance),
    /// No smaller than any reference, within the tolerance.
    AtLeast(Tolerance),
    /// Not printed at all, because it cannot be known.
    Withheld(&'static str),
}

/// A reference, and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reference {
    pub(super) value: f64,
    pub(super) source: String,
}

/// One number of one case.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub(super) quantity: String,
    pub(super) unit: Unit,
    /// By arithmetic, from what was injected.
    pub(super) expected: Option<Reference>,
    /// Absent if linerate printed no such number.
    pub(super) printed: Option<f64>,
    pub(super) instrument: Option<Reference>,
    pub(super) relation: Relation,
}

/// How a claim was judged.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Agrees,
    Differs(String),
}

impl Claim {
    /// A count that must be exact; references are added with [`Claim::expect`] and
    /// [`Claim::beside`].
    pub(super) fn count(quantity: impl Into<String>, printed: Option<f64>) -> Self {
        Self::new(quantity, Unit::Count, printed, Relation::Equal(EXACT))
    }

    pub(super) fn new(
        quantity: impl Into<String>,
        unit: Unit,
        printed: Option<f64>,
        relation: Relation,
    ) -> Self {
        Self {
            quantity: quantity.into(),
            unit,
            expected: None,
            printed,
            instrument: None,
            relation,
        }
    }

    pub(super) fn expect(self, value: f64, source: impl Into<String>) -> Self {
        Self { expected: Some(Reference { value, source: source.into() }), ..self }
    }

    pub(super) fn beside(self, value: f64, source: impl Into<String>) -> Self {
        Self { instrument: Some(Reference { value, source: source.into() }), ..self }
    }

    /// Judges the printed number against every reference.
    pub(super) fn verdict(&self) -> Verdict {
        let (tolerance, direction) = match self.relation {
            Relation::Withheld(_) if self.printed.is_none() => return Verdict::Agrees,
            Relation::Withheld(_) => {
                return Verdict::Differs("printed although it cannot be known".into());
            }
            Relation::Equal(tolerance) => (tolerance, 0.0),
            Relation::AtMost(tolerance) => (tolerance, 1.0),
            Relation::AtLeast(tolerance) => (tolerance, -1.0),
        };
        let Some(printed) = self.printed else { return Verdict::Differs("not printed".into()) };
        let references: Vec<&Reference> = self.expected.iter().chain(&self.instrument).collect();
        if references.is_empty() {
            return Verdict::Differs("no reference to compare with".into());
        }
        for reference in references {
            let allowed = tolerance.absolute.max(tolerance.relative * reference.value.abs());
            let excess = printed - reference.value;
            let is_outside = if direction == 0.0 {
                excess.abs() > allowed
            } else {
                excess * direction > allowed
            };
            // A number that is none differs from everything.
            if is_outside || !excess.is_finite() {
                return Verdict::Differs(format!("from {}", reference.source));
            }
        }
        Verdict::Agrees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Tolerance = Tolerance { absolute: 0.0, relative: 0.1, why: "a test" };

    fn claim(relation: Relation, printed: Option<f64>) -> Claim {
        Claim::new("rate", Unit::PerSecond, printed, relation)
            .expect(100.0, "arithmetic")
            .beside(104.0, "tc")
    }

    #[test]
    fn every_reference_must_agree_within_the_tolerance() {
        let equal = |printed| claim(Relation::Equal(TENTH), printed).verdict();
        assert_eq!(equal(Some(109.0)), Verdict::Agrees);
        assert_eq!(equal(Some(111.0)), Verdict::Differs("from arithmetic".into()));
        assert_eq!(equal(Some(92.0)), Verdict::Differs("from tc".into()));
        assert_eq!(equal(Some(f64::NAN)), Verdict::Differs("from arithmetic".into()));
        assert_eq!(equal(None), Verdict::Differs("not printed".into()));
    }

    #[test]
    fn a_bound_is_judged_on_one_side_only() {
        assert_eq!(claim(Relation::AtMost(EXACT), Some(3.0)).verdict(), Verdict::Agrees);
        assert_eq!(
            claim(Relation::AtMost(EXACT), Some(101.0)).verdict(),
            Verdict::Differs("from arithmetic".into())
        );
        assert_eq!(claim(Relation::AtLeast(EXACT), Some(200.0)).verdict(), Verdict::Agrees);
        assert_eq!(
            claim(Relation::AtLeast(EXACT), Some(102.0)).verdict(),
            Verdict::Differs("from tc".into())
        );
    }

    #[test]
    fn a_number_that_cannot_be_known_must_not_be_printed() {
        assert_eq!(claim(Relation::Withheld("no clock"), None).verdict(), Verdict::Agrees);
        assert!(matches!(
            claim(Relation::Withheld("no clock"), Some(1.0)).verdict(),
            Verdict::Differs(_)
        ));
    }

    #[test]
    fn a_claim_without_a_reference_is_not_agreement() {
        assert!(matches!(Claim::count("lost", Some(0.0)).verdict(), Verdict::Differs(_)));
    }
}
