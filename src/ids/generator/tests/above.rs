//! Ids that are in a table already.

use super::super::REACH_MAX;
use super::{SECOND, beside_another, by, first, open, settle, stored};

/// Two proxies have ranges, and others have stored ids: in this one's range, in the other one's, and above both.
#[tokio::test(start_paused = true)]
async fn ids_go_on_above_the_highest_of_the_table() {
    let (store, a) = beside_another().await;
    let pass = async |highest: u64| a.pass(highest, SECOND).await.unwrap();
    assert!(!pass(1).await, "its own");
    // The highest id lies in the other range, and others may lie in this one.
    assert!(!pass(500).await);
    assert_eq!((a.last_below(500), a.last_below(3)), (Some(11), None));
    assert!(pass(6).await && !pass(6).await);
    assert_eq!(first(&a, 1).await, 7);
    let bound = stored(&store).bound;
    assert!(!pass(bound + REACH_MAX + 1).await, "too far");
    assert!(a.reach() <= bound + REACH_MAX);
    assert_eq!(first(&a, 1).await, 8);
    assert!(pass(bound + 5).await);
    assert_eq!(first(&a, 1).await, bound + 6);
    assert_eq!((a.stats().explicit_elsewhere, a.stats().explicit_too_far), (0, 0));
}

/// Ids of others may lie below the highest, so what is reserved here below it is given up.
#[tokio::test(start_paused = true)]
async fn ids_go_on_above_the_highest_wherever_it_lies() {
    let (store, a) = beside_another().await;
    let rise = async |highest: u64| a.rise_above(highest, SECOND).await.unwrap();
    let bound = stored(&store).bound;
    assert!(!rise(1).await, "its own");
    assert!(rise(6).await && !rise(6).await, "reserved here");
    assert_eq!(first(&a, 1).await, 7);
    assert!(!rise(500).await, "the other generator may have issued it");
    assert_eq!(stored(&store).bound, bound, "nobody else is above a bound that is above it");
    assert!(first(&a, 1).await >= bound);
    settle().await;
    let bound = stored(&store).bound;
    assert!(rise(bound + 5).await, "nobody has reserved it");
    assert!(stored(&store).bound > bound + 5);
    assert!(first(&a, 1).await > bound + 5);

    // The store must have it, also if it is asked again.
    store.set_away(true);
    let far = stored(&store).bound + 5;
    for _ in 0..2 {
        assert!(a.rise_above(far, SECOND).await.is_err());
    }
    assert!(!rise(far - 6).await, "below the bound the store need not be there");
    store.set_away(false);

    let c = open(&store, by(10), 0, u64::MAX).await;
    assert!(
        !c.rise_above(500, SECOND).await.unwrap(),
        "it has reserved nothing, and others may have issued it"
    );
    assert!(first(&c, 1).await > bound + 5);
}
