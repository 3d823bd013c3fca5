//! No input makes the reader panic, and every fault lies inside the file.

use proptest::prelude::*;

use super::*;
use crate::config::leaf::url::shown;

const SEEDS: [&[u8]; 6] = [
    include_bytes!("../../../../configs/standalone.json"),
    include_bytes!("../../../../configs/standalone-two-groups.json"),
    include_bytes!("../../../../configs/kafka.json"),
    include_bytes!("../../../../configs/original.json"),
    include_bytes!("../../../../configs/original-every-field.json"),
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

const TOKENS: [&str; 22] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "//",
    "/*",
    "*/",
    "null",
    "true",
    "-1",
    "1e9",
    "\\u0000",
    "\r",
    "\u{feff}",
    "é",
    "\"5s\"",
    "\"64MiB\"",
    "\"env:X\"",
    "\"http://[::1]:9/\"",
];

/// As it is written back: with every name, and stars for the users of URLs.
fn as_written(mut config: Config) -> Config {
    for group in &mut config.groups {
        group.named = true;
        group.url = shown(&group.url.to_string()).parse().unwrap();
    }
    config
}

proptest! {
    #![proptest_config(fuzz::config())]

    #[test]
    fn garbage_is_refused_inside_the_file(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn a_mutated_configuration_is_judged_inside_the_file(
        bytes in fuzz::near(SEEDS.iter().map(|seed| seed.to_vec()).collect(), &TOKENS),
    ) {
        check(&bytes);
    }

    /// Secrets apart, which are written as stars.
    #[test]
    fn what_is_accepted_is_in_effect_as_it_is_written_back(
        text in fuzz::near_text(&[include_str!("../../../../configs/standalone-two-groups.json"), include_str!("../../../../configs/kafka.json")], &TOKENS),
    ) {
        if let Ok(Loaded { config, .. }) = read(&text) {
            let again = parse(config.role, "t.json", config.effective().as_bytes(), &Overrides::default());
            let again = again.unwrap_or_else(|faults| panic!("{}: {faults}", config.effective()));
            prop_assert_eq!(again.config.effective(), config.effective());
            prop_assert_eq!(as_written(again.config).groups, as_written(config).groups);
        }
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

/// Found by editing examples: nothing before the `@` is written back as stars, too.
#[test]
fn the_user_of_a_url_is_written_back_as_stars() {
    for user in ["", "u", "u:p"] {
        let text = format!(r#"{{"consumer_groups":[{{"group":"g","url":"http://{user}@127.0.0.1:9/","topics":["a"]}}]}}"#);
        let Loaded { config, .. } = read(&text).unwrap();
        let again = parse(config.role, "t.json", config.effective().as_bytes(), &Overrides::default()).unwrap().config;
        assert_eq!(again.groups[0].url, "http://***@127.0.0.1:9/");
        assert_eq!(as_written(again).groups, as_written(config).groups);
    }
}
