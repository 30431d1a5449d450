//! Listings of folders, and facts of one file: LIST, NLST, MLSD, MLST, SIZE and MDTM (RFC 959, RFC
//! 3659).

use std::io::Write as _;

use linerate_sys::readiness::Interest;

use super::{Cargo, Command, FtpGuest, State};
use crate::workloads::transfer::{Bench, Failure, Form, FoundPath, Turn};

impl FtpGuest {
    /// Chooses the folder that the argument names, for a listing in this form.
    pub(super) fn list(&mut self, form: Form) {
        // Some clients send options of `ls`.
        let has_options = self.argument.first() == Some(&b'-');
        if has_options {
            let end =
                // `LIST -la folder` names the folder after the options, if at all.
                self.argument.iter().position(|byte| *byte == b' ').unwrap_or(self.argument.len());
            self.argument.drain(..end);
            let blanks = self.argument.iter().take_while(|byte| **byte == b' ').count();
            self.argument.drain(..blanks);
        }
        let folder = match self.found() {
            FoundPath::Folder(folder) => folder,
            // A trial's one file has every name.
            _ if self.tree.is_only() => 0,
            // A listing of a file would have one line; only folders are supported.
            _ => return self.refuse_path(),
        };
        self.cargo = Cargo::Listing(folder, form, 0);
        self.words.set(format_args!("150 Here it comes\r\n"));
        self.state = State::Expecting;
    }

    /// Answers with the size, the time or the facts of the argument's file.
    pub(super) fn tell(&mut self, command: Command) {
        let (place, is_file) = match self.found() {
            FoundPath::File(file) => (file, true),
            FoundPath::Folder(folder) if command == Command::Facts => (folder, false),
            _ => return self.refuse_path(),
        };
        match command {
            Command::Size => self.words.set(format_args!("213 {}\r\n", self.tree.size(place))),
            Command::Modified => {
                self.words.set(format_args!("213 {}\r\n", self.tree.modified(place).ftp()))
            }
            _ => {
                let (tree, path) = (&self.tree, &self.path);
                debug_assert!(is_file || !tree.path(place).is_empty() || path.is_empty());
                self.words.set(format_args!("250-Facts\r\n "));
                self.words.add(|text| {
                    tree.write_facts(place, text)?;
                    text.write_all(b"/")?;
                    text.write_all(path)?;
                    text.write_all(b"\r\n250 End\r\n")
                });
            }
        }
    }

    pub(super) fn send_listing(
        &mut self,
        folder: usize,
        form: Form,
        sent: usize,
        bench: &Bench<'_>,
    ) -> Result<Turn, Failure> {
        let data = self.data.as_mut().expect("data flows over it");
        let listing = self.tree.listing(folder, form);
        // The listing was made once; a position in it is all the state.
        let Some(n) = data.write(&listing[sent..])? else {
            return data.wait(bench, Interest::ReadableOrWritable);
        };
        self.moved += n as u64;
        self.cargo = Cargo::Listing(folder, form, sent + n);
        if sent + n == listing.len() {
            if !data.flush().map_err(|error| Failure::io(&error))? {
                return data.wait(bench, Interest::ReadableOrWritable);
            }
            self.end_of_cargo(bench);
        }
        Ok(Turn::Moved)
    }
}
