// Find and order the claims. Without this script the page is complete: the form is hidden, and every claim is shown.
const form = document.getElementById("find");
const [text, worst] = form.querySelectorAll("input");
const answer = form.querySelector("select");
const claims = [...document.querySelectorAll(".claim")];
const home = claims.map((claim) => claim.parentNode);

function show() {
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const claim of claims) {
    const said = claim.textContent.toLowerCase();
    const fits = words.every((word) => said.includes(word)) && (!answer.value || claim.dataset.answer === answer.value);
    claim.hidden = !fits;
    shown += fits;
  }
  for (const list of document.querySelectorAll(".untried")) {
    list.hidden = answer.value && list.dataset.answer !== answer.value;
    list.open = answer.value && !list.hidden;
  }
  for (const section of document.querySelectorAll(".document"))
    section.hidden =
      (text.value || answer.value || worst.checked) && !section.querySelector(".claim:not([hidden]), .untried[open]");
  form.querySelector("[role=status]").textContent = `${shown} of ${claims.length} claims`;
}

// The filter is in the address, so that it can be sent: #filter=VIOLATED&text=kill
function write() {
  const filter = new URLSearchParams();
  if (answer.value) filter.set("filter", answer.value);
  if (text.value) filter.set("text", text.value);
  history.replaceState(null, "", `#${filter}`);
  show();
}

function read() {
  const filter = new URLSearchParams(location.hash.slice(1));
  if (!filter.has("filter") && !filter.has("text")) return;
  answer.value = filter.get("filter") ?? "";
  text.value = filter.get("text") ?? "";
  show();
  document.getElementById("claims").scrollIntoView();
}

function order() {
  const places = claims.map((claim, place) => [worst.checked ? Number(claim.dataset.worst) : 0, place]);
  places.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  for (const [, place] of places) (worst.checked ? home[0] : home[place]).append(claims[place]);
  show();
}

if (claims.length) form.hidden = false;
text.addEventListener("input", write);
answer.addEventListener("change", write);
worst.addEventListener("change", order);
addEventListener("hashchange", read);
show();

const copy = document.getElementById("copy");
const markdown = document.getElementById("markdown");
copy.hidden = false;
copy.addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(markdown.value);
    copy.textContent = "Copied";
  } catch {
    markdown.hidden = false;
    markdown.select();
  }
});

// Zoom: a double click makes a picture twice as large, + and - change its size, 0 puts it back.
for (const picture of document.querySelectorAll(".picture")) {
  const svg = picture.querySelector("svg");
  const whole = svg.viewBox.baseVal.width;
  let size = 1;
  const zoom = (factor) => {
    size = factor ? Math.min(Math.max(size * factor, 0.5), 8) : 1;
    svg.setAttribute("width", whole * size);
  };
  picture.addEventListener("dblclick", () => zoom(size < 8 ? 2 : 0));
  picture.addEventListener("keydown", (pressed) => {
    const factor = { "+": 1.25, "=": 1.25, "-": 0.8, 0: 0 }[pressed.key];
    if (factor !== undefined) zoom(factor);
  });
}
document.getElementById("zoom").hidden = false;
read();
