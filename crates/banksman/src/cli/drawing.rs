//! What the drawing commands share: the format of a drawing, and where it is written.

use std::path::{Path, PathBuf};

use banksman_core::draw::Graph;
use clap::{Args, ValueEnum};

use super::{Context, Exit, Failure, Result, files};

#[derive(Debug, Args)]
pub(super) struct DrawingArgs {
    /// Mermaid text or an SVG picture [default: by the file's extension]
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Mermaid,
    Svg,
}

impl DrawingArgs {
    /// Writes the drawing of a graph.
    pub(super) fn draw(&self, context: &Context, graph: &Graph) -> Result<Exit> {
        let drawing = match self.format() {
            Format::Mermaid => graph.mermaid(),
            Format::Svg => graph.svg(),
        };
        let Some(path) = &self.output else { return context.out.text(&drawing) };
        files::write(path, |out| out.write_all(drawing.as_bytes()).map_err(Failure::Output))?;
        Ok(Exit::Done)
    }

    fn format(&self) -> Format {
        let is_svg = |path: &Path| path.extension().is_some_and(|end| end == "svg");
        let by_ending = match self.output.as_deref() {
            Some(path) if is_svg(path) => Format::Svg,
            Some(_) | None => Format::Mermaid,
        };
        self.format.unwrap_or(by_ending)
    }
}
