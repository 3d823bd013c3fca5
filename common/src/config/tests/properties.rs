//! No input makes the reader panic, and every fault lies inside the file.

use proptest::prelude::*;

use super::*;

const SEEDS: [&[u8]; 4] = [
    include_bytes!("../../../../configs/standalone.json"),
    include_bytes!("../../../../configs/standalone-two-groups.json"),
    include_bytes!("../../../../configs/kafka.json"),
    b"\xEF\xBB\xBF{\"consumer_groups\":[{\"url\":\"http://\xE6\xB6\x88\",\"topics\":[\"a\",\"a\"],/*\xFF*/\"timeout\":\"1\"}],\r\"x\":1}",
];

/// Whatever the verdict: every place exists in the file, and everything can be shown.
fn check(bytes: &[u8]) {
    let (places, shown): (Vec<Place>, String) = match parse(JUDGED, "t.json", bytes, &Overrides::default()) {
        Ok(loaded) => (loaded.warnings.iter().map(|w| w.place.clone()).collect(), verdict("t.json", &loaded, Colour::Ansi)),
        Err(faults) => {
            assert!(!faults.0.is_empty());
            (faults.0.iter().map(|f| f.place.clone()).collect(), faults.to_string())
        }
    };
    assert!(!shown.is_empty());
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)).replace("\r\n", "\n").replace('\r', "\n");
    let lines: Vec<&str> = text.split('\n').collect();
    for place in places {
        let Place::At { position, .. } = place else { continue };
        let line = lines.get(position.line - 1).unwrap_or_else(|| panic!("{position:?} is no line of {text:?}"));
        assert_eq!(*line, position.source_line);
        assert!((1..=line.chars().count() + 1).contains(&position.column), "{position:?} of {text:?}");
    }
}

const TOKENS: [&str; 18] =
    ["{", "}", "[", "]", ",", ":", "\"", "//", "/*", "*/", "null", "-1", "1e9", "\\u0000", "\r", "\u{feff}", "é", "\"5s\""];

/// A place in the seed, and what is put there instead of how many bytes.
fn mutation() -> impl Strategy<Value = (usize, usize, Vec<u8>)> {
    let piece = prop_oneof![
        prop::sample::select(&TOKENS[..]).prop_map(|token| token.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    (any::<prop::sample::Index>().prop_map(|at| at.index(1 << 16)), 0_usize..12, piece)
}

fn mutate(seed: &[u8], mutations: Vec<(usize, usize, Vec<u8>)>) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (at, removed, piece) in mutations {
        let at = at % (bytes.len() + 1);
        let end = bytes.len().min(at + removed);
        bytes.splice(at..end, piece);
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn garbage_is_refused_inside_the_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn jsonish_garbage_is_refused_inside_the_file(text in r#"([{}\[\],:"/* \r\n]|true|null|"url"|"topics"|"proxy"|-?[0-9.]{1,4}|//|\PC){0,60}"#) {
        check(text.as_bytes());
    }

    #[test]
    fn a_mutated_configuration_is_judged_inside_the_file(
        seed in prop::sample::select(&SEEDS[..]),
        mutations in prop::collection::vec(mutation(), 1..6),
    ) {
        check(&mutate(seed, mutations));
    }
}

#[test]
fn every_prefix_of_a_configuration_is_judged_inside_the_file() {
    for seed in SEEDS {
        for end in 0..seed.len() {
            check(&seed[..end]);
        }
    }
}
