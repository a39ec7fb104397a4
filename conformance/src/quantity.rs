//! How many questions a step asks: a number, or a sum in terms of the limits, as `limit + 10`.

use serde::{Deserialize, Deserializer, de};

use crate::{
    limits::Limits,
    protocol::{Kind, Scope},
};

/// A sum of whole numbers and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Quantity(Vec<(Sign, Term)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Term {
    Number(u32),
    /// The lowest limit of the kind.
    Lowest,
    /// The limit of one scope.
    Limit(Scope),
    /// Rounds per call.
    Rounds,
}

impl Default for Quantity {
    fn default() -> Self {
        Self::number(1)
    }
}

impl Quantity {
    fn number(number: u32) -> Self {
        Self(vec![(Sign::Plus, Term::Number(number))])
    }

    const EXPECTED: &str =
        "a whole number, or a sum of such and of `limit`, `server`, `session` and `rounds`";

    /// The value for a kind; `None` if it depends on a limit that is turned off.
    pub(crate) fn of(&self, kind: Kind, limits: &Limits) -> Option<u32> {
        let mut sum = 0_u32;
        for &(sign, term) in &self.0 {
            let value = match term {
                Term::Number(number) => number,
                Term::Lowest => limits.lowest(kind)?,
                Term::Limit(scope) => limits.get(kind, scope)?,
                Term::Rounds => limits.ask_rounds,
            };
            sum = match sign {
                Sign::Plus => sum.saturating_add(value),
                Sign::Minus => sum.saturating_sub(value),
            };
        }
        Some(sum)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut terms = Vec::new();
        let mut sign = Some(Sign::Plus);
        for word in text.split_whitespace() {
            match (sign, word) {
                (None, "+") => sign = Some(Sign::Plus),
                (None, "-") => sign = Some(Sign::Minus),
                (Some(before), word) => {
                    let term = match word {
                        "limit" => Term::Lowest,
                        "server" => Term::Limit(Scope::Server),
                        "session" => Term::Limit(Scope::Session),
                        "rounds" => Term::Rounds,
                        number => Term::Number(number.parse().ok()?),
                    };
                    terms.push((before, term));
                    sign = None;
                }
                (None, _) => return None,
            }
        }
        (sign.is_none()).then_some(Self(terms))
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self::number(number)),
            Written::Text(text) => Self::parse(&text).ok_or_else(|| {
                de::Error::custom(format!("expected {}, found {text:?}", Self::EXPECTED))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str, kind: Kind) -> Option<u32> {
        Quantity::parse(text).unwrap().of(kind, &Limits::default())
    }

    #[test]
    fn sums_are_in_terms_of_the_limits() {
        assert_eq!(value("limit + 10", Kind::Sampling), Some(30));
        assert_eq!(value("server - session", Kind::Sampling), Some(40));
        assert_eq!(value("limit - 1", Kind::Elicitation), Some(29));
        assert_eq!(value("rounds + 1", Kind::Elicitation), Some(9));
    }

    #[test]
    fn a_limit_that_is_off_has_no_value() {
        assert_eq!(value("session + 1", Kind::Elicitation), None);
    }

    #[test]
    fn what_is_no_sum_is_refused() {
        for text in ["", "+", "limit +", "limit 3", "limits", "-1", "1.5"] {
            assert_eq!(Quantity::parse(text), None, "{text:?}");
        }
    }
}
