//! The shield around a transport: it refuses on reading what the windows have no room for (D12).

mod ids;
mod lookout;
mod sends;
mod unsent;

use std::{
    borrow::Cow,
    collections::VecDeque,
    fmt, mem,
    task::Poll,
    time::{Duration, Instant},
};

use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, ServerJsonRpcMessage,
        ServerNotification, ServerResult,
    },
    transport::Transport,
};

pub(crate) use self::lookout::Lookout;
use self::{ids::Ids, lookout::Seen, sends::Sends, unsent::Outbox};
use crate::{arrival::Door, clock};

/// How long unsent refusals are still written after the server has stopped writing. rmcp gives
/// its own replies as long.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// A transport that refuses a flood of questions as it is read.
///
/// Made by [`Throttled::shield`](crate::Throttled::shield), and used by
/// [`ClientSession::connect`](crate::ClientSession::connect). A question that meets a full window
/// is refused here: rmcp spawns nothing for it, and logs nothing. The shield only looks, and the
/// [`Throttled`](crate::Throttled) service behind it decides on all that it lets through, so
/// nothing is counted twice, and without a shield nothing more is admitted.
///
/// # Bounds
///
/// Refusals that the server has not read yet are kept as id and verdict, in at most 4 MiB and the
/// one message that goes over it. That is room for more than 16 384 questions with small ids. While
/// it is full, the shield reads nothing more. While 64 other replies wait for the server to read
/// them, it reads one message every 5 ms, and nothing more after 64 of them if no reply ends: a
/// transport that sends and reads in turns, as rmcp's over HTTP, gets turns for sending by that. A
/// server that writes on without reading blocks itself, and the answers to the host's calls behind
/// its questions wait as well. Over HTTP one that fills the 4 MiB stays blocked, since rmcp's
/// transport does not send there while it holds a message that is not read: end that session.
///
/// Bound the size of one message at the transport below: rmcp's `with_max_line_length` and the
/// response limits of its HTTP client.
///
/// # Ids
///
/// A request whose id is that of an open one reaches the service under another id, and its reply
/// gets the server's id again, as does a cancellation: each is answered, where rmcp alone answers
/// one of them. After the server's first cancellation every request gets an id of ours, because
/// the cancelled handler may run on. All other ids stay as they are.
#[must_use = "it refuses nothing unless it is served on in the place of what it wraps"]
pub struct Shield<T> {
    transport: T,
    lookout: Lookout,
    ids: Ids,
    outbox: Outbox,
    sends: Sends,
    /// Read, and not handed on yet: cancellations of further requests with the same id.
    next: VecDeque<ServerJsonRpcMessage>,
    handshake: Handshake,
    /// How many questions were handed on that their handlers' tasks may not have seen yet.
    ahead: u32,
    /// Whether those may use up a window's room.
    owes_a_turn: bool,
    /// Set by the end of the connection: until when unsent refusals may still be written.
    ending: Option<Instant>,
}

/// What ends a wait of a shield that does not only read.
enum Busy {
    /// There is something to write again, or room for it.
    Go,
    /// The connection is over, and nothing more is written.
    Ended,
    /// What the transport has read.
    Read(Option<Box<ServerJsonRpcMessage>>),
}

/// What is known of the session's handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handshake {
    /// None was seen: a service that runs without one.
    None,
    /// Asked for. rmcp drops the server's requests until it is answered.
    Pending,
    /// A session of a revision with `initialize`, in which the server's cancellations are about
    /// its own requests.
    Legacy,
    /// A later one, in which they are about the client's subscriptions.
    Modern,
}

impl<T: Transport<RoleClient>> Shield<T> {
    pub(crate) fn new(transport: T, lookout: Lookout) -> Self {
        Self {
            transport,
            lookout,
            ids: Ids::new(),
            outbox: Outbox::default(),
            sends: Sends::default(),
            next: VecDeque::new(),
            handshake: Handshake::None,
            ahead: 0,
            owes_a_turn: false,
            ending: None,
        }
    }

    /// The transport inside.
    #[must_use]
    pub const fn get_ref(&self) -> &T {
        &self.transport
    }

    /// How many bytes the queue of unsent refusals holds, ids and spare room included.
    #[must_use]
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    /// Whether there is nothing to do but to read.
    fn is_idle(&self) -> bool {
        self.outbox.is_empty() && self.ending.is_none() && self.sends.have_room()
    }

    /// Reads, if anything more may be read, until something else has happened.
    ///
    /// # Cancel safety
    ///
    /// Safe: what it waits for goes on by itself, and what is read is given back at once.
    async fn read_or_write(&mut self) -> Busy {
        let ending = match self.ending {
            Some(_) if self.outbox.is_empty() => return Busy::Ended,
            ending => ending,
        };
        let is_writing = self.outbox.is_writing();
        let is_crowded = !self.sends.have_room();
        let is_open = ending.is_none() && !self.outbox.is_full();
        let may_read = is_open && (!is_crowded || self.sends.may_read_beyond());
        tokio::select! {
            biased;
            () = self.outbox.written(), if is_writing => Busy::Go,
            () = self.sends.room_or_stall(is_open), if is_crowded => Busy::Go,
            () = until(ending), if ending.is_some() => Busy::Ended,
            read = self.transport.receive(), if may_read => {
                if is_crowded {
                    self.sends.read_beyond();
                }
                Busy::Read(read.map(Box::new))
            }
        }
    }

    /// Notes that a question is handed on. The next one may meet a full window only when all
    /// those that are not charged yet fill it.
    fn hand_on(&mut self, room: u32) {
        self.ahead = self.ahead.saturating_add(1);
        self.owes_a_turn |= self.ahead >= room;
    }

    /// Whether a message is to be handed on. If not, it was dealt with here.
    fn sift(&mut self, message: &mut ServerJsonRpcMessage) -> bool {
        match &*message {
            JsonRpcMessage::Response(response) => self.lookout.calls().ended(&response.id),
            JsonRpcMessage::Error(error) => {
                if let Some(id) = &error.id {
                    self.lookout.calls().ended(id);
                }
            }
            _ => {}
        }
        if let JsonRpcMessage::Response(response) = message {
            if self.handshake == Handshake::Pending {
                self.handshake = Handshake::answered(&response.result);
            }
            return true;
        }
        if self.handshake == Handshake::Pending {
            return true;
        }
        match message {
            JsonRpcMessage::Request(request) => {
                match self.lookout.look(&mut request.request, Door::ServerRequest) {
                    Seen::Refused(refusal) => {
                        self.outbox
                            .refuse(request.id.clone(), refusal, &mut self.transport);
                        return false;
                    }
                    Seen::Question(room) => self.hand_on(room),
                    Seen::Other => {}
                }
                self.ids.enter(&mut request.id);
            }
            JsonRpcMessage::Notification(notification) => match &mut notification.notification {
                ServerNotification::CancelledNotification(cancelled)
                    if self.handshake != Handshake::Modern =>
                {
                    if let Some(id) = &mut cancelled.params.request_id {
                        let mut known = self.ids.cancel(id).into_iter();
                        // An id that is not open is rmcp's to wonder about.
                        *id = known.next().unwrap_or_else(|| id.clone());
                        for other in known {
                            let mut again = cancelled.clone();
                            again.params.request_id = Some(other);
                            self.next.push_back(ServerJsonRpcMessage::notification(
                                ServerNotification::CancelledNotification(again),
                            ));
                        }
                    }
                }
                notification => {
                    match self.lookout.look(notification, Door::WithoutId) {
                        // There is no id to answer to.
                        Seen::Refused(_) => return false,
                        Seen::Question(room) => self.hand_on(room),
                        Seen::Other => {}
                    }
                }
            },
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
        true
    }
}

impl Handshake {
    const fn begins_with(self, request: &ClientRequest) -> bool {
        match request {
            // Also after a `server/discover` that brought nothing.
            ClientRequest::InitializeRequest(_) => true,
            // Later on it is a request like others.
            ClientRequest::DiscoverRequest(_) => matches!(self, Self::None | Self::Pending),
            _ => false,
        }
    }

    fn answered(result: &ServerResult) -> Self {
        match result {
            ServerResult::InitializeResult(result) if result.protocol_version.has_initialize() => {
                Self::Legacy
            }
            _ => Self::Modern,
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Shield<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        T::name()
    }

    fn send(
        &mut self,
        mut item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let reply_to = match &mut item {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Request(request) => {
                if self.handshake.begins_with(&request.request) {
                    self.handshake = Handshake::Pending;
                }
                self.lookout.calls().sent(&request.id, &request.request);
                None
            }
            JsonRpcMessage::Notification(notification) => {
                self.lookout.calls().notified(&notification.notification);
                None
            }
        };
        let open = match reply_to {
            Some(id) => {
                self.ids.leave(id);
                self.sends.begin_reply()
            }
            None => self.sends.begin(),
        };
        open.finish(self.transport.send(item))
    }

    /// # Cancel safety
    ///
    /// Safe, as rmcp needs it: what was read is handed on at once or kept in the shield, and
    /// refusals are written by tasks of their own.
    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if !self.next.is_empty() {
                return self.next.pop_front();
            }
            if self.owes_a_turn {
                one_turn().await;
                // Only now: this future may be dropped while it waits, and the turn be still owed.
                self.owes_a_turn = false;
                self.ahead = 0;
            }
            while !self.outbox.is_empty() && self.outbox.write_one(&mut self.transport) {
                tokio::task::consume_budget().await;
            }
            // A block of its own: were a message held while waiting below, this future would be twice
            // as large, and rmcp moves it.
            {
                let mut read = if self.is_idle() {
                    self.transport.receive().await
                } else {
                    // In a box, since rmcp moves this future for every message.
                    match Box::pin(self.read_or_write()).await {
                        Busy::Go => continue,
                        Busy::Ended => return None,
                        Busy::Read(read) => read.map(|message| *message),
                    }
                };
                let Some(message) = &mut read else {
                    self.ending = Some(clock::now() + LAST_WRITES);
                    continue;
                };
                if self.sift(message) {
                    return read;
                }
            }
            // A flood must not keep the service's loop from its other work.
            tokio::task::consume_budget().await;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.sends.close();
        self.outbox.close().await;
        self.transport.close().await
    }
}

impl<T> fmt::Debug for Shield<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shield")
            .field("lookout", &self.lookout)
            .field("handshake", &self.handshake)
            .finish_non_exhaustive()
    }
}

/// Lets the tasks that are ready run first. A question that was handed on is charged in one of
/// them, and the next look should see that. Losing the turn costs no exactness.
fn one_turn() -> impl Future<Output = ()> {
    let mut waited = false;
    std::future::poll_fn(move |context| {
        if mem::replace(&mut waited, true) {
            return Poll::Ready(());
        }
        // tokio's `yield_now` would also poll for input and output, which is much dearer.
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
