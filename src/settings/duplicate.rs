//! The full name of a key that stands twice. The parser says where its second place is, and keeps
//! nothing of it in the document.

use std::ops::Range;

use toml::de::DeTable;

use super::keys;

/// The name of the key that ends `text[..key.end]`, by its own line and the header above.
/// `is_value` says whether a place in the text lies within a value: a line there is no header.
pub(super) fn name(text: &str, key: Range<usize>, is_value: impl Fn(usize) -> bool) -> String {
    let line = line_start(text, key.start);
    let written = text.get(line..key.end).unwrap_or_default().trim_start();
    let path = match written.strip_prefix('[') {
        Some(header) => dotted(header.trim_start_matches('[')),
        None => {
            let mut path = header_above(text, line, is_value);
            path.extend(dotted(written));
            path
        }
    };
    path.iter()
        .fold(String::new(), |path, key| keys::join(&path, key))
}

fn line_start(text: &str, offset: usize) -> usize {
    text[..offset].rfind('\n').map_or(0, |newline| newline + 1)
}

/// The keys of the last header above the line that begins at `line`.
fn header_above(text: &str, line: usize, is_value: impl Fn(usize) -> bool) -> Vec<String> {
    let mut below = line;
    while let Some(end) = below.checked_sub(1) {
        let start = line_start(text, end);
        let header = text[start..end].trim();
        if header.starts_with('[')
            && !is_value(start)
            && let Some((inside, _)) = header.trim_start_matches('[').rsplit_once(']')
        {
            return dotted(inside.trim_end_matches(']'));
        }
        below = start;
    }
    Vec::new()
}

/// The keys of `a."b c".d`.
fn dotted(text: &str) -> Vec<String> {
    let line = format!("{text} = 0");
    let Ok(table) = DeTable::parse(&line) else {
        return vec![keys::shown(text)];
    };
    let mut keys = Vec::new();
    let mut table = Some(table.get_ref());
    while let Some((key, value)) = table.and_then(|table| table.iter().next()) {
        keys.push(key.get_ref().as_ref().to_owned());
        table = value.get_ref().as_table();
    }
    keys
}
