//! Places for clients who have not said yet who they are. There are few, and nobody is kept out by
//! clients who only wait. Where all places are taken, one client is disconnected: of the address
//! that has the most places, the client that came first.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};

use crate::address;

#[derive(Debug)]
pub(crate) struct Lobby {
    places: usize,
    guests: Mutex<Guests>,
}

#[derive(Debug, Default)]
struct Guests {
    /// The number of guests so far. Guests that have left count too.
    count: u64,
    /// In the order in which they came.
    all: Vec<Guest>,
}

#[derive(Debug)]
struct Guest {
    nth: u64,
    from: Option<IpAddr>,
    is_served: bool,
    task: Option<AbortHandle>,
}

/// A guest's place. Dropped, it is free.
#[derive(Debug)]
pub(crate) struct Place {
    lobby: Arc<Lobby>,
    nth: u64,
}

impl Lobby {
    pub(crate) fn new(places: usize) -> Arc<Lobby> {
        Arc::new(Lobby { places, guests: Mutex::default() })
    }

    /// Serves a guest in a task of its own. The task is aborted if the guest has to make room.
    pub(crate) fn serve<F: Future<Output = ()> + Send + 'static>(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        from: Option<IpAddr>,
        serve: impl FnOnce(Place) -> F,
    ) {
        let place = self.enter(from);
        let nth = place.nth;
        let task = tasks.spawn(serve(place));
        if let Some(guest) = self.guests.lock().all.iter_mut().find(|guest| guest.nth == nth) {
            guest.task = Some(task);
        }
    }

    /// For a guest without an address, and without a task to abort.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn place(self: &Arc<Self>) -> Place {
        self.enter(None)
    }

    /// Always finds a place: if none is free, another guest has to go.
    fn enter(self: &Arc<Self>, from: Option<IpAddr>) -> Place {
        let mut guests = self.guests.lock();
        if guests.all.len() >= self.places
            && let Some(at) = guests.who_goes()
        {
            let gone = guests.all.remove(at);
            if let Some(task) = gone.task {
                task.abort();
            }
        }
        let nth = guests.count;
        guests.count += 1;
        guests.all.push(Guest { nth, from: from.map(address::network), is_served: false, task: None });
        Place { lobby: Arc::clone(self), nth }
    }
}

impl Guests {
    /// Guests that are being served go last: they will be done soon.
    fn who_goes(&self) -> Option<usize> {
        let mut of: HashMap<(bool, Option<IpAddr>), usize> = HashMap::new();
        for guest in &self.all {
            *of.entry((guest.is_served, guest.from)).or_default() += 1;
        }
        let rank = |guest: &Guest| (!guest.is_served, of.get(&(guest.is_served, guest.from)).copied());
        let most = self.all.iter().map(rank).max()?;
        self.all.iter().position(|guest| rank(guest) == most)
    }
}

impl Place {
    /// Says whether the guest is being served, or is waited for.
    pub(crate) fn serves(&self, is_served: bool) {
        if let Some(guest) = self.lobby.guests.lock().all.iter_mut().find(|guest| guest.nth == self.nth) {
            guest.is_served = is_served;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.lobby.guests.lock().all.retain(|guest| guest.nth != self.nth);
    }
}

#[cfg(test)]
mod tests {
    use super::{Lobby, Place};

    fn left(lobby: &Lobby) -> Vec<u64> {
        lobby.guests.lock().all.iter().map(|guest| guest.nth).collect()
    }

    #[test]
    fn who_makes_room() {
        let lobby = Lobby::new(3);
        let enter = |from: &str| lobby.enter(Some(from.parse().unwrap()));
        let places: Vec<Place> = ["10.0.0.1", "10.0.0.2", "10.0.0.2"].map(enter).into();
        assert_eq!(left(&lobby), [0, 1, 2]);
        // The oldest of the address that has most.
        let third = enter("10.0.0.3");
        assert_eq!(left(&lobby), [0, 2, 3]);
        // A guest that is being served stays.
        places[0].serves(true);
        third.serves(true);
        let _fourth = enter("10.0.0.1");
        assert_eq!(left(&lobby), [0, 3, 4]);
        drop(third);
        assert_eq!(left(&lobby), [0, 4]);
        // A machine has a network of IPv6 to itself.
        let lobby = Lobby::new(3);
        let enter = |from: &str| lobby.enter(Some(from.parse().unwrap()));
        let _places: Vec<Place> = ["2001:db8::1", "10.0.0.1", "2001:db8::2"].map(enter).into();
        let _one_more = enter("10.0.0.2");
        assert_eq!(left(&lobby), [1, 2, 3]);
    }
}
