//! What the pages for new users tell them to type can be typed, and prints what is shown there.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;

use super::sandbox::{PROGRAM, Ran, Sandbox};

const README: &str = include_str!("../../../../../README.md");
const GETTING_STARTED: &str = include_str!("../../../../../docs/getting-started.md");
const PHASE_4: &str = include_str!("../../../../../docs/examples/phase-4.yaml");

/// A line to type, and what is shown below it.
struct Line<'a> {
    typed: &'a str,
    shown: Option<String>,
}

/// The lines of all blocks of shell; a block of text shows what the last line before it prints.
fn lines(page: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut block = None;
    for line in page.lines() {
        match (line.strip_prefix("```"), block) {
            (Some(name), None) => block = Some(name),
            (Some(_), Some(_)) => block = None,
            (None, Some("sh")) => lines.push(Line { typed: line, shown: None }),
            (None, Some("text")) => {
                let last = lines.last_mut().expect("nothing is shown before something is typed");
                let shown = last.shown.get_or_insert_default();
                *shown += line;
                *shown += "\n";
            }
            (None, Some(other)) => panic!("a block of `{other}`"),
            (None, None) => {}
        }
    }
    lines
}

/// A shell that finds the program, in a repository that is called as the one of the pages.
fn typed(sandbox: &Sandbox, script: &str) -> Ran {
    let programs = sandbox.path().join("programs");
    if !programs.exists() {
        std::fs::create_dir(&programs).unwrap();
        symlink(PROGRAM, programs.join("banksman")).unwrap();
    }
    let mut command = Command::new("sh");
    sandbox.prepare(&mut command);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display());
    command.env("PATH", path).env("BANKSMAN_PROJECT", "hello").args(["-c", script]);
    sandbox.finish(command.output().unwrap())
}

#[test]
fn getting_started_shows_what_is_printed() {
    let sandbox = Sandbox::empty();
    sandbox.file("notes.md", "To be published on Friday.\n");
    let is_elsewhere = |line: &str| {
        ["cd your-repository", "banksman init --store postgres:", "export BANKSMAN_STORE="]
            .iter()
            .any(|start| line.starts_with(start))
    };
    let (mut variables, mut compared) = (String::new(), 0);
    for Line { typed: line, shown } in lines(GETTING_STARTED) {
        if is_elsewhere(line) {
            continue;
        }
        if line.starts_with("id=") {
            variables = format!("{line}\n");
            continue;
        }
        let ran = typed(&sandbox, &format!("{variables}{line}"));
        let is_refused = shown.as_ref().is_some_and(|shown| shown.starts_with("error: refused"));
        assert_eq!(ran.code, Some(i32::from(is_refused)), "{line}\n{ran}");
        if let Some(shown) = shown {
            let printed = if is_refused { &ran.stderr } else { &ran.stdout };
            assert_eq!(*printed, shown, "{line}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4, "each block of text was compared");
}

#[test]
fn what_the_readme_says_can_be_typed() {
    let sandbox = Sandbox::empty();
    sandbox.file(".workflow/specs/phase-4.yaml", PHASE_4);
    let stays = |line: &str| line == "banksman up" || line.starts_with("banksman workflow run ");
    let ours = lines(README);
    let ours: Vec<&str> = ours.iter().map(|line| line.typed).collect();
    let ours = ours.into_iter().filter(|line| line.starts_with("banksman ") && !stays(line));
    let mut count = 0;
    for line in ours {
        let ran = typed(&sandbox, line);
        assert_eq!(ran.code, Some(0), "{line}\n{ran}");
        count += 1;
    }
    assert_eq!(count, 4, "init, add, lint and simulate");
}

#[test]
fn the_readme_names_every_command() {
    let row = README.lines().find_map(|line| line.strip_prefix("| command line: `"));
    let named = row.and_then(|row| row.split('`').next()).expect("a row of the table");
    let named: BTreeSet<&str> = named.split(' ').collect();
    let help = Sandbox::empty().ok(&["help"]);
    let commands = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    let commands = commands.expect("a list of commands").lines();
    let mut commands: BTreeSet<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).collect();
    // The tools of agents have a row of their own; help and version are what every program has.
    for beside in ["help", "mcp", "version"] {
        assert!(commands.remove(beside), "{beside}");
    }
    assert_eq!(named, commands);
}

/// The guides of the documentation, by name.
fn guides() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let pages = entries.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let text = |path: &std::path::PathBuf| std::fs::read_to_string(path).unwrap();
    pages
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), text(&path)))
        .collect()
}

/// The blocks of a page in a language, without the others.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let begin = format!("```{language}\n");
    let rest = page.split(begin.as_str()).skip(1);
    rest.map(|rest| rest.split("```").next().unwrap_or_default()).collect()
}

/// Settings and policies that a guide shows can be used as they are.
#[test]
fn every_example_of_a_guide_is_accepted() {
    let mut tried = 0;
    for (name, page) in guides() {
        for block in blocks(&page, "toml") {
            let sandbox = Sandbox::new();
            sandbox.file(".banksman/config.toml", block);
            let ran = sandbox.run(&["config", "list"]);
            assert_eq!(ran.code, Some(0), "{name}: {ran}\n{block}");
            tried += 1;
        }
        for block in blocks(&page, "yaml").into_iter().filter(|text| text.starts_with("extends:")) {
            let sandbox = Sandbox::new();
            sandbox.file(".banksman/policy.yaml", block);
            let ran = sandbox.run(&["policy", "lint"]);
            assert_eq!(ran.code, Some(0), "{name}: {ran}\n{block}");
            tried += 1;
        }
    }
    assert!(tried > 8, "{tried}");
}
