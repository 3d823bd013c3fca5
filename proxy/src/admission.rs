//! How much work is let in: by the number of requests and by their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use prometheus_client::metrics::gauge::Gauge;

/// The two bounds of the process.
pub(crate) struct Admission {
    requests: Budget,
    bytes: Budget,
    in_flight: Gauge,
}

/// Which bound was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Requests,
    Bytes,
}

/// A request that was let in. It travels with the work, and frees what it holds on drop.
pub(crate) struct Permit {
    admission: Arc<Admission>,
    bytes: BytesPermit,
}

/// A part of the bytes.
pub(crate) struct BytesPermit {
    admission: Arc<Admission>,
    held: usize,
}

impl Admission {
    pub(crate) fn new(max_requests: usize, max_bytes: usize, in_flight: Gauge) -> Self {
        Self { requests: Budget::new(max_requests), bytes: Budget::new(max_bytes), in_flight }
    }

    pub(crate) fn admit(self: &Arc<Self>) -> Result<Permit, Full> {
        if !self.requests.take(1) {
            return Err(Full::Requests);
        }
        self.in_flight.inc();
        Ok(Permit { admission: Arc::clone(self), bytes: self.no_bytes() })
    }

    pub(crate) fn no_bytes(self: &Arc<Self>) -> BytesPermit {
        BytesPermit { admission: Arc::clone(self), held: 0 }
    }

    /// Whether so much would fit now. Nothing is reserved: clients that announce much and send
    /// little would lock out the others.
    pub(crate) fn has_room_for(&self, bytes: usize) -> Result<(), Full> {
        if self.bytes.free() >= bytes { Ok(()) } else { Err(Full::Bytes) }
    }
}

impl Permit {
    pub(crate) fn bytes(&mut self) -> &mut BytesPermit {
        &mut self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.requests.give_back(1);
        self.admission.in_flight.dec();
    }
}

impl BytesPermit {
    /// Holds so much in all; less always works.
    pub(crate) fn resize(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes > self.held {
            if !self.admission.bytes.take(bytes - self.held) {
                return Err(Full::Bytes);
            }
        } else {
            self.admission.bytes.give_back(self.held - bytes);
        }
        self.held = bytes;
        Ok(())
    }

    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        self.resize(self.held + bytes)
    }
}

impl Drop for BytesPermit {
    fn drop(&mut self) {
        self.admission.bytes.give_back(self.held);
    }
}

/// Counts down from its bound. No order with other memory is implied: what is counted is owned by
/// whoever holds the permit.
struct Budget(AtomicUsize);

impl Budget {
    fn new(bound: usize) -> Self {
        Self(AtomicUsize::new(bound))
    }

    fn free(&self) -> usize {
        self.0.load(Relaxed)
    }

    fn take(&self, amount: usize) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |free| free.checked_sub(amount)).is_ok()
    }

    fn give_back(&self, amount: usize) {
        self.0.fetch_add(amount, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(requests: usize, bytes: usize) -> (Arc<Admission>, Gauge) {
        let gauge = Gauge::default();
        (Arc::new(Admission::new(requests, bytes, gauge.clone())), gauge)
    }

    #[test]
    fn a_dropped_permit_frees_its_place_and_its_bytes() {
        let (admission, in_flight) = admission(1, 100);
        let mut permit = admission.admit().ok().unwrap();
        assert!(permit.bytes().grow(60).is_ok());
        assert!(matches!(admission.admit(), Err(Full::Requests)));
        assert_eq!(admission.has_room_for(41), Err(Full::Bytes));
        assert_eq!(in_flight.get(), 1);
        drop(permit);
        assert_eq!(in_flight.get(), 0);
        assert_eq!(admission.has_room_for(100), Ok(()));
        assert!(admission.admit().is_ok());
    }

    #[test]
    fn growing_over_the_bound_takes_nothing() {
        let (admission, _) = admission(2, 100);
        let mut bytes = admission.no_bytes();
        assert!(bytes.grow(90).is_ok());
        assert_eq!(bytes.grow(20), Err(Full::Bytes));
        assert!(bytes.grow(10).is_ok());
        assert!(bytes.resize(1).is_ok());
        assert_eq!(admission.has_room_for(99), Ok(()));
    }

    #[test]
    fn many_threads_never_hold_more_than_the_bound() {
        let (admission, in_flight) = admission(3, 10);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if let Ok(mut permit) = admission.admit() {
                            let _ = permit.bytes().grow(4);
                            assert!(in_flight.get() <= 3);
                        }
                    }
                });
            }
        });
        assert_eq!((admission.has_room_for(10), in_flight.get()), (Ok(()), 0));
    }
}
