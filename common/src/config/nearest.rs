//! The name that was probably meant.

/// `; did you mean …?`, or nothing when no name is near.
pub(super) fn did_you_mean<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> String {
    nearest(written, names).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// The nearest of `names`, if it is near: the same but for case and separators, or the one
/// inside the other, or within a third of its characters.
pub(super) fn nearest<'n>(written: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    // Longer texts are no misspelt names, and comparing takes the product of both lengths.
    if written.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    let wanted = plain(written);
    let distance = |name: &str| {
        let name = plain(name);
        let contained = wanted.len() >= 4 && (name.contains(&wanted) || wanted.contains(&name));
        let edits = strsim::damerau_levenshtein(&wanted, &name);
        let near = edits * 3 <= wanted.chars().count().max(name.chars().count());
        (near || contained).then_some(edits)
    };
    names.filter_map(|name| Some((distance(name)?, name))).min_by_key(|(edits, _)| *edits).map(|(_, name)| name)
}

/// `a, b or c`, each in quotes.
pub(super) fn list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, leading)) => format!("{} or {last}", leading.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_its_name_and_nonsense_finds_none() {
        let names = ["retry_times", "timeout", "topics", "connect_timeout", "url"];
        let near = |written| nearest(written, names.into_iter());
        assert_eq!(near("retryTimes"), Some("retry_times"));
        assert_eq!(near("retry-time"), Some("retry_times"));
        assert_eq!(near("tiemout"), Some("timeout"));
        assert_eq!(near("topic"), Some("topics"));
        assert_eq!(near("URL"), Some("url"));
        assert_eq!(near("retry"), Some("retry_times"));
        assert_eq!(near("colour"), None);
        assert_eq!(near(&"timeout".repeat(1000)), None);
    }

    #[test]
    fn lists_read_like_sentences() {
        assert_eq!(list(&["a", "b", "c"]), r#""a", "b" or "c""#);
        assert_eq!(list(&["a"]), r#""a""#);
    }
}
