//! The plain runner: bounded in time and output, whatever the program does.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use banksman::exec::process::{PlainRunner, Program, ProgramOutput, RunError, Runner};

fn program(script: &str) -> Program {
    Program {
        program: "sh".to_owned(),
        args: vec!["-c".to_owned(), script.to_owned()],
        folder: PathBuf::from("/"),
        env: BTreeMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap())]),
        stdin: None,
        timeout: Duration::from_secs(20),
        keep: 10_000,
    }
}

fn run(program: &Program) -> ProgramOutput {
    PlainRunner::default().run(program).unwrap()
}

#[test]
fn both_streams_and_the_exit_are_told() {
    let output = run(&program("echo out; echo err >&2; exit 3"));
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out\n", "err\n"));
    assert_eq!((output.exit.code, output.exit.signal), (Some(3), None));
    assert!(!output.ok() && !output.cut && !output.timed_out);
}

#[test]
fn a_signal_is_told() {
    let output = run(&program("kill -TERM $$"));
    assert_eq!((output.exit.code, output.exit.signal), (None, Some(15)));
}

#[test]
fn nothing_of_our_environment_is_handed_on() {
    let output = run(&program("env | cut -d= -f1 | sort | tr '\\n' ' '"));
    let names: Vec<&str> = output.stdout.split_whitespace().collect();
    // A shell sets the last three for itself.
    let known = ["PATH", "PWD", "SHLVL", "_"];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
}

#[test]
fn the_end_of_a_flood_is_kept() {
    let flood = "i=0; while [ $i -lt 20 ]; do head -c 100000 /dev/zero | tr '\\0' x; i=$((i+1)); done; echo end";
    let output = run(&program(&format!("{flood}; {{ {flood}; }} >&2")));
    assert!(output.cut && output.ok());
    for text in [&output.stdout, &output.stderr] {
        assert_eq!(text.len(), 10_000);
        assert!(text.ends_with("xend\n"));
    }
}

#[test]
fn input_larger_than_a_pipe_is_written_while_output_is_read() {
    let text = "0123456789".repeat(50_000);
    let mut program = program("cat");
    program.keep = 1_000_000;
    program.stdin = Some(text.clone());
    assert_eq!(run(&program).stdout, text);
}

#[test]
fn a_program_may_leave_its_input_unread() {
    let mut program = program("exec 0<&-; echo done");
    program.stdin = Some("x".repeat(500_000));
    assert_eq!(run(&program).stdout, "done\n");
}

#[test]
fn the_whole_group_ends_at_the_timeout() {
    let mut program = program("sleep 60 & echo $!; trap '' TERM; wait; sleep 60");
    program.timeout = Duration::from_millis(300);
    let began = Instant::now();
    let output = run(&program);
    assert!(output.timed_out && !output.ok());
    assert!(began.elapsed() < Duration::from_secs(10));
    let child: i32 = output.stdout.trim().parse().unwrap();
    let is_there = || {
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z")
    };
    let until = Instant::now() + Duration::from_secs(10);
    while is_there() {
        assert!(Instant::now() < until, "{child} is still there");
        std::thread::yield_now();
    }
}

#[test]
fn a_child_that_keeps_the_pipes_open_keeps_nobody_waiting() {
    let began = Instant::now();
    let output = run(&program("sleep 5 & echo done"));
    assert_eq!(output.stdout, "done\n");
    assert!(output.ok());
    assert!(began.elapsed() < Duration::from_secs(4));
}

#[test]
fn a_program_that_is_not_there_is_an_error() {
    let mut missing = program("");
    missing.program = "no-such-program-here".to_owned();
    assert!(matches!(PlainRunner::default().run(&missing), Err(RunError::Start { .. })));
}
