//! Every setting takes effect, from wherever it may come.

use mcp_question_throttle::{
    limits::{ProtoSettings, ServerName},
    settings,
};

use super::{EXAMPLE, SCALARS, json, name, parse, with_variables};

#[test]
fn the_example_has_every_key_at_its_default() {
    let loaded = parse(EXAMPLE).unwrap();
    assert_eq!(*loaded.settings().proto(), ProtoSettings::default());
    assert!(loaded.servers().is_empty());

    let table: toml::Table = EXAMPLE.parse().unwrap();
    let written = serde_json::to_value(&table["proto"]).unwrap();
    assert_eq!(
        written,
        json(&ProtoSettings::default()),
        "written out key for key"
    );
    for setting in loaded.in_force(None) {
        assert!(
            setting.origin.to_string().starts_with("settings.toml:"),
            "{setting:?}"
        );
    }
    let status = table["status"].as_table().unwrap();
    assert_eq!(status.len(), 1);
    assert_eq!(status["muteButton"].as_bool(), Some(false));
    for (_, variable, ..) in SCALARS {
        assert!(EXAMPLE.contains(variable), "{variable} is not mentioned");
    }
}

#[test]
fn what_the_example_only_shows_is_valid_too() {
    let mut shown = String::new();
    for line in EXAMPLE.lines() {
        let code = line.strip_prefix("# ").unwrap_or(line);
        let is_pair = code.split_whitespace().nth(1) == Some("=");
        if code.starts_with('[') || is_pair {
            shown.push_str(code);
        }
        shown.push('\n');
    }
    let loaded = parse(&shown).unwrap();
    let servers: Vec<_> = loaded.servers().keys().map(ServerName::as_str).collect();
    assert_eq!(servers, ["docs", "github"]);
    assert_eq!(loaded.settings().proto().questions.iter().count(), 1);
}

#[test]
fn no_setting_is_forgotten_here() {
    let here = SCALARS.map(|(key, variable, ..)| (format!("proto.{key}"), variable));
    let known = settings::variables().map(|(name, variable)| (name.to_owned(), variable));
    assert_eq!(here.to_vec(), known.collect::<Vec<_>>());
}

#[test]
fn every_setting_takes_effect_from_the_file() {
    for (key, _, value, _) in SCALARS {
        let loaded = parse(&format!("[proto]\n{key} = {value}")).unwrap();
        let found = json(loaded.settings().proto());
        assert_eq!(found[key].to_string(), value, "{key}");
        assert_ne!(found, json(&ProtoSettings::default()), "{key}");
        let origin = loaded.origin(None, &format!("proto.{key}")).unwrap();
        assert_eq!(origin.to_string(), "settings.toml:2");
    }
}

#[test]
fn every_way_to_write_it_in_toml_is_read_alike() {
    for text in [
        "[proto]\nsamplingPerMinute = 16\naskTTL = '2m'",
        "proto.samplingPerMinute = 1_6\nproto.askTTL = \"120s\"",
        "proto = { samplingPerMinute = 0x10, askTTL = '2m' }",
        "['proto']\n\"samplingPerMinute\" = +16\naskTTL = '''2m'''",
        "\"\\u0070roto\".samplingPerMinute = 0b10000\nproto.\"askTTL\" = \"\"\"\n2m\"\"\"",
    ] {
        let loaded = parse(text).unwrap();
        let proto = loaded.settings().proto();
        assert_eq!(proto.sampling_per_minute.get(), 16, "{text}");
        assert_eq!(proto.ask_ttl.to_string(), "2m", "{text}");
    }
}

#[test]
fn every_setting_takes_effect_for_one_server() {
    let github = name("github");
    for (key, _, value, _) in SCALARS {
        let text = format!("[servers.github.proto]\n{key} = {value}\n[servers.other]");
        let loaded = parse(&text).unwrap();
        let own = json(&loaded.settings().for_server(&github));
        assert_eq!(own[key].to_string(), value, "{key}");
        let other = loaded.settings().for_server(&name("other"));
        assert_eq!(other, ProtoSettings::default(), "{key}");
    }
}

#[test]
fn every_variable_takes_effect_above_the_file() {
    for (key, variable, value, written) in SCALARS {
        for text in ["", EXAMPLE] {
            let loaded = with_variables(text, &[(variable, written)]).unwrap();
            let found = json(loaded.settings().proto());
            assert_eq!(found[key].to_string(), value, "{variable}");
            let origin = loaded.origin(None, &format!("proto.{key}")).unwrap();
            assert_eq!(origin.to_string(), variable);
        }
    }
}

#[test]
fn a_servers_own_table_stands_above_a_variable() {
    let loaded = with_variables(
        "[servers.a.proto]\nsamplingPerMinute = 1\n[servers.b]",
        &[("MCP_QUESTION_THROTTLE_PROTO_SAMPLING_PER_MINUTE", "2")],
    )
    .unwrap();
    let limit = |server| {
        loaded
            .settings()
            .for_server(&name(server))
            .sampling_per_minute
    };
    assert_eq!(limit("a").get(), 1);
    assert_eq!(limit("b").get(), 2);
    let origin = |server| {
        let origin = loaded.origin(Some(&name(server)), "proto.samplingPerMinute");
        origin.unwrap().to_string()
    };
    assert_eq!(origin("a"), "settings.toml:2");
    assert_eq!(
        origin("b"),
        "MCP_QUESTION_THROTTLE_PROTO_SAMPLING_PER_MINUTE"
    );
    let none = loaded.origin(Some(&name("a")), "proto.askTTL").unwrap();
    assert_eq!(none.to_string(), "default");
    assert_eq!(loaded.origin(None, "proto.nonesuch"), None);
}
