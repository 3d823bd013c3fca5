use super::*;

/// A log of three commits, and where the last one begins and ends in the journal.
struct Torn {
    folder: TempDir,
    last: std::ops::Range<usize>,
}

async fn torn() -> Torn {
    let folder = tempfile::tempdir().unwrap();
    let queue = open(folder.path(), Options { auto_create: Some(1), ..options() });
    append(&queue, "t", "one").await;
    append(&queue, "t", "two").await;
    let before = journal(copy(folder.path()).path()).1.len();
    append(&queue, "t", "three").await;
    let killed = copy(folder.path());
    let after = journal(killed.path()).1.len();
    Torn { folder: killed, last: before..after }
}

fn journal(folder: &Path) -> (std::path::PathBuf, Vec<u8>) {
    let path = folder.join("0.jnl");
    let bytes = std::fs::read(&path).unwrap();
    (path, bytes)
}

/// The two whole commits are there, the third as a whole or not at all, and the log goes on.
async fn check(folder: &Path, what: &str) {
    let queue = open(folder, options());
    let expected: &[&str] = &["one", "two", "three"];
    let read = values(&queue, "t", 0).await;
    assert!(read == expected[..2] || read == *expected, "{what}: {read:?}");
    assert_eq!(append(&queue, "t", "on").await, read.len() as u64, "{what}");
    assert_eq!(values(&queue, "t", read.len() as u64).await, ["on"], "{what}");
}

async fn check_every_cut(tail: impl Fn(&[u8]) -> Vec<u8>) {
    let Torn { folder, last } = torn().await;
    assert!(last.len() > 50);
    for cut in last.clone() {
        let broken = copy(folder.path());
        let (path, bytes) = journal(broken.path());
        let tail = tail(&bytes[cut..]);
        std::fs::write(path, [&bytes[..cut], &tail].concat()).unwrap();
        check(broken.path(), &format!("cut at {} of {}", cut - last.start, last.len())).await;
    }
}

#[tokio::test]
async fn a_last_write_that_ends_anywhere_costs_only_itself() {
    check_every_cut(|_| Vec::new()).await;
}

#[tokio::test]
async fn a_last_write_followed_by_zeros_costs_only_itself() {
    check_every_cut(|lost| vec![0; lost.len() + 100]).await;
}

#[tokio::test]
async fn a_last_write_that_ends_in_garbage_costs_only_itself() {
    for garbage in [1, 2, 3, 4, 0xff] {
        let Torn { folder, last } = torn().await;
        for cut in last.clone().step_by(7) {
            let broken = copy(folder.path());
            let (path, bytes) = journal(broken.path());
            std::fs::write(path, [&bytes[..cut], &vec![garbage; bytes.len() - cut + 77]].concat()).unwrap();
            check(broken.path(), &format!("{garbage} from {}", cut - last.start)).await;
        }
    }
}

/// As after a power cut, when a page in the middle had not been written yet.
#[tokio::test]
async fn a_hole_in_the_last_write_costs_only_itself_and_is_put_aside() {
    let Torn { folder, last } = torn().await;
    for hole in last.clone().step_by(4) {
        let broken = copy(folder.path());
        let (path, whole) = journal(broken.path());
        let mut bytes = whole.clone();
        let end = (hole + 9).min(last.end);
        bytes[hole..end].fill(0);
        std::fs::write(path, &bytes).unwrap();
        check(broken.path(), &format!("hole at {} of {}", hole - last.start, last.len())).await;
        // The head of a batch is not covered by its checksum, and a hole in its end marker leaves no end.
        let seen = bytes != whole && hole >= last.start + 13 && end < last.end - 4;
        if seen {
            let kept = broken.path().join(format!("0.jnl.torn-at-{}", last.start));
            assert_eq!(std::fs::read(&kept).unwrap(), bytes[last.clone()], "{}", kept.display());
        }
    }
}
