//! The events of `serve` for a fuzz target: its own files, without the HTTP around them, which would
//! take long to build.

#[expect(dead_code, reason = "the rest of it is used by what is left out here")]
#[path = "serve/broken.rs"]
mod broken;
#[path = "serve/events.rs"]
mod events;
#[path = "serve/judged.rs"]
mod judged;
#[expect(dead_code, reason = "the rest of it is used by what is left out here")]
#[path = "serve/sieve.rs"]
mod sieve;

use self::sieve::Sieve;
use super::Judge;
use crate::{clock, throttle::Session};

/// What left of a stream of events.
#[derive(Debug, Default)]
pub struct Sifted {
    /// What the client gets.
    pub to_client: Vec<u8>,
    /// What is posted to the server.
    pub replies: Vec<Vec<u8>>,
    /// How many events were withheld because they could not be read for sure.
    pub unreadable: u64,
    /// The stream led around the relay, and ended there.
    pub is_cut: bool,
}

/// Holds a stream that comes in `chunks` to the limits of a session. Events of more than `longest`
/// bytes are judged in parts.
#[must_use]
pub fn sift<'c>(
    session: Session,
    chunks: impl IntoIterator<Item = &'c [u8]>,
    longest: usize,
) -> Sifted {
    let mut sieve = Sieve::of_events(Judge::new(session), longest);
    let mut sifted = Sifted::default();
    let mut chunks = chunks.into_iter();
    loop {
        let chunk = chunks.next();
        match chunk {
            Some(chunk) => sieve.feed(chunk),
            None => sieve.end(),
        }
        while let Some(piece) = sieve.next(clock::now(), &mut sifted.to_client) {
            for reply in piece.replies {
                let mut written = Vec::new();
                reply.write(&mut written);
                sifted.replies.push(written);
            }
            sifted.is_cut |= piece.is_endpoint;
            if sifted.is_cut {
                break;
            }
        }
        if chunk.is_none() || sifted.is_cut {
            sifted.unreadable = sieve.judge().unreadable();
            return sifted;
        }
    }
}
