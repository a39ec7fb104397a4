//! What a client left behind: its log of handlers, and how far it got.

use std::{fs, io, path::Path};

use crate::{
    protocol::Kind,
    record::{Connection, Record},
    scenario::{Scenario, Server},
};

/// How far a client got, for people who look for what is wrong with it.
pub(super) fn whereabouts(scenario: &Scenario, record: &Record) -> String {
    let server = |place: usize| &scenario.servers[place].name;
    if let Some(call) = record.calls.last() {
        let open = record.connections.len();
        return format!(
            "its last call was {} of the server {}, on its connection number {open}",
            call.name,
            server(call.server),
        );
    }
    let greeted = |connection: &&Connection| connection.capabilities.is_some();
    if let Some(connection) = record.connections.iter().rfind(greeted) {
        let name = server(connection.server);
        return format!("it shook hands with the server {name} and made no call");
    }
    match record.connections.last() {
        Some(connection) => format!(
            "it connected to the server {} and made no handshake of {}",
            server(connection.server),
            scenario.revision
        ),
        None if scenario.is_official => {
            "it connected to no server: the URL is its last argument".to_owned()
        }
        None => "it connected to no server: their addresses are in MCP_CONFORMANCE_SERVERS, and that of \
                 a single one is the last argument as well"
            .to_owned(),
    }
}

/// The lines that handlers wrote: server and method, with a tab between them.
///
/// # Errors
///
/// The log cannot be read, or has another line: to pass it over would make a client look better
/// than it is.
pub(super) fn read_log(
    path: &Path,
    servers: &[Server],
) -> Result<Option<Vec<(String, String)>>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("the handlers' log cannot be read: {error}")),
    };
    let names = || servers.iter().map(|server| server.name.as_str());
    let entries = text.lines().map(|line| match line.split_once('\t') {
        Some((server, method)) if names().any(|name| name == server) && is_method(method) => {
            Ok((server.to_owned(), method.to_owned()))
        }
        _ => Err(format!(
            "it wrote {line:?} to QUESTION_CONFORMANCE_LOG, where a line is a server's name ({}), a tab, \
             and the method of a question ({})",
            names().collect::<Vec<_>>().join(", "),
            Kind::ALL.map(Kind::method).join(", "),
        )),
    });
    entries.collect::<Result<_, _>>().map(Some)
}

/// Whether it is what handlers are called with: a question, or other traffic that a client may note.
fn is_method(method: &str) -> bool {
    let mut others = ["ping", "roots/", "tasks/", "notifications/"].into_iter();
    Kind::of(method).is_some() || others.any(|start| method.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario;

    #[test]
    fn a_line_of_the_log_that_is_none_is_no_question_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("handled");
        let neighbours = scenario::all().unwrap();
        let neighbours = neighbours.iter().find(|one| one.name == "neighbours");
        let servers = &neighbours.unwrap().servers;
        assert_eq!(read_log(&log, servers), Ok(None));
        fs::write(
            &log,
            "beta\tsampling/createMessage\nbeta\tnotifications/cancelled\n",
        )
        .unwrap();
        let entry = |method: &str| ("beta".to_owned(), method.to_owned());
        let both = ["sampling/createMessage", "notifications/cancelled"].map(entry);
        assert_eq!(read_log(&log, servers), Ok(Some(both.to_vec())));
        for wrong in [
            "beta sampling/createMessage",
            "twin\tsampling/createMessage",
            "beta\tsampling",
            "",
        ] {
            fs::write(&log, format!("{wrong}\n")).unwrap();
            let why = read_log(&log, servers).unwrap_err();
            assert!(why.starts_with(&format!("it wrote {wrong:?}")), "{why}");
            assert!(why.contains("(alpha, beta, gamma)"), "{why}");
        }
    }
}
