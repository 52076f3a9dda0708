//! A page of Markdown, as mdBook and GitHub read it.

use std::collections::BTreeSet;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The parts of a page that others name, or that a test runs.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) headings: Vec<Heading>,
    /// The targets of links and pictures, as written.
    pub(super) links: Vec<String>,
    pub(super) blocks: Vec<Block>,
    /// Comments too.
    pub(super) html: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Heading {
    pub(super) text: String,
    /// The name that a link uses.
    pub(super) anchor: String,
}

/// A block of code.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The words after the fence; empty for a block that is only indented.
    pub(super) info: String,
    pub(super) text: String,
}

/// The page that is being read, and the heading or block that is open and gets the text.
#[derive(Default)]
struct Reading {
    page: Page,
    heading: Option<String>,
    block: Option<Block>,
}

impl Page {
    /// Reads with the extensions that both have. mdBook's own, `{#id}` after a heading, is text here, and a
    /// test forbids it.
    pub(super) fn parse(text: &str) -> Page {
        let options = Options::ENABLE_TABLES
            | Options::ENABLE_FOOTNOTES
            | Options::ENABLE_STRIKETHROUGH
            | Options::ENABLE_TASKLISTS;
        let mut reading = Reading::default();
        Parser::new_ext(text, options).for_each(|event| reading.take(event));
        let mut page = reading.page;
        number(&mut page.headings);
        page
    }

    pub(super) fn has_anchor(&self, anchor: &str) -> bool {
        self.headings.iter().any(|heading| heading.anchor == anchor)
    }
}

impl Reading {
    fn take(&mut self, event: Event<'_>) {
        let page = &mut self.page;
        match event {
            Event::Start(Tag::Heading { .. }) => self.heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => page.headings.extend(self.heading.take().map(Heading::new)),
            Event::Start(Tag::CodeBlock(kind)) => self.block = Some(Block::new(&kind)),
            Event::End(TagEnd::CodeBlock) => page.blocks.extend(self.block.take()),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.to_string());
            }
            Event::Start(Tag::HtmlBlock) => page.html.push(String::new()),
            Event::Html(part) => page.html.last_mut().unwrap().push_str(&part),
            Event::InlineHtml(html) => page.html.push(html.to_string()),
            Event::Text(text) | Event::Code(text) => self.add(&text),
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        let open = self.block.as_mut().map(|block| &mut block.text).or(self.heading.as_mut());
        if let Some(open) = open {
            open.push_str(text);
        }
    }
}

impl Block {
    fn new(kind: &CodeBlockKind<'_>) -> Block {
        let info = match kind {
            CodeBlockKind::Fenced(info) => info.to_string(),
            CodeBlockKind::Indented => String::new(),
        };
        Block { info, text: String::new() }
    }
}

impl Heading {
    /// Sources: mdBook 0.5, `id_from_content`; GitHub's manual, "Section links". They agree on headings in ASCII.
    fn new(text: String) -> Heading {
        let kept = |c: char| match c {
            ' ' => Some('-'),
            c => (c.is_alphanumeric() || c == '_' || c == '-').then_some(c),
        };
        let anchor = text.to_lowercase().chars().filter_map(kept).collect();
        Heading { text, anchor }
    }
}

/// The second of a name gets `-1`, and so on.
fn number(headings: &mut [Heading]) {
    let mut used = BTreeSet::new();
    for heading in headings {
        let first = heading.anchor.clone();
        let mut others = (1..).map(|n| format!("{first}-{n}"));
        while !used.insert(heading.anchor.clone()) {
            heading.anchor = others.next().unwrap();
        }
    }
}

#[test]
fn a_page_is_read() {
    let text = "# A\n\n## `b.c`: 1, 2\n## A\n[x](y.md#z) ![p](p.png)\n<!-- one\ntwo -->\n1. x\n\n        a = 1\n\n\
                ```toml f.toml\nb = 2\n```\n\n| a |\n|---|\n| <b> |\n";
    let page = Page::parse(text);
    let anchors: Vec<_> = page.headings.iter().map(|heading| &*heading.anchor).collect();
    assert_eq!(anchors, ["a", "bc-1-2", "a-1"]);
    assert_eq!(page.headings[1].text, "b.c: 1, 2");
    assert_eq!(page.links, ["y.md#z", "p.png"]);
    assert_eq!(page.html, ["<!-- one\ntwo -->\n", "<b>"]);
    let block = |info: &str, text: &str| Block { info: info.into(), text: text.into() };
    assert_eq!(page.blocks, [block("", " a = 1\n"), block("toml f.toml", "b = 2\n")]);
    assert!(page.has_anchor("a-1") && !page.has_anchor("a-2"));
}
