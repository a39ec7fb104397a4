//! The relay's judge: streams of frames in, and what leaves on both sides.

#![cfg(feature = "command")]

mod frames;
mod harness;
mod model;
mod real_readers;
mod windows;
