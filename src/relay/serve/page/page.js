// Shows what /status says. Every text that comes from there is set as text, never as markup.
"use strict";

const KINDS = ["sampling", "elicitation"];
const SVG = "http://www.w3.org/2000/svg";
const STEPS = 60;
const token = document.querySelector("meta[name=mute-token]").content;
const number = new Intl.NumberFormat("en");
const cards = new Map();
let latest = null;
let received = 0;

function element(name, props = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props)) {
    if (key === "class") made.className = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Only what differs is changed, so that a screen reader and a selection stay where they are.
function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function set(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

const questions = (count) => `${number.format(count)} ${count === 1 ? "question" : "questions"}`;
const limitWord = (limit) => limit.replace("proto.", "");

function duration(ms) {
  if (ms < 1000) return `${ms} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function makeKind(kind, id) {
  const heading = element("h3", { id: `${id}-${kind}` }, kind === "sampling" ? "Sampling" : "Elicitation");
  const used = element("span", { class: "used" });
  const fill = element("div", { class: "fill" });
  const bar = element("div", { class: "bar", role: "meter", "aria-valuemin": 0, "aria-labelledby": `${id}-${kind}` }, fill);
  const left = element("span", { class: "left faint" });
  const session = makeSession(`${id}-${kind}`);
  const totals = element("p", { class: "totals faint" });
  const plot = document.createElementNS(SVG, "svg");
  plot.setAttribute("class", "plot");
  plot.setAttribute("viewBox", `0 0 ${STEPS} 20`);
  plot.setAttribute("preserveAspectRatio", "none");
  plot.setAttribute("role", "img");
  const caption = element("p", { class: "faint plotted" });
  const box = element("div", { class: `kind ${kind}` },
    element("div", { class: "line" }, heading, used), bar, left, session.box, totals, plot, caption);
  return { box, used, fill, bar, left, session, totals, plot, caption };
}

// A session can be at its limit while the server is far from its own.
function makeSession(heading) {
  const text = element("span", { class: "faint" });
  const fill = element("div", { class: "fill" });
  const bar = element("div", { class: "bar thin", role: "meter", "aria-valuemin": 0, "aria-label": "Fullest session" }, fill);
  const box = element("div", { class: "session", "aria-labelledby": heading }, bar, text);
  return { box, text, fill, bar };
}

function makeTable(caption, columns) {
  const body = element("tbody");
  const head = element("tr", {}, ...columns.map(([name, type]) => element("th", { scope: "col", class: type }, name)));
  const table = element("table", {}, element("caption", {}, caption), element("thead", {}, head), body);
  return { table: element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, table), caption: table.caption, body, columns };
}

function setCaption({ table, caption }, text) {
  say(caption, text);
  set(table, "aria-label", text);
}

// The rows of a table, by place: cells whose text did not change are left alone.
function fillTable({ table, body, columns }, rows) {
  table.hidden = rows.length === 0;
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((row, at) => {
    const line = body.rows[at] ?? body.insertRow();
    line.className = row.class ?? "";
    while (line.cells.length > row.cells.length) line.deleteCell(-1);
    row.cells.forEach((text, place) => {
      const cell = line.cells[place] ?? line.insertCell();
      cell.className = columns[place][1];
      say(cell, String(text));
    });
  });
}

function makeCard(server) {
  const id = `server-${cards.size}`;
  const heading = element("h2", { id });
  heading.textContent = server.server;
  const mode = element("span", { class: "badge observed" }, "observed only");
  const muted = element("span", { class: "badge muted" }, "muted");
  const top = element("div", { class: "top" }, heading, mode, muted);
  const card = { heading, mode, muted, kinds: {} };
  if (token) {
    card.button = element("button", { type: "button" }, "Mute");
    card.button.addEventListener("click", () => mute(card));
    top.append(card.button);
  }
  card.said = element("p", { class: "faint said", role: "status" });
  const kinds = element("div", { class: "kinds" });
  for (const kind of KINDS) {
    card.kinds[kind] = makeKind(kind, id);
    kinds.append(card.kinds[kind].box);
  }
  card.causes = makeTable("Over a limit since the relay began", [["Limit or cause", "verdict"], ["Origin", ""], ["Questions", "number"]]);
  card.refused = makeTable("Last refusals", [["Ago", "ago"], ["Kind", ""], ["Limit or cause", "verdict"]]);
  card.recent = makeTable("Last questions", [["Ago", "ago"], ["Kind", ""], ["Questions", "number"], ["Door", ""], ["Origin", ""], ["Verdict", "verdict"], ["Answer", ""], ["Session", "number"]]);
  card.details = element("details", {}, element("summary", {}, "Last questions"), card.recent.table);
  const box = element("section", { class: "server", "aria-labelledby": id }, top, card.said, kinds,
    element("div", { class: "tables" }, card.causes.table, card.refused.table), card.details);
  card.box = box;
  document.getElementById("servers").append(box);
  return card;
}

function showKind(shown, server, kind, passed) {
  const counts = server[kind];
  const { used: counted, limit, timeLeftMs } = counts.window;
  const left = timeLeftMs === undefined ? undefined : timeLeftMs - passed;
  const used = left !== undefined && left <= 0 ? 0 : counted;
  const part = limit ? Math.min(1, used / limit) : 0;
  say(shown.used, limit === undefined ? "no limit" : `${number.format(used)} of ${number.format(limit)}`);
  shown.fill.style.width = `${part * 100}%`;
  shown.fill.className = `fill ${part >= 1 ? "full" : part >= 0.75 ? "near" : ""}`;
  shown.bar.classList.toggle("none", limit === undefined);
  set(shown.bar, "aria-valuemax", limit ?? 0);
  set(shown.bar, "aria-valuenow", limit === undefined ? 0 : used);
  const seconds = left > 0 ? Math.ceil(left / 1000) : 0;
  const window = limit === undefined ? "" : seconds > 0 ? `${seconds} s left in the window` : "no window open";
  say(shown.left, window);
  set(shown.bar, "aria-valuetext", limit === undefined ? "no limit" : `${used} of ${limit}, ${window}`);
  showSession(shown.session, server.sessions.map((session) => session[kind]), passed);
  const refused = counts.refusedByServerLimit + counts.refusedBySessionLimit + counts.refusedWhileMuted;
  const would = counts.wouldRefuseByServerLimit + counts.wouldRefuseBySessionLimit;
  const open = server.usage?.[kind].open ?? 0;
  const answered = server.usage?.[kind].answered ?? 0;
  shown.totals.dataset.admitted = counts.admitted;
  shown.totals.dataset.refused = refused;
  shown.totals.dataset.would = would;
  const parts = [`${number.format(counts.admitted)} admitted`];
  if (would) parts.push(`${number.format(would)} would be refused`);
  parts.push(`${number.format(refused)} refused`);
  if (open) parts.push(`${number.format(open)} open now`);
  if (answered) parts.push(`answered after ${duration(Math.round(server.usage[kind].answerSeconds * 1000 / answered))} on average`);
  say(shown.totals, parts.join(" · "));
  plot(shown, server.usage?.history ?? [], kind);
}

function showSession(shown, windows, passed) {
  const bounded = windows.filter((window) => window.limit !== undefined && window.timeLeftMs > passed);
  bounded.sort((a, b) => b.used / b.limit - a.used / a.limit);
  const [fullest] = bounded;
  shown.box.hidden = !fullest;
  if (!fullest) return;
  const part = Math.min(1, fullest.used / fullest.limit);
  const which = windows.length === 1 ? "its session" : `the fullest of ${windows.length} sessions`;
  say(shown.text, `${which}: ${fullest.used} of ${fullest.limit}, ${Math.ceil((fullest.timeLeftMs - passed) / 1000)} s left`);
  shown.fill.style.width = `${part * 100}%`;
  shown.fill.className = `fill ${part >= 1 ? "full" : part >= 0.75 ? "near" : ""}`;
  set(shown.bar, "aria-valuemax", fullest.limit);
  set(shown.bar, "aria-valuenow", fullest.used);
  set(shown.bar, "aria-valuetext", shown.text.textContent);
}

// The last minutes: a bar for each step, the newest on the right.
function plot(shown, history, kind) {
  const steps = history.map((step) => step[kind]);
  const sum = (step) => step.admitted + step.wouldRefuse + step.refused;
  const most = Math.max(0, ...steps.map(sum));
  const key = JSON.stringify(steps);
  if (shown.plotted === key) return;
  shown.plotted = key;
  const bars = [];
  steps.forEach((step, at) => {
    let base = 20;
    for (const [name, count] of [["admitted", step.admitted], ["would", step.wouldRefuse], ["refused", step.refused]]) {
      if (!count) continue;
      // Counts of a flood and of a single question have to be seen side by side.
      const height = Math.max(0.8, 20 * scaled(sum(step), most) * count / sum(step));
      base -= height;
      const bar = document.createElementNS(SVG, "rect");
      bar.setAttribute("class", name);
      bar.setAttribute("x", STEPS - steps.length + at + 0.1);
      bar.setAttribute("y", base.toFixed(2));
      bar.setAttribute("width", 0.8);
      bar.setAttribute("height", height.toFixed(2));
      bars.push(bar);
    }
  });
  shown.plot.replaceChildren(...bars);
  const all = steps.reduce((total, step) => total + sum(step), 0);
  const text = all ? `Last 5 minutes: ${questions(all)}, at most ${number.format(most)} in 5 s` : "Last 5 minutes: nothing asked";
  set(shown.plot, "aria-label", text);
  shown.plot.toggleAttribute("hidden", !all);
  say(shown.caption, text);
}

const scaled = (count, most) => most > 100 ? Math.log1p(count) / Math.log1p(most) : count / Math.max(most, 5);

function showCard(card, server, passed) {
  card.mode.hidden = server.mode !== "observe";
  card.muted.hidden = !server.muted;
  card.server = server;
  if (card.button) {
    say(card.button, server.muted ? "Unmute" : "Mute");
    set(card.button, "aria-label", `${server.muted ? "Unmute" : "Mute"} ${server.server}`);
  }
  for (const kind of KINDS) showKind(card.kinds[kind], server, kind, passed);
  const usage = server.usage ?? { counts: [], recent: [] };
  const word = (text) => (text ?? "").replaceAll("_", " ");
  const over = usage.counts.filter((count) => count.verdict !== "admitted");
  over.sort((a, b) => b.questions - a.questions);
  const observed = over.filter((count) => count.verdict === "would_refuse").length;
  setCaption(card.causes, `${observed === 0 ? "Refused" : observed === over.length ? "Over a limit, but only observed," : "Refused, or only observed,"} since the relay began`);
  fillTable(card.causes, over.map((count) => ({
    class: count.verdict,
    cells: [`${count.verdict === "would_refuse" ? "only observed: " : ""}${count.limit ? limitWord(count.limit) : `${word(count.cause)}, ${count.kind}`}`,
      word(count.origin), number.format(count.questions)],
  })));
  const reason = (it) => it.limit ? limitWord(it.limit) : word(it.cause);
  const ago = (it) => duration(Math.floor((it.agoMs + passed) / 1000) * 1000).replace("0 ms", "now");
  const refused = usage.recent.filter((it) => it.verdict === "refused").slice(0, 5);
  fillTable(card.refused, refused.map((it) => ({
    class: it.verdict, cells: [ago(it), it.kind, reason(it)],
  })));
  fillTable(card.recent, usage.recent.map((it) => ({
    class: it.verdict,
    cells: [ago(it), it.kind, it.questions, word(it.door), word(it.origin),
      it.verdict === "admitted" ? "admitted" : `${word(it.verdict)}: ${reason(it)}`,
      it.ending ? `${it.ending} after ${duration(it.tookMs)}` : it.verdict === "refused" ? "" : "open or not watched",
      it.session],
  })));
  card.details.hidden = usage.recent.length === 0;
}

function show() {
  if (!latest) return;
  const passed = Date.now() - received;
  const busy = [];
  for (const server of latest.servers) {
    if (!cards.has(server.server)) cards.set(server.server, makeCard(server));
    showCard(cards.get(server.server), server, passed);
    const asked = (server.usage?.history ?? []).slice(-12)
      .reduce((sum, step) => sum + KINDS.reduce((all, kind) => all + step[kind].admitted + step[kind].wouldRefuse + step[kind].refused, 0), 0);
    if (asked) busy.push([asked, server.server]);
  }
  const known = new Set(latest.servers.map((server) => server.server));
  for (const [name, card] of cards) {
    if (!known.has(name)) { card.box.remove(); cards.delete(name); }
  }
  busy.sort((a, b) => b[0] - a[0]);
  const names = busy.slice(0, 3).map(([asked, name]) => `${name} (${questions(asked)})`).join(", ");
  const more = busy.length > 3 ? ` and ${busy.length - 3} more` : "";
  say(document.getElementById("summary"), busy.length
    ? `In the last minute: ${names}${more}.`
    : `Nobody has asked in the last minute. ${latest.servers.length} ${latest.servers.length === 1 ? "server" : "servers"}.`);
}

async function mute(card) {
  card.button.disabled = true;
  const muted = !card.server.muted;
  try {
    const answer = await fetch("status/mute", {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mute-Token": token },
      body: JSON.stringify({ server: card.server.server, muted }),
    });
    say(card.said, answer.ok ? (muted ? "Every question is refused now." : "It may ask again, within its limits.") : `That failed: ${await answer.text()}`);
    if (answer.ok) receive(await answer.json());
  } catch {
    say(card.said, "That failed: the relay does not answer.");
  }
  card.button.disabled = false;
}

function receive(status) {
  latest = status;
  received = Date.now();
  show();
}

const connection = document.getElementById("connection");
const events = new EventSource("status/events");
events.addEventListener("message", (event) => {
  say(connection, "");
  connection.className = "";
  receive(JSON.parse(event.data));
});
events.addEventListener("error", () => {
  say(connection, "The connection to the relay is lost; these numbers are old. Trying again …");
  connection.className = "lost";
});
setInterval(show, 1000);
