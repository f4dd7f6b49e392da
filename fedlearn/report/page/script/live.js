// A live page: sections that have changed are put in place.
const address = document.body.dataset.stream;
if (address) {
  const state = element("div", "");
  state.id = "link";
  state.setAttribute("role", "status");
  document.body.append(state);
  const known = new Map();

  const replace = (id, html) => {
    const section = document.getElementById(id);
    if (!section || known.get(id) === html) return;
    known.set(id, html);
    const opened = new Map([...section.querySelectorAll("details[id]")].map((each) => [each.id, each.open]));
    section.innerHTML = html;
    for (const each of section.querySelectorAll("details[id]")) {
      if (opened.has(each.id)) each.open = opened.get(each.id);
    }
  };

  const stream = new EventSource(address);
  stream.onopen = () => { state.textContent = "connected"; };
  stream.onerror = () => { state.textContent = "connection lost, trying again"; };
  stream.onmessage = (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) replace(id, html);
    apply();
  };
  stream.addEventListener("end", () => {
    stream.close();
    state.textContent = "the run has ended";
  });
}
