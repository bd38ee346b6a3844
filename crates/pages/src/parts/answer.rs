//! The sentence, and the line of trust.

use std::fmt::Write as _;

use findings::{Role, Shape};

use super::table;
use crate::page::View;
use crate::shown::{self, LINE, NAME, SENTENCE};

pub(crate) fn header(view: &View<'_>) -> String {
    let document = view.document;
    let answer = &document.answer;
    let (shape, style) = match answer.shape {
        Shape::Limit => ("Limit", "limit"),
        Shape::Cause => ("Cause", "cause"),
        Shape::Nothing => ("Nothing abnormal", "nothing"),
        Shape::CannotSay => ("Cannot say", "cannot"),
    };
    let mut out = format!(
        "<header class=\"answer {style}\">\n<p class=\"kicker\"><span class=\"tool\">inferscope why</span><span class=\"shape\">{shape}</span></p>\n<h1 data-path=\"/answer/sentence\" data-unit=\"text\">{}</h1>\n",
        shown::marked(&answer.sentence, SENTENCE)
    );
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(time) = &answer.step_time_ns {
        facts.push(("step time", shown::interval("/answer/step_time_ns", time)));
    }
    if let Some(bound) = &answer.bound {
        facts.push(("bound", shown::text("/answer/bound", bound, NAME)));
    }
    if let Some(phase) = &answer.phase {
        facts.push(("phase", shown::name("/answer/phase", phase, NAME)));
    }
    if let Some(rank) = answer.rank {
        facts.push(("rank", shown::id("/answer/rank", rank)));
    }
    if let Some(cause) = &answer.cause {
        facts.push(("cause", shown::text("/answer/cause", cause, NAME)));
    }
    if !facts.is_empty() {
        out.push_str("<dl class=\"facts\">");
        for (name, value) in facts {
            // Writing into a String cannot fail, here and below.
            let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
        }
        out.push_str("</dl>\n");
    }
    let finding = document
        .findings
        .iter()
        .take(super::findings::MOST)
        .position(|finding| answer.finding.as_ref() == Some(&finding.id));
    if let Some(index) = finding {
        let _ = writeln!(
            out,
            "<p class=\"jump\"><a href=\"#f{index}\">The evidence</a></p>"
        );
    } else if answer.shape == Shape::CannotSay && !document.not_recorded.is_empty() {
        out.push_str("<p class=\"jump\"><a href=\"#missing\">What to record</a></p>\n");
    }
    out.push_str(&trust(view));
    out.push_str("</header>\n");
    out
}

fn trust(view: &View<'_>) -> String {
    let document = view.document;
    let trust = &document.trust;
    let mut items = Vec::new();
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    items.push(format!(
        "{} file{}",
        shown::count("/trust/files", trust.files),
        plural(trust.files)
    ));
    match trust.ranks_present.len() {
        0 => {}
        1 => items.push(format!(
            "rank {}",
            shown::ranges("/trust/ranks_present", &trust.ranks_present)
        )),
        _ => items.push(format!(
            "ranks {}",
            shown::ranges("/trust/ranks_present", &trust.ranks_present)
        )),
    }
    if !trust.ranks_missing.is_empty() {
        items.push(format!(
            "<strong class=\"warn\">rank{} {} not recorded</strong>",
            plural(trust.ranks_missing.len() as u64),
            shown::ranges("/trust/ranks_missing", &trust.ranks_missing)
        ));
    }
    items.push(format!(
        "{} step{} used, {} left out",
        shown::count("/trust/steps_used", trust.steps_used),
        plural(trust.steps_used),
        shown::count("/trust/steps_left_out", trust.steps_left_out)
    ));
    let lost = format!(
        "{} event{} lost",
        shown::count("/trust/events_lost", trust.events_lost),
        plural(trust.events_lost)
    );
    items.push(if trust.events_lost > 0 {
        format!("<strong class=\"warn\">{lost}</strong>")
    } else {
        lost
    });
    if let Some(within) = trust.clocks_within_ns {
        items.push(format!(
            "clocks aligned within {}",
            shown::ns("/trust/clocks_within_ns", within)
        ));
    }
    if let Some(within) = trust.headline_within_ns {
        items.push(format!(
            "the step time could move by ±{}",
            shown::ns("/trust/headline_within_ns", within)
        ));
    }
    if let Some(effect) = trust.smallest_effect_ns {
        items.push(format!(
            "an effect of {} or more would show",
            shown::ns("/trust/smallest_effect_ns", effect)
        ));
    }
    if let Some(error) = trust.model_error_pct {
        items.push(format!(
            "model error {}",
            shown::pct("/trust/model_error_pct", error)
        ));
    }
    if let Some(coverage) = trust.roofline_coverage_pct {
        items.push(format!(
            "limits known for {} of GPU time",
            shown::pct("/trust/roofline_coverage_pct", coverage)
        ));
    }
    let mut out = String::from("<ul class=\"trust\" aria-label=\"What the answer rests on\">");
    for item in items {
        let _ = write!(out, "<li>{item}</li>");
    }
    out.push_str("</ul>\n");
    if let Some(note) = trust.notes.first() {
        let _ = writeln!(
            out,
            "<p class=\"caveat\">{}</p>",
            shown::text("/trust/notes/0/text", &note.text, SENTENCE)
        );
    }
    out.push_str(&scope(view));
    out
}

/// Returns what was chosen, assumed and read.
fn scope(view: &View<'_>) -> String {
    let document = view.document;
    let scope = &document.scope;
    let mut chosen = Vec::new();
    if let Some((first, last)) = scope.steps {
        chosen.push(format!(
            "steps {} to {}",
            shown::id("/scope/steps/0", first),
            shown::id("/scope/steps/1", last)
        ));
    }
    if let Some((begin, end)) = scope.window_ns {
        chosen.push(format!(
            "window {} to {}",
            shown::ns("/scope/window_ns/0", begin),
            shown::ns("/scope/window_ns/1", end)
        ));
    }
    if let Some(phase) = &scope.phase {
        chosen.push(format!(
            "phase {}",
            shown::name("/scope/phase", phase, NAME)
        ));
    }
    if let Some(rank) = scope.rank {
        chosen.push(format!("rank {}", shown::id("/scope/rank", rank)));
    }
    let mut out = String::new();
    if !chosen.is_empty() {
        let _ = writeln!(out, "<p class=\"chosen\">Only {}.</p>", chosen.join(", "));
    }
    let notes = &document.trust.notes;
    let unread: Vec<_> = scope
        .files
        .iter()
        .enumerate()
        .filter(|(_, file)| file.problem.is_some())
        .collect();
    for (index, file) in unread.iter().take(3) {
        let _ = writeln!(
            out,
            "<p class=\"caveat\">Not used: {}: {}</p>",
            shown::name(&format!("/scope/files/{index}/name"), &file.name, NAME),
            shown::text(
                &format!("/scope/files/{index}/problem"),
                file.problem.as_deref().unwrap_or_default(),
                LINE
            )
        );
    }
    if scope.files.is_empty() && scope.assumed.is_empty() && notes.len() < 2 {
        return out;
    }
    out.push_str("<details class=\"quiet\"><summary>Files, assumptions, caveats</summary>\n");
    if notes.len() > 1 || !scope.assumed.is_empty() {
        out.push_str("<ul>");
        for (index, note) in notes.iter().enumerate().skip(1).take(20) {
            let _ = write!(
                out,
                "<li>{}</li>",
                shown::text(&format!("/trust/notes/{index}/text"), &note.text, SENTENCE)
            );
        }
        for (index, assumed) in scope.assumed.iter().enumerate().take(20) {
            let _ = write!(
                out,
                "<li>Assumed: {}</li>",
                shown::text(&format!("/scope/assumed/{index}"), assumed, SENTENCE)
            );
        }
        out.push_str("</ul>\n");
    }
    let most = view.most(64);
    let mut rows = String::new();
    for (index, file) in scope.files.iter().enumerate().take(most) {
        let path = |field: &str| format!("/scope/files/{index}/{field}");
        let rank = file
            .rank
            .map_or(String::new(), |rank| shown::id(&path("rank"), rank));
        let problem = file.problem.as_ref().map_or(String::new(), |problem| {
            format!(
                "<br/><span class=\"warn\">{}</span>",
                shown::text(&path("problem"), problem, LINE)
            )
        });
        let role = match file.role {
            Role::Trace => "trace",
            Role::Capture => "capture of graphs",
            Role::BlockIo => "block I/O",
            Role::GpuLog => "GPU log",
            Role::EngineLog => "engine log",
            Role::MemoryAccesses => "memory accesses",
            Role::Samples => "samples",
            Role::Unused => "not used",
        };
        let side = shown::side(file.side).map_or(String::new(), |side| format!(", {side}"));
        let _ = writeln!(
            rows,
            "<tr><td class=\"t\">{}{problem}</td><td>{}</td><td>{role}{side}</td><td class=\"r\">{rank}</td><td class=\"r\">{}</td></tr>",
            shown::name(&path("name"), &file.name, NAME),
            shown::text(&path("format"), &file.format, 40),
            shown::bytes(&path("bytes"), file.bytes as f64)
        );
    }
    if !rows.is_empty() {
        let heads = [
            ("file", ""),
            ("format", ""),
            ("used as", ""),
            ("rank", "r"),
            ("size", "r"),
        ];
        out.push_str(&table("Files", &heads, &rows));
        out.push_str(&super::rows_left_out(
            "/scope/files",
            scope.files.len(),
            most,
        ));
    }
    out.push_str("</details>\n");
    out
}
