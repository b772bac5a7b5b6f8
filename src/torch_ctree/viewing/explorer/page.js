// The answers of one model. All of them are in the page; here is what chooses between them. `element`, `watch` and
// `trigger` come from Gradio. Nothing of what is shown is read as HTML here.

const answers = () => [...element.querySelectorAll(".answer")];
const seen = () => answers().find((answer) => !answer.hidden);
const vertices = (answer) => [...answer.querySelectorAll("g.vertex")];

let place = 0; // which answer is seen
const paths = []; // of the vertex that is chosen in each

function choose(answer, path) {
  paths[answers().indexOf(answer)] = path;
  for (const vertex of vertices(answer)) {
    const chosen = vertex.dataset.path === path;
    vertex.classList.toggle("chosen", chosen);
    vertex.setAttribute("aria-pressed", chosen);
    vertex.setAttribute("tabindex", chosen ? 0 : -1); // one stop for the tab key; arrows go on from there
  }
  for (const panel of answer.querySelectorAll(".panel")) panel.hidden = panel.dataset.path !== path;
}

function see(n) {
  place = n;
  answers().forEach((answer, m) => (answer.hidden = m !== n));
  const [before, after] = element.querySelectorAll("[data-move]");
  if (!before) return;
  before.disabled = n === 0;
  after.disabled = n === answers().length - 1;
  element.querySelector(".place").textContent = answers()[n].dataset.place;
}

function move(button) {
  see(answers().indexOf(seen()) + Number(button.dataset.move));
  if (button.disabled) element.querySelector("[data-move]:not([disabled])").focus();
}

// Left and right stay on a level, as it is seen; up and down follow the lines.
function beside(vertex, key) {
  const path = vertex.dataset.path;
  const steps = path === "" ? [] : path.split(".");
  const find = (wanted) => vertices(seen()).find((other) => other.dataset.path === wanted);
  if (key === "ArrowUp") return steps.length ? find(steps.slice(0, -1).join(".")) : null;
  if (key === "ArrowDown") return find([...steps, 0].join("."));
  const level = (other) => (other.dataset.path === "" ? 0 : other.dataset.path.split(".").length);
  const same = vertices(seen()).filter((other) => level(other) === steps.length);
  same.sort((a, b) => a.getBoundingClientRect().x - b.getBoundingClientRect().x);
  return same[same.indexOf(vertex) + (key === "ArrowLeft" ? -1 : 1)];
}

function save(button) {
  const answer = button.closest(".answer");
  const ending = button.dataset.save;
  const text = ending === "svg" ? drawing(answer) : answer.querySelector(`[data-file="${ending}"]`).textContent;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: ending === "svg" ? "image/svg+xml" : "text/plain" }));
  link.download = `tree.${ending}`;
  link.click();
  URL.revokeObjectURL(link.href);
}

// A picture has nothing to press.
function drawing(answer) {
  const copy = answer.querySelector(".tree svg").cloneNode(true);
  for (const vertex of copy.querySelectorAll("g.vertex")) {
    vertex.classList.remove("chosen");
    for (const name of ["tabindex", "role", "aria-pressed"]) vertex.removeAttribute(name);
  }
  return new XMLSerializer().serializeToString(copy);
}

element.addEventListener("click", (event) => {
  const vertex = event.target.closest("g.vertex");
  const button = event.target.closest("button");
  if (vertex) choose(vertex.closest(".answer"), vertex.dataset.path);
  else if (button?.dataset.move) move(button);
  else if (button?.dataset.save) save(button);
});

element.addEventListener("keydown", (event) => {
  const vertex = event.target.closest("g.vertex");
  if (!vertex || event.ctrlKey || event.altKey || event.metaKey) return;
  const isPress = event.key === "Enter" || event.key === " ";
  const next = isPress ? vertex : event.key.startsWith("Arrow") ? beside(vertex, event.key) : null;
  if (!next) return;
  event.preventDefault();
  choose(next.closest(".answer"), next.dataset.path);
  next.focus();
});

// Where the answers are those of before, drawn otherwise, one stays where one was.
let before = [];

function begin() {
  const now = answers().map((answer) => `${answer.dataset.place} ${answer.querySelector(".text").textContent}`);
  const isSame = now.length > 0 && now.join("\n") === before.join("\n");
  answers().forEach((answer, n) => {
    const path = (isSame && paths[n]) || "";
    choose(answer, vertices(answer).some((vertex) => vertex.dataset.path === path) ? path : "");
  });
  if (now.length) see(isSame ? place : 0);
  before = now;
}

watch("value", begin);
begin();
