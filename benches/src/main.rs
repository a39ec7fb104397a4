//! Prints what decisions cost, and ends with 1 if one costs more than its budget.
//!
//! ```text
//! cargo run --release -p benches                    # the budgets
//! cargo run --release -p benches --features peers   # other limiters beside them
//! ```
//!
//! Instructions are callgrind's, bytes and blocks dhat's. Each scenario is run twice, the second
//! time with twice as many decisions, and the difference is counted: what starting up costs is in
//! neither number. Linux only, with `valgrind` installed.

mod decide;
mod path;
mod path_report;
#[cfg(feature = "peers")]
mod peers;

use std::{
    env,
    error::Error,
    process::{Command, ExitCode},
};

const DECISIONS: usize = 20_000;

/// What a decision may cost in instructions: from the entry of the function to its end.
const INSTRUCTIONS: [(&str, &str, u64); 10] = [
    ("admit", ADMIT, 150),
    (
        "admit, from an Instant",
        "mcp_question_throttle::throttle::session::Session::admit",
        245,
    ),
    ("admit among 10 servers", ADMIT, 150),
    ("admit among 10000 servers", ADMIT, 150),
    ("admit a round of ten", ADMIT, 300),
    ("admit in a new window", ADMIT, 170),
    ("refuse by the server's limit", ADMIT, 60),
    ("refuse by the session's limit", ADMIT, 60),
    (
        "refuse early",
        "mcp_question_throttle::throttle::session::Session::refuse_early",
        140,
    ),
    ("refuse saturated", ADMIT, 600),
];

const ADMIT: &str = "mcp_question_throttle::throttle::session::Session::admit_at";

/// What is kept, in bytes, with all that was allocated.
const BYTES: [(&str, &str, u64); 3] = [
    ("sessions", "a session, with its handle", 128),
    (
        "servers",
        "a server, with its name, its row and one session",
        512,
    ),
    ("storm", "a session that came, asked and went", 0),
];

/// Resident memory of 1 000 000 sessions on 10 000 servers, in bytes.
const MILLION: u64 = 160_000_000;

/// A decision allocates nothing.
const WITHOUT_ALLOCATION: [&str; 5] = [
    "admit",
    "admit a round of ten",
    "admit in a new window",
    "refuse by the server's limit",
    "refuse saturated",
];

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => report(),
        // What is measured is this program as well.
        ["decide", scenario, count] => {
            println!("{}", decide::run(scenario, count.parse()?)?);
            Ok(ExitCode::SUCCESS)
        }
        ["cpu", scenario, count] => {
            println!("{}", path_report::cpu_nanos(scenario, count.parse()?)?);
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: benches".into()),
    }
}

fn report() -> Result<ExitCode, Box<dyn Error>> {
    let mut over = Vec::new();
    let mut check = |what: &str, unit: &str, found: f64, budget: u64| {
        #[expect(clippy::cast_precision_loss, reason = "budgets are small")]
        let within = found <= budget as f64;
        if !within {
            over.push(format!("{what}: {found:.1} {unit}, allowed {budget}"));
        }
    };
    let mut row = |what: &str, unit: &str, found: f64, budget: u64| {
        println!("| {what} | {found:.1} {unit} | {budget} |");
        check(what, unit, found, budget);
    };

    println!("| decision | cost | at most |\n|---|---:|---:|");
    for (scenario, function, budget) in INSTRUCTIONS {
        let cost = instructions(scenario, Some(function))?;
        row(scenario, "instructions", cost, budget);
    }
    for scenario in WITHOUT_ALLOCATION {
        let what = format!("{scenario}, allocations");
        row(&what, "blocks", dhat(scenario, "Total:")?.1, 0);
    }
    println!("\n| kept | size | at most |\n|---|---:|---:|");
    for (scenario, what, budget) in BYTES {
        row(what, "bytes", dhat(scenario, "At t-end:")?.0, budget);
    }
    let million = run(Command::new(env::current_exe()?).args(["decide", "million", "1000000"]))?.0;
    row(
        "1 000 000 sessions on 10 000 servers, resident",
        "bytes",
        million.trim().parse()?,
        MILLION,
    );
    path_report::print(check)?;
    beside_peers()?;
    if over.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("over budget:\n{}", over.join("\n"));
    Ok(ExitCode::FAILURE)
}

#[cfg(not(feature = "peers"))]
#[expect(clippy::unnecessary_wraps, reason = "the other build measures")]
fn beside_peers() -> Result<(), Box<dyn Error>> {
    Ok(())
}

/// The table beside other limiters, two checks each: the server's limit and the session's.
#[cfg(feature = "peers")]
fn beside_peers() -> Result<(), Box<dyn Error>> {
    println!(
        "\n| limiter | admits, instructions | to ours | refuses, instructions | to ours \
         | admitted in the first 60 s at limit 5 | spurious refusals in a race |\n\
         |---|---:|---:|---:|---:|---:|---:|"
    );
    let exact = peers::exactness()?;
    let ours = (
        instructions("admit", None)?,
        instructions("refuse by the server's limit", None)?,
    );
    for name in [
        "ours",
        "governor",
        "governor-keyed",
        "ratelimit",
        "leaky-bucket",
    ] {
        let (admits, refuses) = if name == "ours" {
            ours
        } else {
            (
                instructions(&format!("{name} admits"), None)?,
                instructions(&format!("{name} refuses"), None)?,
            )
        };
        let exactness = exact
            .iter()
            .find(|exactness| name.starts_with(exactness.name))
            .ok_or("a limiter without exactness")?;
        println!(
            "| {name} | {admits:.0} | {:.2} | {refuses:.0} | {:.2} | {} | {} |",
            admits / ours.0,
            refuses / ours.1,
            exactness.first_minute,
            exactness.spurious,
        );
    }
    Ok(())
}

/// Instructions per decision, in `function` and what it calls, or in all of the loop.
fn instructions(scenario: &str, function: Option<&str>) -> Result<f64, Box<dyn Error>> {
    instructions_of(scenario, function, DECISIONS)
}

/// The same over as many decisions as `count` says.
fn instructions_of(
    scenario: &str,
    function: Option<&str>,
    count: usize,
) -> Result<f64, Box<dyn Error>> {
    let mut options = vec![String::from("--callgrind-out-file=/dev/null")];
    options.extend(function.map(|function| format!("--toggle-collect={function}")));
    let cost = per_decision(scenario, count, |count| {
        let report = valgrind("callgrind", &options, scenario, count)?;
        number_after(&report, "Collected :")
    })?;
    // A function that was renamed is never entered, and would be within any budget.
    if cost < 1.0 {
        let function = function.unwrap_or("the loop");
        return Err(format!("{scenario}: callgrind never met {function}").into());
    }
    Ok(cost)
}

/// Bytes and blocks per decision, of one line of dhat's summary.
fn dhat(scenario: &str, line: &str) -> Result<(f64, f64), Box<dyn Error>> {
    let options = [String::from("--dhat-out-file=/dev/null")];
    let measure = |what: &str| {
        per_decision(scenario, DECISIONS, |count| {
            let report = valgrind("dhat", &options, scenario, count)?;
            let summary = report
                .lines()
                .find(|found| found.contains(line))
                .ok_or("no summary of dhat")?;
            number_after(summary, what)
        })
    };
    Ok((measure(line)?, measure("bytes in")?))
}

/// How much more twice as many decisions cost, per decision.
fn per_decision(
    scenario: &str,
    count: usize,
    cost: impl Fn(usize) -> Result<f64, Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let more = cost(2 * count)? - cost(count)?;
    #[expect(clippy::cast_precision_loss, reason = "it is small")]
    let decisions = count as f64;
    if more < 0.0 && -more / decisions > 0.1 {
        return Err(format!("{scenario}: more decisions cost less").into());
    }
    Ok((more / decisions).max(0.0))
}

fn valgrind(
    tool: &str,
    options: &[String],
    scenario: &str,
    count: usize,
) -> Result<String, Box<dyn Error>> {
    let (done, report) = run(Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .args(options)
        .arg(env::current_exe()?)
        .args(["decide", scenario, &count.to_string()]))?;
    if done.trim() != count.to_string() {
        return Err(format!("{scenario}: {} of {count} as expected", done.trim()).into());
    }
    Ok(report)
}

/// Standard output and standard error of a command that must succeed.
fn run(command: &mut Command) -> Result<(String, String), Box<dyn Error>> {
    let output = command
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() {
        return Err(format!("{command:?} failed: {errors}").into());
    }
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), errors))
}

fn number_after(text: &str, word: &str) -> Result<f64, Box<dyn Error>> {
    let rest = text
        .split_once(word)
        .ok_or_else(|| format!("no {word:?} in {text:?}"))?
        .1;
    let digits: String = rest
        .trim_start()
        .chars()
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit)
        .collect();
    Ok(digits.parse()?)
}
