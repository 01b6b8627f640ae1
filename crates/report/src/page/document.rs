//! The parts of a page.

use schemars::JsonSchema;
use serde::Serialize;
use weir_model::warning::Severity;

use super::colours;
use super::definitions::Definition;
use super::grid::Grid;
use crate::plot::Figure;

/// A page as data.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// The title.
    pub title: String,
    /// The line below the title: run and time.
    pub subtitle: String,
    /// The result in one sentence; empty if the page has none.
    pub sentence: String,
    /// Whether all expectations were met; absent if there are none.
    pub passed: Option<bool>,
    /// The main figures.
    pub headlines: Vec<Headline>,
    /// The warnings, shown at the top.
    pub notices: Vec<Notice>,
    /// The sections, in order.
    pub sections: Vec<Section>,
    /// The program that wrote the page, with its version.
    pub generator: String,
}

impl Document {
    /// Starts the vertical axes of all charts at zero, unless values are below or the axis is logarithmic.
    pub fn start_at_zero(&mut self) {
        for block in self.sections.iter_mut().flat_map(|s| &mut s.blocks) {
            if let Block::Figures(figures) = block {
                figures.iter_mut().for_each(|figure| figure.y.from_zero = true);
            }
        }
    }

    /// Every figure of the page, in order.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.sections.iter().flat_map(|s| &s.blocks).flat_map(|b| match b {
            Block::Figures(figures) => figures.as_slice(),
            _ => &[],
        })
    }
}

/// Binds the colours of all charts of these sections to the names of their series.
pub(super) fn bind_colours(sections: &mut [Section]) {
    colours::bind(sections.iter_mut().flat_map(|s| &mut s.blocks).flat_map(|b| match b {
        Block::Figures(figures) => figures.as_mut_slice(),
        _ => &mut [],
    }));
}

/// A main figure.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub struct Headline {
    /// The name of the figure.
    pub label: String,
    /// The figure with its unit; absent: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// An addition: an error bound, or the other direction.
    pub note: String,
}

impl Headline {
    /// A main figure; `value` is absent if it was not measured.
    pub fn new(label: &str, value: Option<String>, note: impl Into<String>) -> Headline {
        Headline { label: label.into(), value, note: note.into() }
    }
}

/// A warning that is always visible.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Notice {
    /// How much it affects the result.
    pub severity: Severity,
    /// Stable code.
    pub code: String,
    /// The flow or the run that it concerns; empty: everything.
    pub about: String,
    /// The text.
    pub text: String,
}

/// A part of the page with a heading.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Section {
    /// Id of its element, unique in the page.
    pub id: String,
    /// Heading.
    pub heading: String,
    /// The content.
    pub blocks: Vec<Block>,
    /// Whether it is background, which is left out of Markdown.
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
    /// Definitions of figures.
    Definitions(Vec<Definition>),
    /// A longer preformatted text, such as a plan.
    Verbatim {
        /// The title of the text.
        title: String,
        /// The text.
        text: String,
    },
}
