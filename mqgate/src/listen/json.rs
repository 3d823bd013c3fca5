//! JSON for the eye. Every token stays as it was sent, numbers above all.

pub(super) fn is_valid(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok()
}

/// Valid JSON with one member a line.
pub(super) fn indented(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut chars = json.chars().peekable();
    let newline = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                text.push(c);
                string(&mut chars, &mut text);
            }
            '{' | '[' => {
                text.push(c);
                while chars.next_if(|c| c.is_whitespace()).is_some() {}
                match chars.next_if(|c| matches!(c, '}' | ']')) {
                    Some(close) => text.push(close),
                    None => {
                        depth += 1;
                        newline(&mut text, depth);
                    }
                }
            }
            '}' | ']' => {
                depth -= 1;
                newline(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                newline(&mut text, depth);
            }
            ':' => text.push_str(": "),
            c if c.is_whitespace() => {}
            c => text.push(c),
        }
    }
    text
}

/// The rest of a string, after its opening quote.
fn string(chars: &mut impl Iterator<Item = char>, text: &mut String) {
    while let Some(c) = chars.next() {
        text.push(c);
        match c {
            '"' => return,
            '\\' => text.extend(chars.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_one_a_line_and_tokens_stay_as_they_were() {
        let json = r#"{"n":12345678901234567890.10,"s":"a, {b}: \"c\\","e":[ ],"l":[1,{}]}"#;
        let expected = r#"{
  "n": 12345678901234567890.10,
  "s": "a, {b}: \"c\\",
  "e": [],
  "l": [
    1,
    {}
  ]
}"#;
        assert!(is_valid(json));
        assert_eq!(indented(json), expected);
    }

    #[test]
    fn indented_twice_is_indented_once() {
        let once = indented(r#"{"a":[1,2],"b":{"c":null}}"#);
        assert_eq!(indented(&once), once);
    }
}
