// The page: tabs, the path, and the responses of POST /translate. Text is inserted as text, never as HTML.
"use strict";

const byId = (id) => document.getElementById(id);
const server = { languages: [], directions: [], limits: { characters: 2000, hops: 8 } };
let path = [];
let newest = 0; // number of the newest request, whose answer is shown
let token = sessionStorage.getItem("token") || "";

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const speech = (tag, language, text, className = "") => element(tag, { lang: language, dir: "auto", className }, text);
const percent = (share) => `${Math.round(100 * share)}%`;
const arrows = (walk) => walk.replaceAll(">", " → ");

function complain(id, message) {
  byId(id).textContent = message || "";
  byId(id).hidden = !message;
}

async function ask(address, body) {
  const headers = { ...(body && { "content-type": "application/json" }), ...(token && { authorization: `Bearer ${token}` }) };
  const options = { headers, ...(body && { method: "POST", body: JSON.stringify(body) }) };
  let answer;
  try {
    answer = await fetch(address, options);
  } catch {
    throw new Error("The server does not answer. Is it still running?");
  }
  const told = await answer.json().catch(() => ({}));
  if (answer.status === 401) byId("token-form").hidden = false;
  if (!answer.ok) throw new Error(told.error || `The server answered ${answer.status}.`);
  return told;
}

// -- tabs --------------------------------------------------------------------------------------------------------

const tabs = [...document.querySelectorAll("[role=tab]")];

function show(tab) {
  for (const one of tabs) {
    const chosen = one === tab;
    one.setAttribute("aria-selected", chosen);
    one.tabIndex = chosen ? 0 : -1;
    byId(one.getAttribute("aria-controls")).hidden = !chosen;
  }
  history.replaceState(null, "", tab.id === "tab-watch" ? "#watch" : "#translate");
  watching(tab.id === "tab-watch");
}

tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => show(tab));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(place + step + tabs.length) % tabs.length];
    next.focus();
    show(next);
  });
});

// -- the path ----------------------------------------------------------------------------------------------------

const canFollow = (language) =>
  path.length ? server.directions.includes(`${path.at(-1)}>${language}`) && path.length <= server.limits.hops
    : server.directions.some((direction) => direction.startsWith(`${language}>`));

function drawPath() {
  byId("path").replaceChildren(...path.map((language) => element("li", {}, element("span", {}, language))));
  byId("ask").textContent = path.length ? "Continue to" : "Start from";
  for (const button of byId("languages").children) button.disabled = !canFollow(button.textContent);
  byId("back").disabled = byId("clear").disabled = path.length === 0;
  byId("go").disabled = path.length < 2;
}

function setPath(languages) {
  path = languages;
  drawPath();
}

function drawLanguages() {
  byId("languages").replaceChildren(...server.languages.map((language) => {
    const button = element("button", { type: "button" }, language);
    button.addEventListener("click", () => setPath([...path, language]));
    return button;
  }));
}

byId("back").addEventListener("click", () => setPath(path.slice(0, -1)));
byId("clear").addEventListener("click", () => setPath([]));

function count() {
  const length = [...byId("text").value].length;
  byId("count").textContent = `${length.toLocaleString("en")} of ${server.limits.characters.toLocaleString("en")} characters`;
}

// -- the answer --------------------------------------------------------------------------------------------------

function marked(differences, language) {
  const tags = { same: "span", lost: "del", new: "ins" };
  const line = element("span", { lang: language, dir: "auto", className: "line" });
  differences.forEach((one, place) => {
    if (place && !/^[.,;:!?…)\]»”。、，；！？؟।]/.test(one.text)) line.append(" ");
    line.append(element(tags[one.kind], {}, one.text));
  });
  return line;
}

function card(walk, note, line, steps, start) {
  const summary = element("summary", {}, element("span", { className: "route" }, arrows(walk)),
    element("span", { className: "quiet" }, note), line);
  const follow = element("button", { type: "button" }, "Take this path");
  follow.addEventListener("click", () => {
    setPath(walk.split(">"));
    translate();
  });
  const list = element("div", { className: "steps" });
  for (const step of [start, ...steps]) list.append(element("b", {}, step.language), speech("span", step.language, step.text));
  return element("details", { className: "card" }, summary, list, follow);
}

function confidence(translation) {
  const share = translation.confidence;
  if (share === null) return element("p", { className: "quiet" }, "No confidence: no other path leads to this language.");
  const word = share >= 0.85 ? "high" : share >= 0.5 ? "fair" : "low";
  const meter = element("meter", { min: 0, max: 1, low: 0.5, high: 0.85, optimum: 1, value: share, id: "confidence" });
  meter.setAttribute("aria-label", "confidence");
  const count = translation.ways.length;
  const drawn = `${percent(share)} of the words agree with ${count === 1 ? "the other path" : `${count} other paths`}`;
  return element("p", {}, "Confidence: ", element("strong", {}, word), " ", meter, " ",
    element("span", { className: "quiet" }, drawn));
}

// Two decimals with a true minus sign, and none before a zero.
function decimal(value) {
  return (Math.round(value * 100) / 100 || 0).toFixed(2).replace("-", "−");
}

function drawAnswer(answer, text, wanted) {
  const translation = answer.translations[0];
  const languages = answer.path.split(">");
  const start = { language: languages[0], text };
  const parts = [speech("p", languages.at(-1), translation.text || "(nothing)", "said")];
  if (languages.length > 2) parts.push(card(answer.path, "each step", "", translation.steps, start));
  if (translation.ways && languages[0] !== languages.at(-1)) parts.push(confidence(translation));
  if (wanted > 1) {
    const items = translation.nbest.map((one) => element("li", {}, speech("span", languages.at(-1), one.text), " ",
      element("span", { className: "quiet" }, `log-probability ${decimal(one.score)}`)));
    parts.push(element("h2", {}, "Best translations"), element("ol", { className: "nbest" }, ...items));
  }
  if (translation.ways?.length) {
    parts.push(element("h2", {}, "Through other languages"), ...translation.ways.map((way) =>
      card(way.path, `${percent(way.likeness)} alike`, marked(way.differences, languages.at(-1)), way.steps, start)));
  }
  if (translation.loops?.length) {
    parts.push(element("h2", {}, "Translated back"), ...translation.loops.map((loop) =>
      card(loop.path, `${percent(loop.likeness)} of the words returned`, marked(loop.differences, languages[0]), loop.steps, start)));
    parts.push(element("p", { className: "quiet" }, element("del", {}, "struck"), " words are missing, ",
      element("ins", {}, "underlined"), " words were added."));
  }
  byId("result").replaceChildren(...parts);
}

async function translate() {
  const number = ++newest;
  const text = byId("text").value.trim();
  complain("problem", "");
  if (!text) return complain("problem", "Type a sentence first.");
  byId("result").setAttribute("aria-busy", "true");
  byId("go").textContent = "Translating…";
  try {
    const wanted = Number(byId("nbest").value);
    const body = { path: path.join(">"), texts: [text], nbest: wanted, loops: byId("loops").checked };
    const answer = await ask("/translate", body);
    if (number === newest) drawAnswer(answer, text, wanted);
  } catch (error) {
    if (number === newest) {
      byId("result").replaceChildren();
      complain("problem", error.message);
    }
  }
  byId("result").setAttribute("aria-busy", "false");
  byId("go").textContent = "Translate";
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (path.length > 1) translate();
});
byId("text").addEventListener("input", count);
byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});

// -- the start ---------------------------------------------------------------------------------------------------

async function meet() {
  Object.assign(server, await ask("/health"));
  byId("token-form").hidden = Boolean(server.run);
  if (!server.run) throw new Error("This server needs a token.");
  byId("run").textContent = server.stage ? `${server.run} · ${server.stage}` : server.run;
  const waiting = "No stage of the run is finished yet. See the tab Watch training.";
  complain("problem", server.stage ? "" : server.problem ?? waiting);
  drawLanguages();
  if (!path.length && server.directions.length) path = server.directions[0].split(">");
  drawPath();
  count();
  if (!server.stage) setTimeout(start, 5000);
}

function start() {
  meet().catch((error) => complain("problem", error.message));
}

byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  sessionStorage.setItem("token", token); // until the tab is closed
  start();
});

addEventListener("DOMContentLoaded", () => {
  start();
  if (location.hash === "#watch") show(byId("tab-watch"));
});
