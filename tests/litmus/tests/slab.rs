// SPDX-License-Identifier: MIT
//! Schedules of giving and taking, all of them: see src/lib.rs.
use litmus::{Slab, Wrong, ALL, HELD, LISTED};
use loom::sync::Arc;
use loom::thread::spawn;

/// Two owners of the last two objects of a full slab free them.
fn two_give(wrong: Wrong) {
    loom::model(move || {
        let slab = Arc::new(Slab::new(0, 2, wrong));
        let other = slab.clone();
        let thread = spawn(move || {
            other.write(1);
            other.give(1);
        });
        slab.write(0);
        slab.give(0);
        thread.join().unwrap();
        slab.check();
        assert_eq!(slab.node.lock().unwrap().discarded, 1, "not returned");
    });
}

/// One gives while another one takes what there is, writes to it and gives it back.
fn give_and_take(wrong: Wrong) {
    loom::model(move || {
        let slab = Arc::new(Slab::new(1, LISTED | 1, wrong));
        let other = slab.clone();
        let thread = spawn(move || {
            let taken = other.take(2);
            for &object in &taken {
                other.write(object);
            }
            for object in taken {
                other.give(object);
            }
        });
        slab.write(1);
        slab.give(1);
        thread.join().unwrap();
        slab.check();
    });
}

/// One takes the last free object of a slab while its only other object is freed.
fn fill_and_give(wrong: Wrong) {
    loom::model(move || {
        let slab = Arc::new(Slab::new(1, LISTED | 1, wrong));
        let other = slab.clone();
        let thread = spawn(move || {
            for object in other.take(1) {
                other.write(object);
            }
        });
        slab.write(1);
        slab.give(1);
        thread.join().unwrap();
        slab.check();
    });
}

/// An object is freed, taken by another thread and freed again before it was subtracted the first time.
fn give_again(wrong: Wrong) {
    loom::model(move || {
        let slab = Arc::new(Slab::new(0, 2, wrong));
        let (first, second) = (slab.clone(), slab.clone());
        let giver = spawn(move || {
            first.write(0);
            first.give(0);
        });
        let taker = spawn(move || {
            for object in second.take(1) {
                second.write(object);
                second.give(object);
            }
        });
        slab.write(1);
        slab.give(1);
        giver.join().unwrap();
        taker.join().unwrap();
        slab.check();
    });
}

/// A nolock free of a full slab: the thread that became the holder leaves it to a later call.
fn nolock(wrong: Wrong) {
    loom::model(move || {
        let slab = Arc::new(Slab::new(0, 2, wrong));
        let other = slab.clone();
        let thread = spawn(move || {
            other.write(1);
            other.give_nolock(1)
        });
        slab.write(0);
        let mine = slab.give_nolock(0);
        let theirs = thread.join().unwrap();
        assert!(mine != theirs, "one of two lists it");
        let state = slab.state.load(loom::sync::atomic::Ordering::Relaxed);
        assert_eq!(state, HELD, "empty and held");
        assert_eq!(slab.bits.load(loom::sync::atomic::Ordering::Relaxed), ALL);
    });
}

fn all(wrong: Wrong) {
    two_give(wrong);
    give_and_take(wrong);
    fill_and_give(wrong);
}

#[test]
fn two_givers_of_a_full_slab() {
    two_give(Wrong::Nothing);
}

#[test]
fn a_giver_and_a_taker() {
    give_and_take(Wrong::Nothing);
}

#[test]
fn a_giver_and_who_fills_the_slab() {
    fill_and_give(Wrong::Nothing);
}

#[test]
fn given_again_before_it_is_subtracted() {
    give_again(Wrong::Nothing);
}

#[test]
fn two_nolock_givers() {
    nolock(Wrong::Nothing);
}

#[test]
#[should_panic]
fn plain_subtraction_is_seen() {
    all(Wrong::PlainSubtraction);
}

#[test]
#[should_panic]
fn emptying_without_the_lock_is_seen() {
    all(Wrong::EmptyWithoutLock);
}

#[test]
#[should_panic]
fn bits_that_decide_are_seen() {
    all(Wrong::BitsDecide);
}

#[test]
#[should_panic]
fn a_slab_let_go_unseen_is_seen() {
    fill_and_give(Wrong::ForgetWhatWasSeen);
}

#[test]
#[should_panic]
fn bits_that_release_nothing_are_seen() {
    all(Wrong::RelaxedBits);
}

#[test]
#[should_panic]
fn a_take_that_acquires_nothing_is_seen() {
    all(Wrong::RelaxedTake);
}

#[test]
#[should_panic]
fn a_count_that_releases_nothing_is_seen() {
    all(Wrong::RelaxedState);
}
