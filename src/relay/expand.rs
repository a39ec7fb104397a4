//! The variables that stand in values of a client's configuration, and in headers of ours.

use std::{ffi::OsString, fmt};

/// Replaces `${VAR}`, `${VAR:-default}` and `${env:VAR}` by what `variable` says, once each: what a
/// variable holds is not looked into. A variable that is set and empty is set.
///
/// What else begins with `${` and is not a form of some client passes as it is, since it may be
/// meant for a shell.
pub(super) fn expand(
    text: &str,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Result<String, ExpandError> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, behind)) = after.split_once('}') else {
            expanded.push_str("${");
            rest = after;
            continue;
        };
        match Form::of(inside) {
            Form::Variable { name, default } => {
                let value = match variable(name) {
                    Some(value) => value
                        .into_string()
                        .map_err(|_| ExpandError::NoText(name.to_owned()))?,
                    None => default
                        .ok_or_else(|| ExpandError::Unset(name.to_owned()))?
                        .to_owned(),
                };
                expanded.push_str(&value);
            }
            Form::Input(name) => return Err(ExpandError::Input(name.to_owned())),
            Form::OfAClient(form) => return Err(ExpandError::Form(form.to_owned())),
            Form::Other => {
                expanded.push_str("${");
                rest = after;
                continue;
            }
        }
        rest = behind;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// What stands between `${` and `}`.
enum Form<'a> {
    Variable {
        name: &'a str,
        default: Option<&'a str>,
    },
    Input(&'a str),
    /// A word and a colon, as in `${config:x}`: something that a client looks up.
    OfAClient(&'a str),
    Other,
}

impl<'a> Form<'a> {
    fn of(inside: &'a str) -> Self {
        if let Some((name, default)) = inside.split_once(":-")
            && is_name(name)
        {
            let default = Some(default);
            return Self::Variable { name, default };
        }
        let variable = |name| Self::Variable {
            name,
            default: None,
        };
        match inside.split_once(':') {
            None if is_name(inside) => variable(inside),
            Some(("env", name)) if is_name(name) => variable(name),
            Some(("input", name)) => Self::Input(name),
            // A shell's own forms have a sign after the colon.
            Some((word, rest)) if is_name(word) && !rest.starts_with(['-', '=', '?', '+']) => {
                Self::OfAClient(inside)
            }
            _ => Self::Other,
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.starts_with(|first: char| first.is_ascii_digit())
        && !text.is_empty()
        && text
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || char == '_')
}

/// Why a value has no meaning here. No value is in it, only names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExpandError {
    Unset(String),
    NoText(String),
    Input(String),
    Form(String),
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset(name) => write!(
                f,
                "environment variable {name} is not set; set it, or give a default as in \
                 ${{{name}:-...}}"
            ),
            Self::NoText(name) => write!(f, "environment variable {name} is no UTF-8"),
            Self::Input(name) => write!(
                f,
                "${{input:{name}}} is asked for by VS Code, which alone knows the answer; put it \
                 into a variable and write ${{env:NAME}}"
            ),
            Self::Form(form) => write!(
                f,
                "${{{form}}} is not known here; expected ${{NAME}}, ${{NAME:-default}} or \
                 ${{env:NAME}}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, ExpandError> {
        expand(text, &|name| match name {
            "A" => Some("one".into()),
            "EMPTY" => Some("".into()),
            "LOOP" => Some("${A}".into()),
            _ => None,
        })
    }

    #[test]
    fn variables_are_replaced_where_they_stand_and_once() {
        for (text, expected) in [
            ("${A}", "one"),
            ("${env:A}", "one"),
            ("${A:-x}", "one"),
            ("x${A}y${A}z", "xoneyonez"),
            ("${NO:-x}", "x"),
            ("${NO:-}", ""),
            ("${NO:-a:-b}", "a:-b"),
            ("${EMPTY:-x}", ""),
            ("${LOOP}", "${A}"),
            ("$A, $${A}", "$A, $one"),
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_passes_as_it_is() {
        for text in [
            "", "$", "${", "${}", "${A", "${#x}", "${x%.*}", "${1}", "${x:?no}", "a}b",
        ] {
            assert_eq!(expanded(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn what_is_not_known_here_is_an_error() {
        let unset = |name: &str| Err(ExpandError::Unset(name.to_owned()));
        assert_eq!(expanded("Bearer ${NO}"), unset("NO"));
        assert_eq!(expanded("${env:NO}"), unset("NO"));
        assert_eq!(expanded("${workspaceFolder}/x"), unset("workspaceFolder"));
        let input = ExpandError::Input("token".to_owned());
        assert_eq!(expanded("${input:token}"), Err(input));
        let form = ExpandError::Form("config:x.y".to_owned());
        assert_eq!(expanded("${config:x.y}"), Err(form));
    }
}
