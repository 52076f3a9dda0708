//! The answers to each command, in both versions of the protocol.

use super::client::{GENERATORS, Redis, alone, config, request};
use crate::console::typed_as;
use crate::support::wait::wait_until;

const RULES: &str = "schema = \"shop\"\n\
    [generators.orders]\nkind = \"sequence\"\nseed = \"none\"\n\
    [generators.odd]\nkind = \"sequence\"\nseed = \"none\"\nstart = 7\nstep = 10\noffset = 7\n\
    [generators.few]\nkind = \"sequence\"\nseed = \"none\"\nmax = 3\n\
    [generators.high]\nkind = \"sequence\"\nseed = \"none\"\nstart = 9223372036854775806\nmax = 9223372036854775900\nbatch = 10\n\
    [generators.t]\nkind = \"timestamp\"\nlayout = \"snowflake\"\n\
    [generators.shadow]\nkind = \"sequence\"\nseed = \"none\"\n\
    [tables.shadow]\ncolumn = \"id\"\ngenerator = \"shadow\"\nmode = \"shadow\"\n";

#[track_caller]
fn check(redis: &mut Redis, rows: &[(&str, &str)]) {
    for (line, expect) in rows {
        assert_eq!(redis.ask(line), *expect, "{line}");
    }
}

#[test]
fn of_each_command() {
    let proxy = alone(&config(), RULES);
    let mut redis = Redis::of(&proxy);
    check(
        &mut redis,
        &[
            ("GET shop.orders", "$-1"),
            ("INCR shop.orders", ":1"),
            ("incr shop.orders", ":2"),
            ("INCRBY shop.orders 10", ":12"),
            ("INCRBY shop.orders 1", ":13"),
            ("GET shop.orders", "$2 13"),
            ("ROWSTAMP.TAKE shop.orders 3", "*3 :14 :3 :1"),
            ("INCR shop.odd", ":7"),
            ("INCRBY shop.odd 3", ":37"),
            ("ROWSTAMP.TAKE shop.odd 2", "*3 :47 :2 :10"),
            ("MGET shop.odd shop.nix shop.orders", "*3 $2 57 $-1 $2 16"),
            ("EXISTS shop.odd shop.nix shop.odd", ":2"),
            ("TYPE shop.odd", "+string"),
            ("TYPE shop.nix", "+none"),
            (
                "ROWSTAMP.LIST",
                "*6 $8 shop.few $9 shop.high $8 shop.odd $11 shop.orders $11 shop.shadow $6 shop.t",
            ),
            (
                "ROWSTAMP.DECODE shop.t 8000000000",
                "*6 $4 time $24 2010-11-04T01:42:56.564Z $4 node :357 $8 sequence :0",
            ),
            ("PING", "+PONG"),
            ("PING x", "$1 x"),
            ("ECHO x", "$1 x"),
            ("SELECT 0", "+OK"),
            ("READONLY", "+OK"),
            ("CLUSTER KEYSLOT shop.orders", ":3678"),
            ("COMMAND COUNT", ":22"),
            ("COMMAND GETKEYS MGET a b", "*2 $1 a $1 b"),
            ("CLIENT SETNAME me", "+OK"),
            ("CLIENT GETNAME", "$2 me"),
            ("CLIENT SETINFO lib-name x", "+OK"),
            // In RESP2 there is no integer above a signed one.
            ("ROWSTAMP.TAKE shop.high 2", "*3 :9223372036854775806 :2 :1"),
            ("INCR shop.high", "$19 9223372036854775808"),
        ],
    );
    // RESP3 has types of its own.
    let hello = redis.ask("HELLO 3");
    assert!(hello.starts_with("%7 $6 server $5 redis $7 version $6 7.0.15 $5 proto :3 $2 id :"), "{hello}");
    check(
        &mut redis,
        &[
            ("GET shop.nix", "_"),
            ("INCR shop.high", "(9223372036854775809"),
            ("ROWSTAMP.DECODE shop.t 1", "%3 $4 time $24 2010-11-04T01:42:54.657Z $4 node :0 $8 sequence :1"),
            ("COMMAND INFO get", "*1 *10 $3 get :2 ~2 +readonly +fast :1 :1 :1 ~0 *0 *0 *0"),
        ],
    );
    let info = redis.ask("INFO server");
    assert!(
        info.starts_with('=') && info.contains("txt:# Server") && info.contains("cluster_enabled:1"),
        "{info}"
    );
    check(&mut redis, &[("RESET", "+RESET"), ("INCR shop.orders", "-NOAUTH Authentication required.")]);
    check(&mut redis, &[("QUIT", "+OK")]);
    assert_eq!(redis.answer(), None);
}

#[test]
fn of_a_cluster() {
    let proxy = alone(&config(), GENERATORS);
    let mut redis = Redis::of(&proxy);
    let (port, id) = (super::client::port(&proxy), redis.ask("CLUSTER MYID"));
    assert_eq!(id.len(), "$40 ".len() + 40);
    assert_eq!(redis.ask("CLUSTER SLOTS"), format!("*1 *3 :0 :16383 *4 $9 127.0.0.1 :{port} {id} *0"));
    let shards = redis.ask("CLUSTER SHARDS");
    assert!(shards.contains(&format!("$4 port :{port} ")) && shards.contains("$6 online"), "{shards}");
    let nodes = redis.ask("CLUSTER NODES");
    assert!(
        nodes.contains(&format!("127.0.0.1:{port}@0 myself,master - 0 0 1 connected 0-16383")),
        "{nodes}"
    );
    assert!(redis.ask("CLUSTER INFO").contains("cluster_state:ok"));
}

#[test]
fn what_gets_no_id() {
    let proxy = alone(&config(), RULES);
    let mut redis = Redis::of(&proxy);
    for (line, expect) in [
        ("INCR shop.ordrs", "-ERR the rules have no generator \"shop.ordrs\"; did you mean shop.orders?"),
        (
            "INCR shop.shadow",
            "-ERR generator shop.shadow gives no ids, since all its tables have mode = \"shadow\"; ask for ids of a generator of its own",
        ),
        ("INCRBY shop.orders 0", "-ERR 0 is not a number of ids; ask for 1 to 10000000"),
        ("INCRBY shop.orders -5", "-ERR -5 is not a number of ids; ask for 1 to 10000000"),
        ("ROWSTAMP.TAKE shop.orders 10000001", "-ERR 10000001 is not a number of ids; ask for 1 to 10000000"),
        ("INCRBY shop.orders 1.5", "-ERR value is not an integer or out of range"),
        (
            "INCRBY shop.t 5000",
            "-ERR generator shop.t gives at most 4096 ids in one run; ask for fewer, or use ROWSTAMP.TAKE",
        ),
        (
            "INCRBY shop.few 4",
            "-ERR EXHAUSTED generator shop.few is exhausted: there is no room for 4 more up to its max, 3; widen the column and raise max",
        ),
        (
            "ROWSTAMP.DECODE shop.orders 4",
            "-ERR generator shop.orders is a sequence, and its ids have no fields",
        ),
        (
            "ROWSTAMP.DECODE shop.t x",
            "-ERR \"x\" is not an id; write a whole number from 0 to 18446744073709551615",
        ),
    ] {
        assert_eq!(redis.ask(line), expect, "{line}");
    }
    for (line, expect) in [
        ("SET shop.orders 1", "-ERR unknown command 'SET': a key is an id generator"),
        ("DEL shop.orders", "-ERR unknown command 'DEL'"),
        ("MULTI", "-ERR unknown command 'MULTI'"),
        (
            "CLIENT KILL x",
            "-ERR unknown subcommand 'kill'; of client Rowstamp knows SETNAME, GETNAME, SETINFO, ID",
        ),
        ("SELECT 1", "-ERR DB index is out of range"),
    ] {
        let answer = redis.ask(line);
        assert!(answer.starts_with(expect), "{line}: {answer}");
    }
    // A timestamp generator gives several runs to who takes them as such.
    let runs = redis.ask("ROWSTAMP.TAKE shop.t 5000");
    let numbers: Vec<u64> = runs.split(' ').skip(1).map(|number| number[1..].parse().unwrap()).collect();
    assert_eq!((numbers.len(), numbers[1], numbers[4]), (6, 4096, 904), "{runs}");
    assert!(numbers[3] > numbers[0] + 4095, "{runs}");
    // Nothing of all this took an id, but for the generator that has them.
    assert_eq!((redis.ask("INCR shop.orders"), redis.ask("INCRBY shop.few 3")), (":1".into(), ":3".into()));
    assert!(redis.ask("INCR shop.few").starts_with("-ERR EXHAUSTED "));
    let paused = typed_as("c4nary-1", &proxy, "PAUSE GENERATOR shop.orders");
    assert!(!paused.contains("ERROR"), "{paused}");
    let answer = redis.ask("INCR shop.orders");
    assert!(answer.starts_with("-ERR generator shop.orders is paused on this proxy"), "{answer}");
    typed_as("c4nary-1", &proxy, "RESUME GENERATOR shop.orders");
    assert_eq!(redis.ask("INCR shop.orders"), ":2");
}

/// Commands that are sent at once are answered in their order, and each answer is the next id.
#[test]
fn of_a_pipeline() {
    let proxy = alone(&config(), GENERATORS);
    let mut redis = Redis::of(&proxy);
    let many: Vec<u8> = (0..10_000).flat_map(|_| request(&["INCR", "shop.orders"])).collect();
    redis.send(&many);
    let ids: Vec<_> = (0..10_000).map(|_| redis.answer().unwrap()).collect();
    let expect: Vec<_> = (1..=10_000).map(|id| format!(":{id}")).collect();
    assert!(ids == expect, "ids of a pipeline are 1 to 10,000");
    redis.send(
        &[request(&["PING"]), b"INCR shop.orders\r\n".to_vec(), request(&["QUIT"]), request(&["PING"])]
            .concat(),
    );
    let answers: Vec<_> = (0..4).map(|_| redis.answer()).collect();
    assert_eq!(
        answers,
        ["+PONG", ":10001", "+OK"]
            .map(|answer| Some(answer.to_owned()))
            .into_iter()
            .chain([None])
            .collect::<Vec<_>>()
    );
}

fn metrics(port: u16) -> String {
    crate::http::get(port, "/metrics").unwrap().1
}

#[test]
fn what_is_counted_and_noted() {
    let config = config()
        .replace("[admin]", "[http]\naddress = \"127.0.0.1:0\"\n[log]\naudit = \"audit.log\"\n[admin]");
    let text = crate::support::proxy::config("127.0.0.1:1")
        .replace("[backend.control]\nuser = \"root\"\npassword = \"\"\n", "")
        .replace("[http]\naddress = \"off\"\n", "");
    let proxy = crate::support::Proxy::start(&format!("{text}{config}"), &[("rules", RULES)]);
    let mut redis = Redis::of(&proxy);
    check(&mut redis, &[("INCR shop.orders", ":1"), ("INCRBY shop.odd 3", ":27")]);
    let mut look = Redis::stranger(super::client::port(&proxy));
    assert_eq!(look.ask("AUTH look c4nary-2"), "+OK");
    assert!(look.ask("INCR shop.orders").starts_with("-NOPERM "));
    assert!(redis.ask("INCR shop.nix").starts_with("-ERR the rules have no generator"));
    assert!(redis.ask("INCRBY shop.few 9").starts_with("-ERR EXHAUSTED"));
    assert!(
        Redis::stranger(super::client::port(&proxy)).ask("AUTH look nonsense").starts_with("-WRONGPASS ")
    );
    let told = "metrics and the page: http://127.0.0.1:";
    wait_until(|| "the page's address".to_owned(), || proxy.log().contains(told));
    let port = proxy.log().split_once(told).unwrap().1.split('/').next().unwrap().parse().unwrap();
    for line in [
        "rowstamp_door_requests_total{door=\"resp\",outcome=\"given\"} 2",
        "rowstamp_door_requests_total{door=\"resp\",outcome=\"denied\"} 1",
        "rowstamp_door_requests_total{door=\"resp\",outcome=\"wrong\"} 1",
        "rowstamp_door_requests_total{door=\"resp\",outcome=\"no_ids\"} 1",
        "rowstamp_door_ids_total{door=\"resp\"} 4",
        "rowstamp_door_logins_refused_total{door=\"resp\"} 1",
        "rowstamp_ids_issued_total{generator=\"shop.odd\"} 3",
    ] {
        let metrics = metrics(port);
        assert!(
            metrics.lines().any(|found| found.trim_end_matches(".0") == line),
            "{line} is not in {metrics}"
        );
    }
    // Who has gone, or has not logged in, is not counted.
    let _stranger = Redis::stranger(super::client::port(&proxy));
    let two = "rowstamp_door_connections{door=\"resp\"} 2";
    wait_until(|| metrics(port), || metrics(port).contains(two));
    let audit = proxy.dir().join("audit.log");
    let lines = || std::fs::read_to_string(&audit).unwrap_or_default();
    wait_until(|| "two lines".to_owned(), || lines().lines().count() == 2);
    let lines = lines();
    let expect = "\"user\":\"dba\",\"client\":\"127.0.0.1\",\"generator\":\"shop.odd\",\"first\":7,\"last\":27,\"count\":3,\"step\":10}";
    assert!(lines.contains("\"door\":\"resp\",") && lines.contains(expect), "{lines}");
}
