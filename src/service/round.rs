//! Rounds (2026-07-28): counted and admitted whole, then answered together (D7).

use std::{pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use rmcp::{
    ErrorData,
    model::{
        ClientResult, GetExtensions, GetMeta, InputRequest, InputRequiredResult, InputResponses,
        NumberOrString, ServerRequest,
    },
    service::{Peer, RequestContext, RoleClient, Service, ServiceError},
};
use tokio_util::sync::CancellationToken;

use super::{
    Admitted, Permit, Throttled, Unanswered,
    attended::WithGrace,
    cleared::{self, Cleared, Sorted},
};
use crate::{
    arrival::{Arrival, Door},
    call_error::{CallError, Refused},
    methods::Methods,
    question::{Method, QuestionKind},
    refusal::Refusal,
    throttle::Ask,
    wire::{self, Message},
};

/// How often an open round looks whether its connection is still there: rmcp has no event for it.
const LOOK_AT_CONNECTION: Duration = Duration::from_secs(1);

const ARRIVAL: Arrival = Arrival::in_answer(Door::Round);

/// The answers to one round: what the call is sent again with.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RoundAnswer {
    /// The answers under their keys; `None` if the round asked nothing.
    pub input_responses: Option<InputResponses>,
    /// The server's state, as it came.
    pub request_state: Option<String>,
}

impl<S: Service<RoleClient>> Throttled<S> {
    /// Answers one `input_required` round, for a client that drives rounds itself: on rmcp's
    /// `*_once` calls or on a `Peer`, where nothing else comes by here.
    ///
    /// Every entry is counted before anything is cloned or a handler runs, and the whole round is
    /// admitted or refused. Then all its handlers run together, within the caller's task. When
    /// one of them fails, or the connection goes, the tokens of the others fire, and the call
    /// waits for them (at most [`GRACE`](super::GRACE)): no prompt stays open behind a call that
    /// has ended.
    ///
    /// How many rounds a call may take (`proto.askRounds`) is up to the driver.
    ///
    /// ```
    /// use mcp_question_throttle::{CallError, Throttled};
    /// use rmcp::{
    ///     RoleClient,
    ///     model::{CallToolRequestParams, CallToolResponse},
    ///     service::{RunningService, Service, ServiceError},
    /// };
    ///
    /// async fn call<S: Service<RoleClient>>(
    ///     running: &RunningService<RoleClient, Throttled<S>>,
    ///     mut params: CallToolRequestParams,
    /// ) -> Result<CallToolResponse, CallError> {
    ///     let throttled = running.service();
    ///     let max_rounds = throttled.session().settings().ask_rounds.get() as usize;
    ///     let mut rounds = 0;
    ///     loop {
    ///         match running.call_tool_once(params.clone()).await {
    ///             Ok(CallToolResponse::InputRequired(_)) if rounds == max_rounds => {
    ///                 return Err(ServiceError::InputRequiredRoundsExceeded { max_rounds }.into());
    ///             }
    ///             Ok(CallToolResponse::InputRequired(round)) => {
    ///                 rounds += 1;
    ///                 let answer = throttled.answer_round(round, running.peer()).await?;
    ///                 params.input_responses = answer.input_responses;
    ///                 params.request_state = answer.request_state;
    ///             }
    ///             // Or a task: `charge_task` goes before anything of its state is shown.
    ///             Ok(complete) => return Ok(complete),
    ///             Err(error) => {
    ///                 if let ServiceError::McpError(error) = &error {
    ///                     throttled.charge_error(error)?;
    ///                 }
    ///                 return Err(error.into());
    ///             }
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] with the round, if it does not fit; nothing is charged then, and
    /// nothing must be sent to the server. The same without the round if a question expired.
    /// [`CallError::Service`] with the first handler's error; or `UnexpectedResponse` for a round
    /// with neither entries nor state, or with an entry of an unknown kind.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future fires the tokens and drops the handlers. The charge stays (D3).
    pub async fn answer_round(
        &self,
        round: InputRequiredResult,
        peer: &Peer<RoleClient>,
    ) -> Result<RoundAnswer, CallError> {
        let Some(inputs) = round
            .input_requests
            .as_ref()
            .filter(|inputs| !inputs.is_empty())
        else {
            return match round.request_state {
                Some(state) => Ok(RoundAnswer {
                    input_responses: None,
                    request_state: Some(state),
                }),
                None => Err(ServiceError::UnexpectedResponse.into()),
            };
        };

        let methods = self.methods();
        let mut first: [Option<Method>; 2] = [None, None];
        let mut counts = [0_u32; 2];
        for input in inputs.values() {
            if input.method().is_empty() {
                return Err(ServiceError::UnexpectedResponse.into());
            }
            if let Some((kind, method)) = methods.classify(input.method()) {
                counts[kind as usize] = counts[kind as usize].saturating_add(1);
                first[kind as usize].get_or_insert(method);
            }
        }
        let mut ask = Ask::new();
        for kind in QuestionKind::ALL {
            if let Some(method) = &first[kind as usize] {
                ask = ask.and(kind, method, counts[kind as usize]);
            }
        }
        // A round that asks nothing (roots alone) is nobody's question.
        let admitted = if ask.total() > 0 {
            match self.admit_all(&ask, ARRIVAL) {
                Ok(admitted) => Some(admitted),
                Err(refusal) => return Err(Refused::round(refusal, round).into()),
            }
        } else {
            None
        };

        let InputRequiredResult {
            input_requests,
            request_state,
            ..
        } = round;
        let inputs = input_requests.unwrap_or_default();
        let input_responses = self
            .answer_all(inputs, admitted, ARRIVAL, &methods, peer)
            .await?;
        Ok(RoundAnswer {
            input_responses: Some(input_responses),
            request_state,
        })
    }

    /// Asks the handler for every entry at once. `admitted` covers those that are questions.
    pub(super) async fn answer_all(
        &self,
        inputs: impl IntoIterator<Item = (String, InputRequest)>,
        admitted: Option<Admitted>,
        arrival: Arrival,
        methods: &Methods<'_>,
        peer: &Peer<RoleClient>,
    ) -> Result<InputResponses, CallError> {
        let noted = admitted.as_ref().map(|it| it.noted).unwrap_or_default();
        let mut admissions = admitted
            .into_iter()
            .flat_map(|it| it.admission.into_single());
        let token = CancellationToken::new();
        // Fires when the caller drops the call, too.
        let _ends_with_the_call = token.clone().drop_guard();
        let mut running = FuturesUnordered::new();
        for (key, input) in inputs {
            let mut request = wire::request_of(input).ok_or(ServiceError::UnexpectedResponse)?;
            let context = entry_context(&key, &mut request, token.child_token(), peer);
            let entry = match cleared::sort(request, methods) {
                Sorted::Other(other) => Entry::Free(other),
                Sorted::Question(question) => match admissions.next() {
                    Some(admission) => {
                        let admitted = Admitted { admission, noted };
                        Entry::Paid(Permit::new(self, question, admitted, arrival))
                    }
                    // As many were admitted as were counted, by the same table (D13).
                    None => return Err(Refused::new(Refusal::internal()).into()),
                },
            };
            let answer = self.answer_entry(entry, context);
            running.push(async move { (key, answer.await) });
        }

        let mut answers = InputResponses::new();
        let mut failed: Option<CallError> = None;
        let mut gone = pin!(gone(peer));
        loop {
            let ended = tokio::select! {
                biased;
                ended = running.next() => ended,
                () = &mut gone, if failed.is_none() => {
                    token.cancel();
                    failed = Some(ServiceError::TransportClosed.into());
                    continue;
                }
            };
            let Some((key, answer)) = ended else { break };
            let answer = answer.and_then(|result| {
                serde_json::to_value(result).map_err(|error| {
                    Unanswered::Handler(ErrorData::internal_error(
                        format!("cannot serialise the answer to an input request: {error}"),
                        None,
                    ))
                })
            });
            match answer {
                Ok(answer) => {
                    answers.insert(key, answer);
                }
                Err(unanswered) => {
                    token.cancel();
                    failed.get_or_insert_with(|| unanswered.into());
                }
            }
        }
        failed.map_or(Ok(answers), Err)
    }

    async fn answer_entry(
        &self,
        entry: Entry<'_, S>,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, Unanswered> {
        match entry {
            Entry::Paid(permit) => permit.answer_or(context).await,
            Entry::Free(other) => {
                let token = context.ct.clone();
                match WithGrace::new(self.guarded.request(other, context), token).await {
                    Some(result) => result.map_err(Unanswered::Handler),
                    None => Err(Unanswered::Cancelled),
                }
            }
        }
    }
}

/// Ends when the connection has.
async fn gone(peer: &Peer<RoleClient>) {
    while !peer.is_transport_closed() {
        tokio::time::sleep(LOOK_AT_CONNECTION).await;
    }
}

/// An entry of a round on its way to the handler.
enum Entry<'a, S> {
    Paid(Permit<'a, S>),
    Free(Cleared<ServerRequest>),
}

/// The context of an entry: what a server request would have, under the entry's key.
fn entry_context(
    key: &str,
    request: &mut ServerRequest,
    token: CancellationToken,
    peer: &Peer<RoleClient>,
) -> RequestContext<RoleClient> {
    let mut context = RequestContext::new(NumberOrString::String(Arc::from(key)), peer.clone());
    context.ct = token;
    // The meta sits in the extensions, so it has to be taken out first.
    std::mem::swap(&mut context.meta, request.get_meta_mut());
    std::mem::swap(&mut context.extensions, request.extensions_mut());
    context
}
