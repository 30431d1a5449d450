//! Live view of a campaign on the terminal.
//!
//! A thread of its own reads snapshots from a bounded queue and draws them: a terminal that stands
//! still holds up this thread alone. Lines that are printed meanwhile are held, and stand on the
//! terminal after the view, as they would have without it. The view opens with the first trial:
//! until then ssh may ask for a password.

use std::any::Any;
use std::io::{self, ErrorKind, IsTerminal, Stdout};
use std::os::fd::AsFd;
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_campaign::live::{Live, LiveStage, Snapshot};
use linerate_model::Nanos;
use linerate_sys::signal;
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::Console;
use crate::frame::{Shown, draw};

/// Longest time between two looks for keys and snapshots.
const LOOK: Duration = Duration::from_millis(25);
/// Longest time between two frames, with news or without: times on it go on.
const FRAME: Duration = Duration::from_millis(200);
/// Shortest time between two frames.
const REST: Duration = Duration::from_millis(150);

/// True while the terminal shows the view. Whoever sets it to false restores the terminal.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// View of the campaigns of one command; closed when this is dropped.
pub struct View {
    live: Arc<Live>,
    running: Option<(Arc<AtomicBool>, JoinHandle<()>)>,
    /// Where there is no view, lines.
    lines: Option<Box<dyn Any>>,
    pub(crate) console: Console,
}

impl View {
    /// Returns the view for `command`. It shows nothing where a person would not see it, or wants
    /// lines.
    pub fn new(command: &'static str, console: Console) -> Self {
        let live = Arc::new(Live::default());
        let running = wanted(console).then(|| {
            let over = Arc::new(AtomicBool::new(false));
            let screen =
                Screen { live: Arc::clone(&live), command, over: Arc::clone(&over), console };
            let snapshots = live.watch();
            let named = std::thread::Builder::new().name("linerate-view".into());
            let thread = named.spawn(move || screen.run(&snapshots)).ok()?;
            Some((over, thread))
        });
        let running = running.flatten();
        let lines = running.is_none().then(console.relay);
        Self { live, running, lines, console }
    }

    /// Returns the link to the campaigns.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Returns whether a person sees it.
    pub fn is_shown(&self) -> bool {
        self.running.is_some()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some((over, thread)) = self.running.take() {
            over.store(true, Ordering::Relaxed);
            // What it held is printed to the same terminal, so nothing is gained by going on first.
            let _ended = thread.join();
        }
        drop(self.lines.take());
    }
}

/// Returns whether a person at a terminal wants to see the view.
fn wanted(console: Console) -> bool {
    let is_capable =
        std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb");
    let is_terminal =
        io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
    // A program in the background that changes the terminal is stopped by the kernel (termios(3)).
    let is_foreground = || tcgetpgrp(io::stdin()).is_ok_and(|group| group == getpgrp());
    console.may_draw && is_capable && is_terminal && is_foreground()
}

/// The thread's part of a view.
struct Screen {
    live: Arc<Live>,
    command: &'static str,
    over: Arc<AtomicBool>,
    console: Console,
}

impl Screen {
    /// Draws until the view is over.
    fn run(&self, snapshots: &Receiver<Arc<Snapshot>>) {
        let Some(first) = self.first_trial(snapshots) else { return };
        let held = (self.console.hold)();
        let Ok(mut opened) = Opened::new() else { return };
        // An error is a terminal that has gone: nobody is left to see anything.
        let _gone = self.draw_all(first, snapshots, &mut opened.terminal, io::stdin());
        // In this order: the lines belong on the screen that was there before.
        drop(opened);
        drop(held);
    }

    /// Waits for the first trial. Returns `None` if the command ends before it.
    fn first_trial(&self, snapshots: &Receiver<Arc<Snapshot>>) -> Option<Arc<Snapshot>> {
        while !self.over.load(Ordering::Relaxed) {
            match snapshots.recv_timeout(LOOK) {
                Ok(snapshot) if snapshot.stage == LiveStage::Trial => return Some(snapshot),
                Err(RecvTimeoutError::Disconnected) => return None,
                _ => {}
            }
        }
        None
    }

    /// Draws on `terminal` until the view is over, or a panic closed it. Keys come from `keyboard`.
    fn draw_all<B: Backend<Error: Send + Sync + 'static>>(
        &self,
        mut newest: Arc<Snapshot>,
        snapshots: &Receiver<Arc<Snapshot>>,
        terminal: &mut Terminal<B>,
        keyboard: impl AsFd,
    ) -> io::Result<()> {
        // Nobody could end a pause without the view.
        let _unpaused = Unpaused(&self.live);
        let mut has_news = false;
        let mut arrived = Instant::now();
        let mut drawn: Option<Instant> = None;
        while !self.over.load(Ordering::Relaxed) && IS_OPEN.load(Ordering::Relaxed) {
            // A key, Ctrl-C of another terminal, or `kill`.
            let n_interrupts = signal::interrupts();
            if n_interrupts > 1 {
                Hooked::close();
                signal::end_interrupted();
            }
            if let Some(snapshot) = snapshots.try_iter().last() {
                (newest, arrived, has_news) = (snapshot, Instant::now(), true);
            }
            let wait = if has_news { REST } else { FRAME };
            if drawn.is_none_or(|drawn| drawn.elapsed() >= wait) {
                let shown = Shown {
                    snapshot: &newest,
                    age: Nanos::from_secs_f64(arrived.elapsed().as_secs_f64()),
                    command: self.command,
                    is_paused: self.live.is_paused(),
                    is_ending: n_interrupts > 0,
                    has_color: self.console.has_color,
                };
                terminal.draw(|frame| draw(frame, &shown)).map_err(io::Error::other)?;
                (drawn, has_news) = (Some(Instant::now()), false);
            }
            for wish in keys(&keyboard, LOOK)?.iter().filter_map(|key| wish(*key)) {
                match wish {
                    Wish::End => signal::interrupt(),
                    Wish::Pause => self.live.set_paused(!self.live.is_paused()),
                }
                drawn = None;
            }
        }
        Ok(())
    }
}

/// Ends a pause when this is dropped.
struct Unpaused<'a>(&'a Live);

impl Drop for Unpaused<'_> {
    fn drop(&mut self) {
        self.0.set_paused(false);
    }
}

/// Returns the keys that were pressed, after `patience` at the latest. A key that is a sequence,
/// such as an arrow, is none.
///
/// # Errors
/// If the terminal has gone. (crossterm 0.29 would read its end again and again.)
fn keys(keyboard: impl AsFd, patience: Duration) -> io::Result<Vec<u8>> {
    /// Longest sequence of a key, and more than a person types in one look.
    const MOST: usize = 64;
    const ESCAPE: u8 = 0x1b;
    let mut polled = [PollFd::new(&keyboard, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    match event::poll(&mut polled, Some(&timeout)) {
        // A signal; the next look is soon.
        Err(Errno::INTR) | Ok(0) => return Ok(Vec::new()),
        polled => polled?,
    };
    let mut typed = [0; MOST];
    // Past the buffer of the standard library, which would read more than there is.
    let n_bytes = rustix::io::read(&keyboard, &mut typed)?;
    if n_bytes == 0 {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let is_sequence = typed[0] == ESCAPE;
    Ok(typed[..n_bytes].iter().copied().filter(|_| !is_sequence).collect())
}

/// Wish of the person at the keyboard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    End,
    Pause,
}

fn wish(key: u8) -> Option<Wish> {
    /// Ctrl-C: without the terminal's own treatment it is a letter (ASCII end of text).
    const CONTROL_C: u8 = 0x03;
    match key {
        b'q' | CONTROL_C => Some(Wish::End),
        b'p' => Some(Wish::Pause),
        _ => None,
    }
}

/// Terminal that shows the view; as it was before when this is dropped.
struct Opened {
    terminal: Terminal<CrosstermBackend<Stdout>>,
    _hooked: Hooked,
}

impl Opened {
    fn new() -> io::Result<Self> {
        enable_raw_mode()?;
        let hooked = Hooked::new();
        execute!(io::stdout(), EnterAlternateScreen)?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(Self { terminal, _hooked: hooked })
    }
}

/// Marks the terminal as that of the view. It is restored when this is dropped, or before that when
/// a thread panics: the message would be lost with the screen it is printed on.
struct Hooked;

impl Hooked {
    fn new() -> Self {
        static HOOK: Once = Once::new();
        // The hook stays: removing it while this thread panics would end the program.
        HOOK.call_once(|| {
            let before = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                Self::close();
                before(info);
            }));
        });
        IS_OPEN.store(true, Ordering::Relaxed);
        signal::hold_second_interrupt(true);
        Self
    }

    /// Returns the terminal to its state before the view, once.
    fn close() {
        if IS_OPEN.swap(false, Ordering::Relaxed) {
            // Nothing is left to do if the terminal has gone.
            let _gone = execute!(io::stdout(), LeaveAlternateScreen, Show);
            let _gone = disable_raw_mode();
            signal::hold_second_interrupt(false);
        }
    }
}

impl Drop for Hooked {
    fn drop(&mut self) {
        Self::close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use ratatui::backend::TestBackend;

    use super::*;

    /// The tests share `IS_OPEN`.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn a_panic_in_the_view_is_an_error_of_its_thread_and_closes_it() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let drawn = std::thread::spawn(|| {
            let _hooked = Hooked::new();
            panic!("for the test: drawing failed");
        });
        assert!(drawn.join().is_err());
        assert!(!IS_OPEN.load(Ordering::Relaxed));
    }

    #[test]
    fn a_panic_in_another_thread_ends_the_drawing_and_a_pause() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let (live, over) = (Arc::new(Live::default()), Arc::new(AtomicBool::new(false)));
        let console = Console {
            may_draw: true,
            is_quiet: false,
            is_verbose: false,
            has_color: false,
            say: |_| {},
            hold: || Box::new(()),
            relay: || Box::new(()),
        };
        let screen =
            Screen { live: Arc::clone(&live), command: "run", over: Arc::clone(&over), console };
        let snapshots = live.watch();
        // Its other end stays open: a keyboard on which nobody types.
        let (keyboard, _writer) = std::io::pipe().expect("a pipe");
        let hooked = Hooked::new();
        live.set_paused(true);
        let began = Instant::now();
        let drawing = std::thread::spawn(move || {
            let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("no terminal");
            screen.draw_all(Arc::default(), &snapshots, &mut terminal, keyboard)
        });
        std::thread::sleep(LOOK * 4);
        assert!(!drawing.is_finished(), "nothing has happened");
        let other = std::thread::spawn(|| panic!("for the test: another thread failed"));
        assert!(other.join().is_err());
        while !drawing.is_finished() && began.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(LOOK);
        }
        let is_finished = drawing.is_finished();
        over.store(true, Ordering::Relaxed);
        drawing.join().expect("it draws").expect("it has a keyboard");
        drop(hooked);
        assert!(is_finished, "the view draws on a terminal that is no longer its own");
        assert!(!live.is_paused(), "nobody could end the pause");
    }

    #[test]
    fn q_and_control_c_end_p_pauses_and_other_keys_do_nothing() {
        let expected = [Some(Wish::End), Some(Wish::End), Some(Wish::Pause), None, None];
        assert_eq!([b'q', 3, b'p', b'c', b'x'].map(wish), expected);
    }
}
