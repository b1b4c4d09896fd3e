//! What is printed: one line a figure, with its goal and whether it was met. Nothing here measures.

use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    missed: Vec<String>,
    skipped: Vec<String>,
}

/// What a figure has to be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

impl Goal {
    fn is_met(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bound) => figure >= bound,
            Self::AtMost(bound) => figure <= bound,
        }
    }
}

impl Report {
    pub(crate) fn section(&mut self, title: &str) {
        println!("\n{title}");
    }

    /// A line without a goal.
    pub(crate) fn note(&mut self, name: &str, text: &str) {
        println!("  {name:<66} {text}");
    }

    pub(crate) fn judge(&mut self, name: &str, figure: f64, unit: &str, goal: Goal) {
        let (sign, bound) = match goal {
            Goal::AtLeast(bound) => ('≥', bound),
            Goal::AtMost(bound) => ('≤', bound),
        };
        let verdict = if goal.is_met(figure) {
            self.passed += 1;
            "PASS"
        } else {
            self.missed.push(name.to_owned());
            "miss"
        };
        let shown = format!("{} {unit}", short(figure));
        println!("  {name:<66} {:<14} goal {sign} {:<8} {verdict}", shown.trim_end(), short(bound));
    }

    pub(crate) fn skip(&mut self, name: &str, why: &str) {
        println!("  {name:<66} SKIPPED: {why}");
        self.skipped.push(name.to_owned());
    }

    pub(crate) fn sum_up(&self) {
        println!(
            "\n{} goals met, {} missed, {} skipped",
            self.passed,
            self.missed.len(),
            self.skipped.len()
        );
        for name in &self.missed {
            println!("  missed: {name}");
        }
        for name in &self.skipped {
            println!("  skipped: {name}");
        }
    }
}

/// Three significant digits, and no more than are there.
pub(crate) fn short(figure: f64) -> String {
    match figure.abs() {
        size if size >= 100.0 => format!("{figure:.0}"),
        size if size >= 10.0 => format!("{figure:.1}"),
        _ => format!("{figure:.2}"),
    }
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// The middle of what was measured; zero of nothing.
pub(crate) fn median(figures: &[f64]) -> f64 {
    quantile(figures, 0.5)
}

/// The figure below which this part of all lies.
pub(crate) fn quantile(figures: &[f64], part: f64) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index between zero and the length"
    )]
    let index = (sorted.len() as f64 * part) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Two sides of one comparison, measured in turns.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    pub(crate) ours: Vec<f64>,
    pub(crate) theirs: Vec<f64>,
}

impl Rounds {
    pub(crate) fn add(&mut self, ours: f64, theirs: f64) {
        self.ours.push(ours);
        self.theirs.push(theirs);
    }

    /// The middle of the ratios, each of two neighbours in time.
    pub(crate) fn ratio(&self) -> f64 {
        let pairs = self.ours.iter().zip(&self.theirs);
        let ratios: Vec<f64> = pairs.map(|(ours, theirs)| ours / theirs).collect();
        median(&ratios)
    }

    /// Both sides in words.
    pub(crate) fn words(&self, unit: &str) -> String {
        format!("{} against {} {unit}", short(median(&self.ours)), short(median(&self.theirs)))
    }
}
