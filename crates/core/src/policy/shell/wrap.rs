//! Programs that start other programs: what `sudo`, `env`, `xargs` and similar programs run, and
//! the code that a shell is given.

use super::{SimpleCommand, Word, is_assignment};

/// Programs, their options that take a value in the next word, and the number of words before the
/// command.
const WRAPPERS: [(&str, &str, usize); 16] = [
    ("nohup setsid command builtin busybox unshare", "", 0),
    ("sudo", "-u -g -h -p -C -T -r -t -D -U", 0),
    ("doas", "-u -C", 0),
    ("env", "-u -C --unset --chdir", 0),
    ("nice", "-n", 0),
    ("ionice", "-c -n -p", 0),
    ("stdbuf", "-i -o -e", 0),
    ("time", "-f -o", 0),
    ("exec", "-a", 0),
    ("xargs", "-I -n -P -L -d -s -E -a", 0),
    ("watch", "-n", 0),
    ("timeout", "-s -k --signal --kill-after", 1),
    ("chroot", "", 1),
    ("flock", "-w -E", 1),
    ("strace", "-o -e -p", 0),
    ("caffeinate", "-t -w", 0),
];

/// The command that a program starts, if it is a wrapper.
pub(super) fn wrapped_command(outer: &SimpleCommand) -> Option<SimpleCommand> {
    let program = outer.program();
    if program == "find" {
        return executed_by_find(outer);
    }
    let is_one_of = |words: &str, word: &str| words.split(' ').any(|one| one == word);
    let (_, valued, before) = WRAPPERS.iter().find(|(names, ..)| is_one_of(names, program))?;
    let mut words = outer.words.iter().skip(1).peekable();
    while let Some(word) = words.peek() {
        let text = word.text.as_str();
        if is_one_of(valued, text) {
            words.next();
        } else if !text.starts_with('-') && !is_assignment(word) {
            break;
        }
        words.next();
    }
    let words: Vec<Word> = words.skip(*before).cloned().collect();
    (!words.is_empty()).then_some(SimpleCommand { words, into: Vec::new() })
}

fn executed_by_find(find: &SimpleCommand) -> Option<SimpleCommand> {
    const RUNS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
    let from = find.words.iter().position(|word| RUNS.contains(&word.text.as_str()))? + 1;
    let words = find.words[from..].iter();
    let words: Vec<Word> =
        words.take_while(|word| word.text != ";" && word.text != "+").cloned().collect();
    (!words.is_empty()).then_some(SimpleCommand { words, into: Vec::new() })
}

/// The code after `-c`, also if other letters come with it: `bash -lc`.
pub(super) fn code_of_shell(shell: &SimpleCommand) -> Option<&Word> {
    let is_code = |word: &Word| {
        word.text.strip_prefix('-').is_some_and(|letters| {
            letters.contains('c') && letters.bytes().all(|letter| letter.is_ascii_alphabetic())
        })
    };
    let at = shell.words.iter().skip(1).position(is_code)? + 2;
    shell.words.get(at)
}
