//! Readers of events, written apart from the relay's own. Clients differ in where a line ends, in
//! what they put between lines of data, and in whether they look at all of an event; what the
//! worst of them takes for questions is what the relay has to have counted.

use crate::model;

/// Where lines end, beside `\r\n`, which is one end everywhere.
const ENDS: [fn(char) -> bool; 3] = [
    |letter| letter == '\n',
    |letter| matches!(letter, '\n' | '\r'),
    // As Python splits lines.
    |letter| {
        matches!(letter, '\n' | '\r' | '\u{b}' | '\u{c}')
            || matches!(
                letter,
                '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
    },
];

/// What is put between the lines of data of an event.
const BETWEEN: [&str; 2] = ["\n", ""];

/// The most questions that any of the readers sees in a stream, whatever its events are called.
pub(crate) fn questions_seen(stream: &[u8]) -> usize {
    let mut most = 0;
    for is_end in ENDS {
        let events = events(stream, is_end);
        for between in BETWEEN {
            let seen = events
                .iter()
                .map(|data| model::questions_seen(data.join(between).as_bytes()))
                .sum();
            most = most.max(seen);
        }
        // A reader that takes each line of data for a message.
        let seen = events
            .iter()
            .flatten()
            .map(|data| model::questions_seen(data.as_bytes()))
            .sum();
        most = most.max(seen);
    }
    most
}

/// The data of every event, as the standard has it, except that the last need not end.
pub(crate) fn by_the_standard(stream: &[u8]) -> Vec<String> {
    let events = events(stream, ENDS[1]);
    events.iter().map(|data| data.join("\n")).collect()
}

/// The lines of data of every event that has any characters in them.
fn events(stream: &[u8], is_end: fn(char) -> bool) -> Vec<Vec<String>> {
    let text = String::from_utf8_lossy(stream);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n");
    let mut events = Vec::new();
    let mut data: Vec<String> = Vec::new();
    // An empty line more ends an event that the stream left open.
    for line in text.split(is_end).chain([""]) {
        // A reader that knows only `\n` has it at the end of its lines, and JSON takes no notice.
        if line.trim_end_matches('\r').is_empty() {
            if data.iter().any(|data| !data.is_empty()) {
                events.push(std::mem::take(&mut data));
            }
            data.clear();
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name == "data" {
            data.push(value.strip_prefix(' ').unwrap_or(value).to_owned());
        }
    }
    events
}
