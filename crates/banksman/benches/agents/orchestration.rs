//! Who drives a workflow: Banksman itself, or an agent that asks what is next and reports what came
//! of it. Counted are the calls, and the tokens that a model in the place of the second would read
//! and write.
//!
//! The driver is a script that does what a model would be told to do, so every run gives the same
//! counts. The control plane has a turn after each of its calls, as with an `up` beside it. There
//! is no repository, so nothing is merged. A token is counted as four bytes. Nothing here has a
//! goal; `docs/orchestration.md` says what follows from the figures.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use banksman_core::ids::TaskId;
use serde_json::Value;

use crate::frame::report::{Report, millis, short};
use crate::frame::{Fault, Size};
use crate::place::{Place, wait_until};

/// The workflow that the format's guide begins with.
const EXAMPLE: &str = include_str!("../../../../docs/examples/phase-4.yaml");
/// Plays every part: leaves behind what the example demands, and lets the gate pass after it has
/// failed it so often as the file `failures` beside the script says.
const AGENT: &str = r#"prompt=$(cat); here=${0%/*}
end() { echo "{\"type\":\"result\",\"status\":\"success\",\"text\":\"done\"$1}"; }
case $prompt in
*"at the gate"*)
    left=$(cat "$here/failures"); verdict=APPROVE
    if [ "$left" -gt 0 ]; then verdict=BLOCK; echo $((left - 1)) >"$here/failures"; fi
    end ",\"answer\":{\"verdict\":\"$verdict\",\"rationale\":\"looked\",\"concerns\":[\"the empty query is not tested\"],\"suggestions\":[]}" ;;
*"step X-1"*)
    mkdir -p test .workflow/signals; echo test >test/test_index.py
    echo '{"status":"done"}' >.workflow/signals/X-1-done.json; end ;;
*"step X-2"*)
    mkdir -p src/chatcat .workflow/signals; echo a >src/chatcat/index.py; echo b >src/chatcat/search.py
    echo '{"status":"done"}' >.workflow/signals/X-2-done.json; end ;;
*) end ;;
esac
"#;
const GATED: &str = "workflow: { id: gated, name: Write a parser }\nsteps:\n  - { id: A, name: parse, prompt: Write a parser for \
    dates., gate: G }\ngates:\n  - { id: G, reviewer: { level: auto }, on_pass: { next_step: DONE }, max_retries: 3 }\n";
/// The first task is the workflow itself.
const WORKFLOW: TaskId = TaskId(1);
const NOTE: &str = "the empty query is not tested";
/// Looks at what is next before something is wrong.
const LOOKS: usize = 200;

pub(crate) fn measure(_: Size, report: &mut Report) -> Result<(), Fault> {
    report.section("who drives a workflow: Banksman, or an agent that asks and reports");
    let cases = [
        ("the example", EXAMPLE.to_owned(), 0),
        ("a chain of 20", chain(20), 0),
        ("a gate that fails twice", GATED.to_owned(), 2),
        ("8 side by side", side_by_side(8), 0),
    ];
    for (name, spec, failures) in cases {
        for (how, saves) in [("", false), (" that says what it knows", true)] {
            let (talk, wall) = by_an_agent(&spec, failures, (saves, None))?;
            report.note(&format!("{name}, by an agent{how}"), &talk.words(wall));
        }
        let (talk, wall) = by_banksman(&spec, failures)?;
        report.note(&format!("{name}, by Banksman"), &talk.words(wall));
    }
    let (talk, _) = by_an_agent(&chain(20), 0, (false, Some(10)))?;
    let caught_up = format!("1 call, {} tokens", tokens(talk.last_answer));
    report.note("the agent is lost after 10 of 20: another one catches up with", &caught_up);
    let (runs, wall) = banksman_is_killed(&chain(20))?;
    report.note(
        "`up` is killed after 10 of 20 and started again",
        &format!("{runs} runs in all, {} ms until it is over", short(millis(wall))),
    );
    Ok(())
}

/// What went over a driver's table, in bytes.
#[derive(Debug, Default)]
struct Talk {
    calls: usize,
    /// Answers of people, who decide in either case.
    of_people: usize,
    read: usize,
    written: usize,
    /// Assignments that are passed on to subagents, word by word.
    passed_on: usize,
    /// What a model reads again, because each call takes all that was said before along.
    again: usize,
    last_answer: usize,
}

impl Talk {
    fn call(&mut self, words: &str, answer: &str) {
        self.calls += 1;
        self.again += self.read + self.written + self.passed_on;
        self.written += words.len();
        self.read += answer.len();
        self.last_answer = answer.len();
    }

    fn words(&self, wall: Duration) -> String {
        format!(
            "{} calls, {} tokens read, {} written, {} passed on, {} read again; {} by people; {} ms",
            self.calls,
            tokens(self.read),
            tokens(self.written),
            tokens(self.passed_on),
            tokens(self.again),
            self.of_people,
            short(millis(wall))
        )
    }
}

fn tokens(bytes: usize) -> usize {
    bytes.div_ceil(4)
}

fn prepare(spec: &str, failures: u32) -> Result<Place, Fault> {
    let place = Place::new(AGENT, 8, 8)?;
    fs::write(place.path("failures"), failures.to_string())?;
    fs::write(place.path("spec.yaml"), spec)?;
    // The example's own check; the program that it names is not on every machine.
    fs::write(place.path("pixi"), "#!/bin/sh\nexit 0\n")?;
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.path("pixi"), executable)?;
    place.succeed(&["init"])?;
    Ok(place)
}

/// What the steps of the example have to leave behind, where whoever drives it by hand works.
fn leave_the_work(place: &Place) -> Result<(), Fault> {
    for file in ["test/test_index.py", "src/chatcat/index.py", "src/chatcat/search.py"] {
        let path = place.path("project").join(file);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(path, "work\n")?;
    }
    Ok(())
}

/// The program, which finds what stands beside the agent.
fn program(place: &Place, words: &[&str]) -> Command {
    let mut command = place.command(words);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", place.path("").display()));
    command
}

fn says(place: &Place, words: &[&str]) -> Result<String, Fault> {
    let output = program(place, words).stdout(Stdio::piped()).stderr(Stdio::piped()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{}`: {said}", words.join(" ")).into());
    }
    // A model gets to see both.
    let (out, err) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    Ok(format!("{out}{err}"))
}

/// Asks, passes on, reports, until it is over or so many steps are done. One that saves says which
/// steps it knows, and does not get their words again.
fn by_an_agent(
    spec: &str,
    mut failures: u32,
    (saves, until): (bool, Option<usize>),
) -> Result<(Talk, Duration), Fault> {
    let place = prepare(spec, failures)?;
    leave_the_work(&place)?;
    let path = place.path("spec.yaml").display().to_string();
    let began = Instant::now();
    let mut talk = Talk::default();
    talk.call("cat spec.yaml", spec);
    let run = ["--quiet", "workflow", "run", path.as_str(), "--by-hand"];
    let answer = says(&place, &run)?;
    talk.call("banksman -q workflow run spec.yaml --by-hand", &answer);
    let mut known: Vec<String> = Vec::new();
    let mut done = 0;
    for _ in 0..LOOKS {
        place.turn()?;
        let with = known.join(",");
        let mut words = vec!["--json", "workflow", "next"];
        if saves && !known.is_empty() {
            words.extend(["--known", &with]);
        }
        let answer = says(&place, &words)?;
        talk.call(&format!("banksman {}", words.join(" ")), &answer);
        let answer: Value = serde_json::from_str(&answer)?;
        if answer["over"] == true || until == Some(done) {
            return Ok((talk, began.elapsed()));
        }
        let todos: Vec<Todo<'_>> =
            answer["next"].as_array().into_iter().flatten().filter_map(Todo::of).collect();
        for todo in todos.iter().filter(|todo| todo.kind == "do") {
            if !known.iter().any(|step| step == todo.step) {
                known.push(todo.step.to_owned());
                talk.passed_on += todo.assignment.len();
            }
        }
        // Agents come to their ends one after the other, and each end may free something new.
        let Some(todo) = todos.first() else { continue };
        let mut words: Vec<&str> = todo.way.split(' ').skip(1).collect();
        if todo.kind == "review" {
            talk.passed_on += todo.assignment.len();
            if failures > 0 {
                failures -= 1;
                words = vec![
                    "workflow", "report", todo.step, "fail", "--note", NOTE, "--as", "reviewer",
                ];
            }
        }
        words.insert(0, "--quiet");
        let answer = says(&place, &words)?;
        if todo.kind == "decide" {
            talk.of_people += 1;
        } else {
            talk.call(&format!("banksman {}", words.join(" ")), &answer);
        }
        if todo.kind == "do" {
            known.retain(|step| step != todo.step);
            done += 1;
        }
    }
    Err("it does not come to its end".into())
}

/// What somebody has to do, as `next` prints it.
struct Todo<'a> {
    step: &'a str,
    kind: &'a str,
    assignment: &'a str,
    /// What to type when it is done, or when it is good.
    way: &'a str,
}

impl<'a> Todo<'a> {
    /// None for what Banksman itself is at.
    fn of(value: &'a Value) -> Option<Self> {
        Some(Self {
            step: value["step"].as_str()?,
            kind: value["kind"].as_str()?,
            assignment: value["assignment"].as_str().unwrap_or_default(),
            way: value["report"][0].as_str()?,
        })
    }
}

/// Whoever wants it done says so once; people answer what only they can.
fn by_banksman(spec: &str, failures: u32) -> Result<(Talk, Duration), Fault> {
    let place = prepare(spec, failures)?;
    let path = place.path("spec.yaml").display().to_string();
    let began = Instant::now();
    let mut talk = Talk::default();
    let answer = says(&place, &["--quiet", "workflow", "run", &path, "--detach"])?;
    talk.call("banksman -q workflow run spec.yaml --detach", &answer);
    let mut up = program(&place, &["up"]).spawn()?;
    let over = wait_until("the workflow is over", || {
        let answer: Value = serde_json::from_str(&says(&place, &["--json", "workflow", "next"])?)?;
        for todo in answer["next"].as_array().into_iter().flatten() {
            if let (true, Some(way)) = (todo["kind"] == "decide", todo["report"][0].as_str()) {
                says(&place, &way.split(' ').skip(1).collect::<Vec<_>>())?;
                talk.of_people += 1;
            }
        }
        Ok(answer["over"] == true)
    });
    up.kill()?;
    up.wait()?;
    over?;
    Ok((talk, began.elapsed()))
}

/// `up` is killed in the middle: how many runs it takes in all, and how long the rest.
fn banksman_is_killed(spec: &str) -> Result<(usize, Duration), Fault> {
    let place = prepare(spec, 0)?;
    let path = place.path("spec.yaml").display().to_string();
    says(&place, &["--quiet", "workflow", "run", &path, "--detach"])?;
    let mut up = program(&place, &["up"]).spawn()?;
    let halfway =
        wait_until("half of it is done", || Ok(place.store.count_children(WORKFLOW)?.done >= 10));
    up.kill()?;
    up.wait()?;
    halfway?;
    let began = Instant::now();
    let mut up = program(&place, &["up"]).spawn()?;
    let over = wait_until("the workflow is over", || place.is_over(WORKFLOW));
    let wall = began.elapsed();
    up.kill()?;
    up.wait()?;
    over?;
    let mut runs = 0;
    for number in 2..=21 {
        runs += place.store.past_runs(TaskId(number), 100)?.len();
    }
    Ok((runs, wall))
}

fn chain(steps: usize) -> String {
    let mut spec =
        "workflow:\n  id: chain\n  name: Move the store to the new format\nsteps:\n".to_owned();
    for number in 1..=steps {
        let needs =
            if number == 1 { String::new() } else { format!(", needs: [S-{}]", number - 1) };
        spec.push_str(&format!(
            "  - {{ id: S-{number}, name: part-{number}, prompt: Move part {number} of the store to the new format and run its tests.{needs} }}\n"
        ));
    }
    spec
}

fn side_by_side(steps: usize) -> String {
    let mut spec = "workflow:\n  id: wide\n  name: Translate the manual\nsteps:\n".to_owned();
    for number in 1..=steps {
        spec.push_str(&format!(
            "  - {{ id: T-{number}, name: chapter-{number}, prompt: Translate chapter {number} of the manual into plain English. }}\n"
        ));
    }
    spec
}
