//! What the clients of this package share: the contract of the conformance suite, and the calls
//! that it asks for. The programs differ in nothing but the library that they speak through, and
//! `client-ours` from `client-rmcp-bare` in nothing but the throttle.

pub mod contract;
pub mod form;
pub mod plan;
pub mod rmcp_client;
pub mod tower_client;

use std::{fmt::Display, process::ExitCode};

use contract::{Contract, Server};

/// A connection to a server, whichever library it is made with.
pub trait Session: Sized + Send {
    /// Everything the server offers to be called, in order.
    fn offers(&self) -> impl Future<Output = Result<Vec<plan::Offer>, Stopped>> + Send;

    /// Makes one call, with whatever the server asks in it.
    fn call(&self, offer: &plan::Offer) -> impl Future<Output = Result<(), Stopped>> + Send;

    /// Ends the connection.
    fn end(self) -> impl Future<Output = ()> + Send;
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It failed; the connection goes on.
    Failed(String),
    /// The server is gone.
    Closed,
}

/// Connects to every server and makes every call, as the contract says.
///
/// A failed call is printed and the next one made. When the server goes in the middle of a call,
/// the client connects anew and goes on behind that call.
pub async fn run<S, E, F>(connect: impl Fn(Server, Contract) -> F) -> ExitCode
where
    S: Session,
    E: Display,
    F: Future<Output = Result<S, E>>,
{
    let contract = match Contract::of_process() {
        Ok(contract) => contract,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    for server in &contract.servers {
        let mut made = 0;
        loop {
            let session = match connect(server.clone(), contract.clone()).await {
                Ok(session) => session,
                Err(why) => {
                    eprintln!("{}: cannot connect: {why}", server.name);
                    return ExitCode::FAILURE;
                }
            };
            let before = made;
            let is_done = call_the_rest(&session, &server.name, &mut made).await;
            session.end().await;
            if is_done {
                break;
            }
            if made == before {
                eprintln!("{}: gone before any call was made", server.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Makes the calls that have not been made; `false` if the server went away before the end.
async fn call_the_rest(session: &impl Session, server: &str, made: &mut usize) -> bool {
    let offers = match session.offers().await {
        Ok(offers) => offers,
        Err(Stopped::Failed(why)) => {
            eprintln!("{server}: nothing listed: {why}");
            return true;
        }
        Err(Stopped::Closed) => return false,
    };
    for offer in &offers[(*made).min(offers.len())..] {
        *made += 1;
        match session.call(offer).await {
            Ok(()) => {}
            Err(Stopped::Failed(why)) => eprintln!("{server}: {}: {why}", offer.name()),
            Err(Stopped::Closed) => return *made == offers.len(),
        }
    }
    true
}
