//! The parts of a page.

use weir_model::warning::Severity;

use super::definitions::Definition;
use super::grid::Grid;
use crate::plot::Figure;

/// A page as data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// What the page is about.
    pub title: String,
    /// Below the title: which run, when.
    pub subtitle: String,
    /// Whether everything expected was met; absent where nothing was expected.
    pub passed: Option<bool>,
    /// The figures that a reader came for.
    pub headlines: Vec<Headline>,
    /// Warnings, in sight.
    pub notices: Vec<Notice>,
    /// The rest, in order.
    pub sections: Vec<Section>,
    /// The program that wrote the page, with its version.
    pub generator: String,
}

impl Document {
    /// Every figure of the page, in order.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|s| &s.blocks).flat_map(|b| match b {
            Block::Figures(figures) => figures.as_slice(),
            _ => &[],
        })
    }
}

/// A figure that a reader came for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Headline {
    /// What it is.
    pub label: String,
    /// The figure with its unit; absent: not measured.
    pub value: Option<String>,
    /// What belongs to it: an error bound, the other direction.
    pub note: String,
}

impl Headline {
    /// A figure that may not have been measured.
    pub fn new(label: &str, value: Option<String>, note: impl Into<String>) -> Headline {
        Headline { label: label.into(), value, note: note.into() }
    }
}

/// A warning that is always visible.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    /// How much it bears on the result.
    pub severity: Severity,
    /// Stable code.
    pub code: String,
    /// What it concerns: a flow, a run; empty: everything.
    pub about: String,
    /// In words.
    pub text: String,
}

/// A part of the page with a heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// Name of its element, unique in the page.
    pub id: String,
    /// Heading.
    pub heading: String,
    /// What it holds.
    pub blocks: Vec<Block>,
    /// Left out of Markdown: background that a ticket need not carry.
    pub background: bool,
}

impl Section {
    /// A section.
    pub fn new(id: &str, heading: &str, blocks: Vec<Block>) -> Section {
        Section { id: id.into(), heading: heading.into(), blocks, background: false }
    }
}

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A command to type.
    Command(String),
    /// Names with their values.
    Facts(Vec<(String, String)>),
    /// A table.
    Grid(Grid),
    /// Charts.
    Figures(Vec<Figure>),
    /// What figures mean.
    Definitions(Vec<Definition>),
    /// A longer text as it is: a plan.
    Verbatim {
        /// What it is.
        title: String,
        /// The text.
        text: String,
    },
}
