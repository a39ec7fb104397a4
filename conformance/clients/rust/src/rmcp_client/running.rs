//! What rmcp's own session and the throttled one have in common: the same calls by the same names.

use mcp_question_throttle::{CallError, ClientSession};
use rmcp::{
    RoleClient,
    model::{
        CallToolRequestParams, GetPromptRequestParams, Prompt, ReadResourceRequestParams, Resource,
        Tool,
    },
    service::{Peer, RunningService, Service, ServiceError},
};

/// Why a request on either session has no result.
#[derive(Debug)]
pub enum Failure {
    /// The throttle refused what the server asked.
    Refused(String),
    /// rmcp's error.
    Service(ServiceError),
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Service(error) => Self::Service(error),
            refused => Self::Refused(refused.to_string()),
        }
    }
}

macro_rules! running {
    ($(
        $(#[$doc:meta])*
        $name:ident = $method:ident($($argument:ident: $params:ty)?) -> $result:ty, $keep:expr;
    )*) => {
        /// A session that is running, on rmcp alone or behind the throttle.
        pub trait Running: Sized + Send + Sync {
            $(
                $(#[$doc])*
                fn $name(&self $(, $argument: $params)?) -> impl Future<Output = Result<$result, Failure>> + Send;
            )*

            /// The connection.
            fn connection(&self) -> &Peer<RoleClient>;

            /// Ends the session.
            fn end(self) -> impl Future<Output = ()> + Send;
        }

        impl<S: Service<RoleClient>> Running for RunningService<RoleClient, S> {
            $(async fn $name(&self $(, $argument: $params)?) -> Result<$result, Failure> {
                Ok(self.$method($($argument)?).await.map($keep)?)
            })*

            fn connection(&self) -> &Peer<RoleClient> {
                self.peer()
            }

            async fn end(self) {
                // It has nothing more to do, however it ends.
                let _ = self.cancel().await;
            }
        }

        impl<S: Service<RoleClient>> Running for ClientSession<S> {
            $(async fn $name(&self $(, $argument: $params)?) -> Result<$result, Failure> {
                Ok(self.$method($($argument)?).await.map($keep)?)
            })*

            fn connection(&self) -> &Peer<RoleClient> {
                self.peer()
            }

            async fn end(self) {
                self.into_inner().end().await;
            }
        }
    };
}

running! {
    /// Everything of `tools/list`.
    tools = list_all_tools() -> Vec<Tool>, std::convert::identity;
    /// Everything of `prompts/list`.
    prompts = list_all_prompts() -> Vec<Prompt>, std::convert::identity;
    /// Everything of `resources/list`.
    resources = list_all_resources() -> Vec<Resource>, std::convert::identity;
    /// `tools/call`, with its rounds.
    tool = call_tool(params: CallToolRequestParams) -> (), drop;
    /// `prompts/get`, with its rounds.
    prompt = get_prompt(params: GetPromptRequestParams) -> (), drop;
    /// `resources/read`, with its rounds.
    resource = read_resource(params: ReadResourceRequestParams) -> (), drop;
}
