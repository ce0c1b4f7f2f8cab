// Order of search results. Sphinx ranks a page by its single best word; here those pages come first
// whose title has most words in common with the query, because guard pages are headed by the exact
// error text and people paste that; a guard's id finds its own page. `Scorer` is the name that
// Sphinx looks for.
const wordsOf = (text) =>
  new Set(text.toLowerCase().match(/[\p{Letter}_][\p{Letter}\p{Number}_]*/gu) ?? []);

// A title in the index is HTML.
const wordsOfTitle = (title) => wordsOf(title.replace(/<[^>]*>/g, " "));

const sharedWords = (one, other) => {
  const common = [...one].filter((word) => other.has(word)).length;
  return (2 * common) / Math.max(1, one.size + other.size);
};

// Sphinx wants every word of a query on the page, and a line of a log holds more than the message:
// a time, a rank, "Scheduler hit an exception". Where a query holds most words of a title it is taken
// for that message, and its other words are left out.
const narrowed = (query, titles) => {
  const words = wordsOf(query);
  const common = (title) => [...title].filter((word) => words.has(word)).length;
  const [best] = titles
    .map(wordsOfTitle)
    .filter((title) => title.size > 2 && common(title) >= 0.7 * title.size)
    .sort((one, other) => sharedWords(words, other) - sharedWords(words, one));
  return best ? [...words].filter((word) => best.has(word)).join(" ") : query;
};

if (typeof Search !== "undefined") {
  const parse = Search._parseQuery;
  Search._parseQuery = (query) => parse(narrowed(query, Search._index.titles));

  // The lines below a hit are of the article: Sphinx takes the buttons and the list beside it too.
  const toText = Search.htmlToText;
  Search.htmlToText = (html, anchor) => {
    const page = new DOMParser().parseFromString(html, "text/html");
    const article = page.querySelector("article.bd-article");
    const part = (anchor && page.getElementById(anchor.slice(1))) || article;
    if (!part) return toText(html, anchor);
    for (const node of part.querySelectorAll("h1, .headerlink, .mxlab-explorer, script, style")) {
      node.remove();
    }
    return part.textContent.replace(/\s+/g, " ");
  };
}

var Scorer = {
  score: ([page, title, , , score]) => {
    const query = (new URLSearchParams(window.location.search).get("q") ?? "").trim();
    const named = page.endsWith(`/${query}`) ? 1000 : 0;
    return score + named + 100 * sharedWords(wordsOf(query), wordsOfTitle(title));
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
