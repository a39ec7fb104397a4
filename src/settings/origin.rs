//! Where a setting came from.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use serde::{Serialize, Serializer};

use super::{
    StatusPage,
    keys::{self, PROTO, QUESTIONS, SCALARS, Scalar},
};
use crate::limits::ServerName;

/// Where a setting came from, or where something is wrong with one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// Built in.
    Default,
    /// A place in a file.
    #[non_exhaustive]
    File {
        /// The file, as it was named.
        file: Arc<str>,
        /// The line, from 1.
        line: usize,
        /// The character in the line, from 1.
        column: usize,
    },
    /// An environment variable.
    Variable(Arc<str>),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { file, line, .. } => write!(f, "{file}:{line}"),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A text with a name, which turns offsets into places.
#[derive(Debug)]
pub(super) struct Source<'a> {
    name: Arc<str>,
    text: &'a str,
    /// Where each line starts; a file of ten thousand servers has as many places to find.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &str, text: &'a str) -> Self {
        let after = |(at, newline): (usize, &str)| at + newline.len();
        Self {
            name: name.into(),
            text,
            lines: std::iter::once(0)
                .chain(text.match_indices('\n').map(after))
                .collect(),
        }
    }

    pub(super) fn place(&self, span: Range<usize>) -> Origin {
        let line = self.lines.partition_point(|start| *start <= span.start);
        let line_start = self.lines[line - 1];
        let before = self.text.get(line_start..span.start).unwrap_or_default();
        // A byte order mark is no character that anybody sees.
        let before = before.trim_start_matches('\u{feff}');
        Origin::File {
            file: Arc::clone(&self.name),
            line,
            column: before.chars().count() + 1,
        }
    }
}

/// The origins of the settings of one table `proto`, by full name.
type Table = BTreeMap<String, Origin>;

/// The origins of all settings that are not at their defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Origins {
    proto: Table,
    servers: BTreeMap<ServerName, Table>,
}

impl Origins {
    pub(super) fn set(&mut self, server: Option<&ServerName>, setting: String, origin: Origin) {
        let table = match server {
            Some(server) => self.servers.entry(server.clone()).or_default(),
            None => &mut self.proto,
        };
        table.insert(setting, origin);
    }

    pub(super) fn set_variable(&mut self, scalar: &Scalar) {
        let origin = Origin::Variable(scalar.variable.into());
        self.proto.insert(scalar.name.to_owned(), origin);
    }

    pub(super) fn get(&self, server: Option<&ServerName>, setting: &str) -> Option<&Origin> {
        let own = server.and_then(|server| self.servers.get(server));
        let questions = keys::join(PROTO, QUESTIONS);
        // A server's table of vendor methods replaces the common one as a whole.
        let common = match own {
            Some(own) if setting.starts_with(&questions) && own.contains_key(&questions) => None,
            _ => Some(&self.proto),
        };
        let known = || {
            [&*questions, StatusPage::MUTE_BUTTON].contains(&setting)
                || SCALARS.iter().any(|it| it.name == setting)
        };
        own.and_then(|table| table.get(setting))
            .or_else(|| common.and_then(|table| table.get(setting)))
            .or_else(|| known().then_some(&Origin::Default))
    }
}
