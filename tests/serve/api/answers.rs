//! The answers of each path.

use serde_json::Value;

use super::client::{Http, config, port};
use crate::resp::client::alone;

/// A sequence, one that ends soon, and timestamps whose ticks do not adjoin.
const RULES: &str = "schema = \"shop\"\n[generators.orders]\nkind = \"sequence\"\nstep = 3\n\
                     [generators.few]\nkind = \"sequence\"\nmax = 5\n\
                     [generators.high]\nkind = \"sequence\"\nstart = 9223372036854775800\nmax = 9223372036854775900\nbatch = 10\n\
                     [generators.events]\nkind = \"timestamp\"\nlayout = \"snowflake\"\nnode = 7\n";

#[test]
fn ids_and_errors() {
    let proxy = alone(&config(), RULES);
    let mut http = Http::dba(port(&proxy));
    let ids = "/v1/generators/shop.orders/ids";
    for (path, body, status, expect) in [
        (ids, "", 200, r#"{"first":"3","count":1,"step":3}"#),
        (ids, "{}", 200, r#"{"first":"6","count":1,"step":3}"#),
        (ids, r#"{"count": 2.0}"#, 200, r#"{"first":"9","count":2,"step":3}"#),
        (ids, "null", 200, r#"{"first":"15","count":1,"step":3}"#),
        (ids, r#"{"count": 10}"#, 200, r#"{"first":"18","count":10,"step":3}"#),
        (ids, r#"{"count": 10000000}"#, 200, r#"{"first":"48","count":10000000,"step":3}"#),
        (ids, r#"{"count": 0}"#, 400, "bad_count: 0 is not a number of ids; ask for 1 to 10000000"),
        (ids, r#"{"count": -1}"#, 400, "bad_count: -1 is not a number of ids; ask for 1 to 10000000"),
        (
            ids,
            r#"{"count": 10000001}"#,
            400,
            "bad_count: 10000001 is not a number of ids; ask for 1 to 10000000",
        ),
        (ids, r#"{"count": 1.5}"#, 400, "bad_count: 1.5 is not a number of ids"),
        (ids, r#"{"count": 18446744073709551616}"#, 400, "bad_count: 1.8446744073709552e+19 is not"),
        (
            ids,
            r#"{"count": "10"}"#,
            400,
            "bad_request: the body must be like {\"count\": 10}: invalid type: string \"10\", expected a JSON number",
        ),
        (ids, r#"{"count": null}"#, 400, "bad_request: "),
        (
            ids,
            r#"{"count": 1, "count": 2}"#,
            400,
            "bad_request: the body must be like {\"count\": 10}: duplicate",
        ),
        (ids, r#"{"n": 10}"#, 400, "bad_request: the body must be like {\"count\": 10}: unknown field `n`"),
        (ids, " [10]", 400, "bad_request: the body must be like {\"count\": 10}: it is a list"),
        (
            ids,
            "10",
            400,
            "bad_request: the body must be like {\"count\": 10}: invalid type: integer `10`, expected an object",
        ),
        (ids, r#"{"count": 1"#, 400, "bad_request: "),
        (ids, r#"{"count": 1} x"#, 400, "bad_request: "),
        ("/v1/generators/shop.few/ids", r#"{"count": 5}"#, 200, r#"{"first":"1","count":5,"step":1}"#),
        ("/v1/generators/shop.few/ids", "", 503, "exhausted: generator shop.few is exhausted"),
        ("/v1/generators/shop.high/ids", "", 200, r#"{"first":"9223372036854775800","count":1,"step":1}"#),
        (
            "/v1/generators/shop%2Ehi%67h/ids",
            "",
            200,
            r#"{"first":"9223372036854775801","count":1,"step":1}"#,
        ),
        (
            "/v1/generators/shop.order/ids",
            "",
            404,
            "no_generator: the rules have no generator \"shop.order\"; did you mean shop.orders?",
        ),
        ("/v1/generators/shop.%FF/ids", "", 400, "bad_request: "),
        (
            "/v1/generators/shop.events/ids",
            r#"{"count": 10001}"#,
            400,
            "too_many: generator shop.events gives at most 10000 ids at once",
        ),
        ("/v1/generators", "", 405, "no_method: there is no POST here; use GET"),
        ("/v1/generators/shop.orders/ids/ids", "", 405, "no_method: there is no POST here; use GET"),
        (&format!("{ids}?count=5"), "", 400, "bad_request: the path has no query"),
        ("/", "", 404, "no_path: there is no \"/\"; the paths are /v1/generators, "),
        ("/v1/generators/shop.orders/ids/", "", 404, "no_path: "),
    ] {
        let answer = http.ask("POST", path, body);
        assert_eq!(answer.header("cache-control"), Some("no-store"), "{path} {body}");
        let told = match status {
            200 => answer.body.trim_end().to_owned(),
            _ => format!("{}: {}", answer.code(), answer.json()["detail"].as_str().unwrap()),
        };
        assert!(answer.status == status && told.starts_with(expect), "{path} {body}: {answer:?}");
        // Only what may be different by itself is worth another try.
        assert_eq!(answer.header("retry-after"), None, "{path} {body}");
    }
    let kinds = ["text/plain", "application/x-www-form-urlencoded", "application/jsonx"];
    for kind in kinds {
        let request = http.request("POST", ids, "{}").replace("application/json", kind);
        http.send(request.as_bytes());
        assert_eq!(http.answer().unwrap().code(), "no_json", "{kind}");
    }
    let request =
        http.request("POST", ids, "{}").replace("application/json", "Application/JSON; charset=utf-8");
    http.send(request.as_bytes());
    assert_eq!(http.answer().unwrap().id(), 30_000_048);
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = http.ask(method, ids, "");
        assert_eq!(
            (answer.status, answer.header("allow"), &*answer.code()),
            (405, Some("POST"), "no_method")
        );
    }
    assert_eq!(http.draw("shop.orders", "").id(), 30_000_051, "an error draws nothing");
}

#[test]
fn generators_and_what_ids_mean() {
    let proxy = alone(&config(), RULES);
    let mut http = Http::dba(port(&proxy));
    let listed = http.get("/v1/generators").json();
    let names: Vec<_> = listed["generators"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["shop.events", "shop.few", "shop.high", "shop.orders"]);
    let of = |http: &mut Http, name: &str| http.get(&format!("/v1/generators/{name}")).body;
    assert_eq!(
        of(&mut http, "shop.orders"),
        "{\"name\":\"shop.orders\",\"kind\":\"sequence\",\"step\":3,\"last\":null}\n"
    );
    http.draw("shop.orders", "{\"count\": 2}");
    assert_eq!(
        of(&mut http, "shop.orders"),
        "{\"name\":\"shop.orders\",\"kind\":\"sequence\",\"step\":3,\"last\":\"6\"}\n"
    );
    assert_eq!(http.ask("HEAD", "/v1/generators/shop.orders", "").status, 200);
    // A tick of ids is a run; more are a list.
    let run = http.draw("shop.events", "{\"count\": 4096}").json();
    assert_eq!((&run["count"], &run["step"]), (&Value::from(4096), &Value::from(1)));
    let list = http.draw("shop.events", "{\"count\": 5000}").json();
    let ids: Vec<u64> =
        list["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().parse().unwrap()).collect();
    assert!(ids.len() == 5000 && ids.is_sorted() && ids[4095] + 1 < ids[4096], "{}", ids.len());
    let before: u64 = run["first"].as_str().unwrap().parse().unwrap();
    assert!(before + 4095 < ids[0]);
    let told = http.get(&format!("/v1/generators/shop.events/ids/{}", ids[4097])).json();
    assert_eq!(
        (&told["id"], &told["node"], &told["sequence"]),
        (&Value::from(ids[4097].to_string()), &Value::from(7), &Value::from(1))
    );
    assert!(told["time"].as_str().unwrap().starts_with("20"), "{told}");
    let zeros = http.get(&format!("/v1/generators/shop.events/ids/0{}", ids[4097])).json();
    assert_eq!(zeros, told);
    for (path, status, code) in [
        ("shop.events/ids/9223372036854775808", 404, "no_such_id"),
        ("shop.events/ids/99999999999999999999", 400, "bad_id"),
        ("shop.events/ids/-1", 400, "bad_id"),
        ("shop.events/ids/0x1", 400, "bad_id"),
        ("shop.orders/ids/1", 404, "no_fields"),
        ("shop.none/ids/1", 404, "no_generator"),
        ("shop.none", 404, "no_generator"),
    ] {
        let answer = http.get(&format!("/v1/generators/{path}"));
        assert_eq!((answer.status, &*answer.code()), (status, code), "{path}");
    }
}

/// The document names the paths that there are, and each schema that it names.
#[test]
fn the_document() {
    let proxy = alone(&config(), RULES);
    let mut http = Http::new(port(&proxy), "");
    let answer = http.get("/v1/openapi.json");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let document = answer.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut operations = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            operations.push(operation["operationId"].as_str().unwrap().to_owned());
            let path = path.replace("{g}", "shop.events").replace("{id}", "1");
            let answer = http.ask(&method.to_uppercase(), &path, "");
            let expect = if path == "/v1/openapi.json" { 200 } else { 401 };
            assert_eq!(answer.status, expect, "{method} {path}");
            // The document names each status that is answered.
            assert!(operation["responses"][expect.to_string()].is_object(), "{operation}");
        }
    }
    operations.sort();
    assert_eq!(operations, ["decodeId", "drawIds", "getDocument", "getGenerator", "listGenerators"]);
    let text = document.to_string();
    let named = text.split("\"#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
    for name in named {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    for login in ["token", "password"] {
        assert!(document["components"]["securitySchemes"][login].is_object());
    }
}
