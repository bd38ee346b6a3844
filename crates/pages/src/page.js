(() => {
"use strict";
const all = (what, from = document) => [...from.querySelectorAll(what)];
const values = (id) => { const at = document.getElementById(id); return at ? JSON.parse(at.textContent) : null; };
document.documentElement.classList.add("js");

// Four significant digits, as everywhere on the page.
const ns = (value) => {
  const size = Math.abs(value);
  const [by, unit] = size < 1e3 ? [1, "ns"] : size < 999950 ? [1e3, "µs"] : size < 999.95e6 ? [1e6, "ms"] : [1e9, "s"];
  const shown = size / by;
  const digits = by === 1 && Number.isInteger(value) ? 0 : shown < 9.9995 ? 3 : shown < 99.995 ? 2 : shown < 999.95 ? 1 : 0;
  return (value < 0 ? "−" : "") + shown.toFixed(digits) + " " + unit;
};

// Evidence.
for (const button of all("[data-open]")) {
  const text = button.textContent;
  let open = false;
  button.addEventListener("click", () => {
    open = !open;
    for (const one of all(button.dataset.open)) one.open = open;
    button.textContent = open ? "Close all evidence" : text;
  });
}
const reveal = () => {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  const details = target && target.querySelector("details");
  if (details && target.classList.contains("finding")) details.open = true;
};
addEventListener("hashchange", reveal);
reveal();
addEventListener("beforeprint", () => { for (const one of all(".finding details")) one.open = true; });

for (const button of all(".copy")) {
  button.addEventListener("click", async () => {
    const code = button.parentElement.querySelector("code");
    let done = "copied";
    try { await navigator.clipboard.writeText(code.textContent); } catch {
      getSelection().selectAllChildren(code);
      done = "selected";
    }
    button.textContent = done;
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}

// Search and order of tables.
for (const finder of all(".finder")) {
  const body = finder.querySelector("tbody");
  const rows = [...body.rows];
  const input = finder.querySelector("input");
  const count = finder.querySelector("output");
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) left += 1;
    }
    count.textContent = words.length ? left + " of " + rows.length + " rows" : "";
  });
  all("th[data-sort]", finder).forEach((head) => {
    if (!head.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    const key = (row) => {
      const cell = row.cells[head.cellIndex];
      const number = cell.querySelector("[data-v]");
      return head.dataset.sort === "n" ? (number ? Number(number.dataset.v) : -Infinity) : cell.textContent.trim().toLowerCase();
    };
    button.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort");
      const up = was ? was === "descending" : head.dataset.sort !== "n";
      for (const other of all("th", finder)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const order = rows.map((row, at) => [key(row), at, row]);
      order.sort((a, b) => (a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0) * (up ? 1 : -1) || a[1] - b[1]);
      body.append(...order.map((entry) => entry[2]));
    });
  });
}

// Search in the flame graph.
for (const flame of all(".flame")) {
  const svg = flame.querySelector("svg");
  const frames = all("rect", svg).filter((rect) => rect.firstElementChild);
  const input = flame.querySelector("input");
  const count = flame.querySelector("output");
  input.addEventListener("input", () => {
    const word = input.value.trim().toLowerCase();
    svg.classList.toggle("searching", word !== "");
    let hits = 0;
    for (const rect of frames) {
      const hit = word !== "" && rect.firstElementChild.textContent.split("\n")[0].toLowerCase().includes(word);
      rect.classList.toggle("hit", hit);
      if (hit) hits += 1;
    }
    count.textContent = word ? hits + " of " + frames.length + " frames" : "";
  });
}

// Timelines: one view for all steps.
const timelines = document.getElementById("timelines");
if (timelines) {
  const length = Number(timelines.dataset.length);
  const names = values("span-names") || [];
  const lanes = all(".spans", timelines).map((svg) => ({
    svg,
    height: Number(svg.getAttribute("height")),
    spans: all("path[data-n]", svg).map((path) => {
      const [from, y, long] = path.getAttribute("d").match(/-?\d+/g).map(Number);
      return { path, from, long, y, name: names[Number(path.dataset.n)] || "" };
    }),
  }));
  const ruler = timelines.querySelector(".ruler");
  const readout = timelines.querySelector(".readout");
  let from = 0;
  let to = length;
  const label = () => {
    for (const lane of lanes) {
      const area = lane.svg.parentElement;
      for (const old of all(".tag", area)) old.remove();
      const scale = area.clientWidth / (to - from);
      for (const span of lane.spans) {
        const left = Math.max(span.from, from);
        const room = (Math.min(span.from + span.long, to) - left) * scale;
        if (room < 44) continue;
        const tag = document.createElement("span");
        tag.className = "tag";
        tag.textContent = span.name;
        tag.style.cssText = `left:${(left - from) * scale}px;width:${room}px;top:${span.y - 7}px`;
        const [r, g, b] = (getComputedStyle(span.path).stroke.match(/[\d.]+/g) || []).map(Number);
        const unit = getComputedStyle(span.path).stroke.startsWith("color(") ? 255 : 1;
        if ((0.299 * r + 0.587 * g + 0.114 * b) * unit < 140) tag.classList.add("on-dark");
        area.append(tag);
      }
    }
  };
  const show = () => {
    for (const lane of lanes) lane.svg.setAttribute("viewBox", `${from} 0 ${to - from} ${lane.height}`);
    const least = (to - from) / Math.max(2, Math.min(8, ruler.clientWidth / 110));
    const power = 10 ** Math.floor(Math.log10(least));
    const step = Math.max(1, [1, 2, 5, 10].map((by) => by * power).find((one) => one >= least));
    ruler.replaceChildren();
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      const tick = document.createElement("i");
      tick.style.left = `${(100 * (at - from)) / (to - from)}%`;
      tick.textContent = at === 0 ? "0" : Number(ns(at).split(" ")[0].replace("−", "-")) + " " + ns(at).split(" ")[1];
      ruler.append(tick);
    }
    label();
  };
  let waiting = false;
  const view = (begin, end) => {
    const wide = Math.min(length, Math.max(end - begin, Math.min(length, 200)));
    from = Math.round(Math.min(Math.max(0, begin), length - wide));
    to = Math.round(from + wide);
    if (!waiting) {
      waiting = true;
      requestAnimationFrame(() => { waiting = false; show(); });
    }
  };
  const zoom = (by, at = (from + to) / 2) => view(at - (at - from) * by, at + (to - at) * by);
  const move = (by) => view(from + (to - from) * by, to + (to - from) * by);
  const act = { in: () => zoom(0.5), out: () => zoom(2), left: () => move(-0.25), right: () => move(0.25), all: () => view(0, length) };
  for (const button of all("[data-zoom]", timelines)) button.addEventListener("click", act[button.dataset.zoom]);
  const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", "0": "all" };
  timelines.addEventListener("keydown", (event) => {
    const what = !event.ctrlKey && !event.metaKey && !event.altKey && event.target === timelines && keys[event.key];
    if (what) { act[what](); event.preventDefault(); }
  });
  const time = (svg, x) => { const box = svg.getBoundingClientRect(); return from + ((x - box.left) / box.width) * (to - from); };
  let drag = null;
  for (const { svg, spans } of lanes) {
    const by = new Map(spans.map((span) => [span.path, span]));
    svg.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      zoom(event.deltaY < 0 ? 0.8 : 1.25, time(svg, event.clientX));
      event.preventDefault();
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from, to, wide: svg.clientWidth }; svg.setPointerCapture(event.pointerId); });
    svg.addEventListener("pointermove", (event) => {
      if (!drag) return;
      const by = ((event.clientX - drag.x) / drag.wide) * (drag.to - drag.from);
      view(drag.from - by, drag.to - by);
    });
    for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, () => { drag = null; });
    svg.addEventListener("pointerover", (event) => {
      const span = by.get(event.target);
      if (span) readout.textContent = `${ns(span.long)} at ${ns(span.from)}: ${span.name}`;
    });
  }
  addEventListener("resize", show);
  addEventListener("beforeprint", show);
  show();
}

// Lateness.
const late = values("late-cells");
const heat = document.getElementById("heat");
if (late && heat) {
  const readout = document.getElementById("heat-readout");
  let row = 0;
  let column = -1;
  const read = () => {
    const cell = late.cells[row][column];
    readout.textContent = cell ? `rank ${late.ranks[row]}, step ${cell[0]}: ${ns(cell[1])}` : `rank ${late.ranks[row]}: not recorded`;
  };
  heat.addEventListener("pointermove", (event) => {
    const box = heat.getBoundingClientRect();
    const at = (value, from, size, cells) => Math.min(cells - 1, Math.max(0, Math.floor(((value - from) / size) * cells)));
    row = at(event.clientY, box.top, box.height, late.cells.length);
    column = at(event.clientX, box.left, box.width, late.cells[0].length);
    read();
  });
  heat.parentElement.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!by) return;
    row = Math.min(late.cells.length - 1, Math.max(0, row + by[0]));
    column = Math.min(late.cells[0].length - 1, Math.max(0, column + by[1]));
    read();
    event.preventDefault();
  });
}
})();
