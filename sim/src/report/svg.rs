//! Writing SVG: elements, texts and the colours, which have a light and a dark form.

use std::fmt::Write;

use crate::scenario::Arm;

/// A picture under way.
#[derive(Debug, Default)]
pub(super) struct Svg {
    width: f64,
    height: f64,
    title: String,
    body: String,
}

/// Where a text stands against its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// An empty picture. The title is what a screen reader says.
    pub(super) fn new(width: f64, height: f64, title: &str) -> Self {
        Self { width, height, title: title.into(), body: String::new() }
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" class="{class}"/>"#));
    }

    pub(super) fn rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str, about: &str) {
        let ((x, y), (w, h)) = (at, (size.0.max(0.5), size.1.max(0.5)));
        let title = escaped(about);
        self.put(format_args!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{w:.1}" height="{h:.1}" class="{class}"><title>{title}</title></rect>"#
        ));
    }

    pub(super) fn circle(&mut self, at: (f64, f64), radius: f64, class: &str, about: &str) {
        let ((x, y), title) = (at, escaped(about));
        self.put(format_args!(
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="{radius:.1}" class="{class}"><title>{title}</title></circle>"#
        ));
    }

    pub(super) fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escaped(text));
        self.put(format_args!(r#"<text x="{x:.1}" y="{y:.1}" text-anchor="{anchor}" class="{class}">{text}</text>"#));
    }

    /// A text that reads upwards.
    pub(super) fn upward(&mut self, at: (f64, f64), class: &str, text: &str) {
        let ((x, y), text) = (at, escaped(text));
        self.put(format_args!(
            r#"<text transform="translate({x:.1} {y:.1}) rotate(-90)" text-anchor="middle" class="{class}">{text}</text>"#
        ));
    }

    /// A line through points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() > 1 {
            let d = outline(points);
            self.put(format_args!(r#"<path d="{d}" class="{class}"/>"#));
        }
    }

    /// An area with these corners.
    pub(super) fn area(&mut self, points: &[(f64, f64)], class: &str) {
        if points.len() > 2 {
            let d = outline(points);
            self.put(format_args!(r#"<path d="{d}Z" class="{class}"/>"#));
        }
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// The element, to be put into a page that has [`STYLE`], or to be made a file by [`standalone`].
    pub(super) fn finish(self) -> String {
        let Self { width, height, title, body } = self;
        let title = escaped(&title);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" class=\"plot\" role=\"img\" aria-label=\"{title}\">\n\
             <rect width=\"100%\" height=\"100%\" class=\"paper\"/>\n{body}</svg>"
        )
    }
}

fn outline(points: &[(f64, f64)]) -> String {
    let mut d = String::new();
    for (n, (x, y)) in points.iter().enumerate() {
        let _ = write!(d, "{}{x:.1} {y:.1}", if n == 0 { 'M' } else { 'L' });
    }
    d
}

/// A picture as a file of its own.
pub(super) fn standalone(svg: &str) -> String {
    let end = svg.find('>').map_or(0, |at| at + 1);
    let (head, rest) = svg.split_at(end);
    format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{head}\n<style>{STYLE}</style>{rest}\n")
}

/// Text with what XML takes for itself written out.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML has no way to write these.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The class of an arm's lines; its areas have `-band` after it.
pub(super) fn arm_class(arm: Arm) -> &'static str {
    match arm {
        Arm::Isolated => "isolated",
        Arm::Central => "central",
        Arm::Folklore => "folklore",
        Arm::Oracle => "oracle",
        Arm::Real => "real",
    }
}

/// Colours by Okabe and Ito, which the colour-blind tell apart, each with a dash of its own besides; lighter ones on dark.
pub(super) const STYLE: &str = "
:root,svg{--paper:#fff;--ink:#1b1b1f;--soft:#5c5f66;--grid:#e4e5e9;--cut:#f3d9b0;--hostile:#f1c9d8;--node:#d8dbe2;
--isolated:#c4520a;--central:#b0568c;--folklore:#0072b2;--oracle:#008a63;--real:#1b1b1f}
@media (prefers-color-scheme:dark){:root,svg{--paper:#16181d;--ink:#e9eaee;--soft:#a3a7b0;--grid:#2c3038;--cut:#5a4526;
--hostile:#5c2f43;--node:#3d424d;--isolated:#f08a4b;--central:#e09cc6;--folklore:#62b8f0;--oracle:#3fc79c;--real:#e9eaee}}
.plot text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:var(--ink)}
.plot .soft{fill:var(--soft)}.plot .small{font-size:11px}.plot .bold{font-weight:600}
.plot .halo{paint-order:stroke;stroke:var(--paper);stroke-width:4px}
.plot .paper{fill:var(--paper)}.plot .grid{stroke:var(--grid);stroke-width:1}.plot .axis{stroke:var(--soft);stroke-width:1}
.plot path{fill:none;stroke-width:2;stroke-linejoin:round}
.plot .cut{fill:var(--cut);opacity:.75}.plot .hostile{fill:var(--hostile)}.plot .fault{fill:var(--soft)}
.plot .node{fill:var(--node);stroke:var(--soft)}.plot .hostile-node{fill:var(--hostile);stroke:var(--soft)}
.plot .link{stroke:var(--soft);stroke-width:1.5;fill:none}.plot .link-cut{stroke:var(--isolated);stroke-width:2;stroke-dasharray:5 4;fill:none}
.plot .isolated{stroke:var(--isolated);stroke-dasharray:2 3}.plot .central{stroke:var(--central);stroke-dasharray:8 3 2 3}
.plot .folklore{stroke:var(--folklore);stroke-width:2.5}.plot .oracle{stroke:var(--oracle);stroke-dasharray:7 4}
.plot .real{stroke:var(--real);stroke-width:2.5;stroke-dasharray:10 5}.plot path.real-band{fill:var(--real);opacity:.1}.plot text.real-text{fill:var(--real)}
.plot path.isolated-band{fill:var(--isolated);opacity:.13}.plot path.central-band{fill:var(--central);opacity:.13}
.plot path.folklore-band{fill:var(--folklore);opacity:.18}.plot path.oracle-band{fill:var(--oracle);opacity:.13}
.plot text.isolated-text{fill:var(--isolated)}.plot text.central-text{fill:var(--central)}
.plot text.folklore-text{fill:var(--folklore)}.plot text.oracle-text{fill:var(--oracle)}
.plot .step{stroke:var(--folklore);stroke-width:1.2;opacity:.75}.plot .late{stroke:var(--isolated);stroke-width:1.2;opacity:.75}
.plot .taught{fill:var(--folklore);stroke:none}
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_a_file_cannot_become_markup() {
        let mut svg = Svg::new(10.0, 10.0, "a\"><script>");
        svg.text((1.0, 1.0), Anchor::Start, "soft", "</text><script>alert('x')</script>\u{0}");
        let text = standalone(&svg.finish());
        assert!(!text.contains("<script>") && !text.contains('\u{0}'), "{text}");
        assert!(text.starts_with("<?xml") && text.contains("<style>"), "{text}");
    }
}
