//! The permit, and the life of an admitted question (D9).

use std::time::Duration;

use rmcp::{
    model::{ClientResult, ErrorData, ServerRequest},
    service::{RequestContext, RoleClient, Service},
};

use super::{
    Throttled,
    cleared::{Cleared, Question},
};
use crate::{
    question::{Method, QuestionKind},
    refusal::{Cause, Refusal},
    throttle::{Admission, Ask},
    verdict::Door,
};

/// How long a handler may go on after its token has fired (D9).
pub const GRACE: Duration = Duration::from_secs(5);

/// An admitted question: the only road from a server's message to the handler.
///
/// It owns the question and borrows its wrapper. Dropping it answers nothing and refunds nothing.
#[derive(Debug)]
#[must_use = "the question is charged; answer it"]
pub struct Permit<'a, S> {
    throttled: &'a Throttled<S>,
    kind: QuestionKind,
    method: Method,
    door: Door,
    request: Cleared<ServerRequest>,
}

/// Why an admitted question has no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// The throttle ended it.
    Refused(Refusal),
    /// The handler's own error, untouched.
    Handler(ErrorData),
    /// It was cancelled, and the handler did not end in time.
    Cancelled,
}

impl From<Unanswered> for ErrorData {
    fn from(unanswered: Unanswered) -> Self {
        match unanswered {
            Unanswered::Refused(refusal) => refusal.into(),
            Unanswered::Handler(error) => error,
            // The server has taken its question back or is gone, so nobody reads this.
            Unanswered::Cancelled => Self::internal_error("question cancelled", None),
        }
    }
}

impl<'a, S> Permit<'a, S> {
    pub(super) fn new(
        throttled: &'a Throttled<S>,
        question: Question,
        admission: Admission,
        door: Door,
    ) -> Self {
        Self {
            throttled,
            door,
            kind: question.kind,
            method: question.method.clone(),
            request: question.paid_by(admission),
        }
    }

    /// The kind of question.
    #[must_use]
    pub const fn kind(&self) -> QuestionKind {
        self.kind
    }
}

impl<S: Service<RoleClient>> Permit<'_, S> {
    /// Asks the handler, for at most `proto.askTTL` (D9). After that the token in `context`
    /// fires, and the handler's future is dropped. When the token fires for another reason, the
    /// handler has [`GRACE`] to end by itself.
    ///
    /// # Errors
    ///
    /// The handler's own error, untouched; or the refusal `question_expired`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the handler's. The charge stays (D3).
    pub async fn answer(
        self,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        Ok(self.answer_or(context).await?)
    }

    pub(crate) async fn answer_or(
        self,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, Unanswered> {
        let Self {
            throttled,
            kind,
            method,
            door,
            request,
        } = self;
        let ttl = throttled.session.settings().ask_ttl.get();
        let token = context.ct.clone();
        {
            let mut answer = std::pin::pin!(throttled.guarded.request(request, context));
            tokio::select! {
                biased;
                result = &mut answer => return result.map_err(Unanswered::Handler),
                () = token.cancelled() => {
                    return match tokio::time::timeout(GRACE, answer).await {
                        Ok(result) => result.map_err(Unanswered::Handler),
                        Err(_) => Err(Unanswered::Cancelled),
                    };
                }
                () = tokio::time::sleep(ttl) => {}
            }
            // What the handler has spawned sees the token; its own future ends with this block.
            token.cancel();
        }
        let refusal = Refusal::new(Cause::QuestionExpired { ttl }, method.clone());
        throttled.report(door, &Ask::one(kind, &method), Some(&refusal));
        Err(Unanswered::Refused(refusal))
    }
}
