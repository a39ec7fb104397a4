//! What counts as a question: by its method name alone, never by how well it parses.

mod protocol;

use std::{collections::BTreeMap, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The method of a sampling question.
pub const SAMPLING_METHOD: &str = "sampling/createMessage";
/// The method of an elicitation question.
pub const ELICITATION_METHOD: &str = "elicitation/create";

/// Whose attention a question claims. Each kind has windows of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QuestionKind {
    /// A model call, or a person's review of one: `sampling/createMessage`.
    Sampling,
    /// A person's attention: `elicitation/create`, in form or URL mode.
    Elicitation,
}

impl QuestionKind {
    /// Both kinds, in the order of the settings table.
    pub const ALL: [Self; 2] = [Self::Sampling, Self::Elicitation];

    /// The word used for this kind in settings, logs and snapshots.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sampling => "sampling",
            Self::Elicitation => "elicitation",
        }
    }

    /// The protocol's own method of this kind.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Sampling => SAMPLING_METHOD,
            Self::Elicitation => ELICITATION_METHOD,
        }
    }
}

impl fmt::Display for QuestionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for QuestionKind {
    type Err = UnknownKind;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == word)
            .ok_or_else(|| UnknownKind(word.to_owned()))
    }
}

/// A word that names no [`QuestionKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            r#"expected "sampling" or "elicitation", found {:?}"#,
            self.0
        )
    }
}

impl std::error::Error for UnknownKind {}

impl Serialize for QuestionKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for QuestionKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Word;
        impl de::Visitor<'_> for Word {
            type Value = QuestionKind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(r#""sampling" or "elicitation""#)
            }

            fn visit_str<E: de::Error>(self, word: &str) -> Result<QuestionKind, E> {
                word.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Word)
    }
}

/// The name a question came under: static for the protocol's own, shared for a vendor method.
///
/// It is always a name from the protocol or from the operator's settings, so it is safe to log
/// and to send back.
#[derive(Clone, Debug)]
pub struct Method(Name);

#[derive(Clone, Debug)]
enum Name {
    Protocol(&'static str),
    Vendor(Arc<str>),
}

impl Method {
    /// A method name of the protocol itself.
    #[must_use]
    pub const fn protocol(name: &'static str) -> Self {
        Self(Name::Protocol(name))
    }

    /// The method as it stands on the wire.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Protocol(name) => name,
            Name::Vendor(name) => name,
        }
    }
}

impl From<QuestionKind> for Method {
    fn from(kind: QuestionKind) -> Self {
        Self::protocol(kind.method())
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Method {}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which vendor methods are questions, and of what kind: the table `[proto.questions]`.
///
/// The protocol's own two methods are always questions and cannot be renamed or turned off. Of its
/// others, `roots/list` alone can be made one.
///
/// ```
/// use mcp_question_throttle::question::{QuestionKind, QuestionMethods};
///
/// let methods = QuestionMethods::new().with("openai/form", QuestionKind::Elicitation)?;
/// assert!(methods.classify("openai/form").is_some());
/// assert!(methods.classify("elicitation/create").is_some());
/// assert!(methods.classify("ping").is_none());
/// # Ok::<(), mcp_question_throttle::question::BadMethod>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionMethods(BTreeMap<Arc<str>, QuestionKind>);

impl QuestionMethods {
    /// No vendor methods.
    #[must_use]
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Adds a vendor method.
    ///
    /// # Errors
    ///
    /// [`BadMethod`] for an empty name, one with control characters, one of the protocol's own two
    /// methods, which already are questions, or any other request or notification of the protocol
    /// but `roots/list`: those are never charged and never touched.
    pub fn with(
        mut self,
        method: impl Into<Arc<str>>,
        kind: QuestionKind,
    ) -> Result<Self, BadMethod> {
        let method = method.into();
        if method.is_empty() || method.chars().any(char::is_control) {
            return Err(BadMethod::Unprintable(method));
        }
        if protocol_kind(&method).is_some() {
            return Err(BadMethod::Protocol(method));
        }
        if protocol::is_no_question(&method) {
            return Err(BadMethod::NoQuestion(method));
        }
        self.0.insert(method, kind);
        Ok(self)
    }

    /// One method that [`with`](Self::with) would refuse.
    #[cfg(test)]
    pub(crate) fn unchecked(method: &str, kind: QuestionKind) -> Self {
        Self(BTreeMap::from([(method.into(), kind)]))
    }

    /// The kind and the name of `method` if it is a question. The comparison is exact: another
    /// case or a trailing space is another method.
    #[inline]
    #[must_use]
    pub fn classify(&self, method: &str) -> Option<(QuestionKind, Method)> {
        if let Some(kind) = protocol_kind(method) {
            return Some((kind, kind.into()));
        }
        // Nearly every client has none, and then nothing needs to be compared.
        if self.0.is_empty() {
            return None;
        }
        self.0
            .get_key_value(method)
            .map(|(name, kind)| (*kind, Method(Name::Vendor(Arc::clone(name)))))
    }

    /// The vendor methods, in byte order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, QuestionKind)> {
        self.0.iter().map(|(method, kind)| (method.as_ref(), *kind))
    }
}

#[inline]
fn protocol_kind(method: &str) -> Option<QuestionKind> {
    match method {
        SAMPLING_METHOD => Some(QuestionKind::Sampling),
        ELICITATION_METHOD => Some(QuestionKind::Elicitation),
        _ => None,
    }
}

/// A name that cannot be a vendor question.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadMethod {
    /// Empty, or with control characters.
    Unprintable(Arc<str>),
    /// Already a question of the protocol.
    Protocol(Arc<str>),
    /// A request or notification of the protocol that is no question.
    NoQuestion(Arc<str>),
}

impl fmt::Display for BadMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unprintable(method) => write!(
                f,
                "expected a method name without control characters, found {method:?}"
            ),
            Self::Protocol(method) => write!(
                f,
                "{method:?} is a question of the protocol itself, and always counted as one"
            ),
            Self::NoQuestion(method) => write!(
                f,
                "{method:?} is a message of the protocol itself and no question: it is never \
                 counted and never refused"
            ),
        }
    }
}

impl std::error::Error for BadMethod {}

impl Serialize for QuestionMethods {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for QuestionMethods {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = BTreeMap::<String, QuestionKind>::deserialize(deserializer)?;
        table
            .into_iter()
            .try_fold(Self::new(), |methods, (method, kind)| {
                methods.with(method, kind)
            })
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_known_by_its_exact_method() {
        let none = QuestionMethods::new();
        for kind in QuestionKind::ALL {
            assert_eq!(none.classify(kind.method()), Some((kind, kind.into())));
        }
        for other in ["ping", "Elicitation/create", "elicitation/create ", ""] {
            assert_eq!(none.classify(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_vendor_method_is_checked_before_it_counts() {
        let add = |method: &str| QuestionMethods::new().with(method, QuestionKind::Sampling);
        assert!(add("openai/form").is_ok());
        assert!(
            add("roots/list").is_ok(),
            "an embedder may count any method"
        );
        assert_eq!(add(""), Err(BadMethod::Unprintable("".into())));
        assert_eq!(add("a\nb"), Err(BadMethod::Unprintable("a\nb".into())));
        assert_eq!(
            add(ELICITATION_METHOD),
            Err(BadMethod::Protocol(ELICITATION_METHOD.into()))
        );
    }
}
