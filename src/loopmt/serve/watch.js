// The second tab: requests new records of a stage from /watch and draws them.
"use strict";

const EVERY = 2000; // milliseconds between requests
const SIZE = { width: 480, height: 240, left: 44, right: 12, top: 10, bottom: 36 };
const SHAPES = 18; // colours times dash patterns
const FEW = 30; // lines with at most this many points have markers
const live = { on: false, timer: null, stage: null, offset: 0, records: [], samples: "" };

function watching(on) {
  live.on = on;
  clearTimeout(live.timer);
  if (on) look();
}

async function look() {
  clearTimeout(live.timer);
  const stage = live.stage;
  let wait = EVERY;
  try {
    const query = new URLSearchParams({ offset: live.offset, ...(stage && { stage }) });
    const told = await ask(`/watch?${query}`);
    if (stage !== live.stage) return; // the user has chosen another stage
    take(told);
    complain("watch-problem", "");
    if (told.more) wait = 0;
  } catch (error) {
    complain("watch-problem", error.message);
  }
  if (live.on) live.timer = setTimeout(look, document.hidden ? 5 * EVERY : wait);
}

function choose(stage) {
  Object.assign(live, { stage, offset: 0, records: [], samples: "" });
  look();
}

byId("stage").addEventListener("change", (event) => choose(event.target.value));

function take(told) {
  live.stage = told.stage;
  if (told.restarted) live.records = [];
  for (const record of told.records) {
    // A resumed run logs some updates again: drop their earlier records.
    live.records = live.records.filter((old) => old.update < record.update || (old.update === record.update && !same(old, record)));
    live.records.push(record);
  }
  live.offset = told.offset;
  drawStages(told);
  if (told.records.length || told.restarted || !byId("bleu").firstChild) drawRecords();
  drawSamples(told.samples);
}

const same = (one, other) => one.kind === other.kind && one.path === other.path && one.hop === other.hop;

function drawStages(told) {
  const options = told.stages.map((stage) => element("option", { value: stage.name, selected: stage.name === told.stage },
    `${stage.name} (${stage.state === "begun" ? "under way" : stage.state})`));
  if (document.activeElement !== byId("stage")) byId("stage").replaceChildren(...options);
  const stage = told.stages.find((one) => one.name === told.stage);
  byId("state").textContent = standing(stage);
}

function standing(stage) {
  if (stage.state === "not begun") return "not begun";
  const update = Math.max(0, ...live.records.map((record) => record.update));
  const end = live.records.findLast((record) => record.kind === "end");
  const speed = live.records.findLast((record) => record.kind === "train")?.tokens_per_second;
  const place = `update ${update.toLocaleString("en")}${stage.updates ? ` of ${stage.updates.toLocaleString("en")}` : ""}`;
  if (end) return `finished at ${place}; best BLEU ${end.best_bleu.toFixed(2)}${meanOf()} at update ${end.best_update.toLocaleString("en")}`;
  return [place, speed && `${Math.round(speed).toLocaleString("en")} tokens a second`, left(stage, update)].filter(Boolean).join(", ");
}

// The number of directions in the mean, which leaves out the untaught directions of a shared network.
function meanOf() {
  const last = live.records.findLast((record) => record.kind === "valid");
  const hops = Object.keys(last?.bleu ?? {});
  const count = hops.filter((hop) => !last.untaught?.includes(hop)).length || hops.length;
  return count > 1 ? ` (mean of ${count} directions)` : "";
}

// The time left, estimated from the last few records; validation is not included.
function left(stage, update) {
  const logs = live.records.filter((record) => record.kind === "train").slice(-6);
  const done = logs.length > 1 && logs.at(-1).update - logs[0].update;
  const seconds = logs.slice(1).reduce((sum, record) => sum + record.seconds, 0) / done * (stage.updates - update);
  if (!done || !stage.updates || !Number.isFinite(seconds)) return "";
  if (seconds < 90) return `about ${Math.ceil(seconds)} seconds left`;
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} minutes left` : `about ${(seconds / 3600).toFixed(1)} hours left`;
}

function drawRecords() {
  const series = (kind, key) => {
    const lines = {};
    for (const record of live.records.filter((one) => one.kind === kind)) {
      for (const [name, value] of Object.entries(record[key] || {})) {
        if (Number.isFinite(value)) (lines[name] ??= []).push([record.update, value]);
      }
    }
    return lines;
  };
  byId("bleu").replaceChildren(...chart(series("valid", "bleu"), "BLEU", true));
  byId("loss").replaceChildren(...chart(series("train", "loss"), "loss", false));
  const alarms = live.records.filter((record) => record.kind === "alarm").reverse().slice(0, 50);
  byId("alarms").replaceChildren(...(alarms.length ? alarms.map((alarm) => element("li", {},
    element("strong", {}, `update ${alarm.update.toLocaleString("en")}`), ` ${alarm.path === "validation" ? "" : "path "}${arrows(alarm.path)}, hop ${arrows(alarm.hop)}: ${alarm.what}`))
    : [element("li", { className: "none" }, "none")]));
}

// -- curves ------------------------------------------------------------------------------------------------------

function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function ticks(low, high) {
  const rough = (high - low) / 4 || 1;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((one) => one * unit >= rough);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) found.push(Number(value.toPrecision(6)));
  return found;
}

const shape = (place) => `c${place % 6} d${Math.floor(place / 6) % 3}`;

function chart(lines, unit, fromZero) {
  const names = Object.keys(lines).slice(0, SHAPES);
  if (!names.length) return [element("p", { className: "quiet" }, "nothing yet")];
  const points = names.flatMap((name) => lines[name]);
  const values = points.map((point) => point[1]);
  const last = Math.max(1, ...points.map((point) => point[0]));
  const least = fromZero ? 0 : Math.min(...values), most = Math.max(...values, least + 1e-3);
  const [low, high] = [fromZero ? 0 : least - (most - least) / 20, most + (most - least) / 20];
  const across = (update) => SIZE.left + (update / last) * (SIZE.width - SIZE.left - SIZE.right);
  const up = (value) => SIZE.height - SIZE.bottom - ((value - low) / (high - low)) * (SIZE.height - SIZE.top - SIZE.bottom);
  const ends = names.map((name) => `${name} ${lines[name].at(-1)[1].toFixed(2)}`).join(", ");
  const drawing = svg("svg", { viewBox: `0 0 ${SIZE.width} ${SIZE.height}`, role: "img", "aria-label": `${unit} at the last update: ${ends}` });
  for (const tick of ticks(low, high)) {
    drawing.append(svg("line", { class: "grid", x1: SIZE.left, x2: SIZE.width - SIZE.right, y1: up(tick), y2: up(tick) }),
      svg("text", { x: SIZE.left - 6, y: up(tick) + 4, "text-anchor": "end" }, String(tick)));
  }
  for (const tick of ticks(0, last)) {
    drawing.append(svg("text", { x: across(tick), y: SIZE.height - 18, "text-anchor": tick / last > 0.95 ? "end" : "middle" }, tick.toLocaleString("en")));
  }
  names.forEach((name, place) => {
    const places = lines[name].map(([update, value]) => [across(update).toFixed(1), up(value).toFixed(1)]);
    drawing.append(svg("polyline", { class: shape(place), points: places.join(" ") }));
    if (places.length <= FEW) drawing.append(...places.map(([cx, cy]) => svg("circle", { class: `c${place % 6}`, cx, cy, r: 2 })));
  });
  const axis = svg("text", { x: (SIZE.left + SIZE.width - SIZE.right) / 2, y: SIZE.height - 2, "text-anchor": "middle" }, "update");
  drawing.append(axis);
  return [drawing, element("div", { className: "legend" }, ...names.map((name, place) => key(name, lines[name], place)))];
}

function key(name, line, place) {
  const stroke = svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }, svg("polyline", { class: shape(place), points: "0,5 26,5" }));
  return element("span", {}, stroke, `${arrows(name)} ${line.at(-1)[1].toFixed(2)}`);
}

// -- samples -----------------------------------------------------------------------------------------------------

function drawSamples(samples) {
  const told = JSON.stringify(samples);
  if (told === live.samples) return;
  live.samples = told;
  byId("samples-at").textContent = samples ? `at update ${samples.update.toLocaleString("en")}` : "";
  const rows = samples?.rows ?? [];
  byId("samples").replaceChildren(...(rows.length ? rows.map(sample)
    : [element("p", { className: "quiet" }, samples ? "there is no validation text" : "nothing yet")]));
}

function sample(row) {
  const [source, target] = row.direction.split(">");
  const list = element("dl");
  for (const [name, language, text] of [["source", source, row.source], ["translation", target, row.said], ["reference", target, row.reference]]) {
    list.append(element("dt", {}, name), speech("dd", language, text || "(nothing)"));
  }
  return element("div", { className: "card sample" }, element("span", { className: "route" }, arrows(row.direction)), list);
}
