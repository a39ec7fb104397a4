//! The ways of being wrong.

use clap::ValueEnum;

/// One way in which a client can fail to bound questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[expect(
    clippy::enum_variant_names,
    reason = "one way of being wrong is a wrong code"
)]
pub(crate) enum Wrong {
    /// Has no limit.
    NoLimit,
    /// Has no limit per server.
    NoServerLimit,
    /// Has no limit per session.
    NoSessionLimit,
    /// Lets one question too many pass.
    OneMore,
    /// Lets one question too few pass.
    OneLess,
    /// A refused question is charged where there was room.
    CountsRefusals,
    /// The window begins anew with every question.
    Slides,
    /// Has no window, but looks back from each question over the length of one.
    SlidingLog,
    /// Has no window, but gets room for one more question again and again.
    TokenBucket,
    /// The window's edges are those of a clock, whenever the first question comes.
    AlignedToClock,
    /// The window ends too early.
    ResetsEarly,
    /// The window never ends.
    NeverResets,
    /// Budgets belong to the name that a server gives itself.
    KeysByServerInfo,
    /// A new connection brings new windows.
    ForgetsOnReconnect,
    /// Each call brings new windows.
    ForgetsBetweenCalls,
    /// The sessions of a server share the session's budget.
    SessionsShare,
    /// All servers share one budget.
    ServersShare,
    /// Sampling and elicitation share one budget.
    KindsShare,
    /// What the server cancels is paid back.
    RefundsOnCancel,
    /// What is answered is paid back: a bound on open questions.
    RefundsOnAnswer,
    /// Charges a question when it is answered, not when it is asked.
    ChargesWhenAnswered,
    /// Has a question handled before it looks at the limit.
    HandlesThenRefuses,
    /// Over the limit, says that the person declined.
    AnswersDecline,
    /// Over the limit, says that the person cancelled.
    AnswersCancel,
    /// Over the limit, makes an answer up.
    AnswersAccept,
    /// Over the limit, says nothing.
    DropsSilently,
    /// Refuses with the id null.
    LosesId,
    /// Refuses with every id as a string.
    IdBecomesString,
    /// Refuses twice.
    RefusesTwice,
    /// Refuses what has no id by an error with the id null.
    RepliesToNotifications,
    /// Refuses with another code.
    WrongCode,
    /// Refuses without data.
    NoData,
    /// Names another limit than the one in the way.
    NamesWrongLimit,
    /// Of two limits in the way, names the one whose window ends first.
    NamesFirstInTheWay,
    /// Says that no waiting is needed.
    RetryAtOnce,
    /// Says to wait for a whole window, however much of it is over.
    RetryWholeWindow,
    /// Gives the waiting time in whole seconds, rounded down.
    RetryRoundsDown,
    /// Gives the waiting time in milliseconds.
    RetryInMilliseconds,
    /// Repeats the question in its refusal.
    EchoesQuestion,
    /// Looks at forms alone, not at elicitations by URL.
    FormsOnly,
    /// Does not look at sampling with tools.
    ToolUseUnguarded,
    /// Does not look at questions that are to run as its tasks.
    HostedTasksUnguarded,
    /// What the server asks about a question's task is a question too.
    CountsTaskCalls,
    /// A question that runs as a task is charged again when its result is fetched.
    ChargesTaskResults,
    /// Looks at well-formed questions alone.
    WellFormedOnly,
    /// Looks at requests alone, not at questions without an id.
    RequestsOnly,
    /// Looks at rounds alone where the server has rounds, not at its requests.
    RoundsOnly,
    /// Looks at requests alone, not at rounds.
    RoundsUnguarded,
    /// Looks at the rounds of tools alone, not at those of prompts and resources.
    ToolsOnly,
    /// Does not look at what tasks ask.
    TasksUnguarded,
    /// Does not look at what notifications about tasks ask.
    TaskNotificationsUnguarded,
    /// What a notification about a task asked is charged again when the task is polled.
    ChargesNotifiedAgain,
    /// What a notification about a task asked is shown again when the task is polled.
    ShowsNotifiedAgain,
    /// Does not look at the URLs of errors.
    UrlsUnguarded,
    /// Does not look at the URLs of the errors of tasks.
    FailedTasksUnguarded,
    /// Counts the URLs of errors that can be read, and no error whose list cannot.
    ReadableUrlsOnly,
    /// Counts an error with URLs once, however many there are.
    UrlsCountOnce,
    /// Shows those URLs of an error that fit.
    ShowsUrlsThatFit,
    /// What is asked by results has a budget apart from what is asked by requests.
    DoorsApart,
    /// Answers those entries of a round that fit.
    HalfRound,
    /// Has the entries of a round handled until one does not fit.
    EntryByEntry,
    /// Charges for one kind of a round before it sees that another does not fit.
    KindsOneByOne,
    /// Answers those entries of a round that it can read.
    LeavesOutUnreadable,
    /// Has the entries of a round handled until it cannot read one.
    ReadsAsItGoes,
    /// Charges for a round before it sees that it cannot read it.
    ChargesUnreadable,
    /// Charges for what it can read of a round that it cannot read as a whole.
    ChargesReadablePart,
    /// Charges for every entry of a round that it cannot read, questions or not.
    ChargesEveryEntry,
    /// A round counts once, whatever is in it.
    RoundCountsOnce,
    /// Goes on with rounds for ever.
    EndlessRounds,
    /// Goes on for one round too many.
    OneRoundMore,
    /// Ends a call one round too early.
    OneRoundLess,
    /// Tidies the state of a round up.
    ChangesState,
    /// Sends a state where there was none.
    InventsState,
    /// What a task asks is counted with every poll.
    CountsPolls,
    /// What a task asks is shown with every poll.
    ShowsTaskTwice,
    /// What a task asks under a key that it used before is answered again, and not charged.
    ChargesTaskKeysOnce,
    /// Looks at nothing else until its first question is answered.
    WaitsForPerson,
    /// Pings and `roots/list` are questions too.
    EverythingIsAQuestion,
    /// Declares less after a refusal, when it reconnects.
    HidesCapability,
    /// Closes the connection after a refusal.
    Disconnects,
    /// Makes no more calls after a refusal.
    StopsCalling,
    /// Ends with an error after a refusal.
    ExitsWithError,
    /// Does not end.
    Hangs,
}

impl Wrong {
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value();
        value
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}
