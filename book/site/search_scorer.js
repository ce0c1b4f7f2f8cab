// Order of search results. Sphinx ranks a page by its single best word; here those pages come first
// whose title has most words in common with the query, because guard pages are headed by the exact
// error text and people paste that. `Scorer` is the name that Sphinx looks for.
const wordsOf = (text) =>
  new Set(text.toLowerCase().match(/[\p{Letter}_][\p{Letter}\p{Number}_]*/gu) ?? []);

const sharedWords = (one, other) => {
  const common = [...one].filter((word) => other.has(word)).length;
  return (2 * common) / Math.max(1, one.size + other.size);
};

var Scorer = {
  score: ([, title, , , score]) => {
    const query = new URLSearchParams(window.location.search).get("q") ?? "";
    return score + 100 * sharedWords(wordsOf(query), wordsOf(title));
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
