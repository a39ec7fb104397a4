//! Where a reader of a JSON *stream* stands, which lines mean nothing to.
//!
//! Such a reader takes a value over several lines. After a line that was no value by itself,
//! what comes next may be the middle of something, and then no line can be read alone.

use super::nesting::{Container, Nesting};

/// Deeper than this over several lines, a reader is taken to be in the middle for good. It bounds
/// the memory for a server that opens containers for ever.
const DEEPEST: usize = 1 << 20;

/// The position in the stream of what was forwarded.
///
/// A reader that met an error has either stopped or starts again at the next line; both are
/// taken to stand between values there.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    open: Nesting,
    expected: Expected,
    token: Token,
    state: State,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Reading,
    /// An error was met in this line.
    Stuck,
    /// Too deep to be followed.
    Lost,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expected {
    #[default]
    Value,
    ValueOrEnd,
    Name,
    NameOrEnd,
    Colon,
    CommaOrEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Token {
    #[default]
    None,
    String {
        name: bool,
        escape: Escape,
    },
    Number(Number),
    /// What is left of a word like `true`.
    Word(&'static [u8]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    None,
    Begun,
    /// This many hexadecimal digits are to come.
    Digits(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    Minus,
    Zero,
    Whole,
    Point,
    Fraction,
    Exponent,
    Sign,
    Power,
}

impl Position {
    /// Whether a value may begin here.
    pub(super) fn is_between_values(&self) -> bool {
        self.state == State::Reading && self.open.depth() == 0 && self.token == Token::None
    }

    /// Goes on over bytes that were forwarded.
    pub(super) fn advance(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.state {
                State::Lost => return,
                State::Stuck if byte == b'\n' => *self = Self::default(),
                State::Stuck => {}
                State::Reading => {
                    if self.step(byte).is_none() {
                        *self = Self {
                            state: match byte {
                                b'\n' => State::Reading,
                                _ => State::Stuck,
                            },
                            ..Self::default()
                        };
                    } else if self.open.depth() > DEEPEST {
                        *self = Self {
                            state: State::Lost,
                            ..Self::default()
                        };
                    }
                }
            }
        }
    }

    /// Takes one byte; `None` if no value has it here.
    fn step(&mut self, byte: u8) -> Option<()> {
        match self.token {
            Token::None => self.between_tokens(byte),
            Token::String { name, escape } => {
                let escape = match (escape, byte) {
                    (_, b'\n') => return None,
                    (Escape::None, b'"') => {
                        self.token = Token::None;
                        if name {
                            self.expected = Expected::Colon;
                        } else {
                            self.value_ended();
                        }
                        return Some(());
                    }
                    (Escape::None, b'\\') => Escape::Begun,
                    (Escape::None, _) => Escape::None,
                    (Escape::Begun, b'u') => Escape::Digits(4),
                    (Escape::Begun, _) if br#""\/bfnrt"#.contains(&byte) => Escape::None,
                    (Escape::Digits(1), _) if byte.is_ascii_hexdigit() => Escape::None,
                    (Escape::Digits(n), _) if byte.is_ascii_hexdigit() => Escape::Digits(n - 1),
                    _ => return None,
                };
                self.token = Token::String { name, escape };
                Some(())
            }
            Token::Word(rest) => {
                let (first, rest) = rest.split_first()?;
                if *first != byte {
                    return None;
                }
                self.token = Token::Word(rest);
                if rest.is_empty() {
                    self.value_ended();
                }
                Some(())
            }
            Token::Number(number) => {
                if let Some(number) = number.step(byte) {
                    self.token = Token::Number(number);
                    return Some(());
                }
                if number == Number::Minus && byte == b'I' {
                    self.token = Token::Word(b"nfinity");
                    return Some(());
                }
                if !number.may_end() {
                    return None;
                }
                self.value_ended();
                self.between_tokens(byte)
            }
        }
    }

    fn between_tokens(&mut self, byte: u8) -> Option<()> {
        if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            return Some(());
        }
        match self.expected {
            Expected::Value => self.value(byte),
            Expected::ValueOrEnd if byte == b']' => self.close(Container::Array),
            Expected::ValueOrEnd => self.value(byte),
            Expected::NameOrEnd if byte == b'}' => self.close(Container::Object),
            Expected::Name | Expected::NameOrEnd => {
                self.string(true);
                (byte == b'"').then_some(())
            }
            Expected::Colon => {
                self.expected = Expected::Value;
                (byte == b':').then_some(())
            }
            Expected::CommaOrEnd => match byte {
                b',' => {
                    self.expected = match self.open.innermost()? {
                        Container::Object => Expected::Name,
                        Container::Array => Expected::Value,
                    };
                    Some(())
                }
                b'}' => self.close(Container::Object),
                b']' => self.close(Container::Array),
                _ => None,
            },
        }
    }

    fn value(&mut self, byte: u8) -> Option<()> {
        match byte {
            b'{' => {
                self.open.open(Container::Object);
                self.expected = Expected::NameOrEnd;
            }
            b'[' => {
                self.open.open(Container::Array);
                self.expected = Expected::ValueOrEnd;
            }
            b'"' => self.string(false),
            b'-' => self.token = Token::Number(Number::Minus),
            b'0' => self.token = Token::Number(Number::Zero),
            b'1'..=b'9' => self.token = Token::Number(Number::Whole),
            b't' => self.token = Token::Word(b"rue"),
            b'f' => self.token = Token::Word(b"alse"),
            b'n' => self.token = Token::Word(b"ull"),
            b'N' => self.token = Token::Word(b"aN"),
            b'I' => self.token = Token::Word(b"nfinity"),
            _ => return None,
        }
        Some(())
    }

    const fn string(&mut self, name: bool) {
        self.token = Token::String {
            name,
            escape: Escape::None,
        };
    }

    fn close(&mut self, container: Container) -> Option<()> {
        if !self.open.close(container) {
            return None;
        }
        self.value_ended();
        Some(())
    }

    const fn value_ended(&mut self) {
        self.token = Token::None;
        self.expected = match self.open.depth() {
            0 => Expected::Value,
            _ => Expected::CommaOrEnd,
        };
    }
}

impl Number {
    /// The number with one more byte, if the byte belongs to it.
    const fn step(self, byte: u8) -> Option<Self> {
        match (self, byte) {
            (Self::Minus, b'0') => Some(Self::Zero),
            (Self::Minus, b'1'..=b'9') | (Self::Whole, b'0'..=b'9') => Some(Self::Whole),
            (Self::Zero | Self::Whole, b'.') => Some(Self::Point),
            (Self::Point | Self::Fraction, b'0'..=b'9') => Some(Self::Fraction),
            (Self::Zero | Self::Whole | Self::Fraction, b'e' | b'E') => Some(Self::Exponent),
            (Self::Exponent, b'+' | b'-') => Some(Self::Sign),
            (Self::Exponent | Self::Sign | Self::Power, b'0'..=b'9') => Some(Self::Power),
            _ => None,
        }
    }

    const fn may_end(self) -> bool {
        matches!(
            self,
            Self::Zero | Self::Whole | Self::Fraction | Self::Power
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::relay::json::Cursor;

    fn after(lines: &[u8]) -> bool {
        let mut position = Position::default();
        position.advance(lines);
        position.is_between_values()
    }

    #[test]
    fn a_half_value_leaves_the_reader_in_the_middle_until_it_ends() {
        assert!(!after(b"{\"a\":[1,\n"));
        assert!(!after(b"{\"a\":[1,\n{\"b\":2}\n"));
        assert!(after(b"{\"a\":[1,\n{\"b\":2}\n]}\n"));
        assert!(!after(b"{\"jsonrpc\":\"2.0\"\r"));
    }

    #[test]
    fn after_an_error_the_next_line_starts_anew() {
        assert!(after(b"Listening on {port\n"));
        assert!(!after(b"[INFO] {"), "stuck until the line ends");
        assert!(after(b"{\"a\":\"half a string\n"));
        assert!(after(b"[1}\n"));
        assert!(after(b"{} {} 17\n"));
    }

    #[test]
    fn a_server_that_opens_for_ever_costs_bounded_memory() {
        let mut position = Position::default();
        for _ in 0..3 {
            position.advance(&b"[".repeat(DEEPEST));
        }
        assert_eq!(position.state, State::Lost);
        assert!(!position.is_between_values());
    }

    proptest! {
        /// Both readers of JSON agree on what one value is.
        #[test]
        fn it_agrees_with_the_cursor(
            text in r#"([ \t]|[{}\[\]:,]|"a"|"\\u00e9"|-|0|12|\.|e\+|true|null|NaN|-Infinity|x){0,12}"#
        ) {
            let mut cursor = Cursor::new(text.as_bytes());
            let one_value = cursor.skip().is_ok() && cursor.end().is_ok();
            let mut position = Position::default();
            position.advance(text.as_bytes());
            position.advance(b" ");
            if one_value {
                prop_assert!(position.is_between_values());
            } else if position.is_between_values() && !text.trim().is_empty() {
                // Several values, then: the first ends before the text does.
                let mut cursor = Cursor::new(text.as_bytes());
                prop_assert!(cursor.skip().is_ok() && cursor.end().is_err());
            }
        }
    }
}
