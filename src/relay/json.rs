//! A cursor over one JSON text, for looking at a few members without building anything.
//!
//! It is as lenient as the readers it stands in for: `NaN` and `Infinity` are numbers, nesting
//! has no bound, surrogates need no partner, strings may hold control characters and bytes that
//! are not UTF-8. That is why no parser that decides what valid JSON is serves here. Everything
//! else is refused, comments above all: where a reader might see other strings than we do, the
//! frame has to be searched instead ([`Search`](super::search::Search)).

use memchr::memchr2;

use super::nesting::{Container, Nesting};

/// The text is not exactly one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

type Read<T> = Result<T, Malformed>;

/// A position in a JSON text.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

/// What kind of value comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Object,
    Array,
    String,
    Other,
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Runs `read`, and gives back the bytes it went over.
    pub(super) fn over(&mut self, read: impl FnOnce(&mut Self) -> Read<()>) -> Read<&'a [u8]> {
        self.skip_space();
        let start = self.at;
        read(self)?;
        Ok(&self.text[start..self.at])
    }

    /// What kind of value comes next, after white space.
    pub(super) fn next(&mut self) -> Next {
        self.skip_space();
        match self.peek() {
            Some(b'{') => Next::Object,
            Some(b'[') => Next::Array,
            Some(b'"') => Next::String,
            _ => Next::Other,
        }
    }

    /// Nothing but white space is left.
    pub(super) fn end(&mut self) -> Read<()> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Malformed),
        }
    }

    /// Reads an object; `member` reads the value of each, given the body of its name.
    pub(super) fn object(
        &mut self,
        mut member: impl FnMut(&'a [u8], &mut Self) -> Read<()>,
    ) -> Read<()> {
        self.expect(b'{')?;
        self.skip_space();
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            member(name, self)?;
            self.skip_space();
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads an array; `element` reads each value.
    pub(super) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Read<()>) -> Read<()> {
        self.expect(b'[')?;
        self.skip_space();
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.skip_space();
            element(self)?;
            self.skip_space();
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads a string and gives back its body.
    pub(super) fn string(&mut self) -> Read<&'a [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = &self.text[self.at..];
            let found = quote_or_backslash(rest).ok_or(Malformed)?;
            self.at += found + 1;
            if rest[found] == b'"' {
                return Ok(&self.text[start..self.at - 1]);
            }
            match rest.get(found + 1) {
                Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                Some(b'u') => {
                    let digits = rest.get(found + 2..found + 6).ok_or(Malformed)?;
                    if !digits.iter().all(u8::is_ascii_hexdigit) {
                        return Err(Malformed);
                    }
                    self.at += 5;
                }
                _ => return Err(Malformed),
            }
        }
    }

    /// Skips any value and gives back its bytes.
    pub(super) fn skip(&mut self) -> Read<&'a [u8]> {
        self.skip_space();
        let start = self.at;
        let mut open = Nesting::default();
        loop {
            self.skip_space();
            match self.peek().ok_or(Malformed)? {
                b'{' => {
                    self.at += 1;
                    self.skip_space();
                    if !self.take(b'}') {
                        open.open(Container::Object);
                        self.name()?;
                        continue;
                    }
                }
                b'[' => {
                    self.at += 1;
                    self.skip_space();
                    if !self.take(b']') {
                        open.open(Container::Array);
                        continue;
                    }
                }
                b'"' => {
                    self.string()?;
                }
                b'-' | b'0'..=b'9' => self.number()?,
                b't' => self.word(b"true")?,
                b'f' => self.word(b"false")?,
                b'n' => self.word(b"null")?,
                b'N' => self.word(b"NaN")?,
                b'I' => self.word(b"Infinity")?,
                _ => return Err(Malformed),
            }
            // A value has ended: so may any number of containers around it.
            loop {
                let Some(container) = open.innermost() else {
                    return Ok(&self.text[start..self.at]);
                };
                self.skip_space();
                let end = match container {
                    Container::Object => b'}',
                    Container::Array => b']',
                };
                if self.take(end) {
                    open.close(container);
                    continue;
                }
                self.expect(b',')?;
                if container == Container::Object {
                    self.skip_space();
                    self.name()?;
                }
                break;
            }
        }
    }

    fn name(&mut self) -> Read<()> {
        self.string()?;
        self.skip_space();
        self.expect(b':')
    }

    fn number(&mut self) -> Read<()> {
        if self.take(b'-') && self.peek() == Some(b'I') {
            return self.word(b"Infinity");
        }
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            if !self.take(b'+') {
                self.take(b'-');
            }
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Read<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    fn word(&mut self, word: &[u8]) -> Read<()> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            Ok(())
        } else {
            Err(Malformed)
        }
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8) -> Read<()> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

/// The next quote or backslash. Most strings are short, and then a plain loop beats the set-up of
/// a vector search.
fn quote_or_backslash(bytes: &[u8]) -> Option<usize> {
    const SHORT: usize = 16;
    let is_end = |byte: &u8| matches!(byte, b'"' | b'\\');
    let (head, tail) = bytes.split_at(bytes.len().min(SHORT));
    head.iter()
        .position(is_end)
        .or_else(|| memchr2(b'"', b'\\', tail).map(|at| at + SHORT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_one_value(text: &[u8]) -> bool {
        let mut cursor = Cursor::new(text);
        cursor.skip().is_ok() && cursor.end().is_ok()
    }

    #[test]
    fn what_some_reader_takes_for_a_value_is_one() {
        for text in [
            &br#"{"a":[1,-2.5e+3,{"b":null}],"c":"\ud800\"\\"}"#[..],
            b" [] ",
            b"{}",
            b"NaN",
            b"[-Infinity,Infinity,true,false]",
            b"\"tab\there, bad \xff\"",
            b"0",
        ] {
            assert!(is_one_value(text), "{}", text.escape_ascii());
        }
        let deep = [&b"["[..], b"]"].map(|b| b.repeat(1_000_000)).concat();
        assert!(is_one_value(&deep));
    }

    #[test]
    fn what_readers_may_disagree_on_is_none() {
        for text in [
            &b""[..],
            b"{",
            b"[1,]",
            b"{\"a\"}",
            b"{\"a\":}",
            b"{a:1}",
            b"[1}",
            b"{} {}",
            b"/* \" */ 1",
            b"'a'",
            b"01",
            b"1.",
            b"-",
            b"\"\\x\"",
            b"\"\\u12g4\"",
            b"\"\\u12",
            b"nul",
            b"\x00{}",
        ] {
            assert!(!is_one_value(text), "{}", text.escape_ascii());
        }
    }
}
