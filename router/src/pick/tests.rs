use std::collections::HashMap;

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::fleet::{EndpointId, InFlight};

fn endpoints(n: u16) -> Vec<Arc<Endpoint>> {
    let endpoint = |port| {
        let id = EndpointId {
            owner: "pod".into(),
            port,
        };
        Arc::new(Endpoint::new(
            id,
            "pod".into(),
            ([127, 0, 0, 1], port).into(),
        ))
    };
    (1..=n).map(endpoint).collect()
}

/// Picks `n` times, keeping every request in flight.
fn spread(strategy: Strategy, endpoints: &[Arc<Endpoint>], n: usize) -> Vec<InFlight> {
    let mut chance = StdRng::seed_from_u64(7);
    let mut pick = |turn| pick(strategy, endpoints, &[], || turn, &mut chance).unwrap();
    (0..n)
        .map(|turn| endpoints[pick(turn).index].enter())
        .collect()
}

fn loads(endpoints: &[Arc<Endpoint>]) -> Vec<u32> {
    endpoints
        .iter()
        .map(|endpoint| endpoint.in_flight())
        .collect()
}

#[test]
fn round_robin_gives_each_the_same() {
    let endpoints = endpoints(3);
    let _guards = spread(Strategy::RoundRobin, &endpoints, 300);
    assert_eq!(loads(&endpoints), [100, 100, 100]);
}

#[test]
fn random_gives_each_about_the_same() {
    let endpoints = endpoints(4);
    let _guards = spread(Strategy::Random, &endpoints, 4000);
    assert!(
        loads(&endpoints)
            .iter()
            .all(|load| (850..1150).contains(load))
    );
}

#[test]
fn least_load_levels_a_burst_exactly() {
    let endpoints = endpoints(4);
    let _guards = spread(Strategy::LeastLoad, &endpoints, 40);
    assert_eq!(loads(&endpoints), [10; 4]);
}

#[test]
fn least_load_fills_up_whoever_has_less() {
    let endpoints = endpoints(3);
    let _busy: Vec<_> = (0..10).map(|_| endpoints[0].enter()).collect();
    let _guards = spread(Strategy::LeastLoad, &endpoints, 20);
    assert_eq!(loads(&endpoints), [10; 3]);
}

#[test]
fn least_load_takes_turns_among_the_idle() {
    let endpoints = endpoints(3);
    let mut counts = HashMap::new();
    for turn in 0..30 {
        let mut chance = StdRng::seed_from_u64(turn);
        let turn = usize::try_from(turn).unwrap();
        let choice = pick(Strategy::LeastLoad, &endpoints, &[], || turn, &mut chance).unwrap();
        *counts.entry(choice.index).or_insert(0) += 1;
    }
    assert_eq!(counts, HashMap::from([(0, 10), (1, 10), (2, 10)]));
}

#[test]
fn power_of_two_stays_close_to_level_and_never_draws_one_twice() {
    let endpoints = endpoints(8);
    let _guards = spread(Strategy::PowerOfTwo, &endpoints, 800);
    assert!(
        loads(&endpoints)
            .iter()
            .all(|load| (90..=110).contains(load))
    );

    let two = &endpoints[..2];
    let _busy = endpoints[0].enter();
    let _busier: Vec<_> = (0..200).map(|_| endpoints[1].enter()).collect();
    for seed in 0..50 {
        let mut chance = StdRng::seed_from_u64(seed);
        let choice = pick(Strategy::PowerOfTwo, two, &[], || 0, &mut chance).unwrap();
        assert_eq!(choice.index, 0);
    }
}

#[test]
fn nothing_that_was_tried_is_chosen_again() {
    for strategy in [
        Strategy::RoundRobin,
        Strategy::Random,
        Strategy::LeastLoad,
        Strategy::PowerOfTwo,
    ] {
        for n in [1, 2, 3, 64, 65, 130] {
            let endpoints = endpoints(n);
            let mut tried = Vec::new();
            let mut chance = StdRng::seed_from_u64(1);
            while let Some(choice) = pick(strategy, &endpoints, &tried, || 5, &mut chance) {
                assert_eq!(choice.eligible, endpoints.len() - tried.len());
                tried.push(Arc::clone(&endpoints[choice.index]));
            }
            let mut seen: Vec<_> = tried.iter().map(|endpoint| endpoint.id().port).collect();
            seen.sort_unstable();
            assert_eq!(seen, (1..=n).collect::<Vec<_>>(), "{strategy:?}");
        }
    }
}
