//! No text of the kernel, real, damaged or made up, makes a reader panic.

use std::path::Path;

use proptest::prelude::*;

#[path = "../../../fuzz/driver.rs"]
mod driver;
#[path = "../../../fuzz/entries/kernel_text.rs"]
#[allow(unreachable_pub)]
mod entry;

/// Pieces of the files that are read, so that made-up ones get past their first word.
const PIECES: &[&str] = &[
    "cpu  1 2 3 4\n",
    "cpu0 18446744073709551615 2 3 4 5 6 7 8 9 10\n",
    "cpu0 1\n",
    "cpu4294967295 1 2 3 4\n",
    "cpu",
    "ctxt 18446744073709551616\n",
    "ctxt ",
    "pswpin 18446744073709551616\n",
    "pswpout ",
    "intr 12 0 0\n",
    "      CPU0 CPU1 CPU70000\n",
    "NET_RX: 1 4294967296\n",
    "NET_TX:",
    "Udp: InDatagrams NoPorts InErrors InDatagrams\n",
    "Udp: 1 -1\n",
    "Udp6InDatagrams 7\n",
    "Udp6InDatagrams\n",
    "MemAvailable: 18446744073709551615 kB\n",
    "MemTotal: 18446744073709551615 kB\n",
    "some avg10=0.00 total=18446744073709551615\n",
    "full total=\n",
    "0000000f ffffffffffffffff 0 0 0 0 0 0 0 0 0 0 ffffffff\n",
    "0-65535,0-65535,",
    "1-0,",
    "1,2,3\n",
    "1 0 8 1 2 0 16 1 0 2 3 18446744073709551616\n",
    "18446744073709551615\n",
    "\0\u{1F600} \t",
    "\n",
];

/// Forms of lines that come near those of the kernel.
const FORMS: &[&str] = &[
    "((MemAvailable|Dirty)?:? ?[0-9a-z]{0,25} kB\n?){0,5}",
    "(([0-9a-g]{0,20} ){0,15}\n?){0,5}",
    "((some|full)? ?(total=)?[0-9.x]{0,25}\n?){0,5}",
    "([ 0-9a-z]{0,25} ?){0,20}\n?",
    "(ctxt ?[0-9x -]{0,30}\n?){0,5}",
    "(pswp(in|out)? ?[0-9x -]{0,30}\n?){0,5}",
];

/// The files captured from kernels.
fn captured() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let entries = std::fs::read_dir(folder)
        .expect("there are some")
        .map(|entry| entry.expect("readable").path());
    entries
        .filter(|path| path.is_file())
        .map(|path| std::fs::read(path).expect("readable"))
        .collect()
}

#[test]
fn what_kernels_have_written_is_read() {
    let captured = captured();
    assert!(captured.len() > 10);
    let mut readers: Vec<&str> = Vec::new();
    for text in &captured {
        entry::kernel_text(text);
        let rows = linerate_observe::samplers::read_any(text);
        readers.extend(
            rows.iter().filter(|(_, row)| row.iter().any(Option::is_some)).map(|(name, _)| *name),
        );
    }
    readers.sort_unstable();
    readers.dedup();
    let all: Vec<&str> =
        linerate_observe::samplers::read_any(b"").into_iter().map(|(name, _)| name).collect();
    assert_eq!(readers, all, "every reader finds something in some file");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        entry::kernel_text(&bytes);
    }

    #[test]
    fn no_text_of_a_form_makes_a_reader_panic(
        text in prop::sample::select(FORMS).prop_flat_map(|form| form.prop_map(String::from))
    ) {
        entry::kernel_text(text.as_bytes());
    }

    #[test]
    fn no_pieces_of_files_make_a_reader_panic(order in prop::collection::vec(0..PIECES.len(),
        0..24)) {
        let text: String = order.into_iter().map(|piece| PIECES[piece]).collect();
        entry::kernel_text(text.as_bytes());
    }

    #[test]
    fn no_damage_makes_a_reader_panic(file in 0..64_usize, at in any::<usize>(),
        patch in prop::collection::vec(any::<u8>(), 0..9)) {
        let mut captured = captured();
        let n_files = captured.len();
        let text = &mut captured[file % n_files];
        let start = at % (text.len() + 1);
        let end = (start + patch.len()).min(text.len());
        text.splice(start..end, patch);
        entry::kernel_text(text);
    }
}

#[test]
fn fuzz_kernel_text() {
    driver::fuzz("kernel_text", captured(), PIECES, |bytes| {
        entry::kernel_text(bytes);
        let rows = linerate_observe::samplers::read_any(bytes);
        let read = rows
            .iter()
            .map(|(name, row)| (*name, "+".repeat(row.iter().flatten().count().min(20))));
        driver::class(&read.filter(|(_, found)| !found.is_empty()).collect::<Vec<_>>())
    });
}
