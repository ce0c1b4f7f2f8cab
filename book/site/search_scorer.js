// Order of search results. People paste an error, or a part of one that they remember. So the words
// of a query are first held against the text of every message, in their order; the pages whose
// messages have most of them come first. Sphinx, which wants every word of a query somewhere on a
// page and knows no order, finds what follows. `Scorer` is the name that it looks for.

// [page, message, ...] of every guard, {field} where a message has a value; put here at build.
const MESSAGES = [];

const FIELD = null; // stands for a value: some words of the query that may be anything
const LONGEST = 400; // tokens of a query: a pasted log is not read to its end

const WORDS = /(?<=\d)x(?=\d)|[\p{Letter}_][\p{Letter}\p{Number}_]*|\d+|[%=<>!*]+/gu;
const tokens = (text) => text.toLowerCase().match(WORDS) ?? [];

// A message's tokens, with its fields.
const pattern = (text) => text.split(/\{[^{}]*\}/)
  .flatMap((part, at) => (at ? [FIELD, ...tokens(part)] : tokens(part)));

const isNumber = (token) => /^\d/.test(token);

// A token is worth more the fewer messages have it.
const weights = (messages) => {
  const holders = new Map();
  for (const one of messages) {
    for (const token of new Set(one)) holders.set(token, (holders.get(token) ?? 0) + 1);
  }
  return (token) => (token === FIELD ? 0 : Math.log((2 * messages.length) / (holders.get(token) ?? 1)));
};

// The worth of the best run of words that a query and a message share, in one order without gaps.
// A field takes words at a small price each, and another number is another version's limit. The
// first and the last word may be cut.
const shared = (query, message, worth) => {
  let best = 0;
  let before = new Array(message.length + 1).fill(0);
  query.forEach((word, at) => {
    const row = new Array(message.length + 1).fill(0);
    message.forEach((token, j) => {
      const begun = before[j];
      const cut = (at === 0 && word.length > 2 && token?.endsWith(word))
        || (at === query.length - 1 && word.length > 1 && token?.startsWith(word));
      if (token === FIELD) row[j + 1] = Math.max(0, begun, before[j + 1] - 0.2);
      else if (token === word) best = Math.max(best, (row[j + 1] = begun + worth(token)));
      else if (cut) best = Math.max(best, (row[j + 1] = begun + 0.8 * worth(token)));
      else if (isNumber(word) && isNumber(token)) row[j + 1] = Math.max(0, begun - 0.5);
    });
    before = row;
  });
  return best;
};

let known; // the messages as tokens, made at the first search
const prepared = () => {
  if (known) return known;
  const rows = MESSAGES.flatMap(([page, ...texts]) =>
    texts.map((text) => ({ page, words: pattern(text) })));
  const worth = weights(rows.map((row) => row.words));
  const total = (words) => words.reduce((sum, token) => sum + worth(token), 0);
  return (known = { rows: rows.map((row) => ({ ...row, total: total(row.words) })), worth, total });
};

// Pages of messages that hold most of the query, or are mostly held by it: [page, score].
const messagesOf = (query) => {
  const { rows, worth, total } = prepared();
  const words = tokens(query).slice(0, LONGEST);
  if (words.length < 2) return [];
  const asked = total(words);
  // one word alone is Sphinx's to find, but where it is all of a message
  const least = Math.max(...words.map(worth));
  const found = new Map();
  for (const { page, words: message, total: whole } of rows) {
    const score = shared(words, message, worth);
    const most = Math.max(score / asked, score / whole);
    // of two that hold the same words the shorter one says less besides
    const rank = score + score / whole;
    const enough = score > least || (message.length === 1 && score === whole);
    if (enough && most >= 0.6 && rank > (found.get(page) ?? 0)) found.set(page, rank);
  }
  return [...found].sort((one, other) => other[1] - one[1]).slice(0, 20);
};

const wordsOf = (text) => new Set(tokens(text.replace(/<[^>]*>/g, " "))); // a title is HTML

const sharedWords = (one, other) => {
  const common = [...one].filter((word) => other.has(word)).length;
  return (2 * common) / Math.max(1, one.size + other.size);
};

if (typeof Search !== "undefined") {
  // Results go from the worst to the best.
  const perform = Search._performSearch;
  Search._performSearch = (query, ...terms) => {
    const { docnames, titles } = Search._index;
    const asked = wordsOf(query); // of guards with one text, the one whose example is more like it
    const like = (page) => sharedWords(asked, wordsOf(titles[docnames.indexOf(page)] ?? ""));
    const first = messagesOf(query).sort((one, other) =>
      other[1] - one[1] || like(other[0]) - like(one[0]));
    const pages = new Set(first.map(([page]) => page));
    const rest = perform(query, ...terms).filter(([page]) => !pages.has(page));
    const results = first.map(([page, score]) =>
      [page, titles[docnames.indexOf(page)], "", null, score, `${page}.md`]);
    return [...rest, ...results.reverse()];
  };

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
    return score + named + 100 * sharedWords(wordsOf(query), wordsOf(title));
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
