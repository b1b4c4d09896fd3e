//! Interprets a success criterion: a command, a file, or prose that an evaluator judges.

use super::Criterion;

/// Programs that a criterion may begin with. A missing name turns the criterion into a question for
/// the evaluator, which costs more and gives the same answer; `{ command: … }` is always a command.
const PROGRAMS: &str = "bash bats bazel black bun bundle cargo clang-tidy cmake composer ctest curl deno docker \
     dotnet elixir eslint flake8 ghc git go gradle grep java jest jq just ls make meson mix \
     mvn mypy ninja node npm npx nox php phpunit pip pixi pnpm poetry prettier pytest python \
     python3 rake rspec ruff rustc sh swift terraform test tox uv yarn";

/// The rules, in this order, ignoring case and a final full stop:
///
/// 1. `file PATH exists`, also with `and is non-empty` or `and is not empty`: the file.
/// 2. `COMMAND exits 0`, also `exits with 0`: the command.
/// 3. The first word is a known program, or contains a `/`: the whole text is a command. Words such
///    as `test` that are both programs and prose count as a program only if an argument follows
///    that is no plain word (`test -f x`).
/// 4. The evaluator judges everything else.
pub(super) fn interpret(text: &str) -> Criterion {
    let text = text.trim();
    let said = text.strip_suffix('.').unwrap_or(text).trim_end();
    if let Some(path) = file(said) {
        return Criterion::File(path.to_owned());
    }
    let endings = [" exits 0", " exits with 0"];
    let command = endings.iter().find_map(|ending| without_end(said, ending));
    match command.or_else(|| is_command(text).then_some(text)) {
        Some(command) => Criterion::Command(command.to_owned()),
        None => Criterion::Judged(text.to_owned()),
    }
}

fn file(said: &str) -> Option<&str> {
    let endings = [" and is non-empty", " and is not empty"];
    let exists = endings.iter().find_map(|ending| without_end(said, ending)).unwrap_or(said);
    let path = without_end(exists, " exists")?;
    let (first, path) = path.split_once(' ')?;
    let path = path.trim().trim_matches(['`', '\'', '"']);
    let is_one_word = !path.is_empty() && !path.contains(char::is_whitespace);
    (first.eq_ignore_ascii_case("file") && is_one_word).then_some(path)
}

fn without_end<'a>(text: &'a str, ending: &str) -> Option<&'a str> {
    let at = text.len().checked_sub(ending.len())?;
    let (before, end) = (text.get(..at)?, text.get(at..)?);
    (end.eq_ignore_ascii_case(ending) && !before.trim().is_empty()).then_some(before.trim_end())
}

fn is_command(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else { return false };
    if first.contains('/') {
        return true;
    }
    match first {
        "test" | "go" | "make" | "just" | "git" | "node" | "swift" | "black" => {
            words.next().is_none_or(|next| is_argument(first, next))
        }
        other => PROGRAMS.split(' ').any(|program| program == other),
    }
}

/// Whether the second word makes the first one a program. `make test` is a command, `make sure that
/// …` is not.
fn is_argument(program: &str, word: &str) -> bool {
    const TARGETS: [&str; 14] = [
        "all", "build", "check", "clippy", "diff", "fmt", "install", "lint", "log", "run",
        "status", "test", "verify", "vet",
    ];
    let is_plain = word.chars().all(char::is_alphabetic);
    !is_plain || (program != "test" && TARGETS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_understood() {
        let command = |text: &str| Criterion::Command(text.to_owned());
        let file = |text: &str| Criterion::File(text.to_owned());
        let judged = |text: &str| Criterion::Judged(text.to_owned());
        for (text, meant) in [
            ("file test/test_index.py exists and is non-empty", file("test/test_index.py")),
            ("File `a.md` exists and is not empty.", file("a.md")),
            ("FILE a.md EXISTS", file("a.md")),
            ("file a.md exists and b.md exists", judged("file a.md exists and b.md exists")),
            ("pixi run test exits 0", command("pixi run test")),
            ("Run-All.sh exits with 0.", command("Run-All.sh")),
            ("exits 0", judged("exits 0")),
            ("cargo test --workspace", command("cargo test --workspace")),
            ("./check.sh", command("./check.sh")),
            ("scripts/check a.b", command("scripts/check a.b")),
            ("test -f out.txt", command("test -f out.txt")),
            ("test coverage is above 80%", judged("test coverage is above 80%")),
            ("make", command("make")),
            ("make lint", command("make lint")),
            ("make sure that it reads well", judged("make sure that it reads well")),
            ("go vet ./...", command("go vet ./...")),
            ("go through the list", judged("go through the list")),
            ("The plan names every file.", judged("The plan names every file.")),
            ("tests pass", judged("tests pass")),
            ("Datei übersicht.md exists", judged("Datei übersicht.md exists")),
            ("ß", judged("ß")),
        ] {
            assert_eq!(interpret(text), meant, "{text}");
        }
    }
}
