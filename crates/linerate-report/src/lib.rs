//! The voice: a campaign and its study become a document, and a document becomes HTML, CSV, XLSX, Markdown or JSON.

#![forbid(unsafe_code)]
