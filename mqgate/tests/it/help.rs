//! `UPDATE=1`-style renewal of the texts: `TRYCMD=overwrite cargo test -p mqgate --test it help`.

#[test]
fn help_texts_and_refusals_read_as_written_down() {
    trycmd::TestCases::new().env("COLUMNS", "100").case("tests/cmd/*.trycmd");
}
