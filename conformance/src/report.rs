//! Reports for people; the JSON is that of [`ScenarioReport`] itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use crate::{checks::Outcome, protocol::Revision, run::ScenarioReport};

/// The lines about one scenario.
pub(crate) fn scenario(report: &ScenarioReport) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} ({} over {}, {:.1} s): {}",
        report.scenario,
        report.revision,
        report.transport.as_str(),
        report.seconds,
        report.title
    );
    let (alike, checks) = match same_reason(report) {
        Some(why) => (Some(why), &[][..]),
        None => (None, &report.checks[..]),
    };
    if let Some(why) = alike {
        let _ = writeln!(text, "  not testable  all {} checks", report.checks.len());
        let _ = writeln!(text, "  {:<12}    {why}", "");
    }
    for check in checks {
        let (word, about) = match &check.outcome {
            Outcome::Met { note } => ("met", note.as_deref().unwrap_or_default()),
            Outcome::ByProcess { why } => ("by process", why.as_str()),
            Outcome::Unmet { why } => ("UNMET", why.as_str()),
            Outcome::NotTestable { why } => ("not testable", why.as_str()),
        };
        let _ = writeln!(text, "  {word:<12}  {}", check.check);
        if !about.is_empty() {
            let _ = writeln!(text, "  {:<12}    {about}", "");
        }
        if matches!(check.outcome, Outcome::Unmet { .. }) {
            let requires = check.requires.join(", ");
            let _ = writeln!(text, "  {:<12}    required by {requires}", "");
        }
    }
    if let Some(why) = &report.client_failed {
        let _ = writeln!(text, "  the client failed: {why}");
        for line in report
            .printed
            .lines()
            .rev()
            .take(20)
            .collect::<Vec<_>>()
            .iter()
            .rev()
        {
            let _ = writeln!(text, "  | {line}");
        }
    }
    text
}

/// The checks that are not met, by scenario.
pub(crate) type Unmet = BTreeMap<String, BTreeSet<String>>;

/// What is not met.
pub(crate) fn unmet(reports: &[ScenarioReport]) -> Unmet {
    let mut all = Unmet::new();
    for report in reports {
        for check in &report.checks {
            if matches!(check.outcome, Outcome::Unmet { .. }) {
                let checks = all.entry(report.scenario.clone()).or_default();
                checks.insert(check.check.clone());
            }
        }
    }
    all
}

/// What was not played, since the client took no part in what was.
pub(crate) fn skipped(skipped: usize, reports: &[ScenarioReport]) -> String {
    let out: BTreeSet<_> = reports
        .iter()
        .map(|report| report.revision)
        .filter(|&revision| {
            let mut of_revision = reports.iter().filter(|one| one.revision == revision);
            of_revision.all(|report| !report.took_part)
        })
        .map(Revision::as_str)
        .collect();
    let out: Vec<_> = out.into_iter().collect();
    format!(
        "{skipped} more scenarios of {} were not played: the client made no call in the first ones\n",
        out.join(" and ")
    )
}

/// Why no check could be made, if that is the same for all.
fn same_reason(report: &ScenarioReport) -> Option<&str> {
    let (first, others) = report.checks.split_first()?;
    let Outcome::NotTestable { why } = &first.outcome else {
        return None;
    };
    let is_alike = !others.is_empty() && others.iter().all(|one| one.outcome == first.outcome);
    is_alike.then_some(why)
}

/// How many checks of a run ended how.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) met: usize,
    pub(crate) by_process: usize,
    pub(crate) unmet: usize,
    pub(crate) not_testable: usize,
    /// Scenarios in which the client failed as a program.
    pub(crate) failed: usize,
    /// Whether a question was ever refused.
    pub(crate) has_refused: bool,
    /// Whether one should have been, by a reply.
    pub(crate) should_refuse: bool,
    /// Whether the client made a call.
    pub(crate) took_part: bool,
}

/// The last lines of a run.
pub(crate) fn totals(totals: &Totals) -> String {
    let Totals {
        met,
        by_process,
        unmet,
        not_testable,
        failed,
        has_refused,
        should_refuse,
        took_part,
    } = totals;
    let mut text = format!("{met} met, {unmet} unmet, {not_testable} not testable\n");
    if *by_process > 0 {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{by_process} met by each process of the relay, and not over several: its windows end with it"
        );
    }
    // Writing to a string does not fail.
    let _ = match (met + unmet, failed) {
        (_, 1) => writeln!(
            text,
            "the client failed in a scenario: what it printed stands there"
        ),
        (_, 2..) => writeln!(
            text,
            "the client failed in {failed} scenarios: what it printed stands under each; \
             --revision plays one revision alone"
        ),
        (0, 0) if *took_part => writeln!(
            text,
            "nothing could be tested: why, stands beside the checks"
        ),
        (0, 0) => writeln!(
            text,
            "nothing could be tested: a client takes part by connecting to the servers, listing and calling their tools"
        ),
        _ => Ok(()),
    };
    if *should_refuse && !has_refused {
        text.push_str(
            "no question was refused: the client has no limits, or others than those it was held to (--limits)\n",
        );
    }
    if *unmet > 0 {
        let _ = writeln!(
            text,
            "conformance explain NAME says where a requirement comes from"
        );
    }
    text
}

impl Totals {
    pub(crate) fn of(reports: &[ScenarioReport]) -> Self {
        let mut totals = Self::default();
        for report in reports {
            totals.failed += usize::from(report.client_failed.is_some());
            totals.has_refused |= report.has_refused;
            totals.should_refuse |= report.should_refuse;
            totals.took_part |= report.took_part;
            for check in &report.checks {
                match check.outcome {
                    Outcome::Met { .. } => totals.met += 1,
                    Outcome::ByProcess { .. } => totals.by_process += 1,
                    Outcome::Unmet { .. } => totals.unmet += 1,
                    Outcome::NotTestable { .. } => totals.not_testable += 1,
                }
            }
        }
        totals
    }
}
