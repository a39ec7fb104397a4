//! The span of an admitted question, for the embedder's traces.

use rmcp::model::MetaObject;
use tracing::{Span, field::Empty};

use crate::{arrival::Arrival, question::QuestionKind, throttle::Session};

/// The span of one admitted question. It tells how the question ended when it is dropped.
#[derive(Debug)]
pub(super) struct QuestionSpan {
    span: Span,
    outcome: &'static str,
}

impl QuestionSpan {
    /// Begins a span below the current one.
    #[inline]
    pub(super) fn new(session: &Session, kind: QuestionKind, arrival: Arrival) -> Self {
        let span = tracing::info_span!(
            "question",
            server = session.server().as_str(),
            session = session.number(),
            kind = kind.as_str(),
            door = arrival.door.as_str(),
            origin = arrival.origin.as_str(),
            outcome = Empty,
            link.trace_id = Empty,
            link.span_id = Empty,
        );
        Self {
            span,
            outcome: "cancelled",
        }
    }

    /// Notes what the server traces as a link, by the names that OpenTelemetry has for its ids:
    /// it can claim to belong to any trace, and never becomes the parent of ours.
    #[inline]
    pub(super) fn linked(self, meta: &MetaObject) -> Self {
        if !self.span.is_disabled()
            && let Some(link) = meta.get_traceparent()
            && let Some((trace_id, span_id)) = parse(link)
        {
            self.span.record("link.trace_id", trace_id);
            self.span.record("link.span_id", span_id);
        }
        self
    }

    pub(super) const fn span(&self) -> &Span {
        &self.span
    }

    /// Says how it ended; without, it was cancelled.
    pub(super) const fn ended(&mut self, outcome: &'static str) {
        self.outcome = outcome;
    }
}

impl Drop for QuestionSpan {
    fn drop(&mut self) {
        // Looking the field up is not worth it where nobody sees it.
        if !self.span.is_disabled() {
            self.span.record("outcome", self.outcome);
        }
    }
}

/// The ids of a trace and of a span, if `text` is exactly as the W3C's Trace Context has it.
fn parse(text: &str) -> Option<(&str, &str)> {
    let is_hex = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_id = |part: &str, length| is_hex(part, length) && part.bytes().any(|byte| byte != b'0');
    let mut parts = text.splitn(5, '-');
    let (version, trace_id) = (parts.next()?, parts.next()?);
    let (span_id, flags) = (parts.next()?, parts.next()?);
    // A later version may add fields at the end.
    let may_end = version != "00" || parts.next().is_none();
    let is_valid = is_hex(version, 2) && version != "ff" && may_end && is_hex(flags, 2);
    (is_valid && is_id(trace_id, 32) && is_id(span_id, 16)).then_some((trace_id, span_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_traceparent_is_taken_only_if_it_is_exactly_one() {
        const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
        const SPAN: &str = "00f067aa0ba902b7";
        let valid = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(parse(&valid), Some((TRACE, SPAN)));
        assert_eq!(
            parse(&format!("cc-{TRACE}-{SPAN}-01-what-comes")),
            Some((TRACE, SPAN))
        );
        for wrong in [
            String::new(),
            valid.to_uppercase(),
            format!("{valid}-"),
            format!("{valid} "),
            format!(" {valid}"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-0g"),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}0-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}\n-01"),
            format!("00-{SPAN}-{TRACE}-01"),
        ] {
            assert_eq!(parse(&wrong), None, "{wrong:?}");
        }
    }
}
