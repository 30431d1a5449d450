// The two pages that change by themselves: the list of campaigns, and the running campaign. Texts and charts come from the server; here
// they are only put in their places, as text and never as markup.

interface View {
  stage: "joining" | "measuring" | "resting" | "ended" | "interrupted" | "unreachable";
  trial: number | null; n_ended: number; n_trials: number; n_failed: number;
  left: string; workloads: string; ends: [string, string] | null; point: string;
  figures: {
    goodput: string | null; ceiling: string | null; cpu: string | null; rtt: string | null; response: string | null;
    requests: string | null; retransmits: string | null; loss: string | null;
  };
  bar: number | null; rates: object | null; times: object | null; incidents: string[]; n_incidents: number;
}

const STAGES = {
  joining: "Reaching the hosts", measuring: "Measuring", resting: "Between trials", ended: "Ended",
  interrupted: "Stopped without an end", unreachable: "Not reachable, trying again",
};
/** Pause before a refused connection is tried again, ms. A browser repeats only those that broke. */
const RETRY = 3000;

/**
 * Listens to the events of an address while the page is visible. `lost` is called when the connection broke. An event `end` ends it.
 */
function listen(address: string, news: (data: string) => void, lost: () => void = () => {}, ended: () => void = () => {}): void {
  let source: EventSource | null = null;
  let waiting = 0;
  let over = false;
  const close = () => {
    clearTimeout(waiting);
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    if (over || document.hidden) return;
    const mine = (source = new EventSource(address));
    mine.onmessage = (event) => news(event.data as string);
    mine.onerror = () => {
      if (mine !== source) return;
      lost();
      if (mine.readyState === EventSource.CLOSED) waiting = setTimeout(open, RETRY);
    };
    mine.addEventListener("end", () => {
      over = true;
      close();
      ended();
    });
  };
  document.addEventListener("visibilitychange", open);
  // A page that the browser kept for the way back has no connection.
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
}

/** Runs `work`, and once more if it was asked for meanwhile: never twice at the same time. */
function single(work: () => Promise<void>): () => void {
  let running = false;
  let again = false;
  const run = async () => {
    again = running;
    if (running) return;
    running = true;
    try {
      await work();
    } catch {
      // The server is away for a moment; the next event comes when it is back.
    }
    running = false;
    if (again) void run();
  };
  return () => void run();
}

/** Replaces the list by that of the same page as it is now; the focus stays where it is. */
async function renew(list: HTMLElement): Promise<void> {
  const answer = await fetch(location.href);
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById(list.id);
  if (!fresh || fresh.innerHTML === list.innerHTML) return;
  const focused = document.activeElement?.getAttribute("href");
  list.replaceChildren(...fresh.childNodes);
  if (focused) list.querySelector<HTMLElement>(`[href="${CSS.escape(focused)}"]`)?.focus();
}

function follow(live: HTMLElement): void {
  const field = (name: string) => live.querySelector<HTMLElement>(`[data-field="${name}"]`)!;
  const write = (name: string, text: string) => {
    const place = field(name);
    if (place.textContent !== text) place.textContent = text;
  };
  const draw = (name: string, spec: object | null) => {
    document.dispatchEvent(new CustomEvent("linerate-chart", { detail: { box: field(name), spec } }));
  };
  const show = (view: View) => {
    const { figures } = view;
    live.dataset.stage = view.stage;
    write("stage", STAGES[view.stage]);
    const progress = field("progress") as HTMLProgressElement;
    progress.max = Math.max(1, view.n_trials);
    progress.value = view.n_ended;
    write("count", `${view.n_ended} of ${view.n_trials} trials${view.n_failed ? `, ${view.n_failed} failed` : ""}`);
    write("left", !view.left || view.stage === "ended" || view.stage === "interrupted" ? "" : `${view.left} left`);
    write("goodput", figures.goodput ?? "–");
    write("ceiling", figures.ceiling ?? "no known ceiling");
    field("bar").style.width = `${view.bar ?? 0}%`;
    const requests = figures.requests !== null;
    write("time-name", requests ? "Response time, p99" : "Round-trip time under load");
    write("time", (requests ? figures.response : figures.rtt) ?? "–");
    write("requests", requests ? `${figures.requests} requests` : "");
    write("lost-name", figures.loss === null ? "Retransmits" : "Datagrams lost");
    write("lost", figures.loss ?? figures.retransmits ?? "–");
    write("cpu", figures.cpu ?? "–");
    write("ends", view.ends ? view.ends.join(" | ") : "");
    const place = view.point ? `, ${view.point}` : "";
    write("what", view.trial === null ? "Trial" : `Trial ${view.trial}: ${view.workloads}${place}`);
    draw("rates", view.rates);
    draw("times", view.times);
    const incidents = field("incidents");
    live.querySelector<HTMLElement>(".incidents")!.hidden = view.incidents.length === 0;
    const texts = view.incidents.map((text) => Object.assign(document.createElement("li"), { textContent: text }));
    const hidden = view.n_incidents - view.incidents.length;
    if (hidden > 0) texts.push(Object.assign(document.createElement("li"), { textContent: `${hidden} earlier ones` }));
    incidents.replaceChildren(...texts);
  };
  const lost = () => {
    live.dataset.stage = "unreachable";
    write("stage", "No connection to the dashboard, trying again");
  };
  const ended = () => {
    if (live.dataset.stage === "interrupted") return;
    live.dataset.stage = "ended";
    write("stage", STAGES.ended);
    write("left", "");
  };
  listen(live.dataset.live!, (data) => show(JSON.parse(data) as View), lost, ended);
}

const list = document.getElementById("campaigns");
if (list) listen("/changes", single(() => renew(list)));
const live = document.querySelector<HTMLElement>("[data-live]");
if (live) follow(live);
