//! The colours in use. `anstream` leaves them out where nobody would see them.

use anstyle::{AnsiColor, Effects, Style};

/// A heading, as clap underlines its own.
pub(crate) const HEADER: Style = Style::new().effects(Effects::BOLD).underline();
/// What matters in a row.
pub(crate) const STRONG: Style = Style::new().bold();
/// What is only there for completeness.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// As it should be.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Not wrong, yet worth a look.
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// Good to know.
pub(crate) const NOTE: Style = AnsiColor::Cyan.on_default();
/// Wrong.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
