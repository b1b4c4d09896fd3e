//! The matrix as pages of the reference.

use std::env;
use std::fs;
use std::path::Path;

use super::{Row, known};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/roads");
const NOTE: &str =
    "<!-- Made from the program by `BANKSMAN_BLESS=1 cargo nextest run -p banksman roads`. -->";

fn page(name: &str, rows: &[Row]) -> String {
    let mut page = format!(
        "# The roads of {name}\n\n{NOTE}\n\nSee [the roads](../roads.md) for how to read this.\n\n\
         | lifecycle | state | what happens | where it ends | paid runs | note |\n\
         | --- | --- | --- | --- | --- | --- |\n"
    );
    for row in rows {
        let place = &row.place;
        let silent = if place.is_active { "" } else { " (silent)" };
        let answers = row.answers.iter().map(|(offer, end)| format!("{offer}: {end}"));
        let mut notes: Vec<String> = answers.collect();
        notes.extend(known::reason(name, row).map(|why| format!("**known: {why}**")));
        let (lifecycle, state) = (&place.lifecycle, &place.state);
        page.push_str(&format!(
            "| {lifecycle} | `{state}`{silent} | {} | {} | {} | {} |\n",
            row.event,
            row.end,
            row.runs,
            notes.join("; ")
        ));
    }
    page
}

/// Compares the page of a scene with what came of its roads.
pub(super) fn check(name: &str, rows: &[Row]) {
    let (path, content) = (Path::new(FOLDER).join(format!("{name}.md")), page(name, rows));
    if env::var_os("BANKSMAN_BLESS").is_some() {
        fs::create_dir_all(FOLDER).expect("a folder");
        fs::write(&path, &content).expect("it is written");
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == content,
        "docs/reference/roads/{name}.md is not what the roads say; run this test with \
         BANKSMAN_BLESS=1 and look at the difference"
    );
}
