//! What goes to stdout: tables that line up, and JSON for scripts.

use std::io::{self, Write};

use anstream::ColorChoice;
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table, presets};
use common::config::Colour;
use common::ids::Topic;

/// Writes one line, as it is, to stdout. Colours vanish where stdout is no terminal.
pub(crate) fn line(text: impl std::fmt::Display) -> io::Result<()> {
    writeln!(anstream::stdout(), "{text}")
}

pub(crate) fn colour_of_stdout() -> Colour {
    colour(anstream::AutoStream::choice(&io::stdout()))
}

pub(crate) fn colour_of_stderr() -> Colour {
    colour(anstream::AutoStream::choice(&io::stderr()))
}

fn colour(choice: ColorChoice) -> Colour {
    if choice == ColorChoice::Never { Colour::Plain } else { Colour::Ansi }
}

/// A column's title, and on which side its cells stand.
#[derive(Clone, Copy)]
pub(crate) enum Column {
    Text(&'static str),
    Number(&'static str),
}

impl Column {
    fn title(&self) -> &'static str {
        match self {
            Self::Text(title) | Self::Number(title) => title,
        }
    }
}

pub(crate) fn table(columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>) -> io::Result<()> {
    line(rendered(columns, rows).trim_fmt())
}

fn rendered(columns: &[Column], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(columns.iter().map(|column| Cell::new(column.title()).add_attribute(Attribute::Bold)));
    table.add_rows(rows);
    for (index, column) in columns.iter().enumerate() {
        let column_style = table.column_mut(index).expect("the header made every column");
        column_style.set_padding((0, 2));
        column_style.set_constraint(ColumnConstraint::ContentWidth);
        if let Column::Number(_) = column {
            column_style.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Of a table that has a row for each partition of a group.
pub(crate) const PLACE: [Column; 5] =
    [Column::Text("TOPIC"), Column::Number("PARTITION"), Column::Number("CURSOR"), Column::Number("END"), Column::Number("LAG")];

/// The cells under [`PLACE`]; the numbers are cursor, end and lag.
pub(crate) fn place(topic: &Topic, partition: u32, numbers: [Option<u64>; 3]) -> Vec<String> {
    [vec![topic.to_string(), partition.to_string()], numbers.map(known).to_vec()].concat()
}

/// What is not known is not shown as zero.
pub(crate) fn known(number: Option<u64>) -> String {
    number.map_or_else(|| "?".to_owned(), grouped)
}

/// An owner's name.
pub(crate) fn owner(name: Option<&String>) -> String {
    name.cloned().unwrap_or_else(|| "nobody".to_owned())
}

/// 1234567 as `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 attempt`, `2 attempts`.
pub(crate) fn counted(number: u64, one: &str) -> String {
    format!("{} {one}{}", grouped(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let of = [0, 7, 999, 1000, 123_456, 1_234_567];
        assert_eq!(of.map(grouped).join(" "), "0 7 999 1,000 123,456 1,234,567");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2_000].map(|n| counted(n, "attempt")), ["0 attempts", "1 attempt", "2,000 attempts"]);
    }

    #[test]
    fn tables_line_up() {
        let columns = [Column::Text("TOPIC"), Column::Number("END")];
        let table = rendered(&columns, [vec!["a".into(), "7".into()], vec!["orders".into(), "1,234".into()]]);
        assert_eq!(table.trim_fmt(), "TOPIC     END\na           7\norders  1,234");
    }
}
