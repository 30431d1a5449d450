//! Problems in a person's text, shown at their places.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use linerate_model::{Lines, Problem, printable};

/// Returns every problem of the text `source`, which was read from `origin`.
pub(crate) fn shown(origin: &str, source: &str, problems: &[Problem]) -> String {
    let renderer = if crate::output::color() { Renderer::styled() } else { Renderer::plain() };
    let shown: Vec<String> =
        problems.iter().map(|problem| render(&renderer, origin, source, problem)).collect();
    let n = problems.len();
    let plural = if n == 1 { "" } else { "s" };
    let origin = printable(origin, Lines::One);
    format!("{}\n{origin}: {n} problem{plural}; nothing was run", shown.join("\n\n"))
}

fn render(renderer: &Renderer, origin: &str, source: &str, problem: &Problem) -> String {
    let mut help = Vec::new();
    if let Some(expected) = &problem.expected {
        help.push(format!("expected {expected}"));
    }
    if let Some(nearest) = &problem.nearest {
        help.push(format!("did you mean `{nearest}`?"));
    }
    // A line that is shown may have an address with a password in it.
    let source = &*linerate_model::masked(source);
    let origin = &*printable(origin, Lines::One);
    let title = Level::ERROR.primary_title(problem.message.as_str());
    let mut group = Group::with_title(title);
    // A place beyond the text would panic in the renderer.
    if let Some(span) = problem.span.clone().filter(|span| span.end <= source.len()) {
        let annotation = AnnotationKind::Primary.span(span);
        group = group.element(Snippet::source(source).path(origin).annotation(annotation));
    }
    for line in &help {
        group = group.element(Level::HELP.message(line.as_str()));
    }
    renderer.render(&[group])
}
