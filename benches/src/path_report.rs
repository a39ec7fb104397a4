//! The tables of the whole path: ratios to bare rmcp in one run, and what a server costs that
//! never reads.

use std::{env, error::Error, fs, process::Command};

use crate::{instructions_of, path, run};

/// Whether all is measured that the report shows.
const FULL: bool = cfg!(feature = "peers");

/// So many questions are counted: enough for a part in a thousand.
const QUESTIONS: usize = 1_000;
/// How often the processor's time is compared, and over how many questions.
const PAIRS: usize = 40;
const PAIR_QUESTIONS: usize = 1_000;

/// What is asked, and what a shield's refusal may cost of bare rmcp's answer, in per cent.
const ASKED: [(&str, &str, u64); 4] = [
    ("sampling", "small sampling question", 75),
    ("form", "form of six text fields", 90),
    ("field", "form of one field", 86),
    ("mixed", "form of six fields of five kinds", 95),
];
/// The first ones stand for the others where the budgets are checked and no report is made.
const CHECKED: usize = 2;
/// What an answer may cost through the wrapper, and through the wrapper with the shield.
const WRAPPER: u64 = 103;
const SHIELD: u64 = 106;
/// What a session may lose to a neighbour whose server floods and never reads.
const BESIDE: u64 = 110;
/// How much resident memory such a server may cost.
const DEAF: u64 = 16 << 20;
const DEAF_QUESTIONS: &str = "1000000";

/// Prints the tables, and gives every number with its budget to `check`.
pub(crate) fn print(mut check: impl FnMut(&str, &str, f64, u64)) -> Result<(), Box<dyn Error>> {
    println!(
        "\n| a question, from bytes to bytes | bare rmcp answers | wrapper answers \
         | wrapper and shield answer | shield refuses | at most |\n\
         |---|---:|---:|---:|---:|---:|"
    );
    let mut beside_of = 0.0;
    let asked = if FULL { ASKED.len() } else { CHECKED };
    for (word, asked, refusal) in ASKED.into_iter().take(asked) {
        let cost = |how: &str| instructions_of(&format!("path {how} {word}"), None, QUESTIONS);
        let bare = cost("bare answers")?;
        let [wrapper, shield, refuses] = [
            cost("wrapper answers")?,
            cost("shield answers")?,
            cost("shield refuses")?,
        ];
        if word == "sampling" {
            beside_of = shield;
        }
        let percent = |cost: f64| 100.0 * cost / bare;
        println!(
            "| {asked} | {bare:.0} instructions | {:.1} % | {:.1} % | {:.1} % \
             | {WRAPPER}, {SHIELD}, {refusal} % |",
            percent(wrapper),
            percent(shield),
            percent(refuses),
        );
        check(&format!("{asked}: wrapper"), "%", percent(wrapper), WRAPPER);
        check(&format!("{asked}: shield"), "%", percent(shield), SHIELD);
        check(&format!("{asked}: refusal"), "%", percent(refuses), refusal);
    }

    println!("\n| a server that floods and never reads | cost | at most |\n|---|---:|---:|");
    let grown: f64 = child(["decide", "deaf", DEAF_QUESTIONS])?;
    println!("| resident memory, for 1 000 000 questions | {grown:.0} bytes | {DEAF} |");
    check("a server that never reads", "bytes", grown, DEAF);
    let beside = instructions_of("path shield answers sampling beside", None, QUESTIONS)?;
    let percent = 100.0 * beside / beside_of;
    println!("| an answer of another session | {percent:.1} % | {BESIDE} |");
    check("beside a server that never reads", "%", percent, BESIDE);
    if FULL { print_pairs() } else { Ok(()) }
}

/// Processor time, each pair one after the other. It varies with the machine's load, so it is
/// shown and not checked.
fn print_pairs() -> Result<(), Box<dyn Error>> {
    println!(
        "\n| processor time to bare rmcp's, {PAIRS} pairs | median | middle half |\n|---|---:|---:|"
    );
    let count = PAIR_QUESTIONS.to_string();
    let time = |how: &str| child::<f64>(["cpu", &format!("path {how} sampling"), &count]);
    for how in ["wrapper answers", "shield answers", "shield refuses"] {
        let mut ratios = Vec::with_capacity(PAIRS);
        for _ in 0..PAIRS {
            let bare = time("bare answers")?;
            ratios.push(time(how)? / bare);
        }
        ratios.sort_by(f64::total_cmp);
        println!(
            "| {how} | {:.2} | {:.2} to {:.2} |",
            ratios[PAIRS / 2],
            ratios[PAIRS / 4],
            ratios[PAIRS - PAIRS / 4],
        );
    }
    Ok(())
}

/// The processor time of a scenario in nanoseconds, without what starting up takes.
pub(crate) fn cpu_nanos(scenario: &str, count: usize) -> Result<u64, Box<dyn Error>> {
    let before = on_cpu()?;
    let done = path::run(scenario, count)?;
    if done != count {
        return Err(format!("{scenario}: {done} of {count} as expected").into());
    }
    Ok(on_cpu()? - before)
}

/// For how many nanoseconds this process's only thread has run, as Linux tells it.
fn on_cpu() -> Result<u64, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/self/schedstat")?;
    let nanos = text.split_whitespace().next().ok_or("an empty schedstat")?;
    Ok(nanos.parse()?)
}

/// The number that this program prints when it is run with `arguments`.
fn child<T: std::str::FromStr<Err: Error + 'static>>(
    arguments: [&str; 3],
) -> Result<T, Box<dyn Error>> {
    let printed = run(Command::new(env::current_exe()?).args(arguments))?.0;
    Ok(printed.trim().parse()?)
}
