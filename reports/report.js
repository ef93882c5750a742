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
