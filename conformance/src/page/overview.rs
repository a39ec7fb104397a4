//! All requirements and all clients side by side.

use std::collections::BTreeSet;

use super::{
    Sources,
    judge::Verdict,
    text::{Rows, line},
};

/// What every client is judged by, then what says how questions are bounded: of those who bound none
/// there is nothing to say, and they have no column.
pub(super) fn tables(sources: &Sources, rows: &Rows<'_>) -> String {
    let presumes_limit = |id: &str| {
        sources
            .register
            .get(id)
            .is_some_and(|one| one.presumes_limit)
    };
    let everyone: Vec<usize> = (0..sources.clients.len()).collect();
    let bounding: Vec<usize> = everyone
        .iter()
        .copied()
        .filter(|&place| {
            rows.iter()
                .any(|(id, cells)| presumes_limit(id) && cells[place].verdict != Verdict::NoLimit)
        })
        .collect();
    let mut text = String::from("## All requirements\n\n");
    let used: BTreeSet<Verdict> = rows
        .iter()
        .flat_map(|(_, cells)| cells.iter().map(|cell| cell.verdict))
        .collect();
    for verdict in Verdict::ALL {
        if used.contains(&verdict) {
            line(
                &mut text,
                format_args!("- {}: {}.", verdict.word(), verdict.means()),
            );
        }
    }
    text.push_str("\n### Of every client\n\n");
    table(&mut text, sources, rows, &everyone, |id| {
        !presumes_limit(id)
    });
    if bounding.is_empty() {
        return text;
    }
    let others = everyone.len() - bounding.len();
    line(
        &mut text,
        format_args!(
            "### Of those who bound questions\n\nThese say how questions are bounded. \
             The other {others} clients bound none, so that there is nothing to judge.\n"
        ),
    );
    table(&mut text, sources, rows, &bounding, presumes_limit);
    text
}

/// The rows of some requirements, with the columns of some clients.
fn table(
    text: &mut String,
    sources: &Sources,
    rows: &Rows<'_>,
    places: &[usize],
    is_meant: impl Fn(&str) -> bool,
) {
    let shorts: Vec<&str> = places
        .iter()
        .map(|&place| sources.clients[place].short.as_str())
        .collect();
    line(
        text,
        format_args!(
            "| requirement | {} |\n|---{}|",
            shorts.join(" | "),
            "|---".repeat(shorts.len())
        ),
    );
    for (id, cells) in rows.iter().filter(|(id, _)| is_meant(id)) {
        let words: Vec<&str> = places
            .iter()
            .map(|&place| cells[place].verdict.word())
            .collect();
        line(
            text,
            format_args!("| [{id}](#{id}) | {} |", words.join(" | ")),
        );
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{tests::all_met_but, text};

    fn headers(unmet: &[&str]) -> Vec<String> {
        let sources = all_met_but(unmet);
        let text = tables(&sources, &text::rows(&sources));
        let lines = text.lines().map(str::to_owned);
        lines
            .filter(|line| line.starts_with("| requirement"))
            .collect()
    }

    #[test]
    fn who_bounds_nothing_has_no_column_in_what_says_how() {
        let [everyone, bounding] = &headers(&[])[..] else {
            panic!("two tables");
        };
        assert!(
            everyone.starts_with("| requirement | ours | rmcp | "),
            "{everyone}"
        );
        assert_eq!(bounding, "| requirement | ours |");
        let bounds = crate::register::BOUNDS;
        assert_eq!(
            headers(&bounds),
            [everyone.as_str()],
            "there is nothing to show"
        );
    }
}
