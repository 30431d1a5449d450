//! Effect of a change: two sets of runs (`effect`), two campaigns (`campaigns`), other programs
//! beside them (`company`), and differences between the hosts (`environment`).

mod campaigns;
mod company;
mod effect;
mod environment;
mod points;
mod searches;

pub use campaigns::{Campaigns, Family, Overall, Side, Standing, campaigns};
pub use company::Company;
pub(crate) use effect::effect_of_runs;
pub use effect::{
    Better, Change, Doubt, Effect, Margin, Proof, Scale, Unproven, effect, effect_beyond, prove,
};
pub use environment::{Cause, Mechanism, Touch, environment};
pub use points::{PointChange, Unmatched};
