//! How many files, and so connections, this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// For the store, the logs and what else the process opens.
const RESERVED_FILES: u64 = 256;

/// Raises the soft limit on open files to the hard one, which is what servers are expected to do
/// (the soft one is low for the sake of `select`), and says how many connections fit beneath it.
pub fn raise_open_files_limit() -> usize {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let wanted = rustix::process::Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, wanted) {
            tracing::warn!(%error, current = limit.current, "the limit on open files stays; raise it with ulimit -n");
        }
        limit = getrlimit(Resource::Nofile);
    }
    limit.current.map_or(usize::MAX >> 4, connections_beneath)
}

/// At least half of a very small limit, so that there is a server at all.
fn connections_beneath(files: u64) -> usize {
    let connections = files.saturating_sub(RESERVED_FILES).max(files / 2).max(1);
    usize::try_from(connections).unwrap_or(usize::MAX >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_files_for_the_rest_of_the_process() {
        assert_eq!(connections_beneath(20_000), 19_744);
        assert_eq!(connections_beneath(1024), 768);
        assert_eq!(connections_beneath(300), 150);
        assert_eq!(connections_beneath(0), 1);
    }

    #[test]
    fn raising_ends_at_the_hard_limit() {
        assert!(raise_open_files_limit() > 0);
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
