//! Lenient readers of JSON, written apart from the relay's own: what the worst of them takes for
//! questions is what the relay has to have counted.

use std::borrow::Cow;

/// The most questions that any of the readers sees in a stream.
pub(crate) fn questions_seen(stream: &[u8]) -> usize {
    let mut most = 0;
    for text in [lossy(stream), ignoring(stream)] {
        for last_wins in [true, false] {
            for framing in [Framing::Lines, Framing::AlsoAtReturns, Framing::Stream] {
                let seen = framing
                    .values(&text)
                    .iter()
                    .map(|value| questions(value, last_wins))
                    .sum();
                most = most.max(seen);
            }
        }
    }
    most
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// As `errors="ignore"` has it.
fn ignoring(bytes: &[u8]) -> String {
    bytes.utf8_chunks().map(|chunk| chunk.valid()).collect()
}

#[derive(Clone, Copy)]
enum Framing {
    Lines,
    AlsoAtReturns,
    Stream,
}

impl Framing {
    fn values(self, text: &str) -> Vec<Json> {
        let whole = |line: &str| {
            let line = line.strip_prefix('\u{FEFF}').unwrap_or(line);
            let mut parser = Parser(line);
            let value = parser.value()?;
            parser.space();
            parser.0.is_empty().then_some(value)
        };
        match self {
            Self::Lines => text.split('\n').filter_map(whole).collect(),
            Self::AlsoAtReturns => text.split(['\n', '\r']).filter_map(whole).collect(),
            Self::Stream => {
                let mut values = Vec::new();
                let mut rest = text;
                while !rest.is_empty() {
                    let mut parser = Parser(rest);
                    match parser.value() {
                        Some(value) => {
                            values.push(value);
                            rest = parser.0;
                        }
                        // It starts again at the next line.
                        None if parser.0.trim().is_empty() => break,
                        None => {
                            rest = parser.0.split_once('\n').map_or("", |(_, next)| next);
                        }
                    }
                }
                values
            }
        }
    }
}

enum Json {
    Object(Vec<(String, Json)>),
    Array(Vec<Json>),
    String(String),
    Number(f64),
    Word,
}

impl Json {
    fn get(&self, name: &str, last_wins: bool) -> Option<&Self> {
        let Self::Object(members) = self else {
            return None;
        };
        let mut found = members
            .iter()
            .filter(|(key, _)| key.to_lowercase() == name.to_lowercase())
            .map(|(_, value)| value);
        if last_wins {
            found.next_back()
        } else {
            found.next()
        }
    }

    fn is_question(&self, last_wins: bool) -> bool {
        matches!(
            self.get("method", last_wins),
            Some(Self::String(method))
                if matches!(method.as_str(), "elicitation/create" | "sampling/createMessage")
        )
    }
}

fn questions(value: &Json, last_wins: bool) -> usize {
    if let Json::Array(members) = value {
        return members.iter().map(|m| questions(m, last_wins)).sum();
    }
    let mut seen = usize::from(value.is_question(last_wins));
    let inputs = value
        .get("result", last_wins)
        .and_then(|result| result.get("inputRequests", last_wins));
    if let Some(Json::Object(inputs)) = inputs {
        // A map keeps one of equal keys.
        let mut keys: Vec<&str> = inputs.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let inputs = inputs
            .iter()
            .filter(|(_, input)| input.is_question(last_wins));
        seen += inputs.count().min(keys.len());
    }
    let code = value
        .get("error", last_wins)
        .and_then(|error| error.get("code", last_wins));
    if let Some(Json::Number(code)) = code {
        seen += usize::from(*code == -32042.0);
    }
    seen
}

struct Parser<'a>(&'a str);

impl Parser<'_> {
    fn space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t', '\r', '\n']);
    }

    fn take(&mut self, token: &str) -> bool {
        match self.0.strip_prefix(token) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self) -> Option<Json> {
        self.space();
        if self.take("{") {
            let mut members = Vec::new();
            self.space();
            if self.take("}") {
                return Some(Json::Object(members));
            }
            loop {
                self.space();
                let key = self.string()?;
                self.space();
                if !self.take(":") {
                    return None;
                }
                members.push((key, self.value()?));
                self.space();
                if self.take("}") {
                    return Some(Json::Object(members));
                }
                if !self.take(",") {
                    return None;
                }
            }
        }
        if self.take("[") {
            let mut members = Vec::new();
            self.space();
            if self.take("]") {
                return Some(Json::Array(members));
            }
            loop {
                members.push(self.value()?);
                self.space();
                if self.take("]") {
                    return Some(Json::Array(members));
                }
                if !self.take(",") {
                    return None;
                }
            }
        }
        if self.0.starts_with('"') {
            return self.string().map(Json::String);
        }
        for word in ["true", "false", "null", "NaN", "Infinity", "-Infinity"] {
            if self.take(word) {
                return Some(Json::Word);
            }
        }
        let is_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = self.0.find(|c| !is_number(c)).unwrap_or(self.0.len());
        let number = self.0[..end].parse().ok()?;
        self.0 = &self.0[end..];
        Some(Json::Number(number))
    }

    /// The escapes are left to a parser that is known to be right.
    fn string(&mut self) -> Option<String> {
        let body = self.0.strip_prefix('"')?;
        let mut escaped = false;
        let end = body.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        self.0 = &body[end + 1..];
        let body: Cow<'_, str> = body[..end].replace("\\ud800", "\u{FFFD}").into();
        serde_json::from_str(&format!("\"{body}\"")).ok()
    }
}
