//! A stream of frames through the relay's judge, and what came out on both sides.

use std::{io, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use mcp_question_throttle::{
    clock,
    limits::{Limit, ProtoSettings, ServerName},
    question::{QuestionKind, QuestionMethods},
    relay::{Frames, Judge, LONGEST_FRAME, Lines, Outlet, Reply},
    throttle::Throttle,
};
use serde_json::Value;

/// How many bytes arrive at a time, unless said otherwise.
const STEP: usize = 700;

/// What left the relay, and what it counted.
#[derive(Debug, Default)]
pub(crate) struct Relayed {
    pub(crate) to_client: Vec<u8>,
    pub(crate) to_server: Vec<u8>,
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
    pub(crate) unreadable: u64,
}

impl Outlet for Relayed {
    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.to_client.extend_from_slice(bytes);
        Ok(())
    }

    fn refuse(&mut self, reply: Reply) -> io::Result<()> {
        reply.write(&mut self.to_server);
        self.to_server.push(b'\n');
        Ok(())
    }
}

impl Relayed {
    pub(crate) fn client_lines(&self) -> Vec<Value> {
        parse_lines(&self.to_client)
    }

    pub(crate) fn replies(&self) -> Vec<Value> {
        parse_lines(&self.to_server)
    }
}

fn parse_lines(bytes: &[u8]) -> Vec<Value> {
    bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

/// So much room that nothing is refused, while everything is counted.
pub(crate) fn roomy() -> ProtoSettings {
    let most = Limit::new(1_000_000).unwrap();
    ProtoSettings::default()
        .with_sampling_per_minute(most)
        .with_sampling_session_per_minute(most)
        .with_elicitation_per_minute(most)
        .with_questions(vendor())
}

/// One vendor method.
pub(crate) fn vendor() -> QuestionMethods {
    QuestionMethods::new()
        .with("openai/form", QuestionKind::Elicitation)
        .unwrap()
}

pub(crate) fn relay(stream: &[u8]) -> Relayed {
    relay_with(roomy(), stream)
}

pub(crate) fn relay_with(settings: ProtoSettings, stream: &[u8]) -> Relayed {
    short_frames(settings, stream, LONGEST_FRAME)
}

/// One question of each kind a minute.
pub(crate) fn one() -> ProtoSettings {
    let one = Limit::new(1).unwrap();
    ProtoSettings::default()
        .with_sampling_per_minute(one)
        .with_elicitation_per_minute(one)
        .with_questions(vendor())
}

/// When both limits are used up. What used them up is not in the result.
pub(crate) fn relay_exhausted(stream: &[u8]) -> Relayed {
    const EXHAUST: &[u8] = b"{\"id\":0,\"method\":\"sampling/createMessage\"}\n\
                             {\"id\":0,\"method\":\"elicitation/create\"}\n";
    let mut relayed = relay_with(one(), &[EXHAUST, stream].concat());
    relayed.to_client.drain(..EXHAUST.len());
    relayed
}

/// When `step` bytes arrive at a time.
pub(crate) fn relay_in_steps(stream: &[u8], step: usize) -> Relayed {
    session(roomy(), |peer| peer.stream(stream, LONGEST_FRAME, step))
}

/// With another bound on what is read as a whole.
pub(crate) fn short_frames(settings: ProtoSettings, stream: &[u8], longest: usize) -> Relayed {
    let mut peer = Peer::new(settings);
    peer.stream(stream, longest, STEP);
    peer.end()
}

/// A client and a server that take turns.
pub(crate) fn session(settings: ProtoSettings, talk: impl FnOnce(&mut Peer)) -> Relayed {
    let mut peer = Peer::new(settings);
    talk(&mut peer);
    peer.end()
}

pub(crate) struct Peer {
    lines: Lines,
    out: Relayed,
}

impl Peer {
    fn new(settings: ProtoSettings) -> Self {
        let throttle = Arc::new(Throttle::new(settings, clock::now()));
        let session = throttle.session(ServerName::new("github").unwrap());
        Self {
            lines: Lines::new(Judge::new(session)),
            out: Relayed::default(),
        }
    }

    /// The client sends a message.
    pub(crate) fn client(&self, message: &str) {
        self.lines.judge().polls().note(message.as_bytes());
    }

    /// The server sends a message.
    pub(crate) fn server(&mut self, message: &Value) {
        self.stream(format!("{message}\n").as_bytes(), LONGEST_FRAME, STEP);
    }

    fn stream(&mut self, mut stream: &[u8], longest: usize, step: usize) {
        let mut frames = Frames::new(longest);
        loop {
            let read = frames.read_from(&mut io::Read::take(&mut stream, step as u64));
            let ended = read.unwrap() == 0;
            while let Some(piece) = frames.next_piece() {
                self.lines
                    .piece(piece, clock::now(), &mut self.out)
                    .unwrap();
            }
            if ended {
                break;
            }
        }
        if let Some(piece) = frames.rest() {
            self.lines
                .piece(piece, clock::now(), &mut self.out)
                .unwrap();
        }
    }

    fn end(self) -> Relayed {
        let mut out = self.out;
        let judge = self.lines.judge();
        out.unreadable = judge.unreadable();
        for server in judge.session().throttle().snapshot(clock::now()).servers {
            for kind in [server.sampling, server.elicitation] {
                out.admitted += kind.admitted;
                out.refused += kind.refused_by_server_limit + kind.refused_by_session_limit;
            }
        }
        out
    }
}

/// A frame of `tests/data/frames.jsonl`, as a hostile server could write it.
pub(crate) struct Corpus {
    pub(crate) name: String,
    pub(crate) frame: Vec<u8>,
    /// `must`, `must not` or `may`.
    pub(crate) counted: String,
}

impl Corpus {
    pub(crate) fn load() -> Vec<Self> {
        let frames = include_str!("../data/frames.jsonl");
        let cases: Vec<_> = frames
            .lines()
            .map(|line| {
                let case: Value = serde_json::from_str(line).unwrap();
                let text = |key: &str| case[key].as_str().unwrap().to_owned();
                Self {
                    name: text("name"),
                    frame: BASE64_STANDARD.decode(text("base64")).unwrap(),
                    counted: text("counted"),
                }
            })
            .collect();
        assert!(cases.len() >= 30, "the corpus is there");
        cases
    }
}
