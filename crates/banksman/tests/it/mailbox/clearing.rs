//! Before a workflow is run again: what an earlier run left is put away, and nothing else.

use super::world::{World, gate, step};

fn strings(items: &[&str]) -> Vec<String> {
    items.iter().map(|item| (*item).to_owned()).collect()
}

fn clear(world: &World, label: &str) -> usize {
    let (steps, gates) = (strings(&["X-1", "release/X-2"]), strings(&["XG-1-2"]));
    let templates = [
        ".workflow/retry-context/XG-1-2-attempt-{n}.md",
        "notes/why.md",
        "rounds/{n}/why.md",
        "out/X-1.json",
    ];
    world.mailbox.clear_for(&steps, &gates, &strings(&templates), label).unwrap()
}

const LEFT: [&str; 12] = [
    ".workflow/retry-context/XG-1-2-attempt-1.md",
    ".workflow/retry-context/XG-1-2-attempt-2-2.md",
    ".workflow/signals/X-1-done.json",
    ".workflow/signals/XG-1-2-fail.md",
    ".workflow/signals/XG-1-2-pass",
    ".workflow/signals/release+X-2-done.json",
    ".workflow/signals/taken/X-1-done.1.json",
    ".workflow/signals/taken/XG-1-2-fail.12.md",
    "notes/why-2.md",
    "notes/why.md",
    "out/X-1.json",
    "rounds/3/why.md",
];
const OTHERS: [&str; 8] = [
    ".workflow/audit/w.log",
    ".workflow/retry-context/XG-1-22-attempt-1.md",
    ".workflow/signals/X-11-done.json",
    ".workflow/signals/XG-1-2-maybe",
    ".workflow/signals/taken/X-11-done.1.json",
    ".workflow/specs/w.yaml",
    "notes/why-not.md",
    "notes/why-x.md",
];

#[test]
fn what_an_earlier_run_left_is_put_away_and_nothing_else() {
    let world = World::new();
    LEFT.iter().chain(&OTHERS).for_each(|path| world.write(path, *path));
    assert_eq!(clear(&world, "run/1"), LEFT.len());
    let past = |path: &str| {
        format!(".workflow/past/run+1/{}", path.strip_prefix(".workflow/").unwrap_or(path))
    };
    let mut expected: Vec<String> = LEFT.iter().map(|path| past(path)).collect();
    expected.extend(strings(&OTHERS));
    expected.push(".workflow/audit/.lock".to_owned());
    expected.sort();
    assert_eq!(world.files(), expected);
    for path in LEFT {
        assert_eq!(world.read(&past(path)), path);
    }
    assert!(world.look(&[step("X-1"), gate("XG-1-2")]).is_empty());
    assert_eq!(clear(&world, "run/1"), 0, "done again");
}

#[test]
fn a_clearing_that_was_interrupted_goes_on() {
    let world = World::new();
    world.write(".workflow/past/r1/signals/XG-1-2-pass", "moved before the crash");
    world.write(".workflow/signals/X-1-done.json", "{}");
    world.write(".workflow/signals/XG-1-2-pass", "written after it");
    assert_eq!(clear(&world, "r1"), 2);
    assert_eq!(world.read(".workflow/past/r1/signals/XG-1-2-pass"), "moved before the crash");
    assert_eq!(world.read(".workflow/past/r1/signals/XG-1-2-pass-2"), "written after it");
}

#[test]
fn a_new_run_finds_its_folders() {
    let world = World::new();
    assert_eq!(clear(&world, "r1"), 0);
    assert!(world.mailbox.signals_folder().is_dir());
    assert!(world.root().join(".workflow/retry-context").is_dir());
    assert!(!world.is_there(".workflow/past"));
    assert!(world.is_there(".workflow/.gitignore"));
}

#[test]
fn no_template_leads_out_of_the_repository() {
    let world = World::new();
    std::fs::write(world.outside().join("why-1.md"), "theirs").unwrap();
    std::os::unix::fs::symlink(world.outside(), world.root().join("out")).unwrap();
    for template in ["out/why-{n}.md", "../outside/why-{n}.md", ".git/why-{n}.md"] {
        assert!(
            world.mailbox.clear_for(&[], &[], &strings(&[template]), "r1").is_err(),
            "{template}"
        );
    }
    assert!(world.outside().join("why-1.md").exists());
}
