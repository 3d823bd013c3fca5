//! Whether this process should be sent work.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Says what is missing; must not wait.
pub type Source = Box<dyn Fn() -> Vec<String> + Send + Sync>;

/// Asks everybody who may not be ready. Clones ask the same sources.
#[derive(Clone)]
pub struct Readiness {
    draining: CancellationToken,
    sources: Arc<[Source]>,
}

impl Readiness {
    /// `draining` is cancelled in the first moment of draining. A source says what is missing, in
    /// words for the person on call; it must not wait.
    pub fn new(draining: CancellationToken, sources: Vec<Source>) -> Self {
        Self { draining, sources: sources.into() }
    }

    /// Empty when all is well.
    pub fn missing(&self) -> Vec<String> {
        let draining = self.draining.is_cancelled().then(|| "draining".to_owned());
        draining.into_iter().chain(self.sources.iter().flat_map(|source| source())).collect()
    }
}
