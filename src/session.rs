//! A client session that answers everything a call can ask through the throttle: rounds, tasks,
//! and the URL elicitations of an error.

mod call;
mod connection;
mod plain;
mod subscription;

use std::{fmt, num::NonZeroUsize, time::Duration};

use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ErrorData, GetPromptRequestParams,
        GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
        ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, SubscriptionFilter,
        TaskPayload, UpdateTaskParams,
    },
    service::{RunningService, Service, ServiceError},
};

use self::call::Call;
pub use self::subscription::ThrottledSubscription;
use crate::{
    arrival::{Arrival, Door},
    call_error::{CallError, Refused},
    question::Method,
    refusal::{Cause, Refusal},
    service::{Answered, Throttled},
    throttle::Ask,
};

/// How often a task is polled if its server does not say.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// A server cannot make itself be polled more often than this.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Nor less often: what it says is a number of its own, and a call must not sleep for ever by it.
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);

/// A running client service whose calls are throttled at every door.
///
/// It has rmcp's method names and arguments, but for the calls with a number of rounds, which is
/// `proto.askRounds` here. Dropping it ends the session, as with rmcp's. What differs from calling rmcp's own
/// [`RunningService`] around the same [`Throttled`] service:
///
/// - A round is admitted whole before any handler runs (D7). rmcp's own driver asks entry by
///   entry, so a round over the limit is cut in the middle, after some prompts have opened.
/// - Rounds are bounded by `proto.askRounds` (D8), and their handlers' tokens fire when the call
///   ends.
/// - Tasks are followed, and the questions in them and in errors `-32042` are counted. rmcp's own
///   calls hand them to the caller uncounted.
///
/// Calls on the [`peer`](Self::peer) go around all of that; notifications are sent by it.
///
/// A call has no time limit of its own, and waits for people: bound it by dropping its future, as
/// `tokio::time::timeout` does. One that needs rmcp's request options goes by the peer, with
/// [`Throttled::answer_round`] for what comes back.
#[must_use = "dropping it ends the session"]
pub struct ClientSession<S: Service<RoleClient>> {
    running: RunningService<RoleClient, Throttled<S>>,
}

impl<S: Service<RoleClient>> ClientSession<S> {
    /// `tools/call`, with its rounds answered; a task that the server makes of it is followed to
    /// its end.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if what the server asks does not fit, or if it asks for more rounds
    /// than `proto.askRounds`; it names the task if there is one. [`CallError::Service`] for all
    /// else.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request in flight and ends its handlers. Questions that
    /// were admitted stay charged (D3). A task goes on at the server; to keep hold of its id, use
    /// [`call_tool_once`](Self::call_tool_once) and [`follow_task`](Self::follow_task).
    pub async fn call_tool(
        &self,
        params: CallToolRequestParams,
    ) -> Result<CallToolResult, CallError> {
        match self.drive(params).await? {
            CallToolResponse::Complete(result) => Ok(result),
            CallToolResponse::Task(created) => {
                let ended = self.follow_task(created.task.task_id).await?;
                match ended.task.payload {
                    TaskPayload::Completed { result } => serde_json::from_value(result.into())
                        .map_err(|_| ServiceError::UnexpectedResponse.into()),
                    TaskPayload::Failed { error } => Err(failed_task(error.into()).into()),
                    TaskPayload::Cancelled => Err(ServiceError::Cancelled {
                        reason: ended.task.task.status_message,
                    }
                    .into()),
                    _ => Err(ServiceError::UnexpectedResponse.into()),
                }
            }
            _ => Err(ServiceError::UnexpectedResponse.into()),
        }
    }

    /// `prompts/get`, with its rounds answered.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
    ) -> Result<GetPromptResult, CallError> {
        match self.drive(params).await? {
            GetPromptResponse::Complete(result) => Ok(result),
            _ => Err(ServiceError::UnexpectedResponse.into()),
        }
    }

    /// `resources/read`, with its rounds answered.
    ///
    /// # Errors
    ///
    /// As [`call_tool`](Self::call_tool).
    ///
    /// # Cancel safety
    ///
    /// As [`call_tool`](Self::call_tool).
    pub async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
    ) -> Result<ReadResourceResult, CallError> {
        match self.drive(params).await? {
            ReadResourceResponse::Complete(result) => Ok(result),
            _ => Err(ServiceError::UnexpectedResponse.into()),
        }
    }

    /// `tasks/get`. What the task asks is charged once for each question, however often it is
    /// polled; showing and answering it (with [`update_task`](Self::update_task)) is the
    /// caller's. To have both done, use [`follow_task`](Self::follow_task).
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if what is new in it does not fit: nothing is charged, and the task
    /// stays the caller's. [`CallError::Service`] for all else.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future cancels the request; nothing is charged before its answer has come.
    pub async fn get_task(&self, params: GetTaskParams) -> Result<GetTaskResult, CallError> {
        let result = self.guard(self.peer().get_task(params).await)?;
        if let Err(refusal) = self.service().charge_task(&result.task) {
            let refused = CallError::from(Refused::new(refusal));
            return Err(refused.in_task(result.task.task.task_id));
        }
        Ok(result)
    }

    /// Follows a task to its end: polls it as often as the server suggests, and has what it asks
    /// answered. No question is shown twice, however many follow the task. One whose answer could
    /// not be sent is shown again to whoever follows the task next, and charged again.
    ///
    /// The server's `pollIntervalMs` holds from 50 ms to a minute: less or more counts as these,
    /// and none as a second. How long a task may take in all is the caller's to bound, by dropping
    /// the future.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if what it asks does not fit: the task goes on at the server, and
    /// can be followed again later. [`CallError::Service`] for all else.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the handlers. Charges stay (D3), and the task goes on at the
    /// server.
    pub async fn follow_task(
        &self,
        task_id: impl Into<String>,
    ) -> Result<GetTaskResult, CallError> {
        let task_id = task_id.into();
        self.drive_task(&task_id)
            .await
            .map_err(|error| error.in_task(task_id))
    }

    async fn drive_task(&self, task_id: &str) -> Result<GetTaskResult, CallError> {
        let mut answered = Answered::default();
        loop {
            let params = GetTaskParams::new(task_id);
            let result = self.guard(self.peer().get_task(params).await)?;
            if result.task.status().is_terminal() {
                self.service()
                    .charge_task(&result.task)
                    .map_err(Refused::new)?;
                return Ok(result);
            }
            let pause = poll_interval(result.task.task.poll_interval_ms);
            let (answers, taken) = self
                .service()
                .answer_task(result.task, &mut answered, self.peer())
                .await?;
            if !answers.is_empty() {
                self.update_task(UpdateTaskParams::new(task_id, answers))
                    .await?;
            }
            taken.answered();
            tokio::time::sleep(pause).await;
        }
    }

    /// Subscribes to notifications (2026-07-28), with questions among them held to the limits:
    /// rmcp hands a subscription's notifications to its reader, past the service.
    ///
    /// # Errors
    ///
    /// [`CallError::Refused`] if an error `-32042` asks for more than fits;
    /// [`CallError::Service`] for all else, as rmcp's `Peer::listen`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future ends the subscription.
    pub async fn listen(
        &self,
        filter: SubscriptionFilter,
    ) -> Result<ThrottledSubscription<'_, S>, CallError> {
        let subscription = self.guard(self.peer().listen(filter).await)?;
        Ok(ThrottledSubscription::new(subscription, self.service()))
    }

    /// As [`listen`](Self::listen), with room for so many notifications that are not read yet.
    ///
    /// # Errors
    ///
    /// As [`listen`](Self::listen).
    ///
    /// # Cancel safety
    ///
    /// As [`listen`](Self::listen).
    pub async fn listen_with_capacity(
        &self,
        filter: SubscriptionFilter,
        capacity: NonZeroUsize,
    ) -> Result<ThrottledSubscription<'_, S>, CallError> {
        let subscription = self.peer().listen_with_capacity(filter, capacity).await;
        let subscription = self.guard(subscription)?;
        Ok(ThrottledSubscription::new(subscription, self.service()))
    }

    /// Drives the rounds of a call (D8), as many as the settings allow when one comes (D11).
    async fn drive<C: Call>(&self, mut call: C) -> Result<C::Response, CallError> {
        let _open = self.service().calls().count();
        let mut state_only = 0;
        for round in 0.. {
            let response = self.guard(call.clone().send(self.peer()).await)?;
            let input = match C::input_required(response) {
                Ok(input) => input,
                Err(response) => return Ok(response),
            };
            let max = self.service().session().settings().ask_rounds.get();
            if round >= max {
                let refusal =
                    Refusal::new(Cause::RoundsExceeded { max }, Method::protocol(C::METHOD));
                let refusal = self.service().tell_refused(
                    Arrival::in_answer(Door::Round),
                    &Ask::new(),
                    refusal,
                );
                return Err(Refused::round(refusal, input).into());
            }
            let answer = self.service().answer_round(input, self.peer()).await?;
            if answer.input_responses.is_some() {
                state_only = 0;
            } else {
                tokio::time::sleep(state_only_pause(state_only)).await;
                state_only += 1;
            }
            call.answer(answer);
        }
        unreachable!("the loop ends by returning")
    }

    fn guard<T>(&self, outcome: Result<T, ServiceError>) -> Result<T, CallError> {
        self.service().guard(outcome)
    }
}

// By hand, as for the other generic types: a derive would ask for `S: Debug`, which few handlers are.
impl<S: Service<RoleClient>> fmt::Debug for ClientSession<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientSession")
            .field("service", self.service())
            .field("peer", self.peer())
            .finish_non_exhaustive()
    }
}

/// The pause before a round that brought only state is sent again: 50 ms, doubling to 250 ms, so
/// that a server that sheds load gets some rest. rmcp's own driver keeps the same pace.
fn state_only_pause(rounds_before: u32) -> Duration {
    Duration::from_millis(250.min(50 << rounds_before.min(3)))
}

/// The pause before a task is polled again, by the milliseconds that its server suggests.
fn poll_interval(suggested: Option<u64>) -> Duration {
    suggested
        .map_or(POLL_INTERVAL, Duration::from_millis)
        .clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)
}

fn failed_task(error: serde_json::Value) -> ServiceError {
    match serde_json::from_value::<ErrorData>(error) {
        Ok(error) => ServiceError::McpError(error),
        Err(_) => ServiceError::UnexpectedResponse,
    }
}
