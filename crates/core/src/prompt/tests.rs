//! Any text is read, filled once and checked; sections of any length fit, and omitted text is
//! reported.

use proptest::prelude::*;

use super::*;

fn filled(template: &str, values: &[(&str, &str)]) -> String {
    let values: Vec<(&str, String)> =
        values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    Template::read(template).fill(&values)
}

#[test]
fn what_a_value_brings_along_is_never_read_as_a_name() {
    let values = [("a", "{b} {{b}} {a}"), ("b", "no")];
    assert_eq!(filled("{a}-{b}", &values), "{b} {{b}} {a}-no");
}

#[test]
fn other_braces_are_only_braces() {
    let values = [("a", "1")];
    assert_eq!(filled("{{a}} {a} {} { {\"a\": {a}} {c} {{{a}}}", &values), {
        "{a} 1 {} { {\"a\": 1} {c} {{a}}"
    });
}

#[test]
fn an_unknown_value_is_found_with_its_line() {
    let pattern = Template::read("{task} {body} {state}");
    let text = "one\ntwo {tsak} {body}\n{ state }\n{{tsak}} {\"x\": 1}\n";
    let problems = check(text, &pattern, &["state"]);
    let lines: Vec<(usize, &str)> =
        problems.iter().map(|problem| (problem.line, problem.message.as_str())).collect();
    assert_eq!(
        lines,
        [
            (2, "unknown value `{tsak}`"),
            (3, "unknown value `{ state }`"),
            (4, "`{task}` is missing")
        ]
    );
    assert!(problems[0].help.starts_with("did you mean `task`?"), "{}", problems[0].help);
    assert_eq!(check("{body}{task}", &pattern, &["state"]), []);
}

#[test]
fn a_template_has_a_bound() {
    let long = "x".repeat(limits::TEMPLATE_BYTES + 1);
    assert_eq!(check(&long, &Template::read(""), &[]).len(), 1);
}

fn joined(texts: &[String]) -> String {
    texts.join("|")
}

#[test]
fn what_fits_is_left_alone() {
    let parts = [PromptSection::new("one", "abc"), PromptSection::new("two", "de")];
    assert_eq!(fit(&parts, 6, joined), ("abc|de".to_owned(), vec![]));
}

#[test]
fn the_long_ones_are_cut_alike_and_the_short_ones_are_spared() {
    let (long, longer) = ("a".repeat(40_000), "b".repeat(80_000));
    let parts = [
        PromptSection::new("the short one", "c".repeat(1_000)),
        PromptSection::new("the long one", &long).all_is_in("the tool `task` returns all of it"),
        PromptSection::new("the longer one", &longer).latest_last(),
    ];
    let (text, cuts) = fit(&parts, 30_000, joined);
    assert!(text.len() <= 30_000 && text.len() > 28_000, "{}", text.len());
    let kept: Vec<usize> = cuts.iter().map(|cut| cut.of - cut.left_out).collect();
    assert_eq!(
        cuts.iter().map(|cut| cut.part).collect::<Vec<_>>(),
        ["the long one", "the longer one"]
    );
    assert_eq!(kept[0], kept[1]);
    assert!(text.contains(&"c".repeat(1_000)));
    let told = format!(
        "- the long one: the last {} of 40000 bytes; the tool `task` returns all of it\n- the longer one: the first {} of 80000 bytes\n",
        cuts[0].left_out, cuts[1].left_out
    );
    assert!(text.ends_with(&told), "{}", &text[text.len() - 400..]);
}

#[test]
fn a_part_has_its_own_bound() {
    let (text, cuts) = fit(&[PromptSection::new("it", "äöü").at_most(3)], 1_000, joined);
    assert!(text.starts_with("ä\n[4 bytes omitted]\n"), "{text}");
    assert_eq!((cuts[0].left_out, cuts[0].of), (4, 6));
}

proptest! {
    #[test]
    fn any_text_is_a_template(text in ".*", value in ".*") {
        let template = Template::read(&text);
        prop_assert_eq!(template.fill(&[]).matches('\n').count(), text.matches('\n').count());
        let names: Vec<(String, usize)> =
            template.names().map(|(name, line)| (name.to_owned(), line)).collect();
        for (name, line) in &names {
            let at = text.lines().nth(line - 1).unwrap_or_default();
            prop_assert!(at.contains(&format!("{{{name}}}")), "{name} is not in line {line}");
        }
        let values: Vec<(&str, String)> =
            names.iter().map(|(name, _)| (name.as_str(), value.clone())).collect();
        prop_assert!(names.is_empty() || template.fill(&values).contains(&value));
    }

    #[test]
    fn braces_of_all_kinds_are_read(text in "[{}a b\"\n]{0,60}") {
        let template = Template::read(&text);
        let names: Vec<&str> = template.names().map(|(name, _)| name).collect();
        let values: Vec<(&str, String)> =
            names.iter().map(|name| (*name, format!("{{{name}}}"))).collect();
        prop_assert_eq!(template.fill(&values), template.fill(&[]));
        let own = check(&text, &template, &[]);
        prop_assert_eq!(own, []);
    }

    #[test]
    fn whatever_there_is_fits(
        lengths in prop::collection::vec((0_usize..9_000, any::<bool>(), 0_usize..9_000), 0..8),
        most in 2_000_usize..20_000,
        twice in any::<bool>(),
    ) {
        let texts: Vec<String> = lengths.iter().map(|(length, ..)| "ä\n".repeat(length / 3)).collect();
        let parts: Vec<PromptSection<'_>> = texts
            .iter()
            .zip(&lengths)
            .map(|(text, (_, is_last, own))| {
                let part = PromptSection::new("it", text).at_most(*own);
                if *is_last { part.latest_last() } else { part }
            })
            .collect();
        let write = |texts: &[String]| if twice { joined(texts) + &joined(texts) } else { joined(texts) };
        let (text, cuts) = fit(&parts, most, write);
        prop_assert!(text.len() <= most, "{} of {most}", text.len());
        for cut in &cuts {
            prop_assert!(cut.left_out > 0 && cut.left_out <= cut.of);
            prop_assert!(text.contains(&cut.describe()));
        }
        let whole = write(&texts);
        prop_assert_eq!(cuts.is_empty(), text == whole, "omissions are reported, and nothing else");
    }
}
