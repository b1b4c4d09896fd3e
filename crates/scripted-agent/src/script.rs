//! Parses a prompt into steps. It checks everything before the first step is played.

use std::fmt;

use serde_json::Value;

const OPENING: &str = "<<script";
const CLOSING: &str = "script>>";
/// Far more than a test writes; a prompt that is not a script must not be played to its end.
const STEPS: usize = 10_000;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Step {
    Say(String),
    Tool { name: String, detail: String },
    Write { path: String, text: String },
    Append { path: String, text: String },
    Commit(String),
    Run(String),
    Session(String),
    Answer(Value),
    Spend { input: i64, output: i64, usd: f64 },
    Sleep(u64),
    Burn(u64),
    Silent,
    Flood(u64),
    FloodErr(u64),
    FloodLine(u64),
    Daemon(u64),
    IgnoreTerm,
    Report(Report),
    Success(String),
    Lie(String),
    Fail { kind: Option<&'static str>, message: String, resets_at: Option<String> },
    Exit(u8),
    Crash,
    KillSelf(String),
    Once { name: String, steps: Vec<Self> },
    Attempt { number: u64, step: Box<Self> },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Report {
    Progress(String),
    NeedsPerson(String),
    NothingToDo(String),
}

#[derive(Debug, PartialEq)]
pub(crate) struct Script {
    pub(crate) steps: Vec<Step>,
    /// The name under which attempts are counted.
    pub(crate) counter: String,
}

impl Script {
    pub(crate) fn has_attempts(&self) -> bool {
        fn is_attempt(step: &Step) -> bool {
            if let Step::Once { steps, .. } = step {
                return steps.iter().any(is_attempt);
            }
            matches!(step, Step::Attempt { .. })
        }
        self.steps.iter().any(is_attempt)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAScript {
    pub(crate) line: String,
    pub(crate) reason: &'static str,
}

impl fmt::Display for NotAScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.line, self.reason)
    }
}

pub(crate) fn parse(prompt: &str) -> Result<Script, NotAScript> {
    let lines = script_lines(prompt);
    let mut counter = format!("script-{:016x}", fingerprint(&lines));
    let mut open: Option<(String, Vec<Step>)> = None;
    let mut steps = Vec::new();
    for line in &lines {
        let wrong = |reason| NotAScript { line: (*line).to_owned(), reason };
        let (word, rest) = split(line);
        match (word, &mut open) {
            ("count-as", _) => counter = file_name(rest).ok_or(wrong("not a plain name"))?,
            ("once", None) => {
                let name = file_name(rest).ok_or(wrong("not a plain name"))?;
                open = Some((name, Vec::new()));
            }
            ("once", Some(_)) => return Err(wrong("`once` inside `once`")),
            ("end", _) => {
                let (name, inner) = open.take().ok_or(wrong("`end` without `once`"))?;
                steps.push(Step::Once { name, steps: inner });
            }
            (_, Some((_, inner))) => inner.push(step(line).map_err(wrong)?),
            (_, None) => steps.push(step(line).map_err(wrong)?),
        }
        if steps.len() > STEPS {
            return Err(wrong("too many steps"));
        }
    }
    match open {
        Some((name, _)) => Err(NotAScript { line: name, reason: "`once` without `end`" }),
        None => Ok(Script { steps, counter }),
    }
}

/// The script's lines: those between the markers, or all if there are none.
fn script_lines(prompt: &str) -> Vec<&str> {
    fn bare(line: &str) -> &str {
        line.trim_start_matches([' ', '\t', '>']).trim_end()
    }
    let marked = prompt.lines().any(|line| bare(line) == OPENING);
    let lines = prompt.lines().map(|line| if marked { bare(line) } else { line.trim() });
    let after = lines.skip_while(|line| marked && *line != OPENING).skip(usize::from(marked));
    after
        .take_while(|line| !marked || *line != CLOSING)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

fn step(line: &str) -> Result<Step, &'static str> {
    let (word, rest) = split(line);
    let text = || unescaped(rest);
    let report = |report: fn(String) -> Report| Ok(Step::Report(report(unescaped(rest))));
    match word {
        "say" => Ok(Step::Say(text())),
        "tool" => {
            let (name, detail) = split(rest);
            Ok(Step::Tool { name: name.to_owned(), detail: unescaped(detail) })
        }
        "write" => named(rest, |path, text| Step::Write { path, text }),
        "append" => named(rest, |path, text| Step::Append { path, text }),
        "commit" => Ok(Step::Commit(text())),
        "run" => Ok(Step::Run(rest.to_owned())),
        "session" => Ok(Step::Session(text())),
        "answer" => serde_json::from_str(rest).map(Step::Answer).map_err(|_| "an answer is JSON"),
        "spend" => spend(rest),
        "sleep" => number(rest).map(Step::Sleep),
        "burn" => number(rest).map(Step::Burn),
        "silent" => Ok(Step::Silent),
        "flood" => number(rest).map(Step::Flood),
        "flood-err" => number(rest).map(Step::FloodErr),
        "flood-line" => number(rest).map(Step::FloodLine),
        "daemon" => number(rest).map(Step::Daemon),
        "ignore-term" => Ok(Step::IgnoreTerm),
        "progress" => report(Report::Progress),
        "needs-person" => report(Report::NeedsPerson),
        "nothing-to-do" => report(Report::NothingToDo),
        "success" => Ok(Step::Success(text())),
        "lie" => Ok(Step::Lie(text())),
        "fail" => Ok(failure(None, &text(), None)),
        "quota" => {
            let resets_at = (!rest.is_empty()).then(|| rest.to_owned());
            Ok(failure(Some("quota"), "the limit of the plan is reached", resets_at))
        }
        "auth" => Ok(failure(Some("auth"), "the key was refused", None)),
        "transient" => Ok(failure(Some("transient"), "the server is overloaded", None)),
        "exit" => rest.parse().map(Step::Exit).map_err(|_| "an exit code is 0 to 255"),
        "crash" => Ok(Step::Crash),
        "kill-self" => signal(rest),
        "attempt" => attempt(rest),
        _ => Err("no such step"),
    }
}

fn failure(kind: Option<&'static str>, message: &str, resets_at: Option<String>) -> Step {
    Step::Fail { kind, message: message.to_owned(), resets_at }
}

fn named(rest: &str, make: fn(String, String) -> Step) -> Result<Step, &'static str> {
    let (path, text) = split(rest);
    if path.is_empty() {
        Err("a path is missing")
    } else {
        Ok(make(path.to_owned(), unescaped(text)))
    }
}

fn spend(rest: &str) -> Result<Step, &'static str> {
    let wrong = "three numbers are needed: tokens in, tokens out, dollars";
    let [input, output, usd] = rest.split(' ').collect::<Vec<_>>()[..] else { return Err(wrong) };
    let tokens = |text: &str| text.parse::<i64>().map_err(|_| wrong);
    let usd = usd.parse().map_err(|_| wrong)?;
    Ok(Step::Spend { input: tokens(input)?, output: tokens(output)?, usd })
}

fn attempt(rest: &str) -> Result<Step, &'static str> {
    let (number, inner) = rest.split_once(':').ok_or("write `attempt N: STEP`")?;
    let number = number.trim().parse().map_err(|_| "write `attempt N: STEP`")?;
    let inner = step(inner.trim())?;
    if matches!(inner, Step::Attempt { .. }) {
        return Err("`attempt` inside `attempt`");
    }
    Ok(Step::Attempt { number, step: Box::new(inner) })
}

/// The name goes to a shell, so it must be a plain name or number.
fn signal(rest: &str) -> Result<Step, &'static str> {
    let plain = !rest.is_empty() && rest.chars().all(|letter| letter.is_ascii_alphanumeric());
    if plain { Ok(Step::KillSelf(rest.to_owned())) } else { Err("a signal is a name such as TERM") }
}

fn number(rest: &str) -> Result<u64, &'static str> {
    rest.parse().map_err(|_| "a number is missing")
}

fn file_name(rest: &str) -> Option<String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    (!rest.is_empty() && rest.chars().all(plain)).then(|| rest.to_owned())
}

fn split(line: &str) -> (&str, &str) {
    line.split_once(' ').map_or((line, ""), |(word, rest)| (word, rest.trim_start()))
}

fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => plain.push('\n'),
                Some('t') => plain.push('\t'),
                Some(other) => plain.push(other),
                None => plain.push('\\'),
            },
            other => plain.push(other),
        }
    }
    plain
}

/// FNV-1a: the same for the same script in every process, and nothing more is needed.
fn fingerprint(lines: &[&str]) -> u64 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(prompt: &str) -> Vec<Step> {
        parse(prompt).unwrap().steps
    }

    #[test]
    fn a_script_in_a_prompt_is_found_between_its_marks() {
        let prompt = "# Task\nexit 9\n  > <<script\n  > say hi\\nyou\n  >\n  > # note\n  > exit 0\n> script>>\ncrash\n";
        assert_eq!(steps(prompt), [Step::Say("hi\nyou".into()), Step::Exit(0)]);
    }

    #[test]
    fn without_marks_every_line_is_a_step() {
        assert_eq!(
            steps("write a/b.txt one two\nspend 10 2 0.5\nquota 2030-01-01T00:00:00Z\n"),
            [
                Step::Write { path: "a/b.txt".into(), text: "one two".into() },
                Step::Spend { input: 10, output: 2, usd: 0.5 },
                failure(
                    Some("quota"),
                    "the limit of the plan is reached",
                    Some("2030-01-01T00:00:00Z".into())
                ),
            ]
        );
    }

    #[test]
    fn blocks_and_attempts_nest_one_step() {
        assert_eq!(
            steps("once a\ncrash\nend\nattempt 2: exit 3"),
            [
                Step::Once { name: "a".into(), steps: vec![Step::Crash] },
                Step::Attempt { number: 2, step: Box::new(Step::Exit(3)) },
            ]
        );
    }

    #[test]
    fn the_counter_follows_the_script_and_not_the_prompt_around_it() {
        let counter = |prompt: &str| parse(prompt).unwrap().counter;
        let first = counter("Do it.\n<<script\nsay a\nscript>>\n");
        assert_eq!(first, counter("Again, with feedback.\n<<script\nsay a\nscript>>\nOops."));
        assert_ne!(first, counter("<<script\nsay b\nscript>>"));
        assert_eq!(counter("count-as t1\nsay a"), "t1");
    }

    #[test]
    fn an_invalid_script_is_refused_with_its_line() {
        for (prompt, reason) in [
            ("Please fix the bug.", "no such step"),
            ("exit 300", "an exit code is 0 to 255"),
            ("once a\nsay b", "`once` without `end`"),
            ("end", "`end` without `once`"),
            ("once a\nonce b\nend", "`once` inside `once`"),
            ("once ../a\nend", "not a plain name"),
            ("kill-self 9;ls", "a signal is a name such as TERM"),
            ("attempt 1: attempt 2: crash", "`attempt` inside `attempt`"),
            ("answer {", "an answer is JSON"),
            ("attempt x", "write `attempt N: STEP`"),
        ] {
            assert_eq!(parse(prompt).unwrap_err().reason, reason, "{prompt}");
        }
    }
}
