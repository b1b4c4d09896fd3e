//! What the drawing commands share: the format of a drawing, and where it is written.

use std::ffi::OsStr;
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
        let drawing = match self.format()? {
            Format::Mermaid => graph.mermaid(),
            Format::Svg => graph.svg(),
        };
        let Some(path) = &self.output else { return context.out.text(&drawing) };
        files::write(path, |out| out.write_all(drawing.as_bytes()).map_err(Failure::Output))?;
        Ok(Exit::Done)
    }

    fn format(&self) -> Result<Format> {
        let path = self.output.as_deref();
        let ending = path.and_then(Path::extension).and_then(OsStr::to_str);
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, Some("svg")) => Ok(Format::Svg),
            (None, None | Some("mmd" | "mermaid" | "md" | "txt")) => Ok(Format::Mermaid),
            (None, Some(ending)) => Err(Failure::argument(
                format!("no drawing is of the format `{ending}`"),
                "name a file that ends in .svg or .mmd, or add --format",
            )),
        }
    }
}
