//! A new question to the server is its text, and what is done with the answer: nothing else in the
//! proxy knows of it. The one below is known to no file but this.

use super::rig::asked_after;
use super::{MODERN, all, q, rows};

#[tokio::test]
async fn a_new_question_is_one_call() {
    let (select, question) = (q("SELECT SLEEP(1)"), "SELECT @@hostname");
    let client_rows = rows(MODERN, 1, &["0"], 2);
    let answers = all(&[client_rows.clone(), rows(MODERN, 1, &["db7"], 2)]);
    let (to_server, to_client, row) = asked_after(&select, question, &answers).await;
    assert_eq!(to_server, all(&[select, q(question)]), "right after what the client sent");
    assert_eq!(to_client, client_rows, "the answer is not the client's");
    assert_eq!(row.as_deref(), Some(&b"\x03db7"[..]));
}
