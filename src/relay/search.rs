//! What a frame that cannot be read for sure is searched for.
//!
//! It knows nothing of structure, so that no disagreement about structure can mislead it: what
//! stands between any two quotes is taken for a string, and what looks like a number for one.
//! NUL is left out, which makes UTF-16 and UTF-32 readable, and so are bytes and escapes beyond
//! ASCII, which no name that matters needs. It works on a stream of any length in fixed memory.

use memchr::memchr2;

use super::text::{fold, short};
use crate::question::{QuestionKind, QuestionMethods};

/// The member whose presence makes a result a round.
pub(super) const INPUT_REQUESTS: &str = "inputRequests";
/// The code of an error that sends a person to URLs.
pub(super) const URL_ELICITATION_REQUIRED: f64 = -32042.0;

/// Longer numbers are not weighed but taken for a hit; nobody writes such a thing.
const LONGEST_NUMBER: usize = 64;

/// A search in progress.
#[derive(Clone, Debug)]
pub(super) struct Search {
    methods: Vec<String>,
    longest: usize,
    /// What was read since the last quote; `None` once it is too long to be of interest.
    word: Option<String>,
    escape: Escape,
    /// The last byte was the first half of `ſ`.
    long_s: bool,
    number: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    Unit { digits: u8, value: u32 },
}

impl Search {
    /// Searches for the protocol's questions and for those of `methods`.
    pub(super) fn new(methods: &QuestionMethods) -> Self {
        let methods: Vec<String> = QuestionKind::ALL
            .iter()
            .map(|kind| kind.method())
            .chain(methods.iter().map(|(method, _)| method))
            // A quote in a vendor's method is taken for the end of a string, unless it is
            // written as a number.
            .flat_map(|method| [Some(method), method.rsplit_once('"').map(|(_, tail)| tail)])
            .flatten()
            .map(|method| method.chars().filter(char::is_ascii).collect())
            .collect();
        Self {
            longest: methods
                .iter()
                .map(String::len)
                .fold(INPUT_REQUESTS.len(), usize::max),
            methods,
            word: None,
            escape: Escape::None,
            long_s: false,
            number: String::new(),
        }
    }

    /// Goes on over `bytes`, and says whether something was found. What is found here ends here,
    /// so a reader that does not get these bytes sees nothing of it.
    pub(super) fn finds_in(&mut self, bytes: &[u8]) -> bool {
        self.next_in(bytes).is_some()
    }

    /// Goes on over all of `bytes`, whatever is found there.
    #[cfg(any(feature = "serve", fuzzing))]
    pub(super) fn pass_over(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(after) = self.next_in(rest) {
            rest = after;
        }
    }

    /// Goes on until something is found, and gives back what comes after it.
    fn next_in<'b>(&mut self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let mut rest = bytes;
        while let Some((&byte, tail)) = rest.split_first() {
            if self.step(byte) {
                return Some(tail);
            }
            rest = tail;
            if self.word.is_none() && self.number.is_empty() {
                let next = memchr2(b'"', b'-', rest).unwrap_or(rest.len());
                rest = &rest[next..];
            }
        }
        None
    }

    /// Says whether the end of the text completes something.
    pub(super) fn finds_at_end(&mut self) -> bool {
        self.number_ends()
    }

    fn step(&mut self, byte: u8) -> bool {
        if byte == 0 {
            return false;
        }
        let long_s = std::mem::replace(&mut self.long_s, byte == 0xC5);
        if byte == 0xBF && long_s {
            self.push('ſ');
        }
        if !byte.is_ascii() {
            return false;
        }
        let letter = char::from(byte);
        let number = self.number_step(letter);
        if letter == '"' {
            // A backslash before the quote would be part of the word.
            let found = self.escape == Escape::None
                && self.word.as_deref().is_some_and(|word| self.matters(word));
            self.word = Some(String::new());
            self.escape = Escape::None;
            return found || number;
        }
        self.word_step(letter);
        number
    }

    fn word_step(&mut self, letter: char) {
        self.escape = match self.escape {
            Escape::None if letter == '\\' => Escape::Begun,
            Escape::None => {
                self.push(letter);
                Escape::None
            }
            Escape::Begun if letter == 'u' => Escape::Unit {
                digits: 0,
                value: 0,
            },
            Escape::Begun => {
                self.push(short(letter));
                Escape::None
            }
            Escape::Unit { digits, value } => match letter.to_digit(16) {
                Some(digit) if digits == 3 => {
                    if let Some(letter) = char::from_u32(value * 16 + digit) {
                        self.push(letter);
                    }
                    Escape::None
                }
                Some(digit) => Escape::Unit {
                    digits: digits + 1,
                    value: value * 16 + digit,
                },
                None => {
                    self.word = None;
                    Escape::None
                }
            },
        };
    }

    fn push(&mut self, letter: char) {
        let letter = match letter {
            'ſ' => 's',
            other => other,
        };
        if letter.is_ascii()
            && let Some(word) = &mut self.word
        {
            word.push(letter);
            if word.len() > self.longest {
                self.word = None;
            }
        }
    }

    fn matters(&self, word: &str) -> bool {
        self.methods.iter().any(|method| method == word)
            || word.chars().map(fold).eq(INPUT_REQUESTS.chars().map(fold))
    }

    fn number_step(&mut self, letter: char) -> bool {
        let goes_on = match letter {
            '-' => self.number.ends_with(['e', 'E']),
            '0'..='9' | '.' | '+' | 'e' | 'E' => !self.number.is_empty(),
            _ => false,
        };
        if goes_on {
            if self.number.len() < LONGEST_NUMBER {
                self.number.push(letter);
            }
            return false;
        }
        let found = self.number_ends();
        if letter == '-' {
            self.number.push(letter);
        }
        found
    }

    fn number_ends(&mut self) -> bool {
        let found = if self.number.len() < LONGEST_NUMBER {
            self.number.parse() == Ok(URL_ELICITATION_REQUIRED)
        } else {
            self.number.as_bytes()[1].is_ascii_digit()
        };
        self.number.clear();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &[u8]) -> bool {
        let methods = QuestionMethods::new()
            .with("openai/form", QuestionKind::Elicitation)
            .unwrap();
        let whole = {
            let mut search = Search::new(&methods);
            search.finds_in(text) || search.finds_at_end()
        };
        // However the text is cut.
        let mut search = Search::new(&methods);
        let cut = text.iter().any(|byte| search.finds_in(&[*byte])) || search.finds_at_end();
        assert_eq!(whole, cut, "{}", text.escape_ascii());
        whole
    }

    #[test]
    fn questions_are_found_however_they_are_written() {
        for text in [
            &br#"{"method":"elicitation/create","#[..],
            br#""sampling/createMessage""#,
            br#"{"method":"\u0065licitation\/create"#.as_slice(),
            b"\"elicitation/\xffcreate\"",
            b"\0\"\0o\0p\0e\0n\0a\0i\0/\0f\0o\0r\0m\0\"\0",
            br#"/* " */ "method": "elicitation/create" "#,
            br#"{"result":{"input\u0052equests":"#,
            "\"inputReque\u{17f}ts\"".as_bytes(),
            br#""inputReque\u017fts""#,
            b"{\"code\": -32042",
            b"-3.2042e4,",
            b"[-320420E-1]",
        ] {
            let mut closed = text.to_vec();
            closed.push(b'"');
            assert!(found(&closed), "{}", closed.escape_ascii());
        }
        assert!(found(format!("-32042.{}", "0".repeat(100)).as_bytes()));
    }

    #[test]
    fn mentions_are_not_questions() {
        for text in [
            &b"elicitation/create"[..],
            br#""see \"elicitation/create\" in the docs""#,
            br#""elicitation/create ""#,
            br#""Elicitation/Create""#,
            b"'elicitation/create'",
            b"32042 -32043 -320420 - 32042",
            b"-----------------------------------------------------------------------------",
            br#""inputRequestsToo""#,
        ] {
            assert!(!found(text), "{}", text.escape_ascii());
        }
    }
}
