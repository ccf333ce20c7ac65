// SPDX-License-Identifier: MIT
//! A section that changes a slot, beside a drain whose second membarrier the kernel refuses (src/percpu/drain.c): the
//! drain puts the sheaves back and clears stop, and interrupts no section. So a section that finds stop clear must
//! not use what it read of the slot before: stop is loaded first, and acquires (src/os/linux/section_*.h).
use loom::sync::atomic::{AtomicUsize, Ordering, Ordering::*};
use loom::sync::Arc;
use loom::thread::spawn;

/* Sheaves: the one that no slot is without, the slot's, and the one that the section puts in. */
const BOOTSTRAP: usize = 0;
const MAIN: usize = 1;
const PUT: usize = 2;

struct Slot {
    stop: AtomicUsize,
    main: AtomicUsize,
    pair: AtomicUsize,
}

impl Slot {
    /// exchange() of the drain, without a spare.
    fn exchange(&self, sheaf: usize) {
        let was = self.main.load(Relaxed);
        self.pair.store(was ^ sheaf, Release);
        self.main.store(sheaf, Release);
        self.pair.store(sheaf, Release);
    }

    /// section_replace_spare(): the commit is a plain store.
    fn replace_spare(&self, of_stop: Ordering) -> bool {
        if self.stop.load(of_stop) != 0 {
            return false;
        }
        let main = self.main.load(Relaxed);
        self.pair.store(main ^ PUT, Relaxed);
        true
    }
}

/// The first membarrier has ended all sections that began before it: the section begins when stop is set.
fn put_back(of_stop: Ordering) {
    loom::model(move || {
        let slot = Arc::new(Slot {
            stop: AtomicUsize::new(1),
            main: AtomicUsize::new(MAIN),
            pair: AtomicUsize::new(MAIN),
        });
        let section = slot.clone();
        let thread = spawn(move || section.replace_spare(of_stop));
        slot.exchange(BOOTSTRAP);
        slot.exchange(MAIN);
        slot.stop.store(0, Release);
        let spare = if thread.join().unwrap() { PUT } else { 0 };
        assert_eq!(slot.main.load(Relaxed), MAIN);
        assert_eq!(slot.pair.load(Relaxed) ^ MAIN, spare, "the pair belongs to no main");
    });
}

#[test]
fn stop_acquires() {
    put_back(Acquire);
}

#[test]
#[should_panic]
fn a_stop_that_does_not_is_seen() {
    put_back(Relaxed);
}
