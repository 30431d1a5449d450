//! Integration tests of this crate as one program, because each program costs a link of
//! everything that the crate depends on.

mod glossary;
mod plan;
mod plan_texts;
