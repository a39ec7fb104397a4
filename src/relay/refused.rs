//! Refusals on their way: kept as id and verdict, and written out when they are sent.

use std::mem;

use crate::refusal::Refusal;

/// At most this many refusals are sent as one array, so that a batch of any size is answered in
/// bounded memory.
pub(super) const MOST_IN_ARRAY: usize = 1024;

/// The refusal of one request.
#[derive(Clone, Debug)]
pub struct Refused {
    id: Box<[u8]>,
    refusal: Refusal,
}

impl Refused {
    /// Refuses the request with this id, which is echoed as it was written.
    #[must_use]
    pub fn new(id: &[u8], refusal: Refusal) -> Self {
        Self {
            id: id.into(),
            refusal,
        }
    }

    /// Why.
    #[must_use]
    pub const fn refusal(&self) -> &Refusal {
        &self.refusal
    }

    /// Writes the JSON-RPC error response, without an end of line.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.extend_from_slice(&self.id);
        out.extend_from_slice(br#","error":"#);
        let start = out.len();
        if serde_json::to_writer(&mut *out, &self.refusal).is_err() {
            // Strings and numbers always serialise into memory; the id must be answered anyway.
            out.truncate(start);
            out.extend_from_slice(br#"{"code":-32603,"message":"question refused"}"#);
        }
        out.push(b'}');
    }
}

/// What is sent to a server at once.
#[derive(Clone, Debug)]
pub enum Reply {
    /// The answer to a request.
    One(Refused),
    /// The answers to the requests of a batch.
    Batch(Vec<Refused>),
}

impl Reply {
    /// Writes it, without an end of line.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::One(refused) => refused.write(out),
            Self::Batch(all) => {
                let mut before = b'[';
                for refused in all {
                    out.push(before);
                    refused.write(out);
                    before = b',';
                }
                out.push(b']');
            }
        }
    }

    /// Why, or why the first of several.
    #[cfg(feature = "serve")]
    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::One(refused) => Some(refused.refusal()),
            Self::Batch(all) => all.first().map(Refused::refusal),
        }
    }

    /// The memory it takes, in bytes.
    pub(super) fn size(&self) -> usize {
        let of_ids = |all: &[Refused]| -> usize {
            all.iter()
                .map(|refused| mem::size_of::<Refused>() + refused.id.len())
                .sum()
        };
        mem::size_of::<Self>()
            + match self {
                Self::One(refused) => refused.id.len(),
                Self::Batch(all) => of_ids(all),
            }
    }
}
