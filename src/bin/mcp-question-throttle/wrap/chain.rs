//! Keeps a `wrap` that takes its command from a file from starting itself without end.
//!
//! An entry of a client's file whose command is `wrap --mcp-config` of that very file starts the
//! same `wrap` again, which reads the same entry. So each `wrap` tells what it starts, through the
//! environment, which entry of which file it was started for, and one that finds its own entry
//! there ends. Entries stand there as numbers: a server need not know names and paths.

use std::{
    env,
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::Path,
    process,
};

use mcp_question_throttle::limits::ServerName;

/// Not one of our prefix, under which a variable that is no setting stops the start.
const VARIABLE: &str = "MCP_QUESTION_WRAPS";

/// One entry of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link(String);

impl Link {
    pub(super) fn new(file: &Path, server: &ServerName) -> Self {
        let mut hasher = DefaultHasher::new();
        // However the file is named, from whatever folder.
        let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        (file, server.as_str()).hash(&mut hasher);
        Self(format!("{:016x}", hasher.finish()))
    }

    /// Whether this process was started, directly or not, by a `wrap` for the same entry.
    pub(super) fn has_begun(&self) -> bool {
        is_in(&self.0, &env::var_os(VARIABLE).unwrap_or_default())
    }

    /// Tells `child`, and what that starts.
    pub(super) fn add_to(&self, child: &mut process::Command) {
        let mut all = env::var_os(VARIABLE).unwrap_or_default();
        if !all.is_empty() {
            all.push(",");
        }
        all.push(&self.0);
        child.env(VARIABLE, all);
    }
}

fn is_in(link: &str, all: &OsString) -> bool {
    all.to_string_lossy().split(',').any(|one| one == link)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_its_file_and_its_server() {
        let name = |name: &str| ServerName::new(name).unwrap();
        let link = |file: &str, server: &str| Link::new(Path::new(file), &name(server));
        assert_eq!(link("src", "a"), link("./tests/../src", "a"));
        assert_ne!(link("src", "a"), link("src", "b"));
        assert_ne!(link("src", "a"), link("tests", "a"));
        let Link(one) = link("src", "a");
        assert!(is_in(&one, &format!("0,{one}").into()));
        assert!(!is_in(&one, &OsString::new()));
        assert!(!is_in(&one, &format!("{one}0").into()));
    }
}
