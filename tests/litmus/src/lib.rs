// SPDX-License-Identifier: MIT
//! The protocol of a slab (src/slab/slab.h) on a machine whose memory is as weak as C11 allows: what the
//! simulator, which is sequentially consistent, cannot show.
//!
//! Each function has the atomic operations of its counterpart in src/slab/, with their orders, and nothing else
//! of it. Objects, and the slab's pages as their next owner sees them, are cells which loom watches: two accesses
//! that nothing orders fail the test. `Wrong` plants one error each.
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicU64, Ordering::*};
use loom::sync::Mutex;

pub const LISTED: u64 = 1 << 56;
pub const HELD: u64 = 1 << 57;
/// The descriptor is another slab's.
pub const DEAD: u64 = 1 << 63;
pub const OBJECTS: u64 = 2;
pub const ALL: u64 = (1 << OBJECTS) - 1;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    Nothing,
    /// Subtract by itself, and decide by what was there before.
    PlainSubtraction,
    /// Make a listed slab empty without the lock, and look at it afterwards.
    EmptyWithoutLock,
    /// Take a slab whose bits are all set for empty.
    BitsDecide,
    /// Let a full slab go without looking whether it is still full.
    ForgetWhatWasSeen,
    /// Set bits without releasing what was written to the objects.
    RelaxedBits,
    /// Clear bits without acquiring it.
    RelaxedTake,
    /// Subtract without releasing: the thread that discards the slab does not see the end of the give.
    RelaxedState,
}

pub struct Slab {
    pub bits: AtomicU64,
    pub state: AtomicU64,
    pub objects: [UnsafeCell<u64>; OBJECTS as usize],
    /// What the page layer's next owner writes.
    pub pages: UnsafeCell<u64>,
    /// Slabs on the node's list; how often this one was returned.
    pub node: Mutex<Node>,
    pub wrong: Wrong,
}

#[derive(Default)]
pub struct Node {
    pub listed: u32,
    pub discarded: u32,
}

fn count(state: u64) -> u64 {
    state & 0xff_ffff
}

fn is_full(state: u64) -> bool {
    count(state) >= OBJECTS
}

impl Slab {
    pub fn new(bits: u64, state: u64, wrong: Wrong) -> Slab {
        Slab {
            bits: AtomicU64::new(bits),
            state: AtomicU64::new(state),
            objects: [UnsafeCell::new(0), UnsafeCell::new(0)],
            pages: UnsafeCell::new(0),
            node: Mutex::new(Node { listed: (state & LISTED != 0) as u32, discarded: 0 }),
            wrong,
        }
    }

    /// The owner of an object writes to it.
    pub fn write(&self, object: usize) {
        self.objects[object].with_mut(|p| unsafe { *p += 1 });
    }

    fn is_empty(&self, state: u64) -> bool {
        match self.wrong {
            Wrong::BitsDecide => self.bits.load(Acquire) == ALL,
            _ => count(state) == 0,
        }
    }

    /// slab_discard(): the pages, and all objects in them, are another owner's.
    fn discard(&self, node: &mut Node) {
        node.discarded += 1;
        assert_eq!(node.discarded, 1, "returned twice");
        self.state.store(DEAD, Relaxed);
        self.pages.with_mut(|p| unsafe { *p += 1 });
        for object in 0..OBJECTS as usize {
            self.write(object);
        }
    }

    /// partial_release(), where the node keeps no empty slab.
    fn list_or_discard(&self) {
        let mut node = self.node.lock().unwrap();
        if self.is_empty(self.state.load(Acquire)) {
            self.discard(&mut node);
            return;
        }
        node.listed += 1;
        assert_eq!(node.listed, 1, "listed twice");
        let state = self.state.fetch_add(LISTED.wrapping_sub(HELD), AcqRel);
        assert!(state & HELD != 0 && state & LISTED == 0, "listed by another than its holder");
        /* Who made it empty before it was listed found it held, and left this to us. */
        if self.is_empty(state) {
            node.listed -= 1;
            self.state.fetch_add(HELD.wrapping_sub(LISTED), AcqRel);
            self.discard(&mut node);
        }
    }

    /// subtract() of src/slab/give.c: None if a listed slab would become empty, else whether it is ours now.
    fn subtract(&self, n: u64, may_empty: bool) -> Option<bool> {
        let order = if self.wrong == Wrong::RelaxedState { Relaxed } else { AcqRel };
        let mut state = self.state.load(if order == Relaxed { Relaxed } else { Acquire });
        loop {
            assert_eq!(state & DEAD, 0, "subtracted from another slab");
            let mut changed = state - n;
            if !may_empty && state & LISTED != 0 && count(changed) == 0 {
                return None;
            }
            let holder = state & (LISTED | HELD) == 0 && !is_full(changed);
            if holder {
                changed |= HELD;
            }
            match self.state.compare_exchange(state, changed, order, Relaxed) {
                Ok(_) => return Some(holder),
                Err(found) => state = found,
            }
        }
    }

    /// subtract_last()
    fn subtract_last(&self, n: u64) -> bool {
        let mut node = self.node.lock().unwrap();
        let holder = self.subtract(n, true).unwrap();
        let state = self.state.load(Acquire);
        if state & LISTED != 0 && self.is_empty(state) {
            node.listed -= 1;
            self.state.fetch_add(HELD.wrapping_sub(LISTED), AcqRel);
            self.discard(&mut node);
        }
        holder
    }

    fn set_bits(&self, mask: u64) {
        let order = if self.wrong == Wrong::RelaxedBits { Relaxed } else { AcqRel };
        let before = self.bits.fetch_or(mask, order);
        assert_eq!(before & mask, 0, "a bit was set already");
    }

    /// slab_give() of one object.
    pub fn give(&self, object: usize) {
        /* The owner of the slab is read first, as page_slab() does. */
        self.pages.with(|p| unsafe { assert_eq!(*p, 0, "another cache's slab") });
        self.set_bits(1 << object);
        if self.wrong == Wrong::PlainSubtraction {
            let state = self.state.fetch_sub(1, AcqRel);
            if state & (LISTED | HELD) == 0 {
                self.state.fetch_or(HELD, AcqRel);
                self.list_or_discard();
            }
            return;
        }
        if self.wrong == Wrong::EmptyWithoutLock {
            if self.subtract(1, true).unwrap() {
                self.list_or_discard();
            }
            let mut node = self.node.lock().unwrap();
            let state = self.state.load(Acquire);
            assert_eq!(state & DEAD, 0, "looked at another slab");
            if state & LISTED != 0 && count(state) == 0 {
                node.listed -= 1;
                self.discard(&mut node);
            }
            return;
        }
        let holder = match self.subtract(1, false) {
            Some(holder) => holder,
            None => self.subtract_last(1),
        };
        if holder {
            self.list_or_discard();
        }
    }

    /// slab_give_nolock(): true if the slab must be listed later.
    pub fn give_nolock(&self, object: usize) -> bool {
        self.set_bits(1 << object);
        self.subtract(1, true).unwrap()
    }

    /// Clear up to max bits of a slab that is ours; the objects.
    fn take_bits(&self, max: u32) -> Vec<usize> {
        let order = if self.wrong == Wrong::RelaxedTake { Relaxed } else { AcqRel };
        let found = self.bits.load(Relaxed);
        let mut rest = found;
        let mut taken = Vec::new();
        while rest != 0 && (taken.len() as u32) < max {
            taken.push(rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
        if !taken.is_empty() {
            self.bits.fetch_and(!(found ^ rest), order);
        }
        taken
    }

    /// taken() of src/slab/take.c: let the slab go.
    fn let_go(&self, n: u64) {
        if self.wrong == Wrong::ForgetWhatWasSeen {
            if is_full(self.state.fetch_add(n, AcqRel) + n) {
                self.state.fetch_and(!HELD, AcqRel);
            } else {
                self.list_or_discard();
            }
            return;
        }
        let mut state = self.state.load(Relaxed);
        loop {
            let mut changed = state + n;
            let full = is_full(changed);
            if full {
                changed &= !HELD;
            }
            match self.state.compare_exchange(state, changed, AcqRel, Acquire) {
                Ok(_) if full => return,
                Ok(_) => break,
                Err(found) => state = found,
            }
        }
        self.list_or_discard();
    }

    /// slab_take() of the listed slab, if it is listed: what was taken.
    pub fn take(&self, max: u32) -> Vec<usize> {
        {
            let mut node = self.node.lock().unwrap();
            if node.listed == 0 {
                return Vec::new();
            }
            node.listed -= 1;
            self.state.fetch_add(HELD.wrapping_sub(LISTED), AcqRel);
        }
        let taken = self.take_bits(max);
        self.let_go(taken.len() as u64);
        taken
    }

    /// When all is quiet: bits, count and flags agree.
    pub fn check(&self) {
        let node = self.node.lock().unwrap();
        let (state, bits) = (self.state.load(Relaxed), self.bits.load(Relaxed));
        if node.discarded > 0 {
            assert_eq!(bits, ALL, "returned with an object in use");
            return;
        }
        assert_eq!(bits.count_ones() as u64 + count(state), OBJECTS, "bits and count differ");
        assert_eq!(state & HELD, 0, "held by no thread");
        assert_eq!(state & LISTED != 0, node.listed == 1, "the flag and the list differ");
        assert_eq!(state & LISTED != 0, bits != 0, "free objects that no thread finds");
    }
}
