"use strict";
(() => {
  const turns = [...document.querySelectorAll("details.turn")];
  const heading = document.getElementById("turns");

  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const seconds = (value) => {
    if (value >= 60) return `${Math.floor(value / 60)} min ${(value % 60).toFixed(1)} s`;
    return value >= 0.1 ? `${value.toFixed(2)} s` : value ? `${(value * 1000).toFixed(1)} ms` : "0";
  };
  for (const lanes of document.querySelectorAll(".lanes")) {
    const scale = lanes.querySelector(".scale");
    const range = make("input", { type: "range", min: 0, max: 6, step: 1, value: 0 });
    const factor = make("output", { className: "dim", value: "1 times" });
    range.addEventListener("input", () => {
      const zoom = 2 ** Number(range.value);
      const middle = (lanes.scrollLeft + lanes.clientWidth / 2) / lanes.scrollWidth;
      lanes.style.setProperty("--zoom", zoom);
      const whole = Number(scale.dataset.seconds);
      scale.replaceChildren(...Array.from({ length: 4 * zoom + 1 }, (_, part) => make("span", {}, seconds((whole * part) / (4 * zoom)))));
      lanes.scrollLeft = middle * lanes.scrollWidth - lanes.clientWidth / 2;
      factor.value = `${zoom} times`;
    });
    lanes.before(make("div", { className: "zoom" }, make("label", {}, "Zoom ", range), factor));
  }
  if (!heading || turns.length < 2) return;

  const failures = () => [...document.querySelectorAll(".call.failed, .turn.bad > article > .who .wrong")]
    .filter((element) => !element.closest("[hidden]"));
  const reveal = (element) => {
    for (let place = element; place; place = place.parentElement) if (place.tagName === "DETAILS") place.open = true;
  };

  const names = [...new Set(turns.flatMap((turn) => (turn.dataset.tools || "").split(" ").filter(Boolean)))].sort();
  const text = make("input", { type: "search", placeholder: "text" });
  const tool = make("select", {}, make("option", { value: "" }, "all tools"), ...names.map((name) => make("option", { value: name }, name)));
  const failed = make("input", { type: "checkbox" });
  const count = make("output", { className: "dim" });
  const next = make("button", { type: "button" }, "Next failure");
  const fold = make("button", { type: "button" }, "Unfold all");

  const filter = () => {
    const wanted = text.value.trim().toLowerCase();
    let shown = 0;
    for (const turn of turns) {
      const fits = (!tool.value || turn.dataset.tools.split(" ").includes(tool.value))
        && (!failed.checked || turn.classList.contains("bad"))
        && (!wanted || turn.textContent.toLowerCase().includes(wanted));
      turn.hidden = !fits;
      shown += fits;
    }
    const filtered = shown < turns.length;
    for (const group of document.querySelectorAll("details.group")) {
      const left = [...group.querySelectorAll("details.turn")].some((turn) => !turn.hidden);
      group.hidden = !left;
      if (filtered && left) group.open = true;
    }
    count.value = filtered ? `${shown} of ${turns.length} turns` : "";
  };
  let waiting = 0;
  const filterSoon = () => { clearTimeout(waiting); waiting = setTimeout(filter, 120); };
  text.addEventListener("input", filterSoon);
  tool.addEventListener("change", filter);
  failed.addEventListener("change", filter);

  let place = -1;
  next.addEventListener("click", () => {
    const found = failures();
    if (!found.length) { count.value = "no failures"; return; }
    place = (place + 1) % found.length;
    reveal(found[place]);
    found[place].tabIndex = -1;
    found[place].focus({ preventScroll: true });
    found[place].scrollIntoView({ block: "center" });
    count.value = `failure ${place + 1} of ${found.length}`;
  });
  fold.addEventListener("click", () => {
    const open = fold.textContent === "Unfold all";
    for (const element of document.querySelectorAll("details.turn, details.group")) element.open = open;
    fold.textContent = open ? "Fold all" : "Unfold all";
  });

  heading.after(make("div", { className: "tools", role: "search" },
    make("label", {}, "Filter ", text), make("label", {}, "Tool ", tool), make("label", {}, failed, " failures only"), next, fold, count));
})();
