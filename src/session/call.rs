//! The three calls that a server may answer with rounds, seen alike.

use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, CallToolResponse, GetPromptRequestParams, GetPromptResponse,
        InputRequiredResult, ReadResourceRequestParams, ReadResourceResponse,
    },
    service::{Peer, ServiceError},
};

use crate::service::RoundAnswer;

/// A call that can be sent again with the answers to a round.
pub(super) trait Call: Clone {
    const METHOD: &str;
    type Response;

    fn send(
        self,
        peer: &Peer<RoleClient>,
    ) -> impl Future<Output = Result<Self::Response, ServiceError>> + Send;

    /// The round, or back the response that is none.
    fn input_required(response: Self::Response) -> Result<InputRequiredResult, Self::Response>;

    fn answer(&mut self, answer: RoundAnswer);
}

macro_rules! calls {
    ($($params:ident, $method:literal, $send:ident -> $response:ident;)*) => {$(
        impl Call for $params {
            const METHOD: &str = $method;
            type Response = $response;

            fn send(
                self,
                peer: &Peer<RoleClient>,
            ) -> impl Future<Output = Result<$response, ServiceError>> + Send {
                peer.$send(self)
            }

            fn input_required(response: $response) -> Result<InputRequiredResult, $response> {
                match response {
                    $response::InputRequired(input) => Ok(input),
                    other => Err(other),
                }
            }

            fn answer(&mut self, answer: RoundAnswer) {
                self.input_responses = answer.input_responses;
                self.request_state = answer.request_state;
            }
        }
    )*};
}

calls! {
    CallToolRequestParams, "tools/call", call_tool_once -> CallToolResponse;
    GetPromptRequestParams, "prompts/get", get_prompt_once -> GetPromptResponse;
    ReadResourceRequestParams, "resources/read", read_resource_once -> ReadResourceResponse;
}
