//! What a JSON string says, read from its bytes without trusting them.
//!
//! A string is given as its *body*: the bytes between its quotes, with every escape well formed
//! (the [`Cursor`](super::json::Cursor) has seen to that), yet not always UTF-8.

use std::borrow::Cow;

/// The string that `body` stands for. Bytes that are not UTF-8 are left out, which is how one
/// kind of reader takes them; where others put U+FFFD, the string is no name that matters here.
pub(super) fn decode(body: &[u8]) -> Cow<'_, str> {
    let text = match str::from_utf8(body) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(body.utf8_chunks().map(|chunk| chunk.valid()).collect()),
    };
    if text.contains('\\') {
        Cow::Owned(unescape(&text))
    } else {
        text
    }
}

/// Whether the string is `name`, by the way member names are matched by the most lenient
/// decoders: without regard to case, and with `ſ` for `s` and the Kelvin sign for `k`.
pub(super) fn names(body: &[u8], name: &str) -> bool {
    if body.len() == name.len() && body.is_ascii() && !body.contains(&b'\\') {
        return body.eq_ignore_ascii_case(name.as_bytes());
    }
    // A longer body can only be this name if it holds an escape, or bytes beyond ASCII.
    body.len() > name.len()
        && (body.contains(&b'\\') || !body.is_ascii())
        && decode(body).chars().map(fold).eq(name.chars().map(fold))
}

/// The letter that lenient decoders take `letter` for.
pub(super) const fn fold(letter: char) -> char {
    match letter {
        'ſ' => 's',
        '\u{212A}' => 'k',
        _ => letter.to_ascii_lowercase(),
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let mut after = rest[at + 1..].chars();
        match after.next() {
            Some('u') => {
                let (letter, tail) = unit(after.as_str());
                plain.push(letter);
                rest = tail;
                continue;
            }
            Some(letter) => plain.push(short(letter)),
            None => {}
        }
        rest = after.as_str();
    }
    plain.push_str(rest);
    plain
}

/// What stands for `letter` after a backslash.
pub(super) const fn short(letter: char) -> char {
    match letter {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        other => other,
    }
}

/// The character that begins with the hexadecimal digits after `\u`, and what follows it. A
/// surrogate without its other half is U+FFFD.
fn unit(text: &str) -> (char, &str) {
    let (first, rest) = hex(text);
    if let Some(tail) = rest.strip_prefix("\\u")
        && (0xD800..0xDC00).contains(&first)
    {
        let (second, tail) = hex(tail);
        if (0xDC00..0xE000).contains(&second) {
            let both = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
            return (char::from_u32(both).unwrap_or('\u{FFFD}'), tail);
        }
    }
    (char::from_u32(first).unwrap_or('\u{FFFD}'), rest)
}

fn hex(text: &str) -> (u32, &str) {
    match text.split_at_checked(4) {
        Some((digits, rest)) => (u32::from_str_radix(digits, 16).unwrap_or(0xFFFD), rest),
        None => (0xFFFD, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        assert_eq!(decode(br"\u0065licitation\/create"), "elicitation/create");
        assert_eq!(decode(br#"\"\\\b\f\n\r\t"#), "\"\\\u{8}\u{c}\n\r\t");
        assert_eq!(decode(br"\ud83d\ude00!"), "😀!");
        assert_eq!(decode(br"\ud83dx\ude00"), "\u{FFFD}x\u{FFFD}");
        assert_eq!(decode(br"\ud83d\u0041"), "\u{FFFD}A");
    }

    #[test]
    fn bytes_that_are_not_utf8_are_left_out() {
        assert_eq!(decode(b"elicitation/\xffcreate"), "elicitation/create");
        assert_eq!(decode(b"a\xe2\x80"), "a");
    }

    #[test]
    fn a_member_name_is_matched_as_leniently_as_any_decoder_does() {
        for body in [
            &b"inputRequests"[..],
            b"INPUTREQUESTS",
            br"input\u0052equests",
            "inputReque\u{17f}ts".as_bytes(),
            b"input\xffRequests",
        ] {
            assert!(names(body, "inputRequests"), "{body:?}");
        }
        for body in [&b"inputRequest"[..], b"inputRequests ", b"", b"output"] {
            assert!(!names(body, "inputRequests"), "{body:?}");
        }
    }
}
