//! What is printed. The standard macros panic when nobody reads on (`linerate run PLAN 2>&1 | head -1`), in the middle of a
//! campaign or of a lab that stands. These, of the same names and all over this crate, do not: what is measured is worth more
//! than what is said about it. Any other failure, such as a full disk, is told once, at the end.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{ErrorKind, Write};
use std::sync::Mutex;

use crate::exit::Failure;

/// Prints to standard output.
macro_rules! print {
    ($($argument:tt)*) => { $crate::output::out(format_args!($($argument)*)) };
}

/// Prints a line to standard output.
macro_rules! println {
    () => { $crate::output::out(format_args!("\n")) };
    ($($argument:tt)*) => { $crate::output::out(format_args!("{}\n", format_args!($($argument)*))) };
}

/// Prints a line to standard error.
macro_rules! eprintln {
    ($($argument:tt)*) => { $crate::output::err(format_args!("{}\n", format_args!($($argument)*))) };
}

/// Why standard output could not be written, if it could not.
static FAILED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// `text` without the passwords of addresses in it, whoever put them there.
fn shown(text: Arguments<'_>) -> String {
    let text = text.to_string();
    match linerate_model::redacted(&text) {
        Cow::Borrowed(_) => text,
        Cow::Owned(hidden) => hidden,
    }
}

/// Writes to standard output.
pub(crate) fn out(text: Arguments<'_>) {
    note(std::io::stdout().lock().write_all(shown(text).as_bytes()));
}

/// Writes to standard error; there is nowhere left to say that it failed.
pub(crate) fn err(text: Arguments<'_>) {
    let _unread = std::io::stderr().lock().write_all(shown(text).as_bytes());
}

fn note(written: std::io::Result<()>) {
    if let (Err(error), Ok(mut failed)) = (written, FAILED.lock()) {
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
        Some(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::missing(format!("write to standard output: {error} (what was printed is incomplete)")))
        }
        _ => Ok(()),
    }
}
