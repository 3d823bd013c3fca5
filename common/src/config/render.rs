//! Faults and warnings for people: `file:line:column: path: message`, and the line with a mark.

use std::fmt;

use unicode_width::UnicodeWidthChar;

use super::fault::{Fault, Faults, Place, Warning};
use super::source::Position;

/// Longer source lines are cut to this many characters around what is meant.
const SHOWN_CHARS: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Plain,
    /// For terminals that understand ANSI's escape sequences.
    Ansi,
}

#[derive(Clone, Copy)]
enum Level {
    Error,
    Warning,
}

impl Faults {
    /// All of them, each with its line, and how many there are. Ends with a line break.
    pub fn render(&self, colour: Colour) -> String {
        let mut text: String = self.0.iter().map(|fault| fault.render(colour)).collect();
        let count = self.0.len();
        text.push_str(&format!("{count} {}\n", if count == 1 { "fault" } else { "faults" }));
        text
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render(Colour::Plain).trim_end())
    }
}

impl Fault {
    pub fn render(&self, colour: Colour) -> String {
        entry(Level::Error, &self.place, &self.path, &self.message, colour)
    }
}

impl Warning {
    pub fn render(&self, colour: Colour) -> String {
        entry(Level::Warning, &self.place, &self.path, &self.message, colour)
    }
}

fn entry(level: Level, place: &Place, path: &str, message: &str, colour: Colour) -> String {
    let (word, code) = match level {
        Level::Error => ("error", "1;31"),
        Level::Warning => ("warning", "1;33"),
    };
    let word = paint(word, code, colour);
    let (path, message) = (harmless(path), harmless(message));
    match place {
        Place::At { file, position } => {
            let place = paint(&format!("{}:{}:{}", harmless(file), position.line, position.column), "1", colour);
            format!("{place}: {word}: {path}: {message}\n{}", snippet(position, code, colour))
        }
        Place::File { file } => format!("{}: {word}: {message}\n", paint(&harmless(file), "1", colour)),
        Place::CommandLine => format!("{word}: {path}: {message}\n"),
    }
}

fn snippet(position: &Position, code: &str, colour: Colour) -> String {
    let chars: Vec<char> = harmless(&position.source_line).chars().collect();
    let at = (position.column - 1).min(chars.len());
    let from = if chars.len() <= SHOWN_CHARS { 0 } else { at.saturating_sub(SHOWN_CHARS / 2) };
    let to = chars.len().min(from + SHOWN_CHARS);
    let (left, right) = (if from > 0 { "…" } else { "" }, if to < chars.len() { "…" } else { "" });
    let line: String = chars[from..to].iter().collect();
    let indent = left.chars().count() + columns(&chars[from..at]);
    let mark = "^".repeat(columns(&chars[at..to.min(at + position.width)]).max(1));
    let number = position.line.to_string();
    let gutter = " ".repeat(number.len());
    let mark = paint(&mark, code, colour);
    format!("  {number} | {left}{line}{right}\n  {gutter} | {}{mark}\n", " ".repeat(indent))
}

/// How wide a terminal shows them.
fn columns(chars: &[char]) -> usize {
    chars.iter().map(|c| c.width().unwrap_or(0)).sum()
}

/// Tabs as blanks, and no other control character: a file must not steer the terminal.
fn harmless(text: &str) -> String {
    let one = |c: char| match c {
        '\t' => ' ',
        c if c.is_control() => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    text.chars().map(one).collect()
}

fn paint(text: &str, code: &str, colour: Colour) -> String {
    match colour {
        Colour::Plain => text.to_owned(),
        Colour::Ansi => format!("\x1b[{code}m{text}\x1b[0m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(source_line: &str, column: usize, width: usize) -> Fault {
        let position = Position { line: 7, column, source_line: source_line.to_owned(), width };
        let place = Place::At { file: "a.json".to_owned(), position };
        Fault { place, path: "proxy.listen".to_owned(), message: "no".to_owned() }
    }

    #[test]
    fn the_mark_stands_under_what_is_meant() {
        let text = fault("\t\"消息\": 12", 8, 2).render(Colour::Plain);
        assert_eq!(text, "a.json:7:8: error: proxy.listen: no\n  7 |  \"消息\": 12\n    |          ^^\n");
    }

    #[test]
    fn a_long_line_is_cut_around_what_is_meant() {
        let line = format!("{}X{}", "a".repeat(5000), "b".repeat(5000));
        let text = fault(&line, 5001, 1).render(Colour::Plain);
        assert!(text.lines().all(|line| line.chars().count() < 120), "{text}");
        let (shown, mark) = (text.lines().nth(1).unwrap(), text.lines().nth(2).unwrap());
        let column = |line: &str, c| line.chars().position(|x| x == c).unwrap();
        assert_eq!(column(shown, 'X'), column(mark, '^'));
    }

    #[test]
    fn a_file_cannot_steer_the_terminal() {
        let text = fault("\x1b[2J", 1, 1).render(Colour::Plain);
        assert!(!text.contains('\x1b'));
        assert!(fault("x", 1, 1).render(Colour::Ansi).contains("\x1b[1;31m"));
    }
}
