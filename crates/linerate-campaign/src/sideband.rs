//! Questions to the network controller behind a sideband, and what to do about missing answers.
//!
//! It only reads, except where a caller allows a change. The kernel's NC-SI stack is asked where it
//! owns the interface, and raw frames are sent elsewhere.

use std::time::{Duration, Instant};

use linerate_observe::ncsi::{
    Address, Controller, Failure as Unanswered, FoundChannel, Notifications, Notified, Preference,
    Reply, Transport, survey,
};
use linerate_packet::ncsi::{Answer, Command, Outcome as Answered, PassThroughStatistics, Reason};
use linerate_sys::SysError;
use linerate_sys::signal::{interrupted, note_interrupts};
use rustix::io::Errno;

use crate::{Exit, Failure, Outcome};

/// Interval between two questions of a watch.
const EVERY: Duration = Duration::from_secs(1);
/// Longest wait for a notification before an interrupt is looked for.
const PATIENCE: Duration = Duration::from_millis(100);
/// Notifications of the standard; others are a manufacturer's own.
const STANDARD: u32 = 0b111;
/// The order in which Linux brings a channel up.
const BRING_UP: [Command; 4] = [
    Command::ClearInitialState,
    Command::DisableBroadcastFilter,
    Command::EnableNetworkTx,
    Command::EnableChannel,
];

/// A channel of a controller, and the interface that leads to it.
pub struct Sideband<'a> {
    device: &'a str,
    address: Address,
    controller: Controller,
}

/// Answers to several commands. The error of one is why the kernel keeps it to itself.
pub type Answers = Vec<(Command, Result<Reply, String>)>;

/// What a watch sees.
#[derive(Debug)]
pub enum Seen {
    /// The kernel enables notifications itself.
    OwnedByKernel,
    /// Two readings of the pass-through statistics, and the seconds between them.
    Statistics(Box<[PassThroughStatistics; 2]>, f64),
    /// A notification of the controller.
    Notified(Notified),
}

impl<'a> Sideband<'a> {
    /// Opens `device` to ask the channel at `address`.
    ///
    /// # Errors
    /// If it is not there, or the rights are missing.
    pub fn open(
        device: &'a str,
        preference: Preference,
        address: Address,
    ) -> Result<Self, Failure> {
        let controller = Controller::open(device, preference).map_err(|error| {
            Failure::missing(format!(
                "{error} (NC-SI needs CAP_NET_RAW, and the interface of the sideband)"
            ))
        })?;
        Ok(Self { device, address, controller })
    }

    /// Returns how the controller is asked.
    #[must_use]
    pub fn transport(&self) -> Transport {
        self.controller.transport()
    }

    /// Returns the side effects of asking `commands` in this way.
    #[must_use]
    pub fn warnings(&self, commands: &[Command]) -> Vec<String> {
        let device = self.device;
        let warning = self.transport().warning();
        let mut warnings: Vec<String> =
            warning.into_iter().map(|warning| format!("warning: {device}: {warning}")).collect();
        if self.transport() == Transport::GenericNetlink
            && commands.contains(&Command::GetCapabilities)
        {
            warnings.push(format!(
                "warning: {device}: many kernels mistake this answer for one to a question of \
                    their own, and forget their filters until they next configure the channel"
            ));
        }
        warnings
    }

    /// Asks `command`. The inner error is an answer that the kernel keeps to itself; any other
    /// missing answer is a failure.
    fn attempt(&mut self, command: &Command) -> Result<Result<Reply, String>, Failure> {
        let Self { device, address: Address { package, channel }, .. } = *self;
        let whom = format!("package {package} channel {channel} on {device}");
        match self.controller.ask(self.address, command).map_err(|error| broken(&error))? {
            Ok(reply) => Ok(Ok(reply)),
            Err(withheld @ (Unanswered::Withheld(_) | Unanswered::NoCommands)) => {
                Ok(Err(format!("ask {whom}: {withheld}")))
            }
            Err(failure) => Err(Failure::missing(format!(
                "ask {whom}: {failure} ({}; is {device} the sideband's interface, is the \
                    controller powered, and is it that package and channel? linerate ncsi discover \
                    --interface {device})",
                self.transport().reason()
            ))),
        }
    }

    /// Asks `command`, whose answer is needed.
    fn ask(&mut self, command: &Command) -> Result<Reply, Failure> {
        self.attempt(command)?.map_err(Failure::missing)
    }

    /// Asks `commands` one by one.
    ///
    /// # Errors
    /// If one stays without an answer.
    pub fn ask_all(&mut self, commands: Vec<Command>) -> Result<Answers, Failure> {
        let asked = commands.into_iter().map(|command| {
            let answer = self.attempt(&command)?;
            Ok((command, answer))
        });
        asked.collect()
    }

    /// Returns why none of `answers` has what was asked for. One group of several that a controller
    /// lacks is a gap.
    #[must_use]
    pub fn refusal_of(&self, answers: &Answers) -> Option<Failure> {
        refusal_of_all(self.device, answers)
    }

    /// Finds packages and channels.
    ///
    /// # Errors
    /// If there is none.
    pub fn discover(&mut self, may_set: bool) -> Result<Vec<FoundChannel>, Failure> {
        let device = self.device;
        let found = survey(&mut self.controller, may_set).map_err(|error| broken(&error))?;
        if !found.is_empty() {
            return Ok(found);
        }
        let why = match self.transport() {
            Transport::GenericNetlink => format!(
                "the kernel's NC-SI stack owns it and knows no channel (it searches when the \
                    interface comes up: ip link set {device} up)"
            ),
            Transport::RawFrames(_) => format!(
                "no controller answered (is {device} the sideband's interface, and is the \
                    controller powered?)"
            ),
        };
        Err(Failure::missing(format!("discover controllers on {device}: {why}")))
    }

    /// Brings the channel up in the order that Linux uses, without filters. Each step goes to
    /// `on_step`.
    ///
    /// # Errors
    /// If this changes more than `may_set` allows, belongs to the kernel, or is refused.
    pub fn configure(
        &mut self,
        may_set: bool,
        mut on_step: impl FnMut(&Command, &Reply),
    ) -> Result<(), Failure> {
        let device = self.device;
        if !may_set {
            return Err(Failure::wrong(format!(
                "configure {device}: this changes the controller's state, which a running BMC \
                    depends on (allow it with --allow-set)"
            )));
        }
        if self.transport() == Transport::GenericNetlink {
            return Err(Failure::wrong(format!(
                "configure {device}: the kernel's NC-SI stack owns the interface and configures \
                    the channel when it comes up (ip link set {device} up; --force-raw does it \
                    beside the kernel)"
            )));
        }
        for command in BRING_UP {
            let reply = self.ask(&command)?;
            on_step(&command, &reply);
            if reply.outcome != Answered::Completed {
                return Err(Failure::missing(format!("{command:?}: {}", reply.reason.words())));
            }
        }
        Ok(())
    }

    /// Reads the pass-through statistics each second, `count` times after the first or until an
    /// interrupt, and receives notifications. With `may_set` they are enabled meanwhile.
    ///
    /// # Errors
    /// If an answer is missing.
    pub fn watch(
        &mut self,
        may_set: bool,
        count: Option<u64>,
        on_seen: &mut dyn FnMut(Seen),
    ) -> Outcome {
        // Opened first, so that none is missed.
        let notifications = Notifications::open(self.device).map_err(Failure::missing)?;
        note_interrupts().map_err(Failure::missing)?;
        let before = match self.transport() {
            _ if !may_set => None,
            Transport::GenericNetlink => {
                on_seen(Seen::OwnedByKernel);
                None
            }
            Transport::RawFrames(_) => Some(self.enable()?),
        };
        let opened = Instant::now();
        let mut channel = WatchedChannel { sideband: &mut *self, notifications, opened };
        let ended = follow(&mut channel, count, on_seen);
        if let Some(control) = before {
            self.ask(&Command::AenEnable { management: 0, control })?;
        }
        ended
    }

    /// Enables the notifications that the channel has. Returns those that were enabled before.
    fn enable(&mut self) -> Result<u32, Failure> {
        let reply = self.ask(&Command::GetParameters)?;
        let Answer::Parameters(parameters) = &reply.answer else {
            return Err(Failure::missing(refusal(self.device, &reply)));
        };
        let reply = self.ask(&Command::GetCapabilities)?;
        let Answer::Capabilities(capabilities) = &reply.answer else {
            return Err(Failure::missing(refusal(self.device, &reply)));
        };
        let control = capabilities.notifications & STANDARD;
        self.ask(&Command::AenEnable { management: 0, control })?;
        Ok(parameters.notifications)
    }
}

/// What a watch needs of a channel, and of the clock.
trait Watched {
    fn statistics(&mut self) -> Result<PassThroughStatistics, Failure>;
    /// Returns the next notification; `None` if none arrives within `patience`.
    fn notification(&mut self, patience: Duration) -> Option<Notified>;
    fn is_interrupted(&self) -> bool;
    /// Returns the time since the watch was opened.
    fn now(&self) -> Duration;
}

/// A channel that is watched.
struct WatchedChannel<'s, 'a> {
    sideband: &'s mut Sideband<'a>,
    notifications: Notifications,
    opened: Instant,
}

impl Watched for WatchedChannel<'_, '_> {
    fn statistics(&mut self) -> Result<PassThroughStatistics, Failure> {
        let reply = self.sideband.ask(&Command::GetPassThroughStatistics)?;
        match reply.answer {
            Answer::PassThroughStatistics(now) => Ok(now),
            _ => Err(Failure::missing(refusal(self.sideband.device, &reply))),
        }
    }

    fn notification(&mut self, patience: Duration) -> Option<Notified> {
        self.notifications.next(patience)
    }

    fn is_interrupted(&self) -> bool {
        interrupted()
    }

    fn now(&self) -> Duration {
        self.opened.elapsed()
    }
}

/// Reads statistics each second, `count` times after the first, and notifications between them.
fn follow(
    channel: &mut impl Watched,
    count: Option<u64>,
    on_seen: &mut dyn FnMut(Seen),
) -> Outcome {
    let mut before: Option<(Duration, PassThroughStatistics)> = None;
    let mut left = count.map(|count| count + 1);
    while left != Some(0) {
        let now = channel.statistics()?;
        let at = channel.now();
        if let Some((then, earlier)) = before.replace((at, now)) {
            let seconds = (at - then).as_secs_f64();
            on_seen(Seen::Statistics(Box::new([earlier, now]), seconds));
        }
        left = left.map(|left| left - 1);
        // After the last reading nothing is awaited.
        while left != Some(0) && channel.now() - at < EVERY {
            if channel.is_interrupted() {
                return Ok(Exit::Interrupted);
            }
            let rest = EVERY.saturating_sub(channel.now() - at);
            let one = channel.notification(PATIENCE.min(rest));
            one.into_iter().for_each(|one| on_seen(Seen::Notified(one)));
        }
    }
    Ok(Exit::Done)
}

/// Returns the failure of a transport that does not work.
fn broken(error: &SysError) -> Failure {
    let denied = error.errno() == Some(Errno::PERM.raw_os_error());
    Failure::missing(if denied {
        format!("{error} (the kernel's NC-SI stack takes commands with CAP_NET_ADMIN only)")
    } else {
        error.to_string()
    })
}

fn refusal_of_all(device: &str, answers: &Answers) -> Option<Failure> {
    let refusals = answers.iter().filter_map(|(_, answer)| match answer {
        Ok(reply) if reply.outcome == Answered::Completed => None,
        Ok(reply) => Some(refusal(device, reply)),
        Err(why) => Some(why.clone()),
    });
    let mut refusals: Vec<String> = refusals.collect();
    let is_none_left = refusals.len() == answers.len();
    refusals.pop().filter(|_| is_none_left).map(Failure::missing)
}

fn refusal(device: &str, reply: &Reply) -> String {
    let remedy = if reply.reason == Reason::INITIALIZATION_REQUIRED {
        format!("`linerate ncsi configure --interface {device} --allow-set` brings it up")
    } else {
        format!("`linerate ncsi discover --interface {device}` lists the channels")
    };
    format!("the controller on {device} refused: {} ({remedy})", reply.reason.words())
}

#[cfg(test)]
mod tests {
    use linerate_observe::ncsi::Strays;
    use linerate_packet::ncsi::Notification;

    use super::*;

    fn reply(outcome: Answered, reason: Reason) -> Reply {
        let answer = Answer::Done;
        Reply { outcome, reason, answer, tries: 1, strays: Strays::default() }
    }

    /// A channel in virtual time: reading takes a time, and notifications come when they are due.
    struct SimulatedChannel {
        now: Duration,
        reading: Duration,
        due: Vec<Duration>,
        interrupted_at: Duration,
        /// Answers before the channel falls silent.
        answers: u64,
    }

    impl Default for SimulatedChannel {
        fn default() -> Self {
            let reading = Duration::from_millis(10);
            let (due, answers) = (Vec::new(), u64::MAX);
            Self { now: Duration::ZERO, reading, due, interrupted_at: Duration::MAX, answers }
        }
    }

    impl Watched for SimulatedChannel {
        fn statistics(&mut self) -> Result<PassThroughStatistics, Failure> {
            self.answers = self.answers.checked_sub(1).ok_or_else(|| Failure::missing("silent"))?;
            self.now += self.reading;
            let mut counters = [None; 10];
            counters[0] = Some(self.now.as_millis() as u64);
            Ok(PassThroughStatistics { legacy: false, counters })
        }

        fn notification(&mut self, patience: Duration) -> Option<Notified> {
            let until = self.now + patience;
            let arrived = self.due.first().copied().filter(|due| *due <= until);
            self.now = arrived.unwrap_or(until).max(self.now);
            arrived.map(|_| {
                self.due.remove(0);
                let address = Address { package: 0, channel: 0 };
                Notified { address, notification: Notification::ConfigurationRequired }
            })
        }

        fn is_interrupted(&self) -> bool {
            self.now >= self.interrupted_at
        }

        fn now(&self) -> Duration {
            self.now
        }
    }

    /// Returns what a watch prints, and when: rates with their seconds, `AEN` for a notification.
    fn followed(
        mut channel: SimulatedChannel,
        count: Option<u64>,
    ) -> (Vec<String>, Result<Exit, String>, SimulatedChannel) {
        let mut lines = Vec::new();
        let ended = follow(&mut channel, count, &mut |seen| {
            lines.push(match seen {
                Seen::OwnedByKernel => "kernel".to_owned(),
                Seen::Statistics(of, seconds) => {
                    let [before, after] = of.map(|one| one.counters[0].expect("it is counted"));
                    format!("{} in {seconds:.2}", after - before)
                }
                Seen::Notified(_) => "AEN".to_owned(),
            });
        });
        (lines, ended.map_err(|failure| failure.message()), channel)
    }

    #[test]
    fn a_watch_has_a_line_each_second_over_the_time_that_passed_and_then_ends_at_once() {
        let (lines, ended, channel) = followed(SimulatedChannel::default(), Some(2));
        assert_eq!(lines, ["1010 in 1.01", "1010 in 1.01"]);
        assert_eq!((ended, channel.now), (Ok(Exit::Done), Duration::from_millis(2_030)));
        let slow = SimulatedChannel { reading: Duration::from_secs(3), ..Default::default() };
        assert_eq!(followed(slow, Some(1)).0, ["4000 in 4.00"], "a reading may take longer");
        assert!(followed(SimulatedChannel::default(), Some(0)).0.is_empty());
    }

    #[test]
    fn notifications_are_seen_when_they_arrive_between_two_readings() {
        let due = [200, 950, 1_500].map(Duration::from_millis).to_vec();
        let channel = SimulatedChannel { due, ..Default::default() };
        let (lines, ..) = followed(channel, Some(2));
        assert_eq!(lines, ["AEN", "AEN", "1010 in 1.01", "AEN", "1010 in 1.01"]);
    }

    #[test]
    fn an_interrupt_ends_a_watch_within_its_patience_and_a_silent_channel_fails() {
        let interrupted_at = Duration::from_millis(1_234);
        let channel = SimulatedChannel { interrupted_at, ..Default::default() };
        let (lines, ended, channel) = followed(channel, None);
        assert_eq!((lines.len(), ended), (1, Ok(Exit::Interrupted)));
        assert!(channel.now - interrupted_at < PATIENCE, "{:?}", channel.now);
        let silent = SimulatedChannel { answers: 2, ..Default::default() };
        let (lines, ended, _) = followed(silent, None);
        assert_eq!((lines.len(), ended), (1, Err("silent".to_owned())));
    }

    #[test]
    fn a_single_refused_command_is_a_failure_and_one_of_several_a_gap() {
        let done = Ok(reply(Answered::Completed, Reason::NONE));
        let refused = Ok(reply(Answered::Failed, Reason::INITIALIZATION_REQUIRED));
        let withheld = Err("ask package 0 channel 0 on eth0: withheld".to_owned());
        let refusal = |answers: Vec<Result<Reply, String>>| {
            let asked = answers.into_iter().map(|answer| (Command::GetLinkStatus, answer));
            refusal_of_all("eth0", &asked.collect()).map(|failure| failure.message())
        };
        assert_eq!(refusal(vec![done.clone()]), None);
        assert_eq!(refusal(vec![refused.clone(), done]), None);
        assert_eq!(refusal(vec![refused.clone(), withheld.clone()]), withheld.err());
        let single = refusal(vec![refused]).expect("nothing else was asked");
        assert!(single.contains("ncsi configure --interface eth0 --allow-set"), "{single}");
    }
}
