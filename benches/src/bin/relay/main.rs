//! Prints what a frame costs that `wrap` passes on, beside a pipe that only copies.
//!
//! ```text
//! cargo run --release -p benches --features relay --bin relay
//! ```
//!
//! Every row is measured for both in one run, in turns. Instructions are callgrind's, of the
//! relay's process alone, and the difference of two runs, so that starting up is in neither. CPU
//! time is the process's own, the least of some runs. A round trip is a line to a server that
//! echoes it and back, which are two frames; the median of many. Linux only, with `valgrind`
//! installed. It ends with 1 if a frame costs more instructions than its budget.

mod frames;
mod measure;
mod middle;

use std::{
    env,
    error::Error,
    process::{Command, ExitCode},
};

use self::{
    frames::Direction::{self, Down, Up},
    measure::{cpu_time, instructions, round_trips},
    middle::Middle,
};

/// Direction, size of a frame in bytes, and the instructions that `wrap` may spend on it.
const ROWS: [(Direction, usize, f64); 6] = [
    (Down, 150, 7_400.0),
    (Down, 1_000, 14_800.0),
    (Down, 30_000, 300_000.0),
    (Up, 150, 400.0),
    (Up, 1_000, 1_100.0),
    (Up, 30_000, 60_000.0),
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report(),
        // What stands in the middle, and the servers behind it, are this program as well.
        ["middle", middle, ..] => middle::run(middle.parse()?, &arguments[2..]),
        ["write", size, count] => frames::write(size.parse()?, count.parse()?),
        ["count"] => frames::count(),
        ["echo"] => frames::echo(),
        _ => Err("usage: relay".into()),
    }
}

/// This program, to be run as something else.
fn ourselves() -> Result<Command, Box<dyn Error>> {
    Ok(Command::new(env::current_exe()?))
}

fn report() -> Result<ExitCode, Box<dyn Error>> {
    let mut is_within = true;
    println!(
        "| frames | bytes | wrap, instructions | at most | pipe, instructions | wrap, CPU | pipe, CPU |\n\
         |---|---:|---:|---:|---:|---:|---:|"
    );
    for (direction, size, budget) in ROWS {
        let wrap = instructions(Middle::Wrap, direction, size)?;
        let pipe = instructions(Middle::Pipe, direction, size)?;
        let [wrap_time, pipe_time] = cpu_time(direction, size)?;
        println!(
            "| {direction} | {size} | {wrap:.0} | {budget:.0} | {pipe:.0} | {wrap_time:.2} µs | {pipe_time:.2} µs |"
        );
        if wrap > budget {
            eprintln!(
                "over budget: {wrap:.0} instructions for {size} bytes {direction}, allowed {budget:.0}"
            );
            is_within = false;
        }
    }

    println!("\n| round trip | median | added to one frame |\n|---|---:|---:|");
    let [alone, pipe, wrap] = round_trips()?;
    for (name, median) in [("server alone", alone), ("pipe", pipe), ("wrap", wrap)] {
        let added = (median - alone) / 2.0;
        println!("| {name} | {median:.1} µs | {added:.1} µs |");
    }
    Ok(if is_within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
