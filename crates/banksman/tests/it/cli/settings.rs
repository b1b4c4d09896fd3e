//! `config`, and where settings come from.

use std::fs;

use insta::assert_snapshot;

use super::sandbox::Sandbox;

#[test]
fn each_setting_says_where_it_comes_from() {
    let sandbox = Sandbox::empty();
    sandbox.file(
        ".banksman/config.toml",
        "# ours\nlifecycle = \"mission\"\nproject = \"shop\"\nstore = \"tasks.db\"\n",
    );
    fs::create_dir_all(sandbox.home().join("config/banksman")).unwrap();
    let user = "lifecycle = \"step\"\n[sqlite]\nbusy_timeout = \"5s\"\n[lifecycles.mission]\nlead_may_approve = true\n";
    fs::write(sandbox.home().join("config/banksman/config.toml"), user).unwrap();
    fs::create_dir_all(sandbox.path().join("system/banksman")).unwrap();
    fs::write(
        sandbox.path().join("system/banksman/config.toml"),
        "postgres.connections = 3\nactor = \"human:root\"\n",
    )
    .unwrap();
    let mut command = sandbox.command(&["config", "list", "--show-origin", "--color", "never"]);
    let output =
        command.env("BANKSMAN_ACTOR", "lead:kim").env("BANKSMAN_PROJECT", "").output().unwrap();
    let shown = sandbox.finish(output).without_padding();
    // What nobody has set is shown as well; the list of it is in the reference.
    let set: Vec<&str> = shown.lines().filter(|line| !line.starts_with("default ")).collect();
    assert_snapshot!(set.join("\n"), @"
    exit 0
    -- stdout
    ORIGIN KEY VALUE
    [SANDBOX]/repo/.banksman/config.toml:4 store [SANDBOX]/repo/tasks.db
    env BANKSMAN_ACTOR actor lead:kim
    [SANDBOX]/repo/.banksman/config.toml:2 lifecycle mission
    [SANDBOX]/repo/.banksman/config.toml:3 project shop
    env BANKSMAN_NODE node harness
    flag --color color never
    [SANDBOX]/kim/config/banksman/config.toml:3 sqlite.busy_timeout 5s
    [SANDBOX]/system/banksman/config.toml:1 postgres.connections 3
    env BANKSMAN_DECISIONS_GRACE decisions.grace 0s
    [SANDBOX]/kim/config/banksman/config.toml:5 lifecycles.mission.lead_may_approve true
    ");
    assert_snapshot!(sandbox.run(&["config", "path"]), @"
    exit 0
    -- stdout
    SCOPE          PATH
    project  read  [SANDBOX]/repo/.banksman/config.toml
    user     read  [SANDBOX]/kim/config/banksman/config.toml
    system   read  [SANDBOX]/system/banksman/config.toml
    ");
    assert_snapshot!(sandbox.run(&["config", "get", "lifecycle"]), @"
    exit 0
    -- stdout
    mission
    ");
    assert_snapshot!(sandbox.run(&["config", "get", "lifecicle"]), @"
    exit 1
    -- stderr
    error: there is no setting `lifecicle` (BM-E045)
    hint: did you mean `lifecycle`?
    ");
}

#[test]
fn what_is_not_a_setting_is_an_error_with_its_place() {
    let sandbox = Sandbox::empty();
    let with = |text: &str| {
        sandbox.file(".banksman/config.toml", text);
        sandbox.run(&["config", "list"])
    };
    assert_snapshot!(with("\nlifecicle = \"mission\"\n"), @"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:2: unknown setting `lifecicle` (BM-E002)
    hint: did you mean `lifecycle`?
    ");
    assert_snapshot!(with("[sqlite]\nbusy = \"5s\"\n"), @"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:2: unknown setting `sqlite.busy` (BM-E002)
    hint: known here: sqlite.busy_timeout
    ");
    assert_snapshot!(with("[sqlite]\nbusy_timeout = 5\n"), @r#"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:2: `sqlite.busy_timeout` must be a time span of at most 31d, such as "10s" (BM-E002)
    hint: `banksman help formatting` shows how values are written
    "#);
    assert_snapshot!(with("[postgres]\nconnections = 0\n"), @"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:2: `postgres.connections` must be a number from 1 to 100 (BM-E002)
    hint: `banksman help formatting` shows how values are written
    ");
    assert_snapshot!(with("color = \"sometimes\"\n"), @"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:1: `color` must be one of auto, always, never (BM-E002)
    hint: `banksman help formatting` shows how values are written
    ");
    assert_snapshot!(with("actor = \":\"\n"), @"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:1: `:` is not an actor; write ROLE or ROLE:NAME, such as human:kim (BM-E002)
    hint: for example human:kim
    ");
    assert_snapshot!(with("store = [\"a\"]\n"), @"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:1: `store` must be a text on one line (BM-E002)
    hint: `banksman help formatting` shows how values are written
    ");
    assert_snapshot!(with("a = \n"), @r#"
    exit 2
    -- stderr
    error: [SANDBOX]/repo/.banksman/config.toml:1: string values must be quoted, expected literal string (BM-E002)
    hint: settings files are TOML: `key = "value"`, tables as `[name]`
    "#);
    with("");
    let mut command = sandbox.command(&["list"]);
    let output = command.env("BANKSMAN_SQLITE_BUSY_TIMEOUT", "soon").output().unwrap();
    assert_snapshot!(sandbox.finish(output), @r#"
    exit 2
    -- stderr
    error: env BANKSMAN_SQLITE_BUSY_TIMEOUT: `sqlite.busy_timeout` must be a time span of at most 31d, such as "10s" (BM-E002)
    hint: see `banksman config list`
    "#);
}

#[test]
fn wrong_settings_do_not_keep_anyone_from_help() {
    let sandbox = Sandbox::empty();
    sandbox.file(".banksman/config.toml", "nonsense = 1\n");
    for args in [
        &["help"][..],
        &["help", "environment"],
        &["version"],
        &["completion", "bash"],
        &["man"],
        &["--version"],
    ] {
        sandbox.ok(args);
    }
}

#[test]
fn a_password_is_never_shown() {
    let sandbox = Sandbox::empty();
    let store = "postgres://me:s3cret@127.0.0.1:1/banksman";
    for args in [
        &["config", "list", "--show-origin"][..],
        &["config", "get", "store"],
        &["list"],
        &["init"],
        &["list", "--json"],
    ] {
        let ran = sandbox.run(&[args, &["--store", store]].concat());
        assert!(!ran.to_string().contains("s3cret"), "{ran}");
    }
    assert_snapshot!(sandbox.run(&["config", "get", "store", "--store", store]), @"
    exit 0
    -- stdout
    postgres://me@127.0.0.1:1/banksman
    ");
    assert_snapshot!(sandbox.run(&["list", "--store", "postgres://me:s3cret@exa mple/x"]), @"
    exit 2
    -- stderr
    error: cannot use this database: TLS is not built in and the host is not local; use a tunnel, or add `sslmode=disable` to send everything in the clear (BM-E002)
    hint: write a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    ");
    assert_snapshot!(sandbox.run(&["list", "--store", "mysql://me:s3cret@localhost/x"]), @"
    exit 2
    -- stderr
    error: cannot use this database: only SQLite and PostgreSQL are supported (BM-E002)
    hint: write a path, sqlite:PATH or postgres://USER@HOST/DATABASE
    ");
}

#[test]
fn a_path_in_a_file_does_not_depend_on_where_one_stands() {
    let sandbox = Sandbox::empty();
    sandbox.file(".banksman/config.toml", "store = \"tasks.db\"\n");
    fs::create_dir_all(sandbox.repo().join("src")).unwrap();
    let output =
        sandbox.command(&["init"]).current_dir(sandbox.repo().join("src")).output().unwrap();
    assert_eq!(sandbox.finish(output).code, Some(0));
    assert!(sandbox.repo().join("tasks.db").exists());
    sandbox.file(".banksman/config.toml", "store = \"~/mine.db\"\n");
    sandbox.ok(&["init"]);
    assert!(sandbox.home().join("mine.db").exists());
}

#[test]
fn without_a_home_a_store_must_be_named() {
    let sandbox = Sandbox::empty();
    let homeless = |args: &[&str]| {
        let mut command = sandbox.command(args);
        sandbox.finish(command.env_remove("HOME").env_remove("XDG_DATA_HOME").output().unwrap())
    };
    assert_snapshot!(homeless(&["list"]), @"
    exit 2
    -- stderr
    error: no location for the store: neither HOME nor XDG_DATA_HOME is set (BM-E002)
    hint: choose a location: --store PATH
    ");
    assert_eq!(homeless(&["init", "--store", "here.db"]).code, Some(0));
    assert_eq!(homeless(&["lifecycle", "list"]).code, Some(0));
}

#[test]
fn a_store_that_is_not_there_is_not_made_by_looking() {
    let sandbox = Sandbox::empty();
    assert_snapshot!(sandbox.run(&["list"]), @"
    exit 4
    -- stderr
    error: there is no store at `[SANDBOX]/kim/data/banksman/banksman.db` (BM-E020)
    hint: `banksman init` creates it; `banksman config get store` prints its location
    ");
    assert!(!sandbox.store().exists());
    sandbox.add("A task makes it");
    assert!(sandbox.store().exists());
}

/// What is kept beside the store, such as runs, has an absolute path whatever the setting says.
#[test]
fn a_relative_store_is_in_the_current_folder() {
    for (store, kept_in) in [("tasks.db", "repo"), ("../tasks.db", ".")] {
        let sandbox = Sandbox::empty();
        let kept_in = fs::canonicalize(sandbox.path().join(kept_in)).unwrap();
        let with_store = |args: &[&str]| {
            let mut command = sandbox.command(args);
            sandbox.finish(command.env("BANKSMAN_STORE", store).output().unwrap())
        };
        for args in [&["init"][..], &["add", "x"], &["pulse"]] {
            let ran = with_store(args);
            assert_eq!(ran.code, Some(0), "{args:?} {ran}");
        }
        let home = with_store(&["config", "get", "home"]).stdout;
        assert_eq!(home.trim_end(), kept_in.to_str().unwrap());
        let store = kept_in.join("tasks.db").display().to_string();
        assert_eq!(sandbox.ok(&["list", "-q", "--store", &store]), "t1\n");
    }
}
