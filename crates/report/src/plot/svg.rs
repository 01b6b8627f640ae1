//! A figure as SVG; the same figure always gives the same text. Colours are CSS variables, so that light pages, dark pages and
//! paper can differ; plain attributes are for programs that don't support variables.

use std::fmt::Write as _;

use super::decimate::{Spot, by_column};
use super::figure::{Figure, Labels, Mark, Point, ReferenceLine, Scale, Series, Spread};
use super::label;
use super::layout::Ruler;
use crate::markup::{coordinate, escape};

/// The charts' style sheet: the palette and its classes. A page with charts includes it once.
pub(crate) const STYLE: &str = include_str!("style.css");

/// The palette of a light page, 3 to 1 against paper at least (WCAG 1.4.11); the first eight are distinguishable with every kind of
/// colour vision. `style.css` has that of a dark page, `web/src/styles/tokens.css` both.
const PALETTE: [&str; 16] = [
    "#134ca6", "#d33700", "#068365", "#c83a99", "#262d3e", "#418fd5", "#7149ec", "#7f7618",
    "#782d00", "#b48796", "#5a0f78", "#5a5a69", "#c3870f", "#f04be1", "#a50f3c", "#0000c3",
];
/// Number of colours of the palette.
pub(crate) const COLOURS: usize = PALETTE.len();
/// Number of slots of the palette: its colours, then dashed, then dotted.
pub(crate) const SLOTS: usize = COLOURS * 3;
const SOFT: &str = "#57606a";
/// Width of a drawing, in its units.
const WIDTH: f64 = 560.0;
/// Height of the plot itself.
const PLOT: f64 = 190.0;
/// Height of a line of the legend.
const LINE: f64 = 16.0;
/// Maximum number of series with their names beside their lines.
const DIRECT: usize = 5;

/// A series with its place in the palette.
struct Drawn<'a> {
    series: &'a Series,
    slot: usize,
}

impl Drawn<'_> {
    fn colour(&self) -> usize {
        self.slot % COLOURS
    }

    /// After the palette's colours, the next series are dashed, the following ones dotted.
    fn dash(&self) -> &'static str {
        match self.slot / COLOURS {
            0 => "",
            1 => " stroke-dasharray=\"5 3\"",
            _ => " stroke-dasharray=\"1.5 2.5\"",
        }
    }

    fn name(&self) -> &str {
        &self.series.name
    }
}

/// Writes SVG elements and attributes.
struct Pen {
    out: String,
}

impl Pen {
    fn raw(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn number(&mut self, value: f64) {
        coordinate(&mut self.out, value);
    }

    /// `name="12.5"`.
    fn at(&mut self, name: &str, value: f64) {
        let _ = write!(self.out, " {name}=\"");
        self.number(value);
        self.raw("\"");
    }

    fn text(&mut self, x: f64, y: f64, attributes: &str, words: &str) {
        self.raw("<text");
        self.at("x", x);
        self.at("y", y);
        self.raw(attributes);
        self.raw(">");
        self.raw(&escape(words));
        self.raw("</text>\n");
    }

    /// Writes path data of a line through spots.
    fn through(&mut self, spots: &[Spot]) {
        for (i, (x, y)) in spots.iter().enumerate() {
            self.raw(if i == 0 { "M" } else { "L" });
            self.number(*x);
            self.raw(" ");
            self.number(*y);
        }
    }

    fn segment(&mut self, x1: f64, y1: f64, x2: f64, y2: f64) {
        self.through(&[(x1, y1), (x2, y2)]);
    }
}

impl Figure {
    /// The figure as a standalone SVG file, with light and dark styles.
    pub fn svg(&self) -> String {
        self.draw(true, &self.id)
    }

    /// The figure for a page that includes the charts' style sheet; `id` is its element's id, unique in the page.
    pub(crate) fn inline_svg(&self, id: &str) -> String {
        self.draw(false, id)
    }

    fn draw(&self, alone: bool, id: &str) -> String {
        let drawn: Vec<Drawn> = self
            .series
            .iter()
            .enumerate()
            .map(|(i, series)| Drawn { series, slot: series.colour.unwrap_or(i) % SLOTS })
            .filter(|d| !d.series.is_empty())
            .collect();
        let direct = self.direct(&drawn);
        let alone_named =
            self.labels == Labels::Legend && drawn.iter().any(|d| !d.name().is_empty());
        let legend = match drawn.len() {
            _ if direct => vec![],
            0 => vec![],
            1 if !alone_named => vec![],
            _ => legend_lines(&drawn),
        };
        let top = 46.0 + legend.len() as f64 * LINE + if legend.is_empty() { 0.0 } else { 4.0 };
        let bottom = top + PLOT;
        let y = Ruler::up(self, bottom, top);
        let widest = y.ticks.iter().filter_map(|t| t.label.as_deref()).map(label::width);
        let left = widest.fold(24.0, f64::max).min(120.0) + 8.0;
        let names = drawn.iter().map(|d| label::width(d.name())).fold(0.0, f64::max);
        let right = if direct { WIDTH - names - 10.0 } else { WIDTH - 14.0 };
        let x = Ruler::across(self, left, right);
        let height = bottom + if x.title.is_empty() { 24.0 } else { 40.0 };

        let mut pen = Pen { out: String::with_capacity(8192) };
        self.open(&mut pen, alone, id, height);
        pen.text(
            0.0,
            14.0,
            " class=\"h\" fill=\"#1b1f24\" font-size=\"13\" font-weight=\"600\"",
            &self.title,
        );
        pen.text(0.0, 31.0, "", &y.title);
        for (row, line) in legend.iter().enumerate() {
            let baseline = 48.0 + row as f64 * LINE;
            for (at, d) in line {
                key(&mut pen, *at, baseline, d);
            }
        }
        self.frame(&mut pen, &x, &y, (left, right, top, bottom));
        for d in &drawn {
            spread_of(&mut pen, d, &x, &y);
        }
        let bars: Vec<&Drawn> = drawn.iter().filter(|d| d.series.mark == Mark::Bars).collect();
        for (n, d) in bars.iter().enumerate() {
            let group = (n, bars.len(), self.x.scale == Scale::Category);
            bars_of(&mut pen, d, &x, &y, group);
        }
        for d in drawn.iter().filter(|d| d.series.mark != Mark::Bars) {
            line_of(&mut pen, d, &x, &y);
            dots_of(&mut pen, d, &x, &y);
        }
        self.references(&mut pen, &x, &y, (left, right));
        if direct {
            beside(&mut pen, &drawn, &y, right + 6.0, (top, bottom));
        }
        if drawn.is_empty() {
            pen.text(
                (left + right) / 2.0,
                (top + bottom) / 2.0,
                " text-anchor=\"middle\"",
                "not measured",
            );
        }
        pen.raw("</svg>\n");
        pen.out
    }

    /// Whether names are next to the lines' ends.
    fn direct(&self, drawn: &[Drawn]) -> bool {
        self.labels == Labels::Auto
            && (2..=DIRECT).contains(&drawn.len())
            && drawn.iter().all(|d| {
                !matches!(d.series.mark, Mark::Bars | Mark::Points)
                    && label::width(d.name()) < 120.0
            })
    }

    fn open(&self, pen: &mut Pen, alone: bool, id: &str, height: f64) {
        pen.raw("<svg ");
        if alone {
            pen.raw("xmlns=\"http://www.w3.org/2000/svg\" ");
            let _ = write!(pen.out, "width=\"{WIDTH}\" height=\"");
            pen.number(height);
            pen.raw("\" ");
        }
        let _ = write!(pen.out, "viewBox=\"0 0 {WIDTH} ");
        pen.number(height);
        let (id, title) = (escape(id), escape(&self.title));
        let _ = write!(
            pen.out,
            "\" role=\"img\" aria-labelledby=\"{id}-t {id}-d\" class=\"chart\" font-family=\"system-ui,'DejaVu Sans',sans-serif\" font-size=\"11\" fill=\"{SOFT}\">\n<title id=\"{id}-t\">{title}</title>\n<desc id=\"{id}-d\">{}</desc>\n",
            escape(&self.description())
        );
        if alone {
            let _ = write!(
                pen.out,
                "<style>{}</style>\n<rect class=\"bg\" width=\"{WIDTH}\" fill=\"#fff\"",
                STYLE.trim_end()
            );
            pen.at("height", height);
            pen.raw("/>\n");
        }
    }

    /// The description for screen readers.
    fn description(&self) -> String {
        let mut text = self.caption.clone();
        if !text.is_empty() && !text.ends_with('.') {
            text.push('.');
        }
        for s in self.series.iter().filter(|s| !s.is_empty()).take(8) {
            let values = || s.points.iter().map(|p| p.y).filter(|y| y.is_finite());
            let low = values().fold(f64::INFINITY, f64::min);
            let high = values().fold(f64::NEG_INFINITY, f64::max);
            let show = |v| self.y.quantity.format(v);
            let _ = write!(
                text,
                "{}{}: {} values from {} to {}.",
                if text.is_empty() { "" } else { " " },
                if s.name.is_empty() { "Series" } else { &s.name },
                values().count(),
                show(low),
                show(high)
            );
        }
        let more = self.series.iter().filter(|s| !s.is_empty()).count().saturating_sub(8);
        if more > 0 {
            let _ = write!(text, " {more} more series.");
        }
        text
    }

    fn frame(
        &self,
        pen: &mut Pen,
        x: &Ruler,
        y: &Ruler,
        (left, right, top, bottom): (f64, f64, f64, f64),
    ) {
        for shade in &self.shades {
            let (from, to) = (x.place(shade.x), x.place(shade.x_end));
            pen.raw("<rect class=\"shade\" fill=\"#eef1f4\"");
            for (name, value) in
                [("x", from), ("y", top), ("width", (to - from).max(0.0)), ("height", bottom - top)]
            {
                pen.at(name, value);
            }
            pen.raw("/>\n");
        }
        pen.raw("<path class=\"grid\" stroke=\"#dde2e7\" d=\"");
        for tick in &y.ticks {
            pen.segment(left, tick.at, right, tick.at);
        }
        if self.x.scale != Scale::Category {
            for tick in &x.ticks {
                pen.segment(tick.at, top, tick.at, bottom);
            }
        }
        pen.raw("\"/>\n<path class=\"axis\" stroke=\"#57606a\" d=\"");
        pen.segment(left, bottom, right, bottom);
        // An axis of names has no tick marks.
        let marked = self.x.scale != Scale::Category;
        for tick in x.ticks.iter().filter(|t| marked && t.label.is_some()) {
            pen.segment(tick.at, bottom, tick.at, bottom + 4.0);
        }
        pen.raw("\"/>\n<g text-anchor=\"end\">\n");
        for tick in &y.ticks {
            if let Some(words) = &tick.label {
                pen.text(left - 6.0, tick.at + 4.0, "", words);
            }
        }
        pen.raw("</g>\n<g text-anchor=\"middle\">\n");
        let mut taken = f64::NEG_INFINITY;
        for tick in &x.ticks {
            let Some(words) = &tick.label else { continue };
            let half = label::width(words) / 2.0;
            // A label at the edge is moved inside the drawing; one that would touch its neighbour is omitted.
            let at = tick.at.min(WIDTH - half).max(half);
            if at - half > taken + 4.0 {
                pen.text(at, bottom + 16.0, "", words);
                taken = at + half;
            }
        }
        if !x.title.is_empty() {
            pen.text((left + right) / 2.0, bottom + 33.0, "", &x.title);
        }
        pen.raw("</g>\n");
    }

    fn references(&self, pen: &mut Pen, x: &Ruler, y: &Ruler, (left, right): (f64, f64)) {
        for reference in &self.references {
            let ends = match reference.line {
                ReferenceLine::Horizontal(v) if v.is_finite() => {
                    [(left, y.place(v)), (right, y.place(v))]
                }
                ReferenceLine::Vertical(v) if v.is_finite() => {
                    let (low, high) = y.ends();
                    [(x.place(v), y.place(low)), (x.place(v), y.place(high))]
                }
                ReferenceLine::Diagonal => {
                    let (a, b) = (x.ends(), y.ends());
                    let (low, high) = (a.0.max(b.0), a.1.min(b.1));
                    if low > high {
                        continue;
                    }
                    [(x.place(low), y.place(low)), (x.place(high), y.place(high))]
                }
                _ => continue,
            };
            pen.raw("<path class=\"ref\" stroke=\"#57606a\" stroke-dasharray=\"2 3\" fill=\"none\" d=\"");
            pen.through(&ends);
            pen.raw("\"/>\n");
            let (at, anchor) = match reference.line {
                ReferenceLine::Vertical(_) => ((ends[1].0 + 4.0, ends[1].1 + 10.0), ""),
                _ => ((ends[1].0 - 2.0, ends[1].1 - 4.0), " text-anchor=\"end\""),
            };
            pen.text(at.0, at.1, anchor, &reference.name);
        }
    }
}

/// The lines of the legend: the position of each key.
fn legend_lines<'a>(drawn: &'a [Drawn<'a>]) -> Vec<Vec<(f64, &'a Drawn<'a>)>> {
    let mut lines = vec![vec![]];
    let mut at = 0.0;
    for d in drawn {
        let room = 22.0 + label::width(d.name()).min(WIDTH - 30.0);
        if at + room > WIDTH && at > 0.0 {
            lines.push(vec![]);
            at = 0.0;
        }
        if let Some(line) = lines.last_mut() {
            line.push((at, d));
        }
        at += room + 14.0;
    }
    lines
}

/// A key of the legend: a piece of the line, then the name.
fn key(pen: &mut Pen, x: f64, baseline: f64, d: &Drawn) {
    let (n, colour) = (d.colour(), PALETTE[d.colour()]);
    if d.series.mark == Mark::Bars {
        let _ = write!(pen.out, "<rect class=\"f{n}\" fill=\"{colour}\" width=\"11\" height=\"9\"");
        pen.at("x", x + 2.0);
        pen.at("y", baseline - 8.5);
        pen.raw("/>\n");
    } else if d.series.mark != Mark::Points {
        let _ = write!(
            pen.out,
            "<path class=\"c{n}\" stroke=\"{colour}\" fill=\"none\" stroke-width=\"2\"{} d=\"",
            d.dash()
        );
        pen.segment(x, baseline - 4.0, x + 16.0, baseline - 4.0);
        pen.raw("\"/>\n");
    }
    if matches!(d.series.mark, Mark::Points | Mark::Curve) {
        dot(pen, n, colour, x + 8.0, baseline - 4.0, false);
    }
    pen.text(x + 21.0, baseline, "", &label::fitted(d.name(), WIDTH - x - 22.0));
}

fn dot(pen: &mut Pen, n: usize, colour: &str, x: f64, y: f64, hollow: bool) {
    if hollow {
        let _ = write!(
            pen.out,
            "<circle class=\"c{n} p\" stroke=\"{colour}\" fill=\"#fff\" stroke-width=\"1.5\" r=\"3.6\""
        );
    } else {
        let _ = write!(pen.out, "<circle class=\"f{n}\" fill=\"{colour}\" r=\"2.8\"");
    }
    pen.at("cx", x);
    pen.at("cy", y);
    pen.raw("/>");
}

/// The series, split into sequences of spots at its gaps.
fn runs(series: &Series, x: &Ruler, y: &Ruler) -> Vec<Vec<Spot>> {
    let level = matches!(series.mark, Mark::Step | Mark::Area);
    let mut out: Vec<Vec<Spot>> = vec![];
    let mut run: Vec<Spot> = vec![];
    let mut until = None;
    for p in &series.points {
        if !p.y.is_finite() || !p.x.is_finite() {
            out.push(std::mem::take(&mut run));
            until = None;
            continue;
        }
        let end = p.x_end.filter(|e| level && e.is_finite());
        // A range that does not start at the end of the previous one starts a new line.
        if let Some(last) = until
            && level
            && p.x - last > 1e-6 * (end.unwrap_or(p.x) - p.x).abs()
        {
            out.push(std::mem::take(&mut run));
        }
        run.push((x.place(p.x), y.place(p.y)));
        if let Some(end) = end {
            run.push((x.place(end), y.place(p.y)));
        }
        until = end;
    }
    out.push(run);
    out.retain(|r| !r.is_empty());
    out
}

fn line_of(pen: &mut Pen, d: &Drawn, x: &Ruler, y: &Ruler) {
    if d.series.mark == Mark::Points {
        return;
    }
    let (n, colour) = (d.colour(), PALETTE[d.colour()]);
    let runs = runs(d.series, x, y);
    if d.series.mark == Mark::Area {
        let _ = write!(pen.out, "<path class=\"f{n}\" fill=\"{colour}\" fill-opacity=\".15\" d=\"");
        for run in &runs {
            let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
            let spots = by_column(run, 1.0);
            pen.through(&spots);
            for (at, floor) in [(last.0, y.floor()), (first.0, y.floor())] {
                pen.raw("L");
                pen.number(at);
                pen.raw(" ");
                pen.number(floor);
            }
            pen.raw("Z");
        }
        pen.raw("\"/>\n");
    }
    let width = if d.series.heavy { "2.2" } else { "1.4" };
    let _ = write!(
        pen.out,
        "<path class=\"c{n}\" stroke=\"{colour}\" fill=\"none\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{} d=\"",
        d.dash()
    );
    for run in &runs {
        match run.as_slice() {
            // A single point between gaps must be visible.
            [(px, py)] => pen.segment(px - 1.0, *py, px + 1.0, *py),
            _ => pen.through(&by_column(run, 1.0)),
        }
    }
    pen.raw("\"/>\n");
}

fn dots_of(pen: &mut Pen, d: &Drawn, x: &Ruler, y: &Ruler) {
    let every = matches!(d.series.mark, Mark::Points | Mark::Curve);
    let (n, colour) = (d.colour(), PALETTE[d.colour()]);
    let mut last = (f64::NAN, f64::NAN);
    let mut any = false;
    for p in d.series.points.iter().filter(|p| p.y.is_finite() && (every || p.host_limited)) {
        let spot = (x.place(p.x).round(), y.place(p.y).round());
        // Omit a dot at the same position as the previous one.
        if spot != last || p.host_limited {
            dot(pen, n, colour, x.place(p.x), y.place(p.y), p.host_limited);
            any = true;
        }
        last = spot;
    }
    if any {
        pen.raw("\n");
    }
}

fn spread_of(pen: &mut Pen, d: &Drawn, x: &Ruler, y: &Ruler) {
    let has = |p: &&Point| p.y.is_finite() && p.low.is_some() && p.high.is_some();
    if !d.series.points.iter().any(|p| has(&p)) || d.series.mark == Mark::Bars {
        return;
    }
    let (n, colour) = (d.colour(), PALETTE[d.colour()]);
    if d.series.spread == Spread::Band {
        let _ = write!(pen.out, "<path class=\"f{n}\" fill=\"{colour}\" fill-opacity=\".18\" d=\"");
        for run in d.series.points.split(|p| !has(&p)).filter(|r| !r.is_empty()) {
            let edge = |pick: fn(&Point) -> Option<f64>| -> Vec<Spot> {
                let spots = run.iter().flat_map(|p| {
                    let at = y.place(pick(p).unwrap_or(p.y));
                    [Some((x.place(p.x), at)), p.x_end.map(|e| (x.place(e), at))]
                });
                by_column(&spots.flatten().collect::<Vec<_>>(), 1.0)
            };
            let mut around = edge(|p| p.high);
            around.extend(edge(|p| p.low).into_iter().rev());
            pen.through(&around);
            pen.raw("Z");
        }
        pen.raw("\"/>\n");
        return;
    }
    let middle = |p: &Point| x.place(p.x_end.map_or(p.x, |e| (p.x + e) / 2.0));
    let spots: Vec<(f64, f64, f64)> = d
        .series
        .points
        .iter()
        .filter(has)
        .map(|p| (middle(p), y.place(p.low.unwrap_or(p.y)), y.place(p.high.unwrap_or(p.y))))
        .collect();
    whiskers(pen, n, colour, &spots);
}

/// Bars with caps: middle, lower and upper end of each.
fn whiskers(pen: &mut Pen, n: usize, colour: &str, spots: &[(f64, f64, f64)]) {
    let _ = write!(pen.out, "<path class=\"c{n}\" stroke=\"{colour}\" fill=\"none\" d=\"");
    for (at, low, high) in spots {
        pen.segment(*at, *low, *at, *high);
        pen.segment(at - 3.0, *low, at + 3.0, *low);
        pen.segment(at - 3.0, *high, at + 3.0, *high);
    }
    pen.raw("\"/>\n");
}

/// Bars; `group` is the index of this series among those with bars, their number, and whether the axis has categories.
fn bars_of(pen: &mut Pen, d: &Drawn, x: &Ruler, y: &Ruler, group: (usize, usize, bool)) {
    let (nth, of, categories) = group;
    let (n, colour) = (d.colour(), PALETTE[d.colour()]);
    let floor = y.floor();
    let room = (x.band() * 0.76).min(of as f64 * 46.0);
    let mut ends = vec![];
    let _ = write!(pen.out, "<path class=\"f{n}\" fill=\"{colour}\" d=\"");
    for p in d.series.points.iter().filter(|p| p.y.is_finite() && p.x.is_finite()) {
        let (from, to) = match (categories, p.x_end) {
            (true, _) => {
                let from = x.place(p.x) - room / 2.0 + room * nth as f64 / of as f64;
                (from, from + room / of as f64 - if of > 1 { 1.0 } else { 0.0 })
            }
            (false, Some(end)) => {
                let (from, to) = (x.place(p.x), x.place(end));
                // A thin gap between bars, if they are wide enough.
                (from, if to - from > 3.0 { to - 0.6 } else { to })
            }
            (false, None) => (x.place(p.x) - 2.0, x.place(p.x) + 2.0),
        };
        let top = y.place(p.y);
        pen.through(&[
            (from, floor),
            (from, top),
            (to.max(from + 0.3), top),
            (to.max(from + 0.3), floor),
        ]);
        pen.raw("Z");
        if let (Some(low), Some(high)) = (p.low, p.high) {
            ends.push(((from + to) / 2.0, y.place(low), y.place(high)));
        }
    }
    pen.raw("\"/>\n");
    if !ends.is_empty() {
        // A whisker on a bar has the colour of the axis, to be visible.
        pen.raw("<path class=\"axis\" stroke=\"#57606a\" fill=\"none\" d=\"");
        for (at, low, high) in &ends {
            pen.segment(*at, *low, *at, *high);
            pen.segment(at - 3.0, *low, at + 3.0, *low);
            pen.segment(at - 3.0, *high, at + 3.0, *high);
        }
        pen.raw("\"/>\n");
    }
    for p in d.series.points.iter().filter(|p| p.host_limited && p.y.is_finite()) {
        let middle = x.place(p.x) - room / 2.0 + room * (nth as f64 + 0.5) / of as f64;
        let at =
            if categories { middle } else { x.place(p.x_end.map_or(p.x, |e| (p.x + e) / 2.0)) };
        dot(pen, n, colour, at, y.place(p.y) - 6.0, true);
    }
}

/// Names beside the lines' ends, in their colours, moved apart if they would touch.
fn beside(pen: &mut Pen, drawn: &[Drawn], y: &Ruler, at: f64, (top, bottom): (f64, f64)) {
    const APART: f64 = 13.0;
    let mut places: Vec<(f64, &Drawn)> = drawn
        .iter()
        .filter_map(|d| {
            let last = d.series.points.iter().rev().find(|p| p.y.is_finite())?;
            Some((y.place(last.y), d))
        })
        .collect();
    places.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut taken = top - APART;
    for place in &mut places {
        place.0 = place.0.max(taken + APART);
        taken = place.0;
    }
    let mut free = bottom + APART;
    for place in places.iter_mut().rev() {
        place.0 = place.0.min(free - APART);
        free = place.0;
    }
    for (place, d) in places {
        let n = d.colour();
        let weight = if d.series.heavy { " font-weight=\"600\"" } else { "" };
        // The class is on a group: `.chart text` would override a class on the text.
        let _ = write!(pen.out, "<g class=\"n{n}\" fill=\"{}\">", PALETTE[n]);
        pen.text(at, place + 4.0, weight, d.name());
        pen.raw("</g>\n");
    }
}
