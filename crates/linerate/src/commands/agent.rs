//! `linerate agent`: the agent of this host, which other hosts measure with.

use linerate_campaign::pairing;
use linerate_campaign::serving::{self, AgentQuestion};

use crate::args::{AgentArgs, Global};
use crate::exit::{Exit, Outcome};

/// Serves conductors until it is interrupted, or one of them on the standard streams until it
/// leaves.
pub(crate) fn run(args: AgentArgs, global: Global) -> Outcome {
    if args.pair {
        pairing::before_agent(args.listen.as_deref(), args.keys.as_deref())?;
    }
    let question = AgentQuestion {
        listen: args.listen,
        on_stdio: args.stdio,
        is_one_off: args.one_off,
        keys: args.keys,
        policy: args.policy,
        tune: args.allow_tune,
        write: args.allow_write,
        serve: args.allow_serve,
        is_quiet: global.quiet,
    };
    serving::serve(&question, |line| eprintln!("{line}"))?;
    Ok(Exit::Done)
}
