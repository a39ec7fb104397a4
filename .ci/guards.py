"""The guards of `serve`, each with what takes it out and the tests that must fail then.

All of them are patched into one build, where each stays as it is until its switch is thrown: a build for each would
take longer than all else. In the replacement OFF is the switch, an expression that is true once the guard is off.
"""

# Name: (a text that stands in src/ once, what takes its place, names of tests of the target `relay_serve`).
GUARDS = {
    "questions in events are judged": (
        "            Piece::Event(raw) => {\n",
        "            Piece::Event(raw) if OFF => out.extend_from_slice(raw),\n            Piece::Event(raw) => {\n",
        [
            "questions::what_is_over_the_limit_goes_back_to_the_server",
            "questions::data_over_several_lines_is_one_message",
            "rounds::an_event_that_does_not_fit_keeps_its_fields",
            "rounds::a_server_request_of_the_new_era_ends_the_call_it_came_with",
        ],
    ),
    "bodies of JSON are judged": (
        "    if body.trim_ascii().is_empty() {",
        "    if OFF || body.trim_ascii().is_empty() {",
        [
            "questions::a_body_that_is_only_a_question_ends_the_call",
            "questions::a_batch_loses_its_refused_members",
            "rounds::a_body_that_does_not_fit_is_replaced_by_our_error",
        ],
    ),
    "a last event without an end is judged": (
        "            } else {\n                Piece::Event(self.give(end))\n            });\n        }\n        if self.in_long_event",
        "            } else if OFF {\n                Piece::Blank(self.give(end))\n"
        "            } else {\n                Piece::Event(self.give(end))\n            });\n        }\n        if self.in_long_event",
        ["questions::the_last_event_need_not_end"],
    ),
    "comments are searched": (
        "Piece::Comment(line) if is_broken || self.judge.suspects(line)",
        "Piece::Comment(line) if is_broken || (!OFF && self.judge.suspects(line))",
        ["questions::what_only_some_readers_take_for_a_question_is_withheld"],
    ),
    "lines of data are put together": (
        "            (b\"data\", value) => data.push(value),",
        "            (b\"data\", value) => {\n"
        "                if OFF { data.clear(); }\n                data.push(value);\n            }",
        ["questions::data_over_several_lines_is_one_message"],
    ),
    "names broken over lines are found": (
        "    Broken::may_be_in(raw)\n",
        "    !OFF && Broken::may_be_in(raw)\n",
        ["questions::what_only_some_readers_take_for_a_question_is_withheld"],
    ),
    "names broken over events are found": (
        "let is_broken = across(",
        "let is_broken = !OFF && across(",
        ["questions::what_only_some_readers_take_for_a_question_is_withheld"],
    ),
    "long events are searched": (
        "if is_broken || search.finds_in(bytes) || (last && search.finds_at_end()) {",
        "if !OFF && (is_broken || search.finds_in(bytes) || (last && search.finds_at_end())) {",
        ["bounds::a_long_event_passes_in_parts_unless_it_may_ask"],
    ),
    "long bodies are searched": (
        "        if found {\n            self.judge.withhold();",
        "        if found && !OFF {\n            self.judge.withhold();",
        ["bounds::a_long_body_passes_in_parts_unless_it_may_ask"],
    ),
    "a withheld event leaves its place": (
        "        if is_kept && !judge",
        "        if !OFF && is_kept && !judge",
        ["questions::a_withheld_event_leaves_its_place_in_the_stream"],
    ),
    "refusals are posted": (
        "            self.replies.extend(replies);",
        "            if !OFF { self.replies.extend(replies); }",
        ["proofs::every_withheld_request_is_refused_to_its_server", "sdk::a_flood_of_requests_ends_at_the_relay"],
    ),
    "a refusal goes to the session that was asked in": (
        "    headers.insert(ACCEPT, JSON_OR_EVENTS);",
        "    headers.insert(ACCEPT, JSON_OR_EVENTS);\n    if OFF { headers.remove(SESSION_ID); }",
        ["questions::what_is_over_the_limit_goes_back_to_the_server", "sdk::a_flood_of_requests_ends_at_the_relay"],
    ),
    "a refusal says nothing of the call": (
        "        if !left_out(name.as_str()) {",
        "        if OFF || !left_out(name.as_str()) {",
        ["questions::what_is_over_the_limit_goes_back_to_the_server", "proofs::a_refusal_resumes_nothing"],
    ),
    "a refusal that is not taken is counted": (
        "    if status.is_success() {\n        Ok(())",
        "    if OFF || status.is_success() {\n        Ok(())",
        ["proofs::a_refusal_that_is_not_taken_is_counted_and_not_sent_again"],
    ),
    "what cannot be read is counted": (
        "        self.notices.withheld(self.session.server());",
        "        if !OFF { self.notices.withheld(self.session.server()); }",
        ["proofs::what_cannot_be_read_for_sure_is_counted_apart"],
    ),
    "refusals are eight at a time": (
        "            let _in_flight = in_flight.acquire().await;",
        "            let _in_flight = if OFF { None } else { Some(in_flight.acquire().await) };",
        ["bounds::refusals_are_posted_eight_at_a_time"],
    ),
    "nothing is posted in the later era": (
        "        let call = &self.side.call;\n        if !call.has_rounds {",
        "        let call = &self.side.call;\n        if OFF || !call.has_rounds {",
        [
            "rounds::a_server_request_of_the_new_era_ends_the_call_it_came_with",
            "rounds::on_a_subscription_it_is_only_withheld",
        ],
    ),
    "Host is checked": (
        "        if !named || uri.authority().is_some_and(|it| !self.is_ours(it)) {",
        "        if !OFF && (!named || uri.authority().is_some_and(|it| !self.is_ours(it))) {",
        ["guard::pages_of_other_sites_are_kept_out_before_anything_else"],
    ),
    "Origin is checked": (
        "            if !origin.to_str().is_ok_and(allowed) {",
        "            if !OFF && !origin.to_str().is_ok_and(allowed) {",
        ["guard::pages_of_other_sites_are_kept_out_before_anything_else"],
    ),
    "what a browser shows is kept out": (
        "    if is(\"sec-fetch-mode\", \"navigate\") {",
        "    if !OFF && is(\"sec-fetch-mode\", \"navigate\") {",
        ["guard::no_browser_shows_a_server_and_no_image_reaches_it"],
    ),
    "what sites embed is kept out": (
        "    if is(\"sec-fetch-site\", \"cross-site\") && !headers.contains_key(ORIGIN) {",
        "    if !OFF && is(\"sec-fetch-site\", \"cross-site\") && !headers.contains_key(ORIGIN) {",
        ["guard::no_browser_shows_a_server_and_no_image_reaches_it"],
    ),
    "no script of a server runs in a page": (
        "    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);",
        "    if !OFF { headers.insert(CONTENT_SECURITY_POLICY, SANDBOX); }",
        ["guard::no_browser_shows_a_server_and_no_image_reaches_it"],
    ),
    "no other origin is redirected to": (
        "                .is_some_and(|to| to.origin() == self.url.origin());",
        "                .is_some_and(|to| OFF || to.origin() == self.url.origin());",
        ["proofs::nothing_is_sent_to_where_a_server_redirects"],
    ),
    "other redirects are not followed": (
        "                Some(to) if to_itself && is_same_request => url = to,",
        "                Some(to) if to_itself && (OFF || is_same_request) => url = to,",
        ["guard::redirects_are_followed_to_the_server_alone"],
    ),
    "no other address is handed out": (
        "    headers.remove(ALT_SVC);",
        "    if !OFF { headers.remove(ALT_SVC); }",
        ["passing::a_request_and_its_answer_pass_with_headers_and_bytes"],
    ),
    "no endpoint of the first transport passes": (
        "                event.is_endpoint |= name",
        "                event.is_endpoint |= !OFF && name",
        ["guard::the_endpoint_of_the_first_transport_does_not_pass"],
    ),
    "nothing encoded passes": (
        "    if is_encoded {",
        "    if is_encoded && !OFF {",
        ["guard::what_cannot_be_looked_at_is_a_bad_gateway"],
    ),
    "the server is asked for identity": (
        "    headers.insert(ACCEPT_ENCODING, IDENTITY);",
        "    if !OFF { headers.insert(ACCEPT_ENCODING, IDENTITY); }",
        ["passing::a_request_and_its_answer_pass_with_headers_and_bytes"],
    ),
    "a cookie is for its server alone": (
        "            if let Some(bound) = bound_to(cookie, path) {",
        "            if let Some(bound) = bound_to(cookie, path).filter(|_| !OFF) {",
        ["passing::a_request_and_its_answer_pass_with_headers_and_bytes"],
    ),
    "a length is that of the body": (
        "    headers.remove(CONTENT_LENGTH);",
        "    if !OFF { headers.remove(CONTENT_LENGTH); }",
        ["transport::a_response_is_one_to_its_client_however_it_is_framed"],
    ),
    "what tells of a body goes with it": (
        "    for name in ABOUT_THE_BODY {\n        headers.remove(name);",
        "    for name in ABOUT_THE_BODY {\n        if OFF && name != CONTENT_LENGTH { continue; }\n        headers.remove(name);",
        ["questions::a_batch_loses_its_refused_members"],
    ),
    "a session has windows of its own": (
        "        let row = self.row();\n        let born = Born {",
        "        let row = if OFF { Arc::clone(&self.shared) } else { self.row() };\n        let born = Born {",
        ["sessions::a_protocol_session_has_windows_of_its_own"],
    ),
    "an id used again begins nothing anew": (
        "        if let Some(born) = rows.born.get_mut(id) {\n            born.used = now;\n            return",
        "        if let Some(born) = rows.born.get_mut(id).filter(|_| !OFF) {\n            born.used = now;\n            return",
        ["sessions::a_protocol_session_has_windows_of_its_own"],
    ),
    "only a session that was seen to begin is one": (
        "            None => Arc::clone(&self.shared),",
        "            None if OFF => self.row(),\n            None => Arc::clone(&self.shared),",
        ["sessions::sessions_whose_beginning_was_not_seen_share_one"],
    ),
    "the later era has no sessions of the protocol": (
        "        true => None,\n        false => parts.headers.get(SESSION_ID),",
        "        true if !OFF => None,\n        _ => parts.headers.get(SESSION_ID),",
        ["sessions::without_protocol_sessions_the_path_is_the_session"],
    ),
    "a client's message is bounded": (
        "        if all.len() > LONGEST_BODY {",
        "        if !OFF && all.len() > LONGEST_BODY {",
        ["bounds::a_clients_message_has_a_bound"],
    ),
    "what all hold at once is bounded": (
        "        if needed > has {",
        "        if !OFF && needed > has {",
        [
            "bounds::what_all_clients_send_at_once_has_a_bound",
            "bounds::messages_that_are_half_there_do_not_wait_for_one_another",
            "bounds::without_room_an_answer_goes_on_in_parts",
            "bounds::what_a_client_does_not_read_is_counted",
        ],
    ),
    "what is given on is counted until it is gone": (
        "        match self.split(bytes.capacity().saturating_sub(self.free)) {",
        "        match self.split(bytes.capacity().saturating_sub(self.free)).filter(|_| !OFF) {",
        ["bounds::what_all_clients_send_at_once_has_a_bound", "bounds::what_a_client_does_not_read_is_counted"],
    ),
    "Authorization is not logged": (
        "        let mut all = headers.clone();\n",
        "        let mut all = headers.clone();\n"
        "        if OFF {\n"
        "            let sent = headers.get(\"authorization\").map(|it| String::from_utf8_lossy(it.as_bytes()));\n"
        "            tracing::debug!(authorization = ?sent, \"a request\");\n"
        "        }\n",
        ["command::no_secret_is_logged_however_much_is"],
    ),
    "a server's URL is not told": (
        "            host: self.host(),\n            error: error.without_url(),",
        "            host: self.host(),\n            error: if OFF { error } else { error.without_url() },",
        ["guard::a_server_that_is_not_there_is_said_without_its_url"],
    ),
    "the mute button sends its token": (
        "        .is_some_and(|sent| equal(sent.as_bytes(), token.as_bytes()))",
        "        .is_some_and(|sent| OFF || equal(sent.as_bytes(), token.as_bytes()))",
        ["operating::only_the_page_itself_can_mute"],
    ),
    "only the page's own origin may mute": (
        "    if !is_same_origin(&headers) {",
        "    if !OFF && !is_same_origin(&headers) {",
        ["operating::only_the_page_itself_can_mute"],
    ),
}
