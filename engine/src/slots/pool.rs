//! Slots, shared max-min fairly: a free one goes to the member that wants one and holds fewest,
//! among equals to the one that has wanted it longest.
//!
//! A queue of requests alone would not be fair: slots that become free together would go to the
//! member that happens to run.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use slab::Slab;

pub(super) struct Pool(Mutex<State>);

struct State {
    slots: usize,
    free: usize,
    members: Slab<Member>,
    /// Members that hold a slot or want one.
    active: usize,
    /// Held, turn and number of each member that wants a slot.
    wanting: BTreeSet<(usize, u64, usize)>,
    turns: u64,
}

#[derive(Default)]
struct Member {
    held: usize,
    /// Set while it wants a slot.
    turn: Option<u64>,
    waker: Option<Waker>,
}

impl Member {
    fn is_active(&self) -> bool {
        self.held > 0 || self.turn.is_some()
    }
}

impl Pool {
    pub(super) fn new(slots: usize) -> Arc<Self> {
        let slots = slots.max(1);
        let state = State { slots, free: slots, members: Slab::new(), active: 0, wanting: BTreeSet::new(), turns: 0 };
        Arc::new(Self(Mutex::new(state)))
    }

    pub(super) fn join(self: &Arc<Self>) -> Seat {
        let number = self.lock().members.insert(Member::default());
        Seat { place: Arc::new(Place { pool: Arc::clone(self), number }), wants: false }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// `true`: the member has one more. Else it is woken when it may ask again.
    fn ask(&mut self, number: usize, waker: &Waker) -> bool {
        if self.may_have(number) {
            self.change(number, |member| {
                member.held += 1;
                member.turn = None;
                member.waker = None;
            });
            self.free -= 1;
            return true;
        }
        self.turns += 1;
        let turn = self.turns;
        self.change(number, |member| {
            member.turn.get_or_insert(turn);
            match &mut member.waker {
                Some(known) => known.clone_from(waker),
                None => member.waker = Some(waker.clone()),
            }
        });
        false
    }

    /// Who comes first in line may. So may everyone within its share while each of those who wait
    /// can have one too: else many free slots would be dealt one by one, with a wakeup for each.
    fn may_have(&self, number: usize) -> bool {
        let Member { held, turn, .. } = self.members[number];
        let others = self.wanting.len() - usize::from(turn.is_some());
        let within_share = held < self.slots / self.active.max(1);
        let me = (held, turn.unwrap_or(u64::MAX), number);
        self.free > 0 && (within_share && self.free > others || self.wanting.first().is_none_or(|first| *first >= me))
    }

    fn leave(&mut self, number: usize) {
        self.change(number, |member| {
            member.turn = None;
            member.waker = None;
        });
    }

    fn give_back(&mut self, number: usize) {
        self.change(number, |member| member.held -= 1);
        self.free += 1;
    }

    /// Changes a member, and what is kept in order by it.
    fn change(&mut self, number: usize, change: impl FnOnce(&mut Member)) {
        let member = &mut self.members[number];
        if let Some(turn) = member.turn {
            self.wanting.remove(&(member.held, turn, number));
        }
        self.active -= usize::from(member.is_active());
        change(member);
        self.active += usize::from(member.is_active());
        if let Some(turn) = member.turn {
            self.wanting.insert((member.held, turn, number));
        }
    }

    /// Whom to wake after a change: who is first in line, unless that was done since it last asked.
    fn next(&mut self) -> Option<Waker> {
        let (.., first) = self.wanting.first().filter(|_| self.free > 0)?;
        self.members[*first].waker.take()
    }
}

/// One member's place, shared with the slots that it holds.
struct Place {
    pool: Arc<Pool>,
    number: usize,
}

impl Place {
    fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.pool.lock();
        let result = change(&mut state);
        let next = state.next();
        drop(state);
        if let Some(next) = next {
            next.wake();
        }
        result
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.change(|state| {
            state.leave(self.number);
            state.members.remove(self.number);
        });
    }
}

/// A member of a pool.
pub(super) struct Seat {
    place: Arc<Place>,
    wants: bool,
}

impl Seat {
    /// A slot, or `None`: then the task is woken when it is its turn.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Option<Slot> {
        let granted = self.place.change(|state| state.ask(self.place.number, cx.waker()));
        self.wants = !granted;
        granted.then(|| Slot(Arc::clone(&self.place)))
    }

    /// Wants none any more.
    pub(super) fn leave(&mut self) {
        if std::mem::take(&mut self.wants) {
            self.place.change(|state| state.leave(self.place.number));
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A slot, free again once it is dropped.
pub(super) struct Slot(Arc<Place>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.change(|state| state.give_back(self.0.number));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Tester {
        seat: Seat,
        woken: Arc<Woken>,
        slots: Vec<Slot>,
        waiting: bool,
    }

    impl Tester {
        fn new(pool: &Arc<Pool>) -> Self {
            Self { seat: pool.join(), woken: Arc::default(), slots: Vec::new(), waiting: false }
        }

        fn ask(&mut self) -> bool {
            let waker = Waker::from(Arc::clone(&self.woken));
            self.woken.0.store(0, Ordering::Relaxed);
            let slot = self.seat.poll(&mut Context::from_waker(&waker));
            self.waiting = slot.is_none();
            self.slots.extend(slot);
            !self.waiting
        }

        fn is_woken(&self) -> bool {
            self.woken.0.load(Ordering::Relaxed) > 0
        }
    }

    #[test]
    fn who_holds_fewest_comes_first() {
        let pool = Pool::new(4);
        let (mut greedy, mut modest) = (Tester::new(&pool), Tester::new(&pool));
        assert!((0..4).all(|_| greedy.ask()));
        assert!(!modest.ask() && !greedy.ask());
        greedy.slots.truncate(2);
        assert!(modest.is_woken());
        assert!(!greedy.ask(), "it holds two, the other none");
        assert!(modest.ask() && modest.ask());
        assert!(!modest.ask());
    }

    #[test]
    fn who_comes_again_comes_last() {
        let pool = Pool::new(1);
        let mut members = [0, 1, 2].map(|_| Tester::new(&pool));
        let mut served = Vec::new();
        for _ in 0..9 {
            // All ask in this order whenever a slot is free: the first must not have all of them.
            served.extend((0..3).filter(|member| members[*member].ask()));
            members.iter_mut().for_each(|member| member.slots.clear());
        }
        assert_eq!(served, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn who_is_within_its_share_need_not_wait_while_there_is_enough_for_all() {
        let pool = Pool::new(10);
        let (mut first, mut second) = (Tester::new(&pool), Tester::new(&pool));
        assert!((0..10).all(|_| first.ask()));
        assert!(!second.ask());
        first.slots.clear();
        assert!((0..5).all(|_| first.ask()), "five are its share, and the other can have one");
        assert!(!first.ask() && second.is_woken());
        assert!((0..5).all(|_| second.ask()));
    }

    #[test]
    fn who_leaves_passes_its_turn_on() {
        let pool = Pool::new(1);
        let (mut holder, mut first, mut second) = (Tester::new(&pool), Tester::new(&pool), Tester::new(&pool));
        assert!(holder.ask() && !first.ask() && !second.ask());
        holder.slots.clear();
        assert!(first.is_woken() && !second.is_woken());
        first.seat.leave();
        assert!(second.is_woken() && second.slots.is_empty());
        let mut third = Tester::new(&pool);
        assert!(!third.ask(), "not before the second, which has waited longer");
        drop(second);
        assert!(third.is_woken() && third.ask());
    }

    proptest! {
        /// No slot is free while somebody waits for one who has not been woken for it.
        #[test]
        fn no_wakeup_is_lost(steps in prop::collection::vec((0_usize..4, 0_u8..4), 1..200)) {
            let pool = Pool::new(3);
            let mut members: Vec<_> = (0..4).map(|_| Tester::new(&pool)).collect();
            for (member, step) in steps {
                let member = &mut members[member];
                match step {
                    0 | 1 => drop(member.ask()),
                    2 => drop(member.slots.pop()),
                    _ => {
                        member.seat.leave();
                        member.waiting = false;
                    }
                }
                let held: usize = members.iter().map(|member| member.slots.len()).sum();
                prop_assert!(held <= 3);
                let waiting: Vec<_> = members.iter().filter(|member| member.waiting).collect();
                prop_assert!(held == 3 || waiting.is_empty() || waiting.iter().any(|member| member.is_woken()));
            }
        }
    }
}
