//! Whatever a file holds: the check of its text and the reading of it agree.

use mcp_question_throttle::settings::{self, Environment, SettingsError};
use proptest::{collection::vec, prelude::*, sample::select};

/// Lines that are valid by themselves, and what breaks them.
const PIECES: &[&str] = &[
    "[proto]\n",
    "samplingPerMinute = 5\n",
    "askTTL = \"5m\"\n",
    "[proto.questions]\n",
    "\"öpen/form\" = \"elicitation\"\n",
    "[servers.\"gé\"]\n",
    "[servers.\"gé\".proto]\n",
    "command = \"ü\"\n",
    "args = [\"a\", 'é']\n",
    "env = { A = \"b\", B = '''\n[x]\n''' }\n",
    "url = \"https://x/é\"\n",
    "headers = { x-y = \"z\" }\n",
    "proto.askRounds = 3\r\n",
    "[status]\n",
    "muteButton = true\n",
    "\u{feff}",
    "[[servers]]\n",
    "\"\"\"",
    "'''",
    "\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\\",
    "\0",
    "#",
    "\r",
    "\n",
    "🦀",
    "\u{202e}",
    "0x",
    "-",
    "1979-05-27",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// A text that passes the check can be read, and one that does not is refused with a place.
    #[test]
    fn any_text_gives_settings_or_errors_with_their_places(pieces in vec(select(PIECES), 0..12)) {
        let text = pieces.concat();
        match settings::parse("f", &text, &Environment::empty()) {
            Ok(loaded) => {
                drop(loaded.warnings());
                for server in loaded.servers().keys() {
                    prop_assert!(!loaded.in_force(Some(server)).is_empty());
                }
            }
            Err(SettingsError::Invalid(problems)) => {
                prop_assert!(!problems.is_empty());
                for problem in problems {
                    prop_assert!(problem.to_string().starts_with("f:"), "{problem}");
                }
            }
            Err(other) => prop_assert!(false, "{other} of {text:?}"),
        }
    }
}
