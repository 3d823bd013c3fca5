//! The data folder: making it, refusing one of which a part is missing, and noticing when it is
//! taken away while in use.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::OpenError;
use super::journal::{self, JournalError};

/// `fjall`'s own names.
const LOCK: &str = "lock";
const VERSION: &str = "version";
const KEYSPACES: &str = "keyspaces";
const TABLE_OF_KEYSPACES: &str = "keyspaces/0/current";

/// Makes the folder, and mends it while nobody uses it.
pub(super) fn prepare(folder: &Path) -> Result<(), OpenError> {
    let unusable = |reason: String| OpenError::Unusable { folder: folder.to_owned(), reason };
    let failed = |e: io::Error| unusable(e.to_string());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let lock = match OpenOptions::new().read(true).write(true).open(folder.join(LOCK)) {
        Ok(lock) => Some(lock),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(failed(e)),
    };
    match lock.as_ref().map(File::try_lock) {
        None | Some(Ok(())) => {}
        Some(Err(TryLockError::WouldBlock)) => return Err(OpenError::InUse(folder.to_owned())),
        Some(Err(TryLockError::Error(e))) => return Err(failed(e)),
    }
    if let Some(reason) = missing_part(folder).map_err(failed)? {
        return Err(unusable(reason));
    }
    journal::mend(folder).map_err(|error| match error {
        JournalError::Io(e) => failed(e),
        damaged @ JournalError::Damaged { .. } => unusable(damaged.to_string()),
    })
}

/// What is wrong with a folder that holds a store only in part: `fjall` would begin an empty one in its place.
fn missing_part(folder: &Path) -> io::Result<Option<String>> {
    let began = std::fs::metadata(folder.join(VERSION)).is_ok_and(|version| version.len() > 0);
    let blank = journal::are_blank(folder)?;
    let tables = std::fs::read_dir(folder.join(KEYSPACES)).is_ok_and(|mut entries| entries.next().is_some());
    if !began && blank && !tables {
        return forget_a_beginning(folder).map(|()| None);
    }
    let missing = if !began {
        VERSION
    } else if tables && journal::all(folder)?.is_empty() {
        return Ok(Some(no_journal(folder)));
    } else if !blank && !folder.join(TABLE_OF_KEYSPACES).try_exists()? {
        KEYSPACES
    } else {
        return Ok(None);
    };
    Ok(Some(format!(
        "{missing} is missing in it while the rest of a store is there; nothing was changed. Put it back or restore the whole folder from a \
         backup; to begin with an empty store, move the folder away"
    )))
}

fn no_journal(folder: &Path) -> String {
    format!(
        "its journal, with the messages and cursors written last, is missing; nothing was changed. Put the .jnl files back or restore the \
         whole folder from a backup; to start without what was in them: touch '{}'",
        folder.join("0.jnl").display()
    )
}

/// A process that ended while it made the store left files over which `fjall` would stumble.
fn forget_a_beginning(folder: &Path) -> io::Result<()> {
    for path in journal::all(folder)?.into_iter().chain([folder.join(VERSION)]) {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// Which folder was opened, whatever its path leads to later.
pub(super) struct Opened {
    lock: PathBuf,
    file: (u64, u64),
}

impl Opened {
    pub(super) fn new(folder: &Path) -> io::Result<Self> {
        let lock = folder.join(LOCK);
        Ok(Self { file: identity(&lock)?, lock })
    }

    /// Why what is written now will not be found after a restart; `None` while all is well. Costs
    /// one look at a path, about a microsecond.
    pub(super) fn lost(&self) -> Option<String> {
        match identity(&self.lock) {
            Ok(file) if file == self.file => None,
            Ok(_) => Some(format!("the folder was replaced while in use ({} is another file now)", self.lock.display())),
            Err(e) => Some(format!("the folder was removed or moved while in use ({}: {e})", self.lock.display())),
        }
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::metadata(path).map(|file| (file.dev(), file.ino()))
}
