//! Files of a server: the one file of a trial, which it serves under any name, or the files of a
//! folder. Listings are made when the server is prepared, so that serving them allocates nothing.
//!
//! The path of a request is decoded, its `.` and `..` are resolved as text, and the rest is looked
//! up among the files found beforehand. The kernel never sees the path, and no path can lead
//! outside of the folder.

use std::fs::File;
use std::io::{self, Write};

use linerate_disk::{Served, ServedEntry};

use super::dates::Date;
use super::percent;

/// The file of a trial.
const ONLY: usize = 1;

/// Files and folders of a server.
#[derive(Debug)]
pub(crate) struct Tree {
    /// The folder; `None` for the one file of a trial.
    served: Option<Served>,
    only: [ServedEntry; 2],
    /// By entry.
    listings: Vec<Option<Box<Listings>>>,
}

/// A folder, as each protocol lists it.
#[derive(Debug, Default)]
struct Listings {
    list: Vec<u8>,
    names: Vec<u8>,
    facts: Vec<u8>,
    page: Vec<u8>,
}

/// Form of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As `ls -l`: LIST of RFC 959.
    List,
    /// Names only: NLST of RFC 959.
    Names,
    /// Machine-readable facts: MLSD of RFC 3659 clause 7.
    Facts,
    /// A page with links.
    Page,
}

/// Entry at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FoundPath {
    File(usize),
    Folder(usize),
    Nothing,
}

impl Tree {
    /// Creates the tree of one file of `size` bytes, under any name; `modified` is in seconds since
    /// 1970.
    pub(crate) fn only(size: u64, modified: i64) -> Self {
        let only = [
            ServedEntry { path: Vec::new(), size: None, modified },
            ServedEntry { path: b"file".to_vec(), size: Some(size), modified },
        ];
        let listings = listings(&only);
        Self { served: None, only, listings }
    }

    /// Reads the files of a folder.
    pub(crate) fn folder(served: Served) -> Self {
        let listings = listings(served.entries());
        Self { listings, served: Some(served), ..Self::only(0, 0) }
    }

    fn entries(&self) -> &[ServedEntry] {
        self.served.as_ref().map_or(&self.only, |served| served.entries())
    }

    /// Returns true if every name is that of the one file.
    pub(crate) fn is_only(&self) -> bool {
        self.served.is_none()
    }

    /// Returns the entry at `path`, which [`resolve`] has resolved.
    pub(crate) fn find(&self, path: &[u8]) -> FoundPath {
        if self.is_only() {
            return if path.is_empty() { FoundPath::Folder(0) } else { FoundPath::File(ONLY) };
        }
        match self.entries().binary_search_by(|entry| entry.path.as_slice().cmp(path)) {
            Ok(place) if self.entries()[place].size.is_some() => FoundPath::File(place),
            Ok(place) => FoundPath::Folder(place),
            Err(_) => FoundPath::Nothing,
        }
    }

    /// Returns the file that every path names, if there is one.
    pub(crate) fn any_file(&self) -> Option<usize> {
        self.is_only().then_some(ONLY)
    }

    /// Returns the size of a file as it was listed, bytes.
    pub(crate) fn size(&self, file: usize) -> u64 {
        self.entries()[file].size.unwrap_or(0)
    }

    /// Returns the modification time of a file or folder.
    pub(crate) fn modified(&self, place: usize) -> Date {
        Date::of(self.entries()[place].modified)
    }

    /// Returns the path of a file or folder.
    pub(crate) fn path(&self, place: usize) -> &[u8] {
        &self.entries()[place].path
    }

    /// Opens a file and returns its present size; no file for the one of a trial, whose contents
    /// are the sender's own.
    pub(crate) fn open(&self, file: usize) -> io::Result<(Option<File>, u64)> {
        match &self.served {
            Some(served) => served.open(file).map(|(file, size)| (Some(file), size)),
            None => Ok((None, self.size(file))),
        }
    }

    /// Returns the listing of a folder in this form.
    pub(crate) fn listing(&self, folder: usize, form: Form) -> &[u8] {
        let Some(listings) = &self.listings[folder] else { return &[] };
        match form {
            Form::List => &listings.list,
            Form::Names => &listings.names,
            Form::Facts => &listings.facts,
            Form::Page => &listings.page,
        }
    }

    /// Writes the facts of one file or folder (MLST of RFC 3659 clause 7), without its name.
    pub(crate) fn write_facts(&self, place: usize, to: &mut impl Write) -> io::Result<()> {
        facts(&self.entries()[place], to)
    }
}

fn facts(entry: &ServedEntry, to: &mut impl Write) -> io::Result<()> {
    let date = Date::of(entry.modified).ftp();
    match entry.size {
        Some(size) => write!(to, "type=file;size={size};modify={date}; "),
        None => write!(to, "type=dir;modify={date}; "),
    }
}

fn listings(entries: &[ServedEntry]) -> Vec<Option<Box<Listings>>> {
    let mut all: Vec<Option<Box<Listings>>> = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut listings = Listings::default();
        if !entry.path.is_empty() {
            listings.page.extend(b"<a href=\"../\">../</a>\n");
        }
        all.push(entry.size.is_none().then(|| Box::new(listings)));
    }
    for entry in entries.iter().filter(|entry| !entry.path.is_empty()) {
        let slash = entry.path.iter().rposition(|byte| *byte == b'/');
        let (parent, name) = slash
            .map_or((&[][..], &entry.path[..]), |at| (&entry.path[..at], &entry.path[at + 1..]));
        let place = entries.binary_search_by(|other| other.path.as_slice().cmp(parent));
        if let Some(listings) = place.ok().and_then(|place| all[place].as_mut()) {
            // A write to memory cannot fail.
            let _ = listings.add(entry, name);
        }
    }
    for (entry, listings) in entries.iter().zip(&mut all) {
        if let Some(listings) = listings {
            let lines = std::mem::take(&mut listings.page);
            let path = escaped(&entry.path);
            let head = format!(
                "<!DOCTYPE html>\n<html><head><title>Index of /{path}</title></head><body>\n<pre>\n"
            );
            listings.page = [head.as_bytes(), &lines, b"</pre></body></html>\n"].concat();
        }
    }
    all
}

impl Listings {
    fn add(&mut self, entry: &ServedEntry, name: &[u8]) -> io::Result<()> {
        let date = Date::of(entry.modified);
        let mode = if entry.size.is_some() { "-rw-r--r--   1" } else { "drwxr-xr-x   2" };
        write!(
            self.list,
            "{mode} ftp      ftp      {:12} {} ",
            entry.size.unwrap_or(0),
            date.list()
        )?;
        facts(entry, &mut self.facts)?;
        for text in [&mut self.list, &mut self.names, &mut self.facts] {
            text.extend(name);
            text.extend(b"\r\n");
        }
        let slash = if entry.size.is_some() { "" } else { "/" };
        self.page.extend(b"<a href=\"./");
        percent::encode(name, &mut self.page);
        let size = entry.size.map_or_else(|| "-".to_owned(), |size| size.to_string());
        writeln!(self.page, "{slash}\">{}{slash}</a>  {}  {size}", escaped(name), date.index())
    }
}

/// Escapes a name for a page.
fn escaped(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Resolves `path` as text into `resolved`, from `folder` on unless it begins with a slash. The
/// result has parts separated by slashes, no `.`, no `..` (above the top is the top), and no slash
/// at either end. Returns `false` if the reserved bytes of `resolved` do not suffice; nothing is
/// allocated.
pub(crate) fn resolve(folder: &[u8], path: &[u8], resolved: &mut Vec<u8>) -> bool {
    resolved.clear();
    if folder.len() + path.len() + 1 > resolved.capacity() {
        return false;
    }
    let start: &[u8] = if path.first() == Some(&b'/') { &[] } else { folder };
    for part in start.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => {
                resolved.truncate(resolved.iter().rposition(|byte| *byte == b'/').unwrap_or(0))
            }
            part => {
                if !resolved.is_empty() {
                    resolved.push(b'/');
                }
                resolved.extend(part);
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn resolved(folder: &str, path: &str) -> String {
        let mut text = Vec::with_capacity(4096);
        assert!(resolve(folder.as_bytes(), path.as_bytes(), &mut text));
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn paths_stay_below_the_top() {
        assert_eq!(resolved("a/b", "c"), "a/b/c");
        assert_eq!(resolved("a/b", "/c//d/./"), "c/d");
        assert_eq!(resolved("a/b", "../../../../etc/passwd"), "etc/passwd");
        assert_eq!(resolved("", ".."), "");
        assert_eq!(resolved("a", "..a/...b"), "a/..a/...b");
        let mut small = Vec::with_capacity(4);
        let long = vec![b'a'; small.capacity()];
        assert!(!resolve(b"", &long, &mut small));
    }

    #[test]
    fn a_folder_is_listed_in_every_form_and_files_are_found() {
        let entry =
            |path: &str, size| ServedEntry { path: path.into(), size, modified: 784_111_777 };
        let entries =
            [entry("", None), entry("a", None), entry("a/b&c", Some(5)), entry("d", Some(7))];
        let all = listings(&entries);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let top = all[0].as_ref().expect("a folder");
        let list = "drwxr-xr-x   2 ftp      ftp                 0 Nov  6  1994 a\r\n\
                    -rw-r--r--   1 ftp      ftp                 7 Nov  6  1994 d\r\n";
        assert_eq!(text(&top.list), list);
        assert_eq!(text(&top.names), "a\r\nd\r\n");
        let facts =
            "type=dir;modify=19941106084937; a\r\ntype=file;size=7;modify=19941106084937; d\r\n";
        assert_eq!(text(&top.facts), facts);
        let page = text(&all[1].as_ref().expect("a folder").page);
        assert!(page.contains("<a href=\"./b%26c\">b&amp;c</a>  06-Nov-1994 08:49  5\n"), "{page}");
        let tree = Tree::only(9, 0);
        assert_eq!(tree.find(b""), FoundPath::Folder(0));
        assert_eq!((tree.find(b"x/y"), tree.size(ONLY)), (FoundPath::File(ONLY), 9));
    }

    proptest! {
        #[test]
        fn no_path_has_a_part_that_leads_up(folder in "[a./]{0,20}", path in "[a./]{0,40}") {
            let text = resolved(&folder, &path);
            let is_sound = |part| !matches!(part, "" | "." | "..");
            let sound = text.is_empty() || text.split('/').all(is_sound);
            prop_assert!(sound, "{}", text);
        }
    }
}
