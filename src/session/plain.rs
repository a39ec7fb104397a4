//! Calls that ask nothing by themselves, but whose errors can (`-32042`).

use rmcp::{
    model::{
        CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
        CompleteResult, CompletionContext, CompletionInfo, DiscoverResult, GetPromptRequestParams,
        GetPromptResponse, GetSkillRequestParams, GetSkillResult, ListPromptsResult,
        ListResourceTemplatesResult, ListResourcesResult, ListSkillsResult, ListToolsResult,
        PaginatedRequestParams, Prompt, ReadResourceDirectoryRequestParams,
        ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse,
        RequestMetaObject, Resource, ResourceTemplate, Skill, SubscribeRequestParams, Tool,
        UnsubscribeRequestParams, UpdateTaskParams,
    },
    service::{MergedList, RoleClient, Service},
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
    /// `completion/complete` for an argument of a prompt.
    complete_prompt_argument(
        prompt_name: impl Into<String>,
        argument_name: impl Into<String>,
        current_value: impl Into<String>,
        context: Option<CompletionContext>
    ) -> CompletionInfo;
    /// The same for an argument of a resource template.
    complete_resource_argument(
        uri_template: impl Into<String>,
        argument_name: impl Into<String>,
        current_value: impl Into<String>,
        context: Option<CompletionContext>
    ) -> CompletionInfo;
    /// The values of `completion/complete` for an argument of a prompt.
    complete_prompt_simple(
        prompt_name: impl Into<String>,
        argument_name: impl Into<String>,
        current_value: impl Into<String>
    ) -> Vec<String>;
    /// The same for an argument of a resource template.
    complete_resource_simple(
        uri_template: impl Into<String>,
        argument_name: impl Into<String>,
        current_value: impl Into<String>
    ) -> Vec<String>;
    /// One page of `tools/list`.
    list_tools(params: Option<PaginatedRequestParams>) -> ListToolsResult;
    /// All pages of `tools/list`, as many as the server says there are: bound the time of it yourself.
    list_all_tools() -> Vec<Tool>;
    /// The same, with how long the list may be kept, and by whom.
    list_all_tools_with_cache_hint() -> MergedList<Tool>;
    /// One page of `prompts/list`.
    list_prompts(params: Option<PaginatedRequestParams>) -> ListPromptsResult;
    /// All pages of `prompts/list`, as many as the server says there are: bound the time of it yourself.
    list_all_prompts() -> Vec<Prompt>;
    /// The same, with how long the list may be kept, and by whom.
    list_all_prompts_with_cache_hint() -> MergedList<Prompt>;
    /// One page of `resources/list`.
    list_resources(params: Option<PaginatedRequestParams>) -> ListResourcesResult;
    /// All pages of `resources/list`, as many as the server says there are: bound the time of it yourself.
    list_all_resources() -> Vec<Resource>;
    /// The same, with how long the list may be kept, and by whom.
    list_all_resources_with_cache_hint() -> MergedList<Resource>;
    /// One page of `resources/templates/list`.
    list_resource_templates(params: Option<PaginatedRequestParams>) -> ListResourceTemplatesResult;
    /// All pages of `resources/templates/list`, as many as the server says there are: bound the time of it yourself.
    list_all_resource_templates() -> Vec<ResourceTemplate>;
    /// The same, with how long the list may be kept, and by whom.
    list_all_resource_templates_with_cache_hint() -> MergedList<ResourceTemplate>;
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
    /// The same, with how long the list may be kept, and by whom.
    list_all_skills_with_cache_hint() -> MergedList<Skill>;
    /// `skills/get`.
    get_skill(params: GetSkillRequestParams) -> GetSkillResult;
    /// `server/discover` (2026-07-28).
    discover(meta: RequestMetaObject) -> DiscoverResult;
    /// `resources/directory/read`.
    read_resource_directory(params: ReadResourceDirectoryRequestParams) -> ReadResourceDirectoryResult;
}
