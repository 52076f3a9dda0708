//! Each race that the proof speaks of, made to happen in one thread.

use crate::ids::block::n;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::{Dispenser, Refilling, Refused, Skipped, SlotRange, Taken, Ticket};

type Hook = Box<dyn FnOnce()>;

thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Runs what a test set, once, between the two steps of this thread's next draw: what other threads may do there.
pub(super) fn between_mark_and_draw() {
    let hook = HOOK.with(|hook| hook.borrow_mut().take());
    if let Some(hook) = hook {
        hook();
    }
}

/// With a range from 0 up to below `end`.
fn dispenser(end: u64, low_left: u64) -> Dispenser {
    let dispenser = Dispenser::new(Arc::new(Notify::new()));
    dispenser.install(SlotRange { start: 0, end }, low_left);
    dispenser
}

fn take(dispenser: &Dispenser, count: u64) -> Option<u64> {
    dispenser.draw(n(count)).or_else(|ticket| dispenser.settle(n(count), ticket).ok_or(())).ok()
}

/// A draw that misses its mark, and stays out for a while.
fn late(dispenser: &Dispenser, count: u64) -> Ticket {
    dispenser.draw(n(count)).unwrap_err()
}

fn wait(dispenser: &Dispenser, count: u64) -> tokio::sync::oneshot::Receiver<Result<u64, Refused>> {
    let ticket = late(dispenser, count);
    let Taken::Wait(answer) = dispenser.settle_or_wait(n(count), ticket) else { panic!("must wait") };
    answer
}

#[test]
fn to_the_last_slot_and_no_further() {
    let d = dispenser(10, 5);
    assert_eq!(
        (0..11).map(|_| take(&d, 1)).collect::<Vec<_>>(),
        [(0..10).map(Some).collect(), vec![None]].concat()
    );
    assert_eq!((d.issued(), d.left()), (10, 0));
}

#[test]
fn a_request_too_big_for_the_rest_leaves_it_to_smaller_ones() {
    let d = dispenser(10, 0);
    assert_eq!(
        [take(&d, 7), take(&d, 5), take(&d, 2), take(&d, 2), take(&d, 1)],
        [Some(0), None, Some(7), None, Some(9)]
    );
    assert_eq!((d.issued(), d.left()), (10, 0));
}

#[test]
fn a_low_mark_tells_the_refiller_and_loses_nothing() {
    let d = dispenser(10, 6);
    assert_eq!(d.need(), Refilling::Nothing);
    let (a, b) = ((0..4).map(|_| take(&d, 1)).collect::<Vec<_>>(), (late(&d, 1), late(&d, 1)));
    assert_eq!(a, [0, 1, 2, 3].map(Some));
    assert_eq!(d.need(), Refilling::Batch { waiting: 0 });
    assert_eq!((d.settle(n(1), b.1), d.settle(n(1), b.0), take(&d, 1)), (Some(5), Some(4), Some(6)));
}

#[test]
fn a_crossing_draw_that_reports_late_gives_its_rest_back() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 8), Some(0));
    let crossing = late(&d, 5);
    let behind = late(&d, 1);
    assert_eq!(d.settle(n(1), behind), None, "the rest is not known yet");
    assert_eq!(d.settle(n(5), crossing), None);
    assert_eq!((take(&d, 1), take(&d, 1), take(&d, 1)), (Some(8), Some(9), None));
}

#[test]
fn a_ticket_of_an_ended_epoch_is_void_though_the_zone_now_reaches_that_far() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 9), Some(0));
    let (crossing, behind, behind2) = (late(&d, 5), late(&d, 1), late(&d, 1));
    assert_eq!(d.settle(n(1), behind), None);
    d.install(SlotRange { start: 10, end: 30 }, 0);
    assert_eq!(take(&d, 5), Some(10));
    assert_eq!(d.settle(n(5), crossing), Some(15), "not 9: that is another's by now");
    assert_eq!(d.settle(n(1), behind2), Some(20));
    assert_eq!(take(&d, 1), Some(21));
}

#[test]
fn a_ticket_is_void_after_the_zone_grew_while_shut_and_was_used_up_at_once() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 9), Some(0));
    let crossing = late(&d, 5);
    let mut waiter = wait(&d, 20);
    d.install(SlotRange { start: 10, end: 30 }, 0);
    assert_eq!(waiter.try_recv().unwrap(), Ok(10), "all of the new range: the gate stays shut");
    assert_eq!(d.settle(n(5), crossing), None);
}

#[test]
fn a_draw_under_an_old_mark_keeps_only_what_nobody_else_has() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 8), Some(0));
    assert_eq!(take(&d, 5), None);
    d.install(SlotRange { start: 10, end: 30 }, 0);
    // A drawer that read the mark 10 before the gate was shut draws now: 8 and 9 were never handed out.
    let first = d.next.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(first, 8);
    assert_eq!(take(&d, 1), Some(9));
}

#[test]
fn a_drawer_that_sleeps_between_mark_and_draw_shares_no_slot() {
    /// `before` slots of ten are taken; the range from `start` comes while the drawer sleeps, and five are taken of it.
    #[track_caller]
    fn check(before: u64, start: u64) {
        let d = Arc::new(dispenser(10, 0));
        assert_eq!(take(&d, before), Some(0));
        let others = Arc::new(Mutex::new(Vec::new()));
        let (d2, others2) = (d.clone(), others.clone());
        let meanwhile = move || {
            let mut taken: Vec<u64> = (0..3).filter_map(|_| take(&d2, 1)).collect();
            d2.install(SlotRange { start, end: start + 20 }, 0);
            taken.extend((0..5).filter_map(|_| take(&d2, 1)));
            *others2.lock().unwrap() = taken;
        };
        HOOK.with(|hook| *hook.borrow_mut() = Some(Box::new(meanwhile)));
        let mut all = vec![take(&d, 1).unwrap()];
        all.append(&mut others.lock().unwrap());
        all.extend((0..10).filter_map(|_| take(&d, 1)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "{all:?}");
        assert!(all.iter().all(|slot| (before..10).contains(slot) || *slot >= start), "{all:?}");
    }
    for before in 7..=10 {
        check(before, 10);
        check(before, 100);
    }
}

#[test]
fn zones_apart_are_used_one_after_the_other() {
    let d = dispenser(10, 5);
    assert_eq!(take(&d, 6), Some(0));
    d.install(SlotRange { start: 100, end: 110 }, 5);
    assert_eq!((d.left(), d.need()), (14, Refilling::Nothing));
    assert_eq!((take(&d, 4), take(&d, 1), take(&d, 9)), (Some(6), Some(100), Some(101)));
    d.install(SlotRange { start: 110, end: 120 }, 5);
    assert_eq!((take(&d, 3), take(&d, 7), take(&d, 1)), (Some(110), Some(113), None));
}

#[test]
fn those_who_wait_are_served_in_order_and_those_who_gave_up_leave_no_gap() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 10), Some(0));
    let (mut a, b, mut c) = (wait(&d, 3), wait(&d, 4), wait(&d, 5));
    assert_eq!(d.need(), Refilling::Batch { waiting: 12 });
    drop(b);
    assert_eq!(d.need(), Refilling::Batch { waiting: 8 });
    d.install(SlotRange { start: 10, end: 100 }, 0);
    assert_eq!((a.try_recv().unwrap(), c.try_recv().unwrap(), take(&d, 1)), (Ok(10), Ok(13), Some(18)));
}

#[test]
fn skipping() {
    #[track_caller]
    fn check(d: &Dispenser, slot: u64, expect: Skipped, next: u64) {
        assert_eq!(d.skip_to(slot), expect);
        assert_eq!(take(d, 1), Some(next));
    }
    let d = dispenser(10, 0);
    d.install(SlotRange { start: 100, end: 110 }, 0);
    check(&d, 3, Skipped::Done, 3);
    check(&d, 2, Skipped::Done, 4);
    check(&d, 11, Skipped::Elsewhere, 5);
    check(&d, 100, Skipped::Elsewhere, 6);
    check(&d, 111, Skipped::Beyond, 7);
    check(&d, 102, Skipped::Done, 102);
    check(&d, 110 - 1, Skipped::Done, 109);
    assert_eq!(d.skip_to(110), Skipped::Done);
    assert_eq!(take(&d, 1), None);
    assert_eq!(d.issued(), 7, "what was skipped does not count");
}

#[test]
fn a_skip_over_a_crossing_draw_holds_for_the_rest_that_it_gives_back() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 5), Some(0));
    let crossing = late(&d, 9);
    assert_eq!(d.skip_to(8), Skipped::Done);
    assert_eq!(d.settle(n(9), crossing), None);
    assert_eq!((take(&d, 1), take(&d, 1), take(&d, 1)), (Some(8), Some(9), None));
}

#[test]
fn a_floor_holds_for_all_zones() {
    let d = dispenser(10, 0);
    d.install(SlotRange { start: 100, end: 110 }, 0);
    d.raise_floor(105);
    assert_eq!(take(&d, 1), Some(105));
    d.raise_floor(1_000);
    assert_eq!(take(&d, 1), None);
    d.install(SlotRange { start: 110, end: 1_001 }, 0);
    assert_eq!((take(&d, 1), take(&d, 1)), (Some(1_000), None));
}

#[test]
fn after_closing_only_what_was_drawn_before_is_kept() {
    let d = dispenser(10, 5);
    assert_eq!(take(&d, 5), Some(0));
    let before = late(&d, 1);
    d.close();
    assert_eq!(d.rest(), Some(SlotRange { start: 6, end: 10 }));
    // A drawer that read the mark before the gate was closed, and draws now.
    let parked = d.next.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    assert!(parked >= super::PARKED);
    assert_eq!(d.settle(n(1), Ticket { mark: 10, first: parked }), None);
    assert_eq!(d.settle(n(1), before), Some(5));
    assert_eq!(take(&d, 1), None);
    assert!(matches!(d.settle_or_wait(n(1), late(&d, 1)), Taken::Closed));
    d.install(SlotRange { start: 10, end: 20 }, 5);
    assert_eq!((d.rest(), take(&d, 1)), (Some(SlotRange { start: 6, end: 20 }), None));
}

#[test]
fn a_panic_under_the_mutex_loses_ids_and_repeats_none() {
    let d = dispenser(10, 0);
    assert_eq!(take(&d, 3), Some(0));
    let poisoned = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _state = d.state.lock().unwrap();
        panic!("on purpose");
    }));
    assert!(poisoned.is_err());
    assert_eq!((d.left(), take(&d, 1)), (0, None));
    d.install(SlotRange { start: 10, end: 20 }, 0);
    assert_eq!(take(&d, 1), Some(10));
}
