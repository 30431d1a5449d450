//! Tables of benchmark results, in the product's Markdown.

use linerate_report::document::Table;
use linerate_report::markdown_table;

/// Returns a Markdown table of words with these column heads.
pub(crate) fn table(heads: &[impl AsRef<str>], rows: &[Vec<String>]) -> String {
    markdown_table(&Table::of_words("", "", heads, rows))
}
