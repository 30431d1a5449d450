//! Printing without panics. The standard macros panic when the reader of a pipe has gone (`linerate
//! run PLAN 2>&1 | head -1`), in the middle of a campaign. The macros here have the same names and
//! go on: a measurement is worth more than its messages. Any other failure, such as a full disk, is
//! reported once, at the end.

use std::fmt::Arguments;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use linerate_agent::commands::Console;
use linerate_campaign::Failure;
use linerate_view::safe_text;
use serde_json::Value;

/// Prints to standard output.
macro_rules! print {
    ($($argument:tt)*) => { $crate::output::out(format_args!($($argument)*)) };
}

/// Prints a line to standard output.
macro_rules! println {
    () => { $crate::output::out(format_args!("\n")) };
    ($($argument:tt)*) => {
        $crate::output::out(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// Prints a line to standard error.
macro_rules! eprintln {
    ($($argument:tt)*) => {
        $crate::output::err(format_args!("{}\n", format_args!($($argument)*)))
    };
}

/// The streams of this process, for commands of other crates.
pub(crate) const CONSOLE: Console =
    Console { out: |line| println!("{line}"), err: |line| eprintln!("{line}") };

/// File that takes the place of standard output.
static LOG: Mutex<Option<(File, PathBuf)>> = Mutex::new(None);

/// Appends to the file `path`, from now on, what would go to standard output.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn append_to(path: &Path) -> Result<(), Failure> {
    let file = File::options().append(true).create(true).open(path);
    let file =
        file.map_err(|error| Failure::missing(format!("write to {}: {error}", path.display())))?;
    if let Ok(mut log) = LOG.lock() {
        *log = Some((file, path.to_owned()));
    }
    Ok(())
}

/// Returns whether standard output goes to that file.
pub(crate) fn is_redirected() -> bool {
    LOG.lock().is_ok_and(|log| log.is_some())
}

/// Way of what is printed during a measurement; `None` at other times.
static WAY: Mutex<Option<Way>> = Mutex::new(None);

/// Text and its stream.
type Printed = (Stream, String);

/// Stream of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Out,
    Err,
}

/// Way of a text to its stream.
enum Way {
    /// It waits until the live view is over.
    Held(Vec<Printed>),
    /// A thread writes it, unless its stream is a terminal.
    Relayed(Sender<Printed>),
}

/// Guard of a measurement: when it is dropped, everything that was printed is written.
pub(crate) struct Measuring {
    relay: Option<JoinHandle<()>>,
}

impl Measuring {
    /// Holds everything that is printed from now on.
    pub(crate) fn hold() -> Self {
        Self::go(Way::Held(Vec::new()), None)
    }

    /// Writes from a thread of its own from now on: a pipe that nobody reads delays no
    /// measurement.
    pub(crate) fn relay() -> Self {
        let (sender, printed) = channel::<Printed>();
        let named = std::thread::Builder::new().name("linerate-print".into());
        let relay =
            named.spawn(move || printed.iter().for_each(|(stream, text)| put(stream, &text)));
        match relay {
            Ok(relay) => Self::go(Way::Relayed(sender), Some(relay)),
            Err(_) => Self { relay: None },
        }
    }

    fn go(way: Way, relay: Option<JoinHandle<()>>) -> Self {
        if let Ok(mut present) = WAY.lock() {
            *present = Some(way);
        }
        Self { relay }
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let way = WAY.lock().ok().and_then(|mut way| way.take());
        match way {
            Some(Way::Held(held)) => held.iter().for_each(|(stream, text)| put(*stream, text)),
            // The thread ends after its sender.
            relayed => drop(relayed),
        }
        if let Some(relay) = self.relay.take() {
            let _ended = relay.join();
        }
    }
}

/// Prints `text` on its way.
fn print(stream: Stream, text: String) {
    let is_terminal = match stream {
        Stream::Out => std::io::stdout().is_terminal(),
        Stream::Err => std::io::stderr().is_terminal(),
    };
    match WAY.lock().as_deref_mut() {
        Ok(Some(Way::Held(held))) => held.push((stream, text)),
        Ok(Some(Way::Relayed(sender))) if !is_terminal => {
            let _sent = sender.send((stream, text));
        }
        _ => put(stream, &text),
    }
}

/// Writes `text`.
fn put(stream: Stream, text: &str) {
    match stream {
        Stream::Out => note(std::io::stdout().lock().write_all(text.as_bytes())),
        // There is nowhere left to say that it failed.
        Stream::Err => {
            let _unread = std::io::stderr().lock().write_all(text.as_bytes());
        }
    }
}

/// First error of standard output.
static FAILED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// True if messages are coloured.
static COLOR: AtomicBool = AtomicBool::new(false);

/// Decides whether messages are coloured.
pub(crate) fn set_color(is_wanted: bool) {
    COLOR.store(is_wanted, Ordering::Relaxed);
}

/// Returns whether messages are coloured.
pub(crate) fn color() -> bool {
    COLOR.load(Ordering::Relaxed)
}

/// True if one JSON document is wanted on standard output.
static JSON: AtomicBool = AtomicBool::new(false);
/// True once something was written there.
static WRITTEN: AtomicBool = AtomicBool::new(false);

/// True if events are wanted there, each a JSON object on a line of its own.
static STREAM: AtomicBool = AtomicBool::new(false);

/// Decides whether events are wanted, of which the document is the last.
pub(crate) fn set_stream(is_wanted: bool) {
    STREAM.store(is_wanted, Ordering::Relaxed);
}

/// Prints an event, if they are wanted.
pub(crate) fn event(name: &str, data: impl FnOnce() -> Value) {
    if STREAM.load(Ordering::Relaxed) {
        // The name first, as iperf3 writes it, so that a person finds it in a long line.
        println!("{{\"event\":\"{name}\",\"data\":{}}}", data());
    }
}

/// Prints the JSON document, or where events are wanted the event `name` with it.
pub(crate) fn document(name: &str, document: Value) {
    if STREAM.load(Ordering::Relaxed) {
        event(name, || document);
        // Nothing comes after it.
        JSON.store(false, Ordering::Relaxed);
    } else {
        println!("{document}");
    }
}

/// Decides whether one JSON document is wanted.
pub(crate) fn set_json(is_wanted: bool) {
    JSON.store(is_wanted, Ordering::Relaxed);
}

/// Returns whether a JSON document is wanted and none was written.
pub(crate) fn lacks_document() -> bool {
    let is_begun = !STREAM.load(Ordering::Relaxed) && WRITTEN.load(Ordering::Relaxed);
    JSON.load(Ordering::Relaxed) && !is_begun
}

/// Writes to standard output.
pub(crate) fn out(text: Arguments<'_>) {
    WRITTEN.store(true, Ordering::Relaxed);
    let text = safe_text(&text.to_string(), color());
    if let Ok(Some((file, _))) = LOG.lock().as_deref_mut() {
        return note(file.write_all(text.as_bytes()));
    }
    print(Stream::Out, text);
}

/// Writes to standard error.
pub(crate) fn err(text: Arguments<'_>) {
    print(Stream::Err, safe_text(&text.to_string(), color()));
}

fn note(written: std::io::Result<()>) {
    if let (Err(error), Ok(mut failed)) = (written, FAILED.lock()) {
        // The first error is the cause; later ones follow from it.
        failed.get_or_insert(error);
    }
}

/// Writes what is still held back.
///
/// # Errors
/// If something printed was lost, and not because its reader wanted no more.
pub(crate) fn finish() -> Result<(), Failure> {
    note(std::io::stdout().lock().flush());
    let failed = FAILED.lock().ok().and_then(|mut failed| failed.take());
    match failed {
        // A reader that has seen enough is no failure.
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            let log = LOG.lock().ok();
            let path = log.as_ref().and_then(|log| Some(log.as_ref()?.1.display().to_string()));
            let object = path.as_deref().unwrap_or("standard output");
            Err(Failure::missing(format!(
                "write to {object}: {error} (what was printed is incomplete)"
            )))
        }
        _ => Ok(()),
    }
}
