//! `override`: a person's word in the place of a fact.

use insta::assert_snapshot;

use super::sandbox::Sandbox;

#[test]
fn a_fact_is_overridden_by_name_and_every_view_says_so() {
    let sandbox = Sandbox::new();
    sandbox.add("Fix the login");
    let forged = ["move", "t1", "cancelled", "--set", "merged=true", "--set", "reason=x"];
    assert_snapshot!(sandbox.run(&forged), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      merged: is a fact: the system writes it from evidence, and a person overrides it with a reason
    hint: `banksman help override` says how a person gives a fact
    ");
    assert_snapshot!(sandbox.run(&["override", "t1", "merged=true", "--reason", " "]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      reason: Say how you know
    hint: set a field with `--set FIELD=VALUE`
    ");
    assert_snapshot!(sandbox.run(&["override", "t1", "note=x", "--reason", "seen"]), @"
    exit 1
    -- stderr
    error: refused (BM-E010)
      note: is no fact; give it with a move
    hint: set a field with `--set FIELD=VALUE`
    ");
    assert_snapshot!(sandbox.run(&["override", "t1", "merged=true", "--reason", "merged by hand"]), @"
    exit 0
    -- stdout
    ◌ t1  pending → pending by human:kim (override)
    -- stderr
    next: banksman show t1 · banksman why t1
    ");
    assert_snapshot!(sandbox.run(&["history", "t1"]), @r#"
    exit 0
    -- stdout
    #  TIME                 MOVE     TRIGGER   BY         CHANGES
    1  0000-00-00 00:00:00  pending  create    human:kim  lifecycle="autonomous@ffffffffffffffff" project="repo" title="Fix the login"
    2  0000-00-00 00:00:00  pending  override  human:kim  merged=true note.detail="merged by hand" overridden={"by":"kim","facts":{"merged":true},"reason":"merged by hand"}
    -- stderr
    next: banksman show t1 · banksman audit export t1
    "#);
    assert_snapshot!(sandbox.ok(&["list"]), @"
       ID  STATE                                        SINCE  PROJECT  TITLE
    ◌  t1  pending (facts given by kim, without proof)  now    repo     Fix the login
    ");
    let shown = sandbox.ok(&["show", "t1"]);
    assert!(shown.contains("pending (queued) (facts given by kim, without proof)"), "{shown}");
    let task = sandbox.json(&["show", "t1"]);
    assert_eq!(task["fields"]["overridden"]["by"], "kim");
    assert_eq!(task["fields"]["overridden"]["reason"], "merged by hand");
    // The history gives the same task again.
    sandbox.ok(&["audit", "verify"]);
}
