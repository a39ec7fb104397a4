//! The names of configured servers.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::Invalid;

/// The name of a configured server: the key of its budget (D2).
///
/// It comes from the settings, never from the server. 1 to 128 bytes, kept byte for byte, without
/// control or bidirectional characters, so that it can be shown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerName(Arc<Name>);

/// Behind one pointer, not the two words of an `Arc<str>`: every session keeps a name.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Name(Box<str>);

impl ServerName {
    /// What is valid.
    pub const EXPECTED: &str =
        "a server name of 1 to 128 bytes without control or bidirectional characters";

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if it is empty, longer than 128 bytes, or has a control or bidirectional
    /// character.
    pub fn new(name: impl Into<Box<str>>) -> Result<Self, Invalid> {
        let name = name.into();
        let reorders = |c: char| matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let valid =
            (1..=128).contains(&name.len()) && !name.chars().any(|c| c.is_control() || reorders(c));
        if valid {
            Ok(Self(Arc::new(Name(name))))
        } else {
            Err(Invalid::new(Self::EXPECTED, name))
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.0
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0.0
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ServerName {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl TryFrom<&str> for ServerName {
    type Error = Invalid;

    fn try_from(name: &str) -> Result<Self, Invalid> {
        Self::new(name)
    }
}

impl Serialize for ServerName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ServerName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(name).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_exact() {
        let name = |name: &str| ServerName::new(name).unwrap();
        assert_ne!(name("GitHub"), name("github"));
        assert_eq!(name(" a:b ").as_str(), " a:b ");
        for bad in ["", "a\nb", "a\u{202e}b", "a\u{7f}", &"x".repeat(129)] {
            assert!(ServerName::new(bad).is_err(), "{bad:?}");
        }
        assert!(ServerName::new("x".repeat(128)).is_ok());
    }
}
