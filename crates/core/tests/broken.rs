//! Broken lifecycles, each the smallest file that shows one problem, and hostile ones that are
//! generated here.
//!
//! The first line of a file states the expectation: `# expect: LINE: part of the message`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use banksman_core::lifecycle::builtin;
use banksman_core::lifecycle::check::{Overrides, check};
use banksman_core::lifecycle::contract::{
    ContractRow, CounterName, Field, Purpose, SettingName, Trigger,
};
use banksman_core::lifecycle::problem::{Problem, Problems};
use banksman_core::lifecycle::{Lifecycle, Setting};
use banksman_core::limits;
use banksman_core::time::Span;
use proptest::prelude::{ProptestConfig, Strategy, any, prop_assert_eq, prop_oneof, proptest};
use proptest::sample::select;

fn checked(source: &str) -> Result<Lifecycle, Problems> {
    check(source, "broken.yaml", &Overrides::new())
}

fn refused(source: &str) -> Problems {
    match checked(source) {
        Ok(_) => panic!("it passes:\n{source}"),
        Err(problems) => problems,
    }
}

/// Every file of the corpus, by name.
fn corpus() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broken");
    let files = fs::read_dir(folder).expect("the corpus is part of the repository");
    let paths = files.map(|file| file.expect("the corpus can be read").path());
    let sources =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    sources
        .map(|path: PathBuf| (stem(&path), fs::read_to_string(&path).expect("the corpus is text")))
        .collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().expect("it has an extension").to_string_lossy().into_owned()
}

fn expectation(source: &str) -> (u32, &str) {
    let first = source.lines().next().and_then(|line| line.strip_prefix("# expect: "));
    let (line, part) =
        first.and_then(|rest| rest.split_once(": ")).expect("the first line says what is expected");
    (line.parse().expect("a line's number"), part)
}

/// Whether a reader learns what to write, or what to choose from.
fn advises(problem: &Problem) -> bool {
    const SIGNS: [&str; 8] = [
        "write",
        "did you mean",
        "known here",
        "one of",
        "must be",
        "needs",
        "compare",
        "put it into",
    ];
    problem.help.is_some()
        || SIGNS.iter().any(|sign| problem.message.contains(sign))
        || names_both_sides(problem)
}

fn names_both_sides(problem: &Problem) -> bool {
    problem.message.contains("but this is")
}

#[test]
fn each_fault_is_reported_at_its_line() {
    let mut wrong = String::new();
    for (name, source) in corpus() {
        let (line, part) = expectation(&source);
        let problems = refused(&source);
        let found = problems
            .list
            .iter()
            .any(|problem| problem.line == line && problem.message.contains(part));
        if !found || part.is_empty() {
            writeln!(wrong, "{name}: wanted `{part}` at line {line}, got\n{problems}")
                .expect("text grows");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn each_report_says_what_to_write_or_what_is_known() {
    for (name, source) in corpus() {
        for problem in &refused(&source).list {
            assert!(advises(problem), "{name}: {}", problem.message);
            assert!(!problem.message.ends_with('.'), "{name}: {}", problem.message);
        }
    }
}

/// Files in which two places share the fault.
const TOLD_TWICE: [&str; 6] = [
    "children-counted-without-a-planner",
    "missing-states",
    "no-states",
    "no-way-to-end",
    "reachable-only-by-a-dead-row",
    "system-twice-fires-nothing",
];

/// A second message about the same slip would hide the first one; two are allowed where two places
/// share the fault.
#[test]
fn one_fault_is_reported_once() {
    let mut wrong = String::new();
    for (name, source) in corpus() {
        let problems = refused(&source);
        let most = if TOLD_TWICE.contains(&name.as_str()) { 2 } else { 1 };
        if problems.list.len() > most {
            writeln!(wrong, "{name}:\n{problems}").expect("text grows");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// A key of an earlier version of the language is answered with what to write today.
#[test]
fn former_keys_are_answered_with_their_successors() {
    let corpus = corpus();
    for (name, help) in [
        ("within-is-gone", "`within` is now `timeouts`, and its `time` is `after`"),
        ("renew-is-gone", "`renew` is now `reset`"),
        ("only-is-gone", "name the roles at the field: `owner: { type: text, by: [human] }`"),
        ("when-is-not-a-key-of-does", "`when` now belongs to the state, beside `does`"),
    ] {
        assert_eq!(refused(&corpus[name]).list[0].help.as_deref(), Some(help), "{name}");
    }
}

/// A name of the contract, renamed wherever a lifecycle uses it. Keys of the language that are
/// spelled like it stay.
fn without(source: &str, name: &str) -> String {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let mut renamed = String::new();
    for line in source.split_inclusive('\n') {
        let header =
            ["lifecycle:", "purpose:", "fragment:"].iter().any(|key| line.starts_with(key));
        let mut rest = line;
        while let Some(at) = rest.find(name).filter(|_| !header) {
            let (before, after) = (&rest[..at], &rest[at + name.len()..]);
            let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
            let key = name == Trigger::Reset.name() && after.starts_with(": [");
            let outcome = line.contains("outcomes:") && after.starts_with(':');
            let kept = !whole || key || outcome || before.ends_with("produces: ");
            renamed.push_str(before);
            renamed.push_str(name);
            renamed.push_str(if kept { "" } else { "_" });
            rest = after;
        }
        renamed.push_str(rest);
    }
    renamed
}

/// Each thing that a purpose demands is missed when it is not there, in the engine's own lifecycle
/// of that purpose.
#[test]
fn every_demand_of_the_contract_is_checked() {
    let mut tried = 0;
    for purpose in Purpose::ALL {
        let Some(source) = purpose.engine_lifecycle().and_then(builtin::source) else { continue };
        let fields = demands(Field::RULES, purpose).map(|name| ("field", name));
        let triggers = demands(Trigger::RULES, purpose).map(|name| ("trigger", name));
        let counters = demands(CounterName::RULES, purpose).map(|name| ("counter", name));
        let settings = demands(SettingName::RULES, purpose).map(|name| ("setting", name));
        for (what, name) in fields.chain(triggers).chain(counters).chain(settings) {
            let problems = refused(&without(source, name));
            let wanted = format!("the purpose `{purpose}` demands the {what} `{name}`");
            let told = problems.list.iter().any(|problem| problem.message == wanted);
            assert!(told, "{wanted}, but got\n{problems}");
            tried += 1;
        }
    }
    assert!(tried > 50, "only {tried} demands were tried");
}

fn demands<T>(
    rules: &'static [ContractRow<T>],
    purpose: Purpose,
) -> impl Iterator<Item = &'static str> {
    rules.iter().filter(move |rule| rule.demanded_by.contains(&purpose)).map(|rule| rule.name)
}

/// The engine reserves the names that it alone fires. What people fire, they may fire anywhere, and
/// so are names that the engine shares with them.
#[test]
fn triggers_of_people_belong_to_every_purpose() {
    for trigger in ["pass", "fail", "skip", "open", "veto", "retry", "close", "abort", "trip"] {
        let source = format!(
            "lifecycle: x\npurpose: task\ninitial: queued\nstates: {{ queued: {{ kind: queued }}, done: {{ kind: done }} }}\ntransitions:\n  - {{ from: queued, to: done, on: {trigger}, by: [human] }}\n"
        );
        checked(&source).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

/// The machine tries the next transition where the state that the first one leads to refuses it.
#[test]
fn a_transition_after_one_that_may_be_refused_is_sound() {
    let source = "lifecycle: x\npurpose: task\ninitial: queued\nroles: [worker]\nfields: { diagnostic: { type: text, by: [worker] } }\nstates: { queued: { kind: queued }, failed: { kind: failed, requires: [diagnostic] } }\ntransitions:\n  - { from: queued, to: failed, on: fail, by: [worker] }\n  - { from: queued, to: failed, on: fail, by: [worker], set: { diagnostic: no reason given } }\n";
    checked(source).unwrap_or_else(|problems| panic!("{problems}"));
}

#[test]
fn every_type_of_the_contract_is_one_of_the_language() {
    for rule in Field::RULES {
        let shape = rule.item.shape();
        assert!(shape.fits(&shape.kind()), "{}", rule.name);
    }
}

#[test]
fn the_corpus_is_there() {
    assert!(corpus().len() >= 110, "only {} files were found", corpus().len());
}

#[test]
fn reports_read_well() {
    let corpus = corpus();
    let shown = [
        "unknown-state-in-transition",
        "guard-type-mismatch",
        "state-requirement-uses-actor",
        "automatic-cycle-without-limit",
        "bound-misses-requirement",
        "unknown-kind",
        "provisional-not-done",
        "provisional-for-ever",
        "no-way-to-end",
        "system-trigger-that-nothing-fires",
        "budget-without-a-scope",
        "prose-in-a-guard",
        "within-is-gone",
    ];
    insta::with_settings!({ snapshot_path => "broken", prepend_module_to_snapshot => false, omit_expression => true }, {
        for name in shown {
            insta::assert_snapshot!(name, refused(&corpus[name]).to_string());
        }
    });
}

#[test]
fn all_faults_of_a_file_are_reported_at_once_and_in_order() {
    let source = "lifecycle: x\npurpose: task\ninitial: nowhere\nroles: [human]\nfields: { a: string }\nstates:\n  done: { kind: done }\ntransitions:\n  - { from: done, to: gone, on: go, by: [nobody] }\n";
    let lines: Vec<u32> = refused(source).list.iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [3, 4, 5, 9], "the row is not looked at further once its target is unknown");
}

#[test]
fn the_examples_of_the_manual_are_sound() {
    let manual = include_str!("../../../docs/lifecycles.md");
    let blocks = manual.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let examples: Vec<&str> = blocks.filter(|block| block.starts_with("lifecycle:")).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        checked(example).unwrap_or_else(|problems| panic!("{problems}"));
    }
}

#[test]
fn an_override_must_exist_and_fit() {
    let source = builtin::source("mission").expect("it is built in");
    for (name, setting, part) in [
        ("max_review_cycels", Setting::Number(5.0), "which this lifecycle does not have"),
        ("max_review_cycles", Setting::Flag(true), "which is of another type"),
        ("max_review_cycles", Setting::Number(0.5), "a limit is a whole number from 1 on"),
        ("stall_timeout", Setting::Time(Span(0)), "a timeout cannot be zero"),
    ] {
        let overrides = Overrides::from([(name.to_owned(), setting)]);
        let problems = check(source, "mission", &overrides).expect_err("the override is wrong");
        assert!(problems.list.iter().any(|problem| problem.message.contains(part)), "{problems}");
    }
}

/// A chain of working states, each bounded, each with its own exit to `failed` and on to the next.
fn chain(states: usize) -> String {
    let mut source = String::from(
        "lifecycle: chain\npurpose: task\ninitial: s0\nroles: [worker]\nfields: { diagnostic: text }\nstates:\n  s0: { kind: queued }\n",
    );
    for number in 1..states - 2 {
        writeln!(source, "  s{number}: {{ kind: working, timeouts: [{{ after: 24h, to: failed, set: {{ diagnostic: late }} }}] }}")
            .expect("text grows");
    }
    source.push_str("  done: { kind: done }\n  failed: { kind: failed, requires: [diagnostic] }\ntransitions:\n");
    source.push_str("  - { from: s0, to: s1, on: claim, by: [worker] }\n");
    for number in 1..states - 3 {
        writeln!(source, "  - {{ from: s{number}, to: s{}, on: next, by: [worker] }}", number + 1)
            .expect("text grows");
    }
    writeln!(source, "  - {{ from: s{}, to: done, on: next, by: [worker] }}", states - 3)
        .expect("text grows");
    source
}

#[test]
fn a_sound_lifecycle_of_200_states_passes() {
    let lifecycle = checked(&chain(200)).unwrap_or_else(|problems| panic!("{problems}"));
    assert_eq!(lifecycle.states.len(), 200);
    assert_eq!(lifecycle.states.iter().filter(|state| state.terminal).count(), 2);
    assert_eq!(lifecycle.transitions.iter().filter(|row| row.timeout.is_some()).count(), 197);
}

#[test]
fn the_longest_chain_passes_and_one_state_more_is_refused() {
    assert!(checked(&chain(limits::LIFECYCLE_STATES)).is_ok());
    let problems = refused(&chain(limits::LIFECYCLE_STATES + 1));
    assert!(
        problems.to_string().contains("1001 states are more than the limit of 1000"),
        "{problems}"
    );
}

/// More than the numbers of states can count.
#[test]
fn a_flood_of_states_is_refused() {
    let states: String =
        (0..66_000).fold(String::new(), |states, number| states + &format!("  s{number}: {{}}\n"));
    let source =
        format!("lifecycle: x\npurpose: task\ninitial: s0\nstates:\n{states}transitions: []\n");
    let problems = refused(&source);
    let message = "66000 states are more than the limit of 1000";
    assert!(
        problems.list.iter().any(|problem| problem.message == message),
        "{}",
        problems.list[0].message
    );
}

#[test]
fn a_huge_file_is_refused_unread() {
    let source = "#".repeat(limits::LIFECYCLE_BYTES + 1);
    assert_eq!(refused(&source).list[0].message, "the file is larger than 1024 KiB");
}

/// Sound except for the settings, which are read before anything is checked.
fn with_settings(settings: &str) -> String {
    format!("settings:\n{settings}{}", chain(5))
}

#[test]
fn deep_nesting_is_refused() {
    for depth in [5_000, 100_000] {
        let deep = with_settings(&format!("  x: {}1{}\n", "[".repeat(depth), "]".repeat(depth)));
        let message = &refused(&deep).list[0].message;
        assert!(message.contains("recursion limit exceeded"), "{message}");
    }
}

#[test]
fn an_alias_bomb_is_refused() {
    let mut bomb = String::from("  a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for level in 1..12 {
        let alias = format!("*a{}", level - 1);
        writeln!(bomb, "  a{level}: &a{level} [{}]", [alias.as_str(); 9].join(", "))
            .expect("text grows");
    }
    let message = &refused(&with_settings(&bomb)).list[0].message;
    assert!(message.contains("budget breached: Nodes"), "{message}");
}

#[test]
fn a_guard_without_end_is_refused() {
    let guard = format!("{}true{}", "(".repeat(900), ")".repeat(900));
    let source = chain(5).replace(
        "on: claim,",
        &format!("on: claim, guards: [{{ field: diagnostic, that: \"{guard}\" }}],"),
    );
    let problems = refused(&source);
    assert!(problems.list.iter().all(|problem| problem.message.contains("deep")), "{problems}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// A mutated lifecycle is accepted, or refused with a position, and never causes a panic.
    #[test]
    fn a_damaged_lifecycle_never_panics(which in any::<usize>(), line in any::<usize>(), other in any::<usize>(), how in 0_u8..5) {
        let (_, source) = builtin::SOURCES[which % builtin::SOURCES.len()];
        let mut lines: Vec<String> = source.lines().map(str::to_owned).collect();
        let (line, other) = (line % lines.len(), other % lines.len());
        match how {
            0 => drop(lines.remove(line)),
            1 => lines.swap(line, other),
            2 => lines.insert(line, lines[other].clone()),
            3 => lines[line] = lines[line].replace(['{', '[', ':'], " "),
            _ => lines[line] = lines[line].chars().rev().collect(),
        }
        if let Err(problems) = checked(&lines.join("\n")) {
            assert!(!problems.list.is_empty());
            assert!(!problems.to_string().is_empty());
        }
    }
}

/// A condition on the priority, and whether it holds for a number.
#[derive(Debug, Clone)]
enum OnPriority {
    Compares(&'static str, f64),
    Not(Box<Self>),
    Both(Box<[Self; 2]>),
    Either(Box<[Self; 2]>),
}

impl OnPriority {
    fn holds(&self, priority: f64) -> bool {
        match self {
            Self::Compares("<", than) => priority < *than,
            Self::Compares("<=", than) => priority <= *than,
            Self::Compares(">", than) => priority > *than,
            Self::Compares("!=", than) => (priority - *than).abs() > 0.01,
            Self::Compares(_, than) => (priority - *than).abs() < 0.01,
            Self::Not(inner) => !inner.holds(priority),
            Self::Both(both) => both.iter().all(|one| one.holds(priority)),
            Self::Either(both) => both.iter().any(|one| one.holds(priority)),
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Compares(operator, than) => format!("priority {operator} {than}"),
            Self::Not(inner) => format!("not ({})", inner.text()),
            Self::Both(both) => format!("({}) and ({})", both[0].text(), both[1].text()),
            Self::Either(both) => format!("({}) or ({})", both[0].text(), both[1].text()),
        }
    }
}

fn on_priority() -> impl Strategy<Value = OnPriority> {
    let compares = (select(vec!["<", "<=", ">", "==", "!="]), 0..8_u8)
        .prop_map(|(operator, halves)| OnPriority::Compares(operator, f64::from(halves) / 2.0));
    compares.prop_recursive(3, 8, 2, |inner| {
        let pair = (inner.clone(), inner.clone()).prop_map(|(one, two)| Box::new([one, two]));
        prop_oneof![
            inner.prop_map(|inner| OnPriority::Not(Box::new(inner))),
            pair.clone().prop_map(OnPriority::Both),
            pair.prop_map(OnPriority::Either),
        ]
    })
}

proptest! {
    /// A guard on a number is refused exactly if no number meets it.
    #[test]
    fn a_guard_that_no_number_meets_is_refused(guard in on_priority()) {
        let text = guard.text();
        let source = format!(
            "lifecycle: x\npurpose: task\ninitial: queued\nstates:\n  queued: {{ kind: queued }}\n  \
             done: {{ kind: done }}\ntransitions:\n  - from: queued\n    to: done\n    on: rush\n    \
             by: [human]\n    guards: [{{ field: priority, that: '{text}' }}]\n  \
             - {{ from: queued, to: done, on: finish, by: [human] }}\n"
        );
        let is_met = (-20..20).any(|priority| guard.holds(f64::from(priority)));
        prop_assert_eq!(checked(&source).is_ok(), is_met, "{}", text);
    }
}
