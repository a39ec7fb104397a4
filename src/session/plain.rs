//! Calls that ask nothing by themselves, but whose errors can (`-32042`).

use rmcp::{
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams,
        GetSkillResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListSkillsResult, ListToolsResult, PaginatedRequestParams, Prompt,
        ReadResourceDirectoryRequestParams, ReadResourceDirectoryResult, ReadResourceRequestParams,
        ReadResourceResponse, Resource, ResourceTemplate, Skill, SubscribeRequestParams, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{RoleClient, Service},
};

use super::ClientSession;
use crate::call_error::CallError;

macro_rules! guarded_calls {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        impl<S: Service<RoleClient>> ClientSession<S> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                ///
                /// [`CallError::Refused`] if an error `-32042` asks for more than fits;
                /// [`CallError::Service`] for all else.
                ///
                /// # Cancel safety
                ///
                /// Dropping the future cancels the request; nothing is charged before its answer
                /// has come.
                pub async fn $name(&self, $($argument: $type),*) -> Result<$result, CallError> {
                    self.guard(self.peer().$name($($argument),*).await)
                }
            )*
        }
    };
}

guarded_calls! {
    /// One `tools/call`, without driving rounds; see [`Throttled::answer_round`](crate::Throttled::answer_round).
    call_tool_once(params: CallToolRequestParams) -> CallToolResponse;
    /// One `prompts/get`, without driving rounds; see [`Throttled::answer_round`](crate::Throttled::answer_round).
    get_prompt_once(params: GetPromptRequestParams) -> GetPromptResponse;
    /// One `resources/read`, without driving rounds; see [`Throttled::answer_round`](crate::Throttled::answer_round).
    read_resource_once(params: ReadResourceRequestParams) -> ReadResourceResponse;
    /// `tasks/update`: answers what a task asks.
    update_task(params: UpdateTaskParams) -> ();
    /// `tasks/cancel`.
    cancel_task(params: CancelTaskParams) -> ();
    /// `completion/complete`.
    complete(params: CompleteRequestParams) -> CompleteResult;
    /// One page of `tools/list`.
    list_tools(params: Option<PaginatedRequestParams>) -> ListToolsResult;
    /// All pages of `tools/list`, as many as the server says there are: bound the time of it yourself.
    list_all_tools() -> Vec<Tool>;
    /// One page of `prompts/list`.
    list_prompts(params: Option<PaginatedRequestParams>) -> ListPromptsResult;
    /// All pages of `prompts/list`, as many as the server says there are: bound the time of it yourself.
    list_all_prompts() -> Vec<Prompt>;
    /// One page of `resources/list`.
    list_resources(params: Option<PaginatedRequestParams>) -> ListResourcesResult;
    /// All pages of `resources/list`, as many as the server says there are: bound the time of it yourself.
    list_all_resources() -> Vec<Resource>;
    /// One page of `resources/templates/list`.
    list_resource_templates(params: Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
    /// All pages of `resources/templates/list`, as many as the server says there are: bound the time of it yourself.
    list_all_resource_templates() -> Vec<ResourceTemplate>;
    /// `resources/subscribe`, up to 2025-11-25; see [`listen`](ClientSession::listen).
    #[expect(deprecated, reason = "an older server knows no other way")]
    subscribe(params: SubscribeRequestParams) -> ();
    /// `resources/unsubscribe`, up to 2025-11-25.
    #[expect(deprecated, reason = "an older server knows no other way")]
    unsubscribe(params: UnsubscribeRequestParams) -> ();
    /// `logging/setLevel`, up to 2025-11-25.
    #[expect(deprecated, reason = "an older server knows no other way")]
    set_level(params: rmcp::model::SetLevelRequestParams) -> ();
    /// One page of `skills/list`.
    list_skills(params: Option<PaginatedRequestParams>) -> ListSkillsResult;
    /// All pages of `skills/list`, as many as the server says there are: bound the time of it yourself.
    list_all_skills() -> Vec<Skill>;
    /// `skills/get`.
    get_skill(params: GetSkillRequestParams) -> GetSkillResult;
    /// `resources/directory/read`.
    read_resource_directory(params: ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
}
