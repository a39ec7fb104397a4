//! Checks the text of a settings file, key by key, with the place of each.

use serde::{Deserialize, de::IntoDeserializer};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{
    duplicate,
    error::{Fault, Problem},
    keys::{self, SCALARS, Scalar},
    origin::{Origins, Source},
    server,
};
use crate::{
    limits::ServerName,
    question::{QuestionKind, QuestionMethods},
};

const STRING: &str = "a string without NUL characters";

type Key<'i> = Spanned<DeString<'i>>;
type Value<'i> = Spanned<DeValue<'i>>;

/// What a file says: where each setting stands, and what is wrong.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) origins: Origins,
    pub(super) problems: Vec<Problem>,
}

pub(super) fn file(name: &str, text: &str) -> Checked {
    let mut check = Check {
        source: Source::new(name, text),
        text,
        origins: Origins::default(),
        problems: Vec::new(),
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    let offset = |error: &toml::de::Error| error.span().map_or(text.len(), |span| span.start);
    match errors.iter().min_by_key(|error| offset(error)) {
        None => check.document(document.get_ref()),
        // The first alone: what follows is often but its consequence.
        Some(error) => check.syntax(document.get_ref(), error, offset(error)),
    }
    check.problems.sort_by_key(|(offset, _)| *offset);
    Checked {
        origins: check.origins,
        problems: check.problems.into_iter().map(|(_, it)| it).collect(),
    }
}

struct Check<'a> {
    source: Source<'a>,
    text: &'a str,
    origins: Origins,
    problems: Vec<(usize, Problem)>,
}

impl Check<'_> {
    fn document(&mut self, document: &DeTable<'_>) {
        for (key, value) in document {
            match key.get_ref().as_ref() {
                keys::PROTO => self.proto(None, keys::PROTO, value),
                keys::SERVERS => self.servers(value),
                keys::STATUS => self.status(value),
                _ => self.unknown("", key, keys::TOP.to_vec()),
            }
        }
    }

    /// An error of the TOML parser. Only its message is used: its display would quote the line,
    /// secrets and all. The document is what the parser could make of the rest.
    fn syntax(&mut self, document: &DeTable<'_>, error: &toml::de::Error, offset: usize) {
        let message = error.message();
        let fault = || Fault::Syntax(message.to_owned());
        let Some((keys, value)) = value_at(document, offset) else {
            let twice = error.span().filter(|_| message == "duplicate key");
            let key = twice.map(|span| {
                duplicate::name(self.text, span, |place| {
                    let value = value_at(document, place);
                    value.is_some_and(|(_, value)| value.get_ref().as_table().is_none())
                })
            });
            return self.report(offset, &key.unwrap_or_default(), fault());
        };
        let path = keys
            .iter()
            .fold(String::new(), |path, key| keys::join(&path, key));
        let key = match keys[..] {
            [keys::PROTO, key] | [keys::SERVERS, _, keys::PROTO, key] => key,
            _ => return self.report(offset, &path, fault()),
        };
        match SCALARS.iter().find(|scalar| scalar.key() == key) {
            Some(scalar) => {
                let found = format!("{}, which is no TOML ({message})", self.written(value));
                self.invalid(&path, value, scalar.expected, found);
            }
            None => self.report(offset, &path, fault()),
        }
    }

    fn proto(&mut self, server: Option<&ServerName>, path: &str, value: &Value<'_>) {
        for (key, value) in self.table(path, value).into_iter().flatten() {
            let name = key.get_ref().as_ref();
            if let Some(scalar) = SCALARS.iter().find(|scalar| scalar.key() == name) {
                self.scalar(server, scalar, &keys::join(path, name), value);
            } else if name == keys::QUESTIONS {
                let all = keys::join(keys::PROTO, keys::QUESTIONS);
                self.origins.set(server, all, self.source.place(key.span()));
                self.questions(server, &keys::join(path, name), value);
            } else {
                self.unknown(path, key, keys::proto());
            }
        }
    }

    fn scalar(
        &mut self,
        server: Option<&ServerName>,
        scalar: &Scalar,
        path: &str,
        value: &Value<'_>,
    ) {
        // A number too long for TOML's own type is too long for every setting.
        let plain = toml::Value::deserialize(value.clone().into_deserializer());
        if plain.is_ok_and(|plain| scalar.accepts(plain)) {
            let place = self.source.place(value.span());
            self.origins.set(server, scalar.name.to_owned(), place);
        } else {
            self.invalid(path, value, scalar.expected, self.written(value));
        }
    }

    fn questions(&mut self, server: Option<&ServerName>, path: &str, value: &Value<'_>) {
        for (key, value) in self.table(path, value).into_iter().flatten() {
            let method = key.get_ref().as_ref();
            let path = keys::join(path, method);
            if let Err(error) = QuestionMethods::new().with(method, QuestionKind::Sampling) {
                self.report(key.span().start, &path, Fault::Conflict(error.to_string()));
            }
            let kind = value.get_ref().as_str().map(str::parse::<QuestionKind>);
            if matches!(kind, Some(Ok(_))) {
                let place = self.source.place(key.span());
                self.origins.set(server, keys::question(method), place);
            } else {
                let expected = r#""sampling" or "elicitation""#;
                self.invalid(&path, value, expected, self.written(value));
            }
        }
    }

    fn servers(&mut self, value: &Value<'_>) {
        for (key, value) in self.table(keys::SERVERS, value).into_iter().flatten() {
            let name = key.get_ref().as_ref();
            match ServerName::new(name) {
                Ok(server) => self.server(&server, &keys::join(keys::SERVERS, name), value),
                Err(_) => {
                    let fault = Fault::Value {
                        expected: ServerName::EXPECTED.to_owned(),
                        found: keys::shown(&format!("\"{name}\"")),
                    };
                    self.report(key.span().start, keys::SERVERS, fault);
                }
            }
        }
    }

    fn server(&mut self, server: &ServerName, path: &str, value: &Value<'_>) {
        let Some(table) = self.table(path, value) else {
            return;
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let full = keys::join(path, name);
            match name {
                keys::COMMAND => self.text(&full, value, "a program's name or path", |text| {
                    !text.is_empty()
                }),
                keys::ARGS => self.args(&full, value),
                keys::ENV => self.env(&full, value),
                keys::URL => {
                    self.text(&full, value, server::URL_EXPECTED, |text| {
                        server::is_url(text)
                    });
                    let place = self.source.place(value.span());
                    self.origins.set(Some(server), keys::URL.to_owned(), place);
                }
                keys::HEADERS => self.headers(server, &full, value),
                keys::MUTED => self.boolean(&full, value),
                keys::PROTO => self.proto(Some(server), &full, value),
                _ => match dotted(server.as_str(), key, value) {
                    Some(whole) => self.unquoted(&full, key, &whole),
                    None => self.unknown(path, key, keys::SERVER.to_vec()),
                },
            }
        }
        self.one_endpoint(path, table);
    }

    fn one_endpoint(&mut self, path: &str, table: &DeTable<'_>) {
        let command = table.contains_key(keys::COMMAND);
        let url = table.contains_key(keys::URL);
        for (key, _) in table {
            let name = key.get_ref().as_ref();
            let conflict = match name {
                keys::URL if command => "a server has a command or a url, not both",
                keys::ARGS | keys::ENV if !command => "goes with command, which is missing",
                keys::HEADERS if !url => "goes with url, which is missing",
                _ => continue,
            };
            let fault = Fault::Conflict(conflict.to_owned());
            self.report(key.span().start, &keys::join(path, name), fault);
        }
    }

    fn status(&mut self, value: &Value<'_>) {
        for (key, value) in self.table(keys::STATUS, value).into_iter().flatten() {
            let name = key.get_ref().as_ref();
            let path = keys::join(keys::STATUS, name);
            if name == keys::MUTE_BUTTON {
                self.boolean(&path, value);
                self.origins
                    .set(None, path, self.source.place(value.span()));
            } else {
                self.unknown(keys::STATUS, key, keys::STATUS_PAGE.to_vec());
            }
        }
    }

    fn boolean(&mut self, path: &str, value: &Value<'_>) {
        if !matches!(value.get_ref(), DeValue::Boolean(_)) {
            self.invalid(path, value, "true or false", kind_of(value));
        }
    }

    fn args(&mut self, path: &str, value: &Value<'_>) {
        match value.get_ref().as_array() {
            Some(args) => {
                for (nth, arg) in args.iter().enumerate() {
                    self.text(&format!("{path}[{nth}]"), arg, STRING, |_| true);
                }
            }
            None => self.invalid(path, value, "an array of strings", kind_of(value)),
        }
    }

    fn env(&mut self, path: &str, value: &Value<'_>) {
        for (key, value) in self.table(path, value).into_iter().flatten() {
            let name = key.get_ref().as_ref();
            let path = keys::join(path, name);
            self.text(&path, value, STRING, |_| true);
            if name.is_empty() || name.contains(['=', '\0']) {
                let fault = Fault::Conflict("no name of an environment variable".to_owned());
                self.report(key.span().start, &path, fault);
            }
        }
    }

    fn headers(&mut self, server: &ServerName, path: &str, value: &Value<'_>) {
        for (key, value) in self.table(path, value).into_iter().flatten() {
            let name = key.get_ref().as_ref();
            let path = keys::join(path, name);
            let expected = server::HEADER_VALUE_EXPECTED;
            self.text(&path, value, expected, server::is_header_value);
            if !server::is_header(name) {
                let fault = Fault::Conflict(format!("expected {}", server::HEADER_EXPECTED));
                self.report(key.span().start, &path, fault);
            }
            let place = self.source.place(value.span());
            self.origins
                .set(Some(server), keys::join(keys::HEADERS, name), place);
        }
    }

    /// A string outside of `proto.*`, of which errors say no more than its type.
    fn text(&mut self, path: &str, value: &Value<'_>, expected: &str, valid: fn(&str) -> bool) {
        match value.get_ref().as_str() {
            // No argument or variable of a process can hold a NUL.
            Some(text) if valid(text) && !text.contains('\0') => {}
            Some(_) => self.invalid(path, value, expected, "another string".to_owned()),
            None => self.invalid(path, value, expected, kind_of(value)),
        }
    }

    fn table<'t, 'i>(&mut self, path: &str, value: &'t Value<'i>) -> Option<&'t DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.invalid(path, value, "a table", kind_of(value));
        }
        table
    }

    fn unknown(&mut self, parent: &str, key: &Key<'_>, valid: Vec<&'static str>) {
        let name = key.get_ref().as_ref();
        let here = valid.iter().map(|name| (*name, (*name).to_owned()));
        // A setting of `[proto]` that stands one table too high is the likeliest mistake of all.
        let below = valid
            .contains(&keys::PROTO)
            .then(keys::proto)
            .into_iter()
            .flatten()
            .map(|name| (name, keys::join(keys::PROTO, name)));
        let fault = Fault::Unknown {
            nearest: keys::nearest(name, here.chain(below)),
            valid,
        };
        self.report(key.span().start, &keys::join(parent, name), fault);
    }

    /// A server's name with dots in it, which TOML takes for tables within tables.
    fn unquoted(&mut self, path: &str, key: &Key<'_>, whole: &str) {
        let fault = Fault::Unknown {
            nearest: Some(keys::join(keys::SERVERS, whole)),
            valid: keys::SERVER.to_vec(),
        };
        self.report(key.span().start, path, fault);
    }

    fn invalid(&mut self, path: &str, value: &Value<'_>, expected: &str, found: String) {
        let fault = Fault::Value {
            expected: expected.to_owned(),
            found,
        };
        self.report(value.span().start, path, fault);
    }

    fn report(&mut self, offset: usize, path: &str, fault: Fault) {
        let at = self.source.place(offset..offset);
        self.problems.push((offset, Problem::new(at, path, fault)));
    }

    /// A value of `proto.*` as it stands in the file.
    fn written(&self, value: &Value<'_>) -> String {
        match value.get_ref() {
            DeValue::Table(_) | DeValue::Array(_) => kind_of(value),
            _ => match self.text.get(value.span()) {
                None | Some("") => "nothing".to_owned(),
                Some(text) => keys::shown(text),
            },
        }
    }
}

/// The name with dots that was meant, if `key` holds what a server's table does: `[servers.a.b]`
/// is a table `b` of a server `a`, and `[servers."a.b"]` the server `a.b`.
fn dotted(server: &str, key: &Key<'_>, value: &Value<'_>) -> Option<String> {
    let whole = format!("{server}.{}", key.get_ref());
    // That bounds the search as well.
    ServerName::new(whole.as_str()).ok()?;
    let table = value.get_ref().as_table()?;
    if keys::SERVER.iter().any(|key| table.contains_key(*key)) {
        return Some(whole);
    }
    table
        .iter()
        .find_map(|(key, value)| dotted(&whole, key, value))
}

/// The innermost value around `offset`, with its keys from the outermost.
fn value_at<'t, 'i>(
    table: &'t DeTable<'i>,
    offset: usize,
) -> Option<(Vec<&'t str>, &'t Value<'i>)> {
    table.iter().find_map(|(key, value)| {
        let inner = value.get_ref().as_table();
        let span = value.span();
        let (mut keys, value) = inner
            .and_then(|table| value_at(table, offset))
            .or_else(|| {
                (span.start..=span.end)
                    .contains(&offset)
                    .then(|| (vec![], value))
            })?;
        keys.insert(0, key.get_ref().as_ref());
        Some((keys, value))
    })
}

fn kind_of(value: &Value<'_>) -> String {
    let kind = value.get_ref().type_str();
    let article = if kind.starts_with(['a', 'i']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}
