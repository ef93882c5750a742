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
  for (const section of document.querySelectorAll(".document"))
    section.hidden = (text.value || answer.value || worst.checked) && !section.querySelector(".claim:not([hidden])");
  form.querySelector("[role=status]").textContent = `${shown} of ${claims.length} claims`;
}

function order() {
  const places = claims.map((claim, place) => [worst.checked ? Number(claim.dataset.worst) : 0, place]);
  places.sort((one, other) => one[0] - other[0] || one[1] - other[1]);
  for (const [, place] of places) (worst.checked ? home[0] : home[place]).append(claims[place]);
  show();
}

if (claims.length) form.hidden = false;
text.addEventListener("input", show);
answer.addEventListener("change", show);
worst.addEventListener("change", order);
show();

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
