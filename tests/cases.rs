//! Every case from the field is held by a test named after it: `tests/data/cases.txt` says by
//! which, and this says that it says so of all, and of tests that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

const INDEX: &str = include_str!("data/cases.txt");

/// All the cases, so that none is left out of the index.
const CASES: [&str; 55] = [
    "flood-burst",
    "flood-blocked-handler",
    "flood-identical",
    "flood-neighbour",
    "flood-mixed-kinds",
    "flood-reconnect",
    "flood-no-model-cost",
    "never-decline",
    "never-accept",
    "handler-error-kept",
    "data-on-the-wire",
    "retry-is-true",
    "no-leak",
    "capabilities-untouched",
    "id-reused-later",
    "id-types",
    "cancel-admitted",
    "cancel-to-be-free",
    "transport-gone",
    "future-dropped",
    "handler-fails",
    "slow-person",
    "question-expires",
    "round-too-big",
    "round-again",
    "round-with-roots",
    "round-one-bad-entry",
    "round-one-fails",
    "state-untouched",
    "rounds-bounded",
    "round-abandoned",
    "task-polled",
    "url-required",
    "url-loop",
    "three-doors",
    "window-starts-at-first",
    "window-edge",
    "window-not-extended",
    "window-each-full",
    "window-of-one",
    "clock-backwards",
    "other-window-uncharged",
    "name-rewritten",
    "names-joined",
    "table-full",
    "last-permit",
    "snapshot-while-racing",
    "reload-same",
    "reload-raised",
    "reload-lowered",
    "bad-values",
    "names-exact",
    "key-without-effect",
    "log-flood",
    "malformed-lane",
];

/// The lines of the index: a case, and its tests.
fn index() -> Vec<(&'static str, Vec<&'static str>)> {
    let lines = INDEX.lines().filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            (words.next().unwrap(), words.collect())
        })
        .collect()
}

/// The tests of a source file: functions under an attribute that makes them run, not ignored.
fn tests_in(source: &str) -> BTreeSet<&str> {
    let (mut is_test, mut is_ignored) = (false, false);
    let mut tests = BTreeSet::new();
    for line in source.lines().map(str::trim_start) {
        if let Some(attribute) = line.strip_prefix("#[") {
            is_test |= ["test]", "tokio::test", "rstest]"]
                .iter()
                .any(|start| attribute.starts_with(start));
            is_ignored |= attribute.starts_with("ignore");
            continue;
        }
        let signature = line.strip_prefix("async ").unwrap_or(line);
        if let Some(rest) = signature.strip_prefix("fn ")
            && let Some((name, _)) = rest.split_once(['(', '<'])
            && is_test
            && !is_ignored
        {
            tests.insert(name);
        }
        if !line.starts_with("//") {
            (is_test, is_ignored) = (false, false);
        }
    }
    tests
}

#[test]
fn the_index_has_every_case_once() {
    let listed: Vec<_> = index().into_iter().map(|(case, _)| case).collect();
    assert_eq!(listed, CASES);
}

#[test]
fn every_case_is_held_by_a_test_named_after_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = BTreeMap::new();
    for (case, tests) in index() {
        let named = case.replace('-', "_");
        let first = tests.first().and_then(|test| test.split_once("::"));
        assert!(
            first.is_some_and(|(_, test)| test.starts_with(&named)),
            "{case}: the first test is not named after it"
        );
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let path = match file.strip_prefix("src/") {
                Some(module) => root.join(format!("src/{module}.rs")),
                None => root.join(format!("tests/{file}.rs")),
            };
            let source = sources
                .entry(path.clone())
                .or_insert_with(|| fs::read_to_string(&path).unwrap_or_default());
            assert!(
                tests_in(source).contains(name),
                "{case}: no test {name} in {}",
                path.display()
            );
        }
    }
}
