//! Steps that branch and come together: their work is handed over along the edges, files are
//! spelled out before they are run, and those that share a worktree take turns.

use super::stage::{Stage, WORK};

const DIAMOND: &str = "
workflow: { id: diamond, name: Apart and together }
steps:
  - { id: A }
  - { id: B, needs: [A] }
  - { id: C, needs: [A] }
  - { id: D, needs: [B, C] }
";

/// Each of two steps waits, for a while, until the other is at work as well.
fn meets(other: &str) -> String {
    format!(
        "run touch \"$YARD/at-$PART\"; n=0; while [ ! -e \"$YARD/at-{other}\" ] && [ $n -lt 600 ]; do n=$((n+1)); sleep 0.05; done; [ -e \"$YARD/at-{other}\" ]\n{WORK}"
    )
}

#[test]
fn a_diamond_works_in_parallel_and_brings_its_work_together() {
    let stage = Stage::new();
    stage.step("B", &meets("C"));
    stage.step("C", &meets("B"));
    stage.step("D", &format!("run test -s made/A && test -s made/B && test -s made/C\n{WORK}"));
    let spec = stage.spec("diamond", DIAMOND);
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    let played = stage.played();
    assert_eq!((played.len(), &*played[0], &*played[3]), (4, "A", "D"), "{played:?}");
    for step in ["A", "B", "C", "D"] {
        assert_eq!(stage.main(&format!("made/{step}")), format!("{step}\n"));
    }
    stage.assert_put_away();
}

#[test]
fn parameters_matrices_lists_and_other_files_are_run_as_they_are_spelled_out() {
    let stage = Stage::new();
    stage.spec(
        "review",
        "
workflow: { id: review, name: Look at it, params: { subject: { type: string } } }
steps:
  - { id: read, prompt: 'Read ${{ params.subject }}.' }
  - { id: sum-up, needs: [read] }
",
    );
    let spec = stage.spec(
        "all",
        "
workflow:
  id: all
  name: 'Release ${{ params.version }}'
  params:
    version: { type: string }
    files: { type: list, default: [a, b] }
steps:
  - { id: build, matrix: { os: [linux, mac] }, prompt: 'Build ${{ params.version }} for ${{ matrix.os }}.', gate: BG }
  - { id: pack, needs: [build], for_each: '${{ params.files }}', prompt: 'Pack ${{ item }}.' }
  - { id: check, uses: review.yaml, with: { subject: '${{ params.version }}' }, needs: [pack] }
  - { id: end, needs: [check] }
gates:
  - { id: BG, reviewer: { level: auto }, on_pass: { next_step: pack } }
",
    );
    let said = stage.refused(&["workflow", "run", &spec]);
    assert!(said.contains("version"), "{said}");
    let given = ["--param", "version=1.2", "--param", "files=x,y,z"];
    let ended = stage.play(&[&[spec.as_str()], &given[..]].concat());
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(ended["workflows"][0]["name"], "Release 1.2", "{ended}");
    let steps: Vec<String> = stage.states("all").into_keys().collect();
    assert_eq!(
        steps,
        [
            "build[linux]",
            "build[mac]",
            "check/read",
            "check/sum-up",
            "end",
            "pack[x]",
            "pack[y]",
            "pack[z]"
        ]
    );
    let played = stage.played();
    let gates = played.iter().filter(|part| part.starts_with("BG")).count();
    assert_eq!((played.len(), gates), (10, 2), "{played:?}");
    assert!(stage.prompts_of("build_mac_")[0].contains("Build 1.2 for mac."), "{played:?}");
    assert!(stage.prompts_of("pack_z_")[0].contains("Pack z."));
    assert!(stage.prompts_of("check_read")[0].contains("Read 1.2."));
    let place = |part: &str| played.iter().position(|other| other == part).expect("it was played");
    assert!(place("build_mac_") < place("pack_x_") && place("pack_z_") < place("check_read"));
    assert_eq!(played.last().map(String::as_str), Some("end"));
    let made = stage.main_files().into_iter().filter(|path| path.starts_with("made/")).count();
    assert_eq!(made, 8);
    stage.assert_put_away();
}

#[test]
fn steps_that_share_a_worktree_take_turns() {
    let stage = Stage::new();
    let spec = stage.spec(
        "shared",
        "
workflow: { id: shared, name: One desk }
steps:
  - { id: A, agent: { worktree: desk/ } }
  - { id: B, agent: { worktree: desk/ } }
  - { id: C, agent: { worktree: desk/ } }
  - { id: D, agent: { worktree: desk/ }, needs: [A, B, C] }
",
    );
    // Whoever finds somebody else at the desk says so.
    let script = format!(
        "run if ! mkdir \"$YARD/desk\"; then echo \"$PART\" >>\"$YARD/crowded\"; fi; sleep 0.2; rmdir \"$YARD/desk\"\n{WORK}"
    );
    for step in ["A", "B", "C"] {
        stage.step(step, &script);
    }
    stage.step("D", &format!("run test -s made/A && test -s made/B && test -s made/C\n{WORK}"));
    let ended = stage.play(&[&spec]);
    assert_eq!(ended["workflows"][0]["state"], "complete", "{ended}");
    assert_eq!(stage.file("crowded"), "", "two were at the desk at once");
    assert_eq!(stage.played().len(), 4, "{:?}", stage.played());
    for step in ["A", "B", "C", "D"] {
        assert_eq!(stage.main(&format!("made/{step}")), format!("{step}\n"));
    }
    stage.assert_put_away();
}
